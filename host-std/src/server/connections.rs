//! Connections by the number of their session.

use super::flush::Connection;
use crate::numbers::index;
use pmi_std::snapshot::server::Snapshots;

/// Table of connections; numbers of closed ones are used again.
#[derive(Debug, Default)]
pub(super) struct Connections {
    by_number: Vec<Option<Connection>>,
    /// Values in memory that is shared with the clients of some.
    pub(super) snapshots: Snapshots,
}

impl Connections {
    pub(super) fn insert(&mut self, number: u32, connection: Connection) {
        let place = index(number);
        self.by_number.resize_with(self.by_number.len().max(place + 1), || None);
        self.by_number[place] = Some(connection);
    }

    pub(super) fn get(&self, number: u32) -> Option<&Connection> {
        self.by_number.get(index(number))?.as_ref()
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut Connection> {
        self.by_number.get_mut(index(number))?.as_mut()
    }

    /// The same, with the shared values.
    pub(super) fn get_with_snapshots(
        &mut self,
        number: u32,
    ) -> Option<(&mut Connection, &mut Snapshots)> {
        let connection = self.by_number.get_mut(index(number))?.as_mut()?;
        Some((connection, &mut self.snapshots))
    }

    pub(super) fn remove(&mut self, number: u32) -> Option<Connection> {
        self.by_number.get_mut(index(number))?.take()
    }
}
