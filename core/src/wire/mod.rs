//! Decoding and encoding of messages, one file for each dialect. The codecs have no state.

pub mod binary;
mod dialect;
pub mod mapping;
pub mod names;
pub mod nodes;
pub mod pmi1;
pub mod pmi2;
#[cfg(feature = "pmix")]
pub mod pmix;
mod postcard_output;
pub mod quirks;
mod scan;
pub mod snapshot;
mod writer;

pub use dialect::{Dialect, RequestMessage};
pub use writer::Writer;

use crate::command::{CodeRun, Text};
use crate::error::{Full, Misuse};
use crate::limits::SPAWN_CODES;

/// Extent of the first message of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Framed {
    /// A whole message of this many bytes.
    Whole(usize),
    /// The beginning of a message.
    Partial,
}

/// Reason for which a message could not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum WriteError {
    /// The lent slice is too small.
    Full(Full),
    /// The dialect cannot express the message.
    Misuse(Misuse),
}

impl From<Full> for WriteError {
    fn from(full: Full) -> Self {
        Self::Full(full)
    }
}

impl From<Misuse> for WriteError {
    fn from(misuse: Misuse) -> Self {
        Self::Misuse(misuse)
    }
}

/// True if a group is a list of ranks, separated by commas.
pub(crate) fn is_list(name: &[u8]) -> bool {
    name.split(|b| *b == b',').all(|rank| Text::plain(rank).number().is_some())
}

/// True if a list of ranks names one of them twice, so that such a fence could never complete.
pub(crate) fn names_twice(list: &[u8]) -> bool {
    let ranks = || list.split(|b| *b == b',').map(|rank| Text::plain(rank).number());
    // Clients write them in ascending order; only other lists are compared pair by pair.
    if ranks().zip(ranks().skip(1)).all(|(one, next)| one < next) {
        return false;
    }
    ranks().enumerate().any(|(at, rank)| ranks().take(at).any(|before| before == rank))
}

/// True if the codes of a spawn are sent one by one: there are some, and not more than every
/// client has room for.
fn has_codes(runs: &[CodeRun]) -> bool {
    let count = runs.iter().fold(0u32, |sum, run| sum.saturating_add(run.count));
    (1..=SPAWN_CODES).contains(&count)
}
