//! Sessions of PMI-1, PMI-2 and the binary dialect.

use super::Storage;
use super::input::{MessageContext, MessageEffect, Protocol};
use super::response::{PendingReply, RequestHeader, Response};
use super::session::{ProtocolState, Session, SessionState};
use super::session_table::SessionTable;
use super::state::{self, Context};
use super::storage::SessionOf;
use crate::auth::{AuthMethod, Challenge};
use crate::command::{Verb, Version};
use crate::error::{Malformed, PeerError};
use crate::ids::{JobId, Rank, SessionId};
use crate::parts::{self, PartOption};
use crate::storage::Slots;
use crate::time::Instant;
use crate::wire::{Dialect, Framed};

/// State of a session of PMI-1, PMI-2 or the binary dialect.
#[derive(Debug)]
pub struct PmiPeerState {
    pub(super) job: JobId,
    /// Known from the start for a peer on an inherited descriptor; otherwise from its
    /// identification.
    pub(super) rank: Option<Rank>,
    /// Protocol version, once agreed.
    pub(super) version: Option<Version>,
    /// True if threads of the peer share the session: one may do what another waits for.
    pub(super) is_threaded: bool,
    /// True if the peer follows the specification where other clients of its form of frames do not.
    pub(super) follows_text: bool,
    /// Challenge that the peer must answer.
    pub(super) challenge: parts::ListenOption<Challenge>,
    /// Rank that the peer claims, while its proof is pending, and the method of the proof.
    pub(super) claimed: parts::ListenOption<ClaimedRank>,
    /// Put of several pairs that have not all arrived.
    pub(super) put_all: parts::ConnectOption<PutAllState>,
}

/// Rank that a peer claims and has not proved yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClaimedRank {
    pub(super) rank: u32,
    pub(super) method: &'static dyn AuthMethod,
    /// Number of messages of the method that the peer has sent.
    pub(super) rounds: u8,
}

/// State of a session of these protocols, without its input.
pub(super) type PmiSessionState<X> = SessionState<X, PmiPeerState>;

/// Put of several pairs, in progress.
#[derive(Clone, Debug)]
pub(super) struct PutAllState {
    pub(super) header: RequestHeader,
    pub(super) job: JobId,
    pub(super) left: u32,
    /// True after a pair that was handed up for other nodes.
    pub(super) is_handed_up: bool,
    /// Answer after the last pair: the first refusal, if any.
    pub(super) response: Response,
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

impl<I: crate::storage::Buffer, X> Session<I, X, PmiPeerState> {
    pub(super) fn of_peer(peer: Peer, inbox: I, exchanges: X) -> Self {
        let (job, rank, deadline, challenge) = match peer {
            Peer::Member { job, rank } => (job, Some(rank), None, None),
            Peer::Unidentified { job, deadline, challenge } => (job, None, deadline, challenge),
        };
        let protocol = PmiPeerState {
            job,
            rank,
            version: None,
            is_threaded: false,
            follows_text: false,
            challenge: PartOption::keep(challenge),
            claimed: PartOption::keep(None),
            put_all: PartOption::keep(None),
        };
        Self::new(inbox, exchanges, deadline, protocol)
    }
}

impl PmiPeerState {
    /// Form of the message at the front of `bytes`.
    pub(super) fn dialect_of(&self, bytes: &[u8]) -> Dialect {
        let dialect = Dialect::of(bytes, self.version);
        if parts::PMI2 && self.follows_text { dialect.of_text_client() } else { dialect }
    }
}

impl ProtocolState for PmiPeerState {
    type Request = PendingReply;

    /// True until a later version is agreed: a client may send several requests at once and rely on their
    /// order.
    fn is_lock_step(&self) -> bool {
        let may_overlap = parts::GROUPS || parts::PMI2 || parts::BINARY;
        !(may_overlap && self.version.is_some_and(|version| version > Version::V1_1))
    }
}

impl<S: Storage> Protocol<S> for PmiPeerState {
    type Inbox = S::Inbox;
    type Pending = S::Pending<PendingReply>;
    type Dialect = Dialect;

    const HOLDS_WHILE_PAUSED: bool = true;

    fn session(table: &mut SessionTable<S>, id: SessionId) -> Option<&mut SessionOf<S>> {
        table.get_mut(id)
    }

    fn dialect(state: &PmiSessionState<Self::Pending>, bytes: &[u8]) -> Dialect {
        state.protocol.dialect_of(bytes)
    }

    fn frame(dialect: Dialect, bytes: &[u8]) -> Result<Framed, Malformed> {
        dialect.frame_request(bytes)
    }

    fn reorder(dialect: Dialect, bytes: &mut [u8]) -> Result<bool, Malformed> {
        dialect.reorder_requests(bytes)
    }

    fn handle_message(
        state: &mut PmiSessionState<Self::Pending>,
        context: MessageContext<'_, S>,
        dialect: Dialect,
        bytes: &[u8],
    ) -> MessageEffect {
        let MessageContext { id, now, shared, spawns, .. } = context;
        let (jobs, names) = (&mut shared.jobs, &mut shared.names);
        let context = Context { id, jobs, names, spawns, has_signal: S::has_signal, now };
        MessageEffect::Wake(state::handle_message(state, context, dialect, bytes))
    }

    fn fail(state: &mut PmiSessionState<Self::Pending>, to: (Verb, Dialect), error: PeerError) {
        state.fail_unread(to, error);
    }
}

impl<X: Slots<PendingReply>> PmiSessionState<X> {
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
            && self.pending_requests().any(|(_, one)| is_earlier(one))
    }
}
