//! One connection as a [`Machine`]: bytes in, bytes out.

use super::connection::ConnPhase;
use super::event::{ConnectionId, PmixEvent};
use super::server::PmixServer;
use super::storage::PmixStorage;
use crate::error::{Full, PeerError};
use crate::machine::Machine;
use crate::server::Storage;
use crate::time::Instant;

/// One connection as a [`Machine`], lent together with the state that its messages modify.
pub struct ConnectionMut<'a, P: PmixStorage, S: Storage> {
    server: PmixServer<'a, P, S>,
    id: ConnectionId,
}

impl<'a, P: PmixStorage, S: Storage> PmixServer<'a, P, S> {
    /// Lends a connection.
    pub fn connection(self, id: ConnectionId) -> Option<ConnectionMut<'a, P, S>> {
        self.connections.get(id)?;
        Some(ConnectionMut { server: self, id })
    }
}

impl<P: PmixStorage, S: Storage> Machine for ConnectionMut<'_, P, S> {
    type Event<'a>
        = PmixEvent
    where
        Self: 'a;

    fn handle_input(&mut self, now: Instant, bytes: &[u8]) -> Result<usize, PeerError> {
        self.server.receive(self.id, now, bytes)
    }

    fn handle_timeout(&mut self, now: Instant) -> Result<(), PeerError> {
        self.server.handle_timeout(now);
        match self.server.connections.state(self.id).map(|state| state.phase) {
            Some(ConnPhase::Broken(error)) => Err(error),
            _ => Ok(()),
        }
    }

    fn handle_end(&mut self, _now: Instant) -> Result<(), PeerError> {
        match self.server.leave(self.id) {
            true => Err(PeerError::LeftEarly),
            false => Ok(()),
        }
    }

    /// Writes the next part of a message, as far as there is room.
    fn poll_transmit(&mut self, out: &mut [u8]) -> Result<Option<usize>, Full> {
        let state = self.server.connections.state(self.id);
        if state.is_some_and(|state| state.registrations.is_behind) {
            self.server.deliver_cached(self.id);
        }
        match self.server.connections.state_mut(self.id) {
            Some(state) => state.transmit(out),
            None => Ok(None),
        }
    }

    fn poll_event(&mut self) -> Option<PmixEvent> {
        self.server.connections.take_event(self.id)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.server.connections.state(self.id)?.deadline()
    }

    fn is_finished(&self) -> bool {
        self.server.connections.state(self.id).is_none_or(|state| match state.phase {
            ConnPhase::Ended => true,
            // The client of a rejected peer reads the reason and closes the connection; the server
            // does not wait for that.
            ConnPhase::Broken(_) => !state.has_due(),
            // A client closes when it has read the answer to FINALIZE.
            ConnPhase::Greeting | ConnPhase::Claimed | ConnPhase::Open | ConnPhase::Leaving => {
                false
            }
        })
    }
}
