//! A session: the bytes of one peer, and how far the conversation has come.

use super::Event;
use super::queue::QueueLink;
use super::response::{PendingReply, RequestHeader, Response};
use crate::auth::Challenge;
use crate::command::Version;
use crate::error::PeerError;
use crate::ids::{JobId, Rank};
use crate::parts;
use crate::storage::{Buffer, Slots};
use crate::time::Instant;

/// One conversation with one peer.
#[derive(Debug)]
pub struct Session<I, X> {
    /// Bytes of a message that has not ended, or could not be taken up yet.
    pub(super) inbox: I,
    pub(super) state: SessionState<X>,
}

/// A session without its bytes.
#[derive(Debug)]
pub(super) struct SessionState<X> {
    pub(super) job: JobId,
    /// Known from the start for a peer on an inherited descriptor; a caller says it.
    pub(super) rank: Option<Rank>,
    pub(super) phase: SessionPhase,
    /// What is spoken, once it is agreed.
    pub(super) version: Option<Version>,
    /// When a caller must have said who it is.
    pub(super) deadline: Option<Instant>,
    /// Several threads of the peer share the session: one may do what another waits for.
    pub(super) is_threaded: bool,
    /// What a caller must prove.
    pub(super) challenge: Option<Challenge>,
    /// Who a caller says it is, while the proof is awaited.
    pub(super) claimed: Option<u32>,
    pub(super) pending: X,
    /// Pairs for a space that were announced and have not all come.
    pub(super) put_all: Option<PutAllState>,
    /// What the owner has not been told yet; nothing more is taken until it has.
    pub(super) event: Option<Event>,
    /// Length of a spawn at the front of the inbox that the owner has not read yet.
    pub(super) held_len: Option<usize>,
    /// For the queues of those that are [`READY`](super::READY) and [`HAS_EVENT`](super::NOTED).
    pub(super) links: [QueueLink; 2],
}

/// How far a conversation has come. The table of transitions is in [`state`](super::state).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionPhase {
    /// Nothing was agreed yet; a caller has not said who it is.
    Fresh,
    /// The version is agreed.
    Open,
    /// The peer listens for what the server says unasked.
    Listening,
    /// The peer said goodbye; the answer is owed.
    Leaving,
    /// The peer did something that ends the session; the explanation may be owed.
    Broken(PeerError),
    /// Nothing more will be said or heard.
    Ended,
}

/// Pairs for a space, on their way.
#[derive(Clone, Debug)]
pub(super) struct PutAllState {
    pub(super) header: RequestHeader,
    pub(super) job: JobId,
    pub(super) left: u32,
    /// The answer, when all have come: the first refusal holds.
    pub(super) response: Response,
}

/// What a session does with bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadState {
    /// Take up the next message.
    Accept,
    /// Hold bytes; an answer or a note has to go first.
    Paused,
    /// Throw bytes away.
    Discard,
}

/// Who opened a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A process that inherited its end from us: it is who we say.
    Member {
        /// Its job.
        job: JobId,
        /// Its rank.
        rank: Rank,
    },
    /// Somebody who dialled in at the address of a job and has to say who it is.
    Unidentified {
        /// The job.
        job: JobId,
        /// How long it may take to say so.
        deadline: Option<Instant>,
        /// What it must prove. Without one, anybody who knows a rank is believed; with one, a
        /// caller that can only say `initack` must know the [`token`](super::Member::with_token)
        /// of its rank.
        challenge: Option<Challenge>,
    },
}

impl<I: Buffer, X: Slots<PendingReply>> Session<I, X> {
    pub(super) fn new(peer: Peer, inbox: I, exchanges: X) -> Self {
        let (job, rank, deadline, challenge) = match peer {
            Peer::Member { job, rank } => (job, Some(rank), None, None),
            Peer::Unidentified { job, deadline, challenge } => (job, None, deadline, challenge),
        };
        let state = SessionState {
            job,
            rank,
            phase: SessionPhase::Fresh,
            version: None,
            is_threaded: false,
            deadline,
            challenge,
            claimed: None,
            pending: exchanges,
            put_all: None,
            event: None,
            held_len: None,
            links: [QueueLink::default(); 2],
        };
        Self { inbox, state }
    }

    /// Puts as many of `bytes` as fit behind those that are held, and says how many.
    pub(super) fn hold(&mut self, bytes: &[u8]) -> usize {
        let len = bytes.len().min(self.inbox.room());
        let fitting = bytes.get(..len).unwrap_or(b"");
        if self.inbox.extend(fitting).is_ok() { len } else { 0 }
    }
}

impl<X: Slots<PendingReply>> SessionState<X> {
    pub(super) fn read_state(&self) -> ReadState {
        match self.phase {
            SessionPhase::Listening
            | SessionPhase::Leaving
            | SessionPhase::Broken(_)
            | SessionPhase::Ended => ReadState::Discard,
            _ if self.event.is_some() || self.held_len.is_some() => ReadState::Paused,
            // Lock-step: until a session has agreed on more, one question is answered before the
            // next is taken up, so that a client may send several at once and trust their order.
            _ if !self.may_overlap() && self.has_pending() => ReadState::Paused,
            _ if self.is_crowded() => ReadState::Paused,
            _ => ReadState::Accept,
        }
    }

    /// Notes what is owed, and where.
    pub(super) fn push_reply(&mut self, exchange: PendingReply) -> usize {
        // Only an explanation can find no place, since `read_state` waits for one before it takes a
        // question up; the peer then learns from the end of the stream.
        self.pending.insert(exchange).unwrap_or_else(|| self.pending.capacity())
    }

    pub(super) fn pending_replies(&self) -> impl Iterator<Item = (usize, &PendingReply)> {
        (0..self.pending.end()).filter_map(|at| Some((at, self.pending.get(at)?)))
    }

    /// Whether the answer to a spawn has to wait for that to an earlier one. A client that gives no
    /// names to its questions takes answers of one kind in the order of those.
    pub(super) fn must_wait_for_earlier(&self, exchange: &PendingReply) -> bool {
        let is_nameless = |one: &PendingReply| one.header.tag.as_bytes().is_empty();
        let Response::Spawned(number, ..) = exchange.response else { return false };
        let is_earlier = |other: &PendingReply| match other.response {
            Response::Spawn(of) | Response::Spawned(of, ..) => of < number && is_nameless(other),
            _ => false,
        };
        parts::SPAWN
            && is_nameless(exchange)
            && self.pending_replies().any(|(_, one)| is_earlier(one))
    }

    pub(super) fn has_pending(&self) -> bool {
        self.pending.end() > 0
    }

    fn is_crowded(&self) -> bool {
        self.pending_replies().count() >= self.pending.capacity()
    }

    fn may_overlap(&self) -> bool {
        let is_spoken = parts::GROUPS || parts::PMI2 || parts::BINARY;
        is_spoken && self.version.is_some_and(|version| version > Version::V1_1)
    }
}
