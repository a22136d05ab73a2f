//! The PMIx part of a replay: connections of recorded clients, and their replies.
//!
//! Requests that only a launcher can answer, as for spawns and queries, have the recorded reply. Messages
//! without a request, which report events of processes among others, are not compared.

use super::pmix_record::{RecordedConnection, body_of, conversations, description, has_nodes};
use super::record::{RecordedRank, VALUE_MAX};
use pmi_core::error::Full;
use pmi_core::ids::{JobId, Rank, SessionId};
use pmi_core::machine::Machine;
use pmi_core::server::pmix::{PmixStorage, PmixTables, RankData, SharedBytes};
use pmi_core::server::{Event, Server};
use pmi_core::time::{Duration, Instant};
use pmi_core::wire::pmix::Request;
use pmi_core::wire::pmix::names::Status;
use pmi_host_base::map_kvs::MapKvs;
use pmi_host_base::storage::{Heap, Slab, UniqueSlots};
use pmi_std::BoundedBuf;
use pmi_trace::describe::describe;
use pmi_trace::stream::Splitter;
use pmi_trace::{Direction, Trace};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

/// Storage of the sessions of PMIx clients: as much as the record needs.
#[derive(Debug)]
pub(super) struct ReplayPmix;

/// Immutable bytes that responses share.
#[derive(Clone, Debug)]
pub(super) struct ReplayBytes(Rc<[u8]>);

impl PmixStorage for ReplayPmix {
    type Bytes = ReplayBytes;
    type Inbox = BoundedBuf;
    type Pending<T: 'static> = Slab<T>;
    type Sessions<T: 'static> = Slab<T>;
    type Ranks<T: 'static> = Vec<T>;
    type Namespaces<T: 'static> = Slab<T>;
    type Collectives<T: 'static> = Slab<T>;
    type Names<T: 'static> = Slab<T>;
    type Events<T: 'static> = Slab<T>;
    type Groups<T: 'static> = Slab<T>;
}

impl SharedBytes for ReplayBytes {
    fn make(len: usize, fill: impl FnOnce(&mut [u8])) -> Option<Self> {
        let mut bytes = vec![0; len];
        fill(&mut bytes);
        Some(Self(bytes.into()))
    }
}

impl AsRef<[u8]> for ReplayBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// The server of a replay.
pub(super) type ReplayServer = Server<Heap<ReplayPmix>>;

pub(super) fn new_server() -> ReplayServer {
    let tables = PmixTables {
        sessions: Slab::new(usize::MAX),
        jobs: Slab::new(usize::MAX),
        collectives: Slab::new(usize::MAX),
        names: Slab::new(usize::MAX),
        events: Slab::new(EVENTS_MAX),
        groups: Slab::new(usize::MAX),
    };
    let (sessions, jobs) = (Slab::new(usize::MAX), UniqueSlots::new(usize::MAX));
    Server::with_pmix(sessions, jobs, MapKvs::default(), tables)
}

/// Connections of PMIx clients during a replay.
#[derive(Debug)]
pub(super) struct PmixReplay<'a> {
    conversations: Vec<RecordedConnection<'a>>,
    /// State of each of them.
    states: Vec<PmixConnection>,
    sessions: BTreeMap<SessionId, usize>,
}

#[derive(Debug, Default)]
struct PmixConnection {
    session: Option<SessionId>,
    unhandled: Vec<u8>,
    splitter: Splitter,
    /// Replies of this run, by tag.
    answers: BTreeMap<u32, VecDeque<Vec<u8>>>,
    /// Tag of the last request.
    asked: u32,
    fault: Option<String>,
}

/// An input of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PmixStep {
    /// The message of this position in a conversation.
    Message(usize, usize),
    /// A deadline has passed: the recorded reply is a timeout.
    Timeout,
    /// The end of a conversation.
    Close(usize),
}

/// A reply that differs.
#[derive(Debug)]
pub(super) struct PmixDifference {
    pub(super) who: RecordedRank,
    /// Position and text of the recorded reply.
    pub(super) recorded: Option<(usize, String)>,
    pub(super) now: Option<String>,
}

impl<'a> PmixReplay<'a> {
    pub(super) fn new(trace: &'a Trace) -> Self {
        let conversations = conversations(trace);
        let states = conversations.iter().map(|_| PmixConnection::default()).collect();
        Self { conversations, states, sessions: BTreeMap::new() }
    }

    pub(super) fn ranks(&self) -> BTreeSet<RecordedRank> {
        self.conversations.iter().map(|one| one.who).collect()
    }

    /// Inputs with their positions among all records.
    pub(super) fn steps(&self) -> impl Iterator<Item = (usize, PmixStep)> {
        self.conversations.iter().enumerate().flat_map(|(of, one)| {
            let lines = one.messages.iter().enumerate();
            let steps = lines.filter_map(move |(number, line)| match line.direction {
                Direction::ToServer => Some((line.at, PmixStep::Message(of, number))),
                Direction::ToClient => {
                    is_timeout(line.bytes).then_some((line.at, PmixStep::Timeout))
                }
            });
            steps.chain(one.closed_at.map(|at| (at, PmixStep::Close(of))))
        })
    }

    /// True if a job has PMIx clients on several nodes, of which each has a server of its own.
    pub(super) fn has_nodes(&self, recorded: u32) -> bool {
        has_nodes(recorded, &self.conversations)
    }

    /// True if clients read data that their launcher kept in shared memory.
    pub(super) fn has_store(&self) -> bool {
        self.conversations.iter().any(RecordedConnection::reads_store)
    }

    /// Lets PMIx clients into a job, if it has any.
    pub(super) fn add_job(&self, recorded: u32, job: JobId, ranks: u32, server: &mut ReplayServer) {
        if let Some(info) = description::<ReplayBytes>(recorded, &self.conversations) {
            let data = (0..ranks).map(|rank| RankData::of(Rank(rank))).collect();
            // The tables have room.
            let _ = server.pmix().add_job(job, info, data);
            let mut of_job = self.conversations.iter().filter(|one| one.who.0 == recorded);
            if of_job.any(RecordedConnection::reads_store) {
                let _ = server.pmix().set_shared_store(job);
            }
        }
    }

    /// Executes a step.
    pub(super) fn execute(&mut self, step: PmixStep, now: Instant, server: &mut ReplayServer) {
        match step {
            PmixStep::Message(of, number) => {
                let bytes = self.conversations.get(of).and_then(|one| one.messages.get(number));
                let (Some(line), Some(state)) = (bytes, self.states.get_mut(of)) else { return };
                if state.session.is_none() && state.fault.is_none() {
                    let (inbox, pending) = (BoundedBuf::new(INBOX_MAX), Slab::new(usize::MAX));
                    match server.pmix().open(inbox, pending, None) {
                        Ok(session) => {
                            state.session = Some(session);
                            self.sessions.insert(session, of);
                        }
                        Err(why) => state.fault = Some(why.to_string()),
                    }
                }
                state.splitter.push(Direction::ToServer, line.bytes, |_| {});
                state.asked = body_of(line.bytes).map_or(0, |(tag, _)| tag);
                state.unhandled.extend(line.bytes);
                if let Some(session) = state.session {
                    self.drive(session, now, server);
                }
            }
            // Deadlines count from the time at which a request was handled, a moment after its record.
            PmixStep::Timeout => server.handle_timeout(now.plus(HANDLING)),
            PmixStep::Close(of) => {
                let session = self.states.get_mut(of).and_then(|state| state.session.take());
                if let Some(session) = session {
                    self.sessions.remove(&session);
                    server.close(session);
                }
            }
        }
    }

    /// Alternates output and input of a session until neither makes progress.
    pub(super) fn drive(&mut self, id: SessionId, now: Instant, server: &mut ReplayServer) {
        let state = self.sessions.get(&id).and_then(|of| self.states.get_mut(*of));
        let (Some(state), Some(mut session)) = (state, server.session(id)) else { return };
        let mut out = vec![0; OUT_BYTES];
        loop {
            let mut progresses = false;
            loop {
                let len = match session.poll_transmit(&mut out) {
                    Ok(Some(len)) => len,
                    Ok(None) => break,
                    Err(Full { needed }) if needed > out.len() => {
                        out.resize(needed, 0);
                        continue;
                    }
                    Err(_) => break,
                };
                let PmixConnection { splitter, answers, .. } = state;
                splitter.push(Direction::ToClient, &out[..len], |message| {
                    let tag = body_of(message).map_or(0, |(tag, _)| tag);
                    answers.entry(tag).or_default().push_back(message.to_vec());
                });
                progresses = true;
            }
            match session.handle_input(now, &state.unhandled) {
                Ok(len) => {
                    state.unhandled.drain(..len);
                    progresses |= len > 0;
                }
                Err(error) if !state.unhandled.is_empty() => {
                    state.fault = Some(error.to_string());
                    state.unhandled.clear();
                }
                Err(_) => {}
            }
            if !progresses {
                return;
            }
        }
    }

    /// Handles an event of a session in place of a launcher. Returns the job that a process spawns, by
    /// its recorded number.
    pub(super) fn handle_event(
        &mut self,
        event: &Event,
        jobs: &BTreeMap<u32, JobId>,
        server: &mut ReplayServer,
    ) -> Option<u32> {
        let known = |session: &SessionId, sessions: &BTreeMap<SessionId, usize>| {
            sessions.get(session).copied()
        };
        match event {
            Event::AdmissionRequested { session, job, rank, .. } => {
                let of = known(session, &self.sessions)?;
                let who = self.conversations.get(of)?.who;
                // The recorded launcher has verified the claim.
                match jobs.get(&who.0) == Some(job) && who.1 == rank.0 {
                    true => server.pmix().admit(*session).ok()?,
                    false => server.pmix().refuse(*session, Status::INVALID_CRED),
                }
                None
            }
            Event::AdmissionInvalid { session, status, .. } => {
                server.pmix().refuse(*session, *status);
                None
            }
            Event::ToolAdmissionRequested { session, .. } => {
                server.pmix().refuse(*session, Status::NOT_SUPPORTED);
                None
            }
            Event::HostRequest { session, exchange } => {
                let is_spawn =
                    matches!(server.pmix_ref().request(*session), Some(Request::Spawn { .. }));
                server.pmix().request_read(*session);
                let of = known(session, &self.sessions)?;
                let (conversation, state) = (self.conversations.get(of)?, self.states.get(of)?);
                // A session with an event handles no further request.
                let answer = conversation.answers().find(|(tag, _)| *tag == state.asked);
                if let Some((_, body)) = answer {
                    // The session waits for exactly this reply.
                    let _ = server.pmix().answer_with(*session, *exchange, body);
                }
                is_spawn.then_some(conversation.who.0)
            }
            _ => None,
        }
    }

    /// Replies that differ, and faults of connections.
    pub(super) fn differences(&mut self) -> (Vec<PmixDifference>, Vec<(RecordedRank, String)>) {
        let (mut differences, mut faults) = (Vec::new(), Vec::new());
        for (conversation, state) in self.conversations.iter().zip(&mut self.states) {
            let who = conversation.who;
            let replies = conversation.messages.iter();
            let mut is_first = true;
            for line in replies.filter(|line| line.direction == Direction::ToClient) {
                // The first reply is that to the greeting; others without a tag belong to no request.
                let tag = match body_of(line.bytes) {
                    Some((tag, _)) => tag,
                    None if is_first => GREETING,
                    None => continue,
                };
                is_first = false;
                let now = state.answers.get_mut(&tag).and_then(VecDeque::pop_front);
                let recorded = Some((line.at, line.bytes));
                differences.extend(PmixDifference::of(who, recorded, now.as_deref()));
            }
            state.answers.remove(&GREETING);
            for now in std::mem::take(&mut state.answers).into_values().flatten() {
                differences.extend(PmixDifference::of(who, None, Some(&now)));
            }
            faults.extend(state.fault.take().map(|fault| (who, fault)));
        }
        (differences, faults)
    }
}

impl PmixDifference {
    /// Compares a recorded reply, with its position, and one of this run; `None` if they are alike.
    fn of(who: RecordedRank, recorded: Option<(usize, &[u8])>, now: Option<&[u8]>) -> Option<Self> {
        let text = |bytes: &[u8]| describe(Direction::ToClient, bytes);
        let place = match recorded.map(|(_, bytes)| bytes).zip(now) {
            None => String::new(),
            Some((one, other)) => match (body_of(one), body_of(other)) {
                (Some((_, one)), Some((_, other))) if one == other => return None,
                (Some((_, one)), Some((_, other))) => {
                    let same = one.iter().zip(other).take_while(|(one, other)| one == other);
                    format!(", other bytes from {} on", same.count())
                }
                // The number of the session in the reply to a greeting is that of the server.
                _ if text(one).is_good && text(other).is_good => return None,
                _ => String::new(),
            },
        };
        let line = |bytes: &[u8]| text(bytes).line(VALUE_MAX);
        Some(Self {
            who,
            recorded: recorded.map(|(at, bytes)| (at, line(bytes))),
            now: now.map(|bytes| line(bytes) + &place),
        })
    }
}

/// True if a reply is that to a request with a deadline that has passed.
fn is_timeout(bytes: &[u8]) -> bool {
    let timeout = Status::TIMEOUT.name();
    timeout.is_some() && describe(Direction::ToClient, bytes).field("status") == timeout
}

/// Bound of the time between the record of a request and its deadline, apart from its timeout.
const HANDLING: Duration = Duration::from_millis(10);

/// Key of the reply to a greeting, which has no tag; tags of requests are larger.
const GREETING: u32 = 0;

/// Number of events that are kept for later registrations.
const EVENTS_MAX: usize = 512;

/// Bound of the input buffer, above any message.
const INBOX_MAX: usize = 1 << 30;

/// Bytes of output at once.
const OUT_BYTES: usize = 1 << 16;
