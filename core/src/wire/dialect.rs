//! Which codec a message belongs to: a value, chosen by its first bytes while the server runs.

use super::pmi2::{self, Semicolons};
use super::{Framed, pmi1};
use crate::command::{Reply, Request, Version};
use crate::error::{Full, Malformed};
use crate::parts;

/// How a message is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// PMI-1.1 and 1.2.
    Lines,
    /// PMI-2, and how the peer writes `;`.
    Frames(Semicolons),
}

/// A request, and what the peer calls the exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said<'a> {
    /// What the peer calls the exchange; empty if it gives no name.
    pub tag: &'a [u8],
    /// The request; an empty line means nothing.
    pub request: Option<Request<'a>>,
}

impl Dialect {
    /// Tells how the message at the front of `bytes` is written, in a session that agreed on
    /// `version`.
    ///
    /// Frames are taken only after PMI-2 was agreed on, and lines are still taken then: a client
    /// may ask in lines for what frames do not have, and known servers answer.
    pub fn of(bytes: &[u8], version: Option<Version>) -> Self {
        let has_frames = parts::FRAMES && version.is_some_and(|version| version.major == 2);
        match bytes.first() {
            Some(b'c' | b'm') => Self::Lines,
            _ if has_frames => Self::Frames(pmi2::habit(bytes)),
            _ => Self::Lines,
        }
    }

    /// Finds the end of the first message from a client.
    ///
    /// Errors: [`Malformed`] as soon as no continuation can be a message.
    pub fn frame_request(self, bytes: &[u8]) -> Result<Framed, Malformed> {
        match self {
            _ if !parts::FRAMES => pmi1::frame_request(bytes),
            Self::Lines => pmi1::frame_request(bytes),
            Self::Frames(_) => pmi2::frame_request(bytes),
        }
    }

    /// Reads one message from a client.
    ///
    /// Errors: [`Malformed`] if it does not begin with a command.
    pub fn read_request(self, message: &[u8]) -> Result<Said<'_>, Malformed> {
        match self {
            _ if !parts::FRAMES => Ok(Said { tag: b"", request: pmi1::read_request(message)? }),
            Self::Lines => Ok(Said { tag: b"", request: pmi1::read_request(message)? }),
            Self::Frames(_) => {
                let (tag, request) = pmi2::read_request(message)?;
                Ok(Said { tag, request: Some(request) })
            }
        }
    }

    /// Writes one answer to a client. `word` is the command of a request that we do not know.
    ///
    /// Errors: [`Full`] with the room needed; nothing of use is in `out` then.
    pub fn write_reply(
        self,
        reply: &Reply<'_>,
        word: &[u8],
        out: &mut [u8],
    ) -> Result<usize, Full> {
        match self {
            _ if !parts::FRAMES => pmi1::write_reply(reply, word, out),
            Self::Lines => pmi1::write_reply(reply, word, out),
            Self::Frames(semicolons) => pmi2::write_reply(reply, word, semicolons, out),
        }
    }
}
