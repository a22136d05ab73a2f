//! One connection as a [`Machine`]: bytes in, bytes out.

use super::connection::ConnPhase;
use super::{ConnectionId, Pmix, PmixEvent, PmixStorage, event_link, ready_link};
use crate::error::{Full, PeerError};
use crate::machine::Machine;
use crate::server::{Server, Storage};
use crate::storage::Slots;
use crate::time::Instant;

/// One connection as a [`Machine`], lent together with the state that its messages modify.
pub struct ConnectionMut<'a, P: PmixStorage, S: Storage> {
    pub(super) pmix: &'a mut Pmix<P>,
    pub(super) server: &'a mut Server<S>,
    pub(super) id: ConnectionId,
}

impl<P: PmixStorage, S: Storage> Machine for ConnectionMut<'_, P, S> {
    type Event<'a>
        = PmixEvent
    where
        Self: 'a;

    fn handle_input(&mut self, now: Instant, bytes: &[u8]) -> Result<usize, PeerError> {
        self.pmix.receive(self.id, self.server, now, bytes)
    }

    fn handle_timeout(&mut self, now: Instant) -> Result<(), PeerError> {
        self.pmix.handle_timeout(now, self.server);
        match self.pmix.connections.get(self.id.0 as usize).map(|open| open.state.phase) {
            Some(ConnPhase::Broken(error)) => Err(error),
            _ => Ok(()),
        }
    }

    fn handle_end(&mut self, _now: Instant) -> Result<(), PeerError> {
        match self.pmix.leave(self.id, self.server) {
            true => Err(PeerError::LeftEarly),
            false => Ok(()),
        }
    }

    /// Writes the next part of a message, as far as there is room.
    fn poll_transmit(&mut self, out: &mut [u8]) -> Result<Option<usize>, Full> {
        let pmix = &mut *self.pmix;
        if pmix
            .connections
            .get(self.id.0 as usize)
            .is_some_and(|open| open.state.registrations.is_behind)
        {
            pmix.deliver_cached(self.id, self.server);
        }
        match pmix.connections.get_mut(self.id.0 as usize) {
            Some(connection) => connection.state.transmit(out),
            None => Ok(None),
        }
    }

    fn poll_event(&mut self) -> Option<PmixEvent> {
        let pmix = &mut *self.pmix;
        let event = pmix.connections.get_mut(self.id.0 as usize)?.state.event.take()?;
        pmix.events_queue.remove(&mut pmix.connections, self.id.0, event_link::<P>);
        pmix.ready.push(&mut pmix.connections, self.id.0, ready_link::<P>);
        Some(event)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.pmix.connections.get(self.id.0 as usize)?.state.deadline()
    }

    fn is_finished(&self) -> bool {
        self.pmix.connections.get(self.id.0 as usize).is_none_or(|connection| {
            let state = &connection.state;
            match state.phase {
                ConnPhase::Ended => true,
                // The client of a rejected peer reads the reason and closes the connection; the
                // server does not wait for that.
                ConnPhase::Broken(_) => !state.has_due(),
                // A client closes when it has read the answer to FINALIZE.
                ConnPhase::Greeting | ConnPhase::Claimed | ConnPhase::Open | ConnPhase::Leaving => {
                    false
                }
            }
        })
    }
}
