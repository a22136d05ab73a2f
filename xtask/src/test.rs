//! `cargo xtask test`: one table of steps, each with a heading and a duration, and one line that sums up.

use crate::bare_metal;
use crate::machine::{self, Machine, Need};
use crate::tally::Tally;
use crate::wasm::{self, Loader};
use crate::{faults, fuzz, layers, package, playground, process, processes, tidy, toolchain};
use std::process::{Command, ExitCode};
use std::time::Instant;
use std::{env, fs};

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
}

const BARE: &str = "thumbv7em-none-eabihf";

/// Crates that must build without an operating system: directory and name.
const NO_STD: &[(&str, &str)] = &[("core", "pmi-core"), ("transports/link", "pmi-link")];

const STEPS: &[CiStep] = &[
    CiStep {
        name: "fmt",
        about: "the code is formatted",
        needs: &[Need::Rustfmt],
        wants: &[],
        run: |_| cargo(&["fmt", "--all", "--check"]),
    },
    CiStep {
        name: "tidy",
        about: "house rules",
        needs: &[],
        wants: &[],
        run: |_| findings(tidy::check()),
    },
    CiStep {
        name: "vocabulary",
        about: "names and prose within the bars that were reached",
        needs: &[],
        wants: &[],
        run: |_| findings(crate::vocabulary::exceeded_bars()),
    },
    CiStep {
        name: "layers",
        about: "permitted dependencies between crates and modules",
        needs: &[],
        wants: &[],
        run: |_| findings(layers::check()),
    },
    CiStep {
        name: "package",
        about: "licences, sources and Rust versions of dependencies; archives of the crates",
        needs: &[],
        wants: &[],
        run: |_| {
            findings(package::check().map(|mut found| {
                if found.is_empty() && !package::assemble(false) {
                    found.push("cargo package has failed".into());
                }
                found
            }))
        },
    },
    CiStep {
        name: "clippy",
        about: "lints, none left",
        needs: &[Need::Clippy],
        wants: &[],
        run: |_| {
            let what = ["clippy", "--workspace", "--all-targets", "--features", "pmi-std/tls"];
            cargo(&[&what[..], &["--", "-D", "warnings"]].concat())
        },
    },
    CiStep {
        name: "plain",
        about: "pmi-host without TLS",
        needs: &[Need::Clippy],
        wants: &[],
        run: |_| {
            let what = ["clippy", "--package", "pmi-host", "--no-default-features"];
            cargo(&[&what[..], &["--all-targets", "--", "-D", "warnings"]].concat())
        },
    },
    CiStep {
        name: "doc",
        about: "the documentation builds without a warning",
        needs: &[],
        wants: &[],
        run: |_| doc(),
    },
    CiStep {
        name: "build",
        about: "the workspace builds",
        needs: &[],
        wants: &[],
        run: |_| cargo(&["build", "--workspace"]),
    },
    CiStep {
        name: "release",
        about: "pmi-host as users get it, for the tests that start it",
        needs: &[],
        wants: &[],
        run: |_| cargo(&["build", "--release", "--package", "pmi-host"]),
    },
    CiStep {
        name: "tests",
        about: "all tests of the workspace, with those in the documentation; real MPI programs among them",
        needs: &[],
        wants: &[Need::Mpich],
        run: |_| {
            let words = ["test", "--workspace", "--features", "pmi-std/tls", "--no-fail-fast"];
            let bare =
                ["test", "--package", "pmi-core", "--no-default-features", "--test", "parts"];
            let mut tally = process::count_tests(process::cargo().args(words));
            tally += process::count_tests(process::cargo().args(bare));
            tally
        },
    },
    CiStep {
        name: "faults",
        about: "runs with injected faults end as specified, with the release build",
        needs: &[],
        wants: &[],
        run: |_| findings(faults::check()),
    },
    CiStep {
        name: "sweep",
        about: "simulated jobs with every fault, by seed",
        needs: &[],
        wants: &[],
        run: |_| {
            let sim = ["run", "--release", "--package", "pmi-sim", "--", "sweep"];
            let mut tally = cargo(&[&sim[..], &["--seeds", "300"]].concat());
            // No two of these are alike.
            tally += cargo(&[&sim[..], &["--seeds", "6000", "random"]].concat());
            tally
        },
    },
    CiStep {
        name: "fuzz",
        about: "each fuzzer for half a minute in CI, for a moment elsewhere",
        needs: &[],
        wants: &[],
        run: |_| fuzz::step(),
    },
    CiStep {
        name: "bare",
        about: "pmi-core and pmi-link for a machine without operating system",
        needs: &[Need::Target(BARE)],
        wants: &[],
        run: |machine| no_std(machine, BARE),
    },
    CiStep {
        name: "sizes",
        about: "no part of PMI has outgrown its budget on a microcontroller",
        needs: &[Need::Target(BARE), Need::Qemu("arm")],
        wants: &[],
        run: |machine| findings(crate::sizes::check(machine)),
    },
    CiStep {
        name: "guests",
        about: "nodes without operating system in jobs with each other, under QEMU",
        needs: bare_metal::NEEDS,
        wants: &[],
        run: |machine| bare_metal::check(machine),
    },
    CiStep {
        name: "wasm",
        about: "pmi-core and pmi-link for the browser",
        needs: &[Need::Target(wasm::TARGET)],
        wants: &[],
        run: |machine| no_std(machine, wasm::TARGET),
    },
    CiStep {
        name: "node",
        about: "the modules for browsers behave as on this machine, tested by Node",
        needs: &[Need::Target(wasm::TARGET), Need::Node],
        wants: &[],
        run: |machine| {
            node(machine).unwrap_or_else(|why| {
                println!("{why}");
                Tally::FAILED
            })
        },
    },
    CiStep {
        name: "playground",
        about: "the page on which jobs are played, used in a browser",
        needs: playground::BROWSER_NEEDS,
        wants: &[],
        run: |machine| {
            playground::check(machine).unwrap_or_else(|why| {
                println!("{why}");
                Tally::FAILED
            })
        },
    },
];

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
    for step in steps {
        println!("\n== {}: {}", step.name, step.about);
        let start = Instant::now();
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
        println!("-- {}: {tally} ({:.1} s)", step.name, start.elapsed().as_secs_f64());
        if tally.failed > 0 || tally.skipped > 0 {
            notes.push(format!("{}: {tally}", step.name));
        }
        total += tally;
    }
    println!();
    for note in notes {
        println!("{note}");
    }
    println!("{total}");
    Ok(if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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

fn cargo(arguments: &[&str]) -> Tally {
    check(process::cargo().args(arguments))
}

fn check(command: &mut Command) -> Tally {
    Tally::of(process::succeeds(command))
}

fn findings(result: Result<Vec<String>, String>) -> Tally {
    let findings = result.unwrap_or_else(|why| vec![why]);
    for finding in &findings {
        println!("{finding}");
    }
    Tally::of(findings.is_empty())
}

fn doc() -> Tally {
    let flags = format!("{} -D warnings", env::var("RUSTDOCFLAGS").unwrap_or_default());
    let mut cargo = process::cargo();
    check(cargo.args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", flags.trim()))
}

/// Builds what runs everywhere. Where cargo builds the libraries, there is none but `core`: a heap creeping
/// in would not compile.
fn no_std(machine: &Machine, target: &str) -> Tally {
    match toolchain::choose(target, &machine.facts) {
        Ok(choice) => {
            println!("compiler: {choice}");
            let mut cargo = toolchain::build(&choice, target, "core");
            cargo.arg("--lib");
            for (folder, name) in NO_STD {
                if process::root().join(folder).exists() {
                    cargo.args(["--package", name]);
                } else {
                    println!("not in this tree yet: {name}");
                }
            }
            check(&mut cargo)
        }
        Err(why) => {
            println!("{why}");
            Tally::FAILED
        }
    }
}

/// Runs the modules of wasm in Node, and compares the results with those of this machine.
fn node(machine: &Machine) -> Result<Tally, String> {
    let folder = wasm::module(machine, "pmi-wasm-node", Loader::Node)?;
    if !process::succeeds(process::cargo().args(["build", "--release", "--package", "pmi-host"])) {
        return Err("there is no launcher to be tried with pages".into());
    }
    let words = ["run", "--release", "--quiet", "--package", "pmi-sim", "--", "hashes"];
    let hashes = process::output(process::cargo().args(words))?;
    fs::write(folder.join("hashes.txt"), hashes).map_err(|error| error.to_string())?;
    let mut node = process::node();
    node.args(["--test", "--test-reporter=tap", "wasm/node/tests/"]).env("PMI_WASM", folder);
    // The one that the tests above have started as well.
    node.env("PMI_HOST", toolchain::target_folder().join("release/pmi-host"));
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
    fn a_finding_and_a_check_that_cannot_run_both_fail() {
        assert_eq!(findings(Ok(Vec::new())), Tally::PASSED);
        assert_eq!(findings(Ok(vec!["a.rs:1: something".into()])), Tally::FAILED);
        assert_eq!(findings(Err("no git".into())), Tally::FAILED);
    }
}
