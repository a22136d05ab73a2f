//! Several cases at a time, each played by a process of its own, and the file that remembers their outcomes.

use super::case::{FaultCase, Selection, list};
use super::launcher::Launcher;
use super::outcome::CaseOutcome;
use super::play;
use super::table::name;
use crate::process;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A case with a launcher.
pub(super) type Key = (String, u32);

/// The contents of a state file: the choice of cases, and the outcomes so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PoolState {
    pub(super) selection: Selection,
    /// The labels of the launchers, in the order of the report.
    pub(super) labels: Vec<String>,
    pub(super) done: BTreeMap<Key, (FaultCase, CaseOutcome)>,
}

impl PoolState {
    /// # Errors
    ///
    /// The file cannot be read, or a line of it is none of a state file.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let text =
            fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Self::parse(&text).map_err(|why| format!("{}: {why}", path.display()))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines();
        let head = lines.next().ok_or("the file is empty")?;
        let Head { selection, launchers } =
            serde_json::from_str(head).map_err(|error| error.to_string())?;
        let mut state = Self { selection, labels: launchers, ..Self::default() };
        for line in lines {
            // A suite that was killed may have left half a line, which is done again.
            let Ok(value) = serde_json::from_str::<Value>(line) else { continue };
            let DoneCase { launcher, case, mut outcome } =
                serde_json::from_value(value).map_err(|error| error.to_string())?;
            // By the table of today, which may differ from that of the run.
            let is_peer = !launcher.starts_with("pmi-host");
            outcome.is_wrong =
                outcome.code.is_some_and(|code| CaseOutcome::is_wrong(&case, code, is_peer));
            state.done.insert((launcher, case.id), (case, outcome));
        }
        Ok(state)
    }

    fn head(&self) -> Result<String, String> {
        let (selection, launchers) = (self.selection.clone(), self.labels.clone());
        json_line(&Head { selection, launchers })
    }
}

/// The first line of a state file.
#[derive(Deserialize, Serialize)]
struct Head {
    #[serde(flatten)]
    selection: Selection,
    launchers: Vec<String>,
}

/// Every other line of a state file.
#[derive(Deserialize, Serialize)]
struct DoneCase {
    launcher: String,
    case: FaultCase,
    outcome: CaseOutcome,
}

/// The order to a process that plays one case.
#[derive(Deserialize, Serialize)]
struct PlayOrder {
    launcher: Launcher,
    case: FaultCase,
    directory: PathBuf,
}

fn json_line(value: &impl Serialize) -> Result<String, String> {
    serde_json::to_string(value).map(|line| line + "\n").map_err(|error| error.to_string())
}

/// Settings of a suite.
#[derive(Debug)]
pub(super) struct Settings {
    /// Number of cases at a time.
    pub(super) jobs: usize,
    /// No case is begun after so long.
    pub(super) time: Option<Duration>,
    pub(super) file: PathBuf,
}

/// Plays the cases that have no outcome yet, and appends each outcome to the file.
///
/// # Errors
///
/// The file cannot be written, or a case could not be played at all.
pub(super) fn run(
    state: &mut PoolState,
    launchers: &[Launcher],
    settings: &Settings,
) -> Result<(), String> {
    let lost = |error: std::io::Error| format!("{}: {error}", settings.file.display());
    let mut file = match settings.file.exists() && !state.done.is_empty() {
        true => OpenOptions::new().append(true).open(&settings.file).map_err(lost)?,
        false => File::create(&settings.file).map_err(lost)?,
    };
    if state.done.is_empty() {
        file.write_all(state.head()?.as_bytes()).map_err(lost)?;
    }
    // Cases with places of their own see another `/tmp`.
    let below = if launchers.iter().any(Launcher::has_places) {
        "/var/tmp".into()
    } else {
        env::temp_dir()
    };
    let scratch = tempfile::Builder::new().prefix("pmi-faults.").tempdir_in(below);
    let scratch = scratch.map_err(|error| error.to_string())?;
    let launchers: Result<Vec<Launcher>, String> =
        launchers.iter().map(|launcher| launcher.within(scratch.path())).collect();
    let launchers = launchers?;
    let mut wanted = Vec::new();
    for case in list(&state.selection) {
        for launcher in launchers.iter().filter(|launcher| launcher.meets(&case)) {
            if !state.done.contains_key(&(launcher.label.clone(), case.id)) {
                wanted.push((launcher, case.clone()));
            }
        }
    }
    let next = AtomicUsize::new(0);
    let until = settings.time.map(|time| Instant::now() + time);
    let count = wanted.len();
    let results = Mutex::new((file, &mut state.done, None));
    thread::scope(|scope| {
        for _ in 0..settings.jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::SeqCst);
                    let Some((launcher, case)) = wanted.get(at) else { return };
                    if until.is_some_and(|until| Instant::now() > until) {
                        return;
                    }
                    let directory = scratch.path().join(at.to_string());
                    let outcome = in_process_of_its_own(launcher, case, &directory);
                    let Ok(mut results) = results.lock() else { return };
                    let (file, done, failure) = &mut *results;
                    let written = outcome.and_then(|outcome| {
                        let (launcher, case) = (launcher.label.clone(), case.clone());
                        let done = DoneCase { launcher, case, outcome };
                        file.write_all(json_line(&done)?.as_bytes()).map_err(lost)?;
                        Ok(done.outcome)
                    });
                    match written {
                        Ok(outcome) => {
                            show(launcher, case, &outcome, done.len() + 1, count);
                            done.insert((launcher.label.clone(), case.id), (case.clone(), outcome));
                        }
                        Err(why) => {
                            *failure = Some(format!("case {}: {why}", case.id));
                            // The others are not begun.
                            next.store(count, Ordering::SeqCst);
                            return;
                        }
                    }
                }
            });
        }
    });
    match results.into_inner() {
        Ok((_, _, Some(why))) => Err(why),
        _ => Ok(()),
    }
}

fn show(launcher: &Launcher, case: &FaultCase, outcome: &CaseOutcome, done: usize, count: usize) {
    let title = format!(
        "case {} {} {} n={} v={}",
        case.id,
        name(case.fault),
        name(case.phase),
        case.ranks,
        case.variant
    );
    if !outcome.is_good() {
        let what = outcome.describe(case);
        let note: String = outcome.note.chars().take(600).collect();
        println!("{}: {title}: {what}\n    {note}", launcher.label);
    } else if done.is_multiple_of(100) {
        println!("{done} done, {count} wanted");
    }
}

/// Lets another process play the case. Processes that the run leaves behind become children of that one.
fn in_process_of_its_own(
    launcher: &Launcher,
    case: &FaultCase,
    directory: &Path,
) -> Result<CaseOutcome, String> {
    // By this link, because a later step of the tests may have replaced the file.
    let own = format!("/proc/{}/exe", std::process::id());
    fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let (launcher, case, directory) = (launcher.clone(), case.clone(), directory.to_path_buf());
    let order = PlayOrder { launcher, case, directory };
    // A session of its own: a key that ends the suite ends no case in its middle, whose end would be ours.
    // Signals that are ignored here (`nohup`, `&` of a script) would be so in launchers, which honour that.
    let mut command = Command::new("env");
    command.args(["--default-signal", "setsid"]);
    if order.launcher.has_hosts {
        command.args(["unshare", "--net", "--mount", "--uts"]);
    } else if order.launcher.has_places() {
        command.args(["unshare", "--mount"]);
    }
    command.arg(own).args(["faults", PLAY]).current_dir(process::root());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("env: {error}"))?;
    let stdin = child.stdin.take();
    if let Some(mut pipe) = stdin.as_ref() {
        pipe.write_all(json_line(&order)?.as_bytes()).map_err(|error| error.to_string())?;
    }
    let mut answer = String::new();
    if let Some(mut pipe) = child.stdout.take() {
        pipe.read_to_string(&mut answer).map_err(|error| error.to_string())?;
    }
    drop(stdin);
    child.wait().map_err(|error| error.to_string())?;
    let _ = fs::remove_dir_all(order.directory);
    serde_json::from_str(&answer)
        .unwrap_or_else(|_| Err(format!("the process of the case wrote {answer:?}")))
}

/// The other process: reads a case from standard input, plays it, and writes its outcome.
///
/// # Errors
///
/// Standard input has no case.
pub(super) fn play_one() -> Result<(), String> {
    let mut line = String::new();
    let mut input = BufReader::new(std::io::stdin());
    input.read_line(&mut line).map_err(|error| error.to_string())?;
    let PlayOrder { launcher, case, directory } =
        serde_json::from_str(&line).map_err(|error| error.to_string())?;
    // The end of the suite ends its cases: ranks end with this process.
    thread::spawn(move || {
        let mut rest = Vec::new();
        let _ = input.read_to_end(&mut rest);
        play::give_up();
    });
    print!("{}", json_line(&play::play(&launcher, &case, &directory))?);
    Ok(())
}

/// The word of the command line by which a process that plays one case is known.
pub(super) const PLAY: &str = "play";

#[cfg(test)]
mod tests {
    use super::super::table::{Fault, FaultPhase};
    use super::*;

    #[test]
    fn state_file_is_read_as_it_was_written() {
        let selection = Selection {
            seed: 9,
            cases: Some(3),
            sizes: vec![2, 16],
            nodes: 8,
            has_hosts: true,
            faults: vec![Fault::Exit],
            phases: vec![FaultPhase::Put],
        };
        let mut state = PoolState { selection, labels: vec!["a 1".into()], ..PoolState::default() };
        let mut text = state.head().unwrap();
        for case in list(&state.selection) {
            let code = Some(case.expected());
            let outcome = CaseOutcome { code, seconds: 0.5, ..CaseOutcome::default() };
            let done = DoneCase { launcher: "a 1".into(), case, outcome };
            text += &json_line(&done).unwrap();
            let DoneCase { case, outcome, .. } = done;
            state.done.insert(("a 1".into(), case.id), (case, outcome));
        }
        // Killed while it wrote.
        text += "{\"launcher\":\"a 1\",\"ca";
        assert_eq!(PoolState::parse(&text), Ok(state));
        assert!(PoolState::parse("").is_err() && PoolState::parse("{}\n").is_err());
    }
}
