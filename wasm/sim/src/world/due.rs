//! Due actions, their execution, and their consequences.

use super::{FAULTS_STREAM, NOTICE_STREAM, World};
use crate::event::{Entry, ReportedFailure, SimEvent};
use crate::net::LinkFault;
use crate::ranks::index;
use crate::rng::Rng;
use crate::scale;
use crate::scenario::{Direction, FaultKind};
use crate::sim_rank::ProcessState;
use std::cmp::Reverse;

/// A due action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    Start(u32),
    Turn(u32),
    Land(u32, Direction),
    Pass,
    Clock,
    Gone(u32),
    Strike(usize),
    Resume(u32),
    KillAll,
}

impl World {
    pub(super) fn schedule(&mut self, time: u64, due: Due) {
        self.serial += 1;
        self.queue.push(Reverse((time.max(self.now), self.serial, due)));
    }

    pub(super) fn act(&mut self, due: Due, events: &mut Vec<SimEvent>) {
        let now = self.now;
        match due {
            Due::Start(rank) => {
                if self.scenario.plan(rank).connects_by_itself {
                    self.host.open(rank, true, now);
                    self.call_host();
                }
                self.sim_ranks[index(rank)].start(now, events);
                self.turn(rank, events);
            }
            Due::Turn(rank) => self.turn(rank, events),
            Due::Land(rank, direction) => {
                if !self.net.land(rank, direction, now) {
                    return;
                }
                match direction {
                    Direction::Down => self.turn(rank, events),
                    Direction::Up => {
                        self.host.attend(rank);
                        self.call_host();
                    }
                }
            }
            Due::Pass => {
                self.pass_at = None;
                self.host.pass(now, &mut self.net, events);
                self.wake_clock();
            }
            Due::Clock => {
                self.clock_at = None;
                self.call_host();
            }
            Due::Gone(rank) => {
                self.host.lose(rank);
                self.call_host();
            }
            Due::Strike(fault) => {
                let (rank, what) = self.faults[fault].clone();
                self.strike(rank, what, events);
            }
            Due::Resume(rank) => {
                self.sim_ranks[index(rank)].resume(events);
                self.turn(rank, events);
            }
            Due::KillAll => {
                self.host.stop_spawning();
                events.push(SimEvent::KillAll);
                for sim_rank in &mut self.sim_ranks {
                    sim_rank.end(ProcessState::Killed, now, &mut self.net, events);
                }
            }
        }
    }

    fn turn(&mut self, rank: u32, events: &mut Vec<SimEvent>) {
        let Some(sim_rank) = self.sim_ranks.get_mut(index(rank)) else { return };
        if let Some(time) = sim_rank.turn(self.now, &mut self.net, events) {
            self.schedule(time, Due::Turn(rank));
        }
    }

    pub(super) fn strike(&mut self, rank: u32, what: FaultKind, events: &mut Vec<SimEvent>) {
        let Some(sim_rank) = self.sim_ranks.get_mut(index(rank)) else { return };
        let (now, net) = (self.now, &mut self.net);
        events.push(SimEvent::Fault { rank, what: what.clone() });
        let mut rng = Rng::new(self.seed, FAULTS_STREAM - 1 - self.steps % FAULTS_STREAM);
        match what {
            FaultKind::Kill => sim_rank.end(ProcessState::Killed, now, net, events),
            FaultKind::Stop(span) => {
                sim_rank.stop(events);
                if let Some(span) = span {
                    self.schedule(now + rng.within(span), Due::Resume(rank));
                }
            }
            FaultKind::Continue => self.schedule(now, Due::Resume(rank)),
            FaultKind::Reset => net.reset(rank, now),
            FaultKind::Cut => sim_rank.leave(now, net, events),
            FaultKind::Stall(span) => net.stall(rank, now + rng.within(span)),
            FaultKind::Flip(direction) => net.flip_next(rank, direction),
            FaultKind::Shatter(direction) => net.shatter_next(rank, direction),
            FaultKind::Send(bytes) => {
                sim_rank.say(bytes);
                self.schedule(now, Due::Turn(rank));
            }
        }
    }

    /// The host will serve received bytes.
    fn call_host(&mut self) {
        let time = self.now + self.host.delay();
        if self.pass_at.is_none_or(|at| time < at) {
            self.pass_at = Some(time);
            self.schedule(time, Due::Pass);
        }
    }

    fn wake_clock(&mut self) {
        if let Some(time) = self.host.timeout()
            && self.clock_at.is_none_or(|at| time < at)
        {
            self.clock_at = Some(time);
            self.schedule(time, Due::Clock);
        }
    }

    /// Records the events of a step, and queues the actions that follow.
    pub(super) fn settle(&mut self, events: Vec<SimEvent>) {
        for (time, rank, direction) in self.net.take_arrivals() {
            self.schedule(time, Due::Land(rank, direction));
        }
        for (rank, what) in self.net.take_faults() {
            self.event(SimEvent::LinkFault { rank, what });
        }
        for event in events {
            match &event {
                // The writer may wait for room in the link.
                SimEvent::Received { rank, .. }
                    if self.host.line(*rank).is_some_and(|line| line.unsent_bytes() > 0) =>
                {
                    self.host.attend(*rank);
                    self.call_host();
                }
                SimEvent::ServerReceived { rank, .. }
                    if self.sim_ranks[index(*rank)].unsent_bytes() > 0 =>
                {
                    self.schedule(self.now, Due::Turn(*rank));
                }
                // A writer is not delayed by a closed link.
                SimEvent::Left { rank } | SimEvent::ServerLeft { rank } => {
                    self.host.attend(*rank);
                    self.call_host();
                    self.schedule(self.now, Due::Turn(*rank));
                }
                SimEvent::Fault { rank, what: FaultKind::Reset } => {
                    self.host.attend(*rank);
                    self.call_host();
                    self.schedule(self.now, Due::Turn(*rank));
                }
                SimEvent::Process { rank, turn } if turn.is_end() => {
                    let mut rng = Rng::new(self.seed, NOTICE_STREAM + u64::from(*rank));
                    let time = self.now + rng.within(self.scenario.host.notice);
                    self.schedule(time, Due::Gone(*rank));
                    self.host.attend(*rank);
                    self.call_host();
                }
                SimEvent::Spawned { job, .. } => {
                    let plan = self.scenario.jobs.iter().find(|plan| plan.name == *job);
                    for rank in plan.map_or(0..0, |plan| plan.first..plan.first + plan.size) {
                        let start = self.sim_ranks[index(rank)].start_time();
                        self.schedule(self.now + start, Due::Start(rank));
                    }
                }
                SimEvent::Reported { failure, .. } => {
                    let is_abort = matches!(failure, ReportedFailure::Aborted(_));
                    if (self.scenario.host.kills || is_abort) && !self.will_kill {
                        self.will_kill = true;
                        let mut rng = Rng::new(self.seed, NOTICE_STREAM - 1);
                        let time = self.now + rng.within(self.scenario.host.grace);
                        self.schedule(time, Due::KillAll);
                    }
                }
                _ => {}
            }
            self.event(event);
        }
    }

    pub(super) fn event(&mut self, event: SimEvent) {
        let entry = Entry { at: self.now, step: self.steps, event };
        let (messages, bytes) = scale::traffic(&entry.event);
        self.traffic = (self.traffic.0 + messages, self.traffic.1 + bytes);
        self.checks.observe(&entry);
        if let SimEvent::LinkFault { rank, what: LinkFault::Reset } = entry.event {
            self.host.attend(rank);
            self.call_host();
            self.schedule(self.now, Due::Turn(rank));
        }
        // Held bytes are reported to the checkers only, since they would fill the trace.
        if self.options.records && !matches!(entry.event, SimEvent::HostHolds { .. }) {
            self.entries.push(entry);
        }
        self.report_violations();
    }

    pub(super) fn judge(&mut self) {
        self.checks.judge(&self.sim_ranks, &self.net, &self.host, self.now, self.steps);
        self.report_violations();
    }

    /// Adds the findings of the checkers to the trace.
    fn report_violations(&mut self) {
        for violation in self.checks.untold() {
            let event = SimEvent::Violation { rule: violation.rule, what: violation.what };
            if self.options.records {
                self.entries.push(Entry { at: self.now, step: self.steps, event });
            }
        }
    }
}
