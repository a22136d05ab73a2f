//! `cargo xtask test`: one table of steps, each with a heading and a duration, and one line that sums up.

use crate::args;
use crate::beside::{self, Beside, Summary};
use crate::machine::{self, Machine, Need};
use crate::part::{self, PartTime};
use crate::step_times::StepTimes;
use crate::tally::Tally;
use crate::toolchain::Toolchain;
use crate::wasm::{self, Loader};
use crate::{
    bare_metal, big_endian, book, capi, failures, faults, hardware, layers, package, playground,
    process, rustdoc, setup, tidy, toolchain,
};
use std::fs;
use std::process::{Command, ExitCode};
use std::thread;

/// One step. A new one is a row in [`STEPS`]; cheap ones come first, so that a slip is reported at
/// once.
struct CiStep {
    name: &'static str,
    about: &'static str,
    /// Requirements of the whole step; without one it is skipped, or fails in CI.
    needs: &'static [Need],
    /// Requirements of some tests of the step, which skip themselves, or fail in CI.
    wants: &'static [Need],
    run: fn(&Machine) -> Tally,
    lane: Lane,
}

/// A sequence of steps; all sequences run at the same time. Tests mostly wait, and many builds use one
/// processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lane {
    /// Checks of the source, and the tests of the workspace.
    Main,
    /// Optimized programs and pages, in a process of their own.
    Programs,
    /// Other targets and simulated runs, likewise.
    Others,
    /// Left out unless it is named, as `cargo xtask soak` does.
    Night,
}

const BARE: &str = "thumbv7em-none-eabihf";

/// A unikernel whose standard library has no Unix sockets.
const HERMIT: &str = "x86_64-unknown-hermit";

/// A board without atomic exchanges.
const BARE_SMALL: &str = "thumbv6m-none-eabi";

/// Boards that libraries are compiled for: the one that is measured, and two without atomic exchanges.
const BOARDS: [&str; 3] = [BARE, BARE_SMALL, "riscv32imc-unknown-none-elf"];

/// Features by which public types can be logged on a board.
const DEFMT: &str = "pmi-core/defmt,pmi-link/defmt,pmi-smoltcp/defmt";

/// Words with which cargo builds and runs the tests of the workspace. What writes the JavaScript of modules
/// has none: those that load the modules, in other steps, compile it with features of their own.
pub(crate) const WORKSPACE_TESTS: &str =
    "test --workspace --exclude xtask-bindgen --features pmi-std/tls";

/// Test files that run again with their ranks behind a node server: a run on one host has a queue in its
/// place.
const OVER_A_SOCKET: [&str; 10] = [
    "capi_preload::",
    "capi_server::",
    "demo::",
    "intel::",
    "kvs_limits::",
    "mpich::",
    "openmpi::",
    "pmix_events::",
    "pmix_groups::",
    "pmix_services::",
];

/// Words with which cargo lints the workspace and its tests.
pub(crate) const WORKSPACE_LINTS: &str =
    "clippy --workspace --all-targets --features pmi-std/tls -- -D warnings";

/// Words with which cargo checks the format of the workspace.
pub(crate) const FORMAT: &str = "fmt --all --check";

const STEPS: &[CiStep] = &[
    step("fmt", "the code is formatted", |_| cargo(FORMAT)).needs(&[Need::Rustfmt]),
    step("tidy", "house rules", |_| findings(tidy::check())),
    step("layers", "permitted dependencies between crates and modules", |_| {
        findings(layers::check())
    }),
    step(
        "package",
        "licences, sources and Rust versions of dependencies; archives of the crates",
        |_| {
            findings(package::check().map(|mut found| {
                if found.is_empty() && !package::assemble(false) {
                    found.push("cargo package has failed".into());
                }
                found
            }))
        },
    ),
    step("clippy", "lints, none left", |_| cargo(WORKSPACE_LINTS)).needs(&[Need::Clippy]),
    step("plain", "pmi-host without TLS", |_| {
        cargo("clippy --package pmi-host --no-default-features -- -D warnings")
    })
    .needs(&[Need::Clippy]),
    step("doc", "the documentation builds without a warning", |_| check(&mut rustdoc::command())),
    // With the features of packages that only tests need: without them the crates are built by `release`,
    // `capi`, `sweep` and the steps for other targets, and a second build of everything here would serve no
    // step.
    step("build", "the workspace and its tests build", |_| {
        cargo(&format!("{WORKSPACE_TESTS} --no-run"))
    }),
    step(
        "tests",
        "all tests of the workspace, with those in the documentation; real MPI programs among them",
        |_| {
            let threads = test_threads().to_string();
            let tests = |words: &str| {
                let mut cargo = process::cargo();
                cargo.args(words.split(' ')).env("RUST_TEST_THREADS", &threads);
                cargo
            };
            let mut tally =
                process::count_tests(&mut tests(&format!("{WORKSPACE_TESTS} --no-fail-fast")));
            let parts = "test --package pmi-core --no-default-features --test parts";
            tally += process::count_tests(&mut tests(parts));
            let mut over_a_socket = tests(&format!("{WORKSPACE_TESTS} --no-fail-fast --test * --"));
            over_a_socket.args(OVER_A_SOCKET).env("PMI_HOST_STARTER", "local:1");
            tally += process::count_tests(&mut over_a_socket);
            tally
        },
    )
    .wants(&[Need::Mpich, Need::Hosts, Need::GridEngine, Need::Lwip]),
    step("release", "pmi-host as README builds it, for the tests that start it", |_| {
        tally_of(toolchain::build_host().map(|_| Tally::PASSED))
    })
    .in_lane(Lane::Programs),
    step(
        "instructions",
        "the server executes as many instructions for an operation as it did",
        |_| findings(crate::instructions::check()),
    )
    .needs(&[Need::Valgrind])
    .in_lane(Lane::Programs),
    step("capi", "the C libraries as users get them, and their symbols", |_| {
        findings(capi::check())
    })
    .in_lane(Lane::Programs),
    step("dist", "archive and package of a release, installed into an empty root", |_| {
        findings(crate::dist::check())
    })
    .needs(&[Need::Mpich, Need::Cmake])
    .in_lane(Lane::Programs),
    step("faults", "runs with injected faults end as specified, with the release build", |_| {
        findings(faults::check())
    })
    .in_lane(Lane::Programs),
    step("node", "the modules for browsers behave as on this machine, tested by Node", |machine| {
        tally_of(node(machine))
    })
    .needs(&[Need::Target(wasm::TARGET), Need::Node])
    .in_lane(Lane::Programs),
    step("playground", "the page on which jobs are played, used in a browser", |machine| {
        tally_of(playground::check(machine))
    })
    .needs(playground::BROWSER_NEEDS)
    .in_lane(Lane::Programs),
    step("book", "the book, its links, and the programs of its chapters", |machine| {
        tally_of(book::check(machine))
    })
    .needs(book::NEEDS)
    .in_lane(Lane::Programs),
    step(
        "bare",
        "pmi-core, pmi-link and pmi-client for boards without operating system, and with defmt",
        // Images of other steps have the libraries without logs for the board that is measured.
        |machine| check_all(board_libraries([BARE_SMALL]), machine),
    )
    .needs(&[Need::Target(BARE), Need::Target(BARE_SMALL)])
    .in_lane(Lane::Others),
    step("sizes", "no part of PMI has outgrown its budget on a microcontroller", |machine| {
        findings(crate::sizes::check(machine))
    })
    .needs(&[Need::Target(BARE), Need::Qemu("arm"), Need::Clang])
    .in_lane(Lane::Others),
    step("wasm", "pmi-core and pmi-link for the browser", |machine| WASM_LIBRARY.check(machine))
        .needs(&[Need::Target(wasm::TARGET)])
        .in_lane(Lane::Others),
    step(
        "guests",
        "riscv64 and a board without operating system in jobs with each other, under QEMU",
        bare_metal::check,
    )
    .needs(bare_metal::NEEDS)
    .in_lane(Lane::Others),
    step(
        "hardware",
        "ranks on emulated machines with sockets and memory domains, by the system they run on",
        hardware::check,
    )
    .needs(hardware::NEEDS)
    .in_lane(Lane::Others),
    step("hermit", "the client of pmi-std for a system without Unix sockets", |machine| {
        HERMIT_LIBRARY.check(machine)
    })
    .needs(&[Need::Target(HERMIT)])
    .in_lane(Lane::Night),
    step(
        "big-endian",
        "the tests of the core on an s390x, whose numbers begin with the highest byte",
        big_endian::check,
    )
    .needs(big_endian::NEEDS)
    .in_lane(Lane::Night),
    step("sweep", "simulated jobs and trees of nodes with every fault, by seed", |_| {
        let mut tally = cargo("run --release --package pmi-sim -- sweep --seeds 100");
        // No two of these are alike.
        tally += cargo("run --release --package pmi-sim -- sweep --seeds 2000 random");
        tally += cargo("run --release --package pmi-sim -- tree sweep --seeds 1500");
        tally += cargo("run --release --package pmi-sim -- tree scale --nodes 10000");
        tally += findings(crate::bench::check_simulated());
        tally
    })
    .in_lane(Lane::Others),
];

/// A step without requirements.
const fn step(name: &'static str, about: &'static str, run: fn(&Machine) -> Tally) -> CiStep {
    CiStep { name, about, needs: &[], wants: &[], run, lane: Lane::Main }
}

impl CiStep {
    const fn needs(self, needs: &'static [Need]) -> Self {
        Self { needs, ..self }
    }

    const fn in_lane(self, lane: Lane) -> Self {
        Self { lane, ..self }
    }

    fn all_needs(&self) -> impl Iterator<Item = Need> {
        self.needs.iter().chain(self.wants).copied()
    }

    const fn wants(self, wants: &'static [Need]) -> Self {
        Self { wants, ..self }
    }
}

/// Names and descriptions, for the help page.
pub(crate) fn steps() -> impl Iterator<Item = (&'static str, &'static str)> {
    STEPS.iter().map(|step| (step.name, step.about))
}

/// The requirements of the steps named, or of all, by the names of the steps.
pub(crate) fn needs(names: &[String]) -> Result<Vec<(&'static str, Vec<Need>)>, String> {
    let steps = select(names)?;
    Ok(steps.iter().map(|step| (step.name, step.all_needs().collect())).collect())
}

pub(crate) fn command(names: &[String]) -> Result<ExitCode, String> {
    let steps = select(names)?;
    println!("{}", setup::HEADING);
    let machine = Machine::prepare(steps.iter().flat_map(|step| step.all_needs()));
    let mut lanes = [Lane::Main, Lane::Programs, Lane::Others, Lane::Night]
        .map(|lane| steps.iter().copied().filter(|step| step.lane == lane).collect::<Vec<_>>());
    // This process runs the first sequence that is wanted.
    let own = lanes.iter_mut().find(|lane| !lane.is_empty()).map(std::mem::take);
    let others = lanes.iter().filter(|lane| !lane.is_empty()).map(|lane| {
        let names: Vec<&str> = lane.iter().map(|step| step.name).collect();
        println!("meanwhile: {}", names.join(", "));
        Beside::start(&names)
    });
    let others = others.collect::<Result<Vec<_>, _>>()?;
    let mut summary = run(&own.unwrap_or_default(), &machine);
    // The others write theirs.
    StepTimes::read().write(StepTimes::parse(summary.durations.iter().map(String::as_str)));
    for beside in others {
        summary += beside.finish();
    }
    println!("\n{}{}", beside::DURATIONS, summary.durations.join(", "));
    if names.is_empty() {
        let night = STEPS.iter().filter(|step| step.lane == Lane::Night).map(|step| step.name);
        println!("left to `cargo xtask soak`: {}", night.collect::<Vec<_>>().join(", "));
    }
    for note in &summary.notes {
        println!("{note}");
    }
    println!("{}", summary.total);
    Ok(if summary.total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs steps one after the other.
fn run(steps: &[&CiStep], machine: &Machine) -> Summary {
    let mut summary = Summary::default();
    let times = StepTimes::read();
    let names: Vec<&str> = steps.iter().map(|step| step.name).collect();
    for (at, step) in steps.iter().enumerate() {
        let hint = times.hint(&names[at..]);
        let heading = format_args!("{}: {}{hint}", step.name, step.about);
        let run = || match step.needs.iter().find_map(|need| machine.lack(*need)) {
            Some(why) => {
                println!("not run: {why}");
                machine::verdict_on_lack(machine::in_ci())
            }
            None => (step.run)(machine),
        };
        let (tally, PartTime { seconds, used }) = part::run(heading, run);
        let used = used.as_secs();
        println!("-- {}: {tally} ({seconds:.1} s; {used} s of a processor)", step.name);
        summary.durations.push(format!("{} {seconds:.0}", step.name));
        if tally.failed > 0 || tally.skipped > 0 {
            summary.notes.push(format!("{0}: {tally}; alone: cargo xtask test {0}", step.name));
        }
        summary.notes.extend(failures::take());
        summary.total += tally;
    }
    summary
}

/// The steps named, in the order of the table; when none is named, all but those of the night.
fn select(names: &[String]) -> Result<Vec<&'static CiStep>, String> {
    if let Some(unknown) = names.iter().find(|name| steps().all(|(step, _)| step != name.as_str()))
    {
        return Err(format!("no step {unknown:?}; see `cargo xtask help`"));
    }
    Ok(STEPS
        .iter()
        .filter(|step| match names {
            [] => step.lane != Lane::Night,
            names => names.iter().any(|name| name == step.name),
        })
        .collect())
}

/// Number of tests of one program that run at a time. Most of them wait for processes, and many for a time to
/// pass, so on a small machine there are more than processors.
pub(crate) fn test_threads() -> usize {
    thread::available_parallelism().map_or(TEST_THREADS_MIN, usize::from).max(TEST_THREADS_MIN)
}

const TEST_THREADS_MIN: usize = 4;

/// Runs cargo with the words of `line`.
fn cargo(line: &str) -> Tally {
    check(process::cargo().args(line.split(' ')))
}

fn check(command: &mut Command) -> Tally {
    Tally::of(process::succeeds(command))
}

/// The result of a check, which has failed if it could not be made.
pub(crate) fn tally_of(result: Result<Tally, String>) -> Tally {
    result.unwrap_or_else(|why| {
        println!("{why}");
        failures::note(why);
        Tally::FAILED
    })
}

pub(crate) fn findings(result: Result<Vec<String>, String>) -> Tally {
    let findings = result.unwrap_or_else(|why| vec![why]);
    let tally = Tally::of(findings.is_empty());
    for finding in findings {
        println!("{finding}");
        failures::note(finding);
    }
    tally
}

/// Libraries of packages that are checked for a target. Nobody runs them, and code would take most of the
/// time.
struct TargetLibrary {
    target: &'static str,
    packages: &'static [&'static str],
    features: &'static str,
    /// Crates of the standard library that they may use. Where cargo compiles those, there are no others: a
    /// heap creeping in would not compile.
    crates: &'static str,
}

/// Libraries for `boards`, and those with logs for the one that is measured.
fn board_libraries(
    boards: impl IntoIterator<Item = &'static str>,
) -> impl Iterator<Item = TargetLibrary> {
    let crates = "core";
    let packages = &["pmi-core", "pmi-link", "pmi-client"];
    let plain = move |target| TargetLibrary { target, packages, features: "", crates };
    let packages = &["pmi-core", "pmi-link", "pmi-smoltcp"];
    let logging = TargetLibrary { target: BARE, packages, features: DEFMT, crates };
    boards.into_iter().map(plain).chain([logging])
}

fn check_all(libraries: impl Iterator<Item = TargetLibrary>, machine: &Machine) -> Tally {
    libraries.fold(Tally::default(), |mut tally, library| {
        tally += library.check(machine);
        tally
    })
}

/// `cargo xtask boards`: the libraries for all boards, and the image that QEMU has no machine for.
pub(crate) fn boards(arguments: &[String]) -> Result<ExitCode, String> {
    let [] = args::flags(arguments, "cargo xtask boards", [])?;
    let machine = Machine::prepare(BOARDS.into_iter().map(Need::Target));
    let mut total = check_all(board_libraries(BOARDS), &machine);
    total += bare_metal::rp2040(&machine);
    println!("{total}");
    Ok(if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

const HERMIT_LIBRARY: TargetLibrary = TargetLibrary {
    target: HERMIT,
    packages: &["pmi-std"],
    features: "",
    crates: "std,panic_abort",
};

const WASM_LIBRARY: TargetLibrary = TargetLibrary {
    target: wasm::TARGET,
    packages: &["pmi-core", "pmi-link"],
    features: "",
    crates: "core",
};

impl TargetLibrary {
    fn check(&self, machine: &Machine) -> Tally {
        tally_of(toolchain::choose(self.target, &machine.facts).map(|choice| {
            println!("compiler: {choice}");
            check(&mut self.command(&choice))
        }))
    }

    fn command(&self, choice: &Toolchain) -> Command {
        // Derive macros are compiled once for these and for the modules.
        let profile = wasm::PROFILE;
        let mut cargo = toolchain::cargo(choice, "check", self.target, self.crates, profile);
        cargo.args(["--lib", "--features", self.features]);
        cargo.args(self.packages.iter().flat_map(|package| ["--package", package]));
        cargo
    }
}

/// The package whose module Node runs.
const NODE_MODULE: &str = "pmi-wasm-node";

/// Runs the modules of wasm in Node, and compares the results with those of this machine.
fn node(machine: &Machine) -> Result<Tally, String> {
    let directory = wasm::module(machine, NODE_MODULE, None, Loader::Node)?;
    let host = toolchain::build_host()?;
    let words = ["run", "--release", "--quiet", "--package", "pmi-sim", "--", "hashes"];
    let hashes = process::output(process::cargo().args(words))?;
    fs::write(directory.join("hashes.txt"), hashes).map_err(|error| error.to_string())?;
    let mut node = process::node();
    node.args(["--test", "--test-reporter=tap", "wasm/node/tests/"]).env("PMI_WASM", directory);
    // The one that the tests above have started as well.
    node.env("PMI_HOST", host);
    Ok(process::count_tests(&mut node))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_selected_by_name_in_the_order_of_the_table() {
        let names = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            select(&names).map(|steps| steps.iter().map(|step| step.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["tests", "fmt"]), Ok(vec!["fmt", "tests"]));
        let of_the_day = names(&[]).unwrap();
        assert!(of_the_day.contains(&"tests") && !of_the_day.contains(&"hermit"));
        assert_eq!(names(&["hermit"]), Ok(vec!["hermit"]));
        assert!(names(&["fmt", "typo"]).is_err_and(|why| why.contains("typo")));
    }

    #[test]
    fn test_files_over_a_socket_are_there() {
        for suite in OVER_A_SOCKET {
            let file = suite.replace("::", ".rs");
            assert!(process::root().join("host-std/tests").join(&file).exists(), "{file}");
        }
    }

    #[test]
    fn finding_and_a_check_that_cannot_run_both_fail() {
        assert_eq!(findings(Ok(Vec::new())), Tally::PASSED);
        assert_eq!(findings(Ok(vec!["a.rs:1: something".into()])), Tally::FAILED);
        assert_eq!(findings(Err("no git".into())), Tally::FAILED);
    }
}
