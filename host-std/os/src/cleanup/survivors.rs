//! Program of the guard: terminates the processes of a run after the launcher is gone.
//!
//! A process belongs to the run if one of these holds:
//!
//! - It is a rank or starter that had not terminated, or is in the session of one.
//! - It has the socket of a rank, or the pipe of a starter, whose start was not reported yet.
//! - It has the mark of the run in its environment.
//! - It is in the control group of the run, if one could be made.
//! - It descends from one that belongs to the run.
//!
//! The launcher itself does not, which may have given up the run and be about to print why, nor do processes
//! that it had inherited, nor guards of launchers that are ranks themselves: these terminate their own runs.

use super::cgroup::Cgroup;
use super::files::remove_directory;
use super::guard_protocol::{GUARD, GuardRecord, Guarded, NAME, RUN, identity, launcher_of};
use crate::clock;
use crate::console;
use crate::null_device;
use crate::process_handle::signal_same;
use crate::processes::{self, ProcessIdentity, Relations};
use crate::runtime_dir;
use pmi_host_base::system_file;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpid, getppid, kill_process};
use rustix::thread::set_name;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use std::{fs, thread};

/// Runs the guard: reads the launcher's reports from standard input until the launcher is gone.
pub fn run(words: Vec<OsString>) -> ExitCode {
    // The exec has named the process after the path of the program.
    let _ = set_name(NAME);
    let mut words = words.iter().map(|word| word.to_str().unwrap_or_default());
    let Some(mark) = words.next() else { return ExitCode::FAILURE };
    let (modes, inherited) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    watch_run(mark, modes, inherited, Guarded::parse(words.next().unwrap_or_default()));
    ExitCode::SUCCESS
}

/// Waits for the end of the launcher of the run with this mark, and terminates what it leaves behind.
/// Standard input is the pipe from the launcher, standard output the terminal to restore, and standard error
/// leads to the starter of a node server that has one.
pub(crate) fn watch_run(mark: &str, modes: &str, inherited: &str, guarded: Guarded) {
    let inherited = inherited.split_terminator(',').filter_map(identity).collect();
    let mut run = Survivors::new(mark, inherited);
    run.has_starter = guarded == Guarded::NodeRanks;
    if guarded != Guarded::Starters {
        run.gather();
    }
    let is_over = run.listen();
    // The starter waits for all that hold it open.
    if run.has_starter
        && let Ok(null) = null_device::open()
    {
        let _ = rustix::stdio::dup2_stderr(null);
    }
    if is_over {
        run.cgroup.take().into_iter().for_each(Cgroup::remove);
        return;
    }
    if !modes.is_empty() {
        console::give_back(rustix::stdio::stdout(), modes);
    }
    if let Some(launcher) = launcher_of(mark) {
        runtime_dir::remove_of_killed(launcher, &run.files);
    }
    run.terminate();
}

/// State of the run.
#[derive(Debug, Default)]
struct Survivors {
    mark: String,
    inherited: Vec<ProcessIdentity>,
    /// The process of the launcher, if it was the parent of this one at the start.
    launcher: Option<ProcessIdentity>,
    /// True if standard error leads to the starter of the launcher, which is a node server.
    has_starter: bool,
    /// Ranks and starters that have not terminated, and those with processes left in their sessions.
    ranks: BTreeSet<i32>,
    /// Inode numbers of the sockets or pipes of a batch whose processes were not all reported.
    starting: BTreeSet<u64>,
    /// Files that the launcher would have removed.
    files: Vec<PathBuf>,
    /// Directories that the launcher would have removed, which processes of the run may use.
    directories: Vec<PathBuf>,
    cgroup: Option<Cgroup>,
    /// All processes found to belong to the run.
    known: BTreeSet<ProcessIdentity>,
}

impl Survivors {
    fn new(mark: &str, inherited: Vec<ProcessIdentity>) -> Self {
        let parent = getppid().map(|pid| pid.as_raw_nonzero().get());
        let launcher = launcher_of(mark).filter(|pid| parent == Some(*pid));
        let launcher = launcher.and_then(processes::relations);
        let launcher = launcher.map(|one| one.id);
        Self { mark: mark.to_owned(), inherited, launcher, ..Self::default() }
    }

    /// Moves the launcher and its descendants into a control group, if one can be made. Processes
    /// started later are in it from their start.
    fn gather(&mut self) {
        let Some(launcher) = self.launcher.map(|one| one.pid) else { return };
        let Some(group) = Cgroup::create(&self.mark) else { return };
        // Without the launcher in it, later processes would not be in it either.
        if group.add(launcher).is_err() {
            return group.remove();
        }
        for _ in 0..ROUNDS {
            let inside: BTreeSet<i32> = group.members().into_iter().collect();
            let is_barred =
                |one: &Relations| self.inherited.contains(&one.id) || one.id.pid == own_pid();
            let ours = processes::family_of(launcher, is_barred);
            let outside = ours.iter().filter(|one| one.is_alive && !inside.contains(&one.id.pid));
            // A process that cannot be moved would be tried indefinitely.
            if outside.filter(|one| group.add(one.id.pid).is_ok()).count() == 0 {
                break;
            }
        }
        self.cgroup = Some(group);
    }

    /// Reads the reports of the launcher until it is gone; true if it has dismissed the guard.
    ///
    /// Reports of many starts follow one another. They are read at intervals, so that the guard takes no
    /// processor time from the starts; the end of the launcher is noticed at once.
    fn listen(&mut self) -> bool {
        let input = rustix::stdio::stdin();
        let (mut held, mut chunk, mut is_over) = (Vec::new(), [0; 4096], false);
        loop {
            self.watch_starter();
            match rustix::io::read(input, &mut chunk) {
                Err(Errno::INTR) => continue,
                Ok(0) | Err(_) => return is_over,
                Ok(len) => held.extend_from_slice(&chunk[..len]),
            }
            is_over |= self.handle_records(&mut held);
            let mut hang_up = [PollFd::new(&input, PollFlags::empty())];
            let _ = poll(&mut hang_up, Some(&INTERVAL));
        }
    }

    /// Waits until there is something to read. If the starter has gone before, the run is over: a launcher
    /// that is stopped is continued, so that it notices that and ends its ranks.
    fn watch_starter(&self) {
        let (input, errors) = (rustix::stdio::stdin(), rustix::stdio::stderr());
        let mut has_gone = false;
        if !self.has_starter {
            return;
        }
        loop {
            let starter = PollFd::new(&errors, PollFlags::empty());
            let mut files = [PollFd::new(&input, PollFlags::IN), starter];
            // The state of a file that is closed is ready all the time.
            let count = if has_gone { 1 } else { 2 };
            let until = has_gone.then_some(&STOPPED_AGAIN);
            if poll(&mut files[..count], until).is_err() || !files[0].revents().is_empty() {
                return;
            }
            has_gone |= !files[1].revents().is_empty();
            let launcher = self.launcher.map(|one| one.pid);
            if let Some(launcher) = launcher.filter(|pid| has_gone && is_stopped(*pid)) {
                let _ = Pid::from_raw(launcher).map(|pid| kill_process(pid, Signal::CONT));
            }
        }
    }

    /// Handles the complete records of those read and removes them; true if one dismisses the guard.
    fn handle_records(&mut self, held: &mut Vec<u8>) -> bool {
        let whole = held.iter().rposition(|byte| *byte == 0).map_or(0, |last| last + 1);
        let mut is_over = false;
        for record in held[..whole].split(|byte| *byte == 0) {
            is_over |= self.handle_record(record);
        }
        held.drain(..whole);
        is_over
    }

    /// Handles one report; true if it dismisses the guard.
    fn handle_record(&mut self, record: &[u8]) -> bool {
        match GuardRecord::parse(record) {
            Some(GuardRecord::Starting(inode)) => drop(self.starting.insert(inode)),
            Some(GuardRecord::Started(pid)) => drop(self.ranks.insert(pid)),
            Some(GuardRecord::BatchStarted) => self.starting.clear(),
            Some(GuardRecord::Ended(pid)) => drop(self.ranks.remove(&pid)),
            Some(GuardRecord::File(path)) => self.files.push(OsStr::from_bytes(path).into()),
            Some(GuardRecord::Directory(path)) => {
                self.directories.push(OsStr::from_bytes(path).into());
            }
            Some(GuardRecord::Goodbye) => return true,
            None => {}
        }
        false
    }

    /// Sends `SIGTERM` to all, and kills the remaining ones after the grace period.
    fn terminate(mut self) {
        let start = clock::now();
        let mut is_first = true;
        while clock::since(start) < GIVE_UP {
            let signals: &[Signal] = match clock::since(start) < GRACE {
                true if is_first => &[Signal::TERM, Signal::CONT],
                true => &[],
                false => &[Signal::KILL],
            };
            let left = self.look(is_first);
            is_first = false;
            if left.is_empty() {
                break;
            }
            if signals == [Signal::KILL]
                && let Some(group) = &self.cgroup
            {
                group.kill();
            }
            left.iter().for_each(|one| signal_same(one.id, signals));
            thread::sleep(LOOK);
        }
        self.cgroup.into_iter().for_each(Cgroup::remove);
        self.directories.iter().for_each(|path| remove_directory(path));
    }

    /// All present processes of the run. At the `first` look a rank may be identified by its pid alone,
    /// since the launcher has not reaped it.
    fn look(&mut self, first: bool) -> Vec<Relations> {
        let all = processes::all();
        let entry = format!("{RUN}={}", self.mark);
        let members = self.cgroup.as_ref().map(Cgroup::members).unwrap_or_default();
        // A session with a reused number is not one of the run.
        let reused = |pid: i32| {
            let leader = all.iter().find(|one| one.id.pid == pid);
            !first && leader.is_some_and(|one| !self.known.contains(&one.id))
        };
        let sessions: Vec<i32> = self.ranks.iter().copied().filter(|pid| !reused(*pid)).collect();
        let is_root = |one: &Relations| {
            self.known.contains(&one.id)
                || sessions.contains(&one.session)
                || (first && self.ranks.contains(&one.id.pid))
                || members.contains(&one.id.pid)
                || self.starting.iter().any(|inode| processes::has_end(one.id.pid, *inode))
                || processes::has_entry(one.id.pid, &entry) == Some(true)
        };
        let is_barred = |one: &Relations| {
            !one.is_alive
                || one.id.pid == own_pid()
                || self.launcher == Some(one.id)
                || self.inherited.contains(&one.id)
                || is_guard(one.id.pid)
        };
        let found = processes::descendants(&all, is_root, is_barred);
        self.known.extend(found.iter().map(|one| one.id));
        found
    }
}

/// True if a process is stopped by a signal.
fn is_stopped(pid: i32) -> bool {
    let stat = procfs::process::Process::new(pid).and_then(|process| process.stat());
    stat.is_ok_and(|stat| stat.state == 'T')
}

/// True if a process is the guard of a launcher.
fn is_guard(pid: i32) -> bool {
    let words = system_file::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let is_called = words.split(|byte| *byte == 0).nth(1) == Some(GUARD.as_bytes());
    is_called && fs::read_link(format!("/proc/{pid}/exe")).ok() == std::env::current_exe().ok()
}

fn own_pid() -> i32 {
    getpid().as_raw_nonzero().get()
}

/// Grace period for processes to terminate by themselves. Their launcher is gone and so is the rest of
/// their job, so there is not much to save.
const GRACE: Duration = Duration::from_secs(1);

/// A process that cannot be killed until then is stuck in the kernel.
const GIVE_UP: Duration = Duration::from_secs(30);

/// Interval of the checks; there is no event for the end of another process's child.
const LOOK: Duration = Duration::from_millis(20);

/// Interval between two reads of reports. In this time a launcher starts some hundred ranks; the pipe holds
/// the reports of thousands.
const INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Time between two looks at a launcher whose starter has gone.
const STOPPED_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };

/// Bound on the repetitions: processes may fork while they are moved.
const ROUNDS: usize = 50;

#[cfg(test)]
mod tests {
    use super::*;

    /// A rank may have removed the mark from its environment before its process is reported.
    #[test]
    fn ranks_of_a_batch_are_known_wherever_the_reports_end() {
        let batch = [(70, 7), (80, 8), (90, 9)];
        let starting = GuardRecord::starting(batch.iter().map(|(inode, _)| *inode));
        let started = GuardRecord::started(batch.iter().map(|(_, pid)| *pid));
        for end in 0..=started.len() {
            let mut run = Survivors::default();
            let mut held = [&starting, &started[..end]].concat();
            assert!(!run.handle_records(&mut held));
            for (inode, pid) in &batch {
                assert!(run.starting.contains(inode) || run.ranks.contains(pid), "{end}: {run:?}");
            }
            held.extend(&started[end..]);
            assert!(!run.handle_records(&mut held));
            assert!(held.is_empty() && run.starting.is_empty());
        }
    }
}
