//! `cargo xtask check`: format, lints and tests of what has changed and of what stands on it, in a build tree
//! that is warm. `cargo xtask test` is the gate; this is for the time between two edits.

mod changes;
mod host_tests;
mod plan;
mod task;

use crate::part::{self, PartTime};
use crate::tally::Tally;
use crate::{args, failures, layers, process, test};
use changes::Repository;
use host_tests::HostTests;
use lexopt::prelude::*;
use plan::{Facts, Plan};
use std::collections::BTreeSet;
use std::process::ExitCode;
use task::Runner;

/// The parsed command line.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    since: Option<String>,
    is_list: bool,
}

pub(crate) fn command(arguments: &[String]) -> Result<ExitCode, String> {
    let options = options(arguments)?;
    let paths = Repository::open()?.since(options.since.as_deref())?;
    let plan = plan::plan(paths.iter().map(String::as_str), &facts(&paths)?);
    println!("files that have changed: {}", paths.len());
    if options.is_list {
        plan.tasks.iter().for_each(|task| println!("  {task}"));
        left_out(&plan);
        return Ok(ExitCode::SUCCESS);
    }
    Ok(run(plan))
}

fn run(plan: Plan) -> ExitCode {
    let (mut total, mut failed, mut all_done) = (Tally::default(), Vec::new(), Vec::new());
    for task in &plan.tasks {
        let (outcome, PartTime { seconds, .. }) = part::run(task, || task.run());
        total += outcome.tally;
        failed.extend(outcome.failed);
        all_done.push((task, seconds));
    }
    println!("\nrun, with seconds:");
    for (task, seconds) in &all_done {
        println!("{seconds:>7.1}  {task}");
    }
    left_out(&plan);
    failures::take().iter().for_each(|note| println!("{note}"));
    if !failed.is_empty() {
        println!("failed, with the command that runs it alone:");
        failed.iter().for_each(|line| println!("  {line}"));
    }
    println!("{total}");
    if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints what a plan leaves out, and the steps of the gate for it.
fn left_out(plan: &Plan) {
    plan.notes.iter().for_each(|note| println!("{note}"));
    if plan.steps.is_empty() {
        return;
    }
    println!("left out, as steps of `cargo xtask test`:");
    for (name, about) in test::steps().filter(|(name, _)| plan.steps.contains(name)) {
        println!("  {name:<12} {about}");
    }
}

fn facts(paths: &BTreeSet<String>) -> Result<Facts, String> {
    let root = process::root();
    let has_nextest = process::output(process::cargo().args(["nextest", "--version"])).is_ok();
    let deleted = paths.iter().filter(|path| !root.join(path).exists());
    Ok(Facts {
        crates: layers::workspace()?,
        host_tests: HostTests::read()?,
        runner: if has_nextest { Runner::Nextest } else { Runner::Cargo },
        deleted: deleted.cloned().collect(),
    })
}

fn options(arguments: &[String]) -> Result<Options, String> {
    args::read(arguments, USAGE, |parser| {
        let mut options = Options::default();
        while let Some(arg) = parser.next()? {
            match arg {
                Long("since") => options.since = Some(parser.value()?.string()?),
                Long("list") => options.is_list = true,
                other => return Err(other.unexpected()),
            }
        }
        Ok(options)
    })
}

const USAGE: &str = "cargo xtask check [--since REV] [--list]";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let read =
            |words: &[&str]| options(&words.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(read(&[]), Ok(Options::default()));
        assert_eq!(
            read(&["--list", "--since", "main~2"]),
            Ok(Options { since: Some("main~2".into()), is_list: true })
        );
        for words in [&["--since"][..], &["core"], &["--all"]] {
            assert!(read(words).unwrap_err().ends_with(USAGE), "{words:?}");
        }
    }
}
