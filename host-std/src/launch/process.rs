//! Starting one rank, and detecting its end.
//!
//! A rank is started by the C library's `posix_spawn`, which lends this process's memory to the child
//! until it has become the program (`vfork` semantics), so the cost does not grow with this process. No
//! code of the launcher runs in the child; everything is arranged before, and as much as possible only
//! once:
//!
//! - All descriptors of the launcher close at the exec. A rank finds its end of its socket at one number, the
//!   same for every rank, which is reserved in the launcher: no rank can inherit the end of another.
//! - To start a program in another directory, the launcher changes to it for the starts of a batch. Only the
//!   threads of the batch run meanwhile: see [`starts`].
//! - The launcher's own standard input is the null device, which ranks inherit unless they read something
//!   else; thus a writer to that input detects the end of the rank, not of the launcher.
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

use crate::launch::cleanup::guard::Guard;
use crate::launch::cleanup::guard_protocol::{self, Guarded};
use crate::launch::cleanup::orphans::Orphans;
use crate::launch::descriptors::DescriptorLimit;
use crate::launch::env;
use crate::launch::null;
use crate::launch::plan::{InitScheduling, Plan};
use crate::launch::process_handle::ProcessHandle;
use crate::launch::processes;
use crate::launch::scheduling::InitializingRanks;
use crate::launch::session::{Session, SpawnAttributes};
use crate::launch::signal::Ignored;
use crate::launch::start_error::no_directory;
use crate::launch::starts::{Batch, RankProgram, RankStart, RankStreams, Starters};
use crate::launch::user_environment;
use crate::stream::Streams;
use nix::sys::signal::SigSet;
use pmi_host_base::program::Program;
use pmi_host_base::variables;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsRawFd, OwnedFd, RawFd};
use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, fchdir, kill_process, kill_process_group,
    waitid, waitpid,
};
use rustix::termios::isatty;
use serde::{Deserialize, Serialize};
use std::ffi::{CString, OsStr};
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Starter of ranks, rank 0 of the first job first.
pub(crate) struct Launcher {
    attributes: Arc<SpawnAttributes>,
    starters: Starters,
    /// Killed ranks of batches in which another one failed, until they are reaped.
    unwanted: Vec<Pid>,
    /// Holds the number at which each rank finds its end of its socket pair.
    link: OwnedFd,
    /// Limit on open files.
    pub(crate) limit: DescriptorLimit,
    /// Terminates leftover processes if the launcher is killed; `None` if unsupported.
    pub(crate) guard: Option<Guard>,
    /// Finds the processes that ranks leave behind.
    pub(crate) orphans: Orphans,
    /// Ranks that are scheduled in another way while they initialize.
    pub(crate) initializing: InitializingRanks,
    one_pipe: bool,
    stdin_is_null: bool,
}

/// A program with everything that is the same for all its ranks.
#[derive(Debug)]
pub(crate) struct Exec {
    program: Arc<RankProgram>,
    directory: Option<OwnedFd>,
}

/// A rank with everything that its start needs.
#[derive(Debug)]
pub(crate) struct PreparedRank {
    start: RankStart,
    link: UnixStream,
    output: Option<OwnedFd>,
    errors: Option<OwnedFd>,
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

impl Launcher {
    /// Prepares everything common to all ranks. With `one_pipe`, standard output and standard error
    /// of a rank are one pipe, which keeps what it writes to both in order; a rank `has_terminal` if one
    /// of them gets a terminal of its own. `ignored` signals stay so for them. `link` reserves the number at
    /// which each finds its end of its socket pair. A node server `has_starter`.
    ///
    /// # Errors
    ///
    /// Those of the system; nothing was started.
    pub(crate) fn new(
        limit: DescriptorLimit,
        link: OwnedFd,
        (one_pipe, has_terminal): (bool, bool),
        has_starter: bool,
        ignored: Ignored,
    ) -> io::Result<Self> {
        // At this point, the signals that this process will take over still have the user's mask.
        let mask = SigSet::thread_get_mask()?;
        let mut orphans = Orphans::new();
        let guarded = if has_starter { Guarded::NodeRanks } else { Guarded::Ranks };
        let guard = Guard::start(guarded, has_terminal, orphans.inherited());
        if let Some(guard) = &guard {
            orphans.set_guard(guard.pid(), guard.mark());
        }
        // Their session distinguishes children from before the launcher's exec from those of ranks.
        let may_share = !processes::has_terminal() && orphans.inherited().is_empty();
        Ok(Self {
            attributes: Arc::new(SpawnAttributes::new(&mask, ignored, may_share)?),
            starters: Starters::default(),
            unwanted: Vec::new(),
            link,
            limit,
            guard,
            orphans,
            initializing: InitializingRanks::default(),
            one_pipe,
            stdin_is_null: false,
        })
    }

    /// Number of the descriptor at which each rank finds its end of its socket pair.
    pub(crate) fn link_number(&self) -> RawFd {
        self.link.as_raw_fd()
    }

    /// Prepares the program of part `number` of `plan`.
    ///
    /// # Errors
    ///
    /// Those of the system, and a word that holds a NUL.
    pub(crate) fn prepare(&self, plan: &Plan, number: usize) -> io::Result<Exec> {
        let part = plan.parts.get(number).ok_or(io::ErrorKind::NotFound)?;
        let Program { path, name, args, directory, .. } = &part.program;
        let ours = user_environment::of_program(
            user_environment::ours(&plan.environment),
            &plan.environment,
            &part.program,
        );
        let mut environment =
            ours.map(|(name, value)| variable(&name, &value)).collect::<io::Result<Vec<_>>>()?;
        let fd = self.link.as_raw_fd().unsigned_abs();
        // Settings of a user for a library take precedence.
        let is_told = |name: &str| {
            let start = [name.as_bytes(), b"="].concat();
            environment.iter().any(|one| one.as_bytes().starts_with(&start))
        };
        let mut found = env::of_part(plan, number, fd);
        found.retain(|(name, _)| !variables::gives_way(name, is_told));
        for (name, value) in found {
            environment.push(variable(name.as_ref(), value.as_ref())?);
        }
        if let Some(guard) = &self.guard {
            environment.push(variable(guard_protocol::RUN.as_ref(), guard.mark().as_ref())?);
        }
        let words = std::iter::once(name).chain(args).map(|word| CString::new(word.as_bytes()));
        let program = RankProgram {
            path: CString::new(path.as_os_str().as_bytes())?,
            words: words.collect::<Result<_, _>>()?,
            environment,
            binding: plan.placement.binding.as_ref().map(Arc::clone),
            host: plan.host.clone(),
        };
        let enter = |directory: &PathBuf| {
            place(directory).map_err(|error| no_directory(&error, directory, &plan.host))
        };
        let directory = directory.as_ref().map(enter).transpose()?;
        Ok(Exec { program: Arc::new(program), directory })
    }

    /// Prepares `rank` of `plan`, which is number `local_rank` on this node, for a batch.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub(crate) fn prepare_rank(
        &self,
        plan: &Plan,
        (rank, local_rank): (u32, u32),
        streams: Streams,
    ) -> io::Result<PreparedRank> {
        let (link, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        let link = UnixStream::from(link);
        link.set_nonblocking(true)?;
        let own = env::of_rank(plan, rank, local_rank).into_iter();
        let environment = own.map(|(name, value)| variable(name.as_ref(), value.as_ref()));
        let environment = environment.collect::<io::Result<_>>()?;
        let is_yielding = plan.is_yielding(rank);
        // Reading ends may block: they are read only when ready, and by this process alone.
        let (mut read, mut read_errors) = (None, None);
        let (streams, session) = match streams {
            Streams::Pipes(input) => {
                let (reading, output) = pipe_with(PipeFlags::CLOEXEC)?;
                read = Some(reading);
                let mut errors = None;
                if !self.one_pipe {
                    let (reading, writing) = pipe_with(PipeFlags::CLOEXEC)?;
                    (read_errors, errors) = (Some(reading), Some(writing));
                }
                let session = match input.as_ref().is_some_and(isatty) {
                    true => Session::Ours,
                    false if is_yielding => Session::Shared,
                    false => Session::Own,
                };
                (RankStreams::Pipes { input, output, errors }, session)
            }
            Streams::Terminal(name) => (RankStreams::Terminal(name), Session::Own),
        };
        let hold = plan.debug_hold(rank);
        let start = RankStart {
            local_rank,
            environment,
            session,
            init: plan.init_scheduling(rank),
            link: theirs,
            streams,
            hold,
        };
        Ok(PreparedRank { start, link, output: read, errors: read_errors })
    }

    /// Starts a batch of ranks of `exec`. Returns them in the same order up to the first that could not be
    /// started; those after it are not left running.
    ///
    /// # Errors
    ///
    /// Those of the system that concern the launcher; nothing was started then.
    pub(crate) fn start(
        &mut self,
        exec: &Exec,
        ranks: Vec<PreparedRank>,
    ) -> io::Result<Vec<io::Result<StartedRank>>> {
        if !std::mem::replace(&mut self.stdin_is_null, true) {
            rustix::stdio::dup2_stdin(null::open()?)?;
        }
        if let Some(guard) = &self.guard {
            guard.report_starting(ranks.iter().map(|rank| &rank.start.link));
        }
        let mut kept = Vec::with_capacity(ranks.len());
        let mut starts = Vec::with_capacity(ranks.len());
        for PreparedRank { start, link, output, errors } in ranks {
            kept.push((link, output, errors, start.init != InitScheduling::Usual));
            starts.push(start);
        }
        let ours = exec.directory.as_ref().map(|_| place(Path::new("."))).transpose()?;
        exec.directory.as_ref().map_or(Ok(()), fchdir)?;
        let (program, attributes) = (Arc::clone(&exec.program), Arc::clone(&self.attributes));
        let batch = Batch::new(program, attributes, self.link.as_raw_fd(), starts);
        let pids = self.limit.with_original(|| Ok(self.starters.start(batch)));
        // Before anything else, failures included: paths of the launcher are relative to its own
        // directory.
        ours.map_or(Ok(()), fchdir)?;
        let mut started = Vec::with_capacity(kept.len());
        for (pid, (link, output, errors, is_changed)) in pids?.into_iter().zip(kept) {
            let has_failed = started.last().is_some_and(io::Result::is_err);
            if let (Ok(pid), true, Some(usual)) = (&pid, is_changed, self.attributes.scheduling) {
                self.initializing.add(usual, *pid);
            }
            let process = pid.and_then(|pid| {
                let process = match has_failed {
                    true => Err(io::ErrorKind::Interrupted.into()),
                    false => Process::started(pid),
                };
                process.inspect_err(|_| {
                    kill_unwanted(pid);
                    self.unwanted.push(pid);
                })
            });
            if !has_failed {
                started.push(process.map(|process| StartedRank { process, link, output, errors }));
            }
        }
        if let Some(guard) = &self.guard {
            guard.report_started(started.iter().flatten().map(|rank| rank.process.pid()));
        }
        Ok(started)
    }

    /// Reaps killed ranks of failed batches that have exited. They are children of the threads that have
    /// started them.
    pub(crate) fn reap_unwanted(&mut self) {
        self.unwanted.retain(|pid| {
            waitpid(Some(*pid), WaitOptions::NOHANG).is_ok_and(|ended| ended.is_none())
        });
    }

    /// Replaces the guard if it has exited. `ranks` are the processes to report to the new one.
    pub(crate) fn check_guard(&mut self, ranks: impl Iterator<Item = i32>) {
        if !self.guard.as_ref().is_some_and(Guard::has_exited) {
            return;
        }
        if let Some(guard) = self.guard.as_mut()
            && guard.replace(ranks)
        {
            self.orphans.set_guard(guard.pid(), guard.mark());
        }
    }
}

/// Opens a directory, for `fchdir`.
#[expect(
    clippy::disallowed_methods,
    reason = "a directory for `fchdir`, in which nothing is created"
)]
fn place(directory: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(directory, flags, Mode::empty())?)
}

fn variable(name: &OsStr, value: &OsStr) -> io::Result<CString> {
    Ok(CString::new([name.as_bytes(), b"=", value.as_bytes()].concat())?)
}

impl fmt::Debug for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launcher").field("link", &self.link).finish_non_exhaustive()
    }
}

/// Kills a rank of a batch that has failed before it.
fn kill_unwanted(pid: Pid) {
    // It may share the group of the launcher, and leads one otherwise.
    let _ = kill_process(pid, Signal::KILL);
    let number = pid.as_raw_nonzero().get();
    if processes::group(number) == Some(number) {
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

impl Process {
    /// The process of a rank that was just started.
    fn started(pid: Pid) -> io::Result<Self> {
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
