//! Codec of a message: a value, chosen at run time by the first bytes.

use super::pmi2::{self, FrameStyle};
use super::{Framed, binary, pmi1};
use crate::command::{Answer, Reply, Request, Version};
use crate::error::{Full, Malformed};
use crate::parts;

/// Form of a message on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Dialect {
    /// PMI-1.1 and 1.2.
    Lines,
    /// PMI-2, and how the peer writes it.
    Frames(FrameStyle),
    /// The binary dialect of this crate.
    Binary,
}

/// A request and the tag of its exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestMessage<'a> {
    /// Tag of the exchange; empty if the peer gives none.
    pub tag: &'a [u8],
    /// The request; an empty line means nothing.
    pub request: Option<Request<'a>>,
}

impl Dialect {
    /// Determines the form of the message at the front of `bytes`, in a session that agreed on
    /// `version`.
    ///
    /// Frames are accepted only after agreement on PMI-2, and lines are still accepted then: a client
    /// may send in lines the requests that frames lack, and known servers answer. The first byte of a
    /// connection selects the binary dialect, which excludes the others.
    pub fn of(bytes: &[u8], version: Option<Version>) -> Self {
        let has_frames = parts::PMI2 && version.is_some_and(|version| version.major == 2);
        match bytes.first() {
            _ if parts::BINARY && version == Some(Version::BINARY) => Self::Binary,
            Some(&binary::MAGIC) if parts::BINARY && version.is_none() => Self::Binary,
            Some(b'c' | b'm') => Self::Lines,
            _ if has_frames => Self::Frames(pmi2::detect_style(bytes)),
            _ => Self::Lines,
        }
    }

    /// The form of a frame of a client that is known to follow the specification: by a length on the right
    /// alone it could be another.
    pub(crate) fn of_text_client(self) -> Self {
        match self {
            Self::Frames(FrameStyle::RightAligned) => Self::Frames(FrameStyle::Specified),
            other => other,
        }
    }

    /// Determines the form of a recorded message by its bytes alone.
    pub fn detect(bytes: &[u8]) -> Self {
        let is_own = bytes.first() == Some(&binary::MAGIC);
        Self::of(bytes, (!is_own).then_some(Version::V2_0))
    }

    /// Finds the end of the first message from a client.
    ///
    /// # Errors
    ///
    /// [`Malformed`] as soon as no continuation can be a message.
    pub fn frame_request(self, bytes: &[u8]) -> Result<Framed, Malformed> {
        match self {
            Self::Binary if parts::BINARY => binary::frame(bytes),
            _ if !parts::PMI2 => pmi1::frame_request(bytes),
            Self::Lines | Self::Binary => pmi1::frame_request(bytes),
            Self::Frames(_) => pmi2::frame_request(bytes),
        }
    }

    /// Moves frames of messages that a client has sent interleaved, so that those of one message follow each
    /// other. False if nothing was moved: the message at the front is whole, or more has to arrive.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if more messages are open at once than a server keeps.
    pub fn reorder_requests(self, bytes: &mut [u8]) -> Result<bool, Malformed> {
        match self {
            Self::Frames(_) if parts::PMI2 => pmi2::reorder_requests(bytes),
            _ => Ok(false),
        }
    }

    /// Reads one message from a client.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if it does not begin with a command.
    pub fn read_request(self, message: &[u8]) -> Result<RequestMessage<'_>, Malformed> {
        match self {
            Self::Binary if parts::BINARY => {
                let (tag, request) = binary::read_request(message)?;
                Ok(RequestMessage { tag, request: Some(request) })
            }
            _ if !parts::PMI2 => {
                Ok(RequestMessage { tag: b"", request: pmi1::read_request(message)? })
            }
            Self::Lines | Self::Binary => {
                Ok(RequestMessage { tag: b"", request: pmi1::read_request(message)? })
            }
            Self::Frames(style) => {
                let (tag, request) = pmi2::read_request_in(message, style)?;
                Ok(RequestMessage { tag, request: Some(request) })
            }
        }
    }

    /// True if the dialect can express every text of the answer.
    pub(crate) fn carries(self, answer: &Answer<'_>) -> bool {
        match self {
            Self::Frames(style) if parts::PMI2 => pmi2::carries(answer, style),
            _ => true,
        }
    }

    /// Writes one reply to a client. `word` is the command of an unknown request.
    ///
    /// # Errors
    ///
    /// [`Full`] with the room needed; the content of `out` is undefined then.
    pub fn write_reply(
        self,
        reply: &Reply<'_>,
        word: &[u8],
        out: &mut [u8],
    ) -> Result<usize, Full> {
        match self {
            Self::Binary if parts::BINARY => binary::write_reply(reply, out),
            _ if !parts::PMI2 => pmi1::write_reply(reply, word, out),
            Self::Lines | Self::Binary => pmi1::write_reply(reply, word, out),
            Self::Frames(style) => pmi2::write_reply(reply, word, style, out),
        }
    }
}
