//! A process that outlives us by a moment, so that no rank does.
//!
//! Whoever kills a launcher with `SIGKILL` gives it no chance to end its ranks, and the system does not do it
//! either: it can tell a child that its parent has died only where something of ours runs in the child before
//! the program does, which would cost every rank another start. So one small process is started before all
//! ranks, in a process group of its own. It waits for the end of a pipe that only we hold open. If we have
//! said goodbye before, that is all; if not, it looks for processes that have [`RUN`] with our mark in their
//! environment, whether ranks started them or we did, asks them to end, and kills those that do not. If a
//! rank had our terminal, that gets its own modes back.
//!
//! To start a program takes longer than all else that we do before the first rank. So the guard is a copy of
//! us at first, which does nothing but wait, and becomes a program with a name and an environment of its own
//! only when a run lasts for a moment, or when it is needed.
//!
//! Where there is no `/proc`, or the environment of a process cannot be read, the guard can do nothing.

use crate::stdio::console;
use nix::libc;
use nix::sys::signal::{SigSet, SigmaskHow, Signal as NixSignal};
use nix::unistd::{ForkResult, execve, fork};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal, setpgid};
use std::ffi::{CString, OsString};
use std::io::{self, Read};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{fs, thread};

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
}

impl Guard {
    /// Starts it, to give our terminal its own modes back too if a rank `has_terminal`. There is none if the
    /// system has no way to.
    pub fn start(has_terminal: bool) -> Option<Self> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mark = format!("{}.{}", getpid().as_raw_nonzero(), since.as_nanos());
        let modes = has_terminal.then(console::modes_to_keep).flatten();
        spawn(&mark, modes.as_deref()).ok().map(|(switch, pid)| Self { switch, pid, mark })
    }

    /// What processes of this run have as [`RUN`].
    pub fn mark(&self) -> &str {
        &self.mark
    }

    /// Its process: a child of ours that no rank has left behind.
    pub const fn pid(&self) -> Pid {
        self.pid
    }

    /// Says goodbye: nobody of this run is left, or is to be ended.
    pub fn dismiss(&self) {
        // If it is gone, it needs no goodbye.
        let _ = rustix::io::write(&self.switch, b".");
    }
}

/// Starts the guard as a copy of this process, and gives the end of the pipe that it waits at.
#[allow(unsafe_code, reason = "a copy of a process can be had in no other way")]
fn spawn(mark: &str, modes: Option<&str>) -> io::Result<(OwnedFd, Pid)> {
    let (read, switch) = pipe_with(PipeFlags::CLOEXEC)?;
    let null = fs::OpenOptions::new().write(true).open("/dev/null")?;
    let words = ["pmi-host", GUARD, mark].into_iter().chain(modes);
    let words: Vec<CString> = words.map(|word| CString::new(word).unwrap_or_default()).collect();
    // The copy has our environment, so the guard of a run that we belong to takes it for a rank. That one
    // asks first; when it kills, the copy has become a program that is not marked.
    let mut asking = SigSet::empty();
    asking.add(NixSignal::SIGTERM);
    let mask = asking.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    // SAFETY: no other thread can leave a lock behind in the copy. A launcher has one thread when it gets
    // here; and what the copy does until it becomes a program or ends are calls of the system, and a request
    // for memory, which the C library keeps in order in copies of processes with several threads too.
    let pid = match unsafe { fork() } {
        Ok(ForkResult::Child) => {
            drop(switch);
            if wait_as_copy(&read, &null, modes.is_some()).is_ok() {
                let nothing: [CString; 0] = [];
                let _ = execve(c"/proc/self/exe", &words, &nothing);
            }
            // SAFETY: it ends this copy at once and runs nothing of ours, whose books are not the copy's.
            unsafe { libc::_exit(0) }
        }
        Ok(ForkResult::Parent { child }) => Ok(child.as_raw()),
        Err(error) => Err(error),
    };
    mask.thread_set_mask()?;
    let pid = Pid::from_raw(pid?).ok_or(io::ErrorKind::Other)?;
    // A key that ends us would end it first. It has no rank to guard yet.
    setpgid(Some(pid), Some(pid))?;
    Ok((switch, pid))
}

/// Waits in the copy until it is time to become the guard.
///
/// Errors: it is not needed any more.
fn wait_as_copy(read: &OwnedFd, null: &fs::File, has_terminal: bool) -> io::Result<()> {
    // Whoever reads our output waits for all who hold it. A terminal is what we read; nobody waits for that.
    match has_terminal {
        true => rustix::stdio::dup2_stdout(rustix::stdio::stdin())?,
        false => rustix::stdio::dup2_stdout(null)?,
    }
    rustix::stdio::dup2_stderr(null)?;
    rustix::stdio::dup2_stdin(read)?;
    let mut said = [PollFd::new(read, PollFlags::IN)];
    // Whatever keeps it from waiting: the program knows what to do.
    let _ = poll(&mut said, Some(&MOMENT));
    match said[0].revents().contains(PollFlags::IN) {
        true => Err(io::ErrorKind::Interrupted.into()),
        false => Ok(()),
    }
}

/// Is the guard: waits at standard input for what becomes of the launcher.
pub fn run(words: Vec<OsString>) -> ExitCode {
    let Some(mark) = words.first().and_then(|word| word.to_str()) else { return ExitCode::FAILURE };
    let said = io::stdin().read(&mut [0]);
    if !matches!(said, Ok(0)) {
        return ExitCode::SUCCESS;
    }
    if let Some(modes) = words.get(1).and_then(|word| word.to_str()) {
        console::give_back(rustix::stdio::stdout(), modes);
    }
    let entry = format!("{RUN}={mark}");
    let (start, mut asked) = (Instant::now(), false);
    while start.elapsed() < GIVE_UP {
        let signal = match start.elapsed() < GRACE {
            true if asked => None,
            true => Some(Signal::TERM),
            false => Some(Signal::KILL),
        };
        asked = true;
        let mut any = false;
        for pid in processes() {
            any |= is_marked(pid, &entry) && end(pid, &entry, signal);
        }
        if !any {
            break;
        }
        thread::sleep(LOOK);
    }
    ExitCode::SUCCESS
}

/// Signals a process, if it is still the one that was looked at, and says whether it was there.
fn end(pid: Pid, entry: &str, signal: Option<Signal>) -> bool {
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
    if !is_marked(pid, entry) {
        return false;
    }
    // It may have ended just now, which is what it is asked for.
    let _ = signal.map(|signal| pidfd_send_signal(&handle, signal));
    true
}

fn processes() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter_map(Pid::from_raw)
}

/// Whether a process has this entry in the environment it was started with. One that has ended has none.
fn is_marked(pid: Pid, entry: &str) -> bool {
    let environment = fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero()));
    environment.is_ok_and(|bytes| bytes.split(|byte| *byte == 0).any(|own| own == entry.as_bytes()))
}

/// How long they may take to end by themselves. Their launcher is gone and so is the rest of their job, so
/// there is not much to save.
const GRACE: Duration = Duration::from_secs(1);

/// Whoever cannot be killed until then is held by the system.
const GIVE_UP: Duration = Duration::from_secs(30);

/// A run that lasts longer than this will hardly notice what a program costs.
const MOMENT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// How often is looked; there is no event for the end of somebody else's child.
const LOOK: Duration = Duration::from_millis(20);
