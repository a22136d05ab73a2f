//! `cargo xtask flaky` and `cargo xtask peers`: tests whose outcome depends on more than this project.
//!
//! `flaky` repeats the suites that wait for processes, while two threads for each core do nothing but spin.
//! `peers` runs the statements about other launchers, which every other run of the tests leaves out: they may
//! fail through the other launcher or through the machine.

use crate::args;
use crate::process;
use crate::tally::Tally;
use lexopt::prelude::*;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// The parsed command line.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    runs: usize,
    spinners_per_core: usize,
    suites: Vec<String>,
}

/// Threads that keep the cores busy until the value is dropped.
struct Spinners {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

pub(crate) fn flaky(arguments: &[String]) -> Result<ExitCode, String> {
    let plan = plan(arguments)?;
    // A build that has to share the cores would take several times as long.
    let mut build = process::cargo();
    build.args(["test", "--quiet", "--package", "pmi-host", "--test", "*", "--no-run"]);
    if !process::succeeds(&mut build) {
        return Err("the suites cannot be built".into());
    }
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let spinners = Spinners::start(cores * plan.spinners_per_core);
    let mut failed = vec![0; plan.suites.len()];
    for run in 1..=plan.runs {
        for (suite, failed) in plan.suites.iter().zip(&mut failed) {
            println!("run {run} of {}: {suite}", plan.runs);
            let tally = process::count_tests(&mut tests(std::slice::from_ref(suite)));
            *failed += usize::from(tally.failed > 0);
        }
    }
    drop(spinners);
    for (suite, failed) in plan.suites.iter().zip(&failed) {
        println!("{suite:<14} {failed} of {} runs failed", plan.runs);
    }
    let is_good = failed.iter().all(|failed| *failed == 0);
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

pub(crate) fn peers(arguments: &[String]) -> Result<ExitCode, String> {
    let [] = args::flags(arguments, "cargo xtask peers", [])?;
    let suites = PEER_SUITES.map(str::to_owned);
    let tally: Tally = process::count_tests(tests(&suites).arg("--ignored"));
    println!("peers: {tally}");
    Ok(if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// `cargo test` of suites of the launcher, each a module of a test program. One that fails does not keep the
/// others from running.
fn tests(suites: &[String]) -> Command {
    let mut cargo = process::cargo();
    cargo.args(["test", "--quiet", "--package", "pmi-host", "--no-fail-fast", "--test", "*", "--"]);
    cargo.args(suites.iter().map(|suite| format!("{suite}::")));
    cargo
}

fn plan(arguments: &[String]) -> Result<Plan, String> {
    let mut plan = Plan { runs: 20, spinners_per_core: 2, suites: Vec::new() };
    args::read(arguments, USAGE, |parser| {
        while let Some(arg) = parser.next()? {
            match arg {
                Long("runs") => plan.runs = parser.value()?.parse()?,
                Long("spinners") => plan.spinners_per_core = parser.value()?.parse()?,
                Value(suite) => plan.suites.push(suite.string()?),
                other => return Err(other.unexpected()),
            }
        }
        Ok(())
    })?;
    if plan.suites.is_empty() {
        plan.suites = TIMED_SUITES.iter().map(|suite| (*suite).to_owned()).collect();
    }
    Ok(plan)
}

impl Spinners {
    fn start(count: usize) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let spinner = || {
            let is_over = Arc::clone(&is_over);
            thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        };
        let threads = std::iter::repeat_with(spinner).take(count).collect();
        Self { is_over, threads }
    }
}

impl Drop for Spinners {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // A thread that does nothing but spin cannot panic.
        self.threads.drain(..).for_each(|thread| _ = thread.join());
    }
}

const USAGE: &str = "cargo xtask flaky [--runs N] [--spinners N-PER-CORE] [SUITE...]";

/// Suites of the launcher that wait for processes, signals and terminals.
const TIMED_SUITES: &[&str] = &[
    "cleanup",
    "dial",
    "ending",
    "exit_codes",
    "input",
    "misbehaviour",
    "output",
    "ps",
    "spellings",
    "terminal",
    "watch",
];

/// Suites with statements about other launchers.
const PEER_SUITES: [&str; 1] = ["spellings"];

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Plan, String> {
        plan(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn suites_and_numbers_are_read() {
        let plan = read(&["--runs", "3", "ending", "--spinners", "1", "input"]).unwrap();
        let suites = vec!["ending".to_owned(), "input".to_owned()];
        assert_eq!(plan, Plan { runs: 3, spinners_per_core: 1, suites });
        let plan = read(&[]).unwrap();
        assert_eq!((plan.runs, plan.spinners_per_core), (20, 2));
        assert_eq!(plan.suites, TIMED_SUITES);
        for words in [&["--runs"][..], &["--runs", "many"], &["--fast"]] {
            assert!(read(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn suites_exist() {
        for suite in TIMED_SUITES.iter().chain(&PEER_SUITES) {
            let file = process::root().join("host-std/tests").join(format!("{suite}.rs"));
            assert!(file.is_file(), "{}", file.display());
        }
    }

    #[test]
    fn spinners_terminate_when_dropped() {
        drop(Spinners::start(2));
    }
}
