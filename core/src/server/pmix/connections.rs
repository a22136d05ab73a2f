//! The connections, and those of them that the owner has to serve.

use super::connection::Connection;
use super::event::{ConnectionId, PmixEvent};
use super::response::PmixResponse;
use super::storage::{ConnStateOf, ConnectionOf, ConnectionsOf, PmixStorage};
use crate::server::queue::{Queue, QueueLink};
use crate::storage::{Buffer, Slots};

/// The connections of all PMIx clients.
pub(super) struct ConnectionTable<P: PmixStorage> {
    slots: ConnectionsOf<P>,
    /// Connections with output, or with held input to handle.
    ready: Queue,
    /// Connections with an event for the owner.
    with_event: Queue,
    /// Number of requests handed to the owner.
    asked: u32,
    unfinished: UnfinishedLimits,
}

/// Limits of what inboxes hold together; each inbox has its own besides.
///
/// A rank may have several connections, as its threads and children do, so that the limit of one inbox
/// does not bound what a rank makes the server hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnfinishedLimits {
    /// Number of bytes in all connections of one rank.
    pub rank_bytes: usize,
    /// Number of bytes in all connections.
    pub all_bytes: usize,
}

impl UnfinishedLimits {
    /// No limits besides those of the inboxes.
    pub const NONE: Self = Self { rank_bytes: usize::MAX, all_bytes: usize::MAX };
}

impl<P: PmixStorage> ConnectionTable<P> {
    pub(super) const fn new(slots: ConnectionsOf<P>) -> Self {
        let (ready, with_event) = (Queue::new(), Queue::new());
        Self { slots, ready, with_event, asked: 0, unfinished: UnfinishedLimits::NONE }
    }

    pub(super) const fn limit_unfinished(&mut self, limits: UnfinishedLimits) {
        self.unfinished = limits;
    }

    pub(super) fn insert(&mut self, connection: ConnectionOf<P>) -> Option<ConnectionId> {
        u32::try_from(self.slots.insert(connection)?).ok().map(ConnectionId)
    }

    /// Removes a connection, from its queues too.
    pub(super) fn remove(&mut self, id: ConnectionId) -> Option<ConnectionOf<P>> {
        self.ready.remove(&mut self.slots, id.0, ready_link::<P>);
        self.with_event.remove(&mut self.slots, id.0, event_link::<P>);
        self.slots.remove(id.0 as usize)
    }

    pub(super) fn get(&self, id: ConnectionId) -> Option<&ConnectionOf<P>> {
        self.slots.get(id.0 as usize)
    }

    pub(super) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut ConnectionOf<P>> {
        self.slots.get_mut(id.0 as usize)
    }

    pub(super) fn state(&self, id: ConnectionId) -> Option<&ConnStateOf<P>> {
        self.get(id).map(|connection| &connection.state)
    }

    pub(super) fn state_mut(&mut self, id: ConnectionId) -> Option<&mut ConnStateOf<P>> {
        self.get_mut(id).map(|connection| &mut connection.state)
    }

    /// Numbers that connections have or had.
    pub(super) fn ids(&self) -> impl Iterator<Item = ConnectionId> + use<P> {
        (0..u32::try_from(self.slots.end()).unwrap_or(u32::MAX)).map(ConnectionId)
    }

    pub(super) fn states(&self) -> impl Iterator<Item = &ConnStateOf<P>> {
        self.ids().filter_map(|id| self.state(id))
    }

    /// Queues a connection to be served.
    pub(super) fn wake(&mut self, id: ConnectionId) {
        self.ready.push(&mut self.slots, id.0, ready_link::<P>);
    }

    pub(super) fn next_ready(&mut self) -> Option<ConnectionId> {
        self.ready.pop(&mut self.slots, ready_link::<P>).map(ConnectionId)
    }

    /// Reports an event to the owner. The connection pauses its input until the owner has it.
    pub(super) fn push_event(&mut self, id: ConnectionId, event: PmixEvent) {
        if let Some(state) = self.state_mut(id) {
            state.event = Some(event);
        }
        self.with_event.push(&mut self.slots, id.0, event_link::<P>);
    }

    /// The next event for the owner.
    pub(super) fn next_event(&mut self) -> Option<PmixEvent> {
        while let Some(id) = self.with_event.pop(&mut self.slots, event_link::<P>) {
            let event = self.take_event(ConnectionId(id));
            if event.is_some() {
                return event;
            }
        }
        None
    }

    /// The event of one connection.
    pub(super) fn take_event(&mut self, id: ConnectionId) -> Option<PmixEvent> {
        let event = self.state_mut(id)?.event.take()?;
        self.with_event.remove(&mut self.slots, id.0, event_link::<P>);
        self.wake(id);
        Some(event)
    }

    /// Makes a response due.
    pub(super) fn resolve(
        &mut self,
        id: ConnectionId,
        pending: usize,
        response: PmixResponse<P::Bytes>,
    ) {
        if let Some(state) = self.state_mut(id) {
            state.resolve(pending, response);
            self.wake(id);
        }
    }

    /// Numbers a request for the owner. Connection ids and places are reused, so they do not
    /// identify it.
    pub(super) fn number(&mut self, id: ConnectionId, place: usize) -> usize {
        self.asked = self.asked.wrapping_add(1);
        let asked = self.asked;
        if let Some(pending) = self.state_mut(id).and_then(|state| state.pending.get_mut(place)) {
            pending.response = PmixResponse::Host(asked);
        }
        asked as usize
    }

    /// The limit that all unfinished messages together exceed, if this connection has a share in that.
    pub(super) fn exceeded(&self, id: ConnectionId) -> Option<usize> {
        let UnfinishedLimits { rank_bytes, all_bytes } = self.unfinished;
        let own = self.get(id)?;
        // Looking at all takes time, and short messages are no share worth it.
        if own.inbox.as_slice().len() <= UNCOUNTED_BYTES.min(rank_bytes / 2) {
            return None;
        }
        let (mut of_rank, mut of_all) = (0_usize, 0_usize);
        for Connection { inbox, state } in self.ids().filter_map(|id| self.get(id)) {
            let held = inbox.as_slice().len();
            of_all = of_all.saturating_add(held);
            if state.peer.is_some() && state.peer == own.state.peer {
                of_rank = of_rank.saturating_add(held);
            }
        }
        match (of_rank > rank_bytes, of_all > all_bytes) {
            (true, _) => Some(rank_bytes),
            (_, true) => Some(all_bytes),
            _ => None,
        }
    }
}

fn ready_link<P: PmixStorage>(
    connections: &mut ConnectionsOf<P>,
    id: u32,
) -> Option<&mut QueueLink> {
    Some(&mut connections.get_mut(id as usize)?.state.ready_link)
}

fn event_link<P: PmixStorage>(
    connections: &mut ConnectionsOf<P>,
    id: u32,
) -> Option<&mut QueueLink> {
    Some(&mut connections.get_mut(id as usize)?.state.event_link)
}

/// A connection that holds less does not exceed a limit alone.
const UNCOUNTED_BYTES: usize = 64 << 10;
