//! A simulated rank: a process with the shipped client, a script, and faults.

mod client;
mod services;
mod turn;

use self::client::{PmixEvent, RankClient, RequestToken};
use crate::event::{SimEvent, Turn};
use crate::net::Net;
use crate::rng::Rng;
use crate::scenario::{Direction, RankPlan, RankRequest, Scenario, ScriptAct};
use crate::storage::Meter;
use std::collections::VecDeque;

/// One process of the job.
#[derive(Debug)]
pub struct SimRank {
    rank: u32,
    client: RankClient,
    life: ProcessState,
    acts: Vec<ScriptAct>,
    next_act: usize,
    /// Injected steps, before those of the script.
    orders: VecDeque<ScriptAct>,
    /// Bytes that the link has not accepted yet; true for raw bytes of a script.
    unsent: VecDeque<(Vec<u8>, bool)>,
    /// Bytes read from the link and not yet handled by the client.
    untaken: Vec<u8>,
    waiting: Vec<Waiting>,
    /// Events that the script has not awaited yet.
    unawaited: Vec<PmixEvent>,
    questions: u32,
    /// Time of its next step.
    ready_at: u64,
    rng: Rng,
    plan: RankPlan,
    flags: ProcessFlags,
    /// Lines received since the first raw bytes were sent.
    lines_received: u32,
}

/// Properties of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessFlags {
    /// True if it does not read.
    pub is_deaf: bool,
    /// True if it makes no further steps.
    pub is_hung: bool,
    /// True after it has sent bytes that its client did not make; it then works without the client.
    pub is_rude: bool,
    /// True after it has closed its end of the link.
    pub has_left: bool,
    /// True after it has detected that the other end is closed.
    pub end_seen: bool,
}

/// State of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessState {
    /// Not started.
    Unborn,
    /// It executes its script.
    Running,
    /// It is stopped until it is continued.
    Stopped,
    /// It has exited by itself.
    Exited(i32),
    /// It was killed.
    Killed,
}

/// A pending request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    ticket: RequestToken,
    /// Number of the request at its rank.
    pub number: u32,
    /// The refused operation.
    pub ask: RankRequest,
    /// True if other requests may be made meanwhile.
    pub also: bool,
}

impl SimRank {
    pub(crate) fn new(
        scenario: &Scenario,
        rank: u32,
        acts: Vec<ScriptAct>,
        seed: u64,
        meter: &Meter,
    ) -> Self {
        Self {
            rank,
            client: RankClient::new(scenario, rank, meter),
            life: ProcessState::Unborn,
            acts,
            next_act: 0,
            orders: VecDeque::new(),
            unsent: VecDeque::new(),
            untaken: Vec::new(),
            waiting: Vec::new(),
            unawaited: Vec::new(),
            questions: 0,
            ready_at: 0,
            rng: Rng::new(seed, ACTORS_STREAM + u64::from(rank)),
            plan: scenario.plan(rank),
            flags: ProcessFlags::default(),
            lines_received: 0,
        }
    }

    /// Time of its start.
    pub(crate) fn start_time(&mut self) -> u64 {
        self.rng.within(self.plan.start)
    }

    pub(crate) fn start(&mut self, now: u64, events: &mut Vec<SimEvent>) {
        if self.life == ProcessState::Unborn {
            self.life = ProcessState::Running;
            self.think(now);
            events.push(SimEvent::Started { rank: self.rank });
        }
    }

    /// Executes `act` next, before the script.
    pub(crate) fn order(&mut self, act: ScriptAct) {
        self.orders.push_back(act);
    }

    /// Sends bytes that the client did not make.
    pub(crate) fn say(&mut self, bytes: Vec<u8>) {
        self.flags.is_rude = true;
        self.waiting.clear();
        self.unsent.push_back((bytes, true));
    }

    pub(crate) fn stop(&mut self, events: &mut Vec<SimEvent>) {
        if self.life == ProcessState::Running {
            self.life = ProcessState::Stopped;
            events.push(SimEvent::Process { rank: self.rank, turn: Turn::Stopped });
        }
    }

    pub(crate) fn resume(&mut self, events: &mut Vec<SimEvent>) {
        if self.life == ProcessState::Stopped {
            self.life = ProcessState::Running;
            events.push(SimEvent::Process { rank: self.rank, turn: Turn::Continued });
        }
    }

    /// Ends the process; its end of the link closes with it.
    pub(crate) fn end(
        &mut self,
        life: ProcessState,
        now: u64,
        net: &mut Net,
        events: &mut Vec<SimEvent>,
    ) {
        if !self.is_alive() {
            return;
        }
        self.life = life;
        let turn = match life {
            ProcessState::Exited(code) => Turn::Exited(code),
            _ => Turn::Killed,
        };
        events.push(SimEvent::Process { rank: self.rank, turn });
        if !self.flags.has_left {
            net.close(self.rank, Direction::Up, now);
        }
    }

    /// Closes its end of the link and continues to run.
    pub(crate) fn leave(&mut self, now: u64, net: &mut Net, events: &mut Vec<SimEvent>) {
        if self.is_alive() && !self.flags.has_left {
            self.flags.has_left = true;
            self.waiting.clear();
            self.unsent.clear();
            net.close(self.rank, Direction::Up, now);
            events.push(SimEvent::Left { rank: self.rank });
        }
    }

    /// Its rank.
    pub const fn rank(&self) -> u32 {
        self.rank
    }

    /// State of the process.
    pub const fn life(&self) -> ProcessState {
        self.life
    }

    /// True between the start and the end of the process.
    pub const fn is_alive(&self) -> bool {
        matches!(self.life, ProcessState::Running | ProcessState::Stopped)
    }

    /// Its properties.
    pub const fn flags(&self) -> ProcessFlags {
        self.flags
    }

    /// The state of its client, by name.
    pub fn client_state(&self) -> &'static str {
        self.client.state()
    }

    /// Its pending requests.
    pub fn waiting(&self) -> &[Waiting] {
        &self.waiting
    }

    /// Its next step, if its script has not ended.
    pub fn next_act(&self) -> Option<&ScriptAct> {
        self.orders.front().or_else(|| self.acts.get(self.next_act))
    }

    /// Bytes for which the link had no room.
    pub fn unsent_bytes(&self) -> usize {
        self.unsent.iter().map(|(bytes, _)| bytes.len()).sum()
    }
}

/// Actors draw from streams above this one; links from higher ones.
const ACTORS_STREAM: u64 = 1 << 32;
