//! Due actions, their execution, and their consequences.

use super::{FAULTS_STREAM, NOTICE_STREAM, World, index};
use crate::actor::Life;
use crate::dice::Dice;
use crate::net::Mishap;
use crate::note::{Entry, Failure, Note};
use crate::scale;
use crate::scenario::{Trouble, Way};
use std::cmp::Reverse;

/// Something that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    Start(u32),
    Turn(u32),
    Land(u32, Way),
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

    pub(super) fn act(&mut self, due: Due, notes: &mut Vec<Note>) {
        let now = self.now;
        match due {
            Due::Start(rank) => {
                if self.scenario.plan(rank).dials {
                    self.host.open(rank, true, now);
                    self.call_host();
                }
                self.actors[index(rank)].start(now, notes);
                self.turn(rank, notes);
            }
            Due::Turn(rank) => self.turn(rank, notes),
            Due::Land(rank, way) => {
                if !self.net.land(rank, way, now) {
                    return;
                }
                match way {
                    Way::Down => self.turn(rank, notes),
                    Way::Up => {
                        self.host.attend(rank);
                        self.call_host();
                    }
                }
            }
            Due::Pass => {
                self.pass_at = None;
                self.host.pass(now, &mut self.net, notes);
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
                self.strike(rank, what, notes);
            }
            Due::Resume(rank) => {
                self.actors[index(rank)].resume(notes);
                self.turn(rank, notes);
            }
            Due::KillAll => {
                self.host.stop_spawning();
                notes.push(Note::KillAll);
                for actor in &mut self.actors {
                    actor.end(Life::Killed, now, &mut self.net, notes);
                }
            }
        }
    }

    fn turn(&mut self, rank: u32, notes: &mut Vec<Note>) {
        let Some(actor) = self.actors.get_mut(index(rank)) else { return };
        if let Some(time) = actor.turn(self.now, &mut self.net, notes) {
            self.schedule(time, Due::Turn(rank));
        }
    }

    pub(super) fn strike(&mut self, rank: u32, what: Trouble, notes: &mut Vec<Note>) {
        let Some(actor) = self.actors.get_mut(index(rank)) else { return };
        let (now, net) = (self.now, &mut self.net);
        notes.push(Note::Struck { rank, what: what.clone() });
        let mut dice = Dice::new(self.seed, FAULTS_STREAM - 1 - self.steps % FAULTS_STREAM);
        match what {
            Trouble::Kill => actor.end(Life::Killed, now, net, notes),
            Trouble::Stop(span) => {
                actor.stop(notes);
                if let Some(span) = span {
                    self.schedule(now + dice.within(span), Due::Resume(rank));
                }
            }
            Trouble::Continue => self.schedule(now, Due::Resume(rank)),
            Trouble::Reset => net.reset(rank, now),
            Trouble::Cut => actor.leave(now, net, notes),
            Trouble::Stall(span) => net.stall(rank, now + dice.within(span)),
            Trouble::Flip(way) => net.flip_next(rank, way),
            Trouble::Shatter(way) => net.shatter_next(rank, way),
            Trouble::Say(bytes) => {
                actor.say(bytes);
                self.schedule(now, Due::Turn(rank));
            }
        }
    }

    /// The host will look at what has come.
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

    /// Notes what a step did, and puts what follows from it in the queue.
    pub(super) fn settle(&mut self, notes: Vec<Note>) {
        for (time, rank, way) in self.net.take_arrivals() {
            self.schedule(time, Due::Land(rank, way));
        }
        for (rank, what) in self.net.take_mishaps() {
            self.note(Note::Mishap { rank, what });
        }
        for note in notes {
            match &note {
                // Room in a link may be what its writer waits for.
                Note::Heard { rank, .. }
                    if self.host.line(*rank).is_some_and(|line| line.unsent_bytes() > 0) =>
                {
                    self.host.attend(*rank);
                    self.call_host();
                }
                Note::ServerHeard { rank, .. } if self.actors[index(*rank)].unsent_bytes() > 0 => {
                    self.schedule(self.now, Due::Turn(*rank));
                }
                // A writer is not delayed by a closed link.
                Note::Left { rank } | Note::ServerLeft { rank } => {
                    self.host.attend(*rank);
                    self.call_host();
                    self.schedule(self.now, Due::Turn(*rank));
                }
                Note::Struck { rank, what: Trouble::Reset } => {
                    self.host.attend(*rank);
                    self.call_host();
                    self.schedule(self.now, Due::Turn(*rank));
                }
                Note::Process { rank, turn } if turn.is_end() => {
                    let mut dice = Dice::new(self.seed, NOTICE_STREAM + u64::from(*rank));
                    let time = self.now + dice.within(self.scenario.host.notice);
                    self.schedule(time, Due::Gone(*rank));
                    self.host.attend(*rank);
                    self.call_host();
                }
                Note::Spawned { job, .. } => {
                    let plan = self.scenario.jobs.iter().find(|plan| plan.name == *job);
                    for rank in plan.map_or(0..0, |plan| plan.first..plan.first + plan.size) {
                        let start = self.actors[index(rank)].start_time();
                        self.schedule(self.now + start, Due::Start(rank));
                    }
                }
                Note::Reported { failure, .. } => {
                    let is_abort = matches!(failure, Failure::Aborted(_));
                    if (self.scenario.host.kills || is_abort) && !self.will_kill {
                        self.will_kill = true;
                        let mut dice = Dice::new(self.seed, NOTICE_STREAM - 1);
                        let time = self.now + dice.within(self.scenario.host.grace);
                        self.schedule(time, Due::KillAll);
                    }
                }
                _ => {}
            }
            self.note(note);
        }
    }

    pub(super) fn note(&mut self, note: Note) {
        let entry = Entry { at: self.now, step: self.steps, note };
        let (messages, bytes) = scale::traffic(&entry.note);
        self.traffic = (self.traffic.0 + messages, self.traffic.1 + bytes);
        self.checks.observe(&entry);
        if let Note::Mishap { rank, what: Mishap::Reset } = entry.note {
            self.host.attend(rank);
            self.call_host();
            self.schedule(self.now, Due::Turn(rank));
        }
        // Bytes on hold are for the checkers; the trace would be full of them.
        if self.options.records && !matches!(entry.note, Note::HostHolds { .. }) {
            self.entries.push(entry);
        }
        self.tell_violations();
    }

    pub(super) fn judge(&mut self) {
        self.checks.judge(&self.actors, &self.net, &self.host, self.now, self.steps);
        self.tell_violations();
    }

    /// Puts what the checkers found into the trace.
    fn tell_violations(&mut self) {
        for violation in self.checks.untold() {
            let note = Note::Violation { rule: violation.rule, what: violation.what };
            if self.options.records {
                self.entries.push(Entry { at: self.now, step: self.steps, note });
            }
        }
    }
}
