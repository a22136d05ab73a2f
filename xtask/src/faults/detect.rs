//! Finding every process of a run, also those that have left it on purpose.
//!
//! A process belongs to a run if any of these holds:
//!
//! * an ancestor of it is the process that plays the case. That one is a subreaper, so a process whose parent
//!   ends becomes its child, whatever session, process group or environment it has given itself;
//! * its environment has the mark of the case;
//! * it is in the session of the launcher.
//!
//! An orphan is a process of the run that is alive when the launcher has ended and the grace is over. A
//! zombie is not alive.

use crate::processes::{Process, has_ancestor, has_entry, processes, send};
use rustix::process::{Pid, Signal, WaitOptions, waitpid};
use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

/// The variable by which processes of a case are known.
pub(super) const MARK: &str = "PMI_FAULT_CASE";

/// The marks by which processes of one run are found.
#[derive(Clone, Debug)]
pub(super) struct RunProcesses {
    /// The process that plays the case.
    pub(super) root: i32,
    /// The value of [`MARK`].
    pub(super) mark: String,
    /// The launcher, which leads its session or its process group.
    pub(super) launcher: i32,
    /// Processes of the suite below the root.
    pub(super) others: Vec<i32>,
}

impl RunProcesses {
    /// The processes of the run that are alive.
    pub(super) fn alive(&self) -> Vec<Process> {
        let all = processes();
        let parents: BTreeMap<i32, i32> = all.iter().map(|p| (p.pid, p.parent)).collect();
        let entry = format!("{MARK}={}", self.mark);
        let belongs = |process: &Process| {
            has_ancestor(&parents, process.pid, self.root)
                || process.session == self.launcher
                || has_entry(process.pid, &entry)
        };
        let is_other =
            |process: &Process| process.pid == self.root || self.others.contains(&process.pid);
        all.into_iter()
            .filter(|process| !is_other(process) && process.is_alive() && belongs(process))
            .collect()
    }

    /// Takes what is left of processes that have become children of this one, except the launcher, whose end
    /// is waited for elsewhere.
    pub(super) fn reap(&self) {
        for process in processes() {
            let is_ours = process.parent == self.root && process.pid != self.launcher;
            if is_ours && !process.is_alive() {
                reap_child(process.pid);
            }
        }
    }

    /// Kills the processes of the run that are alive, and only them, until there is none, at most for
    /// [`KILL_TIME`].
    pub(super) fn kill(&self) {
        let until = Instant::now() + KILL_TIME;
        loop {
            let alive = self.alive();
            for process in &alive {
                send(process.pid, Some(process.since), Signal::KILL);
            }
            self.reap();
            if alive.is_empty() || Instant::now() > until {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

fn reap_child(pid: i32) {
    let _ = waitpid(Pid::from_raw(pid), WaitOptions::NOHANG);
}

/// A process that is busy in the kernel takes a moment to end.
const KILL_TIME: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processes::process;
    use rustix::process::{getpid, set_child_subreaper};
    use std::process::{Command, Stdio};

    fn own_pid() -> i32 {
        getpid().as_raw_nonzero().get()
    }

    /// Starts `script` with the mark `mark`; it prints the number of a process that it leaves behind.
    fn plant(mark: &str, script: &str) -> i32 {
        set_child_subreaper(Some(getpid())).unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).env(MARK, mark).stderr(Stdio::null());
        let output = shell.output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().parse().unwrap()
    }

    fn end(pid: i32) {
        assert!(send(pid, None, Signal::KILL), "the planted process {pid} was there");
        let until = Instant::now() + Duration::from_secs(20);
        while process(pid).is_some_and(|process| process.is_alive()) {
            assert!(Instant::now() < until, "the planted process {pid} ends");
            thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn orphan_with_an_empty_environment_and_a_session_of_its_own_is_found() {
        let orphan = plant("empty", "exec env -i setsid sh -c 'sleep 60 > /dev/null & echo $!'");
        let run = RunProcesses {
            root: own_pid(),
            mark: "empty".into(),
            launcher: 1 << 30,
            others: vec![],
        };
        let found = run.alive();
        let marked = has_entry(orphan, &format!("{MARK}=empty"));
        end(orphan);
        assert!(found.iter().any(|process| process.pid == orphan), "{orphan} in {found:?}");
        assert!(!marked, "the mark alone would not have found it");
    }

    #[test]
    fn orphan_of_another_parent_is_found_by_its_mark() {
        let orphan = plant("marked", "sleep 60 > /dev/null & echo $!");
        // No ancestor of it is process 1 << 30, and that has no session.
        let run = RunProcesses {
            root: 1 << 30,
            mark: "marked".into(),
            launcher: 1 << 30,
            others: vec![],
        };
        let found = run.alive();
        let missed = RunProcesses { mark: "other".into(), ..run }.alive();
        end(orphan);
        assert_eq!(found.iter().map(|process| process.pid).collect::<Vec<_>>(), [orphan]);
        assert_eq!(missed, []);
    }

    #[test]
    fn zombie_is_not_alive_and_is_reaped() {
        let orphan = plant("zombie", "setsid sleep 60 > /dev/null & echo $!");
        let run = RunProcesses {
            root: own_pid(),
            mark: "zombie".into(),
            launcher: 1 << 30,
            others: vec![],
        };
        end(orphan);
        assert!(run.alive().iter().all(|process| process.pid != orphan));
        // Other tests of this process wait for children of theirs.
        reap_child(orphan);
        assert_eq!(process(orphan), None);
    }

    #[test]
    fn process_that_is_older_than_its_number_is_left_alone() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let since = process(pid).unwrap().since;
        assert!(!send(pid, Some(since + 1), Signal::KILL));
        assert!(send(pid, Some(since), Signal::KILL));
        assert!(!child.wait().unwrap().success());
    }
}
