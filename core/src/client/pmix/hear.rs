//! What comes in and goes out: the client as a machine.

use super::answer::{Answer, read_all, read_event, read_status};
use super::kept::Kept;
use super::{Client, Owed, State, Ticket, VERSION, Waiting};
use crate::error::{Code, Full, Malformed, PeerError};
use crate::machine::Machine;
use crate::storage::Buffer;
use crate::time::Instant;
use crate::wire::pmix::greeting::{Credential, Greeting, Kind, read_welcome};
use crate::wire::pmix::header::{Header, TAG_EVENT, TAG_REQUESTS};
use crate::wire::pmix::names::{Command, Status};
use crate::wire::pmix::{Family, Format, List, Packer, Proc, Type, Unpacker};

/// What a client tells its owner.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A question is answered.
    Reply {
        /// What [`Client::start`] gave for it.
        ticket: Ticket,
        /// What was asked.
        command: Command,
        /// How it went.
        status: Status,
        /// What else it says, lent until the next call.
        answer: Answer<'a>,
    },
    /// Something has happened that this client wants to be told of.
    Happened {
        /// What.
        code: Status,
        /// To whom.
        source: Proc<'a>,
        /// Whom it reaches: one of [`range`](crate::wire::pmix::names::range).
        range: u8,
        /// More about it.
        infos: List<'a>,
    },
}

/// What the buffer for answers is in use for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// For an answer that has not ended, or for nothing.
    Incoming,
    /// For an answer that the owner has not seen.
    Whole(Waiting, Status),
    /// For an event that the owner has not seen.
    News,
    /// For what was lent; the next call lets it go.
    Lent,
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
            State::Ended => Ok(bytes.len()),
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
        let (len, sent) = match self.owed {
            None => return Ok(None),
            Some(Owed::Greeting(_)) if self.state != State::Greeting => return Ok(None),
            Some(Owed::Greeting(ticket)) => {
                (self.greet(out)?, Some(Owed::Request(ticket, Kept::Job)))
            }
            // The question behind the greeting has to wait until the client is let in.
            Some(Owed::Request(..)) if self.state == State::Greeting => return Ok(None),
            Some(Owed::Request(ticket, kept)) => (self.write(ticket, kept, out)?, None),
        };
        if let Some(Owed::Request(_, kept)) = self.owed {
            if let Kept::Commit(until) = kept {
                self.posts.forget(until);
            }
            self.said.clear();
        }
        self.owed = sent;
        Ok(Some(len))
    }

    fn poll_event(&mut self) -> Option<Event<'_>> {
        self.let_go();
        let (hold, format) = (self.hold, self.identity.format);
        if matches!(hold, Hold::Incoming | Hold::Lent) {
            return None;
        }
        self.hold = Hold::Lent;
        let body = self.heard.as_slice().get(Header::BYTES..).unwrap_or(b"");
        let mut from = Unpacker::new(body, format);
        let Hold::Whole(Waiting { ticket, command }, status) = hold else {
            // It was read when it came.
            return read_event(from).ok();
        };
        let answer = match (command, read_status(&mut from)) {
            // Its description is kept elsewhere.
            (Command::REQ, _) | (_, Err(_)) => Answer::nothing(command, format),
            _ => Answer::new(command, from, self.identity.rank),
        };
        Some(Event::Reply { ticket, command, status, answer })
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn is_finished(&self) -> bool {
        matches!(self.state, State::Ended | State::Failed(_))
    }
}

impl<B: Buffer, const SLOTS: usize> Client<B, SLOTS> {
    fn greet(&self, out: &mut [u8]) -> Result<usize, Full> {
        let identity = &self.identity;
        let native = identity.credential.map(Credential::bytes);
        let greeting = Greeting {
            credential_type: if native.is_some() { b"native" } else { b"none" },
            credential: native.as_ref().map_or(b"", |bytes| bytes),
            kind: Kind::Client,
            owner: None,
            identity: Some((identity.nspace.as_bytes(), identity.rank)),
            version: VERSION,
            encoding: encoding(identity.format),
            format: identity.format,
            store: b"hash",
            extra: None,
        };
        greeting.write(out)
    }

    fn write(&self, ticket: Ticket, kept: Kept, out: &mut [u8]) -> Result<usize, Full> {
        let (head, body) = match out.split_at_mut_checked(Header::BYTES) {
            Some((head, body)) => (head, body),
            None => (&mut [][..], &mut [][..]),
        };
        let mut to = Packer::new(body, self.identity.format);
        kept.write(self.said.as_slice(), &self.posts, &mut to);
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

    /// Takes input until an answer is whole.
    fn feed(&mut self, bytes: &[u8]) -> Result<usize, PeerError> {
        let mut rest = bytes;
        while self.hold == Hold::Incoming && !rest.is_empty() && self.state != State::Ended {
            let skipped = self.unasked_bytes.min(rest.len());
            self.unasked_bytes -= skipped;
            rest = rest.get(skipped..).unwrap_or(b"");
            let (taken, after) = rest.split_at(self.stride().min(rest.len()));
            if self.heard.extend(taken).is_err() {
                let limit_bytes = self.heard.as_slice().len() + self.heard.room();
                return Err(PeerError::MessageTooLong { limit_bytes });
            }
            rest = after;
            match self.state {
                State::Fresh => return Err(unasked("nothing")),
                State::Greeting => self.hear_welcome()?,
                _ => self.hear_message()?,
            }
        }
        Ok(bytes.len() - rest.len())
    }

    /// How many bytes may be put behind those that are held without reaching over what can be judged.
    fn stride(&self) -> usize {
        let held = self.heard.as_slice();
        let end = match (self.state, Header::read(held)) {
            // The status decides whether a number follows.
            (State::Greeting, _) if held.len() < WELCOME_BYTES / 2 => WELCOME_BYTES / 2,
            (State::Greeting, _) => WELCOME_BYTES,
            (_, Some(header)) => {
                let body = usize::try_from(header.body_bytes).unwrap_or(usize::MAX);
                Header::BYTES.saturating_add(body)
            }
            (_, None) => Header::BYTES,
        };
        end.saturating_sub(held.len())
    }

    fn hear_welcome(&mut self) -> Result<(), PeerError> {
        let Some((welcome, _)) = read_welcome(self.heard.as_slice()) else { return Ok(()) };
        if let Some(Owed::Greeting(_)) = self.owed {
            return Err(unasked("the greeting to be sent"));
        }
        self.heard.clear();
        let index = welcome.map_err(|status| PeerError::Refused(Code(status)))?;
        self.state = State::Joining { index };
        Ok(())
    }

    fn hear_message(&mut self) -> Result<(), PeerError> {
        let held = self.heard.as_slice();
        let Some(header) = Header::read(held) else { return Ok(()) };
        let body_bytes = usize::try_from(header.body_bytes).unwrap_or(usize::MAX);
        let place = self.inflight.iter().position(|waiting| {
            waiting.is_some_and(|waiting| waiting.ticket.0 == header.tag && self.is_sent(waiting))
        });
        let Some(place) = place else {
            let is_aborting = matches!(self.state, State::Aborting { .. });
            let whole = Header::BYTES.saturating_add(body_bytes);
            let fits = whole <= self.heard.room().saturating_add(held.len());
            if header.tag == TAG_EVENT && self.is_listening && !is_aborting && fits {
                return if held.len() < whole { Ok(()) } else { self.take_news() };
            }
            // Answers that an abort has made pointless are not missed.
            if header.tag >= TAG_REQUESTS && !is_aborting {
                return Err(unasked("the answer to a question"));
            }
            // Some of it may have come before the abort.
            self.unasked_bytes = body_bytes.saturating_sub(held.len() - Header::BYTES);
            self.heard.clear();
            return Ok(());
        };
        if body_bytes > self.heard.room().saturating_add(held.len() - Header::BYTES) {
            let limit_bytes = held.len() + self.heard.room();
            return Err(PeerError::MessageTooLong { limit_bytes });
        }
        if held.len() < Header::BYTES + body_bytes {
            return Ok(());
        }
        let waiting = self.inflight.get_mut(place).and_then(Option::take);
        waiting.map_or(Ok(()), |waiting| self.take_up(waiting))
    }

    /// Reads a whole answer.
    fn take_up(&mut self, waiting: Waiting) -> Result<(), PeerError> {
        let body = self.heard.as_slice().get(Header::BYTES..).unwrap_or(b"");
        let mut from = Unpacker::new(body, self.identity.format);
        let status = if waiting.command == Command::REQ {
            check_job(from, self.identity.nspace.as_bytes())?;
            self.heard.drop_front(Header::BYTES);
            core::mem::swap(&mut self.heard, &mut self.job);
            self.heard.clear();
            Status::SUCCESS
        } else {
            let status = read_status(&mut from)?;
            read_all(waiting.command, from)?;
            status
        };
        self.hold = Hold::Whole(waiting, status);
        self.state = self.state.answered(waiting.command);
        Ok(())
    }

    /// Reads a whole event.
    fn take_news(&mut self) -> Result<(), PeerError> {
        let body = self.heard.as_slice().get(Header::BYTES..).unwrap_or(b"");
        read_event(Unpacker::new(body, self.identity.format))?;
        self.hold = Hold::News;
        Ok(())
    }

    /// Whether a question is on its way, so that there can be an answer.
    fn is_sent(&self, waiting: Waiting) -> bool {
        match self.owed {
            Some(Owed::Greeting(ticket) | Owed::Request(ticket, _)) => ticket != waiting.ticket,
            None => true,
        }
    }

    fn fail(&mut self, error: PeerError) -> PeerError {
        // An answer that came whole before the fault is still the owner's to read.
        if !matches!(self.hold, Hold::Whole(..) | Hold::News) {
            self.heard.clear();
        }
        self.forget_exchanges();
        self.state = State::Failed(error);
        error
    }
}

/// Looks at what a server says about the job: that it is about the own one. Instead it may say a status.
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

/// The name of the encoding that this client writes.
const fn encoding(format: Format) -> &'static [u8] {
    match format.family {
        Family::Flex => b"v41",
        Family::Fixed => b"v3",
    }
}

/// A status, and the number that the connection is given.
const WELCOME_BYTES: usize = 8;
