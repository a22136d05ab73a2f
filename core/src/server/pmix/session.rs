//! Session of a PMIx client: its state, its pending requests, and the content of their responses.

use super::event_cache::EventRegistrations;
use super::heartbeat::HeartbeatMonitors;
use super::shared_bytes::{SharedBytes, pack};
use crate::error::{Full, PeerError};
use crate::ids::{JobId, ProcId, SessionId};
use crate::server::session::{ProtocolState, Session, SessionPhase, SessionState};
use crate::storage::{ArrayBuffer, Buffer, Slots, copy};
use crate::time::Instant;
use crate::wire::pmix::greeting::{Layout, write_refusal, write_welcome};
use crate::wire::pmix::header::Header;
use crate::wire::pmix::names::Status;
use crate::wire::pmix::{Format, Release, Request, Type, Unpacker};
use core::marker::PhantomData;

/// State of the session of a PMIx client.
#[derive(Debug)]
pub struct PmixPeerState<B> {
    /// The process that the peer claims to be.
    pub(super) peer: Option<ProcId>,
    /// The next session admitted as the same process.
    pub(super) next_of_peer: Option<SessionId>,
    /// True if the owner has admitted the peer.
    pub(super) is_admitted: bool,
    pub(super) format: Format,
    pub(super) release: Release,
    /// True if the client reads the store of its job in shared memory.
    pub(super) reads_store: bool,
    /// The user it claims to run as.
    pub(super) user: Option<u32>,
    /// Layout of the response to the greeting of a tool; `None` for a rank.
    pub(super) tool: Option<Layout>,
    /// Layout of the response to the greeting of a rank, which may be a tool that its launcher has started.
    pub(super) welcome: Layout,
    /// Type of the bytes in pending requests.
    bytes: PhantomData<B>,
    /// The answer that is being sent, and how much of it was.
    sending: Option<(usize, usize)>,
    /// The number of the next answer that becomes due; they are sent in this order.
    turn: u32,
    /// Event registrations.
    pub(super) registrations: EventRegistrations,
    /// Heartbeat monitors.
    pub(super) heartbeats: HeartbeatMonitors,
}

/// A request without a response, or a notification to send.
#[derive(Clone, Debug)]
pub struct PendingRequest<B> {
    /// The tag of the request or of the notification.
    pub(super) tag: u32,
    pub(super) response: PmixResponse<B>,
    /// Order in which it became due, as an increasing number.
    pub(super) order: u32,
}

/// Content of a response, and the condition under which it is due.
#[derive(Clone, Debug)]
pub(super) enum PmixResponse<B> {
    /// A status, and nothing more.
    Status(Status),
    /// A body.
    Body(B),
    /// A body in two pieces, of which the first is shared by many connections.
    Bodies(B, B),
    /// The answer to a greeting, which has no header.
    Bare(heapless::Vec<u8, 8>),
    /// The answer to the greeting of a tool.
    ToolWelcome(B),
    /// The end of the job's fence with this number.
    Fence { generation: u32, deadline: Option<Instant> },
    /// The same, for a process that is in an earlier fence of the job and enters the next one later.
    QueuedFence { deadline: Option<Instant>, collects_data: bool },
    /// The end of a collective.
    Collective { at: usize, deadline: Option<Instant>, contributed: Option<B> },
    /// Committed data of a process under a key; under any key, if absent.
    Get { job: JobId, rank: u32, key: Option<B>, scope: Option<u8>, deadline: Option<Instant> },
    /// Published data under the keys of this request.
    Lookup { body: B, deadline: Option<Instant> },
    /// The response of the owner to the request with this number, and its body if it is a lookup.
    Host { number: u32, deadline: Option<Instant>, lookup: Option<B> },
}

impl<B> PmixPeerState<B> {
    /// The state of a peer that has sent nothing.
    pub(super) fn new() -> Self {
        Self {
            peer: None,
            next_of_peer: None,
            is_admitted: false,
            format: Format::PLAIN,
            release: Release::default(),
            reads_store: false,
            user: None,
            tool: None,
            welcome: Layout::Client,
            bytes: PhantomData,
            sending: None,
            turn: 0,
            registrations: EventRegistrations::new(),
            heartbeats: HeartbeatMonitors::new(),
        }
    }

    const fn next_turn(&mut self) -> u32 {
        self.turn = self.turn.wrapping_add(1);
        self.turn
    }
}

impl<B> ProtocolState for PmixPeerState<B> {
    type Request = PendingRequest<B>;

    fn is_lock_step(&self) -> bool {
        false
    }
}

impl<B, I: Buffer, X> Session<I, X, PmixPeerState<B>> {
    /// The request at the front that the owner has to answer.
    pub(super) fn request(&self) -> Option<Request<'_>> {
        let message = self.inbox.as_slice().get(..self.state.lifecycle.held_len?)?;
        let body = message.get(Header::BYTES..)?;
        Request::read(Unpacker::new(body, self.state.protocol.format)).ok()
    }
}

impl<B: SharedBytes, X: Slots<PendingRequest<B>>> SessionState<X, PmixPeerState<B>> {
    /// Adds a response, and returns its place. There is always one: input pauses without a free
    /// place.
    pub(super) fn push_response(&mut self, tag: u32, response: PmixResponse<B>) -> usize {
        let order = self.protocol.next_turn();
        self.push_request(PendingRequest { tag, response, order })
    }

    /// Replaces a response that was not due.
    pub(super) fn resolve(&mut self, at: usize, response: PmixResponse<B>) {
        let turn = self.protocol.next_turn();
        if let Some(pending) = self.pending.get_mut(at) {
            (pending.response, pending.order) = (response, turn);
        }
    }

    /// Sends the answer that admits the peer, with the index of its session.
    pub(super) fn push_welcome(&mut self, id: SessionId) {
        let mut bytes = [0; 8];
        if write_welcome(id.place(), &mut bytes).is_ok() {
            self.push_bare(&bytes);
        }
    }

    /// Marks the greeting as invalid. The owner sees the peer before it is rejected, since a
    /// rejected peer closes the connection and could not be identified any more.
    pub(super) fn defer_rejection(&mut self) {
        self.lifecycle.phase = SessionPhase::Claimed;
    }

    /// Rejects a peer that was not admitted, with a status.
    pub(super) fn reject(&mut self, status: Status, error: PeerError) {
        let mut bytes = [0; 4];
        if write_refusal(status.0, &mut bytes).is_ok() {
            self.push_bare(&bytes);
        }
        self.lifecycle.fail(error);
    }

    /// Place of the request with this number, which the owner has to answer.
    pub(super) fn host_request(&self, number: usize) -> Option<usize> {
        let mut waiting = self.pending_requests().filter(|(_, pending)| match pending.response {
            PmixResponse::Host { number: of, .. } => of as usize == number,
            _ => false,
        });
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
    pub(super) fn first_queued_fence(&self) -> Option<QueuedFence> {
        let later = self.pending_requests().filter_map(|(place, pending)| match pending.response {
            PmixResponse::QueuedFence { deadline, collects_data } => {
                Some((QueuedFence { place, deadline, collects_data }, pending.order))
            }
            _ => None,
        });
        let first = later.max_by_key(|(_, turn)| self.protocol.turn.wrapping_sub(*turn));
        first.map(|(fence, _)| fence)
    }

    pub(super) fn has_due(&self) -> bool {
        self.pending_requests().any(|(_, pending)| pending.response.is_due())
    }

    /// Earliest deadline of the session, its requests and its monitors.
    pub(in crate::server) fn deadline(&self) -> Option<Instant> {
        let waiting = self.pending_requests().filter_map(|(_, pending)| pending.response.until());
        let monitor = self
            .protocol
            .heartbeats
            .deadline()
            .filter(|_| self.lifecycle.phase == SessionPhase::Open);
        self.lifecycle.deadline.into_iter().chain(waiting).chain(monitor).min()
    }

    /// Sends due responses one after the other, as far as there is room.
    pub(super) fn transmit(&mut self, out: &mut [u8]) -> Result<Option<usize>, Full> {
        let (at, sent) = match self.protocol.sending {
            Some(sending) => sending,
            None => match self.next_due() {
                Some(at) => (at, 0),
                None => return Ok(None),
            },
        };
        let Some(pending) = self.pending.get(at) else {
            self.protocol.sending = None;
            return Ok(None);
        };
        if out.is_empty() {
            return Err(Full { needed: 1 });
        }
        let (len, is_all) = pending.write(self.protocol.format, sent, out);
        if is_all {
            self.protocol.sending = None;
            self.pending.remove(at);
        } else {
            self.protocol.sending = Some((at, sent + len));
        }
        Ok(Some(len))
    }

    /// True if the owner closes the link.
    pub(in crate::server) fn is_finished(&self) -> bool {
        match self.lifecycle.phase {
            SessionPhase::Ended => true,
            // The client of a rejected peer reads the reason and closes the connection; the server
            // does not wait for that.
            SessionPhase::Broken(_) => !self.has_due(),
            // A client closes when it has read the answer to FINALIZE.
            _ => false,
        }
    }

    fn push_bare(&mut self, bytes: &[u8]) {
        if let Ok(bytes) = heapless::Vec::from_slice(bytes) {
            self.push_response(0, PmixResponse::Bare(bytes));
        }
    }

    fn next_due(&self) -> Option<usize> {
        // Order numbers wrap, so the distance to the next turn is compared.
        let due = self.pending_requests().filter(|(_, pending)| pending.response.is_due());
        due.max_by_key(|(_, pending)| self.protocol.turn.wrapping_sub(pending.order))
            .map(|(at, _)| at)
    }
}

impl<B: SharedBytes> PendingRequest<B> {
    /// True if the deadline has passed.
    pub(super) fn is_late(&self, now: Instant) -> bool {
        self.response.until().is_some_and(|deadline| deadline <= now)
    }

    /// Writes the message from byte `sent` on as far as there is room, and returns the number of
    /// bytes and whether the message is complete.
    pub(super) fn write(&self, format: Format, sent: usize, out: &mut [u8]) -> (usize, bool) {
        let status: Option<ArrayBuffer<STATUS_BYTES>> = match self.response {
            PmixResponse::Status(status) => pack(format, |to| {
                to.one(Type::STATUS).i32(status.0);
            }),
            _ => None,
        };
        let (body, more) = match &self.response {
            PmixResponse::Body(block) | PmixResponse::ToolWelcome(block) => {
                (block.as_ref(), &b""[..])
            }
            PmixResponse::Bodies(block, more) => (block.as_ref(), more.as_ref()),
            PmixResponse::Bare(bytes) => (&bytes[..], &b""[..]),
            _ => (status.as_ref().map_or(&b""[..], Buffer::as_slice), &b""[..]),
        };
        let body_bytes = u32::try_from(body.len() + more.len()).unwrap_or(u32::MAX);
        let header = Header { index: 0, tag: self.tag, body_bytes }.bytes();
        let header = match self.response {
            PmixResponse::Bare(_) | PmixResponse::ToolWelcome(_) => &b""[..],
            _ => &header,
        };
        let (mut len, mut before) = (0, 0);
        for part in [header, body, more] {
            let rest = part.get(sent.saturating_sub(before)..).unwrap_or(b"");
            let room = out.get_mut(len..).unwrap_or_default();
            copy(room, rest);
            len += rest.len().min(room.len());
            before += part.len();
        }
        (len, sent + len >= before)
    }
}

impl<B> PmixResponse<B> {
    /// The response of the owner to a request without a deadline, which is no lookup.
    pub(super) const fn of_owner() -> Self {
        Self::Host { number: 0, deadline: None, lookup: None }
    }

    /// A response with this body; without memory for it, a status.
    pub(super) fn body(body: Option<B>) -> Self {
        body.map_or(Self::Status(Status::NOMEM), Self::Body)
    }

    /// True if the response can be sent.
    pub(super) const fn is_due(&self) -> bool {
        matches!(
            self,
            Self::Status(_)
                | Self::Body(_)
                | Self::Bodies(..)
                | Self::Bare(_)
                | Self::ToolWelcome(_)
        )
    }

    pub(super) fn until(&self) -> Option<Instant> {
        match self {
            Self::Fence { deadline, .. }
            | Self::QueuedFence { deadline, .. }
            | Self::Collective { deadline, .. }
            | Self::Lookup { deadline, .. }
            | Self::Host { deadline, .. }
            | Self::Get { deadline, .. } => *deadline,
            _ => None,
        }
    }
}

/// A fence of the whole job that a process enters when the one before has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueuedFence {
    /// Place of the request.
    pub(super) place: usize,
    pub(super) deadline: Option<Instant>,
    /// True if it requests the data of all others with the fence.
    pub(super) collects_data: bool,
}

/// Limits of what inboxes hold together; each inbox has its own besides.
///
/// A rank may have several connections, as its threads and children do, so that the limit of one inbox
/// does not bound what a rank makes the server hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnfinishedLimits {
    /// Number of bytes in all connections of one rank.
    pub rank_bytes: usize,
    /// Number of bytes in all connections.
    pub all_bytes: usize,
}

impl UnfinishedLimits {
    /// No limits besides those of the inboxes.
    pub const NONE: Self = Self { rank_bytes: usize::MAX, all_bytes: usize::MAX };
}

/// A status in the longest format: its count, two types, and itself.
const STATUS_BYTES: usize = 16;
