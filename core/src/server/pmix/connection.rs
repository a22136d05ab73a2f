//! A connection: the bytes of one peer, its identity, and its pending responses.

use super::event::{ConnectionId, PmixEvent};
use super::heartbeat::HeartbeatMonitors;
use super::registrations::EventRegistrations;
use super::response::{PendingRequest, PmixResponse};
use super::shared_bytes::SharedBytes;
use crate::error::{Full, PeerError};
use crate::ids::ProcId;
use crate::server::queue::QueueLink;
use crate::storage::{Buffer, Slots};
use crate::time::Instant;
use crate::wire::pmix::greeting::{write_refusal, write_welcome};
use crate::wire::pmix::header::Header;
use crate::wire::pmix::names::Status;
use crate::wire::pmix::{Format, Release, Request, Unpacker};
use core::marker::PhantomData;

/// Connection of one peer: its input and its state.
#[derive(Debug)]
pub struct Connection<B, I, X> {
    /// Input of a message that has not ended, or that is not handled yet.
    pub(super) inbox: I,
    pub(super) state: ConnState<B, X>,
}

/// State of a connection, without its input.
#[derive(Debug)]
pub(super) struct ConnState<B, X> {
    pub(super) phase: ConnPhase,
    /// The process that the peer claims to be.
    pub(super) peer: Option<ProcId>,
    /// The next connection admitted as the same process.
    pub(super) next_of_peer: Option<ConnectionId>,
    /// True if the owner has admitted the peer.
    pub(super) is_admitted: bool,
    pub(super) format: Format,
    pub(super) release: Release,
    /// The user it claims to run as.
    pub(super) user: Option<u32>,
    /// Time until which the peer must identify itself.
    pub(super) deadline: Option<Instant>,
    pub(super) pending: X,
    /// Type of the bytes in `pending`.
    blocks: PhantomData<B>,
    /// The answer that is being sent, and how much of it was.
    sending: Option<(usize, usize)>,
    /// The number of the next answer that becomes due; they are sent in this order.
    turn: u32,
    /// Event registrations.
    pub(super) registrations: EventRegistrations,
    /// Heartbeat monitors.
    pub(super) heartbeats: HeartbeatMonitors,
    /// Event that the owner has not polled; input pauses until then.
    pub(super) event: Option<PmixEvent>,
    /// Length of a message at the front of the inbox that the owner has not read yet.
    pub(super) held_len: Option<usize>,
    pub(super) ready_link: QueueLink,
    pub(super) event_link: QueueLink,
}

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnPhase {
    /// No greeting has arrived.
    Greeting,
    /// The peer has claimed a rank, and the owner has to verify the claim.
    Claimed,
    /// Requests are handled.
    Open,
    /// FINALIZE has arrived.
    Leaving,
    /// Protocol error of the peer; its answer may still be pending.
    Broken(PeerError),
    /// No further input or output.
    Ended,
}

/// Treatment of input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnReadState {
    /// Handle the next message.
    Accept,
    /// Hold bytes; an answer or an event has to be taken first.
    Paused,
    /// Discard bytes.
    Discard,
}

impl<B, I: Buffer, X> Connection<B, I, X> {
    pub(super) fn new(inbox: I, pendings: X, deadline: Option<Instant>) -> Self {
        let state = ConnState {
            phase: ConnPhase::Greeting,
            peer: None,
            next_of_peer: None,
            is_admitted: false,
            format: Format::PLAIN,
            release: Release::default(),
            user: None,
            deadline,
            pending: pendings,
            blocks: PhantomData,
            sending: None,
            turn: 0,
            registrations: EventRegistrations::new(),
            heartbeats: HeartbeatMonitors::new(),
            event: None,
            held_len: None,
            ready_link: QueueLink::default(),
            event_link: QueueLink::default(),
        };
        Self { inbox, state }
    }

    /// The request at the front that the owner has to answer.
    pub(super) fn request(&self) -> Option<Request<'_>> {
        let message = self.inbox.as_slice().get(..self.state.held_len?)?;
        let body = message.get(Header::BYTES..)?;
        Request::read(Unpacker::new(body, self.state.format)).ok()
    }

    /// Appends as many of `bytes` as fit to the held input, and returns their number.
    pub(super) fn hold(&mut self, bytes: &[u8]) -> usize {
        let len = bytes.len().min(self.inbox.room());
        let fitting = bytes.get(..len).unwrap_or(b"");
        if self.inbox.extend(fitting).is_ok() { len } else { 0 }
    }
}

impl<B: SharedBytes, X: Slots<PendingRequest<B>>> ConnState<B, X> {
    pub(super) fn read_state(&self) -> ConnReadState {
        match self.phase {
            ConnPhase::Leaving | ConnPhase::Broken(_) | ConnPhase::Ended => ConnReadState::Discard,
            ConnPhase::Claimed => ConnReadState::Paused,
            _ if self.event.is_some() || self.held_len.is_some() || self.is_crowded() => {
                ConnReadState::Paused
            }
            ConnPhase::Greeting | ConnPhase::Open => ConnReadState::Accept,
        }
    }

    /// Adds a response, and returns its place. There is always one: input pauses without a free
    /// place.
    pub(super) fn push_response(&mut self, tag: u32, response: PmixResponse<B>) -> usize {
        self.turn = self.turn.wrapping_add(1);
        let pending = PendingRequest { tag, response, order: self.turn };
        self.pending.insert(pending).unwrap_or_else(|| self.pending.capacity())
    }

    /// Replaces a response that was not due.
    pub(super) fn resolve(&mut self, at: usize, response: PmixResponse<B>) {
        self.turn = self.turn.wrapping_add(1);
        let turn = self.turn;
        if let Some(pending) = self.pending.get_mut(at) {
            (pending.response, pending.order) = (response, turn);
        }
    }

    /// Sends the answer that admits the peer, with the index of its connection.
    pub(super) fn push_welcome(&mut self, id: ConnectionId) {
        let mut bytes = [0; 8];
        if write_welcome(id.0, &mut bytes).is_ok() {
            self.push_bare(&bytes);
        }
    }

    /// Marks the greeting as invalid. The owner sees the peer before it is rejected, since a
    /// rejected peer closes the connection and could not be identified any more.
    pub(super) fn defer_rejection(&mut self) {
        self.phase = ConnPhase::Claimed;
    }

    /// Rejects a peer that was not admitted, with a status.
    pub(super) fn reject(&mut self, status: Status, error: PeerError) -> PeerError {
        let mut bytes = [0; 4];
        if write_refusal(status.0, &mut bytes).is_ok() {
            self.push_bare(&bytes);
        }
        self.fail(error)
    }

    /// Fails the connection. The protocol has no message for the reason after admission.
    pub(super) fn fail(&mut self, error: PeerError) -> PeerError {
        self.deadline = None;
        self.phase = ConnPhase::Broken(error);
        error
    }

    pub(super) fn pending_requests(&self) -> impl Iterator<Item = (usize, &PendingRequest<B>)> {
        (0..self.pending.end()).filter_map(|at| Some((at, self.pending.get(at)?)))
    }

    /// Place of the request with this number, which the owner has to answer.
    pub(super) fn host_request(&self, number: usize) -> Option<usize> {
        let mut waiting = self.pending_requests().filter(
            |(_, pending)| matches!(pending.response, PmixResponse::Host(of) if of as usize == number),
        );
        waiting.next().map(|(place, _)| place)
    }

    /// Place of the response of this collective.
    pub(super) fn in_collective(&self, at: usize) -> Option<usize> {
        let mut waiting = self.pending_requests().filter(
            |(_, pending)| matches!(pending.response, PmixResponse::Collective { at: of, .. } if of == at),
        );
        waiting.next().map(|(place, _)| place)
    }

    /// The oldest queued fence.
    pub(super) fn first_queued_fence(&self) -> Option<(usize, Option<Instant>)> {
        let later = self.pending_requests().filter_map(|(place, pending)| match pending.response {
            PmixResponse::QueuedFence { deadline } => Some((place, deadline, pending.order)),
            _ => None,
        });
        let first = later.max_by_key(|(_, _, turn)| self.turn.wrapping_sub(*turn));
        first.map(|(place, deadline, _)| (place, deadline))
    }

    pub(super) fn has_due(&self) -> bool {
        self.pending_requests().any(|(_, pending)| pending.response.is_due())
    }

    /// Earliest deadline of the connection, its requests and its monitors.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let waiting = self.pending_requests().filter_map(|(_, pending)| pending.response.until());
        let monitor = self.heartbeats.deadline().filter(|_| self.phase == ConnPhase::Open);
        self.deadline.into_iter().chain(waiting).chain(monitor).min()
    }

    /// Sends due responses one after the other, as far as there is room.
    pub(super) fn transmit(&mut self, out: &mut [u8]) -> Result<Option<usize>, Full> {
        let (at, sent) = match self.sending {
            Some(sending) => sending,
            None => match self.next_due() {
                Some(at) => (at, 0),
                None => return Ok(None),
            },
        };
        let Some(pending) = self.pending.get(at) else {
            self.sending = None;
            return Ok(None);
        };
        if out.is_empty() {
            return Err(Full { needed: 1 });
        }
        let (len, is_all) = pending.write(self.format, sent, out);
        if is_all {
            self.sending = None;
            self.pending.remove(at);
        } else {
            self.sending = Some((at, sent + len));
        }
        Ok(Some(len))
    }

    fn push_bare(&mut self, bytes: &[u8]) {
        if let Ok(bytes) = heapless::Vec::from_slice(bytes) {
            self.push_response(0, PmixResponse::Bare(bytes));
        }
    }

    fn next_due(&self) -> Option<usize> {
        // Order numbers wrap, so the distance to the next turn is compared.
        let due = self.pending_requests().filter(|(_, pending)| pending.response.is_due());
        due.max_by_key(|(_, pending)| self.turn.wrapping_sub(pending.order)).map(|(at, _)| at)
    }

    fn is_crowded(&self) -> bool {
        self.pending_requests().count() >= self.pending.capacity()
    }
}
