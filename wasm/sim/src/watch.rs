//! A session as the driver loop sees it, with an observer.

use crate::event::SimEvent;
use crate::mutant::{MUTANTS, Mutant};
use pmi_core::error::{Full, PeerError};
use pmi_core::limits::REPLY_BYTES;
use pmi_core::machine::Machine;
use pmi_core::time::Instant;
use std::collections::VecDeque;

/// A session whose bytes are recorded, and perhaps changed by a mutant.
pub(crate) struct Watched<'a, 'n, M> {
    pub(crate) session: M,
    pub(crate) rank: u32,
    pub(crate) mutant: Option<&'a mut Mutant>,
    pub(crate) stage: &'a mut HeldMessages,
    pub(crate) events: &'n mut Vec<SimEvent>,
}

/// Messages that a mutant holds between the server and a link; empty without one.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldMessages {
    /// For the server.
    input: Vec<u8>,
    /// For the rank.
    output: VecDeque<Vec<u8>>,
}

impl<M: Machine> Watched<'_, '_, M> {
    /// Passes input to the server through the mutant, which takes all bytes, so that it can parse
    /// whole lines.
    fn through_mutant(&mut self, now: Instant, bytes: &[u8]) -> Result<usize, PeerError> {
        if let Some(mutant) = &mut self.mutant {
            self.stage.input.extend(mutant.input(self.rank, bytes));
        }
        let taken = self.session.handle_input(now, &self.stage.input)?;
        self.stage.input.drain(..taken);
        Ok(bytes.len())
    }

    /// The next message of the server, as changed by the mutant.
    fn next_of_mutant(&mut self) -> Option<Vec<u8>> {
        let mutant = self.mutant.as_mut()?;
        self.stage.output.extend(mutant.forged(self.rank));
        let mut room = [0; REPLY_BYTES];
        while self.stage.output.is_empty() {
            let len = self.session.poll_transmit(&mut room).ok()??;
            self.stage.output.extend(mutant.output(self.rank, &room[..len]));
        }
        self.stage.output.front().cloned()
    }
}

impl<M: Machine> Machine for Watched<'_, '_, M> {
    type Event<'e>
        = M::Event<'e>
    where
        Self: 'e;

    fn handle_input(&mut self, now: Instant, bytes: &[u8]) -> Result<usize, PeerError> {
        let is_changed = MUTANTS && self.mutant.is_some();
        // A mutant that is greedy takes what it does not answer; any other waits for its turn.
        let is_patient = self.mutant.as_ref().is_some_and(|mutant| !mutant.is_greedy());
        if MUTANTS && is_patient && !self.stage.input.is_empty() {
            let taken = self.session.handle_input(now, &self.stage.input)?;
            self.stage.input.drain(..taken);
            return Ok(0);
        }
        let handled = match is_changed {
            true => self.through_mutant(now, bytes),
            false => self.session.handle_input(now, bytes),
        };
        // After an error, the consumed part is unknown.
        let received = &bytes[..*handled.as_ref().unwrap_or(&bytes.len())];
        if !received.is_empty() {
            self.events.push(SimEvent::ServerReceived { rank: self.rank, bytes: received.into() });
        }
        handled
    }

    fn handle_timeout(&mut self, now: Instant) -> Result<(), PeerError> {
        self.session.handle_timeout(now)
    }

    fn handle_end(&mut self, now: Instant) -> Result<(), PeerError> {
        self.session.handle_end(now)
    }

    fn poll_transmit(&mut self, out: &mut [u8]) -> Result<Option<usize>, Full> {
        let len = match MUTANTS && self.mutant.is_some() {
            false => self.session.poll_transmit(out)?,
            true => match self.next_of_mutant() {
                None => None,
                Some(message) => {
                    let full = Full { needed: message.len() };
                    out.get_mut(..message.len()).ok_or(full)?.copy_from_slice(&message);
                    self.stage.output.pop_front();
                    Some(message.len())
                }
            },
        };
        if let Some(len) = len {
            self.events.push(SimEvent::ServerSent { rank: self.rank, bytes: out[..len].into() });
        }
        Ok(len)
    }

    fn poll_event(&mut self) -> Option<M::Event<'_>> {
        self.session.poll_event()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.session.poll_timeout()
    }

    fn is_finished(&self) -> bool {
        self.session.is_finished() && self.stage.output.is_empty()
    }
}
