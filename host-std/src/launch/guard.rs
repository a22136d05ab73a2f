//! Guard: a process that outlives the launcher by a moment, so that no rank does.
//!
//! A launcher that is killed by `SIGKILL` cannot terminate its ranks, and the system does not do it
//! either: a child can learn that its parent has died only where code of the launcher runs in the child
//! before the program does, which would cost every rank another start. So one small process is started
//! before all ranks, in a session of its own, where no terminal reaches it. It waits for the end of a
//! pipe that only the launcher holds open, and through which it receives the ranks and the files to
//! remove. If the launcher has dismissed it before, it just exits; otherwise it terminates the processes
//! of the run: see [`survivors`](super::survivors). If a rank had the launcher's terminal, the guard
//! restores its modes.
//!
//! Starting a program takes longer than all other work before the first rank. So the guard is a fork of
//! the launcher at first, which does nothing but wait, and executes a program with a name and an
//! environment of its own only when a run lasts for a moment, or when it is needed.
//!
//! Without `/proc`, the guard has no effect.

use crate::launch::processes::ProcessIdentity;
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

/// Variable that marks processes of a run.
pub(crate) const RUN: &str = "PMI_RUN_MARK";

/// The command word of the guard; only a launcher starts it.
pub(crate) const GUARD: &str = "guard";

/// The guard of one run.
#[derive(Debug)]
pub(crate) struct Guard {
    switch: OwnedFd,
    pid: Pid,
    mark: String,
    started: Instant,
}

/// Report of the launcher to the guard. A record ends with a NUL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GuardRecord<'a> {
    /// A rank is about to be started; its end of the socket pair has this inode number.
    Starting(u64),
    /// A rank was started with this process.
    Started(i32),
    /// This rank has terminated, and no process of its group is left.
    Ended(i32),
    /// A file to remove if the launcher cannot do it.
    File(&'a [u8]),
    /// The run is over; nothing is to be terminated.
    Goodbye,
}

impl Guard {
    /// Starts the guard. It restores the modes of the terminal if a rank `has_terminal`, and spares
    /// `inherited` processes. `None` if the system does not support it.
    pub(crate) fn start(has_terminal: bool, inherited: &[ProcessIdentity]) -> Option<Self> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mark = format!("{}.{}", getpid().as_raw_nonzero(), since.as_nanos());
        let modes = has_terminal.then(console::modes_to_keep).flatten();
        let (switch, pid) = spawn(&mark, modes.as_deref(), &inherited_words(inherited)).ok()?;
        Some(Self { switch, pid, mark, started: Instant::now() })
    }

    /// Value of [`RUN`] in the environment of processes of this run.
    pub(crate) fn mark(&self) -> &str {
        &self.mark
    }

    /// Its process: a child of the launcher that no rank has left behind.
    pub(crate) const fn pid(&self) -> Pid {
        self.pid
    }

    /// Reports that a rank is about to be started. Until its start is reported, the guard identifies it
    /// by the inode number of `socket`, which it inherits.
    pub(crate) fn report_starting(&self, socket: &OwnedFd) {
        if let Ok(stat) = rustix::fs::fstat(socket) {
            self.report(GuardRecord::Starting(stat.st_ino));
        }
    }

    /// Reports that a rank was started.
    pub(crate) fn report_start(&self, pid: i32) {
        self.report(GuardRecord::Started(pid));
    }

    /// Reports that a rank has terminated. Its pid identifies its session as long as processes are left
    /// there.
    pub(crate) fn report_end(&self, pid: i32) {
        if Pid::from_raw(pid).is_none_or(|pid| test_kill_process_group(pid).is_err()) {
            self.report(GuardRecord::Ended(pid));
        }
    }

    /// Reports a file to remove if the launcher is killed.
    pub(crate) fn report_file(&self, path: &Path) {
        self.report(GuardRecord::File(path.as_os_str().as_bytes()));
    }

    /// Dismisses the guard: no process of this run is left, or none is to be terminated.
    pub(crate) fn dismiss(&self) {
        self.report(GuardRecord::Goodbye);
        // While it only waits, it does not read. It is a child of the launcher, so its pid is not reused.
        if self.started.elapsed() < MOMENT - MARGIN {
            let _ = kill_process(self.pid, Signal::KILL);
        }
    }

    fn report(&self, record: GuardRecord<'_>) {
        // A terminated guard needs no report; one that is stopped for thousands of them gets no more.
        let _ = rustix::io::write(&self.switch, &record.bytes());
    }
}

impl<'a> GuardRecord<'a> {
    /// Parses a record without its NUL.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let pid = || std::str::from_utf8(rest).ok()?.parse().ok();
        match kind {
            b'*' => std::str::from_utf8(rest).ok()?.parse().ok().map(Self::Starting),
            b'+' => pid().map(Self::Started),
            b'-' => pid().map(Self::Ended),
            b'@' => Some(Self::File(rest)),
            b'.' => Some(Self::Goodbye),
            _ => None,
        }
    }

    fn bytes(self) -> Vec<u8> {
        match self {
            Self::Starting(inode) => format!("*{inode}\0").into_bytes(),
            Self::Started(pid) => format!("+{pid}\0").into_bytes(),
            Self::Ended(pid) => format!("-{pid}\0").into_bytes(),
            Self::File(path) => [b"@", path, b"\0"].concat(),
            Self::Goodbye => b".\0".to_vec(),
        }
    }
}

/// Forks the guard, and returns the writing end of the pipe that it reads.
#[allow(unsafe_code, reason = "a process is copied by fork alone")]
fn spawn(mark: &str, modes: Option<&str>, inherited: &str) -> io::Result<(OwnedFd, Pid)> {
    let (read, switch) = pipe_with(PipeFlags::CLOEXEC)?;
    // Writes to the guard never block.
    ioctl_fionbio(&switch, true)?;
    let null = fs::OpenOptions::new().write(true).open("/dev/null")?;
    let words = ["pmi-host", GUARD, mark, modes.unwrap_or_default(), inherited];
    let words = words.map(|word| CString::new(word).unwrap_or_default());
    // A key, a stop of the process group, and the guard of an outer run, which takes the copy for a
    // rank, must not interrupt its work. Blocked signals stay so across the exec.
    let mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    // SAFETY: no other thread can leave a lock behind in the copy. A launcher has one thread at this
    // point; and until the copy executes a program or exits, it only makes system calls and allocates
    // memory, which the C library supports after a fork of a process with several threads too.
    let pid = match unsafe { fork() } {
        Ok(ForkResult::Child) => {
            drop(switch);
            let _ = setsid();
            wait_as_copy(&read, &null, modes.is_some());
            let nothing: [CString; 0] = [];
            let _ = execve(c"/proc/self/exe", &words, &nothing);
            // SAFETY: it terminates this copy at once and runs no exit handlers: their state belongs to the
            // launcher.
            unsafe { libc::_exit(0) }
        }
        Ok(ForkResult::Parent { child }) => Ok(child.as_raw()),
        Err(error) => Err(error),
    };
    mask.thread_set_mask()?;
    let pid = Pid::from_raw(pid?).ok_or(io::ErrorKind::Other)?;
    Ok((switch, pid))
}

/// Waits in the copy until it must become the guard: the launcher is gone, or has run for a moment.
fn wait_as_copy(read: &OwnedFd, null: &fs::File, has_terminal: bool) {
    // A reader of the launcher's output waits for all that hold it open. A terminal is only read; no
    // process waits for its end.
    let _ = match has_terminal {
        true => rustix::stdio::dup2_stdout(rustix::stdio::stdin()),
        false => rustix::stdio::dup2_stdout(null),
    };
    let _ = rustix::stdio::dup2_stderr(null);
    let _ = rustix::stdio::dup2_stdin(read);
    // Records are left for the program to read, and do not wake the copy.
    let mut hang_up = [PollFd::new(read, PollFlags::empty())];
    let moment = Timespec { tv_sec: 0, tv_nsec: MOMENT.subsec_nanos().into() };
    // If waiting fails, the program handles it.
    let _ = poll(&mut hang_up, Some(&moment));
}

/// For a run longer than this, the cost of starting a program is negligible.
const MOMENT: Duration = Duration::from_millis(100);

/// Margin before that moment within which the copy has surely not executed the program.
const MARGIN: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_they_were_written() {
        for record in [
            GuardRecord::Starting(7),
            GuardRecord::Started(7),
            GuardRecord::Ended(7),
            GuardRecord::File(b"/a b"),
            GuardRecord::Goodbye,
        ] {
            let bytes = record.bytes();
            assert_eq!(GuardRecord::parse(bytes.strip_suffix(&[0]).unwrap()), Some(record));
        }
        assert_eq!([&b""[..], b"+", b"+x", b"*", b"?"].map(GuardRecord::parse), [None; 5]);
    }
}
