//! `cargo xtask test`: one table of steps, each with a heading and a duration, and one line that sums up.

use crate::early_build::{self, EarlyBuild, EarlyBuilds};
use crate::machine::{self, Machine, Need};
use crate::tally::Tally;
use crate::toolchain::Toolchain;
use crate::wasm::{self, Loader};
use crate::{
    bare_metal, big_endian, book, capi, failures, faults, fuzz, layers, package, playground,
    process, processes, rustdoc, tidy, toolchain,
};
use std::fs;
use std::process::{Command, ExitCode};
use std::thread;
use std::time::Instant;

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
    /// Builds of the step that are made beside the [`TESTS`], which mostly wait.
    builds: fn(&Machine) -> Result<Vec<Command>, String>,
}

const BARE: &str = "thumbv7em-none-eabihf";

/// A unikernel whose standard library has no Unix sockets.
const HERMIT: &str = "x86_64-unknown-hermit";

/// Boards that are compiled for: the one that is measured, and two without atomic exchanges.
const BOARDS: [&str; 3] = [BARE, "thumbv6m-none-eabi", "riscv32imc-unknown-none-elf"];

/// Features by which public types can be logged on a board.
const DEFMT: &str = "pmi-core/defmt,pmi-link/defmt,pmi-smoltcp/defmt";

/// The step whose build begins with the first step.
const RELEASE: &str = "release";

/// Words with which cargo builds and runs the tests of the workspace.
const WORKSPACE_TESTS: &str = "test --workspace --features pmi-std/tls";

/// The step beside which builds for later steps are made.
const TESTS: &str = "tests";

const STEPS: &[CiStep] = &[
    step("fmt", "the code is formatted", |_| cargo("fmt --all --check")).needs(&[Need::Rustfmt]),
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
    step("clippy", "lints, none left", |_| {
        cargo("clippy --workspace --all-targets --features pmi-std/tls -- -D warnings")
    })
    .needs(&[Need::Clippy]),
    step("plain", "pmi-host without TLS", |_| {
        cargo("clippy --package pmi-host --no-default-features --all-targets -- -D warnings")
    })
    .needs(&[Need::Clippy]),
    step("doc", "the documentation builds without a warning", |_| check(&mut rustdoc::command())),
    // With the features of packages that only tests need: without them the crates are built by `release`,
    // `capi`, `sweep` and the steps for other targets, and a second build of everything here would serve no
    // step.
    step("build", "the workspace and its tests build", |_| {
        cargo(&format!("{WORKSPACE_TESTS} --no-run"))
    }),
    step("capi", "the C libraries as users get them, and their symbols", |_| {
        findings(capi::check())
    }),
    step(RELEASE, "pmi-host as users get it, for the tests that start it", |_| {
        tally_of(toolchain::build_host().map(|_| Tally::PASSED))
    }),
    step("layout", "functions that runs call lie next to each other in the program", |_| {
        findings(crate::layout::check())
    }),
    step("dist", "archive and package of a release, installed into an empty root", |_| {
        findings(crate::dist::check())
    })
    .needs(&[Need::Mpich, Need::Cmake]),
    step(
        TESTS,
        "all tests of the workspace, with those in the documentation; real MPI programs among them",
        |_| {
            let threads = test_threads().to_string();
            let tests = |words: &str| {
                let mut cargo = process::cargo();
                cargo.args(words.split(' ')).env("RUST_TEST_THREADS", &threads);
                process::count_tests(&mut cargo)
            };
            let mut tally = tests(&format!("{WORKSPACE_TESTS} --no-fail-fast"));
            tally += tests("test --package pmi-core --no-default-features --test parts");
            tally
        },
    )
    .wants(&[Need::Mpich, Need::Hosts, Need::GridEngine, Need::Lwip]),
    step(
        "instructions",
        "the server executes as many instructions for an operation as it did",
        |_| findings(crate::instructions::check()),
    )
    .needs(&[Need::Valgrind]),
    step("faults", "runs with injected faults end as specified, with the release build", |_| {
        findings(faults::check())
    }),
    step("sweep", "simulated jobs and trees of nodes with every fault, by seed", |_| {
        let mut tally = cargo("run --release --package pmi-sim -- sweep --seeds 300");
        // No two of these are alike.
        tally += cargo("run --release --package pmi-sim -- sweep --seeds 6000 random");
        tally += cargo("run --release --package pmi-sim -- tree sweep --seeds 5000");
        tally += cargo("run --release --package pmi-sim -- tree scale --nodes 10000");
        tally += findings(crate::bench::check_simulated());
        tally
    }),
    step("fuzz", "each fuzzer for ten seconds in CI, for five elsewhere", |_| fuzz::step())
        .builds(|_| fuzz::build_command().map(|cargo| vec![cargo])),
    step(
        "bare",
        "pmi-core, pmi-link and pmi-client for boards without operating system, and with defmt",
        |machine| {
            board_libraries().fold(Tally::default(), |mut tally, library| {
                tally += library.build(machine);
                tally
            })
        },
    )
    .builds(|machine| board_libraries().map(|library| library.command(machine)).collect())
    .needs(&[Need::Target(BOARDS[0]), Need::Target(BOARDS[1]), Need::Target(BOARDS[2])]),
    step(
        "big-endian",
        "the tests of the core on an s390x, whose numbers begin with the highest byte",
        big_endian::check,
    )
    .builds(|machine| {
        let mut cargo =
            big_endian::command(&toolchain::choose(big_endian::TARGET, &machine.facts)?);
        cargo.arg("--no-run");
        Ok(vec![cargo])
    })
    .needs(big_endian::NEEDS),
    step("hermit", "the client of pmi-std for a system without Unix sockets", |machine| {
        HERMIT_LIBRARY.build(machine)
    })
    .builds(|machine| HERMIT_LIBRARY.command(machine).map(|cargo| vec![cargo]))
    .needs(&[Need::Target(HERMIT)]),
    step("sizes", "no part of PMI has outgrown its budget on a microcontroller", |machine| {
        findings(crate::sizes::check(machine))
    })
    .needs(&[Need::Target(BARE), Need::Qemu("arm"), Need::Clang]),
    step(
        "guests",
        "nodes without operating system in jobs with each other, under QEMU",
        bare_metal::check,
    )
    .builds(bare_metal::build_commands)
    .needs(bare_metal::NEEDS),
    step("wasm", "pmi-core and pmi-link for the browser", |machine| WASM_LIBRARY.build(machine))
        .builds(|machine| WASM_LIBRARY.command(machine).map(|cargo| vec![cargo]))
        .needs(&[Need::Target(wasm::TARGET)]),
    step("node", "the modules for browsers behave as on this machine, tested by Node", |machine| {
        tally_of(node(machine))
    })
    .builds(|machine| Ok(vec![wasm::command(&wasm::choose(machine)?, NODE_MODULE, None)]))
    .needs(&[Need::Target(wasm::TARGET), Need::Node]),
    step("playground", "the page on which jobs are played, used in a browser", |machine| {
        tally_of(playground::check(machine))
    })
    .builds(playground::build_commands)
    .needs(playground::BROWSER_NEEDS),
    step("book", "the book, its links, and the programs of its chapters", |machine| {
        tally_of(book::check(machine))
    })
    .needs(book::NEEDS),
];

/// A step without requirements.
const fn step(name: &'static str, about: &'static str, run: fn(&Machine) -> Tally) -> CiStep {
    CiStep { name, about, needs: &[], wants: &[], run, builds: |_| Ok(Vec::new()) }
}

impl CiStep {
    const fn needs(self, needs: &'static [Need]) -> Self {
        Self { needs, ..self }
    }

    const fn builds(self, builds: fn(&Machine) -> Result<Vec<Command>, String>) -> Self {
        Self { builds, ..self }
    }

    const fn wants(self, wants: &'static [Need]) -> Self {
        Self { wants, ..self }
    }
}

/// Names and descriptions, for the help page.
pub(crate) fn steps() -> impl Iterator<Item = (&'static str, &'static str)> {
    STEPS.iter().map(|step| (step.name, step.about))
}

/// `cargo xtask setup`: completes the machine for the steps named, or for all, and runs none of them.
pub(crate) fn setup(names: &[String]) -> Result<ExitCode, String> {
    let machine = prepare(&select(names)?);
    Ok(if machine.is_complete() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn prepare(steps: &[&CiStep]) -> Machine {
    println!("== setup: programs and packages that the steps need");
    Machine::prepare(steps.iter().flat_map(|step| step.needs.iter().chain(step.wants)).copied())
}

pub(crate) fn command(names: &[String]) -> Result<ExitCode, String> {
    let steps = select(names)?;
    let ci = machine::in_ci();
    let machine = prepare(&steps);

    let mut total = Tally::default();
    let mut notes = Vec::new();
    let mut durations = Vec::new();
    let is_early = steps.iter().skip(1).any(|step| step.name == RELEASE);
    let mut early = EarlyBuilds::start(is_early.then(release_build));
    for step in &steps {
        println!("\n== {}: {}", step.name, step.about);
        let start = Instant::now();
        early.finish(step.name);
        if step.name == TESTS {
            early.finish(RELEASE);
            early = EarlyBuilds::start(background_builds(&steps, &machine));
        }
        let tally = match step.needs.iter().find_map(|need| machine.lack(*need)) {
            Some(why) => {
                println!("not run: {why}");
                machine::verdict_on_lack(ci)
            }
            None => (step.run)(&machine),
        };
        for killed in processes::kill_marked(|_| true) {
            println!("left behind and terminated: {killed}");
        }
        let seconds = start.elapsed().as_secs_f64();
        println!("-- {}: {tally} ({seconds:.1} s)", step.name);
        durations.push(format!("{} {seconds:.0}", step.name));
        if tally.failed > 0 || tally.skipped > 0 {
            notes.push(format!("{}: {tally}", step.name));
        }
        notes.extend(failures::take());
        total += tally;
    }
    println!("\nseconds: {}", durations.join(", "));
    for note in notes {
        println!("{note}");
    }
    println!("{total}");
    Ok(if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The launcher as users get it, which keeps one processor busy for minutes.
fn release_build() -> EarlyBuild {
    let mut command = process::cargo();
    command.args(toolchain::HOST_BUILD.split(' '));
    EarlyBuild { step: RELEASE, command }
}

/// Builds of all steps that have their needs, in the order of the steps.
fn background_builds(steps: &[&CiStep], machine: &Machine) -> Vec<EarlyBuild> {
    let can_run = |step: &&&CiStep| step.needs.iter().all(|need| machine.lack(*need).is_none());
    let builds = steps.iter().filter(can_run).flat_map(|step| {
        // What is in the way of one is reported by its step.
        let commands = (step.builds)(machine).unwrap_or_default();
        commands.into_iter().map(|command| EarlyBuild {
            step: step.name,
            command: early_build::in_background(&command),
        })
    });
    builds.collect()
}

/// The steps named, in the order of the table; all when none is named.
fn select(names: &[String]) -> Result<Vec<&'static CiStep>, String> {
    if let Some(unknown) = names.iter().find(|name| steps().all(|(step, _)| step != name.as_str()))
    {
        return Err(format!("no step {unknown:?}; see `cargo xtask help`"));
    }
    Ok(STEPS
        .iter()
        .filter(|step| names.is_empty() || names.iter().any(|name| name == step.name))
        .collect())
}

/// Number of tests of one program that run at a time. Most of them wait for processes, and many for a time to
/// pass, so on a small machine there are more than processors.
fn test_threads() -> usize {
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

fn findings(result: Result<Vec<String>, String>) -> Tally {
    let findings = result.unwrap_or_else(|why| vec![why]);
    let tally = Tally::of(findings.is_empty());
    for finding in findings {
        println!("{finding}");
        failures::note(finding);
    }
    tally
}

/// Libraries of packages that are built for a target.
struct TargetLibrary {
    target: &'static str,
    /// Crates of the standard library that they may use. Where cargo builds those, there are no others: a
    /// heap creeping in would not compile.
    crates: &'static str,
    packages: &'static [&'static str],
    features: &'static str,
}

/// The libraries of the step `bare`.
fn board_libraries() -> impl Iterator<Item = TargetLibrary> {
    let packages = &["pmi-core", "pmi-link", "pmi-client"];
    let plain = |target| TargetLibrary { target, crates: "core", packages, features: "" };
    let packages = &["pmi-core", "pmi-link", "pmi-smoltcp"];
    let logging = TargetLibrary { target: BARE, crates: "core", packages, features: DEFMT };
    BOARDS.into_iter().map(plain).chain([logging])
}

const HERMIT_LIBRARY: TargetLibrary = TargetLibrary {
    target: HERMIT,
    crates: "std,panic_abort",
    packages: &["pmi-std"],
    features: "",
};

const WASM_LIBRARY: TargetLibrary = TargetLibrary {
    target: wasm::TARGET,
    crates: "core",
    packages: &["pmi-core", "pmi-link"],
    features: "",
};

impl TargetLibrary {
    fn build(&self, machine: &Machine) -> Tally {
        tally_of(toolchain::choose(self.target, &machine.facts).map(|choice| {
            println!("compiler: {choice}");
            check(&mut self.command_with(&choice))
        }))
    }

    fn command(&self, machine: &Machine) -> Result<Command, String> {
        toolchain::choose(self.target, &machine.facts).map(|choice| self.command_with(&choice))
    }

    fn command_with(&self, choice: &Toolchain) -> Command {
        let mut cargo = toolchain::build(choice, self.target, self.crates, "release");
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
        assert_eq!(names(&[]).map(|all| all.len()), Ok(STEPS.len()));
        assert!(names(&["fmt", "typo"]).is_err_and(|why| why.contains("typo")));
    }

    #[test]
    fn finding_and_a_check_that_cannot_run_both_fail() {
        assert_eq!(findings(Ok(Vec::new())), Tally::PASSED);
        assert_eq!(findings(Ok(vec!["a.rs:1: something".into()])), Tally::FAILED);
        assert_eq!(findings(Err("no git".into())), Tally::FAILED);
    }
}
