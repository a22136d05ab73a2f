//! Exits of ranks, failures and shutdown, as methods of [`EventLoop`], which keeps the state.

use super::{EventLoop, JobState, ProcessEntry};
use crate::launch::process::{self, Process, ProcessEnd};
use crate::launch::shutdown::ShutdownStep;
use crate::launch::signal::{self, Arrived, Meaning};
use crate::report;
use crate::stdio::index;
use crate::trace::Who;
use crate::verdict::{Failure, PmiPhase, judge};
use pmi_core::command::Notice;
use pmi_core::ids::JobId;
use pmi_trace::What;
use rustix::process::Signal;
use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

impl EventLoop {
    /// Handles the exit of a process, if it has exited.
    pub(super) fn handle_exit(&mut self, number: u32) -> io::Result<()> {
        let Some(running) = &self.processes[index(number)].process else { return Ok(()) };
        let Some(ending) = running.ending()? else { return Ok(()) };
        self.note_end(number, ending)
    }

    /// Evaluates the exit of a process, and executes the consequences.
    fn note_end(&mut self, number: u32, ending: ProcessEnd) -> io::Result<()> {
        let ProcessEntry { job, rank, process, .. } = &mut self.processes[index(number)];
        let (job, rank) = (*job, *rank);
        if let (Some(guard), Some(process)) = (&self.launcher.guard, process.take()) {
            guard.report_end(process.pid());
        }
        self.running_count -= 1;
        if self.inputs.raw_for().is_some_and(|seat| job == self.first && seat.rank == rank) {
            // Its last output is meant for a terminal that is still its own.
            self.outputs.drain(number);
            self.outputs.flush(&mut self.poller)?;
        }
        self.inputs.end(number, &self.poller)?;
        self.outputs.set_raw(self.inputs.raw_for());

        // Its last messages may still be in transit: an abort, or the finalize that makes its exit a
        // success.
        self.service.drain(job, rank, &self.poller)?;
        self.handle_server_events();
        let ending = self.ends.cause(ending);
        self.enter_end(number, ending, self.service.phase(job, rank));
        if let Some(ended) = ended(ending) {
            self.service.tracer.event(Who::rank(job.0, rank), ended);
        }
        self.clean_up_after(job, rank);
        self.tell_pmix_of_end((job, rank), ending);
        match judge(rank, ending, self.service.phase(job, rank)).filter(|_| self.is_wanted(job)) {
            Some(failure) if self.tolerate(job, &failure) => self.outputs.drain(number),
            Some(failure) => {
                self.outputs.drain(number);
                // Ranks that wait for it or registered for its exit are notified before any signal.
                self.service.set_gone(job, rank);
                self.service.flush(&self.poller)?;
                self.fail(job, failure);
                // Started by `fail` already, except after an interrupt: the other ranks then get the
                // usual grace period from here.
                self.step_down();
            }
            None if self.service.is_closed(job, rank) => self.service.set_gone(job, rank),
            None => {}
        }
        if let Some(job) = self.jobs.get_mut(&job.0) {
            job.running_count -= 1;
        }
        self.check_job_ended(job);
        self.check_all_ended();
        Ok(())
    }

    /// Records a failure in `job`: the first one of all jobs decides the exit code and is reported.
    pub(super) fn fail(&mut self, job: JobId, failure: Failure) {
        if self.failure.is_some() || !self.is_wanted(job) {
            return;
        }
        let is_interrupted = matches!(failure, Failure::Interrupted { .. });
        // The reader of the output closed it on purpose, and knows the effect on writers.
        if !(failure.is_closed_pipe() && self.outputs.has_closed())
            && let Some(JobState { plan, .. }) = self.jobs.get(&job.0)
        {
            let pid = |rank| self.pid(job, rank);
            let mut text = report::failure(&failure, plan, pid, self.running_count);
            self.ends.note_told(&text);
            self.service.tracer.event(Who::job(job.0), What::Told { text: text.clone() });
            if is_interrupted {
                text.push_str(&self.who_runs());
            }
            self.outputs.say(text);
        }
        self.outputs.expect_nobody_else(None);
        self.say_who_is_there();
        let code = i32::from(failure.exit_code());
        self.failure = Some(failure);
        // Ranks with a listener may have something to save before the signal comes.
        self.notify(Notice::Abort(code));
        if !is_interrupted {
            self.step_down();
        }
        self.check_all_ended();
    }

    /// Keeps a spawned job that has ended known for a while, and forgets the oldest such job.
    pub(super) fn check_job_ended(&mut self, id: JobId) {
        let has_ended = self.jobs.get(&id.0).is_some_and(|job| {
            job.running_count == 0 && (job.is_unwanted || job.started_count == job.plan.local())
        });
        if id == self.first || !has_ended {
            return;
        }
        if self.pmix.is_some() {
            self.service.tell_job_end(id);
        }
        // Not at once: the response to its spawner may not be written yet, and names it.
        self.ended.push_back(id);
        if self.ended.len() > ENDED_KEPT
            && let Some(old) = self.ended.pop_front()
        {
            self.jobs.remove(&old.0);
            self.service.remove_job(old);
        }
    }

    fn is_wanted(&self, job: JobId) -> bool {
        self.jobs.get(&job.0).is_some_and(|job| !job.is_unwanted)
    }

    /// Handles signals that have arrived.
    pub(super) fn handle_signals(&mut self) -> io::Result<()> {
        let now = Instant::now();
        let mut all: VecDeque<Arrived> = self.signals.arrived().collect();
        while let Some(arrived) = all.pop_front() {
            match self.signals.meaning(arrived.signal) {
                Meaning::End => self.handle_interrupt(now, arrived),
                Meaning::Tell => self.say_table(),
                Meaning::Forward => self.pass_on(arrived),
                Meaning::Stop => self.stand_still(arrived, &mut all)?,
                Meaning::Continue => self.watch.stall.forgive(now),
                Meaning::ChildEnded => self.note_child_end(now),
                Meaning::Crash => signal::crash(arrived.signal)?,
                Meaning::Resized => {}
            }
            // Besides their own meaning, these signals may indicate a change of the terminal.
            if [Signal::CONT, Signal::WINCH].contains(&arrived.signal) {
                self.inputs.handle_terminal_changes(&self.poller)?;
                self.outputs.set_raw(self.inputs.raw_for());
            }
        }
        Ok(())
    }

    /// Forwards a signal that requests the end. A second one within a short time kills.
    fn handle_interrupt(&mut self, now: Instant, arrived: Arrived) {
        let Arrived { signal: one, .. } = arrived;
        let last = self.interrupted.replace((now, one));
        if let Some((at, signal)) = last.filter(|(at, _)| now - *at < ONE_ACT) {
            // The first signal of an act counts, else a repeating key would never count as a second
            // request.
            self.interrupted = Some((at, signal));
            if signal != one {
                self.signal_all(arrived);
            }
            return;
        }
        // With no rank left, the launcher waits for a reader of its output or a process that a rank left
        // behind; the sender of the signal wants neither.
        self.is_abandoned |= self.running_count == 0;
        self.fail(self.first, Failure::Interrupted { signal: one.as_raw() });
        if last.is_some_and(|(at, _)| now - at < AGAIN) {
            return self.kill_everybody();
        }
        self.signal_all(arrived);
        self.remind_later(now);
    }

    /// Handles all deadlines that have passed.
    pub(super) fn handle_deadlines(&mut self, now: Instant) -> io::Result<()> {
        self.check_dial_in(now)?;
        self.check_pages(now)?;
        self.inputs.tick(now, &self.poller)?;
        self.outputs.tick(now);
        if let Some(step) = self.shutdown.tick(now) {
            self.handle_shutdown_step(step);
        }
        while let Some(&(at, process)) = self.closed_early.first()
            && now >= at
        {
            self.closed_early.remove(0);
            self.handle_disconnected(process)?;
        }
        if self.linger_until.is_some_and(|until| now >= until) {
            if self.outputs.close_held(false) > 0 {
                self.outputs.say(report::output_left_open(LINGER.as_secs()));
            }
            // Pipes that are open now wait for a slow reader of the launcher's output, which may hide such
            // a process.
            self.linger_until = self.outputs.is_open().then(|| now + LINGER);
        }
        self.check_delivery(now);
        if self.sweep_at.is_some_and(|at| now >= at) {
            self.sweep(now);
        }
        self.reap(now);
        self.check_kill_deadlines(now);
        self.check_overdue(now);
        self.check_watch(now)
    }

    /// Kills all running processes at once.
    pub(super) fn kill_everybody(&mut self) {
        if let Some(step) = self.shutdown.kill(Instant::now()) {
            self.handle_shutdown_step(step);
        }
    }

    /// Handles a process that closed its connection some time ago and still runs.
    fn handle_disconnected(&mut self, number: u32) -> io::Result<()> {
        // Its exit may be ready but not reported yet.
        self.handle_exit(number)?;
        let ProcessEntry { job, rank, process, .. } = &self.processes[index(number)];
        let (job, rank) = (*job, *rank);
        let Some(process) = process else { return Ok(()) };
        if !process.is_ours() {
            // The launcher serves a singleton only as long as its connection is open.
            return self.note_end(number, ProcessEnd::Unseen);
        }
        match self.service.phase(job, rank) {
            PmiPhase::Open => self.fail(job, Failure::Disconnected { rank }),
            // It may continue without PMI; only ranks that wait for it are affected.
            PmiPhase::Silent | PmiPhase::Finalized => self.service.set_gone(job, rank),
        }
        Ok(())
    }

    fn step_down(&mut self) {
        if let Some(step) = self.shutdown.ask(Instant::now()) {
            self.handle_shutdown_step(step);
        }
    }

    fn handle_shutdown_step(&mut self, step: ShutdownStep) {
        match step {
            ShutdownStep::Ask => {
                self.signal_running(Signal::TERM);
                self.signal_running(Signal::CONT);
            }
            ShutdownStep::Kill => {
                self.signal_running(Signal::KILL);
                if self.sweep_at.is_some() {
                    self.signal_orphans(Signal::KILL);
                }
            }
            ShutdownStep::GiveUp => {
                if self.running_count > 0 {
                    self.outputs.say(report::given_up(self.running_count));
                }
                if self.running_count > 0 || self.sweep_at.is_some() {
                    // These processes hold their pipes. Pipes of other ranks may only wait for a slow
                    // reader.
                    self.outputs.close_held(true);
                }
                self.running_count = 0;
                self.sweep_at = None;
            }
        }
    }

    /// Forwards a signal that does not request the end. Ranks with a listener get a notice instead of
    /// SIGUSR2.
    fn pass_on(&mut self, arrived: Arrived) {
        let told = match arrived.signal == Signal::USR2 {
            true => self.notify(Notice::Checkpoint),
            false => Vec::new(),
        };
        self.signal_but(arrived, |one| told.contains(&(one.job, one.rank)));
    }

    /// Forwards a signal that requests the end. A stopped process handles it only after SIGCONT.
    fn signal_all(&self, arrived: Arrived) {
        self.signal_but(arrived, |_| false);
        self.signal_running(Signal::CONT);
    }

    /// Forwards a signal to all running processes but those left out. A signal typed at the terminal
    /// reaches the launcher's process group by itself, and must arrive only once; it is also meant for
    /// descendants of ranks.
    fn signal_but(&self, arrived: Arrived, leave_out: impl Fn(&ProcessEntry) -> bool) {
        for started in self.processes.iter().filter(|started| !leave_out(started)) {
            match &started.process {
                Some(process) if !arrived.is_for_group => process.signal(arrived.signal),
                Some(process) if !has_it(arrived, process) => process.signal_group(arrived.signal),
                _ => {}
            }
        }
    }

    /// Stops the ranks, and the launcher with them until it is continued, as a shell expects of a job. Adds
    /// signals that arrive meanwhile to `later`.
    fn stand_still(&mut self, arrived: Arrived, later: &mut VecDeque<Arrived>) -> io::Result<()> {
        let processes = self.processes.iter().filter_map(|one| one.process.as_ref());
        let ranks: Vec<&Process> = processes.filter(|process| process.is_ours()).collect();
        let others = ranks.iter().filter(|process| !has_it(arrived, process));
        process::stop(&others.copied().collect::<Vec<_>>());
        // Stopping the launcher now would discard a pending SIGCONT, and no other would come.
        later.extend(self.signals.arrived());
        if !later.iter().any(|one| one.signal == Signal::CONT) {
            signal::stand_still()?;
        }
        ranks.iter().for_each(|one| one.signal_group(Signal::CONT));
        Ok(())
    }

    fn signal_running(&self, signal: Signal) {
        for process in self.processes.iter().filter_map(|one| one.process.as_ref()) {
            process.signal(signal);
        }
    }

    /// Starts the last phase once no rank is left: output may still be in transit, and a job terminated by
    /// force may have left processes behind.
    pub(super) fn check_all_ended(&mut self) {
        if self.running_count > 0
            || self.starts_more()
            || self.awaits_peers()
            || self.all_have_ended
        {
            return;
        }
        self.all_have_ended = true;
        self.say_singletons();
        let now = Instant::now();
        if self.failure.is_some() && self.any_orphan_left() {
            // They were asked only now, so they get the same grace period as ranks, counted from the
            // failure.
            let _ = self.shutdown.ask(now);
            self.signal_orphans(Signal::TERM);
            self.sweep_at = Some(now + SWEEP);
        } else {
            self.linger_until = Some(now + LINGER);
        }
    }

    /// Checks whether processes that ranks left behind have exited.
    fn sweep(&mut self, now: Instant) {
        if !self.any_orphan_left() {
            self.sweep_at = None;
            self.linger_until = Some(now + LINGER);
            return;
        }
        self.sweep_at = Some(now + SWEEP);
        if self.shutdown.is_killing() {
            // Processes that exited may have left others.
            self.signal_orphans(Signal::KILL);
        }
    }
}

/// True if a process received a signal by itself, as all processes of the launcher's process group do.
fn has_it(arrived: Arrived, process: &Process) -> bool {
    arrived.is_for_group && process.is_in_our_group()
}

/// Exit of a process as a trace event.
fn ended(ending: ProcessEnd) -> Option<What> {
    match ending {
        ProcessEnd::Exited(code) => Some(What::Exited { code: code.into() }),
        ProcessEnd::Killed { signal, .. } => Some(What::Killed { signal }),
        ProcessEnd::OutOfMemory => Some(What::Killed { signal: Signal::KILL.as_raw() }),
        ProcessEnd::Unseen => None,
    }
}

/// Longest interval between two interrupts that kill, as [`report::AGAIN_SECS`] documents it.
const AGAIN: Duration = Duration::from_secs(report::AGAIN_SECS);

/// Signals within this time count as one act: `timeout` signals its child, and then the child's process
/// group. A person takes longer to press a key again.
const ONE_ACT: Duration = Duration::from_millis(100);

/// Longest wait for output once no rank is left to write any: then a process that a rank left behind
/// holds the pipe.
const LINGER: Duration = Duration::from_secs(2);

/// Interval of checks for those processes; their exit causes no event.
const SWEEP: Duration = Duration::from_millis(20);

/// Number of ended spawned jobs that stay known. A program may spawn one after the other for days.
const ENDED_KEPT: usize = 16;
