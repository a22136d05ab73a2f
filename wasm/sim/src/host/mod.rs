//! The process manager: the shipped server, and an owner that drives it by the run loop of the core.

mod jobs;
mod pmix;

use self::jobs::{HostJobs, JobStart};
use crate::event::{ReportedFailure, SimEvent};
use crate::mutant::{MUTANTS, Mutant};
use crate::net::Net;
use crate::ranks::{in_order, index};
use crate::rng::{Rng, Span};
use crate::scenario::{Direction, PMIX, Scenario, ScenarioError};
use crate::storage::{Bytes, Meter, Metered, MeteredSlab, Store};
use crate::watch::{HeldMessages, Watched};
use litemap::LiteMap;
use pmi_core::command::CodeRun;
use pmi_core::error::{Code, Misuse};
use pmi_core::ids::{JobId, Rank, SessionId};
use pmi_core::limits::{MESSAGE_BYTES, REPLY_BYTES};
use pmi_core::server::{Event, Job, Member, Peer, Phase, Server};
use pmi_core::store::{Arena, ArenaCell};
use pmi_core::time::Instant;
use pmi_link::{PumpError, PumpState};

/// The server and its owner.
#[derive(Debug)]
pub struct Host {
    server: Server<Metered>,
    jobs: HostJobs,
    lines: Vec<HostConn>,
    /// The rank of each session.
    ranks: LiteMap<u32, u32>,
    /// Links to serve, in any order, possibly repeated.
    attention: Vec<u32>,
    /// Ranks whose process has exited, before the server is notified.
    gone: LiteMap<u32, ()>,
    rng: Rng,
    pace: Span,
    patience: u64,
    has_callers: bool,
    meter: Meter,
    scratch: Vec<u8>,
    mutant: Option<Mutant>,
}

/// The host's end of the link of one rank.
#[derive(Debug)]
pub struct HostConn {
    session: Option<SessionId>,
    carry: PumpState<Bytes>,
    /// Messages held by a mutant.
    stage: HeldMessages,
}

impl Host {
    ///
    /// # Errors
    ///
    /// A scenario whose job the server cannot hold.
    pub(crate) fn new(
        scenario: &Scenario,
        seed: u64,
        mutant: Option<Mutant>,
        meter: Meter,
    ) -> Result<Self, ScenarioError> {
        let count = usize::try_from(scenario.ranks).unwrap_or(usize::MAX);
        let sessions = MeteredSlab::new(count, meter.clone());
        let tables = MeteredSlab::new(scenario.all_jobs().count(), meter.clone());
        let pmix = pmix::tables(scenario, &meter);
        let mut server = Server::with_pmix(sessions, tables, store(16_384), pmix);
        let is_blind = mutant.as_ref().is_some_and(Mutant::is_blind);
        let jobs = HostJobs::new(scenario, is_blind, &mut server)?;
        Ok(Self {
            server,
            jobs,
            lines: (0..count).map(|_| line(&meter)).collect(),
            ranks: LiteMap::new(),
            attention: Vec::new(),
            gone: LiteMap::new(),
            rng: Rng::new(seed, HOST_STREAM),
            pace: scenario.host.pace,
            patience: scenario.host.patience,
            has_callers: false,
            meter,
            scratch: vec![0; 2 * CARRY_BYTES],
            mutant,
        })
    }

    /// Opens the session of a rank, with an inherited descriptor or by TCP.
    pub(crate) fn open(&mut self, rank: u32, connects_by_itself: bool, now: u64) {
        if PMIX && self.jobs.uses_pmix(rank) {
            return self.open_pmix(rank, now);
        }
        let Some((job, own)) = self.jobs.seat(rank) else { return };
        let peer = match connects_by_itself {
            false => Peer::Member { job, rank: own },
            true => {
                let deadline = Some(instant(now + self.patience));
                Peer::Unidentified { job, deadline, challenge: None }
            }
        };
        self.has_callers |= connects_by_itself;
        let inbox = Bytes::new(INBOX_BYTES, self.meter.clone());
        let exchanges = MeteredSlab::new(EXCHANGES, self.meter.clone());
        // There is a place for the session of every rank, and each has one.
        let opened = self.server.open(peer, inbox, exchanges);
        self.connect(rank, opened);
    }

    /// Connects the link of a rank to its session.
    fn connect(&mut self, rank: u32, opened: Result<SessionId, Misuse>) {
        if let Ok(session) = opened
            && let Some(line) = self.lines.get_mut(index(rank))
        {
            line.session = Some(session);
            self.ranks.insert(session.0, rank);
            self.attention.push(rank);
        }
    }

    /// Marks a link as ready.
    pub(crate) fn attend(&mut self, rank: u32) {
        self.attention.push(rank);
    }

    /// Queues the end of a process.
    pub(crate) fn lose(&mut self, rank: u32) {
        self.jobs.lose(rank);
        self.gone.insert(rank, ());
        self.attention.push(rank);
    }

    /// Time until the host serves a ready link.
    pub(crate) fn delay(&mut self) -> u64 {
        self.rng.within(self.pace)
    }

    /// Serves all links with input or due responses.
    pub(crate) fn pass(&mut self, now: u64, net: &mut Net, events: &mut Vec<SimEvent>) {
        let is_event_first = self.rng.below(4) == 0;
        if self.timeout().is_some_and(|time| time <= now) {
            self.server.handle_timeout(instant(now));
        }
        loop {
            let mut ranks = in_order(std::mem::take(&mut self.attention));
            if self.rng.below(2) == 0 {
                ranks.reverse();
            }
            for rank in ranks {
                self.serve(rank, true, now, net, events);
                let detects = !MUTANTS || self.mutant.as_ref().is_none_or(Mutant::detects_exits);
                if self.gone.remove(&rank).is_some()
                    && detects
                    && let Some((job, own)) = self.jobs.seat(rank)
                {
                    self.server.member_gone(job, own);
                }
            }
            let mut has_moved = is_event_first && self.events(now, events);
            while let Some(session) = self.server.next_ready() {
                has_moved = true;
                if let Some(rank) = self.ranks.get(&session.0).copied() {
                    self.serve(rank, false, now, net, events);
                }
            }
            has_moved |= self.events(now, events);
            for order in self.jobs.due(now) {
                has_moved = true;
                self.start(order, now, events);
            }
            while let Some(job) = self.jobs.forget(&mut self.server) {
                events.push(SimEvent::Forgotten { job });
            }
            if !has_moved && self.attention.is_empty() {
                return;
            }
        }
    }

    /// Deadline of the server.
    pub(crate) fn timeout(&self) -> Option<u64> {
        // Computed only with unidentified peers, since the server iterates over all sessions for it.
        let callers = self.has_callers.then(|| self.server.poll_timeout());
        callers.flatten().map(Instant::as_micros).into_iter().chain(self.jobs.timeout()).min()
    }

    /// Stops all starts of jobs.
    pub(crate) fn stop_spawning(&mut self) {
        self.jobs.orders.clear();
    }

    /// A job, read-only.
    pub fn job(&self, job: usize) -> Option<&Job<Store, Vec<Member>>> {
        self.server.job(self.jobs.id(job)?)
    }

    /// A rank as the server knows it.
    pub fn member(&self, rank: u32) -> Option<&Member> {
        let (job, own) = self.jobs.seat(rank)?;
        self.server.job(job)?.member(own)
    }

    /// The line of a rank, read-only.
    pub fn line(&self, rank: u32) -> Option<&HostConn> {
        self.lines.get(index(rank))
    }

    /// Memory of the server: its tables and buffers.
    pub const fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Moves bytes between a rank's session and its link; with `reads`, also the input.
    fn serve(
        &mut self,
        rank: u32,
        reads: bool,
        now: u64,
        net: &mut Net,
        events: &mut Vec<SimEvent>,
    ) {
        let Some(line) = self.lines.get_mut(index(rank)) else { return };
        let Some(id) = line.session else { return };
        let mutant = self.mutant.as_mut();
        let HostConn { carry, stage, .. } = line;
        let (mut end, now_core, scratch) = (net.end(rank, now), instant(now), &mut self.scratch);
        let Some(session) = self.server.session(id) else { return };
        let mut watched = Watched { session, rank, mutant, stage, events };
        let moved = match reads {
            true => pmi_link::pump(now_core, &mut watched, &mut end, carry, scratch),
            false => pmi_link::flush(now_core, &mut watched, &mut end, carry, scratch),
        };
        let (untaken, unsent) = (carry.unconsumed_bytes(), carry.unsent_bytes());
        events.push(SimEvent::HostHolds { rank, untaken, unsent });
        let failure = match moved {
            Ok(progress) if progress.finished => None,
            Ok(progress) => {
                let has_landed =
                    net.link(rank).is_some_and(|link| link.get(Direction::Up).is_readable());
                if progress.again || progress.wants_read && has_landed {
                    self.attention.push(rank);
                }
                return;
            }
            Err(PumpError::Peer { error, .. }) => Some(ReportedFailure::Peer(error)),
            Err(PumpError::Link(error)) => {
                self.has_begun(id).then_some(ReportedFailure::Link(error))
            }
            Err(error) => {
                let what = format!("the driver cannot serve rank {rank}: {error}");
                events.push(SimEvent::Violation { rule: "full-is-honest", what });
                None
            }
        };
        if let Some(failure) = failure {
            let named = self.peer(id).and_then(|(job, rank)| self.jobs.rank(job, rank));
            self.report_failure(named, failure, events);
        }
        self.close(rank, now, net, events);
    }

    /// Accepts a spawn: starts the requested job, or reports that there is none.
    fn take_spawn(&mut self, session: SessionId, exchange: usize, now: u64) {
        let asked = self.server.spawn_request(session).and_then(|spawn| self.jobs.wanted(spawn));
        self.server.spawn_read(session);
        let begun = asked.and_then(|(job, preputs)| {
            let rank = *self.ranks.get(&session.0)?;
            let spawner = self.server.peer(session)?.0;
            self.begin(job, &preputs, (rank, spawner), (session, exchange), now)
        });
        if begun.is_none() {
            // The session waits for exactly this answer.
            let _ = self.server.answer_spawn(session, exchange, Err(Code::FAIL), &[]);
        }
    }

    /// Starts a job that a rank has requested, if there is room for it.
    fn begin(
        &mut self,
        job: usize,
        preputs: &[(Vec<u8>, Vec<u8>)],
        (rank, spawner): (u32, JobId),
        asker: (SessionId, usize),
        now: u64,
    ) -> Option<()> {
        let spawner = self.server.job(spawner)?.name().clone();
        self.jobs.add(job, Some(spawner), preputs, &mut self.server).ok()?;
        let at = now + self.rng.within(self.jobs.spawns());
        self.jobs.orders.push(JobStart { at, rank, asker, job });
        Some(())
    }

    /// Starts the processes of a job, and reports it to the requester, if that still exists.
    fn start(&mut self, order: JobStart, now: u64, events: &mut Vec<SimEvent>) {
        let JobStart { rank, asker, job, .. } = order;
        let plan = self.jobs.plan(job);
        let (ranks, size) = (plan.first..plan.first + plan.size, plan.size);
        events.push(SimEvent::Spawned { rank, job: plan.name.clone() });
        for rank in ranks.filter(|rank| !self.jobs.connects_by_itself(*rank)).collect::<Vec<_>>() {
            self.open(rank, false, now);
        }
        // The requester may have exited.
        match (asker, self.jobs.id(job)) {
            ((session, exchange), Some(_)) if PMIX && session.is_pmix() => {
                self.answer_pmix_spawn(session, exchange, job);
            }
            ((session, exchange), Some(id)) => {
                let codes = [CodeRun { count: size, code: Code::SUCCESS }];
                let _ = self.server.answer_spawn(session, exchange, Ok(id), &codes);
            }
            _ => {}
        }
    }

    fn close(&mut self, rank: u32, now: u64, net: &mut Net, events: &mut Vec<SimEvent>) {
        let Some(line) = self.lines.get_mut(index(rank)) else { return };
        let Some(id) = line.session.take() else { return };
        net.close(rank, Direction::Down, now);
        events.push(SimEvent::ServerLeft { rank });
        self.ranks.remove(&id.0);
        if let Some(event) = self.server.close(id) {
            self.event(event, now, events);
        }
    }

    /// True if a broken link is a failure of the peer: it was initialized and did not finalize.
    fn has_begun(&self, id: SessionId) -> bool {
        let peer = self.peer(id);
        let member = peer.and_then(|(job, rank)| self.server.job(job)?.member(rank));
        member.is_some_and(|member| matches!(member.phase(), Phase::Open | Phase::Lost))
    }

    /// The known identity of the peer.
    fn peer(&self, id: SessionId) -> Option<(JobId, Rank)> {
        self.server.peer(id).and_then(|(job, rank)| Some((job, rank?)))
    }

    fn report_failure(
        &mut self,
        rank: Option<u32>,
        failure: ReportedFailure,
        events: &mut Vec<SimEvent>,
    ) {
        let reported = match &mut self.mutant {
            Some(mutant) if MUTANTS => mutant.report(rank),
            _ => Some(rank),
        };
        events.extend(reported.map(|rank| SimEvent::Reported { rank, failure }));
    }

    /// Handles the events of the server; true if there were any.
    fn events(&mut self, now: u64, events: &mut Vec<SimEvent>) -> bool {
        let mut has_moved = false;
        while let Some(event) = self.server.poll_event() {
            has_moved = true;
            self.event(event, now, events);
        }
        has_moved
    }

    fn event(&mut self, event: Event, now: u64, events: &mut Vec<SimEvent>) {
        let named = |job, rank| self.jobs.rank(job, rank);
        match event {
            Event::Joined { job, rank } => {
                events.extend(named(job, rank).map(|rank| SimEvent::Joined { rank }));
            }
            Event::Aborted { job, rank, code, .. } => {
                self.report_failure(named(job, rank), ReportedFailure::Aborted(code), events);
            }
            Event::PutTwice { job, key, first, second } => {
                let ranks = named(job, first).zip(named(job, second));
                let key = key.as_bytes().to_vec();
                events.extend(ranks.map(|(first, second)| SimEvent::PutTwice {
                    key,
                    first,
                    second,
                }));
            }
            Event::FenceStuck { job, gone } => {
                self.report_failure(named(job, gone), ReportedFailure::Stuck, events);
            }
            Event::Spawn { session, exchange } => self.take_spawn(session, exchange, now),
            event if PMIX => self.pmix_event(event, now, events),
            _ => {}
        }
    }
}

impl HostConn {
    /// True if the server has a session for it.
    pub const fn is_open(&self) -> bool {
        self.session.is_some()
    }

    /// Number of bytes for which the link had no room.
    pub fn unsent_bytes(&self) -> usize {
        self.carry.unsent_bytes()
    }

    /// Number of bytes that the session has not taken.
    pub fn unconsumed_bytes(&self) -> usize {
        self.carry.unconsumed_bytes()
    }
}

fn line(meter: &Meter) -> HostConn {
    let carried = || Bytes::new(CARRY_BYTES, meter.clone());
    HostConn {
        session: None,
        carry: PumpState::new(carried(), carried()),
        stage: HeldMessages::default(),
    }
}

fn store(bytes: usize) -> Store {
    // A place for every record of the size that a job of MPI makes at least.
    Arena::new(vec![ArenaCell::FREE; bytes.div_ceil(16)], vec![0; bytes])
}

fn instant(now: u64) -> Instant {
    Instant::from_micros(now)
}

/// Bytes of a message that the server holds for one rank.
pub const INBOX_BYTES: usize = MESSAGE_BYTES;

/// Number of requests of one rank that the server holds at once.
pub const EXCHANGES: usize = 4;

/// Bytes that wait in each direction between a link and a session: the longest reply fits, and what
/// is owed at the same time does not always.
pub const CARRY_BYTES: usize = REPLY_BYTES;

const HOST_STREAM: u64 = 1;
