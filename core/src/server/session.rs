//! A session: the input of one peer, and the state of the protocol.

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

/// Session of one peer: its input and its state.
#[derive(Debug)]
pub struct Session<I, X> {
    /// Input of a message that has not ended, or that is not handled yet.
    pub(super) inbox: I,
    pub(super) state: SessionState<X>,
}

/// State of a session, without its input.
#[derive(Debug)]
pub(super) struct SessionState<X> {
    pub(super) job: JobId,
    /// Known from the start for a peer on an inherited descriptor; otherwise from its
    /// identification.
    pub(super) rank: Option<Rank>,
    pub(super) phase: SessionPhase,
    /// Protocol version, once agreed.
    pub(super) version: Option<Version>,
    /// Time until which the peer must identify itself.
    pub(super) deadline: Option<Instant>,
    /// True if threads of the peer share the session: one may do what another waits for.
    pub(super) is_threaded: bool,
    /// Challenge that the peer must answer.
    pub(super) challenge: Option<Challenge>,
    /// Rank that the peer claims, while its proof is pending.
    pub(super) claimed: Option<u32>,
    pub(super) pending: X,
    /// Put of several pairs that have not all arrived.
    pub(super) put_all: Option<PutAllState>,
    /// Event that the owner has not polled; input pauses until then.
    pub(super) event: Option<Event>,
    /// Length of a spawn at the front of the inbox that the owner has not read yet.
    pub(super) held_len: Option<usize>,
    /// Links in the queues of sessions that are [`READY`](super::READY) and
    /// [`HAS_EVENT`](super::HAS_EVENT).
    pub(super) links: [QueueLink; 2],
}

/// State of a session. The table of transitions is in [`state`](super::state).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionPhase {
    /// No version is agreed; the peer may be unidentified.
    Fresh,
    /// The version is agreed.
    Open,
    /// The peer listens for notices of the server.
    Listening,
    /// `finalize` has arrived; the reply is pending.
    Leaving,
    /// Protocol error of the peer; the explanation may still be pending.
    Broken(PeerError),
    /// No further input or output.
    Ended,
}

/// Put of several pairs, in progress.
#[derive(Clone, Debug)]
pub(super) struct PutAllState {
    pub(super) header: RequestHeader,
    pub(super) job: JobId,
    pub(super) left: u32,
    /// Answer after the last pair: the first refusal, if any.
    pub(super) response: Response,
}

/// Treatment of input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadState {
    /// Handle the next message.
    Accept,
    /// Hold bytes; an answer or an event has to be taken first.
    Paused,
    /// Discard bytes.
    Discard,
}

/// Peer of a new session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A process on an inherited descriptor, whose rank the owner knows.
    Member {
        /// Its job.
        job: JobId,
        /// Its rank.
        rank: Rank,
    },
    /// A peer that connected to the address of a job and must identify itself.
    Unidentified {
        /// The job.
        job: JobId,
        /// Time limit of the identification.
        deadline: Option<Instant>,
        /// Challenge for the peer. Without one, any peer that knows a rank is accepted; with one, a
        /// peer that can only send `initack` must know the [`token`](super::Member::with_token) of
        /// its rank.
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

    /// Appends as many of `bytes` as fit to the held input, and returns their number.
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
            // Lock-step: until a later version is agreed, each request is answered before the next
            // is handled, so a client may send several at once and rely on their order.
            _ if !self.may_overlap() && self.has_pending() => ReadState::Paused,
            _ if self.is_crowded() => ReadState::Paused,
            _ => ReadState::Accept,
        }
    }

    /// Queues a reply, and returns its place.
    pub(super) fn push_reply(&mut self, exchange: PendingReply) -> usize {
        // Only an explanation can lack a place, since `read_state` waits for one before a request
        // is accepted; the peer then detects the end of the stream.
        self.pending.insert(exchange).unwrap_or_else(|| self.pending.capacity())
    }

    pub(super) fn pending_replies(&self) -> impl Iterator<Item = (usize, &PendingReply)> {
        (0..self.pending.end()).filter_map(|at| Some((at, self.pending.get(at)?)))
    }

    /// True if the reply to a spawn must follow that of an earlier one. A client without names for
    /// its requests assigns replies of one kind in order.
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
