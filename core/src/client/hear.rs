//! What comes in and goes out: the client as a machine.

use super::dialect::Dialect;
use super::inflight::{self, Waiting};
use super::{Client, Event, Hold, State};
use crate::command::{Reply, Verb};
use crate::error::{Full, PeerError};
use crate::machine::Machine;
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
        let Some((ticket, kept)) = &self.owed else { return Ok(None) };
        let request = kept.request(self.buffer.as_slice());
        let len = match self.write(&request, *ticket, out) {
            Ok(len) => Some(len),
            Err(Unwritten::Full(full)) => return Err(full),
            // `start` has tried to write it, so this does not happen; nothing can be sent then.
            Err(Unwritten::Misuse(_)) => None,
        };
        self.owed = None;
        if matches!(self.hold, Hold::Outgoing) {
            self.clear_buffer();
        }
        self.state = self.state.sent();
        Ok(len)
    }

    fn poll_event(&mut self) -> Option<Event<'_>> {
        self.let_go();
        let Hold::Whole(Waiting { ticket, verb, .. }) = self.hold else { return None };
        self.hold = Hold::Lent;
        // The opening of PMI is answered in lines, whatever comes then.
        let dialect = match (verb, self.dialect()) {
            (Verb::Init, Dialect::Frames) => Dialect::Lines,
            (_, dialect) => dialect,
        };
        let reply = dialect.read(self.buffer.as_slice()).ok()?;
        Some(Event::Reply { ticket, reply: Reply { to: verb, ..reply } })
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn is_finished(&self) -> bool {
        matches!(self.state, State::Ended | State::Failed(_))
    }
}

impl<B: Buffer, const SLOTS: usize, const GENERATIONS: u16> Client<B, SLOTS, GENERATIONS> {
    /// Reads the whole answer in the buffer, and learns from it.
    fn take_up(&mut self) -> Result<(), PeerError> {
        let reply = self.dialect().read(self.buffer.as_slice())?;
        if reply.to == Verb::PutPair {
            // What was announced is answered as a whole; if it was refused while pairs were on
            // their way, a server may have refused each of them too.
            self.clear_buffer();
            return Ok(());
        }
        let Some(waiting) = self.inflight.answered(&reply) else {
            let expected = self.inflight.expected();
            return Err(PeerError::OutOfOrder { got: inflight::reported(reply.to), expected });
        };
        let reply = Reply { to: waiting.verb, ..reply };
        self.state = self.state.answered(&reply)?;
        self.learnt.learn(&reply)?;
        self.hold = Hold::Whole(waiting);
        if waiting.verb == Verb::Init {
            self.dialect = Dialect::of(self.state.version());
        }
        Ok(())
    }

    /// Takes input until an answer is whole.
    fn feed(&mut self, bytes: &[u8]) -> Result<usize, PeerError> {
        let mut rest = bytes;
        while matches!(self.hold, Hold::Incoming) && !rest.is_empty() {
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
