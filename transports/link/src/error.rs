//! What can go wrong between a machine and its wire.

use core::fmt;

use pmi_core::command::Verb;
use pmi_core::error::{Code, Full, Misuse, PeerError};
use pmi_core::wire::{Unwritten, names};

/// Why a client call failed. `E` is the error of the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallError<E> {
    /// The transport. The conversation is over.
    Io(E),
    /// The server broke the protocol, refused the opening, or left. The conversation is over.
    Peer(PeerError),
    /// The call should not have been made; nothing was sent.
    Misuse(Misuse),
    /// The lent slice is too small for the value; it can be asked for again.
    Full(Full),
    /// The server said no to this call; the conversation goes on.
    Refused {
        /// What was asked.
        verb: Verb,
        /// The server's reason, as a number.
        code: Code,
    },
}

impl<E> From<PeerError> for CallError<E> {
    fn from(error: PeerError) -> Self {
        Self::Peer(error)
    }
}

impl<E> From<Misuse> for CallError<E> {
    fn from(error: Misuse) -> Self {
        Self::Misuse(error)
    }
}

impl<E> From<Full> for CallError<E> {
    fn from(error: Full) -> Self {
        Self::Full(error)
    }
}

impl<E> From<Unwritten> for CallError<E> {
    fn from(error: Unwritten) -> Self {
        match error {
            Unwritten::Full(full) => Self::Full(full),
            Unwritten::Misuse(misuse) => Self::Misuse(misuse),
        }
    }
}

impl<E: fmt::Display> fmt::Display for CallError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Peer(error) => error.fmt(f),
            Self::Misuse(error) => error.fmt(f),
            Self::Full(error) => error.fmt(f),
            Self::Refused { verb, code } => {
                write!(f, "the server refused {} with code {}", names::spoken(*verb), code.0)
            }
        }
    }
}

impl<E: fmt::Debug + fmt::Display> core::error::Error for CallError<E> {}
