//! Input and output of the client as a machine.

use super::answer::{PmixAnswer, read_all, read_event, read_status};
use super::queued_request::QueuedPmixRequest;
use super::{Outgoing, PmixClient, PmixState, PmixTicket, SentRequest, VERSION};
use crate::error::{Code, Full, Malformed, PeerError};
use crate::machine::Machine;
use crate::storage::Buffer;
use crate::time::Instant;
use crate::wire::pmix::greeting::{
    Credential, Greeting, Kind, TOOL_WELCOME_BYTES, read_tool_welcome, read_welcome,
};
use crate::wire::pmix::header::{Header, TAG_EVENT, TAG_REQUESTS};
use crate::wire::pmix::names::{Command, Status};
use crate::wire::pmix::{Family, Format, List, Packer, Proc, Type, Unpacker};

/// Event of a PMIx client.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum PmixClientEvent<'a> {
    /// A request is answered.
    Reply {
        /// Ticket that [`PmixClient::start`] returned.
        ticket: PmixTicket,
        /// Command of the request.
        command: Command,
        /// Status of the request.
        status: Status,
        /// Further content of the reply, lent until the next call.
        answer: PmixAnswer<'a>,
    },
    /// An event for which this client has registered.
    Happened {
        /// Code of the event.
        code: Status,
        /// Process that the event concerns.
        source: Proc<'a>,
        /// Processes that the event reaches: one of [`range`](crate::wire::pmix::names::range).
        range: u8,
        /// Further attributes of the event.
        infos: List<'a>,
    },
}

/// Current use of the buffer for replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PmixBufferUse {
    /// An incomplete reply, or nothing.
    Incoming,
    /// A whole reply that the owner has not polled.
    Whole(SentRequest, Status),
    /// An event that the owner has not polled.
    Event,
    /// A reply or event that is lent to the owner; the next call releases it.
    Lent,
}

impl<B: Buffer, const SLOTS: usize> Machine for PmixClient<B, SLOTS> {
    type Event<'a>
        = PmixClientEvent<'a>
    where
        Self: 'a;

    fn handle_input(&mut self, _now: Instant, bytes: &[u8]) -> Result<usize, PeerError> {
        self.release_buffer();
        match self.state {
            PmixState::Failed(error) => Err(error),
            PmixState::Ended => Ok(bytes.len()),
            _ => self.feed(bytes).map_err(|error| self.fail(error)),
        }
    }

    fn handle_timeout(&mut self, _now: Instant) -> Result<(), PeerError> {
        match self.state {
            PmixState::Failed(error) => Err(error),
            _ => Ok(()),
        }
    }

    fn handle_end(&mut self, _now: Instant) -> Result<(), PeerError> {
        self.release_buffer();
        match self.state.ended() {
            Ok(next) => {
                self.outgoing = None;
                self.state = next;
                Ok(())
            }
            Err(error) => Err(self.fail(error)),
        }
    }

    fn poll_transmit(&mut self, out: &mut [u8]) -> Result<Option<usize>, Full> {
        self.release_buffer();
        let (len, sent) = match self.outgoing {
            None => return Ok(None),
            Some(Outgoing::Greeting(_)) if self.state != PmixState::Greeting => return Ok(None),
            Some(Outgoing::Greeting(ticket)) => {
                (self.greet(out)?, Some(Outgoing::Request(ticket, QueuedPmixRequest::Job)))
            }
            // The request after the greeting waits until the client is admitted.
            Some(Outgoing::Request(..)) if self.state == PmixState::Greeting => return Ok(None),
            Some(Outgoing::Request(ticket, kept)) => (self.write(ticket, kept, out)?, None),
        };
        if let Some(Outgoing::Request(_, kept)) = self.outgoing {
            if let QueuedPmixRequest::Commit(until) = kept {
                self.puts.drop_sent(until);
            }
            self.request.clear();
        }
        self.outgoing = sent;
        Ok(Some(len))
    }

    fn poll_event(&mut self) -> Option<PmixClientEvent<'_>> {
        self.release_buffer();
        let (hold, format) = (self.buffer_use, self.identity.format);
        if matches!(hold, PmixBufferUse::Incoming | PmixBufferUse::Lent) {
            return None;
        }
        self.buffer_use = PmixBufferUse::Lent;
        let body = self.response.as_slice().get(Header::BYTES..).unwrap_or(b"");
        let mut from = Unpacker::new(body, format);
        let PmixBufferUse::Whole(SentRequest { ticket, command }, status) = hold else {
            // It was checked on arrival.
            return read_event(from).ok();
        };
        let answer = match (command, read_status(&mut from)) {
            // The job-level information is kept in `job`.
            (Command::REQ, _) | (_, Err(_)) => PmixAnswer::nothing(command, format),
            _ => PmixAnswer::new(command, from, self.identity.rank),
        };
        Some(PmixClientEvent::Reply { ticket, command, status, answer })
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn is_finished(&self) -> bool {
        matches!(self.state, PmixState::Ended | PmixState::Failed(_))
    }
}

impl<B: Buffer, const SLOTS: usize> PmixClient<B, SLOTS> {
    fn greet(&self, out: &mut [u8]) -> Result<usize, Full> {
        let identity = &self.identity;
        let native = identity.credential.map(Credential::bytes);
        let greeting = Greeting {
            credential_type: if native.is_some() { b"native" } else { b"none" },
            credential: native.as_ref().map_or(b"", |bytes| bytes),
            kind: if self.tool.is_some() { Kind::Tool } else { Kind::Client },
            owner: self.tool.map(|(tool, _)| (tool.owner.user, tool.owner.group)),
            identity: match self.tool {
                Some(_) => None,
                None => Some((identity.nspace.as_bytes(), identity.rank)),
            },
            version: VERSION,
            encoding: encoding(identity.format),
            format: identity.format,
            store: b"hash",
            extra: self.tool.map(|(_, count)| List {
                of: Type::INFO,
                count,
                bytes: self.request.as_slice(),
                format: identity.format,
            }),
        };
        greeting.write(out)
    }

    fn write(
        &self,
        ticket: PmixTicket,
        kept: QueuedPmixRequest,
        out: &mut [u8],
    ) -> Result<usize, Full> {
        let (head, body) = match out.split_at_mut_checked(Header::BYTES) {
            Some((head, body)) => (head, body),
            None => (&mut [][..], &mut [][..]),
        };
        let mut to = Packer::new(body, self.identity.format);
        kept.write(self.request.as_slice(), &self.puts, &mut to);
        let body_bytes = to.len();
        let needed = Header::BYTES.saturating_add(body_bytes);
        to.finish().map_err(|_| Full { needed })?;
        let (index, tag) = (self.state.index(), ticket.0);
        let body_bytes = u32::try_from(body_bytes).unwrap_or(u32::MAX);
        if head.is_empty() {
            return Err(Full { needed });
        }
        crate::storage::copy(head, &Header { index, tag, body_bytes }.bytes());
        Ok(needed)
    }

    /// Takes input until a reply is whole.
    fn feed(&mut self, bytes: &[u8]) -> Result<usize, PeerError> {
        let mut rest = bytes;
        while self.buffer_use == PmixBufferUse::Incoming
            && !rest.is_empty()
            && self.state != PmixState::Ended
        {
            let skipped = self.unasked_bytes.min(rest.len());
            self.unasked_bytes -= skipped;
            rest = rest.get(skipped..).unwrap_or(b"");
            let (taken, after) = rest.split_at(self.stride().min(rest.len()));
            if self.response.extend(taken).is_err() {
                let limit_bytes = self.response.as_slice().len() + self.response.room();
                return Err(PeerError::MessageTooLong { limit_bytes });
            }
            rest = after;
            match self.state {
                PmixState::Fresh => return Err(unasked("nothing")),
                PmixState::Greeting => self.receive_welcome()?,
                _ => self.receive_message()?,
            }
        }
        Ok(bytes.len() - rest.len())
    }

    /// Number of missing bytes of the current part: welcome, header or body.
    fn stride(&self) -> usize {
        let held = self.response.as_slice();
        let end = match (self.state, Header::read(held)) {
            // The status decides whether more follows.
            (PmixState::Greeting, _) if held.len() < STATUS_BYTES => STATUS_BYTES,
            (PmixState::Greeting, _) if self.tool.is_some() => TOOL_WELCOME_BYTES,
            (PmixState::Greeting, _) => WELCOME_BYTES,
            (_, Some(header)) => {
                let body = usize::try_from(header.body_bytes).unwrap_or(usize::MAX);
                Header::BYTES.saturating_add(body)
            }
            (_, None) => Header::BYTES,
        };
        end.saturating_sub(held.len())
    }

    fn receive_welcome(&mut self) -> Result<(), PeerError> {
        let held = self.response.as_slice();
        let refused = |status| PeerError::Refused(Code(status));
        let welcome = match self.tool {
            None => read_welcome(held).map(|(welcome, _)| welcome.map_err(refused)),
            Some(_) => read_tool_welcome(held).map(|welcome| {
                let (nspace, rank) = welcome.map_err(refused)?;
                self.identity.rank = rank;
                let name = self.identity.nspace.become_name(nspace);
                // Messages of tools have no index.
                let named = name.map(|()| 0);
                named.map_err(|_| Malformed::new(STATUS_BYTES, "the name of a namespace").into())
            }),
        };
        let Some(welcome) = welcome else { return Ok(()) };
        if let Some(Outgoing::Greeting(_)) = self.outgoing {
            return Err(unasked("the greeting to be sent"));
        }
        self.response.clear();
        self.state = PmixState::Joining { index: welcome? };
        Ok(())
    }

    fn receive_message(&mut self) -> Result<(), PeerError> {
        let held = self.response.as_slice();
        let Some(header) = Header::read(held) else { return Ok(()) };
        let body_bytes = usize::try_from(header.body_bytes).unwrap_or(usize::MAX);
        let place = self.inflight.iter().position(|waiting| {
            waiting.is_some_and(|waiting| waiting.ticket.0 == header.tag && self.is_sent(waiting))
        });
        let Some(place) = place else {
            let is_aborting = matches!(self.state, PmixState::Aborting { .. });
            let whole = Header::BYTES.saturating_add(body_bytes);
            let fits = whole <= self.response.room().saturating_add(held.len());
            if header.tag == TAG_EVENT && self.is_listening && !is_aborting && fits {
                return if held.len() < whole { Ok(()) } else { self.receive_event() };
            }
            // Replies that an abort has made pointless are discarded.
            if header.tag >= TAG_REQUESTS && !is_aborting {
                return Err(unasked("the reply to a request"));
            }
            // A part of it may have arrived before the abort.
            self.unasked_bytes = body_bytes.saturating_sub(held.len() - Header::BYTES);
            self.response.clear();
            return Ok(());
        };
        if body_bytes > self.response.room().saturating_add(held.len() - Header::BYTES) {
            let limit_bytes = held.len() + self.response.room();
            return Err(PeerError::MessageTooLong { limit_bytes });
        }
        if held.len() < Header::BYTES + body_bytes {
            return Ok(());
        }
        let waiting = self.inflight.get_mut(place).and_then(Option::take);
        waiting.map_or(Ok(()), |waiting| self.take_up(waiting))
    }

    /// Handles a whole reply.
    fn take_up(&mut self, waiting: SentRequest) -> Result<(), PeerError> {
        let body = self.response.as_slice().get(Header::BYTES..).unwrap_or(b"");
        let mut from = Unpacker::new(body, self.identity.format);
        let status = if waiting.command == Command::REQ {
            check_job(from, self.identity.nspace.as_bytes())?;
            self.response.drop_front(Header::BYTES);
            core::mem::swap(&mut self.response, &mut self.job);
            self.response.clear();
            Status::SUCCESS
        } else {
            let status = read_status(&mut from)?;
            read_all(waiting.command, from)?;
            status
        };
        self.buffer_use = PmixBufferUse::Whole(waiting, status);
        self.state = self.state.answered(waiting.command);
        Ok(())
    }

    /// Handles a whole event.
    fn receive_event(&mut self) -> Result<(), PeerError> {
        let body = self.response.as_slice().get(Header::BYTES..).unwrap_or(b"");
        read_event(Unpacker::new(body, self.identity.format))?;
        self.buffer_use = PmixBufferUse::Event;
        Ok(())
    }

    /// True if a request has been sent, so that a reply is possible.
    fn is_sent(&self, waiting: SentRequest) -> bool {
        match self.outgoing {
            Some(Outgoing::Greeting(ticket) | Outgoing::Request(ticket, _)) => {
                ticket != waiting.ticket
            }
            None => true,
        }
    }

    fn fail(&mut self, error: PeerError) -> PeerError {
        // A reply that was whole before the fault can still be polled.
        if !matches!(self.buffer_use, PmixBufferUse::Whole(..) | PmixBufferUse::Event) {
            self.response.clear();
        }
        self.forget_pending();
        self.state = PmixState::Failed(error);
        error
    }
}

/// Checks that the server's job-level information is about the own job. A status may stand in its
/// place.
fn check_job(mut from: Unpacker<'_>, nspace: &[u8]) -> Result<(), PeerError> {
    let mut ahead = from;
    match ahead.one(Type::STRING).and_then(|from| from.text()) {
        Ok(Some(name)) if name == nspace => Ok(()),
        Ok(Some(_)) => Err(Malformed::new(0, "the description of the own job").into()),
        _ => {
            let status = read_status(&mut from)?;
            Err(PeerError::Refused(Code(status.0)))
        }
    }
}

const fn unasked(expected: &'static str) -> PeerError {
    PeerError::OutOfOrder { got: "an answer", expected }
}

/// Name of the encoding that this client writes.
const fn encoding(format: Format) -> &'static [u8] {
    match format.family {
        Family::Flex => b"v41",
        Family::Fixed => b"v3",
    }
}

/// Length of the status in front of every welcome.
const STATUS_BYTES: usize = 4;
/// Length of the welcome of a client: a status, and the index of the connection.
const WELCOME_BYTES: usize = 8;
