//! Several cases at a time, each played by a process of its own, and the file that remembers their outcomes.

use super::case::{FaultCase, Selection, list};
use super::launcher::Launcher;
use super::outcome::CaseOutcome;
use super::play;
use crate::process;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{env, thread};

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
        let head: Value = serde_json::from_str(head).map_err(|error| error.to_string())?;
        let mut state = Self { selection: selection_from(&head)?, ..Self::default() };
        let labels = head["launchers"].as_array().ok_or("there are no launchers")?;
        state.labels = labels.iter().filter_map(|label| Some(label.as_str()?.to_owned())).collect();
        for line in lines {
            // A suite that was killed may have left half a line, which is done again.
            let Ok(value) = serde_json::from_str::<Value>(line) else { continue };
            let case = FaultCase::from_json(&value["case"])?;
            let mut outcome = CaseOutcome::from_json(&value["outcome"])?;
            let label = value["launcher"].as_str().ok_or("a case without a launcher")?.to_owned();
            // By the table of today, which may differ from that of the run.
            let is_peer = !label.starts_with("pmi-host");
            outcome.is_wrong =
                outcome.code.is_some_and(|code| CaseOutcome::is_wrong(&case, code, is_peer));
            state.done.insert((label, case.id), (case, outcome));
        }
        Ok(state)
    }

    fn head(&self) -> String {
        let Selection { seed, cases, sizes, faults, phases } = &self.selection;
        let faults: Vec<_> = faults.iter().map(|fault| fault.name()).collect();
        let phases: Vec<_> = phases.iter().map(|phase| phase.name()).collect();
        let head = json!({
            "seed": seed, "cases": cases, "sizes": sizes, "faults": faults, "phases": phases,
            "launchers": self.labels,
        });
        format!("{head}\n")
    }
}

fn selection_from(head: &Value) -> Result<Selection, String> {
    use super::table::{Fault, FaultPhase};
    let words = |name: &str| -> Vec<&str> {
        head[name].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    };
    let small = |value: &Value| value.as_u64()?.try_into().ok();
    Ok(Selection {
        seed: head["seed"].as_u64().ok_or("there is no seed")?,
        cases: small(&head["cases"]),
        sizes: head["sizes"].as_array().into_iter().flatten().filter_map(small).collect(),
        faults: words("faults").into_iter().filter_map(Fault::named).collect(),
        phases: words("phases").into_iter().filter_map(FaultPhase::named).collect(),
    })
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
        file.write_all(state.head().as_bytes()).map_err(lost)?;
    }
    let scratch = env::temp_dir().join(format!("pmi-faults.{}", std::process::id()));
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
                    let directory = scratch.join(at.to_string());
                    let outcome = in_process_of_its_own(launcher, case, &directory);
                    let Ok(mut results) = results.lock() else { return };
                    let (file, done, failure) = &mut *results;
                    let written = outcome.and_then(|outcome| {
                        let line = json!({
                            "launcher": launcher.label, "case": case.to_json(),
                            "outcome": outcome.to_json(),
                        });
                        file.write_all(format!("{line}\n").as_bytes()).map_err(lost)?;
                        Ok(outcome)
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
    let _ = fs::remove_dir_all(scratch);
    match results.into_inner() {
        Ok((_, _, Some(why))) => Err(why),
        _ => Ok(()),
    }
}

fn show(launcher: &Launcher, case: &FaultCase, outcome: &CaseOutcome, done: usize, count: usize) {
    let name = format!(
        "case {} {} {} n={} v={}",
        case.id,
        case.fault.name(),
        case.phase.name(),
        case.ranks,
        case.variant
    );
    if !outcome.is_good() {
        let what = outcome.describe(case);
        let note: String = outcome.note.chars().take(600).collect();
        println!("{}: {name}: {what}\n    {note}", launcher.label);
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
    let order = json!({
        "launcher": launcher.to_json(), "case": case.to_json(), "directory": directory.to_string_lossy(),
    });
    // A session of its own: a key that ends the suite ends no case in its middle, whose end would be ours.
    // Signals that are ignored here (`nohup`, `&` of a script) would be so in launchers, which honour that.
    let mut command = Command::new("env");
    command
        .args(["--default-signal", "setsid"])
        .arg(own)
        .args(["faults", PLAY])
        .current_dir(process::root());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("env: {error}"))?;
    let stdin = child.stdin.take();
    if let Some(mut pipe) = stdin.as_ref() {
        pipe.write_all(format!("{order}\n").as_bytes()).map_err(|error| error.to_string())?;
    }
    let mut answer = String::new();
    if let Some(mut pipe) = child.stdout.take() {
        pipe.read_to_string(&mut answer).map_err(|error| error.to_string())?;
    }
    drop(stdin);
    child.wait().map_err(|error| error.to_string())?;
    let _ = fs::remove_dir_all(directory);
    let value: Value = serde_json::from_str(&answer)
        .map_err(|_| format!("the process of the case wrote {answer:?}"))?;
    match value["failure"].as_str() {
        Some(why) => Err(why.to_owned()),
        None => CaseOutcome::from_json(&value),
    }
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
    let order: Value = serde_json::from_str(&line).map_err(|error| error.to_string())?;
    let case = FaultCase::from_json(&order["case"])?;
    let launcher = Launcher::from_json(&order["launcher"])?;
    let directory = PathBuf::from(order["directory"].as_str().ok_or("there is no directory")?);
    // The end of the suite ends its cases: ranks end with this process.
    thread::spawn(move || {
        let mut rest = Vec::new();
        let _ = input.read_to_end(&mut rest);
        play::give_up();
    });
    let value = match play::play(&launcher, &case, &directory) {
        Ok(outcome) => outcome.to_json(),
        Err(why) => json!({ "failure": why }),
    };
    println!("{value}");
    Ok(())
}

/// The word of the command line by which a process that plays one case is known.
pub(super) const PLAY: &str = "play";

#[cfg(test)]
mod tests {
    use super::super::table::{Fault, FaultPhase};
    use super::*;

    #[test]
    fn a_state_file_is_read_as_it_was_written() {
        let selection = Selection {
            seed: 9,
            cases: Some(3),
            sizes: vec![2, 16],
            faults: vec![Fault::Exit],
            phases: vec![FaultPhase::Put],
        };
        let mut state = PoolState { selection, labels: vec!["a 1".into()], ..PoolState::default() };
        let mut text = state.head();
        for case in list(&state.selection) {
            let code = Some(case.expected());
            let outcome = CaseOutcome { code, seconds: 0.5, ..CaseOutcome::default() };
            let (case_json, outcome_json) = (case.to_json(), outcome.to_json());
            let line = json!({ "launcher": "a 1", "case": case_json, "outcome": outcome_json });
            text += &format!("{line}\n");
            state.done.insert(("a 1".into(), case.id), (case, outcome));
        }
        // Killed while it wrote.
        text += "{\"launcher\":\"a 1\",\"ca";
        assert_eq!(PoolState::parse(&text), Ok(state));
        assert!(PoolState::parse("").is_err() && PoolState::parse("{}\n").is_err());
    }
}
