//! From the environment to a client that is ready to put and get.

use std::fmt;
use std::io;

use pmi_core::command::Version;
use pmi_link::CallError;
use pmi_link::blocking::Pmi;

use crate::env::{EnvError, Environment, Way};
use crate::inherit::inherited_socket;
use crate::stream::Stream;

/// A process that is a member of a job, and its conversation with the server.
#[derive(Debug)]
pub struct Member {
    /// The conversation: opened, sizes and the name of the space known.
    pub pmi: Pmi<Stream>,
    /// The rank of this process.
    pub rank: u32,
    /// How many processes the job has.
    pub size: u32,
    /// Whether another job started this one.
    pub spawned: bool,
}

/// Why there is no conversation.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConnectError {
    /// The environment cannot be meant.
    Env(EnvError),
    /// `PMI_FD` is not a socket that is open.
    Inherit {
        /// The descriptor.
        fd: i32,
        /// What the system said.
        error: io::Error,
    },
    /// Nobody answers at `PMI_PORT`.
    Dial {
        /// The host.
        host: String,
        /// The port.
        port: u16,
        /// What the system said.
        error: io::Error,
    },
    /// The server did not open the conversation.
    Open(CallError<io::Error>),
}

/// Finds the server through the environment of this process, and opens a conversation in PMI-1.1.
///
/// `None` is a singleton: there is no server, and the process is rank 0 of 1.
/// Errors: [`ConnectError`].
pub fn connect() -> Result<Option<Member>, ConnectError> {
    connect_by(Environment::of_this_process()?)
}

/// Opens a conversation in PMI-1.1 with the server that `environment` leads to.
///
/// Wire: `initack` if the server is dialled, then `init`, `get_maxes` and `get_my_kvsname`.
/// Errors: [`ConnectError`].
pub fn connect_by(environment: Environment) -> Result<Option<Member>, ConnectError> {
    let Environment { way, mut rank, mut size, spawned } = environment;
    let mut pmi = match way {
        Way::Singleton => return Ok(None),
        Way::Inherited { fd } => {
            let stream = inherited_socket(fd);
            Pmi::new(stream.map_err(|error| ConnectError::Inherit { fd, error })?.into())
        }
        Way::Dial { host, port, id } => {
            let stream = Stream::dial(&host, port);
            let mut pmi =
                Pmi::new(stream.map_err(|error| ConnectError::Dial { host, port, error })?);
            let identity = pmi.greet(id)?;
            (rank, size) = (identity.rank, identity.size);
            pmi
        }
    };
    pmi.init(Version::V1_1)?;
    pmi.maxes()?;
    pmi.kvsname()?;
    Ok(Some(Member { pmi, rank, size, spawned }))
}

impl From<EnvError> for ConnectError {
    fn from(error: EnvError) -> Self {
        Self::Env(error)
    }
}

impl From<CallError<io::Error>> for ConnectError {
    fn from(error: CallError<io::Error>) -> Self {
        Self::Open(error)
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(error) => error.fmt(f),
            Self::Inherit { fd, error } => {
                write!(f, "PMI_FD names descriptor {fd}, which is not an open socket: {error}")
            }
            Self::Dial { host, port, error } => {
                write!(f, "PMI_PORT names {host}:{port}, where nobody answers: {error}")
            }
            Self::Open(error) => {
                write!(f, "the server did not open the conversation: {error}")
            }
        }
    }
}

impl std::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Env(error) => Some(error),
            Self::Inherit { error, .. } | Self::Dial { error, .. } => Some(error),
            Self::Open(error) => Some(error),
        }
    }
}
