//! Selection of the codec that reads and writes, as agreed at run time.
//!
//! A session opens with lines in every version, so the dialect follows from the version that `init` has
//! agreed on and is a value, never a type. Parts that a build leaves out are left out here, where their
//! codec would be called; the callers need not know of them.

use crate::command::{Reply, Request, Version};
use crate::error::Malformed;
use crate::limits::PMI2_LENGTH_DIGITS;
use crate::parts;
use crate::wire::{Framed, WriteError, binary, pmi1, pmi2};

/// Codec of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientDialect {
    /// PMI-1, and the opening of every other generation.
    Lines,
    /// PMI-2, once it is agreed on.
    Frames,
    /// The binary dialect, from the first byte on.
    Binary,
}

impl ClientDialect {
    /// Dialect of a session with this agreed version, if there is one.
    pub(super) const fn of(version: Option<Version>) -> Self {
        match version {
            Some(Version { major: 2, .. }) => Self::Frames,
            Some(Version::BINARY) => Self::Binary,
            _ => Self::Lines,
        }
    }

    /// Number of bytes of `bytes` that may be appended to `held` without passing the end of a reply.
    pub(super) fn stride(self, held: &[u8], bytes: &[u8]) -> usize {
        match self {
            // A reply may have several lines, but it never ends within one.
            Self::Lines => pmi1::line_bytes(bytes),
            // First the length alone; it is checked before more is taken.
            Self::Frames => {
                let mut begin = 0;
                let end = loop {
                    let frame = held.get(begin..).unwrap_or(b"");
                    let Some(length) = frame.first_chunk::<PMI2_LENGTH_DIGITS>() else {
                        break begin + PMI2_LENGTH_DIGITS;
                    };
                    let end = begin + PMI2_LENGTH_DIGITS + number(length);
                    // Behind a whole frame that is not the end of the reply there is another.
                    if held.len() < end || !parts::CONCAT {
                        break end;
                    }
                    begin = end;
                };
                end.saturating_sub(held.len()).min(bytes.len())
            }
            Self::Binary => {
                let end = match *held {
                    [_, low, high, ..] => {
                        binary::HEAD_BYTES + usize::from(u16::from_le_bytes([low, high]))
                    }
                    _ => binary::HEAD_BYTES,
                };
                end.saturating_sub(held.len()).min(bytes.len())
            }
        }
    }

    /// Finds the end of the first reply.
    pub(super) fn frame(self, bytes: &[u8]) -> Result<Framed, Malformed> {
        match self {
            Self::Frames if parts::PMI2 => pmi2::frame_reply(bytes),
            Self::Binary if parts::BINARY => binary::frame(bytes),
            _ => pmi1::frame_reply(bytes),
        }
    }

    /// Reads one whole reply.
    pub(super) fn read(self, message: &[u8]) -> Result<Reply<'_>, Malformed> {
        match self {
            Self::Frames if parts::PMI2 => pmi2::read_reply(message),
            Self::Binary if parts::BINARY => binary::read_reply(message),
            _ => pmi1::read_reply(message),
        }
    }

    /// Writes one whole request. `space` is the caller's own, `tag` names the exchange if the
    /// dialect has such names.
    pub(super) fn write(
        self,
        request: &Request<'_>,
        tag: &[u8],
        space: &[u8],
        out: &mut [u8],
    ) -> Result<usize, WriteError> {
        match self {
            Self::Frames if parts::PMI2 => pmi2::write_request(request, tag, space, out),
            Self::Binary if parts::BINARY => binary::write_request(request, tag, out),
            _ => pmi1::write_request(request, space, out),
        }
    }
}

/// Number of a length field that was checked before.
fn number(length: &[u8; PMI2_LENGTH_DIGITS]) -> usize {
    let digits = length.iter().filter(|byte| byte.is_ascii_digit());
    digits.fold(0, |number, digit| number * 10 + usize::from(digit - b'0'))
}
