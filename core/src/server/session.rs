//! A session: the input of one peer, its unanswered requests, and its lifecycle, whatever its protocol.

use super::Event;
use super::queue::QueueLink;
use crate::command::Version;
use crate::error::PeerError;
use crate::storage::{Buffer, Slots};
use crate::time::Instant;

/// Session of one peer: its input and its state. `T` is the state of its protocol, and `X` holds the
/// requests that have not been answered.
#[derive(Debug)]
pub struct Session<I, X, T> {
    /// Input of a message that has not ended, or that is not handled yet.
    pub(super) inbox: I,
    pub(super) state: SessionState<X, T>,
}

/// State of a session, without its input.
#[derive(Debug)]
pub(super) struct SessionState<X, T> {
    pub(super) lifecycle: SessionLifecycle,
    /// Requests that have not been answered.
    pub(super) pending: X,
    /// State of the protocol.
    pub(super) protocol: T,
}

/// State that does not depend on the protocol.
#[derive(Debug)]
pub(super) struct SessionLifecycle {
    pub(super) phase: SessionPhase,
    /// Time until which the peer must identify itself.
    pub(super) deadline: Option<Instant>,
    /// Event that the owner has not polled; input pauses until then.
    pub(super) event: Option<Event>,
    /// Length of a message at the front of the inbox that the owner has not read yet.
    pub(super) held_len: Option<usize>,
    /// Links in the queues of sessions that are [`READY`](super::session_table::READY),
    /// [`HAS_EVENT`](super::session_table::HAS_EVENT) and
    /// [`AWAITS_BUFFER`](super::session_table::AWAITS_BUFFER).
    pub(super) links: [QueueLink; QUEUES],
}

/// Phase of a session. The tables of transitions are in [`state`](super::state) and, for PMIx, in
/// `pmix/state.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionPhase {
    /// No version is agreed, or no greeting has arrived; the peer may be unidentified.
    Fresh,
    /// As `Fresh`, after the peer has requested a version that the server does not speak. It may request
    /// another one.
    Declined(Version),
    /// The peer has claimed a rank, and the owner has to verify the claim.
    #[cfg(feature = "pmix")]
    Claimed,
    /// Requests are handled.
    Open,
    /// The peer listens for notices of the server.
    Listening,
    /// `finalize` has arrived; the reply may be pending.
    Leaving,
    /// Protocol error of the peer; the explanation may still be pending.
    Broken(PeerError),
    /// No further input or output.
    Ended,
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

/// State of a session that depends on its protocol.
pub(super) trait ProtocolState {
    /// A request that has not been answered.
    type Request;

    /// True if each request is answered before the next one is handled.
    fn is_lock_step(&self) -> bool;
}

impl<I: Buffer, X, T> Session<I, X, T> {
    pub(super) const fn new(inbox: I, pending: X, deadline: Option<Instant>, protocol: T) -> Self {
        let lifecycle = SessionLifecycle {
            phase: SessionPhase::Fresh,
            deadline,
            event: None,
            held_len: None,
            links: [QueueLink::OUTSIDE; QUEUES],
        };
        Self { inbox, state: SessionState { lifecycle, pending, protocol } }
    }

    /// True if it has no buffer of the pool.
    pub(super) fn is_without_buffer(&self) -> bool {
        I::IS_POOLED && self.inbox.as_slice().is_empty()
    }

    /// Returns the buffer of a session that holds no unfinished message: the bytes behind the last one, which
    /// have all arrived with the last `taken` bytes, stay in the link. Returns their number.
    pub(super) fn leave_in_link(&mut self, taken: usize) -> usize {
        let len = self.inbox.as_slice().len();
        if self.state.lifecycle.held_len.is_some() || len > taken {
            return 0;
        }
        self.inbox.clear();
        len
    }

    /// True if the session goes on without further input: it holds some, may return a buffer for some, or
    /// has to report an error.
    pub(super) fn holds_input(&self) -> bool {
        let is_broken = matches!(self.state.lifecycle.phase, SessionPhase::Broken(_));
        I::IS_POOLED || is_broken || !self.inbox.as_slice().is_empty()
    }

    /// Appends as many of `bytes` as fit to the held input, and returns their number.
    pub(super) fn hold(&mut self, bytes: &[u8]) -> usize {
        self.inbox.extend_fitting(bytes)
    }

    /// Drops the message that the owner has read, so that the session goes on; false if there is none.
    pub(super) fn drop_held(&mut self) -> bool {
        let len = self.state.lifecycle.held_len.take();
        if let Some(len) = len {
            self.inbox.drop_front(len);
        }
        len.is_some()
    }
}

impl<X: Slots<T::Request>, T: ProtocolState> SessionState<X, T> {
    pub(super) fn read_state(&self) -> ReadState {
        let SessionLifecycle { phase, event, held_len, .. } = &self.lifecycle;
        match phase {
            SessionPhase::Listening
            | SessionPhase::Leaving
            | SessionPhase::Broken(_)
            | SessionPhase::Ended => ReadState::Discard,
            #[cfg(feature = "pmix")]
            SessionPhase::Claimed => ReadState::Paused,
            _ if event.is_some() || held_len.is_some() => ReadState::Paused,
            SessionPhase::Fresh | SessionPhase::Declined(_) | SessionPhase::Open => {
                let must_wait = match self.protocol.is_lock_step() {
                    true => self.has_pending(),
                    false => self.is_crowded(),
                };
                if must_wait { ReadState::Paused } else { ReadState::Accept }
            }
        }
    }

    /// Adds a request, and returns its place.
    pub(super) fn push_request(&mut self, request: T::Request) -> usize {
        // Only an explanation can lack a place, since `read_state` waits for one before a request
        // is accepted; the peer then detects the end of the stream.
        self.pending.insert(request).unwrap_or_else(|| self.pending.capacity())
    }

    /// The requests that have not been answered, and their places.
    pub(super) fn pending_requests(&self) -> impl Iterator<Item = (usize, &T::Request)> {
        (0..self.pending.end()).filter_map(|at| Some((at, self.pending.get(at)?)))
    }

    pub(super) fn has_pending(&self) -> bool {
        self.pending.end() > 0
    }

    /// True if the session is over, and nothing is left to send.
    pub(super) fn has_sent_all(&self) -> bool {
        match self.lifecycle.phase {
            SessionPhase::Ended => true,
            SessionPhase::Leaving | SessionPhase::Broken(_) => !self.has_pending(),
            _ => false,
        }
    }

    fn is_crowded(&self) -> bool {
        self.pending_requests().count() >= self.pending.capacity()
    }
}

impl SessionLifecycle {
    /// Ends the session because of a protocol error of its peer. It has no deadline then: the first error
    /// stays.
    pub(super) const fn fail(&mut self, error: PeerError) {
        self.phase = SessionPhase::Broken(error);
        self.deadline = None;
    }

    /// True if the peer has not identified itself in time.
    pub(super) fn is_late(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }
}

/// Number of queues that a session has a link in.
pub(super) const QUEUES: usize = 3;
