//! Errors of connecting and of calls.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use pmi_core::error::{Misuse, PeerError};
use pmi_core::wire::pmix::names::{Command, Status};

use crate::env::EnvError;

/// Error of connecting a process to its server.
#[derive(Debug)]
#[non_exhaustive]
pub enum PmixConnectError {
    /// The environment is inconsistent or invalid.
    Env(EnvError),
    /// Connecting to the address of the server failed.
    Dial {
        /// The address.
        address: SocketAddr,
        /// Error of the system.
        error: io::Error,
    },
    /// The server rejected this process.
    Open(CallError),
}

/// Error of a call.
#[derive(Debug)]
#[non_exhaustive]
pub enum CallError {
    /// Error of the connection, which terminates the session.
    Io(io::Error),
    /// Protocol error, rejection or early end by the server, which terminates the session.
    Peer(PeerError),
    /// The call should not have been made; nothing was sent.
    Misuse(Misuse),
    /// The server refused this call; the session continues.
    Refused {
        /// The refused operation.
        command: Command,
        /// The server's reason.
        status: Status,
    },
}

impl From<EnvError> for PmixConnectError {
    fn from(error: EnvError) -> Self {
        Self::Env(error)
    }
}

impl From<CallError> for PmixConnectError {
    fn from(error: CallError) -> Self {
        Self::Open(error)
    }
}

impl From<io::Error> for CallError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<PeerError> for CallError {
    fn from(error: PeerError) -> Self {
        Self::Peer(error)
    }
}

impl From<Misuse> for CallError {
    fn from(error: Misuse) -> Self {
        Self::Misuse(error)
    }
}

impl fmt::Display for PmixConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(error) => error.fmt(f),
            Self::Dial { address, error } => {
                write!(f, "the PMIx server at {address} cannot be reached: {error}")
            }
            Self::Open(CallError::Peer(PeerError::Refused(code))) => {
                f.write_str("the PMIx server rejected this process: ")?;
                write_status(Status(code.0), f)
            }
            Self::Open(error) => {
                write!(f, "the PMIx server did not open the session: {error}")
            }
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "the connection to the PMIx server failed: {error}"),
            Self::Peer(error) => error.fmt(f),
            Self::Misuse(error) => error.fmt(f),
            Self::Refused { command, status } => {
                write!(f, "the PMIx server refused {}: ", command.name().unwrap_or("a request"))?;
                write_status(*status, f)
            }
        }
    }
}

fn write_status(status: Status, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match status.name() {
        Some(name) => write!(f, "{name} ({})", status.0),
        None => write!(f, "status {}", status.0),
    }
}

impl std::error::Error for PmixConnectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Env(error) => Some(error),
            Self::Dial { error, .. } => Some(error),
            Self::Open(error) => Some(error),
        }
    }
}

impl std::error::Error for CallError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::Peer(error) => Some(error),
            Self::Misuse(error) => Some(error),
            Self::Refused { .. } => None,
        }
    }
}
