//! What comes in and goes out: the client as a machine.

use super::dialect::Dialect;
use super::inflight::{self, Heard};
use super::state::Stage;
use super::{Client, Event, Hold};
use crate::command::Verb;
use crate::error::{Full, PeerError};
use crate::machine::Machine;
use crate::parts;
use crate::storage::Buffer;
use crate::time::Instant;
use crate::wire::{Framed, Unwritten};

impl<B: Buffer, const SLOTS: usize, const GENERATIONS: u16> Machine
    for Client<B, SLOTS, GENERATIONS>
{
    type Event<'a>
        = Event<'a>
    where
        Self: 'a;

    fn handle_input(&mut self, _now: Instant, bytes: &[u8]) -> Result<usize, PeerError> {
        self.let_go();
        // When it is over, nothing that still comes can matter, and whoever sends it must not be
        // held up.
        let taken = if self.course.is_over() { bytes.len() } else { self.feed(bytes) };
        self.course.fault.map_or(Ok(taken), Err)
    }

    fn handle_timeout(&mut self, _now: Instant) -> Result<(), PeerError> {
        self.course.fault.map_or(Ok(()), Err)
    }

    fn handle_end(&mut self, _now: Instant) -> Result<(), PeerError> {
        self.let_go();
        self.course.ended();
        self.owed = None;
        self.give_up();
        self.course.fault.map_or(Ok(()), Err)
    }

    fn poll_transmit(&mut self, out: &mut [u8]) -> Result<Option<usize>, Full> {
        self.let_go();
        let Some((ticket, kept)) = &self.owed else { return Ok(None) };
        let request = kept.request(self.buffer.as_slice());
        let len = match self.write(&request, *ticket, out) {
            Ok(len) => Some(len),
            Err(Unwritten::Full(full)) => return Err(full),
            // `start` has tried to write it, so this does not happen; nothing can be sent then.
            Err(Unwritten::Misuse(_)) => None,
        };
        self.owed = None;
        if self.hold == Hold::Outgoing {
            self.clear_buffer();
        }
        self.course.sent();
        Ok(len)
    }

    fn poll_event(&mut self) -> Option<Event<'_>> {
        self.let_go();
        if self.hold != Hold::Whole {
            return None;
        }
        self.hold = Hold::Lent;
        let Heard { ticket, verb } = self.heard;
        // The opening of PMI is answered in lines, whatever comes then.
        let dialect = match (verb, self.dialect()) {
            (Verb::Init, Dialect::Frames) => Dialect::Lines,
            (_, dialect) => dialect,
        };
        let mut reply = dialect.read(self.buffer.as_slice()).ok()?;
        reply.to = verb;
        Some(Event::Reply { ticket, reply })
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn is_finished(&self) -> bool {
        self.course.fault.is_some() || self.course.stage == Stage::Ended
    }
}

impl<B: Buffer, const SLOTS: usize, const GENERATIONS: u16> Client<B, SLOTS, GENERATIONS> {
    /// Reads the whole answer in the buffer, and learns from it.
    fn take_up(&mut self) {
        let read = self.dialect().read(self.buffer.as_slice());
        let reply = match &read {
            Ok(reply) => reply,
            Err(bad) => return self.course.fault = Some(PeerError::Malformed(*bad)),
        };
        if parts::CIRCLES && reply.to == Verb::PutPair {
            // What was announced is answered as a whole; if it was refused while pairs were on
            // their way, a server may have refused each of them too.
            return self.clear_buffer();
        }
        let Some(heard) = self.inflight.answered(reply) else {
            let (got, expected) = (inflight::reported(reply.to), self.inflight.expected());
            return self.course.fault = Some(PeerError::OutOfOrder { got, expected });
        };
        self.course.answered(reply);
        if self.course.fault.is_some() {
            return;
        }
        if let Err(bad) = self.learnt.learn(reply) {
            return self.course.fault = Some(PeerError::Malformed(bad));
        }
        self.heard = heard;
        self.hold = Hold::Whole;
        if heard.verb == Verb::Init && (parts::FRAMES || parts::OWN_FRAMES) {
            self.dialect = Dialect::of(self.version());
        }
    }

    /// Takes input until an answer is whole, or something is wrong with it.
    fn feed(&mut self, bytes: &[u8]) -> usize {
        let mut rest = bytes;
        while self.hold == Hold::Incoming && !rest.is_empty() {
            let dialect = self.dialect();
            let stride = dialect.stride(self.buffer.as_slice(), rest);
            let (taken, after) = rest.split_at_checked(stride).unwrap_or((rest, b""));
            if self.buffer.extend(taken).is_err() {
                let limit_bytes = self.buffer.as_slice().len() + self.buffer.room();
                self.course.fault = Some(PeerError::MessageTooLong { limit_bytes });
            } else {
                rest = after;
                match dialect.frame(self.buffer.as_slice()) {
                    Ok(Framed::Whole(_)) => self.take_up(),
                    Ok(Framed::Partial) => {}
                    Err(bad) => self.course.fault = Some(PeerError::Malformed(bad)),
                }
            }
            if self.course.fault.is_some() {
                self.give_up();
                break;
            }
        }
        bytes.len() - rest.len()
    }

    /// Forgets what cannot go on after a fault, if there was one.
    fn give_up(&mut self) {
        if self.course.fault.is_none() {
            return;
        }
        // An answer that came whole before the fault is still the owner's to read.
        if self.hold != Hold::Whole {
            self.clear_buffer();
        }
        self.owed = None;
        self.inflight.clear();
    }
}
