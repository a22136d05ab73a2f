//! Names, with the connections that have published them.

use crate::operation::{NameAnswerMessage, NameMessage};
use pmi_core::limits::{KEY_BYTES, VALUE_BYTES};
use std::collections::BTreeMap;

/// Published names.
#[derive(Debug, Default)]
pub(super) struct NameTable {
    names: BTreeMap<Vec<u8>, PublishedName>,
}

#[derive(Debug)]
struct PublishedName {
    /// Number of the connection.
    owner: u32,
    port: Vec<u8>,
}

impl NameTable {
    /// Executes a request of a connection.
    pub(super) fn handle(&mut self, from: u32, request: NameMessage) -> NameAnswerMessage {
        match request {
            NameMessage::Publish { service, .. } if self.names.contains_key(&service) => {
                NameAnswerMessage::Exists
            }
            NameMessage::Publish { service, port, .. } => {
                let fits = service.len() <= KEY_BYTES && port.len() <= VALUE_BYTES;
                if !fits || self.names.len() >= NAMES_MAX {
                    return NameAnswerMessage::NoRoom;
                }
                self.names.insert(service, PublishedName { owner: from, port });
                NameAnswerMessage::Done
            }
            NameMessage::Unpublish { service } => match self.names.get(&service) {
                Some(name) if name.owner == from => {
                    self.names.remove(&service);
                    NameAnswerMessage::Done
                }
                _ => NameAnswerMessage::Unknown,
            },
            NameMessage::Lookup { service } => match self.names.get(&service) {
                Some(name) => NameAnswerMessage::Port(name.port.clone()),
                None => NameAnswerMessage::Unknown,
            },
            // The launcher of a PMIx client has its names.
            NameMessage::Pmix(_) => NameAnswerMessage::NoRoom,
        }
    }

    /// Removes the names of a connection that has ended.
    pub(super) fn remove_of(&mut self, owner: u32) {
        self.names.retain(|_, name| name.owner != owner);
    }
}

/// Number of names.
const NAMES_MAX: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn publish(service: &[u8], port: &[u8]) -> NameMessage {
        NameMessage::Publish { by: (0, 0), service: service.to_vec(), port: port.to_vec() }
    }

    #[test]
    fn name_belongs_to_the_connection_that_has_published_it() {
        let mut table = NameTable::default();
        let lookup = || NameMessage::Lookup { service: b"s".to_vec() };
        let unpublish = || NameMessage::Unpublish { service: b"s".to_vec() };
        assert_eq!(table.handle(2, lookup()), NameAnswerMessage::Unknown);
        assert_eq!(table.handle(1, publish(b"s", b"p")), NameAnswerMessage::Done);
        assert_eq!(table.handle(2, publish(b"s", b"q")), NameAnswerMessage::Exists);
        assert_eq!(table.handle(2, lookup()), NameAnswerMessage::Port(b"p".to_vec()));
        assert_eq!(table.handle(2, unpublish()), NameAnswerMessage::Unknown);
        assert_eq!(table.handle(1, unpublish()), NameAnswerMessage::Done);
        assert_eq!(table.handle(1, publish(b"s", b"p")), NameAnswerMessage::Done);
        table.remove_of(2);
        assert_eq!(table.handle(2, lookup()), NameAnswerMessage::Port(b"p".to_vec()));
        table.remove_of(1);
        assert_eq!(table.handle(2, lookup()), NameAnswerMessage::Unknown);
    }

    #[test]
    fn names_are_bounded() {
        let mut table = NameTable::default();
        let longest = (vec![b'x'; KEY_BYTES], vec![b'p'; VALUE_BYTES]);
        assert_eq!(table.handle(1, publish(&longest.0, &longest.1)), NameAnswerMessage::Done);
        for (name, port) in [(KEY_BYTES + 1, 1), (1, VALUE_BYTES + 1)] {
            let request = publish(&vec![b'y'; name], &vec![b'p'; port]);
            assert_eq!(table.handle(1, request), NameAnswerMessage::NoRoom);
        }
        for number in 1..NAMES_MAX {
            table.handle(1, publish(number.to_string().as_bytes(), b"p"));
        }
        assert_eq!(table.handle(1, publish(b"s", b"p")), NameAnswerMessage::NoRoom);
    }
}
