//! One connection as a [`Machine`]: bytes in, bytes out.

use super::connection::Stage;
use super::{ConnectionId, Event, Memory, Pmix, noted_link, ready_link};
use crate::error::{Full, PeerError};
use crate::machine::Machine;
use crate::server::{Server, Storage};
use crate::storage::Slots;
use crate::time::Instant;

/// One connection, lent with what it may touch, as a [`Machine`].
pub struct ConnectionMut<'a, P: Memory, S: Storage> {
    pub(super) pmix: &'a mut Pmix<P>,
    pub(super) server: &'a mut Server<S>,
    pub(super) id: ConnectionId,
}

impl<P: Memory, S: Storage> Machine for ConnectionMut<'_, P, S> {
    type Event<'a>
        = Event
    where
        Self: 'a;

    fn handle_input(&mut self, now: Instant, bytes: &[u8]) -> Result<usize, PeerError> {
        self.pmix.feed(self.id, self.server, now, bytes)
    }

    fn handle_timeout(&mut self, now: Instant) -> Result<(), PeerError> {
        self.pmix.handle_timeout(now, self.server);
        match self.pmix.connections.get(self.id.0 as usize).map(|open| open.talk.stage) {
            Some(Stage::Broken(error)) => Err(error),
            _ => Ok(()),
        }
    }

    fn handle_end(&mut self, _now: Instant) -> Result<(), PeerError> {
        match self.pmix.leave(self.id, self.server) {
            true => Err(PeerError::LeftEarly),
            false => Ok(()),
        }
    }

    /// Writes a piece of a message: as much of it as there is room for.
    fn poll_transmit(&mut self, out: &mut [u8]) -> Result<Option<usize>, Full> {
        let pmix = &mut *self.pmix;
        if pmix.connections.get(self.id.0 as usize).is_some_and(|open| open.talk.ear.is_behind) {
            pmix.catch_up(self.id, self.server);
        }
        match pmix.connections.get_mut(self.id.0 as usize) {
            Some(connection) => connection.talk.transmit(out),
            None => Ok(None),
        }
    }

    fn poll_event(&mut self) -> Option<Event> {
        let pmix = &mut *self.pmix;
        let note = pmix.connections.get_mut(self.id.0 as usize)?.talk.note.take()?;
        pmix.noted.remove(&mut pmix.connections, self.id.0, noted_link::<P>);
        pmix.ready.push(&mut pmix.connections, self.id.0, ready_link::<P>);
        Some(note)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.pmix.connections.get(self.id.0 as usize)?.talk.deadline()
    }

    fn is_finished(&self) -> bool {
        self.pmix.connections.get(self.id.0 as usize).is_none_or(|connection| {
            let talk = &connection.talk;
            match talk.stage {
                Stage::Ended => true,
                // Whoever was sent away reads why, and hangs up; it must not be left to.
                Stage::Broken(_) => !talk.has_due(),
                // A client closes when it has read the answer to its goodbye.
                Stage::Greeting | Stage::Claimed | Stage::Open | Stage::Leaving => false,
            }
        })
    }
}
