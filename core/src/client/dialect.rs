//! Which codec reads and writes, as agreed at run time.
//!
//! A conversation opens with lines whatever it goes on with, so the dialect follows from the
//! version that `init` has agreed on and is a value, never a type.

use crate::command::{Reply, Request, Spawn, Version};
use crate::error::Malformed;
use crate::wire::{Framed, Unwritten, pmi1};

/// How bytes and meaning belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// PMI-1, and the opening of every other generation.
    Lines,
}

impl Dialect {
    /// The dialect of a session that has agreed on `version`, or on nothing yet.
    pub(super) const fn of(_version: Option<Version>) -> Self {
        Self::Lines
    }

    /// How many of `bytes` may be put behind `held` without reaching over the end of an answer.
    pub(super) fn stride(self, _held: &[u8], bytes: &[u8]) -> usize {
        match self {
            // An answer may have several lines, but it never ends within one.
            Self::Lines => bytes.iter().position(|b| *b == b'\n').map_or(bytes.len(), |at| at + 1),
        }
    }

    /// Finds the end of the answer in front.
    pub(super) fn frame(self, bytes: &[u8]) -> Result<Framed, Malformed> {
        match self {
            Self::Lines => pmi1::frame_reply(bytes),
        }
    }

    /// Reads one whole answer.
    pub(super) fn read(self, message: &[u8]) -> Result<Reply<'_>, Malformed> {
        match self {
            Self::Lines => pmi1::read_reply(message),
        }
    }

    /// Writes one whole question; a spawn is none of them.
    pub(super) fn write(
        self,
        request: &Request<'_>,
        kvsname: &[u8],
        out: &mut [u8],
    ) -> Result<usize, Unwritten> {
        match self {
            Self::Lines => pmi1::write_line(request, kvsname, out),
        }
    }

    /// Writes one whole spawn.
    pub(super) fn write_spawn(self, spawn: Spawn<'_>, out: &mut [u8]) -> Result<usize, Unwritten> {
        match self {
            Self::Lines => pmi1::write_spawn(spawn, out),
        }
    }
}
