//! Sender of a message, and the codec that cuts and reads it.

use pmi_core::command::{Reply, Version};
use pmi_core::error::Malformed;
use pmi_core::wire::{Dialect, Framed, binary, pmi1, pmi2};

/// Side that sent a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    Client,
    Server,
}

/// A side of a session that agreed, or will agree, on a generation of the protocol.
///
/// In the second generation a message that begins like a line is still one: the opening is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Voice {
    pub(crate) side: Side,
    pub(crate) generation: u16,
}

impl Voice {
    /// Sender in the file of this name.
    pub(crate) fn in_file(side: Side, file: &str) -> Self {
        Self { side, generation: if file.starts_with("pmi2") { 2 } else { 1 } }
    }

    pub(crate) fn dialect(self, bytes: &[u8]) -> Dialect {
        Dialect::of(bytes, Some(Version { major: self.generation, minor: 0 }))
    }

    pub(crate) fn frame(self, bytes: &[u8]) -> Result<Framed, Malformed> {
        match (self.side, self.dialect(bytes)) {
            (Side::Client, dialect) => dialect.frame_request(bytes),
            (Side::Server, Dialect::Lines) => pmi1::frame_reply(bytes),
            (Side::Server, Dialect::Frames(_)) => pmi2::frame_reply(bytes),
            (Side::Server, Dialect::Binary) => binary::frame(bytes),
        }
    }

    /// Moves frames of messages that a client has sent interleaved; false if nothing was moved.
    pub(crate) fn reorder(self, bytes: &mut [u8]) -> bool {
        let dialect = self.dialect(bytes);
        matches!(self.side, Side::Client) && dialect.reorder_requests(bytes) == Ok(true)
    }

    /// Reads the message of a server.
    pub(crate) fn read_reply(self, message: &[u8]) -> Result<Reply<'_>, Malformed> {
        match self.dialect(message) {
            Dialect::Lines => pmi1::read_reply(message),
            Dialect::Frames(_) => pmi2::read_reply(message),
            Dialect::Binary => binary::read_reply(message),
        }
    }
}
