//! Starting the ranks of a batch, by several threads.
//!
//! `posix_spawn` lends the memory of this process to the child and returns when the child has become the
//! program. Until then the child needs a processor. A rank that leads a session has a scheduling group of its
//! own from then on, and on a busy machine that group waits for its turn, with the thread that starts the
//! rank. So the ranks of a batch are prepared one after the other and started by several threads, which wait
//! at the same time.
//!
//! The threads end with the batch: between two batches, the launcher has no other thread than its own, and
//! no memory for others. What belongs to the whole process is set for the whole batch: its directory and its
//! limit on open files. A binding belongs to a thread.

use crate::launch::binding::Binding;
use crate::launch::script;
use crate::launch::session::{Session, SpawnAttributes, StartMethod};
use crate::launch::trampoline;
use nix::fcntl::OFlag;
use nix::spawn::{PosixSpawnFileActions, posix_spawn};
use nix::sys::stat::Mode;
use rustix::fd::{AsRawFd, OwnedFd, RawFd};
use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity};
use std::ffi::{CStr, CString};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Builder};

/// Maximum number of ranks of a batch.
///
/// All of them have descriptors in the launcher for both ends of their streams, and no rank is served before
/// the batch is over.
pub(crate) const BATCH_MAX: usize = 16;

/// A program, as all its ranks execute it.
#[derive(Debug)]
pub(super) struct RankProgram {
    pub(super) path: CString,
    pub(super) words: Vec<CString>,
    /// Variables common to all ranks.
    pub(super) environment: Vec<CString>,
    pub(super) binding: Option<Arc<Binding>>,
}

/// The part of a prepared rank that it starts with.
#[derive(Debug)]
pub(super) struct RankStart {
    pub(super) local_rank: u32,
    /// Variables of this rank alone.
    pub(super) environment: Vec<CString>,
    pub(super) session: Session,
    /// Its end of the socket pair.
    pub(super) link: OwnedFd,
    pub(super) streams: RankStreams,
}

/// Standard streams of a rank.
#[derive(Debug)]
pub(super) enum RankStreams {
    /// Descriptors. Without one for its input, the rank inherits the launcher's; without one for its standard
    /// error, that is its standard output.
    Pipes { input: Option<OwnedFd>, output: OwnedFd, errors: Option<OwnedFd> },
    /// The terminal with this name.
    Terminal(CString),
}

/// A batch, with what its threads share.
pub(super) struct Batch<'a> {
    pub(super) program: &'a RankProgram,
    pub(super) attributes: &'a SpawnAttributes,
    /// Number of the descriptor at which each rank finds its end of the socket pair.
    pub(super) link: RawFd,
    pub(super) ranks: &'a [RankStart],
}

impl Batch<'_> {
    /// Starts all ranks, and returns their processes in the same order.
    pub(super) fn start(&self) -> Vec<io::Result<Pid>> {
        let started: Vec<OnceLock<io::Result<Pid>>> =
            self.ranks.iter().map(|_| OnceLock::new()).collect();
        let next = AtomicUsize::new(0);
        let work = || {
            let next = || next.fetch_add(1, Ordering::Relaxed);
            while let Some((rank, started)) = {
                let at = next();
                self.ranks.get(at).zip(started.get(at))
            } {
                let _ = started.set(self.start_rank(rank));
            }
        };
        thread::scope(|scope| {
            for _ in 1..thread_count().min(self.ranks.len()) {
                // Where the number of threads or their memory is limited, there are fewer.
                let builder = Builder::new().stack_size(STACK);
                if builder.spawn_scoped(scope, work).is_err() {
                    break;
                }
            }
            work();
        });
        let results = started.into_iter().zip(self.ranks).map(|(started, rank)| {
            // The threads of the batch count as processes of the user, and have ended.
            let is_final =
                |one: &io::Result<Pid>| one.as_ref().err().is_none_or(|error| !is_shortage(error));
            started.into_inner().filter(is_final).unwrap_or_else(|| self.start_rank(rank))
        });
        results.collect()
    }

    fn start_rank(&self, rank: &RankStart) -> io::Result<Pid> {
        let RankProgram { path, words, environment, binding } = self.program;
        let environment: Vec<&CStr> =
            environment.iter().chain(&rank.environment).map(CString::as_c_str).collect();
        let actions = rank.streams.actions(&rank.link, self.link)?;
        let start_with = |path: &CStr, words: &[CString], attributes| {
            posix_spawn(path, &actions, attributes, words, &environment)
                .map_err(|error| Errno::from_raw_os_error(error as i32))
        };
        let start = |path: &CStr, words: &[CString]| match self.attributes.of(rank.session) {
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
        let pid = match binding {
            Some(binding) => binding.during(rank.local_rank, start),
            None => start(),
        };
        Ok(Pid::from_raw(pid?.as_raw()).ok_or(io::ErrorKind::Other)?)
    }
}

impl RankStreams {
    /// File actions of a rank with these streams and this end of its socket pair, which it finds at `at`.
    fn actions(&self, link: &OwnedFd, at: RawFd) -> io::Result<PosixSpawnFileActions> {
        let mut actions = PosixSpawnFileActions::init()?;
        match self {
            Self::Pipes { input, output, errors } => {
                if let Some(input) = input {
                    actions.add_dup2(input.as_raw_fd(), 0)?;
                }
                actions.add_dup2(output.as_raw_fd(), 1)?;
                actions.add_dup2(errors.as_ref().unwrap_or(output).as_raw_fd(), 2)?;
            }
            // By its name, for only so does it become the controlling terminal.
            Self::Terminal(name) => {
                actions.add_open(0, name.as_c_str(), OFlag::O_RDWR, Mode::empty())?;
                actions.add_dup2(0, 1)?;
                actions.add_dup2(0, 2)?;
            }
        }
        actions.add_dup2(link.as_raw_fd(), at)?;
        Ok(actions)
    }
}

/// True for an error of a start that may succeed when fewer threads run.
fn is_shortage(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory)
}

/// Number of threads that start ranks: with two for each processor, the share of the ranks that start is that
/// of the other processes on a machine with two of these for each.
fn thread_count() -> usize {
    let processors = sched_getaffinity(None).map_or(1, |set: CpuSet| set.count());
    usize::try_from(processors).unwrap_or(usize::MAX).saturating_mul(2).min(THREADS_MAX)
}

/// More threads wait for one another inside the system.
const THREADS_MAX: usize = 8;

/// Stack of a thread. The system call runs on a stack of its own, and messages are on the heap.
const STACK: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::null;
    use crate::launch::signal::Ignored;
    use nix::sys::signal::SigSet;
    use rustix::process::{WaitOptions, waitpid};

    #[test]
    fn results_are_in_the_order_of_the_ranks_and_a_failure_stops_no_other() {
        let words = ["sh", "-c", "exit $CODE"].map(|word| CString::new(word).unwrap());
        let program = RankProgram {
            path: c"/bin/sh".into(),
            words: words.into(),
            environment: Vec::new(),
            binding: None,
        };
        let null = || null::open().unwrap();
        let mask = SigSet::thread_get_mask().unwrap();
        let attributes = SpawnAttributes::new(&mask, Ignored::at_start(), false).unwrap();
        let rank = |local_rank| RankStart {
            local_rank,
            environment: vec![CString::new(format!("CODE={local_rank}")).unwrap()],
            session: Session::Own,
            link: null(),
            streams: match local_rank % 5 {
                3 => RankStreams::Terminal(c"/no/such/terminal".into()),
                _ => RankStreams::Pipes { input: None, output: null(), errors: None },
            },
        };
        let ranks: Vec<RankStart> = (0..40).map(rank).collect();
        let link = null();
        let batch = Batch {
            program: &program,
            attributes: &attributes,
            link: link.as_raw_fd(),
            ranks: &ranks,
        };
        for (rank, started) in (0..).zip(batch.start()) {
            match started {
                Ok(pid) => {
                    let (_, status) = waitpid(Some(pid), WaitOptions::empty()).unwrap().unwrap();
                    assert_eq!(status.exit_status(), Some(rank));
                }
                Err(error) => {
                    assert_eq!((rank % 5, error.kind()), (3, io::ErrorKind::NotFound));
                }
            }
        }
    }
}
