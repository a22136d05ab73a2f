//! A process that was started, its end, and signals to it.

use pmi_host_os::clock;
use pmi_host_os::process_handle::ProcessHandle;
use pmi_host_os::processes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use serde::{Deserialize, Serialize};
use std::io;
use std::thread;
use std::time::Duration;

/// A process that was started and not yet reaped.
#[derive(Debug)]
pub(crate) struct Process {
    pid: Pid,
    handle: ProcessHandle,
    /// True for a child of this process: the system reports its end.
    is_ours: bool,
}

/// End of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ProcessEnd {
    /// It exited with this code.
    Exited(u8),
    /// A signal terminated it.
    Killed {
        /// The number of the signal.
        signal: i32,
        /// True if a core file was written.
        dumped: bool,
    },
    /// The kernel killed it for lack of memory.
    OutOfMemory,
    /// It was not started by this process, so its exit status is unknown.
    Unseen,
}

impl Process {
    /// The process of a rank that was just started.
    pub(super) fn started(pid: Pid) -> io::Result<Self> {
        let handle = ProcessHandle::of_child(pid)?;
        Ok(Self { pid, handle, is_ours: true })
    }

    /// A running process that this one did not start.
    ///
    /// # Errors
    ///
    /// Those of the system; for example, there is no such process.
    pub(crate) fn of_others(pid: i32) -> io::Result<Self> {
        let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
        let handle = ProcessHandle::of_other(pid)?;
        Ok(Self { pid, handle, is_ours: false })
    }

    /// Sends `signal`. No effect on a terminated process.
    pub(crate) fn signal(&self, signal: Signal) {
        self.handle.signal(signal);
    }

    /// True if it has a handler for `signal`; false if unknown.
    pub(crate) fn catches(&self, signal: Signal) -> bool {
        let status = procfs::process::Process::new(self.pid()).and_then(|process| process.status());
        status.is_ok_and(|status| status.sigcgt >> (signal.as_raw() - 1) & 1 == 1)
    }

    /// True if it ignores `signal`; false if unknown.
    pub(crate) fn ignores(&self, signal: Signal) -> bool {
        let status = procfs::process::Process::new(self.pid()).and_then(|process| process.status());
        status.is_ok_and(|status| status.sigign >> (signal.as_raw() - 1) & 1 == 1)
    }

    /// True if it handles `signal` itself: by a handler, or by blocking it to read it from a descriptor.
    /// False if unknown.
    pub(crate) fn handles(&self, signal: Signal) -> bool {
        let status = procfs::process::Process::new(self.pid()).and_then(|process| process.status());
        let has = |mask: u64| mask >> (signal.as_raw() - 1) & 1 == 1;
        status.is_ok_and(|status| has(status.sigcgt) || has(status.sigblk))
    }

    /// True while it is stopped, or has terminated.
    pub(crate) fn is_stopped(&self) -> bool {
        let stat = procfs::process::Process::new(self.pid()).and_then(|process| process.stat());
        stat.map_or(true, |stat| matches!(stat.state, 'T' | 't' | 'Z' | 'X'))
    }

    /// True if it was started by this process.
    pub(crate) const fn is_ours(&self) -> bool {
        self.is_ours
    }

    /// True if signals to the launcher's process group reach it too.
    pub(crate) fn is_in_our_group(&self) -> bool {
        processes::group(self.pid()) == Some(processes::own_group())
    }

    /// Sends `signal` to it and, if it leads a process group, to the whole group, which includes its
    /// children.
    pub(crate) fn signal_group(&self, signal: Signal) {
        if self.is_ours && processes::group(self.pid()) == Some(self.pid()) {
            // As for one process.
            let _ = kill_process_group(self.pid, signal);
        } else {
            self.signal(signal);
        }
    }

    /// Its pid.
    pub(crate) fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Its end, or `None` while it runs. After the end was returned, further calls have no result.
    pub(crate) fn ending(&self) -> io::Result<Option<ProcessEnd>> {
        if !self.is_ours {
            let mut ended = [PollFd::new(&self.handle, PollFlags::IN)];
            let count = poll(&mut ended, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
            return Ok((count > 0).then_some(ProcessEnd::Unseen));
        }
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        // Not reaped yet, so the pid cannot have been reused.
        let Some(status) = waitid(WaitId::Pid(self.pid), options)? else {
            return Ok(None);
        };
        Ok(match (status.exit_status(), status.terminating_signal()) {
            // The system keeps eight bits of the code.
            (Some(code), _) => Some(ProcessEnd::Exited(code.to_le_bytes()[0])),
            (None, Some(signal)) => Some(ProcessEnd::Killed { signal, dumped: status.dumped() }),
            (None, None) => None,
        })
    }

    /// Descriptor that becomes readable, or is closed by its other end, when the process terminates.
    pub(crate) fn handle(&self) -> &ProcessHandle {
        &self.handle
    }
}

impl ProcessEnd {
    /// Exit code by the convention of shells.
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Self::Exited(code) => code,
            Self::Killed { signal, .. } => shell_code(signal),
            Self::OutOfMemory => shell_code(Signal::KILL.as_raw()),
            Self::Unseen => 1,
        }
    }
}

/// Stops `processes` with their process groups.
///
/// The groups of processes that lead a session are orphaned, and the system discards an unhandled
/// `SIGTSTP` there. So processes that handle it get a moment to prepare, and `SIGSTOP` stops all.
pub(crate) fn stop(processes: &[&Process]) {
    let preparing: Vec<_> =
        processes.iter().filter(|process| process.handles(Signal::TSTP)).collect();
    preparing.iter().for_each(|process| process.signal_group(Signal::TSTP));
    let until = clock::now() + PREPARING;
    while !preparing.iter().all(|process| process.is_stopped()) && clock::now() < until {
        thread::sleep(LOOK);
    }
    processes.iter().for_each(|process| process.signal_group(Signal::STOP));
}

/// Time for processes to prepare for the stop: short enough for the response to a keystroke.
const PREPARING: Duration = Duration::from_millis(250);

/// Interval of the checks for that; there is no event for a process stopped by a signal.
const LOOK: Duration = Duration::from_millis(5);

/// Exit code for death by `signal`.
pub(crate) fn shell_code(signal: i32) -> u8 {
    u8::try_from(signal).map_or(u8::MAX, |signal| signal.saturating_add(128))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_follow_the_shell() {
        assert_eq!(ProcessEnd::Exited(7).exit_code(), 7);
        assert_eq!(ProcessEnd::Killed { signal: 11, dumped: true }.exit_code(), 139);
        assert_eq!(ProcessEnd::Killed { signal: 64, dumped: false }.exit_code(), 192);
    }
}
