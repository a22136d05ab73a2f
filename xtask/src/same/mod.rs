//! `cargo xtask same OLD NEW`: two builds of `pmi-host` on the same command lines.
//!
//! A case is a command line and a setting: ranks of this host, the same behind a node server (`--all-hosts`),
//! or two node servers (`--starter local:2`). Command lines are those of [`lines.txt`](lines.txt), of
//! `host-std/tests/command-lines.txt` and of the documents, and random ones with faults, by seed. Both builds
//! get the same empty directory, one after the other; compared are exit code, both streams, files and
//! processes that are left ([`play`]), without what differs between two runs of one build ([`normal`]).
//!
//! Ranks run at the same time, so a build may have several outcomes. A case differs if both builds have no
//! outcome in common after [`TURNS`] turns. Differences that are intended are listed with their reasons in
//! `differences.txt`.

mod cases;
mod normal;
mod play;

use crate::args;
use crate::process;
use cases::{Case, Selection};
use lexopt::prelude::*;
use play::{Outcome, Programs, Stage};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fs, thread};

const USAGE: &str = "usage: cargo xtask same OLD NEW [OPTION...]

  OLD, NEW           two builds of pmi-host
  --random N         number of random command lines (1000)
  --seed N           seed of their list (1)
  --only TEXT        cases with this text only; may be repeated
  --jobs N           cases at a time (as many as cores)
  --verbose          print both outcomes of cases that differ whole
  --list             print the cases, and run nothing";

/// Turns of both builds before a case counts as different.
const TURNS: usize = 8;

/// Intended differences: a part of a case's description, and the reason.
const DIFFERENCES: &str = include_str!("differences.txt");

/// The command line, parsed.
#[derive(Debug)]
struct Wish {
    builds: Option<[PathBuf; 2]>,
    selection: Selection,
    jobs: usize,
    is_verbose: bool,
}

/// Result of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    Same,
    /// The builds have outcomes in common, and not only these.
    Unsteady,
    /// The parts that differ, and an outcome of each build.
    Differs {
        parts: String,
        outcomes: Box<[Outcome; 2]>,
    },
}

pub(crate) fn command(arguments: &[String]) -> Result<ExitCode, String> {
    if arguments.iter().any(|word| word == "--help") {
        println!("{USAGE}");
        return Ok(ExitCode::SUCCESS);
    }
    let wish = parse(arguments)?;
    let cases = cases::list(&wish.selection)?;
    let Some(builds) = &wish.builds else {
        cases.iter().for_each(|case| println!("{}", case.description()));
        println!("{} cases", cases.len());
        return Ok(ExitCode::SUCCESS);
    };
    let stage = Stage::new(Programs::build()?);
    let verdicts = compare_all(&stage, builds, &cases, wish.jobs);
    let is_same = report(&cases, &verdicts, wish.is_verbose);
    Ok(if is_same { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn parse(arguments: &[String]) -> Result<Wish, String> {
    let mut selection = Selection { random: 1000, seed: 1, only: Vec::new() };
    let mut jobs = thread::available_parallelism().map_or(1, usize::from);
    let (mut is_verbose, mut does_list, mut names) = (false, false, Vec::new());
    args::read(arguments, "cargo xtask same --help", |parser| {
        while let Some(arg) = parser.next()? {
            match arg {
                Long("random") => selection.random = parser.value()?.parse()?,
                Long("seed") => selection.seed = parser.value()?.parse()?,
                Long("only") => selection.only.push(parser.value()?.string()?),
                Long("jobs") => jobs = parser.value()?.parse()?,
                Long("verbose") => is_verbose = true,
                Long("list") => does_list = true,
                Value(name) => names.push(name.string()?),
                other => return Err(other.unexpected()),
            }
        }
        Ok(())
    })?;
    let builds = match (does_list, names.as_slice()) {
        (true, []) => None,
        (false, [old, new]) => Some([build(old)?, build(new)?]),
        _ => return Err(USAGE.into()),
    };
    Ok(Wish { builds, selection, jobs: jobs.max(1), is_verbose })
}

fn build(word: &str) -> Result<PathBuf, String> {
    fs::canonicalize(process::root().join(word)).map_err(|error| format!("{word}: {error}"))
}

/// Compares the builds by all cases, several at a time, each in a place of its own.
fn compare_all(stage: &Stage, builds: &[PathBuf; 2], cases: &[Case], jobs: usize) -> Vec<Verdict> {
    let next = AtomicUsize::new(0);
    let verdicts = Mutex::new(vec![Verdict::Same; cases.len()]);
    thread::scope(|scope| {
        for place in 0..jobs {
            let (next, verdicts) = (&next, &verdicts);
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = cases.get(at) else { return };
                    let verdict = compare(|build| stage.play(place, &builds[build], case));
                    if verdict != Verdict::Same {
                        println!("{at}: {}: {}", verdict.name(), case.description());
                    } else if at % 100 == 0 {
                        println!("{at} of {} cases", cases.len());
                    }
                    if let Ok(mut verdicts) = verdicts.lock() {
                        verdicts[at] = verdict;
                    }
                }
            });
        }
    });
    verdicts.into_inner().unwrap_or_default()
}

/// Plays a case with both builds, by turns, until they have an outcome in common.
fn compare(play: impl Fn(usize) -> Outcome) -> Verdict {
    let mut outcomes = [BTreeSet::new(), BTreeSet::new()];
    for _ in 0..TURNS {
        for (build, outcomes) in outcomes.iter_mut().enumerate() {
            outcomes.insert(play(build));
        }
        let [old, new] = &outcomes;
        if !old.is_disjoint(new) {
            let is_steady = old.len() == 1 && new.len() == 1;
            return if is_steady { Verdict::Same } else { Verdict::Unsteady };
        }
    }
    let first = outcomes.map(|outcomes| outcomes.into_iter().next().unwrap_or_default());
    let parts = first[0].differing_parts(&first[1]).join(", ");
    Verdict::Differs { parts, outcomes: Box::new(first) }
}

impl Verdict {
    const fn name(&self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Unsteady => "unsteady",
            Self::Differs { .. } => "differs",
        }
    }
}

/// Prints the differences with their reasons; returns true if each has one.
fn report(cases: &[Case], verdicts: &[Verdict], is_verbose: bool) -> bool {
    let reasons = reasons(DIFFERENCES);
    let (mut same, mut unsteady, mut intended, mut unexplained) = (0, 0, 0, 0);
    for (case, verdict) in cases.iter().zip(verdicts) {
        let Verdict::Differs { parts, outcomes } = verdict else {
            *(if *verdict == Verdict::Same { &mut same } else { &mut unsteady }) += 1;
            continue;
        };
        let description = case.description();
        let reason = reasons.iter().find(|(part, _)| description.contains(part));
        if let Some((_, reason)) = reason {
            intended += 1;
            println!("\nintended: {description}\n  {reason}");
        } else {
            unexplained += 1;
            println!("\ndiffers in {parts}: {description}");
        }
        if reason.is_none() || is_verbose {
            println!("{}", outcomes[0].compared(&outcomes[1], is_verbose));
        }
    }
    println!(
        "\n{} cases: {same} same, {unsteady} with outcomes in common and others, {intended} intended \
         differences, {unexplained} unexplained",
        cases.len()
    );
    unexplained == 0
}

/// Lines as `PART | REASON`; a line that begins with `#` is a comment.
fn reasons(text: &str) -> Vec<(&str, &str)> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(" | ")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn outcome(code: &str) -> Outcome {
        Outcome { code: code.into(), ..Outcome::default() }
    }

    #[test]
    fn builds_with_one_outcome_each_are_compared_by_it() {
        assert_eq!(compare(|_| outcome("0")), Verdict::Same);
        let verdict = compare(|build| outcome(["0", "1"][build]));
        let Verdict::Differs { parts, .. } = verdict else { panic!("{verdict:?}") };
        assert_eq!(parts, "exit code");
    }

    #[test]
    fn builds_with_an_outcome_in_common_do_not_differ() {
        let count = Cell::new(0);
        let verdict = compare(|build| {
            count.set(count.get() + 1);
            // The first build has one outcome, the second one that and another.
            outcome(if build == 1 && count.get() < 5 { "1" } else { "0" })
        });
        assert_eq!(verdict, Verdict::Unsteady);
    }

    #[test]
    fn reasons_stand_behind_a_bar() {
        assert_eq!(reasons("# x | y\n--universe | why | so\n"), [("--universe", "why | so")]);
        for line in DIFFERENCES.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            assert!(!reasons(line).is_empty(), "{line}");
        }
    }

    #[test]
    fn command_line_names_two_builds_or_lists() {
        let words = |line: &str| parse(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert!(words("--list --random 5").unwrap().builds.is_none());
        assert!(words("a").is_err() && words("a b --typo").is_err());
        assert!(words("no-such-build no-such-build").is_err());
        assert_eq!(words("Cargo.toml Cargo.toml --jobs 3").unwrap().jobs, 3);
    }
}
