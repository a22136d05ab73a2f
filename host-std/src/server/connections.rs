//! Connections by the number of their session.

use super::flush::Connection;
use crate::numbers::index;

/// Table of connections; numbers of closed ones are used again.
#[derive(Debug, Default)]
pub(super) struct Connections(Vec<Option<Connection>>);

impl Connections {
    pub(super) fn insert(&mut self, number: u32, connection: Connection) {
        let place = index(number);
        self.0.resize_with(self.0.len().max(place + 1), || None);
        self.0[place] = Some(connection);
    }

    pub(super) fn get(&self, number: u32) -> Option<&Connection> {
        self.0.get(index(number))?.as_ref()
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut Connection> {
        self.0.get_mut(index(number))?.as_mut()
    }

    pub(super) fn remove(&mut self, number: u32) -> Option<Connection> {
        self.0.get_mut(index(number))?.take()
    }
}
