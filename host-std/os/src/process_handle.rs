//! A process that is observed and signaled: its end as a descriptor, and signals that reach no other process.
//!
//! The system call `pidfd_open` provides both. Sandboxes that know only older calls, or that filter by a
//! list, refuse it; then a thread of this process waits for the end, and closes a pipe.

use super::processes::{self, ProcessIdentity};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, pidfd_open, pidfd_send_signal,
    waitid,
};
use std::io;
use std::thread;
use std::time::Duration;

/// A process that this one has started and not reaped, or another one.
#[derive(Debug)]
pub struct ProcessHandle {
    pid: Pid,
    /// Readable, or closed by its other end, once the process has exited.
    end: OwnedFd,
    /// True if `end` refers to the process.
    is_pidfd: bool,
    relation: Relation,
}

/// Relation of a process to this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    /// A child that was not reaped: its number cannot have been reused.
    Child,
    /// Another process, with the start time by which it differs from later ones of its number.
    Other { start: Option<u64> },
}

impl ProcessHandle {
    /// Handle of a child of this process, which is not reaped as long as signals are sent.
    pub fn of_child(pid: Pid) -> io::Result<Self> {
        Self::open(pid, Relation::Child)
    }

    /// Handle of a process that may have any parent.
    ///
    /// # Errors
    ///
    /// Those of the system; for example, there is no such process.
    pub fn of_other(pid: Pid) -> io::Result<Self> {
        Self::open(pid, Relation::Other { start: start_of(pid) })
    }

    fn open(pid: Pid, relation: Relation) -> io::Result<Self> {
        let (end, is_pidfd) = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) => (handle, true),
            Err(error) if is_refusal(error) => (await_end(pid, relation)?, false),
            Err(error) => return Err(error.into()),
        };
        Ok(Self { pid, end, is_pidfd, relation })
    }

    /// Sends `signal`. No effect on a process that has exited.
    pub fn signal(&self, signal: Signal) {
        let is_same = match self.relation {
            Relation::Child => true,
            Relation::Other { .. } if self.is_pidfd => true,
            Relation::Other { start } => start.is_some() && start_of(self.pid) == start,
        };
        if is_same {
            send(self.is_pidfd.then_some(self.end.as_fd()), self.pid, signal);
        }
    }
}

impl AsFd for ProcessHandle {
    /// Descriptor that is readable, or closed by its other end, once the process has exited.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.end.as_fd()
    }
}

/// Signals a process of any parent, unless its number was reused.
pub(crate) fn signal_same(id: ProcessIdentity, signals: &[Signal]) {
    let Some(pid) = Pid::from_raw(id.pid) else { return };
    // Opened first: what is the same process afterwards is also the one of the descriptor.
    let handle = pidfd_open(pid, PidfdFlags::empty()).ok();
    if processes::relations(id.pid).is_some_and(|now| now.id == id) {
        for signal in signals {
            send(handle.as_ref().map(AsFd::as_fd), pid, *signal);
        }
    }
}

/// Sends a signal by a descriptor of the process, if there is one, or else by its number. The only possible
/// failure is that the process is gone, as intended by the sender.
fn send(handle: Option<BorrowedFd<'_>>, pid: Pid, signal: Signal) {
    let sent = handle.map(|handle| pidfd_send_signal(handle, signal));
    if sent.is_none_or(|sent| sent.is_err_and(is_refusal)) {
        let _ = kill_process(pid, signal);
    }
}

/// True for the answers of a system without the call, or of a filter.
fn is_refusal(error: Errno) -> bool {
    matches!(error, Errno::NOSYS | Errno::PERM | Errno::ACCESS)
}

/// Reading end of a pipe that closes when the process exits.
fn await_end(pid: Pid, relation: Relation) -> io::Result<OwnedFd> {
    let (reading, writing) = pipe_with(PipeFlags::CLOEXEC)?;
    let wait = move || {
        match relation {
            Relation::Child => wait_for_child(pid),
            Relation::Other { start } => {
                while start_of(pid).is_some_and(|now| start.is_none_or(|start| start == now)) {
                    thread::sleep(LOOK);
                }
            }
        }
        drop(writing);
    };
    let thread = thread::Builder::new().name("wait".to_owned()).stack_size(STACK_BYTES);
    thread.spawn(wait)?;
    Ok(reading)
}

/// Waits until a child has exited, and leaves it to be reaped.
fn wait_for_child(pid: Pid) {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while matches!(waitid(WaitId::Pid(pid), options), Err(Errno::INTR)) {}
}

/// Start time of a process; `None` if it has exited.
fn start_of(pid: Pid) -> Option<u64> {
    let found = processes::relations(pid.as_raw_nonzero().get())?;
    found.is_alive.then_some(found.id.start)
}

/// Interval of looks at a process that is not a child of this one.
const LOOK: Duration = Duration::from_millis(100);

/// Stack of a thread that makes one call.
const STACK_BYTES: usize = 32 << 10;
