//! Checks a launcher: starts it once for each case, with this very program as the ranks.

use super::args::split;
use super::case::{Case, ExpectedExit};
use super::error::ConformError;
use super::matrix::Row;
use super::player::reports;
use super::verdict::{Finding, Verdict, shown};
use crate::child;
use rustix::process::Signal;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Command line of a launcher, with placeholders for the number of ranks and the program.
#[derive(Clone, Debug)]
pub(super) struct LauncherCommand {
    words: Vec<String>,
    /// Path of this program, by which the launcher starts it.
    myself: String,
}

/// Result of one launch.
struct LaunchResult {
    /// Exit code, or 128 and the signal; `None` if the launcher had to be killed.
    code: Option<i32>,
    output: String,
}

impl LauncherCommand {
    /// Reads the command line.
    ///
    /// # Errors
    ///
    /// No `{n}` or no `{prog}`, or this program cannot find itself.
    pub(super) fn new(line: &str) -> Result<Self, ConformError> {
        let words = split(line)?;
        for place in [RANKS, PROGRAM] {
            if !words.iter().any(|word| word.contains(place)) {
                return Err(ConformError::NoPlace(place));
            }
        }
        let myself = std::env::current_exe()?.to_string_lossy().into_owned();
        Ok(Self { words, myself })
    }

    /// Starts the launcher for one case and returns the row of the matrix.
    ///
    /// # Errors
    ///
    /// The launcher cannot be started.
    pub(super) fn check(&self, case: &'static Case, limit: Duration) -> Result<Row, ConformError> {
        let words = self.filled(case, limit);
        let LaunchResult { code, output } = run(&words, limit)?;
        let finding = judge(case, code, &output, limit);
        Ok(Row { case: case.name.into(), tries: case.tries.into(), finding })
    }

    fn filled(&self, case: &Case, limit: Duration) -> Vec<String> {
        // Slightly less than the limit of this side, so that ranks report before the launch is given up.
        let inner = limit * 9 / 10;
        let program = [
            self.myself.clone(),
            RANK.to_owned(),
            case.name.to_owned(),
            inner.as_millis().to_string(),
        ];
        if case.is_singleton() {
            // A singleton has no launcher, and starts one itself.
            return program.into_iter().chain(self.words.first().cloned()).collect();
        }
        let quoted = program.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''")));
        let quoted = quoted.collect::<Vec<_>>().join(" ");
        let mut filled = Vec::new();
        for word in &self.words {
            if word == PROGRAM {
                filled.extend(program.iter().cloned());
            } else {
                let word = word.replace(RANKS, &case.ranks.to_string());
                filled.push(word.replace(PROGRAM, &quoted));
            }
        }
        filled
    }
}

/// Combines the reports of the ranks with the exit of the launcher.
fn judge(case: &Case, code: Option<i32>, output: &str, limit: Duration) -> Finding {
    let reports = reports(case, output);
    let is_killed_on_purpose = matches!(
        case.exit,
        ExpectedExit::Code(_) | ExpectedExit::Failure | ExpectedExit::Unspecified
    );
    // A rank may see the end of the connection before the answer that it waits for.
    let excused = |finding: Finding| match finding.verdict {
        Verdict::JobKilled if is_killed_on_purpose => Verdict::AsSpecified.on(finding.seen),
        _ => finding,
    };
    let findings = reports.iter().map(|report| excused(report.finding.clone()));
    let reported = findings.reduce(Finding::worse);
    let is_complete = (0..case.ranks).all(|rank| reports.iter().any(|report| report.rank == rank));
    match (reported, code) {
        (reported, None) => {
            let reported = reported.unwrap_or_else(|| Verdict::NoAnswer.on(""));
            let seen = match reported.seen.as_str() {
                "" => format!("the launcher had not exited after {limit:?}"),
                seen => format!("{seen}; then the launcher had not exited after {limit:?}"),
            };
            reported.verdict.max(Verdict::NoAnswer).on(seen)
        }
        (Some(reported), Some(code)) if is_complete => case.judge_exit(code, reported),
        (reported, Some(code)) if is_killed_on_purpose => {
            case.judge_exit(code, reported.unwrap_or_else(|| Verdict::AsSpecified.on("")))
        }
        (Some(reported), Some(_)) if reported.verdict > Verdict::Refused => reported,
        (_, Some(code)) => {
            // The first line of output is nearest to the cause.
            let mut lines = output.lines().filter(|line| !line.trim().is_empty());
            let first = lines.find(|line| !line.contains(case.name)).unwrap_or_default().trim();
            // A launcher that accepts a rank of which no report arrived.
            let is_content = code == 0 && case.exit == ExpectedExit::Success;
            let verdict = if is_content { Verdict::Wrong } else { Verdict::JobKilled };
            verdict.on(format!("exit code {code} {}", shown(first.as_bytes())).trim_end())
        }
    }
}

fn run(words: &[String], limit: Duration) -> Result<LaunchResult, ConformError> {
    let (name, rest) = words.split_first().ok_or(ConformError::NoPlace(PROGRAM))?;
    let mut command = Command::new(name);
    // Launchers and singletons start without the variables of an outer launcher.
    for variable in ["PMI_FD", "PMI_PORT"] {
        command.env_remove(variable);
    }
    command.args(rest).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A process group of its own ensures that no process of a hanging launcher is left.
    let mut child = command
        .process_group(0)
        .spawn()
        .map_err(|error| ConformError::Start { name: name.clone(), error })?;
    let output = collect(child.stdout.take());
    let errors = collect(child.stderr.take());
    let status = wait(&mut child, Instant::now() + limit)?;
    if status.is_none() {
        terminate(&mut child);
    }
    let text = |thread: JoinHandle<Vec<u8>>| {
        let bytes = thread.join().unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let output = format!("{}\n{}", text(errors), text(output));
    Ok(LaunchResult { code: status.map(child::exit_code), output })
}

fn wait(child: &mut Child, until: Instant) -> Result<Option<ExitStatus>, ConformError> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= until {
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(3));
    }
}

/// Asks a launcher to end its job, and kills its process group after the grace period.
fn terminate(child: &mut Child) {
    for signal in [Signal::TERM, Signal::KILL] {
        child::signal_group(child, signal);
        if matches!(wait(child, Instant::now() + GRACE), Ok(Some(_))) {
            break;
        }
    }
}

/// Reads until the end of the stream, up to a bound.
fn collect(from: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut all = Vec::new();
        if let Some(from) = from {
            let _ = from.take(OUTPUT_MAX).read_to_end(&mut all);
        }
        all
    })
}

/// Command word that turns this program into a rank of a case; internal.
pub const RANK: &str = "conform-rank";

const RANKS: &str = "{n}";
const PROGRAM: &str = "{prog}";
const GRACE: Duration = Duration::from_secs(2);
const OUTPUT_MAX: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn case(name: &str) -> &'static Case {
        Case::named(name).unwrap()
    }

    #[test]
    fn places_are_filled_in_words_and_inside_them() {
        let line = LauncherCommand::new("mpiexec -np={n} {prog} x").unwrap();
        let words = line.filled(case("pmi1-kvsname"), Duration::from_secs(10));
        assert_eq!((words[1].as_str(), words[3].as_str()), ("-np=2", RANK));
        assert_eq!(words[4..], ["pmi1-kvsname", "9000", "x"]);
        let line = LauncherCommand::new("sh -c 'run {n} {prog}'").unwrap();
        let words = line.filled(case("pmi1-maxes"), Duration::from_secs(10));
        assert!(words[2].starts_with("run 1 '/") && words[2].ends_with(" 'pmi1-maxes' '9000'"));
        let words = line.filled(case("pmi1-singleton"), Duration::from_secs(10));
        assert_eq!(words[1..], [RANK, "pmi1-singleton", "9000", "sh"]);
        assert!(LauncherCommand::new("mpiexec {prog}").is_err());
        assert!(LauncherCommand::new("mpiexec -n {n}").is_err());
    }

    #[test]
    fn rank_that_tells_nothing_was_killed_unless_that_was_asked_for() {
        let limit = Duration::from_secs(1);
        let reported = "{pmi-conform|pmi1-kvsname|0|as specified|x|pmi-conform}";
        let finding = judge(case("pmi1-kvsname"), Some(9), reported, limit);
        assert_eq!(finding, Verdict::JobKilled.on("exit code 9"));
        assert_eq!(judge(case("pmi1-kvsname"), Some(0), reported, limit).verdict, Verdict::Wrong);
        assert_eq!(judge(case("pmi1-kvsname"), None, reported, limit).verdict, Verdict::NoAnswer);
        assert_eq!(judge(case("pmi1-abort"), Some(37), "", limit).verdict, Verdict::AsSpecified);
        assert_eq!(judge(case("pmi1-abort"), Some(0), "", limit).verdict, Verdict::Wrong);
        let killed = "{pmi-conform|pmi1-abort|0|job killed|x|pmi-conform}";
        assert_eq!(
            judge(case("pmi1-abort"), Some(37), killed, limit).verdict,
            Verdict::AsSpecified
        );
        assert_eq!(judge(case("pmi1-abort"), Some(1), killed, limit).verdict, Verdict::Tolerated);
        let both = format!("{reported}{}", reported.replace("|0|as specified", "|1|wrong"));
        assert_eq!(judge(case("pmi1-kvsname"), Some(0), &both, limit), Verdict::Wrong.on("x"));
    }
}
