//! Which codec a message belongs to: a value, chosen by its first bytes while the server runs.

use super::pmi2::{self, Semicolons};
use super::{Framed, frames, pmi1};
use crate::command::{Answer, Reply, Request, Version};
use crate::error::{Full, Malformed};
use crate::parts;

/// How a message is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// PMI-1.1 and 1.2.
    Lines,
    /// PMI-2, and how the peer writes `;`.
    Frames(Semicolons),
    /// Our own frames.
    Own,
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
    /// may ask in lines for what frames do not have, and known servers answer. Our own frames are chosen
    /// by the first byte of a conversation, and then there is nothing else.
    pub fn of(bytes: &[u8], version: Option<Version>) -> Self {
        let has_frames = parts::FRAMES && version.is_some_and(|version| version.major == 2);
        match bytes.first() {
            _ if parts::OWN_FRAMES && version == Some(Version::OWN) => Self::Own,
            Some(&frames::MAGIC) if parts::OWN_FRAMES && version.is_none() => Self::Own,
            Some(b'c' | b'm') => Self::Lines,
            _ if has_frames => Self::Frames(pmi2::habit(bytes)),
            _ => Self::Lines,
        }
    }

    /// Tells how a message is written by its bytes alone, for whoever reads it out of a record.
    pub fn told_by(bytes: &[u8]) -> Self {
        let is_own = bytes.first() == Some(&frames::MAGIC);
        Self::of(bytes, (!is_own).then_some(Version::V2_0))
    }

    /// Finds the end of the first message from a client.
    ///
    /// Errors: [`Malformed`] as soon as no continuation can be a message.
    pub fn frame_request(self, bytes: &[u8]) -> Result<Framed, Malformed> {
        match self {
            Self::Own if parts::OWN_FRAMES => frames::frame(bytes),
            _ if !parts::FRAMES => pmi1::frame_request(bytes),
            Self::Lines | Self::Own => pmi1::frame_request(bytes),
            Self::Frames(_) => pmi2::frame_request(bytes),
        }
    }

    /// Reads one message from a client.
    ///
    /// Errors: [`Malformed`] if it does not begin with a command.
    pub fn read_request(self, message: &[u8]) -> Result<Said<'_>, Malformed> {
        match self {
            Self::Own if parts::OWN_FRAMES => {
                let (tag, request) = frames::read_request(message)?;
                Ok(Said { tag, request: Some(request) })
            }
            _ if !parts::FRAMES => Ok(Said { tag: b"", request: pmi1::read_request(message)? }),
            Self::Lines | Self::Own => Ok(Said { tag: b"", request: pmi1::read_request(message)? }),
            Self::Frames(_) => {
                let (tag, request) = pmi2::read_request(message)?;
                Ok(Said { tag, request: Some(request) })
            }
        }
    }

    /// Whether every text of an answer can be said whole.
    pub(crate) fn carries(self, answer: &Answer<'_>) -> bool {
        match self {
            Self::Frames(semicolons) if parts::FRAMES => pmi2::carries(answer, semicolons),
            _ => true,
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
            Self::Own if parts::OWN_FRAMES => frames::write_reply(reply, out),
            _ if !parts::FRAMES => pmi1::write_reply(reply, word, out),
            Self::Lines | Self::Own => pmi1::write_reply(reply, word, out),
            Self::Frames(semicolons) => pmi2::write_reply(reply, word, semicolons, out),
        }
    }
}
