//! Input and output of the client as a machine.

use super::dialect::ClientDialect;
use super::inflight::{self, Received};
use super::state::Stage;
use super::{BufferUse, Client, ClientEvent};
use crate::command::Verb;
use crate::error::{Full, PeerError};
use crate::machine::Machine;
use crate::parts;
use crate::storage::Buffer;
use crate::time::Instant;
use crate::wire::{Framed, WriteError};

impl<B: Buffer, const SLOTS: usize, const GENERATIONS: u16> Machine
    for Client<B, SLOTS, GENERATIONS>
{
    type Event<'a>
        = ClientEvent<'a>
    where
        Self: 'a;

    fn handle_input(&mut self, _now: Instant, bytes: &[u8]) -> Result<usize, PeerError> {
        self.release_buffer();
        // After the end no input matters any more, and the sender must not be held up.
        let taken = if self.lifecycle.is_over() { bytes.len() } else { self.feed(bytes) };
        self.lifecycle.fault.map_or(Ok(taken), Err)
    }

    fn handle_timeout(&mut self, _now: Instant) -> Result<(), PeerError> {
        self.lifecycle.fault.map_or(Ok(()), Err)
    }

    fn handle_end(&mut self, _now: Instant) -> Result<(), PeerError> {
        self.release_buffer();
        self.lifecycle.ended();
        self.queued = None;
        self.give_up();
        self.lifecycle.fault.map_or(Ok(()), Err)
    }

    fn poll_transmit(&mut self, out: &mut [u8]) -> Result<Option<usize>, Full> {
        self.release_buffer();
        let Some((ticket, kept)) = &self.queued else { return Ok(None) };
        let request = kept.request(self.buffer.as_slice());
        let len = match self.write(&request, *ticket, out) {
            Ok(len) => Some(len),
            Err(WriteError::Full(full)) => return Err(full),
            // Unreachable, since `start` has checked that the message can be written; nothing can be
            // sent then.
            Err(WriteError::Misuse(_)) => None,
        };
        self.queued = None;
        if self.buffer_use == BufferUse::Outgoing {
            self.clear_buffer();
        }
        self.lifecycle.sent();
        Ok(len)
    }

    fn poll_event(&mut self) -> Option<ClientEvent<'_>> {
        self.release_buffer();
        if self.buffer_use != BufferUse::Whole {
            return None;
        }
        self.buffer_use = BufferUse::Lent;
        let Received { ticket, verb } = self.received;
        // The opening of PMI is answered in lines, in every version.
        let dialect = match (verb, self.dialect()) {
            (Verb::Init, ClientDialect::Frames) => ClientDialect::Lines,
            (_, dialect) => dialect,
        };
        let mut reply = dialect.read(self.buffer.as_slice()).ok()?;
        reply.to = verb;
        Some(ClientEvent::Reply { ticket, reply })
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn is_finished(&self) -> bool {
        self.lifecycle.fault.is_some() || self.lifecycle.stage == Stage::Ended
    }
}

impl<B: Buffer, const SLOTS: usize, const GENERATIONS: u16> Client<B, SLOTS, GENERATIONS> {
    /// Handles the whole reply in the buffer.
    fn take_up(&mut self) {
        let read = self.dialect().read(self.buffer.as_slice());
        let reply = match &read {
            Ok(reply) => reply,
            Err(bad) => return self.lifecycle.fault = Some(PeerError::Malformed(*bad)),
        };
        if parts::CONNECT && reply.to == Verb::PutPair {
            // An announcement is answered as a whole; if it was refused while pairs were on
            // their way, a server may have refused each of them too.
            return self.clear_buffer();
        }
        let Some(received) = self.inflight.answered(reply) else {
            let (got, expected) = (inflight::reported(reply.to), self.inflight.expected());
            return self.lifecycle.fault = Some(PeerError::OutOfOrder { got, expected });
        };
        self.lifecycle.answered(reply);
        if self.lifecycle.fault.is_some() {
            return;
        }
        if let Err(bad) = self.server_info.learn(reply) {
            return self.lifecycle.fault = Some(PeerError::Malformed(bad));
        }
        self.received = received;
        self.buffer_use = BufferUse::Whole;
        if received.verb == Verb::Init && (parts::PMI2 || parts::BINARY) {
            self.dialect = ClientDialect::of(self.version());
        }
    }

    /// Takes input until a reply is whole or faulty.
    fn feed(&mut self, bytes: &[u8]) -> usize {
        let mut rest = bytes;
        while self.buffer_use == BufferUse::Incoming && !rest.is_empty() {
            let dialect = self.dialect();
            let stride = dialect.stride(self.buffer.as_slice(), rest);
            let (taken, after) = rest.split_at_checked(stride).unwrap_or((rest, b""));
            if self.buffer.extend(taken).is_err() {
                let limit_bytes = self.buffer.as_slice().len() + self.buffer.room();
                self.lifecycle.fault = Some(PeerError::MessageTooLong { limit_bytes });
            } else {
                rest = after;
                match dialect.frame(self.buffer.as_slice()) {
                    Ok(Framed::Whole(_)) => self.take_up(),
                    Ok(Framed::Partial) => {}
                    Err(bad) => self.lifecycle.fault = Some(PeerError::Malformed(bad)),
                }
            }
            if self.lifecycle.fault.is_some() {
                self.give_up();
                break;
            }
        }
        bytes.len() - rest.len()
    }

    /// Drops all exchanges after a fault, if there was one.
    fn give_up(&mut self) {
        if self.lifecycle.fault.is_none() {
            return;
        }
        // A reply that was whole before the fault can still be polled.
        if self.buffer_use != BufferUse::Whole {
            self.clear_buffer();
        }
        self.queued = None;
        self.inflight.clear();
    }
}
