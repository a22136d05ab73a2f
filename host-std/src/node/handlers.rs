//! Reactions of the event loop to events of its parts: what concerns more than one of them.

use super::processes::{ProcessEntry, ProcessEvent};
use super::spawn::{Requester, StartEvent};
use super::{Node, exchange, self_abort, spawned_jobs};
use crate::launch::cleanup::control_action::ControlAction;
use crate::launch::plan::spawn_request::SpawnRequest;
use crate::launch::signal::{self, Arrived, Meaning, OnSignal};
use crate::launch::start::process::ProcessEnd;
use crate::link::message::ToRun;
use crate::listeners::ListenerEvent;
use crate::listeners::dial_in::DialIn;
use crate::operation::{OperationRequest, StopMessage};
use crate::report;
use crate::requests::clients;
use crate::run_report::RankEnd;
use crate::server::dial_in_peer::answer_credential;
use crate::server::event::ServerEvent;
use crate::termination::Interrupt;
use crate::trace::TraceSource;
use crate::verdict::{Failure, PmiPhase, judge};
use crate::web::Rejected;
use pmi_core::command::Notice;
use pmi_core::error::Code;
use pmi_core::ids::JobId;
use pmi_host_base::ranges::Ranks;
use pmi_host_os::admission::munge::{CredentialVerdict, MungeVerifier};
use pmi_host_os::clock;
use pmi_trace::Content;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::io;
use std::time::Instant;

/// Events of the server.
impl Node {
    /// Executes server events; true if there were any.
    pub(super) fn handle_server_events(&mut self) -> bool {
        let mut is_any = false;
        while let Some(event) = self.service.poll_event() {
            is_any = true;
            self.handle_server_event(event);
        }
        is_any
    }

    fn handle_server_event(&mut self, event: ServerEvent) {
        match event {
            // Only an abort can come from a job that has disconnected itself and is sound otherwise.
            ServerEvent::Failed { job, failure: failure @ Failure::Abort { .. } }
                if self.is_disconnected(job) =>
            {
                self.fail_apart(job, &failure);
            }
            ServerEvent::Failed { job, failure } => self.fail(job, failure),
            ServerEvent::AbortedSelf { job, failure } => self_abort::handle(self, job, failure),
            ServerEvent::Closed { job, rank } => self.handle_closed(job, rank),
            ServerEvent::Spawn { job, rank, request, asked } => {
                self.handle_spawn(Requester { job, rank, asked }, request);
            }
            ServerEvent::PmixRefused { from, socket, why } => {
                self.io.report_rejected(from, Some(socket), &why);
            }
            ServerEvent::PmixDialled { session, job, rank } => {
                self.pmix_requests().authenticate(session, (job, rank));
            }
            ServerEvent::CredentialGiven { request, credential, nonce } => {
                let munge = self.listeners.dial_in.as_mut().and_then(|at| at.munge.as_mut());
                if let Some(munge) = munge {
                    munge.start(request, credential, nonce);
                }
            }
            ServerEvent::ToolDialled { session } => self.pmix_requests().refuse_tool(session),
            ServerEvent::PmixHostRequest { session, exchange } => {
                clients::serve(self, (session, exchange));
            }
            ServerEvent::PmixStopped { job, rank, breakpoint } => {
                let message = StopMessage { job: job.0, rank, breakpoint };
                exchange::send_operation(self, Ok(OperationRequest::Stopped(message)));
            }
            ServerEvent::PmixSilent { job, rank, code, after } => {
                self.pmix_requests().handle_silent((job, rank), code, after);
            }
            ServerEvent::FenceHandedUp { job, generation } => {
                exchange::hand_up_fence(self, job, generation)
            }
            ServerEvent::Operation(request) => exchange::send_operation(self, request),
            ServerEvent::PutTwice { job, key, ranks } => {
                // The later value holds, as with every known server; its reader may want the other.
                if let Some(plan) = self.jobs.first_put_twice(job) {
                    self.io.report(report::put_twice(plan, &key, ranks));
                }
            }
            ServerEvent::OtherLauncher { job, rank, nspace } => {
                if let Some(plan) = self.jobs.plan(job) {
                    self.io.report(report::other_launcher(plan, rank, &nspace));
                }
            }
            ServerEvent::MappingOmitted { job, len_bytes } => {
                if let Some(plan) = self.jobs.plan(job) {
                    self.io.report(report::mapping_omitted(plan, len_bytes));
                }
            }
            ServerEvent::Joined => self.listeners.dial_in.iter_mut().for_each(DialIn::note_joined),
            ServerEvent::Refused { from, why } => self.io.report_rejected(from, None, &why),
            ServerEvent::Signal { job, rank, name } => {
                // The rank has requested the signal, to follow a notice.
                let number = self.jobs.process_of(job, rank);
                let process = number.and_then(|number| self.processes.running(number));
                if let Some((process, signal)) = process.zip(signal::named(&name)) {
                    process.signal(signal);
                }
            }
        }
    }

    /// Admits or rejects a peer whose credential was verified.
    pub(super) fn handle_verdict(&mut self) {
        let munge = self.listeners.dial_in.as_mut().and_then(|dial_in| dial_in.munge.as_mut());
        let Some(CredentialVerdict { request, result }) =
            munge.and_then(MungeVerifier::next_verdict)
        else {
            return;
        };
        answer_credential(&mut self.service, request, result);
    }

    /// Handles the end of a connection. Usually its process is exiting too, and the exit status tells more.
    fn handle_closed(&mut self, job: JobId, rank: u32) {
        let number = self.jobs.process_of(job, rank);
        match number.filter(|number| self.processes.running(*number).is_some()) {
            Some(number) => self.processes.note_closed(number, clock::now()),
            None if number.is_none() && self.service.from(job, rank).is_some() => {
                self.handle_peer_closed(job, rank);
            }
            None => self.service.set_gone(job, rank),
        }
    }

    /// Handles the end of a rank's connection to the listener, closed by either side.
    fn handle_peer_closed(&mut self, job: JobId, rank: u32) {
        let Some(from) = self.service.from(job, rank) else { return };
        let dial_in = self.listeners.dial_in.as_mut();
        match self.service.phase(job, rank) {
            PmiPhase::Open => {
                self.service.set_gone(job, rank);
                self.fail(job, Failure::Vanished { rank, from });
            }
            // The rank has not started the protocol, so another connection may take its place.
            PmiPhase::Silent => {
                self.service.set_absent(job, rank);
                dial_in.into_iter().for_each(|dial_in| dial_in.note_absent());
            }
            PmiPhase::Finalized => {
                self.service.set_gone(job, rank);
                dial_in.into_iter().for_each(|dial_in| dial_in.note_left());
                self.check_all_ended();
            }
        }
    }

    pub(super) fn handle_spawn(&mut self, who: Requester, request: SpawnRequest) {
        if self.termination.has_failed() {
            return self.service.answer_spawn(who.asked, Err(Code::FAIL), &[]);
        }
        spawned_jobs::forward(self, who, request);
    }

    /// Handles the start of a rank.
    pub(super) fn handle_start(&mut self, event: StartEvent) {
        match event {
            StartEvent::Started => {}
            StartEvent::Failed { job, failure } if job != self.jobs.first() => {
                spawned_jobs::report_not_started(self, job, failure);
            }
            StartEvent::Failed { job, failure } => self.fail(job, failure),
        }
    }
}

/// Events of listeners.
impl Node {
    /// Handles a connection that was accepted.
    pub(super) fn handle_connection(&mut self, event: ListenerEvent) -> io::Result<()> {
        match event {
            ListenerEvent::Peer(peer) => {
                let most = self.listeners.unauthenticated_max(self.processes.running_count());
                self.service.add_peer(self.jobs.first(), peer, most, &self.poller)
            }
            ListenerEvent::PmixPeer { link, from, socket } => {
                let most = self.pmix_requests().unauthenticated_max();
                self.service.add_pmix_peer((link, from), socket, most, &self.poller)
            }
            ListenerEvent::Rejected(Rejected { from, socket, why }, _link) => {
                self.io.report_rejected(from, socket, &why);
                Ok(())
            }
            ListenerEvent::Gone => Ok(()),
        }
    }

    /// Reports which expected ranks are connected, unless all are.
    pub(super) fn report_attendance(&mut self) {
        let first = self.jobs.first();
        let dial_in = self.listeners.dial_in.as_ref().zip(self.jobs.plan(first));
        let from = |rank| self.service.from(first, rank);
        if let Some(table) = dial_in.and_then(|(dial_in, plan)| dial_in.attendance(plan, from)) {
            self.io.report(table);
        }
    }
}

/// Exits of ranks, and failures.
impl Node {
    /// Handles the exit of a process, if it has exited.
    pub(super) fn handle_exit(&mut self, number: u32) -> io::Result<()> {
        match self.processes.poll_exit(number, &self.poller)? {
            Some(end) => self.handle_end(number, end),
            None => Ok(()),
        }
    }

    /// Evaluates the exit of a process, and executes the consequences.
    pub(super) fn handle_end(&mut self, number: u32, end: ProcessEnd) -> io::Result<()> {
        let Some((job, rank)) = self.processes.note_exit(number) else { return Ok(()) };
        let of_first = (job == self.jobs.first()).then_some(rank);
        if self.io.end_input(number, of_first, &self.poller)? {
            exchange::send_outputs(self);
        }

        // Its last messages may still be in transit: an abort, or the finalize that makes its exit a
        // success.
        self.service.drain(job, rank, &self.poller)?;
        self.handle_server_events();
        let end = self.processes.cause(end);
        let phase = self.service.phase(job, rank);
        self.note_end(number, (job, rank), end);
        self.processes.clean_up_after(job, rank);
        if self.listeners.has_pmix() {
            // Before any consequence of the exit.
            self.service.pmix_notifier().notify_exit(job, rank, end, phase);
        }
        let aborted = self.processes.take_abort((job, rank));
        let failure = aborted.or_else(|| judge(rank, end, phase));
        match failure.filter(|_| self.jobs.is_wanted(job)) {
            Some(failure) if self.tolerate(job, rank, &failure) => self.io.outputs.drain(number),
            Some(failure) if self.is_apart(job)? => {
                self.io.outputs.drain(number);
                self.service.set_gone(job, rank);
                self.fail_apart(job, &failure);
            }
            Some(failure) => {
                self.io.outputs.drain(number);
                // Ranks that wait for it or registered for its exit are notified before any signal.
                self.service.set_gone(job, rank);
                self.service.flush(&self.poller)?;
                self.fail(job, failure);
                // Started by `fail` already, except after an interrupt: the other ranks then get the
                // usual grace period from here.
                self.processes.terminate(clock::now());
            }
            None if self.service.is_closed(job, rank) => self.service.set_gone(job, rank),
            None => {}
        }
        self.jobs.note_exit(job);
        self.check_all_ended();
        Ok(())
    }

    /// Records the end of a rank, also in the trace, and reports it.
    fn note_end(&mut self, number: u32, (job, rank): (JobId, u32), ending: ProcessEnd) {
        let end = RankEnd {
            at: clock::now(),
            ending,
            phase: self.service.phase(job, rank),
            was_over: self.termination.has_failed(),
            traffic: self.service.traffic(job, rank),
            is_singleton: self.unconnected.is_singleton((job, rank), &self.service),
        };
        self.processes.note_end(number, end);
        exchange::report_end(self, (job, rank), end);
        let ended = match ending {
            ProcessEnd::Exited(code) => Content::Exited { code: code.into() },
            ProcessEnd::Killed { signal, .. } => Content::Killed { signal },
            ProcessEnd::OutOfMemory => Content::Killed { signal: Signal::KILL.as_raw() },
            ProcessEnd::Unseen => return,
        };
        self.service.tracer.event(TraceSource::rank(job.0, rank), ended);
    }

    /// Handles a process that closed its connection some time ago and still runs.
    fn handle_disconnected(&mut self, number: u32) -> io::Result<()> {
        // Its exit may be ready but not reported yet.
        self.handle_exit(number)?;
        let Some(ProcessEntry { job, rank, process, .. }) = self.processes.get(number) else {
            return Ok(());
        };
        let (job, rank) = (*job, *rank);
        let Some(process) = process else { return Ok(()) };
        if !process.is_ours() {
            // The launcher serves a singleton only as long as its connection is open.
            return self.handle_end(number, ProcessEnd::Unseen);
        }
        match self.service.phase(job, rank) {
            PmiPhase::Open => self.fail(job, Failure::Disconnected { rank }),
            // It may continue without PMI; only ranks that wait for it are affected.
            PmiPhase::Silent | PmiPhase::Finalized => self.service.set_gone(job, rank),
        }
        Ok(())
    }

    /// Records a failure in `job`: the first one of all jobs decides the exit code and is reported.
    pub(super) fn fail(&mut self, job: JobId, failure: Failure) {
        if self.termination.has_failed() || !self.jobs.is_wanted(job) {
            return;
        }
        let is_interrupted = matches!(failure, Failure::Interrupted { .. });
        // The report follows the last output of the rank.
        exchange::send_outputs(self);
        self.uplink.report_failure(job.0, &failure);
        self.io.outputs.expect_no_more(None);
        self.report_attendance();
        let code = i32::from(failure.exit_code());
        self.termination.set_failure(failure);
        // Ranks with a listener may have something to save before the signal comes.
        self.notify(Notice::Abort(code));
        if !is_interrupted {
            self.processes.terminate(clock::now());
        }
        self.check_all_ended();
    }

    /// Lets the other ranks continue after a failure of `rank` if the user wants that and the failure allows
    /// it. Returns true if they continue; those that are being started are counted with them.
    pub(super) fn tolerate(&mut self, job: JobId, rank: u32, failure: &Failure) -> bool {
        let is_tolerated = self.on_exit_error.continues() && failure.concerns_one_rank();
        if !is_tolerated || self.termination.has_failed() {
            return false;
        }
        exchange::report_tolerated(self, job, failure);
        self.service.set_gone(job, rank);
        true
    }

    /// True if a failure in a job concerns no other one. That of the first job concerns all, since the user
    /// waits for it, and so does that of a job without a spawner.
    fn is_apart(&mut self, job: JobId) -> io::Result<bool> {
        let spawned = self.jobs.get(job).filter(|state| state.plan.spawner.is_some());
        let Some(spawned) = spawned.filter(|_| job != self.jobs.first()) else { return Ok(false) };
        if self.termination.has_failed() {
            return Ok(false);
        }
        let ranks = Vec::from_iter(spawned.started_ranks());
        let is_apart = self.service.is_apart(job, &ranks, &self.poller)?;
        self.handle_server_events();
        Ok(is_apart)
    }

    /// True if a spawned job has ended its connection with all others.
    fn is_disconnected(&self, job: JobId) -> bool {
        let is_spawned = self.jobs.plan(job).is_some_and(|plan| plan.spawner.is_some());
        let is_wanted = self.jobs.is_wanted(job) && !self.termination.has_failed();
        is_spawned && is_wanted && job != self.jobs.first() && !self.service.is_connected(job)
    }

    /// Records a failure that concerns no other job: the ranks of its own are terminated. Its code is that of
    /// the run unless a later failure ends that.
    fn fail_apart(&mut self, job: JobId, failure: &Failure) {
        // The head terminates the ranks of all nodes.
        exchange::report_tolerated(self, job, failure);
        self.jobs.set_unwanted(job);
        if let Some(state) = self.jobs.get(job) {
            let all = state.started_ranks().filter_map(|rank| state.process(rank));
            self.processes.act_on(all, ControlAction::Terminate);
        }
    }

    /// Publishes the failed ranks of a job where MPI libraries look for them, and signals the processes
    /// that wait for such news. Only processes that catch SIGUSR1 are signalled, since it would kill
    /// others.
    pub(super) fn publish_failed_ranks(&mut self, job: JobId, failed: &[u32]) {
        self.service.publish_failed(job, failed);
        let of_job = self.processes.iter().filter(|entry| entry.job == job);
        let running = of_job.filter_map(|entry| entry.process.as_ref());
        let catching = running.filter(|process| process.catches(Signal::USR1));
        catching.for_each(|process| process.signal(Signal::USR1));
    }

    /// Starts the last phase once no rank is left: output may still be in transit, and a job terminated by
    /// force may have left processes behind. On a node the run may also fail later, elsewhere; these
    /// processes end then.
    pub(super) fn check_all_ended(&mut self) {
        if self.processes.running_count() > 0 || self.starts_more() || self.awaits_peers() {
            return;
        }
        let is_first = !std::mem::replace(&mut self.termination.have_all_ended, true);
        let has_failed = self.termination.has_failed();
        if is_first && !has_failed {
            let reports = self.unconnected.reports(&self.jobs, &self.service);
            reports.into_iter().for_each(|text| self.io.report(text));
            self.report_closed_descriptors();
        }
        let is_sweep_due = has_failed && !std::mem::replace(&mut self.termination.has_swept, true);
        if is_sweep_due && self.processes.begin_sweep(clock::now()) {
            return;
        }
        if is_first {
            self.io.begin_linger(clock::now());
        }
    }

    /// Reports ranks that have ended well without PMI, although a program that they started looked for it in
    /// vain.
    fn report_closed_descriptors(&mut self) {
        let mut found: BTreeMap<JobId, Ranks> = BTreeMap::new();
        for (number, entry) in (0..).zip(self.processes.iter()) {
            let Some(plan) = self.jobs.plan(entry.job) else { continue };
            let is_silent = self.service.phase(entry.job, entry.rank) == PmiPhase::Silent;
            if !is_silent || !report::may_close_descriptor(plan, entry.rank) {
                continue;
            }
            // Its last output may not be read yet.
            self.io.outputs.read_all(number);
            if self.io.outputs.has_found_descriptor_closed(number) {
                found.entry(entry.job).or_default().push(entry.rank);
            }
        }
        for (job, ranks) in found {
            if let Some(plan) = self.jobs.plan(job) {
                self.io.report(report::closed_descriptor(plan, &ranks));
            }
        }
    }
}

/// Signals to the process of a node server.
impl OnSignal for Node {
    fn handle_signal(&mut self, arrived: Arrived, meaning: Meaning) -> io::Result<()> {
        let now = clock::now();
        match meaning {
            Meaning::End => self.handle_interrupt(now, arrived),
            Meaning::Report => self.uplink.send(ToRun::StateWanted),
            Meaning::Forward => self.forward(arrived),
            // As a shell expects of a job.
            Meaning::Stop => self.processes.stop(arrived),
            Meaning::Continue => self.status.excuse_stall(now),
            Meaning::ChildEnded => self.processes.note_child_end(now),
            Meaning::Crash | Meaning::Resized => {}
        }
        Ok(())
    }

    fn handle_continued(&mut self) -> io::Result<()> {
        self.processes.resume();
        Ok(())
    }
}

/// Effects of signals, deadlines of processes, and reports of the state.
impl Node {
    /// Forwards a signal that requests the end. A second one within a short time kills.
    fn handle_interrupt(&mut self, now: Instant, arrived: Arrived) {
        let interrupt = self.termination.interrupt(now, arrived);
        match interrupt {
            Interrupt::Repeated => return,
            Interrupt::Forward => return self.processes.forward_end(arrived),
            Interrupt::End | Interrupt::Kill => {}
        }
        let signal = arrived.signal.as_raw();
        self.fail(self.jobs.first(), Failure::Interrupted { signal });
        if interrupt == Interrupt::Kill || self.processes.is_sweeping() {
            return self.processes.kill(clock::now());
        }
        self.processes.forward_end(arrived);
        self.processes.terminate_deaf(now, arrived.signal);
    }

    /// Forwards a signal that does not request the end. Ranks with a listener get a notice instead of
    /// SIGUSR2.
    pub(super) fn forward(&mut self, arrived: Arrived) {
        let notified = match arrived.signal == Signal::USR2 {
            true => self.notify(Notice::Checkpoint),
            false => Vec::new(),
        };
        self.processes.forward(arrived, |one| notified.contains(&(one.job, one.rank)));
    }

    /// Sends a notice to ranks that listen on a second connection, and flushes it before anything else
    /// affects them. Returns the notified ranks.
    pub(super) fn notify(&mut self, notice: Notice) -> Vec<(JobId, u32)> {
        let notified = self.service.notify_all(notice);
        if !notified.is_empty() && self.service.flush(&self.poller).is_ok() {
            self.handle_server_events();
        }
        notified
    }

    /// Handles a deadline of processes.
    pub(super) fn handle_process_event(&mut self, event: ProcessEvent) -> io::Result<()> {
        match event {
            ProcessEvent::GivenUp { running_count, is_any_left } => {
                if running_count > 0 {
                    self.io.report(report::given_up(running_count));
                }
                if is_any_left {
                    // These processes hold their pipes. Pipes of other ranks may only wait for a slow
                    // reader.
                    self.io.outputs.close_held(true);
                }
            }
            ProcessEvent::Disconnected(number) => self.handle_disconnected(number)?,
            ProcessEvent::Swept => self.io.begin_linger(clock::now()),
        }
        Ok(())
    }
}
