//! Starting one rank, and detecting its end.
//!
//! A rank is started by the C library's `posix_spawn`, which lends this process's memory to the child
//! until it has become the program (`vfork` semantics), so the cost does not grow with this process. No
//! code of the launcher runs in the child; everything is arranged before, and as much as possible only
//! once:
//!
//! - A rank's ends of its socket and its pipes are moved to three low numbers, the same for every rank.
//!   The socket's is the only descriptor of the launcher that survives the exec, and it is replaced
//!   before the next rank starts: no rank can inherit the end of another.
//! - To start a program in another directory, the launcher changes to it for the start: there is one
//!   thread, so nothing else is affected.
//! - The launcher's own standard input is the null device, which ranks inherit, except while a rank is
//!   started that reads something else; thus a writer to that input detects the end of the rank, not of
//!   the launcher.
//! - A text file without an interpreter, which the system cannot run, is started by the shell, as
//!   `execvp` does it.
//! - A rank leads a session of its own. It gets its own share of the processors where the kernel divides
//!   time by session, no process of it belongs to the launcher's terminal, and a stop signal that
//!   reaches it between its creation and the exec is discarded: its process group is orphaned. A child
//!   that stopped there would hold this process inside the system, where no signal but `SIGKILL` gets
//!   through.
//! - Ranks that yield processors which they share stay in the launcher's session, in process groups of
//!   their own, if that session has no terminal. Where the kernel divides time by session, a rank in
//!   its own yields to no other.
//! - A rank with a terminal opens it by its name: only so does it become the controlling terminal, the
//!   source of its signals.
//! - A rank that reads the launcher's terminal has to stay in the launcher's process group. Wherever stop
//!   signals for the launcher can reach a rank, they are blocked until it has become another program of
//!   this package, the [`trampoline`], which unblocks them and becomes the rank.

use crate::launch::binding::Binding;
use crate::launch::descriptors::DescriptorLimit;
use crate::launch::env;
use crate::launch::guard::{self, Guard};
use crate::launch::null;
use crate::launch::orphans::Orphans;
use crate::launch::plan::Plan;
use crate::launch::processes;
use crate::launch::protocol_offer::ProtocolOffer;
use crate::launch::script;
use crate::launch::session::{Session, SpawnAttributes, StartMethod};
use crate::launch::signal::Ignored;
use crate::launch::trampoline;
use crate::stream::Streams;
use nix::fcntl::OFlag;
use nix::spawn::{PosixSpawnFileActions, posix_spawn};
use nix::sys::signal::SigSet;
use nix::sys::stat::Mode as NixMode;
use pmi_host_base::program::Program;
use pmi_host_base::variables;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::{DupFlags, Errno};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, fchdir, kill_process_group, pidfd_open,
    pidfd_send_signal, waitid,
};
use rustix::termios::isatty;
use serde::{Deserialize, Serialize};
use std::ffi::{CStr, CString, OsStr};
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

/// Number of descriptors in the launcher for a running rank: socket, two pipes, the process itself.
pub(crate) const PER_RANK: u64 = 4;

/// Starter of ranks, rank 0 of the first job first.
pub(crate) struct Launcher {
    attributes: SpawnAttributes,
    actions: PosixSpawnFileActions,
    slots: Slots,
    null: OwnedFd,
    /// Limit on open files.
    pub(crate) limit: DescriptorLimit,
    /// Terminates leftover processes if the launcher is killed; `None` if unsupported.
    pub(crate) guard: Option<Guard>,
    /// Finds the processes that ranks leave behind.
    pub(crate) orphans: Orphans,
    one_pipe: bool,
    stdin_is_null: bool,
    is_resting: bool,
}

/// A program with everything that is the same for all its ranks.
#[derive(Debug)]
pub(crate) struct Exec {
    path: CString,
    words: Vec<CString>,
    /// Variables common to all ranks, then those of one rank.
    environment: Vec<CString>,
    common_count: usize,
    directory: Option<OwnedFd>,
    binding: Option<Rc<Binding>>,
}

/// Descriptor numbers of a rank at its start.
#[derive(Debug)]
struct Slots {
    link: OwnedFd,
    output: OwnedFd,
    errors: OwnedFd,
}

/// Connections between this process and a rank that was started.
#[derive(Debug)]
pub(crate) struct StartedRank {
    /// The process.
    pub(crate) process: Process,
    /// The launcher's end of its socket pair, not blocking.
    pub(crate) link: UnixStream,
    /// Reading end of its standard output, and of its standard error too if they share a pipe. `None` if
    /// it has a terminal.
    pub(crate) output: Option<OwnedFd>,
    /// Reading end of its standard error.
    pub(crate) errors: Option<OwnedFd>,
}

/// A process that was started and not yet reaped.
#[derive(Debug)]
pub(crate) struct Process {
    pid: Pid,
    handle: OwnedFd,
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

impl Launcher {
    /// Prepares everything common to all ranks. With `one_pipe`, standard output and standard error
    /// of a rank are one pipe, which keeps what it writes to both in order; a rank `has_terminal` if one
    /// of them gets a terminal of its own. `ignored` signals stay so for them.
    ///
    /// # Errors
    ///
    /// Those of the system; nothing was started.
    pub(crate) fn new(
        limit: DescriptorLimit,
        one_pipe: bool,
        has_terminal: bool,
        ignored: Ignored,
    ) -> io::Result<Self> {
        let link = null::open()?;
        let null = link.try_clone()?;
        let slots = Slots { link, output: null.try_clone()?, errors: null.try_clone()? };

        let mut actions = PosixSpawnFileActions::init()?;
        actions.add_dup2(slots.output.as_raw_fd(), 1)?;
        actions.add_dup2(if one_pipe { &slots.output } else { &slots.errors }.as_raw_fd(), 2)?;
        // At this point, the signals that this process will take over still have the user's mask.
        let mask = SigSet::thread_get_mask()?;
        let mut orphans = Orphans::new();
        let guard = Guard::start(has_terminal, orphans.inherited());
        if let Some(guard) = &guard {
            orphans.set_guard(guard.pid(), guard.mark());
        }
        // Their session distinguishes children from before the launcher's exec from those of ranks.
        let may_share = !processes::has_terminal() && orphans.inherited().is_empty();
        Ok(Self {
            attributes: SpawnAttributes::new(&mask, ignored, may_share)?,
            actions,
            slots,
            null,
            limit,
            guard,
            orphans,
            one_pipe,
            stdin_is_null: false,
            is_resting: true,
        })
    }

    /// Prepares the program of part `number` of `plan`.
    ///
    /// # Errors
    ///
    /// Those of the system, and a word that holds a NUL.
    pub(crate) fn prepare(&self, plan: &Plan, number: usize) -> io::Result<Exec> {
        let part = plan.parts.get(number).ok_or(io::ErrorKind::NotFound)?;
        let Program { path, name, args, directory, .. } = &part.program;
        let ours = env::of_program(env::ours(&plan.environment), &plan.environment, &part.program);
        let mut environment =
            ours.map(|(name, value)| variable(&name, &value)).collect::<io::Result<Vec<_>>>()?;
        let fd = self.slots.link.as_raw_fd().unsigned_abs();
        // Settings of a user for a library take precedence.
        let is_told = |name: &str| {
            let start = [name.as_bytes(), b"="].concat();
            environment.iter().any(|one| one.as_bytes().starts_with(&start))
        };
        let mut found = ProtocolOffer::of_part(plan, number, fd);
        found.retain(|(name, _)| !variables::gives_way(name, is_told));
        for (name, value) in found {
            environment.push(variable(name.as_ref(), value.as_ref())?);
        }
        if let Some(guard) = &self.guard {
            environment.push(variable(guard::RUN.as_ref(), guard.mark().as_ref())?);
        }
        let words = std::iter::once(name).chain(args).map(|word| CString::new(word.as_bytes()));
        Ok(Exec {
            path: CString::new(path.as_os_str().as_bytes())?,
            words: words.collect::<Result<_, _>>()?,
            common_count: environment.len(),
            environment,
            directory: directory.as_ref().map(|directory| place(directory)).transpose()?,
            binding: plan.placement.binding.clone(),
        })
    }

    /// Starts `exec` as `rank` of `plan`, which is number `local_rank` on this node.
    ///
    /// # Errors
    ///
    /// Those of the system; nothing of the rank is left then.
    pub(crate) fn start(
        &mut self,
        plan: &Plan,
        exec: &mut Exec,
        (rank, local_rank): (u32, u32),
        streams: Streams,
    ) -> io::Result<StartedRank> {
        self.is_resting = false;
        let (link, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        let link = UnixStream::from(link);
        link.set_nonblocking(true)?;
        if let Some(guard) = &self.guard {
            guard.report_starting(&theirs);
        }
        rustix::io::dup2(theirs, &mut self.slots.link)?;
        // Reading ends may block: they are read only when ready, and by this process alone.
        let (mut output, mut errors) = (None, None);
        let is_yielding = plan.is_oversubscribed() && plan.offer(plan.appnum(rank)).yields;
        let pid = match streams {
            Streams::Pipes(stdin) => {
                output = Some(pipe_into(&mut self.slots.output)?);
                if !self.one_pipe {
                    errors = Some(pipe_into(&mut self.slots.errors)?);
                }
                self.set_stdin(stdin.as_ref())?;
                let session = match stdin.as_ref().is_some_and(isatty) {
                    true => Session::Ours,
                    false if is_yielding => Session::Shared,
                    false => Session::Own,
                };
                let pid = self.spawn(plan, exec, (rank, local_rank), &self.actions, session);
                // On failure too: a writer must not wait for this process to read.
                self.set_stdin(None)?;
                pid?
            }
            Streams::Terminal(name) => {
                let actions = on_terminal(&name)?;
                self.spawn(plan, exec, (rank, local_rank), &actions, Session::Own)?
            }
        };
        // Not reaped yet, so the pid cannot have been reused.
        let handle = pidfd_open(pid, PidfdFlags::empty())?;
        Ok(StartedRank { process: Process { pid, handle, is_ours: true }, link, output, errors })
    }

    /// Closes the ends of the rank that was started last, so that they close with it. Called when no
    /// rank is started for a while.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub(crate) fn rest(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.is_resting, true) {
            return Ok(());
        }
        rustix::io::dup2(&self.null, &mut self.slots.link)?;
        for slot in [&mut self.slots.output, &mut self.slots.errors] {
            rustix::io::dup3(&self.null, slot, DupFlags::CLOEXEC)?;
        }
        Ok(())
    }

    /// Replaces the guard if it has exited. `ranks` are the processes to report to the new one.
    pub(crate) fn check_guard(&mut self, ranks: impl Iterator<Item = i32>) {
        if !self.guard.as_ref().is_some_and(Guard::has_exited) {
            return;
        }
        // The new guard must not hold the descriptors of the rank that was started last.
        let is_rested = self.rest().is_ok();
        if let Some(guard) = self.guard.as_mut().filter(|_| is_rested)
            && guard.replace(ranks)
        {
            self.orphans.set_guard(guard.pid(), guard.mark());
        }
    }

    fn set_stdin(&mut self, stdin: Option<&OwnedFd>) -> io::Result<()> {
        if stdin.is_some() || !self.stdin_is_null {
            rustix::stdio::dup2_stdin(stdin.unwrap_or(&self.null))?;
            self.stdin_is_null = stdin.is_none();
        }
        Ok(())
    }

    fn spawn(
        &self,
        plan: &Plan,
        exec: &mut Exec,
        (rank, local_rank): (u32, u32),
        actions: &PosixSpawnFileActions,
        session: Session,
    ) -> io::Result<Pid> {
        exec.environment.truncate(exec.common_count);
        for (name, value) in ProtocolOffer::of_rank(plan, rank, local_rank) {
            exec.environment.push(variable(name.as_ref(), value.as_ref())?);
        }
        let Exec { path, words, environment, directory, binding, .. } = exec;
        let limit = &self.limit;
        let ours = directory.as_ref().map(|_| place(Path::new("."))).transpose()?;
        directory.as_ref().map_or(Ok(()), fchdir)?;
        let start_with = |path: &CStr, words: &[CString], attributes| {
            posix_spawn(path, actions, attributes, words, environment)
                .map_err(|error| Errno::from_raw_os_error(error as i32))
        };
        let start = |path: &CStr, words: &[CString]| match self.attributes.of(session) {
            StartMethod::Direct(attributes) => start_with(path, words, attributes),
            StartMethod::Trampoline(attributes) => {
                let words = trampoline::words(self.attributes.stops(), path, words);
                start_with(trampoline::PROGRAM, &words, attributes)
            }
        };
        let start = || match start(path, words) {
            Err(Errno::NOEXEC) => match script::by_shell(path, words) {
                Some(words) => Ok(start(script::SHELL, &words)?),
                None => Err(Errno::NOEXEC.into()),
            },
            started => started.map_err(|error| script::explained(error, path)),
        };
        let start = || limit.with_original(start);
        let pid = match binding {
            Some(binding) => binding.during(local_rank, start),
            None => start(),
        };
        // Before anything else, failures included: paths of the launcher are relative to its own
        // directory.
        ours.map_or(Ok(()), fchdir)?;
        Ok(Pid::from_raw(pid?.as_raw()).ok_or(io::ErrorKind::Other)?)
    }
}

/// File actions that open all three streams on a terminal.
fn on_terminal(name: &CString) -> io::Result<PosixSpawnFileActions> {
    let mut actions = PosixSpawnFileActions::init()?;
    actions.add_open(0, name.as_c_str(), OFlag::O_RDWR, NixMode::empty())?;
    actions.add_dup2(0, 1)?;
    actions.add_dup2(0, 2)?;
    Ok(actions)
}

/// Opens a directory, for `fchdir`.
fn place(directory: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(directory, flags, Mode::empty())?)
}

/// Makes a pipe with its writing end at `slot`, and returns the reading end.
fn pipe_into(slot: &mut OwnedFd) -> io::Result<OwnedFd> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::dup3(write, slot, DupFlags::CLOEXEC)?;
    Ok(read)
}

fn variable(name: &OsStr, value: &OsStr) -> io::Result<CString> {
    Ok(CString::new([name.as_bytes(), b"=", value.as_bytes()].concat())?)
}

impl fmt::Debug for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launcher").field("slots", &self.slots).finish_non_exhaustive()
    }
}

impl Process {
    /// A running process that this one did not start.
    ///
    /// # Errors
    ///
    /// Those of the system; for example, there is no such process.
    pub(crate) fn of_others(pid: i32) -> io::Result<Self> {
        let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
        let handle = pidfd_open(pid, PidfdFlags::empty())?;
        Ok(Self { pid, handle, is_ours: false })
    }

    /// Sends `signal`. No effect on a terminated process.
    pub(crate) fn signal(&self, signal: Signal) {
        // The only possible failure is that it is gone, as intended by the sender.
        let _ = pidfd_send_signal(&self.handle, signal);
    }

    /// True if it has a handler for `signal`; false if unknown.
    pub(crate) fn catches(&self, signal: Signal) -> bool {
        let status = procfs::process::Process::new(self.pid()).and_then(|process| process.status());
        status.is_ok_and(|status| status.sigcgt >> (signal.as_raw() - 1) & 1 == 1)
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
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub(crate) fn ending(&self) -> io::Result<Option<ProcessEnd>> {
        if !self.is_ours {
            let mut ended = [PollFd::new(&self.handle, PollFlags::IN)];
            let count = poll(&mut ended, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
            return Ok((count > 0).then_some(ProcessEnd::Unseen));
        }
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        let Some(status) = waitid(WaitId::PidFd(self.handle.as_fd()), options)? else {
            return Ok(None);
        };
        Ok(match (status.exit_status(), status.terminating_signal()) {
            // The system keeps eight bits of the code.
            (Some(code), _) => Some(ProcessEnd::Exited(code.to_le_bytes()[0])),
            (None, Some(signal)) => Some(ProcessEnd::Killed { signal, dumped: status.dumped() }),
            (None, None) => None,
        })
    }

    /// Descriptor that becomes readable when the process terminates.
    pub(crate) fn handle(&self) -> &OwnedFd {
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
    let preparing: Vec<_> = processes.iter().filter(|one| one.handles(Signal::TSTP)).collect();
    preparing.iter().for_each(|one| one.signal_group(Signal::TSTP));
    let until = Instant::now() + PREPARING;
    while !preparing.iter().all(|one| one.is_stopped()) && Instant::now() < until {
        thread::sleep(LOOK);
    }
    processes.iter().for_each(|one| one.signal_group(Signal::STOP));
}

/// Time for processes to prepare for the stop: short enough for the response to a keystroke.
const PREPARING: Duration = Duration::from_millis(250);

/// Interval of the checks for that; there is no event for a process stopped by a signal.
const LOOK: Duration = Duration::from_millis(5);

/// Exit code for death by `signal`.
pub(crate) fn shell_code(signal: i32) -> u8 {
    u8::try_from(signal).map_or(u8::MAX, |signal| signal.saturating_add(128))
}

/// Exit code of a shell when starting a program failed with `error`.
pub(crate) fn start_code(error: &io::Error) -> u8 {
    match error.kind() {
        // The file was found before, so the interpreter it names is missing.
        io::ErrorKind::NotFound => 127,
        io::ErrorKind::PermissionDenied => 126,
        // A program for another machine.
        io::ErrorKind::Unsupported => 126,
        _ if error.raw_os_error() == Some(Errno::NOEXEC.raw_os_error()) => 126,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_follow_the_shell() {
        assert_eq!(ProcessEnd::Exited(7).exit_code(), 7);
        assert_eq!(ProcessEnd::Killed { signal: 11, dumped: true }.exit_code(), 139);
        assert_eq!(ProcessEnd::Killed { signal: 64, dumped: false }.exit_code(), 192);
        assert_eq!(start_code(&io::Error::from(io::ErrorKind::NotFound)), 127);
        assert_eq!(start_code(&io::Error::from(Errno::NOEXEC)), 126);
        assert_eq!(start_code(&io::Error::from(Errno::AGAIN)), 1);
    }
}
