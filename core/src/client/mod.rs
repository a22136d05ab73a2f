//! The client's side of one session.
//!
//! ```text
//!   caller ── send ──────────────────▶ caller's slice ─▶ wire
//!   caller ── start ─▶ QueuedRequest ▶ poll_transmit ──▶ wire
//!   caller ◀─ poll_event ─ Reply ◀──── handle_input ◀─── wire
//! ```
//!
//! # Three ways to send a request
//!
//! [`Client::send`] writes the message at once into a slice that the caller sends.
//! [`Client::send_in_place`] writes it into the buffer of the client, which lends it by
//! [`Client::outgoing`]: a board needs no second slice, and a message that was sent in part is not lost
//! with the call that has sent it. [`Client::start`] keeps the request until
//! [`poll_transmit`], for an owner that drives a machine and a link and has no place for a message.
//! A method that is not called is not linked.
//!
//! # One buffer
//!
//! A client owns one buffer and uses it for one thing at a time: for the texts of a request until
//! [`poll_transmit`] has rendered it, or for the request itself until it is sent; then for the bytes of
//! the reply. A call that finds it in use loses nothing: [`Client::send`] and [`Client::start`] return
//! [`Misuse::Busy`], [`handle_input`] takes nothing. The bytes that `handle_input` takes never reach
//! beyond the end of a reply, so a reply can be lent in place.
//!
//! [`poll_transmit`]: crate::machine::Machine::poll_transmit
//! [`handle_input`]: crate::machine::Machine::handle_input
//!
//! # Order
//!
//! [`state`] has the table of transitions. A session of PMI-1.1 has one request in flight at a time; a
//! later version may have as many as there are slots, and replies are matched by verb and tag.
//! In PMI-2 a client with more than one slot names its exchanges (`thrid`), and a server that returns
//! the name may answer in any order; one that does not is taken to keep to the order of each
//! kind of request.
//!
//! # Two generations
//!
//! The version results from the one that `init` requests and the one that the server agrees to. PMI-1
//! continues at once. PMI-2 continues with [`Request::FullInit`], and the reply identifies the client;
//! if it is an [`Answer::Challenge`](crate::command::Answer::Challenge) instead, [`prove()`] computes
//! the digits for [`Request::Proof`]. A server that does not agree ends the session with
//! [`PeerError::Version`](crate::error::PeerError::Version) or
//! [`PeerError::Refused`](crate::error::PeerError::Refused); over the same connection, a new client may
//! request an older version.
//!
//! # A second connection
//!
//! A process that wants notices of checkpoints and of the end of its job opens a second connection
//! with a [`Listener`].

mod check;
mod dialect;
mod inflight;
mod listener;
#[cfg(feature = "pmix")]
pub mod pmix;
mod proof;
mod queued_request;
mod recv;
mod server_info;
pub mod state;
#[cfg(test)]
mod tests;

use self::check::needed_bytes;
use self::dialect::ClientDialect;
use self::inflight::{Inflight, InflightRequest, Received};
pub use self::listener::{LISTENER_BYTES, Listener, ListenerEvent};
pub use self::proof::{AuthAnswer, AuthProgress, AuthText, MutualProver, Prover, prove};
use self::queued_request::QueuedRequest;
use self::server_info::ServerInfo;
use self::state::Lifecycle;
pub use self::state::State;
use crate::command::{Identity, Maxes, Reply, Request, Text, Verb, Version};
use crate::error::Misuse;
use crate::ids::KvsName;
use crate::limits::{
    KEY_BYTES, KVSNAME_BYTES, PMI1_MAX_KVSNAME, PMI2_LENGTH_DIGITS, TAG_BYTES, VALUE_BYTES,
};
use crate::parts;
use crate::storage::{ArrayBuffer, Buffer};
use crate::wire::WriteError;

/// Size of a buffer for the texts of every PMI-1 request but spawn, and for every PMI-1 reply.
pub const BUFFER_BYTES: usize = KEY_BYTES + VALUE_BYTES + 48;

/// Size of a buffer for every PMI-1 request but spawn, and for every PMI-1 reply; see
/// [`Client::send_in_place`].
pub const PMI1_BUFFER_BYTES: usize = KVSNAME_BYTES + KEY_BYTES + VALUE_BYTES + 32;

/// Size of a buffer for the texts of every PMI-2 request but spawn, and for every PMI-2 reply,
/// with each `;` of a value doubled.
///
/// [`BUFFER_BYTES`] is enough for PMI-2 too if values and ports are short or hold no `;`. Two
/// replies have two values: `ring`, and the port of a service, which servers write twice. Their
/// values fit at their longest, or with each `;` doubled, but not both.
pub const PMI2_BUFFER_BYTES: usize =
    PMI2_LENGTH_DIGITS + 2 * (KEY_BYTES + VALUE_BYTES) + TAG_BYTES + 96;

/// Client of a PMI-1 or PMI-2 session.
///
/// Shape: `B` holds one request or one reply, [`BUFFER_BYTES`] is enough; `SLOTS` requests may
/// be in flight if the version allows it. With a fixed buffer a client takes 1.6 KiB.
/// `GENERATIONS` is 1 for a board that never requests PMI-2, and need not hold the code for it.
#[derive(Debug)]
pub struct Client<B, const SLOTS: usize = 1, const GENERATIONS: u16 = 2> {
    buffer: B,
    buffer_use: BufferUse,
    /// Request that the reply in the buffer answers.
    received: Received,
    queued: Option<(Ticket, QueuedRequest)>,
    inflight: Inflight<SLOTS>,
    lifecycle: Lifecycle,
    dialect: ClientDialect,
    server_info: ServerInfo,
    serial: u32,
    /// Number of pairs that were announced and not sent yet.
    pairs_left: u32,
}

/// Buffer of a client on a board, and of any other with the same need.
pub type FixedBuffer = ArrayBuffer<BUFFER_BYTES>;

/// Buffer of a client that renders its PMI-1 requests in place.
pub type Pmi1Buffer = ArrayBuffer<PMI1_BUFFER_BYTES>;

/// Buffer of a client that uses all of PMI-2.
pub type Pmi2Buffer = ArrayBuffer<PMI2_BUFFER_BYTES>;

/// Identifies one request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Ticket(u32);

/// Event of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum ClientEvent<'a> {
    /// A request is answered.
    ///
    /// All requests but one have one reply. [`Request::GetAll`] has one with the number of pairs
    /// ([`Answer::Count`](crate::command::Answer::Count)), one for each pair
    /// ([`Answer::Pair`](crate::command::Answer::Pair)), and a last one that is neither.
    Reply {
        /// Ticket that [`Client::send`] or [`Client::start`] returned.
        ticket: Ticket,
        /// The reply, lent until the next call.
        reply: Reply<'a>,
    },
}

/// Current use of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BufferUse {
    /// An incomplete reply, or nothing.
    Incoming,
    /// Texts of the queued request.
    Outgoing,
    /// A request of which this many bytes are sent.
    Rendered { sent_bytes: usize },
    /// A whole reply that the owner has not polled.
    Whole,
    /// A reply that is lent to the owner; the next call releases it.
    Lent,
}

impl Client<FixedBuffer> {
    /// Creates a client that has sent nothing yet, with a buffer of its own.
    pub const fn fixed() -> Self {
        Self::new(FixedBuffer::new())
    }
}

impl<B: Buffer, const SLOTS: usize, const GENERATIONS: u16> Client<B, SLOTS, GENERATIONS> {
    /// Creates a client that has sent nothing yet; `buffer` is empty.
    pub const fn new(buffer: B) -> Self {
        Self {
            buffer,
            buffer_use: BufferUse::Incoming,
            received: Received { ticket: Ticket(0), verb: Verb::Unknown },
            queued: None,
            inflight: Inflight::new(),
            lifecycle: Lifecycle::new(),
            dialect: ClientDialect::Lines,
            server_info: ServerInfo::new(),
            serial: 0,
            pairs_left: 0,
        }
    }

    /// Makes this client use the binary dialect from the first byte on, towards a server that supports
    /// it; it opens with [`Version::BINARY`]. No request may have been started yet. A build without the
    /// binary dialect stays with lines and refuses that opening.
    pub const fn use_binary(&mut self) {
        self.dialect = ClientDialect::Binary;
    }

    /// Writes `request` into `out`, which the caller sends before anything else.
    ///
    /// Shape: the ticket, and the number of bytes of `out` that the message has. Keys and values are as
    /// long as the server's sizes allow, without the C terminator; before [`Request::Maxes`] was
    /// answered, the usual sizes count. A put goes into the caller's own space, known from the reply to
    /// [`Request::KvsName`]. The pairs that [`Request::PutAll`] announces follow one by one as
    /// [`Request::PutPair`]; they have its ticket, and one reply comes after the last. An abort drops
    /// every other exchange, and is possible once before the end.
    ///
    /// # Errors
    ///
    /// [`WriteError::Full`] with the room needed, [`WriteError::Misuse`]; nothing has changed
    /// then. [`Misuse::Busy`] while another request waits to be transmitted, a reply was not
    /// polled, or every slot is taken.
    pub fn send(
        &mut self,
        request: &Request<'_>,
        out: &mut [u8],
    ) -> Result<(Ticket, usize), WriteError> {
        let verb = request.verb();
        self.admit(request, verb, false)?;
        let len = self.write(request, self.next_ticket(), out)?;
        if verb == Verb::Abort {
            self.forget_pending();
        }
        let ticket = self.begin(request, verb)?;
        self.lifecycle.sent();
        Ok((ticket, len))
    }

    /// Writes `request` into `out` as [`send`](Self::send) does, without starting an exchange: for an
    /// owner that hands the message to the server by other means than the stream, and without a reply.
    ///
    /// # Errors
    ///
    /// As for [`send`](Self::send), but never [`Misuse::Busy`].
    pub fn encode(&self, request: &Request<'_>, out: &mut [u8]) -> Result<usize, WriteError> {
        self.lifecycle.may_start(request.verb(), true)?;
        self.check(request)?;
        self.write(request, self.next_ticket(), out)
    }

    /// Writes `request` into the buffer of this client, which the owner sends before anything else:
    /// [`outgoing`](Self::outgoing) has the bytes.
    ///
    /// Shape: as for [`send`](Self::send). An abort also drops a request that is sent in part, so that the
    /// owner sends the rest of it first.
    ///
    /// # Errors
    ///
    /// As for [`send`](Self::send), except that an abort with [`WriteError::Full`] has dropped the other
    /// exchanges; [`Misuse::Busy`] also while the previous message is not sent.
    pub fn send_in_place(&mut self, request: &Request<'_>) -> Result<Ticket, WriteError> {
        let verb = request.verb();
        self.admit(request, verb, true)?;
        if verb == Verb::Abort {
            self.forget_pending();
        }
        let mut digits = [0; TICKET_DIGITS];
        let name = self.exchange_name(verb, self.next_ticket(), &mut digits);
        let (dialect, space) = (self.dialect(), self.server_info.name());
        self.buffer.append_with(
            // A request that the dialect cannot express needs no room to be refused.
            || needed_bytes(dialect.write(request, name, space, &mut [])).unwrap_or(0),
            |out| dialect.write(request, name, space, out),
        )?;
        self.buffer_use = BufferUse::Rendered { sent_bytes: 0 };
        let ticket = self.begin(request, verb)?;
        self.lifecycle.sent();
        Ok(ticket)
    }

    /// The part of the message of [`send_in_place`](Self::send_in_place) that is not sent yet; `None` once
    /// [`end_outgoing`](Self::end_outgoing) was called.
    pub fn outgoing(&self) -> Option<&[u8]> {
        let BufferUse::Rendered { sent_bytes } = self.buffer_use else { return None };
        self.buffer.as_slice().get(sent_bytes..)
    }

    /// Records that the link has taken the first `len` bytes of [`outgoing`](Self::outgoing).
    pub const fn advance_outgoing(&mut self, len: usize) {
        if let BufferUse::Rendered { sent_bytes } = &mut self.buffer_use {
            *sent_bytes = sent_bytes.saturating_add(len);
        }
    }

    /// Releases the buffer for the reply, after the whole message was sent.
    pub fn end_outgoing(&mut self) {
        if matches!(self.buffer_use, BufferUse::Rendered { .. }) {
            self.clear_buffer();
        }
    }

    /// Number of bytes that the buffer of this client holds at most.
    pub fn buffer_bytes(&self) -> usize {
        self.buffer.as_slice().len().saturating_add(self.buffer.room())
    }

    /// Starts an exchange as [`send`](Self::send) does, and queues `request` until
    /// [`poll_transmit`](crate::machine::Machine::poll_transmit) writes it: for an owner that drives
    /// this client and its link by [`Machine`](crate::machine::Machine) alone.
    ///
    /// Shape: the texts of the request are copied; those of an abort are cut to the available room. A
    /// spawn has no bound, so it is possible by [`send`](Self::send) only.
    ///
    /// # Errors
    ///
    /// [`Misuse`] as for [`send`](Self::send), and nothing has changed. [`Misuse::Busy`] also
    /// while a reply has begun to arrive and the request has texts.
    pub fn start(&mut self, request: &Request<'_>) -> Result<Ticket, Misuse> {
        let kept = QueuedRequest::new(request, self.server_info.name());
        let has_texts = kept.is_some_and(|(_, texts)| texts.iter().any(|text| !text.is_empty()));
        let verb = request.verb();
        self.admit(request, verb, has_texts)?;
        let (mut kept, texts) = kept.ok_or(UNSUPPORTED)?;
        self.message_bytes(request)?;
        let is_abort = verb == Verb::Abort;
        if is_abort {
            self.forget_pending();
        }
        self.queue_texts(&mut kept, texts, is_abort)?;
        let ticket = self.begin(request, verb)?;
        self.queued = Some((ticket, kept));
        Ok(ticket)
    }

    /// Checks that `request` may be started now.
    fn admit(&mut self, request: &Request<'_>, verb: Verb, has_texts: bool) -> Result<(), Misuse> {
        self.release_buffer();
        self.lifecycle.may_start(verb, self.inflight.is_empty())?;
        self.check(request)?;
        let is_crowded = match verb {
            Verb::Abort => return Ok(()),
            Verb::PutPair if parts::CONNECT => {
                self.announced()?;
                false
            }
            _ => self.is_crowded(verb),
        };
        if is_crowded || self.is_busy(has_texts) {
            return Err(Misuse::Busy);
        }
        Ok(())
    }

    /// Takes a slot for the request, if a reply will follow.
    fn begin(&mut self, request: &Request<'_>, verb: Verb) -> Result<Ticket, Misuse> {
        self.lifecycle.started(verb);
        match *request {
            Request::PutPair { .. } if parts::CONNECT => {
                let announced = self.announced();
                self.pairs_left = self.pairs_left.saturating_sub(1);
                return announced;
            }
            Request::PutAll { pairs, .. } if parts::CONNECT => self.pairs_left = pairs,
            Request::Init { version } => self.lifecycle.asked_for(version),
            _ => {}
        }
        let ticket = self.ticket();
        if verb != Verb::Abort {
            self.inflight.push(InflightRequest::new(ticket, verb, request))?;
        }
        Ok(ticket)
    }

    /// Writes `request` under the number of `ticket`.
    fn write(
        &self,
        request: &Request<'_>,
        ticket: Ticket,
        out: &mut [u8],
    ) -> Result<usize, WriteError> {
        let mut digits = [0; TICKET_DIGITS];
        let name = self.exchange_name(request.verb(), ticket, &mut digits);
        self.dialect().write(request, name, self.server_info.name(), out)
    }

    /// State of the session.
    pub const fn state(&self) -> State {
        self.lifecycle.state()
    }

    /// Agreed version, once `init` was answered.
    pub const fn version(&self) -> Option<Version> {
        self.lifecycle.version()
    }

    /// Name of the caller's own space, once it was requested.
    pub fn kvsname(&self) -> Option<&KvsName> {
        self.server_info.kvsname()
    }

    /// Greatest lengths of name, key and value; the usual ones until they were requested.
    pub const fn maxes(&self) -> Maxes {
        self.server_info.maxes
    }

    /// Identity of this client according to the server, once it was greeted or joined; the name of a
    /// spawner is only in the event.
    pub const fn identity(&self) -> Option<Identity<'static>> {
        self.server_info.identity
    }

    /// True if this client's job was spawned by another job, as far as the server has reported.
    pub const fn is_spawned(&self) -> bool {
        self.server_info.spawned
    }

    /// Number of requests in flight.
    pub fn outstanding(&self) -> usize {
        self.inflight.len()
    }

    /// Dialect of the session, known beforehand if there is no choice.
    const fn dialect(&self) -> ClientDialect {
        match self.dialect {
            ClientDialect::Binary if parts::BINARY => ClientDialect::Binary,
            ClientDialect::Frames if GENERATIONS >= 2 && parts::PMI2 => ClientDialect::Frames,
            _ => ClientDialect::Lines,
        }
    }

    /// True if a reply is partly received.
    pub fn is_receiving(&self) -> bool {
        self.buffer_use == BufferUse::Incoming && !self.buffer.as_slice().is_empty()
    }

    const fn next_ticket(&self) -> Ticket {
        Ticket(self.serial.wrapping_add(1))
    }

    const fn ticket(&mut self) -> Ticket {
        self.serial = self.serial.wrapping_add(1);
        Ticket(self.serial)
    }

    /// Exchange that a pair belongs to.
    fn announced(&self) -> Result<Ticket, Misuse> {
        let announced = self.inflight.oldest(Verb::PutAll).filter(|_| self.pairs_left > 0);
        let needed = "the pair was announced, and nothing was refused since";
        announced.map(|waiting| waiting.ticket).ok_or(Misuse::WrongState { needed })
    }

    /// True if a new request has to wait; `has_texts` if it needs the buffer.
    fn is_busy(&self, has_texts: bool) -> bool {
        self.queued.is_some()
            || matches!(self.buffer_use, BufferUse::Whole | BufferUse::Rendered { .. })
            || (has_texts && !self.buffer.as_slice().is_empty())
    }

    /// True if a new exchange has to wait for the end of another.
    fn is_crowded(&self, verb: Verb) -> bool {
        let slots = match self.version() {
            Some(version) if SLOTS > 1 && version > Version::V1_1 => SLOTS,
            _ => 1,
        };
        // Pairs do not carry the announcement that they belong to.
        let is_second =
            parts::CONNECT && verb == Verb::PutAll && self.inflight.oldest(Verb::PutAll).is_some();
        self.inflight.len() >= slots || is_second
    }

    /// Copies the texts of a request one after the other.
    fn queue_texts(
        &mut self,
        kept: &mut QueuedRequest,
        texts: [Text<'_>; 2],
        cut: bool,
    ) -> Result<(), Misuse> {
        let room = self.buffer.room();
        let len_bytes = texts[0].len().saturating_add(texts[1].len());
        if len_bytes > room && !cut {
            return Err(Misuse::Length { what: "request", len_bytes, limit_bytes: room });
        }
        for (len, text) in kept.lens.iter_mut().zip(texts) {
            let fitting = text.len().min(self.buffer.room());
            *len = fitting;
            match text.as_plain().and_then(|plain| plain.get(..fitting)) {
                Some(plain) => self.buffer.extend(plain),
                None => text.bytes().take(fitting).try_for_each(|b| self.buffer.extend(&[b])),
            }
            .map_err(|full| Misuse::Length {
                what: "request",
                len_bytes: full.needed,
                limit_bytes: room,
            })?;
        }
        if len_bytes > 0 {
            self.buffer_use = BufferUse::Outgoing;
        }
        Ok(())
    }

    fn forget_pending(&mut self) {
        self.clear_buffer();
        self.queued = None;
        self.inflight.clear();
    }

    fn clear_buffer(&mut self) {
        self.buffer.clear();
        self.buffer_use = BufferUse::Incoming;
    }

    /// Releases a lent reply.
    fn release_buffer(&mut self) {
        if matches!(self.buffer_use, BufferUse::Lent) {
            self.clear_buffer();
        }
    }
}

/// Digits of a ticket.
const TICKET_DIGITS: usize = 10;

const UNSUPPORTED: Misuse =
    Misuse::NotRepresentable { what: "a request that a client does not start" };

const _: () = {
    let found = "cmd=get_result rc=0 msg=success value= found=TRUE\n".len() + VALUE_BYTES;
    assert!(found <= BUFFER_BYTES);
    let port = "cmd=lookup_result port= info=ok rc=0 msg=success\n".len() + VALUE_BYTES;
    assert!(port <= BUFFER_BYTES);
    let key = "cmd=get_result rc=-1 msg=key__not_found value=unknown\n".len() + KEY_BYTES;
    assert!(key <= BUFFER_BYTES);
    let name = "cmd=my_kvsname rc=0 kvsname=\n".len() + PMI1_MAX_KVSNAME;
    assert!(name <= BUFFER_BYTES);
    let put = "cmd=put kvsname= key= value=\n".len() + KVSNAME_BYTES + KEY_BYTES + VALUE_BYTES;
    assert!(put <= PMI1_BUFFER_BYTES && BUFFER_BYTES <= PMI1_BUFFER_BYTES);
    // Memory of a small board for a client.
    let client = size_of::<Client<FixedBuffer>>();
    assert!(client <= 1638);
    let found = "123456cmd=info-getnodeattr-response;thrid=;rc=0;found=TRUE;value=;".len();
    assert!(found + TAG_BYTES + 2 * VALUE_BYTES <= PMI2_BUFFER_BYTES);
    let pair = "123456cmd=kvs-getall-pair-response;thrid=;key=;val=;".len();
    assert!(pair + TAG_BYTES + 2 * (KEY_BYTES + VALUE_BYTES) <= PMI2_BUFFER_BYTES);
    let port = "123456cmd=name-lookup-response;thrid=;rc=0;value=;port=;found=TRUE;".len();
    assert!(port + TAG_BYTES + 2 * VALUE_BYTES <= PMI2_BUFFER_BYTES);
    let ring =
        "123456cmd=ring-response;thrid=;rc=0;ring-count=1234567890;ring-left=;ring-right=;".len();
    assert!(ring + TAG_BYTES + 2 * VALUE_BYTES <= PMI2_BUFFER_BYTES);
    // Longest messages of an owner without `;` in its values, with the small buffer.
    let found = "123456cmd=info-getnodeattr-response;rc=0;found=TRUE;value=;".len();
    assert!(found + VALUE_BYTES <= BUFFER_BYTES);
};
