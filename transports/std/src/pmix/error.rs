//! Errors of connecting and of calls.

use std::io;
use std::net::SocketAddr;

use pmi_core::error::{Misuse, PeerError};
use pmi_core::wire::pmix::names::{Command, Status};
use thiserror::Error;

use crate::env::EnvError;

/// Error of connecting a process to its server.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PmixConnectError {
    /// The environment is inconsistent or invalid.
    #[error("{0}")]
    Env(#[from] EnvError),
    /// Connecting to the address of the server failed.
    #[error("the PMIx server at {address} cannot be reached: {error}")]
    Connect {
        /// The address.
        address: SocketAddr,
        /// Error of the system.
        #[source]
        error: io::Error,
    },
    /// The server rejected this process.
    #[error("{}", opening(.0))]
    Open(#[from] CallError),
}

/// Error of a call.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CallError {
    /// Error of the connection, which terminates the session.
    #[error("the connection to the PMIx server failed: {0}")]
    Io(#[from] io::Error),
    /// Protocol error, rejection or early end by the server, which terminates the session.
    #[error("{0}")]
    Peer(#[from] PeerError),
    /// The call should not have been made; nothing was sent.
    #[error("{0}")]
    Misuse(#[from] Misuse),
    /// The server refused this call; the session continues.
    #[error("the PMIx server refused {}: {}", .command.name().unwrap_or("a request"), shown(*.status))]
    Refused {
        /// The refused operation.
        command: Command,
        /// The server's reason.
        status: Status,
    },
}

fn opening(error: &CallError) -> String {
    match error {
        CallError::Peer(PeerError::Refused(code)) => {
            format!("the PMIx server rejected this process: {}", shown(Status(code.0)))
        }
        error => format!("the PMIx server did not open the session: {error}"),
    }
}

fn shown(status: Status) -> String {
    match status.name() {
        Some(name) => format!("{name} ({})", status.0),
        None => format!("status {}", status.0),
    }
}
