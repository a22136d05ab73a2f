//! A rank: a process with the shipped client, a script, and ways to misbehave.

mod services;
mod speaker;
mod turn;

use self::speaker::{Speaker, Token};
use crate::dice::Dice;
use crate::net::Net;
use crate::note::{Note, Turn};
use crate::scenario::{Act, Ask, RankPlan, Scenario, Way};
use crate::storage::Meter;
use std::collections::VecDeque;

/// One process of the job.
#[derive(Debug)]
pub struct Actor {
    rank: u32,
    client: Speaker,
    life: Life,
    acts: Vec<Act>,
    next_act: usize,
    /// Injected steps, before those of the script.
    orders: VecDeque<Act>,
    /// Bytes that the link has not accepted yet; true for raw bytes of a script.
    unsent: VecDeque<(Vec<u8>, bool)>,
    /// Taken from the link, and not by the client.
    untaken: Vec<u8>,
    waiting: Vec<Waiting>,
    questions: u32,
    /// It thinks until then.
    ready_at: u64,
    dice: Dice,
    plan: RankPlan,
    habits: Habits,
    /// Lines received since the first raw bytes were sent.
    lines_heard: u32,
}

/// Properties of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Habits {
    /// It does not read.
    pub is_deaf: bool,
    /// It does nothing any more.
    pub is_hung: bool,
    /// It has sent bytes that its client did not make; from then on it works without the client.
    pub is_rude: bool,
    /// It has closed its end of the link.
    pub has_left: bool,
    /// It has learnt that the other end is closed.
    pub end_seen: bool,
}

/// True if a process is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Not yet.
    Unborn,
    /// It executes its script.
    Running,
    /// It is stopped until it is continued.
    Stopped,
    /// It has ended by itself.
    Exited(i32),
    /// It was killed.
    Killed,
}

/// A question without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    ticket: Token,
    /// Numbers the questions of a rank.
    pub number: u32,
    /// The refused operation.
    pub ask: Ask,
    /// True if others may be asked meanwhile.
    pub also: bool,
}

impl Actor {
    pub(crate) fn new(
        scenario: &Scenario,
        rank: u32,
        acts: Vec<Act>,
        seed: u64,
        meter: &Meter,
    ) -> Self {
        Self {
            rank,
            client: Speaker::new(scenario, rank, meter),
            life: Life::Unborn,
            acts,
            next_act: 0,
            orders: VecDeque::new(),
            unsent: VecDeque::new(),
            untaken: Vec::new(),
            waiting: Vec::new(),
            questions: 0,
            ready_at: 0,
            dice: Dice::new(seed, ACTORS_STREAM + u64::from(rank)),
            plan: scenario.plan(rank),
            habits: Habits::default(),
            lines_heard: 0,
        }
    }

    /// When it starts.
    pub(crate) fn start_time(&mut self) -> u64 {
        self.dice.within(self.plan.start)
    }

    pub(crate) fn start(&mut self, now: u64, notes: &mut Vec<Note>) {
        if self.life == Life::Unborn {
            self.life = Life::Running;
            self.think(now);
            notes.push(Note::Started { rank: self.rank });
        }
    }

    /// Executes `act` next, before the script.
    pub(crate) fn order(&mut self, act: Act) {
        self.orders.push_back(act);
    }

    /// Sends bytes that the client did not make.
    pub(crate) fn say(&mut self, bytes: Vec<u8>) {
        self.habits.is_rude = true;
        self.waiting.clear();
        self.unsent.push_back((bytes, true));
    }

    pub(crate) fn stop(&mut self, notes: &mut Vec<Note>) {
        if self.life == Life::Running {
            self.life = Life::Stopped;
            notes.push(Note::Process { rank: self.rank, turn: Turn::Stopped });
        }
    }

    pub(crate) fn resume(&mut self, notes: &mut Vec<Note>) {
        if self.life == Life::Stopped {
            self.life = Life::Running;
            notes.push(Note::Process { rank: self.rank, turn: Turn::Continued });
        }
    }

    /// Ends the process; its end of the link closes with it.
    pub(crate) fn end(&mut self, life: Life, now: u64, net: &mut Net, notes: &mut Vec<Note>) {
        if !self.is_alive() {
            return;
        }
        self.life = life;
        let turn = match life {
            Life::Exited(code) => Turn::Exited(code),
            _ => Turn::Killed,
        };
        notes.push(Note::Process { rank: self.rank, turn });
        if !self.habits.has_left {
            net.close(self.rank, Way::Up, now);
        }
    }

    /// Closes its end of the link and lives on.
    pub(crate) fn leave(&mut self, now: u64, net: &mut Net, notes: &mut Vec<Note>) {
        if self.is_alive() && !self.habits.has_left {
            self.habits.has_left = true;
            self.waiting.clear();
            self.unsent.clear();
            net.close(self.rank, Way::Up, now);
            notes.push(Note::Left { rank: self.rank });
        }
    }

    /// Its rank.
    pub const fn rank(&self) -> u32 {
        self.rank
    }

    /// True if it is there.
    pub const fn life(&self) -> Life {
        self.life
    }

    /// True between its start and its end.
    pub const fn is_alive(&self) -> bool {
        matches!(self.life, Life::Running | Life::Stopped)
    }

    /// Its properties.
    pub const fn habits(&self) -> Habits {
        self.habits
    }

    /// The state of its client, by name.
    pub fn client_state(&self) -> &'static str {
        self.client.state()
    }

    /// Its questions without an answer.
    pub fn waiting(&self) -> &[Waiting] {
        &self.waiting
    }

    /// Its next step, if its script has not ended.
    pub fn next_act(&self) -> Option<&Act> {
        self.orders.front().or_else(|| self.acts.get(self.next_act))
    }

    /// Bytes for which the link had no room.
    pub fn unsent_bytes(&self) -> usize {
        self.unsent.iter().map(|(bytes, _)| bytes.len()).sum()
    }
}

/// Actors draw from streams above this one; links from higher ones.
const ACTORS_STREAM: u64 = 1 << 32;
