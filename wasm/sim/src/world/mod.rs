//! The world: one queue of due actions, and the state they change.

mod due;
mod injection;

use self::due::Due;
pub use self::injection::{Injected, Injection};
use crate::check::{Checks, Violation};
use crate::event::{Entry, SimEvent};
use crate::host::Host;
use crate::mutant::{MUTANTS, Mutant, MutantKind};
use crate::net::Net;
use crate::ranks::index;
use crate::rng::Rng;
use crate::scenario::{Fault, FaultKind, Scenario, ScenarioError, acts, acts_of};
use crate::sim_rank::SimRank;
use crate::storage::Meter;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A job, its links and its process manager, in a time of their own.
///
/// The same scenario, seed and injections give the same world, step by step, on every machine. A
/// clone is made by running them again, so it costs what the steps so far have cost.
#[derive(Debug)]
pub struct World {
    scenario: Scenario,
    seed: u64,
    options: Options,
    now: u64,
    steps: u64,
    serial: u64,
    /// Due actions: by time, then in the order of their insertion.
    queue: BinaryHeap<Reverse<(u64, u64, Due)>>,
    sim_ranks: Vec<SimRank>,
    net: Net,
    host: Host,
    checks: Checks,
    entries: Vec<Entry>,
    injections: Vec<Injected>,
    faults: Vec<(u32, FaultKind)>,
    /// Time at which the host is due; it is queued once.
    pass_at: Option<u64>,
    clock_at: Option<u64>,
    will_kill: bool,
    is_quiet: bool,
    clients: Meter,
    /// Number of messages so far, and of their bytes.
    traffic: (u64, u64),
}

/// Settings of a run, besides its scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// True to keep every entry of the trace.
    pub records: bool,
    /// True to check all rules; false for those that are cheap for many ranks.
    pub checks_all: bool,
    /// A fault to build into the server.
    pub mutant: Option<MutantKind>,
}

impl World {
    /// Creates a world in its initial state.
    ///
    /// # Errors
    ///
    /// A scenario that cannot be played, with the cause.
    pub fn new(scenario: &Scenario, seed: u64) -> Result<Self, ScenarioError> {
        Self::with(scenario, seed, Options::default())
    }

    /// Does as [`new`](Self::new), with `options`.
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new).
    pub fn with(scenario: &Scenario, seed: u64, options: Options) -> Result<Self, ScenarioError> {
        if !MUTANTS && options.mutant.is_some() {
            let what = "this build has no mutants".into();
            return Err(ScenarioError { line: 0, what });
        }
        let (meter, clients) = (Meter::default(), Meter::default());
        let mutant = options.mutant.filter(|_| MUTANTS).map(Mutant::new);
        let host = Host::new(scenario, seed, mutant, meter)?;
        let sim_rank = |rank| {
            let acts = acts(scenario, rank)?;
            Ok(SimRank::new(scenario, rank, acts, seed, &clients))
        };
        let sim_ranks: Result<Vec<SimRank>, ScenarioError> =
            (0..scenario.ranks).map(sim_rank).collect();
        let mut world = Self {
            scenario: scenario.clone(),
            seed,
            options,
            now: 0,
            steps: 0,
            serial: 0,
            queue: BinaryHeap::new(),
            sim_ranks: sim_ranks?,
            net: Net::new(scenario, seed),
            host,
            checks: Checks::new(scenario, options.checks_all),
            entries: Vec::new(),
            injections: Vec::new(),
            faults: Vec::new(),
            pass_at: None,
            clock_at: None,
            will_kill: false,
            is_quiet: false,
            clients,
            traffic: (0, 0),
        };
        world.begin();
        Ok(world)
    }

    fn begin(&mut self) {
        let spawned = |rank: &u32| {
            let at = self.scenario.home(*rank).job.checked_sub(1);
            at.is_some_and(|at| self.scenario.jobs[at].is_spawned)
        };
        let there: Vec<u32> = (0..self.scenario.ranks).filter(|rank| !spawned(rank)).collect();
        for rank in there {
            // An inherited link exists before the rank starts.
            if !self.scenario.plan(rank).connects_by_itself {
                self.host.open(rank, false, 0);
            }
            let start = self.sim_ranks[index(rank)].start_time();
            self.schedule(start, Due::Start(rank));
        }
        for (at, fault) in (0u64..).zip(self.scenario.faults.clone()) {
            let mut rng = Rng::new(self.seed, FAULTS_STREAM + at);
            let Fault { chance, at, what, rank } = fault;
            if rng.chance(chance) {
                let time = rng.within(at);
                let any = rng.below(u64::from(self.scenario.ranks));
                let rank = rank.unwrap_or(u32::try_from(any).unwrap_or(0));
                let fault = self.faults.len();
                self.faults.push((rank, what));
                self.schedule(time, Due::Strike(fault));
            }
        }
    }

    /// Executes the next due action; false if the world is quiet.
    pub fn step(&mut self) -> bool {
        let Some(Reverse((time, _, due))) = self.queue.pop() else {
            if !self.is_quiet {
                self.is_quiet = true;
                self.event(SimEvent::Quiet);
                self.judge();
            }
            return false;
        };
        self.now = time;
        self.steps += 1;
        let mut events = Vec::new();
        self.act(due, &mut events);
        self.settle(events);
        true
    }

    /// Runs until the world is quiet, or for `most` steps; true if it is quiet.
    pub fn run(&mut self, most: u64) -> bool {
        let end = self.steps.saturating_add(most);
        while self.steps < end {
            if !self.step() {
                return true;
            }
        }
        false
    }

    /// Applies an injection between two steps.
    pub fn inject(&mut self, injection: Injection) {
        let when_quiet = std::mem::take(&mut self.is_quiet);
        let injected = Injected { after: self.steps, when_quiet, what: injection.clone() };
        self.injections.push(injected);
        // Expectations of a scenario apply to the unchanged run only.
        self.checks.drop_expectations();
        let mut events = Vec::new();
        match injection {
            Injection::Fault { rank, what } => self.strike(rank, what, &mut events),
            Injection::Order { rank, step } => {
                // A step that names a loop around it has none here, and does nothing.
                let acts = acts_of(&self.scenario, rank, &[step]).unwrap_or_default();
                if let Some(sim_rank) = self.sim_ranks.get_mut(index(rank)) {
                    acts.into_iter().for_each(|act| sim_rank.order(act));
                    self.schedule(self.now, Due::Turn(rank));
                }
            }
        }
        self.settle(events);
    }

    /// The same world as it was after `steps` steps, or as it will be; injections included as far as
    /// they had been made by then.
    pub fn at_step(&self, steps: u64) -> Self {
        let again = Self::again(&self.scenario, self.seed, self.options, &self.injections, steps);
        // The world was created from the same scenario before.
        again.expect("a world that was made can be made again")
    }

    /// Makes a world and runs it for `steps` steps, with injections.
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new).
    pub fn again(
        scenario: &Scenario,
        seed: u64,
        options: Options,
        injections: &[Injected],
        steps: u64,
    ) -> Result<Self, ScenarioError> {
        let mut world = Self::with(scenario, seed, options)?;
        for Injected { after, when_quiet, what } in injections {
            if *after > steps {
                break;
            }
            world.catch_up(*after);
            if *when_quiet {
                world.step();
            }
            world.inject(what.clone());
        }
        world.catch_up(steps);
        Ok(world)
    }

    fn catch_up(&mut self, steps: u64) {
        while self.steps < steps && self.step() {}
    }

    /// The time, in microseconds of the world.
    pub const fn time(&self) -> u64 {
        self.now
    }

    /// Number of steps so far.
    pub const fn steps(&self) -> u64 {
        self.steps
    }

    /// True if nothing more will happen by itself.
    pub fn is_quiet(&self) -> bool {
        self.is_quiet && self.queue.is_empty()
    }

    /// The scenario.
    pub const fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// The seed.
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// Injections of the world, each with its step.
    pub fn injections(&self) -> &[Injected] {
        &self.injections
    }

    /// Everything that happened, if it is recorded.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The rules that did not hold.
    pub fn violations(&self) -> &[Violation] {
        self.checks.violations()
    }

    /// The ranks.
    pub fn sim_ranks(&self) -> &[SimRank] {
        &self.sim_ranks
    }

    /// The links.
    pub const fn net(&self) -> &Net {
        &self.net
    }

    /// The process manager.
    pub const fn host(&self) -> &Host {
        &self.host
    }

    /// State of the checkers.
    pub const fn checks(&self) -> &Checks {
        &self.checks
    }

    /// The memory that the clients' buffers take.
    pub const fn clients(&self) -> &Meter {
        &self.clients
    }

    /// Number of messages of ranks and of the server, and their bytes.
    pub const fn traffic(&self) -> (u64, u64) {
        self.traffic
    }
}

impl Clone for World {
    fn clone(&self) -> Self {
        let mut again = self.at_step(self.steps);
        if self.is_quiet {
            again.step();
        }
        again
    }
}

impl Default for Options {
    fn default() -> Self {
        Self { records: true, checks_all: true, mutant: None }
    }
}

/// Rng of different owners draw from different streams.
const FAULTS_STREAM: u64 = 1 << 20;
const NOTICE_STREAM: u64 = 1 << 30;
