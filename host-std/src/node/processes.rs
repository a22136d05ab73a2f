//! Processes of ranks: their start, signals to them, their shutdown, and what they leave behind.

use super::file_monitors::FileMonitors;
use crate::launch::cleanup::control_action::ControlAction;
use crate::launch::cleanup::out_of_memory::OutOfMemory;
use crate::launch::cleanup::shutdown::{Shutdown, ShutdownStep};
use crate::launch::signal::Arrived;
use crate::launch::start::launcher::Launcher;
use crate::launch::start::process::{self, Process, ProcessEnd};
use crate::numbers::index;
use crate::run_report::RankEnd;
use crate::verdict::Failure;
use pmi_core::ids::JobId;
use pmi_host_os::cleanup::files::Cleanup;
use pmi_host_os::cleanup::guard;
use pmi_host_os::clock;
use pmi_host_os::poller::{Interest, Poller, Token};
use rustix::process::Signal;
use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

/// All processes of ranks, with the deadlines that concern them.
pub(super) struct Processes {
    pub(super) launcher: Launcher,
    /// All processes ever started, in this order. Process numbers are indices into it.
    entries: Vec<ProcessEntry>,
    running_count: usize,
    shutdown: Shutdown,
    /// Processes that a rank asked to terminate, with the time at which they are killed.
    kill_deadlines: VecDeque<(Instant, u32)>,
    /// Processes that have exited in a debugger, which sees it first, with the time of the next look.
    traced: Vec<(Instant, u32)>,
    /// Processes whose connection closed while they ran, with the time at which that counts.
    closed_early: Vec<(Instant, u32)>,
    /// Aborts of ranks of themselves alone, whose processes have not exited.
    aborts: Vec<((JobId, u32), Failure)>,
    /// Files that ranks are expected to change.
    pub(super) file_monitors: FileMonitors,
    /// Files to remove when a rank has exited, or all have.
    cleanups: Vec<(JobId, Option<u32>, Cleanup)>,
    /// Time of the next check for processes that ranks left behind.
    sweep_at: Option<Instant>,
    /// Time to reap orphans that were adopted and have exited.
    reap_at: Option<Instant>,
    /// Read when the first rank has started, so that it does not wait for that.
    memory: Option<OutOfMemory>,
}

/// A process that was started.
pub(super) struct ProcessEntry {
    pub(super) job: JobId,
    pub(super) rank: u32,
    pub(super) pid: i32,
    /// `None` once its exit was seen.
    pub(super) process: Option<Process>,
    /// True once the launcher has requested its end, for the run or on behalf of a rank.
    pub(super) is_ending: bool,
    /// True if the rank has aborted itself alone.
    pub(super) has_aborted: bool,
    /// Its end, once that is evaluated.
    pub(super) end: Option<RankEnd>,
}

/// Result of a deadline of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProcessEvent {
    /// Processes do not terminate even though they were killed; they are not waited for any more.
    GivenUp {
        /// Number of ranks among them.
        running_count: usize,
        /// True if any process is left that may hold a pipe.
        is_any_left: bool,
    },
    /// This process closed its connection some time ago, and may still run.
    Disconnected(u32),
    /// The last process that a rank had left behind is gone.
    Swept,
}

impl Processes {
    /// Creates a table with room for `ranks` processes.
    pub(super) fn new(launcher: Launcher, ranks: u32) -> Self {
        Self {
            launcher,
            entries: Vec::with_capacity(index(ranks)),
            running_count: 0,
            shutdown: Shutdown::default(),
            kill_deadlines: VecDeque::new(),
            traced: Vec::new(),
            closed_early: Vec::new(),
            aborts: Vec::new(),
            file_monitors: FileMonitors::default(),
            cleanups: Vec::new(),
            sweep_at: None,
            reap_at: None,
            memory: None,
        }
    }

    /// Adds the process of a rank, and returns its number.
    pub(super) fn add(
        &mut self,
        (job, rank): (JobId, u32),
        process: Process,
        poller: &Poller,
    ) -> io::Result<u32> {
        let number = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        poller.add(Token::Exit(number), process.handle(), Interest::Read)?;
        let pid = process.pid();
        let (is_ending, has_aborted, end) = (false, false, None);
        let process = Some(process);
        self.entries.push(ProcessEntry { job, rank, pid, process, is_ending, has_aborted, end });
        self.memory.get_or_insert_with(OutOfMemory::new);
        self.running_count += 1;
        Ok(number)
    }

    /// End of a process whose descriptor reports an exit.
    ///
    /// The exit of a process in a debugger is seen by the debugger first. Until then there is nothing to be
    /// read, and the descriptor reports it all the time: a timer takes its place.
    pub(super) fn poll_exit(
        &mut self,
        number: u32,
        poller: &Poller,
    ) -> io::Result<Option<ProcessEnd>> {
        let Some(process) = self.running(number) else { return Ok(None) };
        let end = process.ending()?;
        if end.is_none() {
            poller.remove(Token::Exit(number), process.handle())?;
            self.traced.push((clock::now() + TRACED_AGAIN, number));
        }
        Ok(end)
    }

    /// End of a process that has exited in a debugger, if the debugger has seen it.
    pub(super) fn check_traced(&mut self, now: Instant) -> io::Result<Option<(u32, ProcessEnd)>> {
        for at in 0..self.traced.len() {
            let (due, number) = self.traced[at];
            if now < due {
                continue;
            }
            let end = self.running(number).map_or(Ok(None), Process::ending)?;
            if let Some(end) = end {
                self.traced.swap_remove(at);
                return Ok(Some((number, end)));
            }
            self.traced[at].0 = now + TRACED_AGAIN;
        }
        Ok(None)
    }

    /// Records the exit of a process, and returns its rank.
    pub(super) fn note_exit(&mut self, number: u32) -> Option<(JobId, u32)> {
        let ProcessEntry { job, rank, process, .. } = self.entries.get_mut(index(number))?;
        if let (Some(guard), Some(process)) = (&self.launcher.guard, process.take()) {
            guard.report_end(process.pid());
        }
        self.running_count -= 1;
        Some((*job, *rank))
    }

    /// Detects processes that the system killed because it had run out of memory.
    pub(super) fn cause(&mut self, ending: ProcessEnd) -> ProcessEnd {
        let is_kill = |signal| signal == Signal::KILL.as_raw();
        match ending {
            ProcessEnd::Killed { signal, .. }
                if is_kill(signal) && self.memory.as_mut().is_some_and(OutOfMemory::has_struck) =>
            {
                ProcessEnd::OutOfMemory
            }
            other => other,
        }
    }

    /// Records the end of a process.
    pub(super) fn note_end(&mut self, number: u32, end: RankEnd) {
        if let Some(entry) = self.entries.get_mut(index(number)) {
            entry.end = Some(end);
        }
    }

    /// Records that a rank has aborted itself alone.
    pub(super) fn note_abort(&mut self, who: (JobId, u32), failure: Failure) {
        let entry = self.entries.iter_mut().find(|one| (one.job, one.rank) == who);
        entry.into_iter().for_each(|one| one.has_aborted = true);
        self.aborts.push((who, failure));
    }

    /// The abort of a rank of itself alone, once.
    pub(super) fn take_abort(&mut self, who: (JobId, u32)) -> Option<Failure> {
        let at = self.aborts.iter().position(|(of, _)| *of == who)?;
        Some(self.aborts.swap_remove(at).1)
    }

    pub(super) fn get(&self, number: u32) -> Option<&ProcessEntry> {
        self.entries.get(index(number))
    }

    /// The process with this number, while it runs.
    pub(super) fn running(&self, number: u32) -> Option<&Process> {
        self.get(number)?.process.as_ref()
    }

    /// Processes of the ranks that run, but for `pid`.
    pub(super) fn others(&self, pid: i32) -> Vec<i32> {
        let running = self.entries.iter().filter(|entry| entry.process.is_some());
        running.map(|entry| entry.pid).filter(|other| *other != pid).collect()
    }

    /// All processes ever started, in this order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &ProcessEntry> {
        self.entries.iter()
    }

    /// Number of processes ever started.
    pub(super) fn started_count(&self) -> usize {
        self.entries.len()
    }

    /// Number of ranks that run.
    pub(super) const fn running_count(&self) -> usize {
        self.running_count
    }

    /// True if no rank runs, and no process is waited for that a rank has left behind.
    pub(super) const fn is_quiet(&self) -> bool {
        self.running_count == 0 && self.sweep_at.is_none()
    }

    /// True if no rank runs, and processes are waited for that ranks have left behind.
    pub(super) const fn is_sweeping(&self) -> bool {
        self.running_count == 0 && self.sweep_at.is_some()
    }

    /// Time of the next call of a method with a deadline.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let kill = self.kill_deadlines.front().map(|(at, _)| *at);
        let closed = self.closed_early.first().map(|(at, _)| *at);
        let traced = self.traced.iter().map(|(at, _)| *at).min();
        let init = self.launcher.initializing.deadline();
        let own =
            [self.shutdown.deadline(), closed, self.sweep_at, self.reap_at, kill, traced, init];
        own.into_iter().flatten().min()
    }
}

/// Signals.
impl Processes {
    /// Sends `signal` to all running processes.
    pub(super) fn signal_running(&self, signal: Signal) {
        self.running_processes().for_each(|process| process.signal(signal));
    }

    /// Forwards a signal to all running processes but those left out. A signal typed at the terminal
    /// reaches the launcher's process group by itself, and must arrive only once; it is also meant for
    /// descendants of ranks.
    pub(super) fn forward(&self, arrived: Arrived, leave_out: impl Fn(&ProcessEntry) -> bool) {
        for entry in self.entries.iter().filter(|entry| !leave_out(entry)) {
            match &entry.process {
                Some(process) if !arrived.is_for_group => process.signal(arrived.signal),
                Some(process) if !has_it(arrived, process) => process.signal_group(arrived.signal),
                _ => {}
            }
        }
    }

    /// Forwards a signal that requests the end. A stopped process handles it only after SIGCONT.
    ///
    /// Signals of keys are meant for the group of a rank, as at a terminal: a shell that waits for a command
    /// heeds them when they have ended the command.
    pub(super) fn forward_end(&self, arrived: Arrived) {
        let is_of_key = [Signal::INT, Signal::QUIT].contains(&arrived.signal);
        match is_of_key && !arrived.is_for_group {
            true => self.running_processes().for_each(|one| one.signal_group(arrived.signal)),
            false => self.forward(arrived, |_| false),
        }
        self.signal_running(Signal::CONT);
    }

    /// Ends all ranks as after a failure, if `signal` was SIGTERM and all of them ignore it: it would have no
    /// effect. (The other signals are ignored by commands in the background of a shell, and by `nohup`.)
    pub(super) fn terminate_deaf(&mut self, now: Instant, signal: Signal) {
        let is_deaf = signal == Signal::TERM
            && self.running_count > 0
            && self.running_processes().all(|process| process.ignores(signal));
        if is_deaf {
            self.terminate(now);
        }
    }

    fn running_processes(&self) -> impl Iterator<Item = &Process> {
        self.entries.iter().filter_map(|one| one.process.as_ref())
    }

    /// Stops all ranks and waits until they are stopped.
    pub(super) fn stop(&self, arrived: Arrived) {
        let others = self.ranks().filter(|process| !has_it(arrived, process));
        process::stop(&others.collect::<Vec<_>>());
    }

    /// Continues all ranks.
    pub(super) fn resume(&self) {
        self.ranks().for_each(|one| one.signal_group(Signal::CONT));
    }

    /// Executes an action that a rank has requested for the processes `numbers`.
    pub(super) fn act_on(&mut self, numbers: impl Iterator<Item = u32>, action: ControlAction) {
        let until = clock::now() + GRACE;
        for number in numbers {
            let Some(entry) = self.entries.get_mut(index(number)) else { continue };
            let Some(process) = &entry.process else { continue };
            entry.is_ending |= matches!(action, ControlAction::Kill | ControlAction::Terminate);
            match action {
                ControlAction::Signal(signal) => process.signal(signal),
                ControlAction::Kill => process.signal(Signal::KILL),
                ControlAction::Terminate => {
                    process.signal(Signal::TERM);
                    // A stopped process handles SIGTERM only after SIGCONT.
                    process.signal(Signal::CONT);
                    self.kill_deadlines.push_back((until, number));
                }
            }
        }
    }

    /// Kills processes that were asked to terminate and still run at their deadline.
    pub(super) fn check_kill_deadlines(&mut self, now: Instant) {
        while let Some(&(at, number)) = self.kill_deadlines.front()
            && at <= now
        {
            self.kill_deadlines.pop_front();
            if let Some(process) = self.running(number) {
                process.signal(Signal::KILL);
            }
        }
    }

    fn ranks(&self) -> impl Iterator<Item = &Process> {
        self.entries.iter().filter_map(|one| one.process.as_ref()).filter(|one| one.is_ours())
    }
}

/// Shutdown, and processes that are left.
impl Processes {
    /// True once all running processes were asked to terminate.
    pub(super) fn are_terminating(&self) -> bool {
        self.shutdown.has_begun()
    }

    /// Asks all running processes to terminate, unless that was done.
    pub(super) fn terminate(&mut self, now: Instant) {
        if let Some(step) = self.shutdown.terminate(now) {
            let _ = self.execute(step);
        }
    }

    /// Kills all running processes, unless that was done.
    pub(super) fn kill(&mut self, now: Instant) {
        if let Some(step) = self.shutdown.kill(now) {
            let _ = self.execute(step);
        }
    }

    /// Executes the next step of the shutdown when it is due.
    pub(super) fn check_shutdown(&mut self, now: Instant) -> Option<ProcessEvent> {
        let step = self.shutdown.tick(now)?;
        self.execute(step)
    }

    /// Records that the launcher requests the end of all running processes.
    fn note_ending(&mut self) {
        let running = self.entries.iter_mut().filter(|one| one.process.is_some());
        running.for_each(|one| one.is_ending = true);
    }

    fn execute(&mut self, step: ShutdownStep) -> Option<ProcessEvent> {
        match step {
            ShutdownStep::Terminate => {
                self.note_ending();
                self.signal_running(Signal::TERM);
                self.signal_running(Signal::CONT);
            }
            ShutdownStep::Kill => {
                self.note_ending();
                self.signal_running(Signal::KILL);
                if self.sweep_at.is_some() {
                    self.signal_orphans(Signal::KILL);
                }
            }
            ShutdownStep::GiveUp => {
                let running_count = std::mem::take(&mut self.running_count);
                let is_any_left = self.sweep_at.take().is_some() || running_count > 0;
                return Some(ProcessEvent::GivenUp { running_count, is_any_left });
            }
        }
        None
    }

    /// Records that the connection of a process was closed. That counts at once if its rank is a singleton,
    /// whose exit cannot be seen; else the exit is probably on its way.
    pub(super) fn note_closed(&mut self, number: u32, now: Instant) {
        match self.running(number).is_some_and(Process::is_ours) {
            true => self.closed_early.push((now + EXIT_DELAY, number)),
            false => self.closed_early.insert(0, (now, number)),
        }
    }

    /// The next process whose connection was closed too long ago.
    pub(super) fn check_closed(&mut self, now: Instant) -> Option<ProcessEvent> {
        let (_, number) = self.closed_early.first().filter(|(at, _)| now >= *at)?;
        let event = ProcessEvent::Disconnected(*number);
        self.closed_early.remove(0);
        Some(event)
    }

    /// Starts to terminate processes that ranks have left behind. Returns false if there are none. To be
    /// called only when no rank runs any more.
    pub(super) fn begin_sweep(&mut self, now: Instant) -> bool {
        if !self.is_any_orphan_left() {
            return false;
        }
        // They are asked only now, so they get the same grace period as ranks, counted from the failure.
        let _ = self.shutdown.terminate(now);
        self.signal_orphans(Signal::TERM);
        self.sweep_at = Some(now + SWEEP);
        true
    }

    /// Checks whether processes that ranks left behind have exited, when that is due.
    pub(super) fn check_sweep(&mut self, now: Instant) -> Option<ProcessEvent> {
        self.sweep_at.filter(|at| now >= *at)?;
        if !self.is_any_orphan_left() {
            self.sweep_at = None;
            return Some(ProcessEvent::Swept);
        }
        self.sweep_at = Some(now + SWEEP);
        if self.shutdown.is_killing() {
            // Processes that exited may have left others.
            self.signal_orphans(Signal::KILL);
        }
        None
    }

    /// Replaces the guard if it has exited, and schedules reaping after SIGCHLD. The child may be an adopted
    /// orphan that nothing else waits for; the list is not scanned at every exit of a rank.
    pub(super) fn note_child_end(&mut self, now: Instant) {
        let left = self.entries.iter().filter(|one| match &one.process {
            Some(process) => process.is_ours(),
            None => guard::has_group(one.pid),
        });
        self.launcher.check_guard(left.map(|one| one.pid));
        self.reap_at.get_or_insert(now + REAP_AFTER);
    }

    /// Reaps adopted children that have exited, when it is due.
    pub(super) fn check_reap(&mut self, now: Instant) {
        if self.reap_at.is_some_and(|at| now >= at) {
            self.reap_at = None;
            let is_rank =
                |pid| self.entries.iter().any(|one| one.pid == pid && one.process.is_some());
            self.launcher.orphans.reap(is_rank, |session| self.was_rank(session));
            self.launcher.reap_unwanted();
        }
    }

    fn is_any_orphan_left(&self) -> bool {
        self.launcher.orphans.any_left(|session| self.was_rank(session))
    }

    /// Sends `signal` to all processes that are left and descend from ranks.
    fn signal_orphans(&self, signal: Signal) {
        self.launcher.orphans.signal(signal, |session| self.was_rank(session));
    }

    fn was_rank(&self, pid: i32) -> bool {
        self.entries.iter().any(|one| one.pid == pid)
    }

    /// Registers files to remove when the targets have exited. Returns false if there are too many.
    pub(super) fn add_cleanups(
        &mut self,
        targets: &[(JobId, Option<u32>)],
        cleanup: &Cleanup,
    ) -> bool {
        if self.cleanups.len() + targets.len() > CLEANUPS_MAX {
            return false;
        }
        self.cleanups.extend(targets.iter().map(|(job, rank)| (*job, *rank, cleanup.clone())));
        true
    }

    /// Runs the cleanups registered for a rank that has exited.
    pub(super) fn clean_up_after(&mut self, job: JobId, rank: u32) {
        let of_rank = self.cleanups.extract_if(.., |(of, who, _)| (*of, *who) == (job, Some(rank)));
        of_rank.for_each(|(_, _, cleanup)| cleanup.run());
    }

    /// Runs the remaining cleanups when all ranks have exited.
    pub(super) fn clean_up(&mut self) {
        self.cleanups.drain(..).for_each(|(_, _, cleanup)| cleanup.run());
    }
}

/// True if a process received a signal by itself, as all processes of the launcher's process group do.
fn has_it(arrived: Arrived, process: &Process) -> bool {
    arrived.is_for_group && process.is_in_our_group()
}

/// Grace period between SIGTERM and SIGKILL, the same as in the shutdown of a run.
const GRACE: Duration = Duration::from_secs(3);

/// Maximum number of registered cleanups: far more than ranks ask for, and little enough to keep.
const CLEANUPS_MAX: usize = 1 << 16;

/// Longest delay between the end of a connection and the exit of its process. The kernel closes files
/// first and notifies the parent last; on a loaded machine with a large process there is time between.
const EXIT_DELAY: Duration = Duration::from_secs(1);

/// Interval of checks for processes that ranks have left behind; their exit causes no event.
const SWEEP: Duration = Duration::from_millis(20);

/// Time between two looks at a process that has exited in a debugger.
const TRACED_AGAIN: Duration = Duration::from_millis(100);

/// Longest time that an adopted process which has exited stays in the process table.
const REAP_AFTER: Duration = Duration::from_secs(1);
