//! Reactions of the head to messages of nodes, to lost nodes, signals and deadlines.

use super::collection::Purpose;
use super::ending::{EndingEvent, PendingReport};
use super::{
    Run, RunEvent, changes, debuggers, failures, growth, operations, output, pauses, pushes,
    reports, spawn, terminal, tools, trace,
};
use crate::launch::signal::{Arrived, Meaning};
use crate::launch::start::process::ProcessEnd;
use crate::link::message::{RankEnded, RankGone, SignalMessage, ToNode, ToRun};
use crate::link::{NodeEvent, ToOwnNode};
use crate::numbers::index;
use crate::placement::PlacedHosts;
use crate::report;
use crate::run_report::RankEnd;
use crate::stdio::StreamOwner;
use crate::termination::Interrupt;
use crate::trace::monotonic_ns;
use crate::verdict::{Failure, NodeLoss, PmiPhase};
use pmi_host_os::clock;
use pmi_host_os::stream::Stream;
use pmi_nodes::failed_host::{
    FailedHost, HostsLeftOut, LateHost, failed_hosts, hosts_given_back, hosts_left_out,
};
use pmi_nodes::network::NetworkEvent;
use pmi_nodes::start::StartEvent;
use pmi_tree::{Destination, EdgeLoss, NodeId, TreeEvent};
use rustix::process::Signal;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Events of the nodes.
impl Run {
    /// Handles all events of node servers and of the tree; true if there were any.
    pub(super) fn handle_events(&mut self) -> io::Result<bool> {
        let was_over = self.ending.is_over();
        let was_leaving = self.ending.is_leaving();
        let mut is_any = false;
        // Output that arrives while its readers are slow waits in the tree, which stops its senders.
        self.link.pause_output(self.io.outputs.is_any_full());
        self.link.tick(clock::now(), &self.poller)?;
        while let Some(event) = self.link.poll_event() {
            is_any = true;
            self.apply(RunEvent::Node(event))?;
        }
        let nodes = &self.nodes;
        let has_arrived = |report: &PendingReport| {
            nodes.get(report.node).is_none_or(|node| node.has_sent(report.outputs))
        };
        if let Some(text) = self.ending.take_report(has_arrived) {
            trace::report(self, text);
            is_any = true;
        }
        self.lose_paused(clock::now())?;
        self.check_all_ended();
        is_any |= (was_over, was_leaving) != (self.ending.is_over(), self.ending.is_leaving());
        Ok(is_any)
    }

    pub(super) fn handle_node_event(&mut self, event: NodeEvent) -> io::Result<()> {
        let event = match event {
            NodeEvent::Message { from, message } => {
                return self.handle_message(from, message.map(|message| *message));
            }
            NodeEvent::Servers(event) => event,
        };
        match event {
            StartEvent::Complete => self.start_job(),
            // The tree keeps messages for nodes that join later.
            StartEvent::Network(NetworkEvent::Attached { .. })
                if self.ending.hosts.starts_early =>
            {
                self.start_job();
            }
            StartEvent::Failed(failed) => self.fail_start(&failed),
            StartEvent::HostsJoined => growth::handle_joined(self)?,
            StartEvent::HostsFailed(failed) => growth::handle_failed(self, &failed),
            StartEvent::LateJoined { candidate } => {
                growth::handle_late_joined(self, candidate)?;
            }
            StartEvent::LateFailed(failed) => growth::handle_late_failed(self, &failed),
            // It has its place, and is not in the tree.
            StartEvent::Network(NetworkEvent::Left { node, why })
                if self.nodes.get(NodeId(node)).is_some_and(|node| node.is_new) =>
            {
                growth::drop_node(self, NodeId(node), &format!("its node server {why}"));
            }
            StartEvent::Report(report) | StartEvent::Network(NetworkEvent::Rejected { report }) => {
                trace::report(self, report)
            }
            StartEvent::Network(NetworkEvent::Tree(TreeEvent::NodeLost { node, loss, .. })) => {
                self.handle_loss(node, reason_of(loss))?;
            }
            StartEvent::Network(NetworkEvent::Tree(TreeEvent::Silent { peer, silence })) => {
                pauses::note(self, peer, Some(silence));
            }
            StartEvent::Network(NetworkEvent::Tree(TreeEvent::Continued { peer })) => {
                pauses::note(self, peer, None);
            }
            StartEvent::Network(_) => {}
        }
        Ok(())
    }

    /// Sends the job to all nodes, once they are in the tree.
    fn start_job(&mut self) {
        if self.ending.termination.has_failed() {
            return;
        }
        if let Some(job) = self.jobs.take_unsent() {
            let started = self.plan(0).started();
            if self.ending.hosts.min_nodes.is_some()
                && let Err(error) = self.io.outputs.prepare(0, started)
            {
                return self.fail(Failure::Launcher { what: error.to_string() }, None);
            }
            let nodes: Vec<u32> = self.nodes.iter().map(|(node, _)| node.0).collect();
            spawn::send_programs(self, &nodes);
            self.send_all(ToNode::Job(Box::new(job)));
            if self.plan(0).environment.report && self.jobs.names_hosts() {
                reports::request_reports(self, Purpose::Environment);
            }
            growth::await_late(self);
        }
    }

    /// Ends the run before any rank was started, or before those of these hosts were.
    fn fail_start(&mut self, failed: &[FailedHost]) {
        let all = self.nodes.iter().count();
        let is_enough = |least| index(least) <= all.saturating_sub(failed.len());
        let left_out = match () {
            () if self.ending.termination.has_failed() => None,
            () if self.ending.hosts.min_nodes.is_some_and(is_enough) => {
                let report = hosts_left_out(failed, all, self.link.start_timeout());
                Some((report, self.late_hosts(failed)))
            }
            () if failed.len() < all && self.are_given_back(failed) => {
                Some((hosts_given_back(failed, all), Vec::new()))
            }
            () => None,
        };
        if let Some((report, late)) = left_out {
            self.io.report(report);
            let names = failed.iter().map(|host| host.name.clone()).collect();
            self.ending.hosts.left_out = HostsLeftOut { names, late };
            return;
        }
        if !self.jobs.is_unsent() {
            // Nodes that join from now on are rejected.
            for node in self.link.absent() {
                self.nodes.note_loss(NodeId(node));
                self.input.remove(NodeId(node));
                self.link.exclude(NodeId(node));
            }
        }
        let what = failed_hosts(failed, all);
        self.fail(Failure::Launcher { what }, None);
    }

    /// True if the batch system does not list any of these hosts any more, as after a resize of its job,
    /// which the variables of a shell do not tell.
    fn are_given_back(&self, failed: &[FailedHost]) -> bool {
        let present = self.ending.hosts.find_present.and_then(|find| find().ok());
        present.is_some_and(|present| {
            !present.is_empty() && failed.iter().all(|host| !present.contains(&host.name))
        })
    }

    /// These hosts, which join the run when they come. Those whose start is not only slow are tried again.
    fn late_hosts(&self, failed: &[FailedHost]) -> Vec<LateHost> {
        let PlacedHosts { hosts, slots, .. } = &**self.jobs.placed();
        let late = failed.iter().map(|FailedHost { name, is_slow, .. }| {
            let slots = hosts.iter().position(|host| host == name).and_then(|at| slots.get(at));
            let slots = slots.copied().unwrap_or(1);
            let mut host = LateHost::new(name.clone(), slots, self.reports.began());
            if !is_slow {
                host.fail(clock::now(), self.link.start_timeout());
            }
            host
        });
        late.collect()
    }

    fn handle_message(&mut self, from: NodeId, message: Option<ToRun>) -> io::Result<()> {
        let Some(node) = self.nodes.get_mut(from) else { return Ok(()) };
        node.heard_at = clock::now();
        match message {
            Some(ToRun::Started { job, pids }) => self.handle_starts(from, job, &pids)?,
            Some(ToRun::Ended(ended)) => self.handle_end(from, ended)?,
            Some(ToRun::Failed {
                failure: Failure::Launcher { what } | Failure::Impossible { what },
                ..
            }) if node.is_new => growth::drop_node(self, from, &what),
            Some(ToRun::Failed { job, failure, outputs }) => {
                self.handle_failure(from, job, failure, outputs);
            }
            Some(ToRun::Output(records)) => {
                node.note_output();
                output::handle(self, Some(from), &records)?;
            }
            // In a run without merging no node speaks for others.
            Some(ToRun::Merged { .. }) if !self.io.outputs.is_gathering() => {
                self.fail_message(from);
            }
            Some(ToRun::Merged { counts, records }) => {
                output::handle(self, None, &records)?;
                for (node, count) in counts {
                    let node = self.nodes.get_mut(NodeId(node));
                    node.into_iter().for_each(|node| node.note_batches(count));
                }
            }
            Some(ToRun::InputWanted) => {
                self.input.want(from);
                self.serve_input()?;
            }
            Some(ToRun::InputClosed) => {
                self.input.remove(from);
                self.serve_input()?;
            }
            Some(ToRun::Tolerated(job, failure)) => {
                failures::handle_tolerated(self, job, &failure);
            }
            Some(ToRun::FenceEntered(fence)) => failures::handle_fence(self, fence),
            Some(ToRun::ChildSilent { node, silence }) => {
                pauses::note(self, NodeId(node), silence);
            }
            Some(ToRun::Standstill) => reports::handle_standstill(self),
            Some(ToRun::StateWanted) => reports::request_reports(self, Purpose::All),
            Some(ToRun::Terminal(rank)) => {
                let owner = rank.map(|rank| StreamOwner { group: 0, rank });
                self.io.outputs.set_raw(owner);
            }
            Some(ToRun::Report(report)) => reports::handle_report(self, from, report)?,
            Some(ToRun::Quiet { outputs, jobs }) => {
                // Ranks of a job that it did not know then may follow.
                if jobs == self.nodes.job_count()
                    && let Some(node) = self.nodes.get_mut(from)
                {
                    node.set_quiet(outputs);
                }
            }
            Some(ToRun::Spawn(request)) => spawn::handle_request(self, from, *request),
            Some(ToRun::NotStarted { job, failure }) => {
                spawn::handle_not_started(self, job, &failure);
            }
            Some(ToRun::Operation(request)) => operations::handle_request(self, from, request),
            Some(ToRun::EarlierSent { node }) => growth::handle_sent(self, from, node),
            Some(ToRun::Clock { sent_ns }) => {
                let head_ns = monotonic_ns();
                self.send(Destination::Node(from), ToNode::Clock { sent_ns, head_ns });
            }
            Some(ToRun::Trace { zero_ns, records }) => {
                node.note_output();
                let trace = self.reports.trace.as_mut();
                if !trace.is_none_or(|trace| trace.add_records(from, zero_ns, &records)) {
                    self.fail_message(from);
                }
            }
            Some(ToRun::Observe { page }) if trace::observe(self, from, page) => {}
            Some(ToRun::NotObserved) if trace::end_observation(self, from) => {}
            Some(ToRun::Observe { .. } | ToRun::NotObserved) | None => {
                self.fail_message(from);
            }
        }
        Ok(())
    }

    fn fail_message(&mut self, from: NodeId) {
        let host = self.nodes.get(from).map_or("", |node| &node.host);
        let what = report::invalid_message(&format!("on {host}"));
        self.fail(Failure::Launcher { what }, None);
    }

    fn handle_starts(&mut self, from: NodeId, job: u32, pids: &[i32]) -> io::Result<()> {
        for pid in pids {
            let Some((number, rank)) = self.nodes.note_start(from, job, *pid) else {
                return Ok(());
            };
            self.nodes.get_mut(from).iter_mut().for_each(|node| node.is_new = false);
            let place = (number, StreamOwner { group: job, rank });
            match self.has_terminal((job, rank)) {
                true => {
                    self.io.outputs.add_remote_terminal(place);
                    terminal::follow_changes(self);
                    self.serve_input()?;
                }
                false if job == 0 && self.is_adopting => {}
                false => self.io.outputs.add_remote(place),
            }
            self.summary.enter_start(Rc::clone(self.plan(job)), rank, *pid);
        }
        if job > 0 {
            spawn::check_started(self, job);
            // The processes that they control may have ended meanwhile.
            debuggers::dismiss_daemons(self);
        } else if self.nodes.has_started_all(0) {
            self.summary.note_all_started();
            debuggers::publish(self);
        }
        Ok(())
    }

    fn handle_end(&mut self, from: NodeId, ended: RankEnded) -> io::Result<()> {
        let RankEnded { job, rank, ending, phase, was_over, fence_count, traffic, is_singleton } =
            ended;
        let Some(number) = self.nodes.note_end(from, (job, rank)) else { return Ok(()) };
        let end = RankEnd { at: clock::now(), ending, phase, was_over, traffic, is_singleton };
        self.summary.note_end(number, end);
        if self.has_terminal((job, rank)) {
            // Its last output is meant for a terminal that is still its own.
            self.io.outputs.flush(&mut self.poller)?;
            self.link.tell_own_node(ToOwnNode::TerminalEnded);
        }
        if self.ending.termination.has_failed() && !end.is_good() {
            // After a signal that requested the end, the first rank that follows it ends the others, too.
            self.terminate(None);
        }
        // Ranks of other nodes may wait for it in a fence. At the end of a job all have entered the same
        // number of fences, so one message is enough.
        let gone = RankGone { job, rank, fence: fence_count };
        match self.summary.continues_after_failures() {
            true => failures::handle_end(self, from, job),
            false if self.nodes.is_undone(job) => {}
            false if self.ending.termination.has_failed() || !self.ending.note_gone(gone) => {}
            false => self.send_all(ToNode::RankGone(gone)),
        }
        operations::note_end(self, (job, rank));
        tools::note_end(self, (job, rank), (ending, phase));
        debuggers::dismiss_daemons(self);
        spawn::check_ended(self, job);
        Ok(())
    }

    fn has_terminal(&self, (job, rank): (u32, u32)) -> bool {
        job == 0 && self.pty == Some(rank)
    }
}

/// Failures and the end.
impl Run {
    /// Handles the first failure on a node.
    fn handle_failure(&mut self, from: NodeId, job: u32, failure: Failure, outputs: u64) {
        let host = self.nodes.get(from).map_or("", |node| &node.host);
        let failure = match failure {
            // A signal to the node, not to the head.
            Failure::Interrupted { signal } => {
                let host = host.to_owned();
                return self.handle_agent_interrupt(signal, host, (from, outputs));
            }
            Failure::Launcher { what } => Failure::Launcher { what: format!("{what} (on {host})") },
            failure => failure,
        };
        self.fail_in(job, failure, Some((from, outputs)));
    }

    /// Handles a signal to a node that requests the end: as one to the head, which the others receive as
    /// well. Batch systems signal the node servers of all nodes.
    fn handle_agent_interrupt(&mut self, signal: i32, host: String, after: (NodeId, u64)) {
        if !self.ending.termination.has_failed() {
            self.fail(Failure::AgentInterrupted { host, signal }, Some(after));
            self.send_all(ToNode::ForwardEnd(SignalMessage::alone(signal)));
            self.reports.remind_later();
        }
    }

    /// Handles the loss of a node: its ranks are gone, and no other rank can do without them.
    /// Handles the loss of a node. `why` is the reason, as a part of a sentence.
    fn handle_loss(&mut self, node: NodeId, why: &str) -> io::Result<()> {
        let Some(state) = self.nodes.get(node) else { return Ok(()) };
        let failure = NodeLoss {
            host: state.host.clone(),
            ranks: self.nodes.ranks(node, 0),
            silent_for: clock::since(state.heard_at),
            why: why.to_owned(),
            output: self.link.output_of(node.0).unwrap_or_default(),
        };
        if state.is_new && !self.ending.is_leaving() {
            growth::drop_node(self, node, why);
            return Ok(());
        }
        let has_started = self.nodes.has_started_on(node);
        let lost = self.nodes.note_loss(node);
        // The end of a rank may have arrived, and that of its output not.
        for number in self.nodes.numbers_of_node(node) {
            Stream::BOTH.into_iter().for_each(|stream| self.io.outputs.end_remote(stream, number));
        }
        if self.input.terminal.as_ref().is_some_and(|terminal| terminal.is_on(node)) {
            terminal::end(self)?;
        }
        self.input.remove(node);
        self.reports.remove_node(node);
        self.clients.queries.remove_node(node);
        self.link.exclude(node);
        if self.ending.is_leaving() {
            return Ok(());
        }
        // Other ranks cannot do without one that never was.
        if has_started && failures::tolerate_loss(self, node, (&failure, &lost)) {
            tools::note_loss(self, (&failure.host, node.0.saturating_sub(1)));
            let end = ProcessEnd::Killed { signal: Signal::KILL.as_raw(), dumped: false };
            for rank in lost {
                operations::note_end(self, rank);
                tools::note_end(self, rank, (end, PmiPhase::Open));
            }
            spawn::handle_loss(self, node);
            changes::handle_loss(self, node);
            pushes::handle_loss(self, node);
            growth::handle_loss(self, node);
            debuggers::dismiss_daemons(self);
            let spawned = 1..self.nodes.job_count();
            spawned.for_each(|job| spawn::check_ended(self, job));
            return Ok(());
        }
        self.fail(Failure::NodeLost(failure), None);
        self.terminate(Some(KILL_AFTER_LOSS));
        Ok(())
    }

    /// Records a failure of the run, or of its first job: see [`fail_in`](Self::fail_in).
    pub(super) fn fail(&mut self, failure: Failure, after: Option<(NodeId, u64)>) {
        self.fail_in(0, failure, after);
    }

    /// Records a failure in a job: the first one decides the exit code and is reported, after the output of
    /// `node` up to the message with this number.
    pub(super) fn fail_in(&mut self, job: u32, failure: Failure, after: Option<(NodeId, u64)>) {
        if self.ending.termination.has_failed() {
            return;
        }
        let is_interrupted = failure.is_interrupt();
        if !(failure.is_closed_pipe() && self.io.outputs.has_closed()) {
            let pid = |rank| self.nodes.pid((job, rank));
            let running = self.nodes.running_count();
            let text = report::failure(&failure, self.plan(job), pid, running);
            self.summary.record_report(&text);
            match after {
                Some((node, outputs)) => self.ending.hold_report(text, node, outputs),
                None if matches!(failure, Failure::Interrupted { .. }) => {
                    reports::request_reports(self, Purpose::Interrupt { report: text });
                }
                None => trace::report(self, text),
            }
        }
        self.io.outputs.expect_no_more(None);
        self.ending.termination.set_failure(failure);
        if !is_interrupted {
            self.terminate(None);
        }
    }

    /// Gives up nodes that are paused for too long, and the others once a run that has failed waits for no
    /// further ones: their node servers can pass no signal on. Their ranks end when the guards there notice
    /// that the run is over.
    fn lose_paused(&mut self, now: Instant) -> io::Result<()> {
        for node in self.reports.pauses.over_limit(now) {
            self.handle_loss(node, PAUSED_TOO_LONG)?;
        }
        if !self.ending.termination.has_failed() || self.ending.is_leaving() {
            return Ok(());
        }
        let pauses = &self.reports.pauses;
        if self.nodes.busy().all(|node| pauses.is_reported(node)) {
            let paused: Vec<NodeId> = self.nodes.busy().collect();
            for node in paused {
                self.handle_loss(node, reason_of(EdgeLoss::Silent))?;
            }
        }
        Ok(())
    }

    /// Asks all nodes to terminate their ranks, and has them killed after `grace`, or after that of the
    /// nodes.
    fn terminate(&mut self, grace: Option<Duration>) {
        let code =
            self.ending.termination.failure().map_or(1, |failure| failure.exit_code().into());
        if self.ending.begin_terminating(grace) {
            self.send_all(ToNode::Terminate { code });
        }
    }

    /// Dismisses the nodes once no rank is left and all output has arrived, and ends when they are gone.
    fn check_all_ended(&mut self) {
        // Without a job, no rank was started.
        let is_unstarted = self.jobs.is_unsent() && self.ending.termination.has_failed();
        if (is_unstarted || self.nodes.are_quiet()) && self.ending.begin_leaving() {
            if !self.ending.termination.has_failed() && self.summary.are_all_singletons() {
                self.ending.termination.set_failure(Failure::Singletons);
            }
            trace::end_records(self);
            // Only its poller can fail, and the run is over.
            let _ = self.link.withdraw_all(&self.poller);
            self.send_all(ToNode::Finish);
        }
        if self.ending.is_leaving() && self.link.is_over() {
            self.ending.set_over();
        }
    }
}

/// Signals and deadlines.
impl Run {
    pub(super) fn handle_signal(&mut self, arrived: Arrived, meaning: Meaning) -> io::Result<()> {
        match meaning {
            Meaning::End => self.handle_interrupt(arrived),
            Meaning::Report => reports::request_reports(self, Purpose::All),
            Meaning::Forward => self.send_all(ToNode::Forward(arrived.into())),
            Meaning::Stop => self.send_all(ToNode::Stop(arrived.into())),
            Meaning::Continue => self.reports.excuse_stall(),
            // The ends of starters are seen by their handles.
            Meaning::ChildEnded => self.link.tell_own_node(ToOwnNode::ChildEnded),
            Meaning::Crash | Meaning::Resized => {}
        }
        // Besides their own meaning, these signals may indicate a change of the terminal.
        if [Signal::CONT, Signal::WINCH].contains(&arrived.signal) {
            self.link.tell_own_node(ToOwnNode::TerminalChanged);
            terminal::follow_changes(self);
            self.serve_input()?;
        }
        Ok(())
    }

    fn handle_interrupt(&mut self, arrived: Arrived) {
        let interrupt = self.ending.termination.interrupt(clock::now(), arrived);
        let signal = arrived.signal.as_raw();
        match interrupt {
            Interrupt::Repeated => return,
            Interrupt::Forward => return self.send_all(ToNode::ForwardEnd(arrived.into())),
            Interrupt::End | Interrupt::Kill => {}
        }
        // With no rank left, the head waits for a reader of its output; the sender of the signal does not
        // want that.
        self.ending.termination.is_abandoned |= self.ending.is_leaving();
        self.fail(Failure::Interrupted { signal }, None);
        match interrupt {
            Interrupt::Kill => self.kill(),
            _ => {
                self.send_all(ToNode::ForwardEnd(arrived.into()));
                self.reports.remind_later();
            }
        }
    }

    /// Terminates the run for a reason outside its ranks, and reports the ranks that ran before that.
    fn fail_with_state(&mut self, failure: Failure) {
        if !self.ending.termination.has_failed() {
            let jobs = 0..self.nodes.job_count();
            let running = jobs.map(|job| self.nodes.all_running(job)).collect();
            reports::request_reports(self, Purpose::Running { running });
            self.fail(failure, None);
        }
    }

    fn kill(&mut self) {
        self.ending.begin_terminating(None);
        self.send_all(ToNode::Kill);
    }

    /// Handles all deadlines that have passed.
    pub(super) fn handle_deadlines(&mut self, now: Instant) -> io::Result<()> {
        self.io.outputs.tick(now);
        output::ask_for_lines(self);
        if self.input.deadline().is_some_and(|at| now >= at) {
            self.serve_input()?;
        }
        let is_any_running = self.nodes.running_count() > 0;
        if let Some(limit) = self.summary.check_overdue(now, is_any_running) {
            self.fail_with_state(Failure::Overdue { limit });
        }
        spawn::check_late(self, now);
        growth::check_late(self, now)?;
        tools::tick(self, now)?;
        reports::check_reports(self, now)?;
        while let Some(event) = self.ending.check(now) {
            match event {
                EndingEvent::TimedOut { limit } => {
                    self.fail_with_state(Failure::TimedOut { limit });
                }
                EndingEvent::Kill => self.kill(),
                EndingEvent::GiveUp => {
                    // Without a rank, only output is left, at nodes that wait for its reader.
                    let running = self.nodes.running_count();
                    if running > 0 {
                        trace::report(self, report::given_up(running));
                    }
                    self.ending.set_over();
                }
                EndingEvent::AskStarters => self.link.signal_starters(Signal::TERM),
                EndingEvent::Leave => {
                    // Nodes that do not end, and starters that have not become one.
                    self.link.signal_starters(Signal::KILL);
                    self.ending.set_over();
                }
            }
        }
        Ok(())
    }

    /// Ends a failed run whose output nobody takes, once no rank is left to write any.
    pub(super) fn check_delivery(&mut self, now: Instant) {
        let ending = &mut self.ending;
        // Nodes whose output waits behind that of the launcher do not become quiet.
        let is_stuck = || self.nodes.running_count() == 0 && !self.io.outputs.is_flushed();
        let is_over = ending.termination.has_failed() && (ending.is_over() || is_stuck());
        ending.termination.is_abandoned |= self.io.check_delivery(now, is_over);
    }
}

/// Reason of a loss that the tree reports, as a part of a sentence.
const fn reason_of(loss: EdgeLoss) -> &'static str {
    match loss {
        EdgeLoss::Closed => "its connection was closed",
        EdgeLoss::Silent => "it does not answer",
        EdgeLoss::Detached => "the node that connected it is lost, and it has not come back",
    }
}

const PAUSED_TOO_LONG: &str = "it is paused for longer than '--pause-timeout' allows";

/// Grace period of ranks after the loss of a node: the run ends within a second.
const KILL_AFTER_LOSS: Duration = Duration::from_millis(500);
