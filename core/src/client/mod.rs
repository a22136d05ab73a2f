//! The client's side of one conversation.
//!
//! ```text
//!   caller ── start ──▶ Kept (what is asked) ──▶ poll_transmit ──▶ wire
//!   caller ◀─ poll_event ── Reply (lent) ◀────── handle_input ◀─── wire
//! ```
//!
//! # One buffer
//!
//! A client owns one buffer and uses it for one thing at a time: for the texts of a request until
//! [`poll_transmit`](Machine::poll_transmit) has rendered it, then for the bytes of the answer.
//! Whoever finds it taken is told so and loses nothing: [`Client::start`] says
//! [`Misuse::Busy`], [`handle_input`](Machine::handle_input) takes nothing. What `handle_input`
//! takes never reaches beyond the end of an answer, so an answer can be lent where it lies.
//!
//! # Order
//!
//! [`state`] has the table of transitions. A session of PMI-1.1 has one question at a time; a later
//! version may have as many as there are slots, and answers find their question by verb and tag.

mod dialect;
mod inflight;
mod kept;
mod learnt;
pub mod state;
#[cfg(test)]
mod tests;

use self::dialect::Dialect;
use self::inflight::{Inflight, Waiting};
use self::kept::Kept;
use self::learnt::Learnt;
pub use self::state::State;
use crate::command::{Group, Identity, Maxes, Place, Reply, Request, Spawn, Text, Version};
use crate::error::{Full, Misuse, PeerError};
use crate::ids::KvsName;
use crate::limits::{KEY_BYTES, PMI1_MAX_KVSNAME, VALUE_BYTES};
use crate::machine::Machine;
use crate::storage::Buffer;
use crate::time::Instant;
use crate::wire::{Framed, Unwritten, names};

/// A buffer of this size holds the texts of every PMI-1 request but spawn, and every PMI-1 answer.
pub const BUFFER_BYTES: usize = KEY_BYTES + VALUE_BYTES + 48;

/// The client's end of a conversation.
///
/// Shape: `B` holds one request or one answer, [`BUFFER_BYTES`] is enough; `SLOTS` questions may
/// be out at once where the version allows it. With a fixed buffer a client takes 1.6 KiB.
#[derive(Debug)]
pub struct Client<B, const SLOTS: usize = 1> {
    buffer: B,
    hold: Hold,
    owed: Option<Kept>,
    inflight: Inflight<SLOTS>,
    state: State,
    learnt: Learnt,
    serial: u32,
}

/// The buffer of a client on a board, and of any that needs no more.
pub type FixedBuffer = heapless::Vec<u8, BUFFER_BYTES>;

/// Tells one question of a client from its others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u32);

/// What a client tells its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A question is answered.
    Reply {
        /// What [`Client::start`] gave for it.
        ticket: Ticket,
        /// The answer, lent until the next call.
        reply: Reply<'a>,
    },
}

/// What the buffer is in use for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    /// For an answer that has not ended, or for nothing.
    Incoming,
    /// For the texts of the request that is owed.
    Outgoing,
    /// For an answer that the owner has not seen.
    Whole(Waiting),
    /// For an answer that was lent; the next call lets it go.
    Lent,
}

impl Client<FixedBuffer> {
    /// Makes a client that has said nothing yet, with a buffer of its own.
    pub const fn fixed() -> Self {
        Self::new(FixedBuffer::new())
    }
}

impl<B: Buffer, const SLOTS: usize> Client<B, SLOTS> {
    /// Makes a client that has said nothing yet; `buffer` is empty.
    pub const fn new(buffer: B) -> Self {
        Self {
            buffer,
            hold: Hold::Incoming,
            owed: None,
            inflight: Inflight::new(),
            state: State::Fresh { greeted: false },
            learnt: Learnt::new(),
            serial: 0,
        }
    }

    /// Starts an exchange: keeps what `request` says until it can be transmitted.
    ///
    /// Shape: the texts of the request are copied. Keys and values are as long as the server's
    /// sizes allow, without the C terminator; before [`Request::Maxes`] was asked, the usual sizes
    /// count. A put goes into the caller's own space, whose name [`Request::KvsName`] has learnt.
    /// An abort drops every other exchange, is always possible once before the end, and its text
    /// is cut to what there is room for.
    /// Errors: [`Misuse`], and nothing has changed. [`Misuse::Busy`] while another request waits to
    /// be transmitted, an answer has begun to come or was not polled, or every slot is taken.
    pub fn start(&mut self, request: &Request<'_>) -> Result<Ticket, Misuse> {
        self.let_go();
        let next = self.state.start(request, self.inflight.is_empty())?;
        self.check(request)?;
        let (mut kept, texts) = Kept::new(request, self.learnt.name()).ok_or(UNSAYABLE)?;
        let is_abort = next == State::Aborting;
        if is_abort {
            self.forget_exchanges();
        } else if self.is_busy(texts.iter().any(|text| !text.is_empty())) {
            return Err(Misuse::Busy);
        }
        self.keep(&mut kept, texts, is_abort)?;
        let ticket = self.ticket();
        if !is_abort {
            self.inflight.push(kept.waiting(ticket))?;
        }
        self.owed = Some(kept);
        self.state = next;
        Ok(ticket)
    }

    /// Starts a spawn: renders it into `out`, since nothing bounds its length.
    ///
    /// Shape: the ticket, and how many bytes of `out` the caller has to send before anything that
    /// [`poll_transmit`](Machine::poll_transmit) gives later.
    /// Errors: [`Unwritten::Full`] with the room needed; [`Unwritten::Misuse`] as for
    /// [`start`](Self::start). Nothing has changed then.
    pub fn start_spawn(
        &mut self,
        spawn: Spawn<'_>,
        out: &mut [u8],
    ) -> Result<(Ticket, usize), Unwritten> {
        self.let_go();
        let request = Request::Spawn(spawn);
        let next = self.state.start(&request, self.inflight.is_empty())?;
        if self.is_busy(false) {
            return Err(Misuse::Busy.into());
        }
        let len = self.dialect().write_spawn(spawn, out)?;
        let ticket = self.ticket();
        self.inflight.push(Waiting { ticket, verb: request.verb(), tag: None })?;
        self.state = next;
        Ok((ticket, len))
    }

    /// Where the conversation stands.
    pub const fn state(&self) -> State {
        self.state
    }

    /// The version that is spoken, once `init` was answered.
    pub const fn version(&self) -> Option<Version> {
        self.state.version()
    }

    /// The name of the caller's own space, once it was asked for.
    pub const fn kvsname(&self) -> Option<&KvsName> {
        self.learnt.kvsname.as_ref()
    }

    /// The longest name, key and value; the usual ones until they were asked for.
    pub const fn maxes(&self) -> Maxes {
        self.learnt.maxes
    }

    /// Who the server says this client is, once it has greeted.
    pub const fn identity(&self) -> Option<Identity<'static>> {
        self.learnt.identity
    }

    /// How many questions have no answer yet.
    pub fn outstanding(&self) -> usize {
        self.inflight.len()
    }

    const fn dialect(&self) -> Dialect {
        Dialect::of(self.state.version())
    }

    fn ticket(&mut self) -> Ticket {
        self.serial = self.serial.wrapping_add(1);
        Ticket(self.serial)
    }

    /// Whether a new exchange has to wait, with texts to keep or without.
    fn is_busy(&self, has_texts: bool) -> bool {
        let slots = if self.version().is_some_and(|v| v > Version::V1_1) { SLOTS } else { 1 };
        self.owed.is_some()
            || self.inflight.len() >= slots
            || matches!(self.hold, Hold::Whole(_))
            || (has_texts && !self.buffer.as_slice().is_empty())
    }

    /// Refuses what the server or the wire would not take.
    fn check(&self, request: &Request<'_>) -> Result<(), Misuse> {
        let needs_name = match *request {
            Request::Put { key, value, .. } => {
                within("key", key, self.learnt.maxes.key)?;
                within("value", value, self.learnt.maxes.value)?;
                true
            }
            Request::Get { place, key, .. } => {
                within("key", key, self.learnt.maxes.key)?;
                place == Place::Job(None)
            }
            Request::Fence { group, tag } if self.version() < Some(Version::V1_2) => {
                if group != Group::World || tag.is_some() {
                    return Err(Misuse::NotSayable { what: "a fence of a group before PMI-1.2" });
                }
                false
            }
            _ => false,
        };
        if needs_name && self.learnt.kvsname.is_none() {
            return Err(Misuse::WrongState { needed: "the name of the space was asked for" });
        }
        // The codec knows what a dialect can say; without room it says nothing else.
        match self.dialect().write(request, self.learnt.name(), &mut []) {
            Err(Unwritten::Misuse(misuse)) => Err(misuse),
            _ => Ok(()),
        }
    }

    /// Copies the texts of a request behind each other.
    fn keep(&mut self, kept: &mut Kept, texts: [Text<'_>; 2], cut: bool) -> Result<(), Misuse> {
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
            self.hold = Hold::Outgoing;
        }
        Ok(())
    }

    fn forget_exchanges(&mut self) {
        self.clear_buffer();
        self.owed = None;
        self.inflight.clear();
    }

    fn clear_buffer(&mut self) {
        self.buffer.clear();
        self.hold = Hold::Incoming;
    }

    /// Takes a lent answer back.
    fn let_go(&mut self) {
        if self.hold == Hold::Lent {
            self.clear_buffer();
        }
    }

    /// Reads the whole answer in the buffer, and learns from it.
    fn take_up(&mut self) -> Result<(), PeerError> {
        let reply = self.dialect().read(self.buffer.as_slice())?;
        let Some(waiting) = self.inflight.answered(&reply) else {
            return Err(PeerError::OutOfOrder {
                got: names::of(reply.to).map_or("an unknown answer", |words| words.line_reply),
                expected: self.inflight.expected(),
            });
        };
        let reply = Reply { to: waiting.verb, ..reply };
        self.state = self.state.answered(&reply)?;
        self.learnt.learn(&reply)?;
        self.hold = Hold::Whole(waiting);
        Ok(())
    }

    /// Takes input until an answer is whole.
    fn feed(&mut self, bytes: &[u8]) -> Result<usize, PeerError> {
        let mut rest = bytes;
        while self.hold == Hold::Incoming && !rest.is_empty() {
            let dialect = self.dialect();
            let (taken, after) = rest.split_at(dialect.stride(self.buffer.as_slice(), rest));
            if self.buffer.extend(taken).is_err() {
                let limit_bytes = self.buffer.as_slice().len() + self.buffer.room();
                return Err(PeerError::MessageTooLong { limit_bytes });
            }
            rest = after;
            if let Framed::Whole(_) = dialect.frame(self.buffer.as_slice())? {
                self.take_up()?;
            }
        }
        Ok(bytes.len() - rest.len())
    }

    fn fail(&mut self, error: PeerError) -> PeerError {
        // An answer that came whole before the fault is still the owner's to read.
        if !matches!(self.hold, Hold::Whole(_)) {
            self.clear_buffer();
        }
        self.owed = None;
        self.inflight.clear();
        self.state = State::Failed(error);
        error
    }
}

impl<B: Buffer, const SLOTS: usize> Machine for Client<B, SLOTS> {
    type Event<'a>
        = Event<'a>
    where
        Self: 'a;

    fn handle_input(&mut self, _now: Instant, bytes: &[u8]) -> Result<usize, PeerError> {
        self.let_go();
        match self.state {
            State::Failed(error) => Err(error),
            // Nothing that still comes can matter, and whoever sends it must not be held up.
            State::Aborting | State::Ended => Ok(bytes.len()),
            _ => self.feed(bytes).map_err(|error| self.fail(error)),
        }
    }

    fn handle_timeout(&mut self, _now: Instant) -> Result<(), PeerError> {
        match self.state {
            State::Failed(error) => Err(error),
            _ => Ok(()),
        }
    }

    fn handle_end(&mut self, _now: Instant) -> Result<(), PeerError> {
        self.let_go();
        match self.state.ended() {
            Ok(next) => {
                self.owed = None;
                self.state = next;
                Ok(())
            }
            Err(error) => Err(self.fail(error)),
        }
    }

    fn poll_transmit(&mut self, out: &mut [u8]) -> Result<Option<usize>, Full> {
        self.let_go();
        let Some(kept) = &self.owed else { return Ok(None) };
        let request = kept.request(self.buffer.as_slice());
        let len = match self.dialect().write(&request, self.learnt.name(), out) {
            Ok(len) => Some(len),
            Err(Unwritten::Full(full)) => return Err(full),
            // `start` has tried to write it, so this does not happen; nothing can be sent then.
            Err(Unwritten::Misuse(_)) => None,
        };
        self.owed = None;
        if self.hold == Hold::Outgoing {
            self.clear_buffer();
        }
        self.state = self.state.sent();
        Ok(len)
    }

    fn poll_event(&mut self) -> Option<Event<'_>> {
        self.let_go();
        let Hold::Whole(Waiting { ticket, verb, .. }) = self.hold else { return None };
        self.hold = Hold::Lent;
        let reply = self.dialect().read(self.buffer.as_slice()).ok()?;
        Some(Event::Reply { ticket, reply: Reply { to: verb, ..reply } })
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn is_finished(&self) -> bool {
        matches!(self.state, State::Ended | State::Failed(_))
    }
}

/// Lets a text through that is shorter than a C buffer of `max` bytes.
fn within(what: &'static str, text: Text<'_>, max: u32) -> Result<(), Misuse> {
    let limit_bytes = usize::try_from(max).unwrap_or(usize::MAX).saturating_sub(1);
    let len_bytes = text.len();
    if len_bytes > limit_bytes {
        return Err(Misuse::Length { what, len_bytes, limit_bytes });
    }
    Ok(())
}

const UNSAYABLE: Misuse = Misuse::NotSayable { what: "a request that a client does not start" };

const _: () = {
    let found = "cmd=get_result rc=0 msg=success value= found=TRUE\n".len() + VALUE_BYTES;
    assert!(found <= BUFFER_BYTES);
    let port = "cmd=lookup_result port= info=ok rc=0 msg=success\n".len() + VALUE_BYTES;
    assert!(port <= BUFFER_BYTES);
    let key = "cmd=get_result rc=-1 msg=key__not_found value=unknown\n".len() + KEY_BYTES;
    assert!(key <= BUFFER_BYTES);
    let name = "cmd=my_kvsname rc=0 kvsname=\n".len() + PMI1_MAX_KVSNAME;
    assert!(name <= BUFFER_BYTES);
    // The memory that a small board has to have for a client.
    let client = size_of::<Client<FixedBuffer>>();
    assert!(client <= 1638);
};
