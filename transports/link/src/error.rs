//! Errors of calls, links and the driver.

use pmi_core::command::Verb;
use pmi_core::error::{Code, Full, Misuse, PeerError};
use pmi_core::wire::{WriteError, names};
use thiserror::Error;

/// Why a client call failed. `E` is the error of the transport.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum CallError<E> {
    /// The transport. The conversation is over.
    #[error("{0}")]
    Io(E),
    /// The server broke the protocol, refused the opening, or left. The conversation is over.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// The call should not have been made; nothing was sent.
    #[error(transparent)]
    Misuse(#[from] Misuse),
    /// The lent slice is too small for the value, which can be requested again; or a message
    /// exceeds the buffer of this client and was not sent. Contains the length needed.
    #[error(transparent)]
    Full(#[from] Full),
    /// The server refused this call; the session continues.
    #[error("the server refused {} with code {}", names::display_name(*.verb), .code.0)]
    Refused {
        /// The refused operation.
        verb: Verb,
        /// The server's reason, as a number.
        code: Code,
    },
    /// The server's value is not of the kind that was asked for; the conversation goes on.
    #[error("the answer to {} is not a list of numbers", names::display_name(*.verb))]
    Unreadable {
        /// The refused operation.
        verb: Verb,
    },
}

/// Why a spawn has made no job. `C` holds codes, `E` is the error of the transport.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum SpawnError<C, E> {
    /// As for every other call.
    #[error("{0}")]
    Call(CallError<E>),
    /// The server refused; the session continues.
    #[error("the server refused spawn with code {}", .code.0)]
    Refused {
        /// Error code of the server.
        code: Code,
        /// Codes of the requested processes: empty, or one for each, where [`Code::SUCCESS`] marks
        /// a process that would have been started.
        codes: C,
    },
}

/// Why a link does not go on.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum LinkError {
    /// The other end is gone without having read everything, or the way to it is.
    #[error("the connection was reset")]
    Reset,
    /// The other end reads no more.
    #[error("the other end has closed the connection")]
    Closed,
    /// Anything else: the number by which the system knows it, or 0.
    #[error("the connection failed with system error {0}")]
    Failed(i32),
}

/// Why a driver stops.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum PumpError {
    /// The peer did something that ends its session.
    #[error("{error}")]
    Peer {
        /// The error of the peer.
        error: PeerError,
        /// Number of bytes at the front of the lent scratch that the peer sent just before, for
        /// diagnostics; 0 if they are no longer there.
        received_bytes: usize,
    },
    /// The link does not go on.
    #[error(transparent)]
    Link(LinkError),
    /// The scratch or the buffers are too small for one message.
    #[error(transparent)]
    TooSmall(Full),
}

impl<E> From<WriteError> for CallError<E> {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Full(full) => Self::Full(full),
            WriteError::Misuse(misuse) => Self::Misuse(misuse),
        }
    }
}

impl<C, E> SpawnError<C, E> {
    /// The same error with the codes in another form.
    pub fn map_codes<D>(self, map: impl FnOnce(C) -> D) -> SpawnError<D, E> {
        match self {
            Self::Call(error) => SpawnError::Call(error),
            Self::Refused { code, codes } => SpawnError::Refused { code, codes: map(codes) },
        }
    }
}

impl<C, E> From<CallError<E>> for SpawnError<C, E> {
    fn from(error: CallError<E>) -> Self {
        Self::Call(error)
    }
}

/// For callers that do not distinguish the processes.
impl<C, E> From<SpawnError<C, E>> for CallError<E> {
    fn from(error: SpawnError<C, E>) -> Self {
        match error {
            SpawnError::Call(error) => error,
            SpawnError::Refused { code, .. } => Self::Refused { verb: Verb::Spawn, code },
        }
    }
}
