//! A process that outlives us by a moment, so that no rank does.
//!
//! A launcher that is killed by `SIGKILL` cannot terminate its ranks, and the system does not do it either: a
//! child can learn that its parent has died only where something of ours runs in the child before the
//! program does, which would cost every rank another start. So one small process is started before all
//! ranks, in a session of its own, where no terminal reaches it. It waits for the end of a pipe that only we
//! hold open, and through which it learns which ranks there are and which files are ours. If we have said
//! goodbye before, that is all; if not, it terminates the processes of the run: see
//! [`survivors`](super::survivors). If a rank had our terminal, that gets its own modes back.
//!
//! To start a program takes longer than all else that we do before the first rank. So the guard is a copy of
//! us at first, which does nothing but wait, and becomes a program with a name and an environment of its own
//! only when a run lasts for a moment, or when it is needed.
//!
//! Where there is no `/proc`, the guard can do nothing.

use crate::launch::processes::Identity;
use crate::launch::survivors::inherited_words;
use crate::stdio::console;
use nix::libc;
use nix::sys::signal::{SigSet, SigmaskHow};
use nix::unistd::{ForkResult, execve, fork, setsid};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::ioctl_fionbio;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, getpid, kill_process, test_kill_process_group};
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The variable by which processes of a run are known.
pub const RUN: &str = "PMI_RUN_MARK";

/// The command word of the guard; only a launcher starts it.
pub const GUARD: &str = "guard";

/// The guard of one run.
#[derive(Debug)]
pub struct Guard {
    switch: OwnedFd,
    pid: Pid,
    mark: String,
    started: Instant,
}

/// What the launcher reports to the guard. A record ends with a NUL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// This process was started as a rank.
    Started(i32),
    /// This rank has ended, and no process of its group is left.
    Ended(i32),
    /// This file is to be removed if the launcher cannot do it.
    File(&'a [u8]),
    /// The run is over; nothing is to be terminated.
    Goodbye,
}

impl Guard {
    /// Starts it, to give our terminal its own modes back too if a rank `has_terminal`, and to spare what we
    /// have `inherited`. There is none if the system has no way to.
    pub fn start(has_terminal: bool, inherited: &[Identity]) -> Option<Self> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mark = format!("{}.{}", getpid().as_raw_nonzero(), since.as_nanos());
        let modes = has_terminal.then(console::modes_to_keep).flatten();
        let (switch, pid) = spawn(&mark, modes.as_deref(), &inherited_words(inherited)).ok()?;
        Some(Self { switch, pid, mark, started: Instant::now() })
    }

    /// What processes of this run have as [`RUN`].
    pub fn mark(&self) -> &str {
        &self.mark
    }

    /// Its process: a child of ours that no rank has left behind.
    pub const fn pid(&self) -> Pid {
        self.pid
    }

    /// Reports that a rank was started.
    pub fn report_start(&self, pid: i32) {
        self.report(Record::Started(pid));
    }

    /// Reports that a rank has ended. Its number stands for its session as long as processes are left there.
    pub fn report_end(&self, pid: i32) {
        if Pid::from_raw(pid).is_none_or(|pid| test_kill_process_group(pid).is_err()) {
            self.report(Record::Ended(pid));
        }
    }

    /// Reports a file that is to be removed if we are killed.
    pub fn report_file(&self, path: &Path) {
        self.report(Record::File(path.as_os_str().as_bytes()));
    }

    /// Says goodbye: no process of this run is left, or is to be terminated.
    pub fn dismiss(&self) {
        self.report(Record::Goodbye);
        // While it only waits it does not read. It is our child, so the number is still its own.
        if self.started.elapsed() < MOMENT - MARGIN {
            let _ = kill_process(self.pid, Signal::KILL);
        }
    }

    fn report(&self, record: Record<'_>) {
        // If it is gone it needs no report, and if it was stopped for thousands of them, it gets no more.
        let _ = rustix::io::write(&self.switch, &record.bytes());
    }
}

impl<'a> Record<'a> {
    /// Reads a record without its NUL.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let pid = || std::str::from_utf8(rest).ok()?.parse().ok();
        match kind {
            b'+' => pid().map(Self::Started),
            b'-' => pid().map(Self::Ended),
            b'@' => Some(Self::File(rest)),
            b'.' => Some(Self::Goodbye),
            _ => None,
        }
    }

    fn bytes(self) -> Vec<u8> {
        match self {
            Self::Started(pid) => format!("+{pid}\0").into_bytes(),
            Self::Ended(pid) => format!("-{pid}\0").into_bytes(),
            Self::File(path) => [b"@", path, b"\0"].concat(),
            Self::Goodbye => b".\0".to_vec(),
        }
    }
}

/// Starts the guard as a copy of this process, and gives the end of the pipe that it waits at.
#[allow(unsafe_code, reason = "a copy of a process can be had in no other way")]
fn spawn(mark: &str, modes: Option<&str>, inherited: &str) -> io::Result<(OwnedFd, Pid)> {
    let (read, switch) = pipe_with(PipeFlags::CLOEXEC)?;
    // We never wait for the guard.
    ioctl_fionbio(&switch, true)?;
    let null = fs::OpenOptions::new().write(true).open("/dev/null")?;
    let words = ["pmi-host", GUARD, mark, modes.unwrap_or_default(), inherited];
    let words = words.map(|word| CString::new(word).unwrap_or_default());
    // A key, a stop of our group and the guard of a run that we belong to, which takes the copy for a rank,
    // must not keep it from its work. Blocked signals stay so when it becomes a program.
    let mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    // SAFETY: no other thread can leave a lock behind in the copy. A launcher has one thread when it gets
    // here; and what the copy does until it becomes a program or ends are calls of the system, and a request
    // for memory, which the C library keeps in order in copies of processes with several threads too.
    let pid = match unsafe { fork() } {
        Ok(ForkResult::Child) => {
            drop(switch);
            let _ = setsid();
            wait_as_copy(&read, &null, modes.is_some());
            let nothing: [CString; 0] = [];
            let _ = execve(c"/proc/self/exe", &words, &nothing);
            // SAFETY: it ends this copy at once and runs nothing of ours, whose books are not the copy's.
            unsafe { libc::_exit(0) }
        }
        Ok(ForkResult::Parent { child }) => Ok(child.as_raw()),
        Err(error) => Err(error),
    };
    mask.thread_set_mask()?;
    let pid = Pid::from_raw(pid?).ok_or(io::ErrorKind::Other)?;
    Ok((switch, pid))
}

/// Waits in the copy until it is time to become the guard: the launcher is gone, or has run for a moment.
fn wait_as_copy(read: &OwnedFd, null: &fs::File, has_terminal: bool) {
    // A reader of our output waits for all who hold it. A terminal is what we read; nothing waits for that.
    let _ = match has_terminal {
        true => rustix::stdio::dup2_stdout(rustix::stdio::stdin()),
        false => rustix::stdio::dup2_stdout(null),
    };
    let _ = rustix::stdio::dup2_stderr(null);
    let _ = rustix::stdio::dup2_stdin(read);
    // Records are left for the program to read, and are no reason to wake up.
    let mut hang_up = [PollFd::new(read, PollFlags::empty())];
    let moment = Timespec { tv_sec: 0, tv_nsec: MOMENT.subsec_nanos().into() };
    // Whatever keeps it from waiting: the program knows what to do.
    let _ = poll(&mut hang_up, Some(&moment));
}

/// A run that lasts longer than this will hardly notice what a program costs.
const MOMENT: Duration = Duration::from_millis(100);

/// So long before its moment the copy is surely still one.
const MARGIN: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_they_were_written() {
        for record in [Record::Started(7), Record::Ended(7), Record::File(b"/a b"), Record::Goodbye]
        {
            let bytes = record.bytes();
            assert_eq!(Record::parse(bytes.strip_suffix(&[0]).unwrap()), Some(record));
        }
        assert_eq!([&b""[..], b"+", b"+x", b"?"].map(Record::parse), [None; 4]);
    }
}
