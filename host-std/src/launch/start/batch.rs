//! Starting the ranks of a batch, by several threads.
//!
//! A start lends the memory of this process to the child and returns when the child has become the
//! program. Until then the child needs a processor. A rank that leads a session has a scheduling group of its
//! own from then on, and on a busy machine that group waits for its turn, with the thread that starts the
//! rank. So the ranks of a batch are prepared one after the other and started by several threads, which wait
//! at the same time. Where starts do not wait, threads would cost more than they save: they are made when the
//! processors are busy, or when a start has taken long.
//!
//! The threads live as long as the launcher: `PR_SET_PDEATHSIG` follows the thread that has started a
//! process, so a rank that asks to die with its parent would die with a thread that ends earlier. What
//! belongs to the whole process is set for the whole batch: its directory and its limit on open files. A
//! binding belongs to a thread.

use super::child_start::{ChildError, ChildFiles};
use super::exec_stop;
use super::script;
use super::session::{Session, SpawnAttributes, StartMethod};
use super::start_error::explained;
use super::trampoline;
use crate::launch::plan::directives::DebugHold;
use crate::launch::plan::job::InitScheduling;
use crate::launch::topology::binding::Binding;
use crate::launch::topology::load::{are_processors_busy, processor_count};
use crate::launch::topology::places::Places;
use nix::fcntl::OFlag;
use nix::spawn::{PosixSpawnFileActions, posix_spawn};
use nix::sys::signal::SigSet;
use nix::sys::stat::Mode;
use pmi_host_os::clock;
use pmi_host_os::refusal;
use rustix::fd::{AsRawFd, OwnedFd, RawFd};
use rustix::io::Errno;
use rustix::process::Pid;
use std::collections::VecDeque;
use std::ffi::{CStr, CString};
use std::io;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

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
    pub(super) places: Option<Arc<Places>>,
    /// Name of this host, for messages.
    pub(super) host: String,
}

/// The part of a prepared rank that it starts with.
#[derive(Debug)]
pub(super) struct RankStart {
    pub(super) local_rank: u32,
    /// Variables of this rank alone.
    pub(super) environment: Vec<CString>,
    pub(super) session: Session,
    pub(super) init: InitScheduling,
    /// Its end of the socket pair.
    pub(super) link: OwnedFd,
    pub(super) streams: RankStreams,
    /// Its preparation for a debugger.
    pub(super) hold: DebugHold,
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

/// Threads that start ranks, besides that of the launcher. Most runs need none: they are made for several
/// ranks, when the processors are busy or the start of one has taken long.
pub(super) struct Starters {
    threads: Vec<Starter>,
    /// Longest start after which no threads are made.
    quick: Duration,
    /// Whether starts will wait for processors.
    is_busy: fn() -> bool,
    /// True if the user may not have more processes, of which each thread is one.
    is_alone: bool,
}

struct Starter {
    batches: Sender<Arc<Batch>>,
    thread: JoinHandle<()>,
}

/// A batch, with what its threads share.
pub(super) struct Batch {
    program: Arc<RankProgram>,
    attributes: Arc<SpawnAttributes>,
    /// Number of the descriptor at which each rank finds its end of the socket pair.
    link: RawFd,
    progress: Mutex<BatchProgress>,
    has_ended: Condvar,
}

#[derive(Debug)]
struct BatchProgress {
    /// Ranks that no thread has taken, by their places.
    waiting: VecDeque<(usize, RankStart)>,
    /// Ranks for which there was no room.
    refused: Vec<(usize, RankStart)>,
    /// Results by place.
    started: Vec<Option<io::Result<Pid>>>,
    /// Number of ranks without a result.
    open_count: usize,
}

impl Default for Starters {
    fn default() -> Self {
        Self { threads: Vec::new(), quick: QUICK, is_busy: are_processors_busy, is_alone: false }
    }
}

impl Starters {
    /// Starts all ranks of a batch, and returns their processes in the same order.
    pub(super) fn start(&mut self, batch: Batch) -> Vec<io::Result<Pid>> {
        let is_single = batch.progress().open_count < 2;
        if self.threads.is_empty() && (is_single || !(self.is_busy)()) {
            batch.work_while_quick(self.quick);
        }
        let others = thread_count().min(batch.progress().waiting.len()).saturating_sub(1);
        while !self.is_alone && self.threads.len() < others {
            // Where the number of threads or their memory is limited, there are fewer.
            let Ok(starter) = Starter::new() else { break };
            self.threads.push(starter);
        }
        let batch = Arc::new(batch);
        for starter in self.threads.iter().take(others) {
            // It ends with its channel only.
            let _ = starter.batches.send(Arc::clone(&batch));
        }
        batch.work();
        let refused = batch.wait();
        if !refused.is_empty() {
            self.is_alone = true;
            self.threads.drain(..).for_each(Starter::end);
        }
        for (place, rank) in refused {
            let started = batch.start_rank(&rank);
            batch.progress().set(place, started);
        }
        let missing = || Err(io::ErrorKind::Other.into());
        let started = std::mem::take(&mut batch.progress().started);
        started.into_iter().map(|one| one.unwrap_or_else(missing)).collect()
    }
}

impl Starter {
    fn new() -> io::Result<Self> {
        let (batches, received) = channel::<Arc<Batch>>();
        let work = move || {
            // Signals are for the thread of the launcher.
            let _ = SigSet::all().thread_block();
            received.into_iter().for_each(|batch| batch.work());
        };
        let thread = Builder::new().name("start".to_owned()).stack_size(STACK).spawn(work)?;
        Ok(Self { batches, thread })
    }

    fn end(self) {
        drop(self.batches);
        // A panic of it has no other effect.
        let _ = self.thread.join();
    }
}

impl Batch {
    pub(super) fn new(
        program: Arc<RankProgram>,
        attributes: Arc<SpawnAttributes>,
        link: RawFd,
        ranks: Vec<RankStart>,
    ) -> Self {
        let open_count = ranks.len();
        let progress = BatchProgress {
            waiting: ranks.into_iter().enumerate().collect(),
            refused: Vec::new(),
            started: std::iter::repeat_with(|| None).take(open_count).collect(),
            open_count,
        };
        Self {
            program,
            attributes,
            link,
            progress: Mutex::new(progress),
            has_ended: Condvar::new(),
        }
    }

    /// Starts ranks until none is left for this thread. Their ends of pipes and sockets are closed behind
    /// each start.
    fn work(&self) {
        while self.start_next() {}
    }

    /// The same, until a start takes longer than `quick`.
    fn work_while_quick(&self, quick: Duration) {
        let mut began = clock::now();
        while self.start_next() {
            let now = clock::now();
            if now.duration_since(began) > quick {
                break;
            }
            began = now;
        }
    }

    /// Starts the next rank. False if no rank is left for this thread.
    fn start_next(&self) -> bool {
        let taken = self.progress().waiting.pop_front();
        let Some((place, rank)) = taken else { return false };
        let started = self.start_rank(&rank);
        let mut progress = self.progress();
        match started {
            // The other threads count as processes of the user.
            Err(error) if is_shortage(&error) => progress.refused.push((place, rank)),
            started => progress.set(place, started),
        }
        progress.open_count -= 1;
        if progress.open_count == 0 {
            self.has_ended.notify_one();
        }
        true
    }

    /// Waits until all threads are done with their ranks, and returns those that were refused.
    fn wait(&self) -> Vec<(usize, RankStart)> {
        let progress = self.progress();
        let ended = self.has_ended.wait_while(progress, |progress| progress.open_count > 0);
        std::mem::take(&mut ended.unwrap_or_else(PoisonError::into_inner).refused)
    }

    fn progress(&self) -> MutexGuard<'_, BatchProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start_rank(&self, rank: &RankStart) -> io::Result<Pid> {
        let RankProgram { path, words, environment, binding, places, host } = &*self.program;
        let environment: Vec<&CStr> =
            environment.iter().chain(&rank.environment).map(CString::as_c_str).collect();
        let files = rank.streams.files(&rank.link, self.link);
        let start = |path: &CStr, words: &[CString]| match self
            .attributes
            .of(rank.session, rank.hold)
        {
            StartMethod::Direct(child) => {
                let words = words.iter().map(CString::as_c_str);
                child.start(path, words, environment.iter().copied(), &files)
            }
            StartMethod::Trampoline(attributes, stops) => {
                let words = trampoline::words(&stops, rank.hold, path, words);
                let actions = actions(&files);
                let path = trampoline::PROGRAM;
                actions
                    .and_then(|actions| {
                        posix_spawn(path, &actions, attributes, &words, &environment)
                    })
                    .map_err(|error| ChildError::Program(Errno::from_raw_os_error(error as i32)))
            }
        };
        let explain = |error, path| match error {
            ChildError::Process(error) if refusal::is_refusal(error) => {
                refusal::of_call("clone", error)
            }
            ChildError::Process(error) | ChildError::Program(error) => explained(error, path, host),
        };
        let start = || match start(path, words) {
            Err(ChildError::Program(Errno::NOEXEC)) => match script::by_shell(path, words) {
                Some(words) => {
                    start(script::SHELL, &words).map_err(|error| explain(error, script::SHELL))
                }
                None => Err(explained(Errno::NOEXEC, path, host)),
            },
            started => started.map_err(|error| explain(error, path)),
        };
        let start_bound = || match binding {
            Some(binding) => binding.during(rank.local_rank, start),
            None => start(),
        };
        let pid = match places.as_ref().and_then(|places| places.memory(rank.local_rank)) {
            Some(memory) => memory.during(start_bound),
            None => start_bound(),
        };
        let pid = Pid::from_raw(pid?.as_raw()).ok_or(io::ErrorKind::Other)?;
        if let Some(scheduling) = self.attributes.scheduling {
            scheduling.begin(pid, rank.init);
        }
        if rank.hold == DebugHold::StoppedOnExec {
            // By this thread, which alone may do it.
            exec_stop::leave_stopped(pid);
        }
        Ok(pid)
    }
}

impl BatchProgress {
    fn set(&mut self, place: usize, started: io::Result<Pid>) {
        if let Some(one) = self.started.get_mut(place) {
            *one = Some(started);
        }
    }
}

impl RankStreams {
    /// Files of a rank with these streams and this end of its socket pair, which it finds at `at`.
    fn files(&self, link: &OwnedFd, at: RawFd) -> ChildFiles<'_> {
        let mut files = ChildFiles::default();
        match self {
            Self::Pipes { input, output, errors } => {
                let descriptors = &mut files.descriptors;
                descriptors.reserve(4);
                descriptors.extend(input.as_ref().map(|input| (input.as_raw_fd(), 0)));
                descriptors.push((output.as_raw_fd(), 1));
                descriptors.push((errors.as_ref().unwrap_or(output).as_raw_fd(), 2));
            }
            Self::Terminal(name) => {
                files = ChildFiles { terminal: Some(name), descriptors: vec![(0, 1), (0, 2)] };
            }
        }
        files.descriptors.push((link.as_raw_fd(), at));
        files
    }
}

/// The same for `posix_spawn`.
fn actions(files: &ChildFiles<'_>) -> nix::Result<PosixSpawnFileActions> {
    let mut actions = PosixSpawnFileActions::init()?;
    if let Some(terminal) = files.terminal {
        actions.add_open(0, terminal, OFlag::O_RDWR, Mode::empty())?;
    }
    for &(file, number) in &files.descriptors {
        actions.add_dup2(file, number)?;
    }
    Ok(actions)
}

/// True for an error of a start that may succeed when fewer threads run.
fn is_shortage(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory)
}

/// Number of threads that start ranks: with two for each processor, the share of the ranks that start is that
/// of the other processes on a machine with two of these for each.
fn thread_count() -> usize {
    processor_count().saturating_mul(2).min(THREADS_MAX)
}

/// More threads wait for one another inside the system.
const THREADS_MAX: usize = 8;

/// Longest start of a rank that has not waited for a processor; one that waits loses some milliseconds.
const QUICK: Duration = Duration::from_millis(1);

/// Stack of a thread. The system call runs on a stack of its own, and messages are on the heap.
const STACK: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::signal::Ignored;
    use pmi_host_os::null_device;
    use rustix::process::{WaitOptions, waitpid};

    #[test]
    fn results_are_in_the_order_of_the_ranks_and_a_failure_stops_no_other() {
        // Threads are made after the first start, or never.
        let idle: fn() -> bool = || false;
        let busy: fn() -> bool = || true;
        for (quick, is_busy, has_threads) in [
            (Duration::ZERO, idle, true),
            (Duration::MAX, idle, false),
            (Duration::MAX, busy, true),
        ] {
            let mut starters = Starters { quick, is_busy, ..Starters::default() };
            start_forty(&mut starters);
            assert_eq!(!starters.threads.is_empty(), has_threads);
            start_forty(&mut starters);
        }
    }

    fn start_forty(starters: &mut Starters) {
        let words = ["sh", "-c", "exit $CODE"].map(|word| CString::new(word).unwrap());
        let program = RankProgram {
            path: c"/bin/sh".into(),
            words: words.into(),
            environment: Vec::new(),
            binding: None,
            places: None,
            host: "n1".to_owned(),
        };
        let null = || null_device::open().unwrap();
        let mask = SigSet::thread_get_mask().unwrap();
        let attributes = SpawnAttributes::new(&mask, Ignored::at_start(), false).unwrap();
        let rank = |local_rank| RankStart {
            local_rank,
            environment: vec![CString::new(format!("CODE={local_rank}")).unwrap()],
            session: Session::Own,
            init: InitScheduling::Usual,
            hold: DebugHold::None,
            link: null(),
            streams: match local_rank % 5 {
                3 => RankStreams::Terminal(c"/no/such/terminal".into()),
                _ => RankStreams::Pipes { input: None, output: null(), errors: None },
            },
        };
        let ranks: Vec<RankStart> = (0..40).map(rank).collect();
        let link = null();
        let batch = Batch::new(Arc::new(program), Arc::new(attributes), link.as_raw_fd(), ranks);
        for (rank, started) in (0..).zip(starters.start(batch)) {
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
