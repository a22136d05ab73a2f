//! Starting the ranks of this machine.
//!
//! A rank is made by [`child_start`](super::child_start), which lends this process's memory to the child
//! until it has become the program (`vfork` semantics), so the cost does not grow with this process. In
//! between the child makes system calls only. A rank that begins as the [`trampoline`](super::trampoline)
//! is made in the same way by the C library's `posix_spawn`. Everything is arranged before, and as much as
//! possible only once:
//!
//! - All descriptors of the launcher close at the exec. A rank finds its end of its socket at one number, the
//!   same for every rank, which is reserved in the launcher: no rank can inherit the end of another.
//! - To start a program in another directory, the launcher changes to it for the starts of a batch. Only the
//!   threads of the batch run meanwhile: see [`batch`](super::batch).
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
//!   this package, the [`trampoline`](super::trampoline), which unblocks them and becomes the rank.

use super::batch::{Batch, RankProgram, RankStart, RankStreams, Starters};
use super::process::Process;
use super::scheduling::InitializingRanks;
use super::session::{Session, SpawnAttributes};
use super::start_error::no_directory;
use crate::launch::environment::rank_variables;
use crate::launch::plan::job::{InitScheduling, Plan};
use crate::launch::plan::program_environment::{Inherited, Owner, ProgramEnvironment, Variable};
use crate::launch::signal::UserSignals;
use pmi_host_base::program::Program;
use pmi_host_os::cleanup::guard::Guard;
use pmi_host_os::cleanup::guard_protocol::{self, Guarded};
use pmi_host_os::cleanup::orphans::Orphans;
use pmi_host_os::descriptors::DescriptorLimit;
use pmi_host_os::null_device;
use pmi_host_os::processes;
use pmi_host_os::stream::Streams;
use rustix::fd::{AsRawFd, OwnedFd, RawFd};
use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, Signal, WaitOptions, fchdir, kill_process, kill_process_group, waitpid,
};
use rustix::termios::isatty;
use std::ffi::CString;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
pub(crate) struct PreparedProgram {
    program: Arc<RankProgram>,
    /// Variables that all its ranks have.
    environment: ProgramEnvironment,
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

impl Launcher {
    /// Prepares everything common to all ranks. With `one_pipe`, standard output and standard error
    /// of a rank are one pipe, which keeps what it writes to both in order; a rank `has_terminal` if one
    /// of them gets a terminal of its own. They begin with the signals of the user. `link` reserves the
    /// number at which each finds its end of its socket pair. A node server `has_starter`.
    ///
    /// # Errors
    ///
    /// Those of the system; nothing was started.
    pub(crate) fn new(
        limit: DescriptorLimit,
        link: OwnedFd,
        one_pipe: bool,
        has_terminal: bool,
        has_starter: bool,
        UserSignals { mask, ignored }: UserSignals,
    ) -> io::Result<Self> {
        let mut orphans = Orphans::adopt();
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
    pub(crate) fn prepare(&self, plan: &Plan, number: usize) -> io::Result<PreparedProgram> {
        let part = plan.parts.get(number).ok_or(io::ErrorKind::NotFound)?;
        let Program { path, name, args, directory, .. } = &part.program;
        let fd = self.link.as_raw_fd().unsigned_abs();
        let inherited = Inherited::here(&plan.environment);
        let mut environment = rank_variables::of_program(plan, number, fd, inherited);
        if let Some(guard) = &self.guard {
            let mark = Variable::new(guard_protocol::RUN, guard.mark(), Owner::Launcher);
            environment.set(mark);
        }
        let of_ranks = rank_variables::set_for_each_rank(plan, &environment);
        let words = std::iter::once(name).chain(args).map(|word| CString::new(word.as_bytes()));
        let program = RankProgram {
            path: CString::new(path.as_os_str().as_bytes())?,
            words: words.collect::<Result<_, _>>()?,
            environment: environment
                .variables
                .iter()
                .filter(|one| !of_ranks.iter().any(|name| one.name == *name))
                .map(Variable::entry)
                .collect::<Result<_, _>>()?,
            binding: plan.placement.binding.clone(),
            places: plan.placement.places.clone(),
            host: plan.host.clone(),
        };
        let enter = |directory: &PathBuf| {
            open_directory(directory).map_err(|error| no_directory(&error, directory, &plan.host))
        };
        let directory = directory.as_ref().map(enter).transpose()?;
        Ok(PreparedProgram { program: Arc::new(program), environment, directory })
    }

    /// Prepares `rank` of `plan`, which is number `local_rank` on this node, for a batch of `program`.
    pub(crate) fn prepare_rank(
        &self,
        plan: &Plan,
        program: &PreparedProgram,
        rank: u32,
        local_rank: u32,
        streams: Streams,
    ) -> io::Result<PreparedRank> {
        let (link, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        let link = UnixStream::from(link);
        link.set_nonblocking(true)?;
        let variables =
            rank_variables::of_rank(plan, rank, local_rank, &program.environment).into_iter();
        let environment =
            variables.map(|(name, value)| Variable::new(name, value, Owner::Launcher).entry());
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

    /// Starts a batch of ranks of `program`. Returns them in the same order up to the first that could not be
    /// started; those after it are not left running.
    ///
    /// # Errors
    ///
    /// Those of the system that concern the launcher; nothing was started then.
    pub(crate) fn start(
        &mut self,
        program: &PreparedProgram,
        ranks: Vec<PreparedRank>,
    ) -> io::Result<Vec<io::Result<StartedRank>>> {
        if !std::mem::replace(&mut self.stdin_is_null, true) {
            rustix::stdio::dup2_stdin(null_device::open()?)?;
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
        let own_directory =
            program.directory.as_ref().map(|_| open_directory(Path::new("."))).transpose()?;
        if let Some(directory) = &program.directory {
            fchdir(directory)?;
        }
        let (program, attributes) = (Arc::clone(&program.program), Arc::clone(&self.attributes));
        let batch = Batch::new(program, attributes, self.link.as_raw_fd(), starts);
        let pids = self.limit.with_original(|| Ok(self.starters.start(batch)));
        // Before anything else, failures included: paths of the launcher are relative to its own
        // directory.
        if let Some(directory) = own_directory {
            fchdir(directory)?;
        }
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
fn open_directory(directory: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(directory, flags, Mode::empty())?)
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
