//! Processes of this machine, as `/proc` shows them.

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use std::{fs, thread};

/// A process, as `/proc` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) session: i32,
    /// `R`, `S`, `D`, `T`, `Z`, …
    pub(crate) state: char,
    pub(crate) name: String,
    /// Clock ticks since the machine has started, when the process was.
    pub(crate) since: u64,
}

impl Process {
    pub(crate) fn is_alive(&self) -> bool {
        !matches!(self.state, 'Z' | 'X')
    }

    /// True for a program that stops with the process that it has started in name spaces, and does not
    /// continue with it.
    pub(crate) fn is_stopped_starter(&self) -> bool {
        self.state == 'T' && self.name == "nsenter"
    }

    /// True if both are one process: a number may be used again.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (self.pid, self.since) == (other.pid, other.since)
    }

    /// For a report: name, number and state.
    pub(crate) fn describe(&self) -> String {
        format!("{} (pid {}, {})", self.name, self.pid, self.state)
    }
}

/// Sends a signal to a process, not to one that got its number later: `since` is when it was started.
pub(crate) fn send(pid: i32, since: Option<u64>, signal: Signal) -> bool {
    let Some(number) = Pid::from_raw(pid) else { return false };
    let Ok(handle) = pidfd_open(number, PidfdFlags::empty()) else { return false };
    // The handle is of the process that has the number now; that is the one that was meant if it is as old.
    if since.is_some_and(|since| process(pid).is_none_or(|found| found.since != since)) {
        return false;
    }
    pidfd_send_signal(handle, signal).is_ok()
}

/// All processes of the machine that can be seen.
pub(crate) fn processes() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let number = |name: &str| name.parse::<i32>().ok();
    entries
        .flatten()
        .filter_map(|entry| number(entry.file_name().to_str()?))
        .filter_map(process)
        .collect()
}

/// One process.
pub(crate) fn process(pid: i32) -> Option<Process> {
    parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Reads a line of `/proc/PID/stat`: the name stands in brackets and may have any character.
fn parse(pid: i32, stat: &str) -> Option<Process> {
    let (_, rest) = stat.split_once('(')?;
    let (name, rest) = rest.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    Some(Process {
        pid,
        parent: fields.get(1)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        state: fields.first()?.chars().next()?,
        name: name.to_owned(),
        since: fields.get(19)?.parse().ok()?,
    })
}

/// True if `pid` descends from `root`, by `all` processes.
pub(crate) fn is_below(all: &[Process], pid: i32, root: i32) -> bool {
    let parents: BTreeMap<i32, i32> =
        all.iter().map(|process| (process.pid, process.parent)).collect();
    has_ancestor(&parents, pid, root)
}

/// The same by the parents of all processes.
pub(crate) fn has_ancestor(parents: &BTreeMap<i32, i32>, pid: i32, root: i32) -> bool {
    let mut at = pid;
    // No chain is longer than there are processes, even if they have changed while they were read.
    for _ in 0..=parents.len() {
        match parents.get(&at) {
            Some(&parent) if parent == root => return true,
            Some(&parent) if parent > 1 => at = parent,
            _ => return false,
        }
    }
    false
}

/// The program that a process runs.
pub(crate) fn program(pid: i32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// The words of its command line; `None` if there is no such process.
pub(crate) fn arguments(pid: i32) -> Option<Vec<String>> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words = line.split(|byte| *byte == 0);
    Some(words.map(|word| String::from_utf8_lossy(word).into_owned()).collect())
}

/// True if a process was started with `entry` in its environment.
pub(crate) fn has_entry(pid: i32, entry: &str) -> bool {
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|bytes| bytes.split(|byte| *byte == 0).any(|found| found == entry.as_bytes()))
}

/// The variable by which processes of this task and their descendants are known.
pub(crate) const MARK: &str = "PMI_XTASK";

/// Value of [`MARK`] for the processes that this one starts.
pub(crate) fn mark() -> String {
    let own = std::process::id();
    let since = i32::try_from(own).ok().and_then(process).map_or(0, |process| process.since);
    format!("{own}.{since}")
}

/// Processes that this one has started, directly or not, that are alive.
pub(crate) fn marked() -> Vec<Process> {
    with_entry(&format!("{MARK}={}", mark()))
}

/// Processes that are alive and were started with `entry` in their environment.
pub(crate) fn with_entry(entry: &str) -> Vec<Process> {
    let has_it = |process: &Process| process.is_alive() && has_entry(process.pid, entry);
    processes().into_iter().filter(has_it).collect()
}

/// Kills the marked processes for which `is_meant` holds, and those that they start meanwhile. Returns their
/// descriptions.
pub(crate) fn kill_marked(is_meant: impl Fn(&Process) -> bool) -> Vec<String> {
    let mut killed = Vec::new();
    for _ in 0..KILL_ROUNDS {
        let alive: Vec<Process> = marked().into_iter().filter(&is_meant).collect();
        if alive.is_empty() {
            break;
        }
        for process in alive {
            if send(process.pid, Some(process.since), Signal::KILL) {
                let description = process.describe();
                if !killed.contains(&description) {
                    killed.push(description);
                }
            }
        }
        thread::sleep(Duration::from_millis(20));
    }
    killed
}

/// Rounds of [`kill_marked`]: a process may be busy in the kernel for some seconds.
const KILL_ROUNDS: u32 = 250;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_with_brackets_and_blanks_is_read() {
        let line = "7 (a) b (c) S 1 7 5 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0";
        let expected = Process {
            pid: 7,
            parent: 1,
            session: 5,
            state: 'S',
            name: "a) b (c".into(),
            since: 4711,
        };
        assert_eq!(parse(7, line), Some(expected));
        assert_eq!(parse(7, "7 (a) S 1"), None);
        assert!(fs::metadata("/proc/self/stat").is_ok(), "there is a /proc to read");
    }
}
