//! Connects the process to the server that its environment names.

use std::fmt;
use std::io;

use pmi_core::auth::Secret;
use pmi_core::client::prove;
use pmi_core::command::{Identity, Reply, Version};
use pmi_core::error::PeerError;
use pmi_link::CallError;
use pmi_link::blocking::{self, Opening};

use crate::env::{EnvError, Environment, Sockets, Speaks, Way};
use crate::inherit::inherited_socket;
use crate::shared::SharedPmi;
use crate::stream::Stream;
#[cfg(feature = "tls")]
use crate::{env::PIN_VARIABLE, tls};

/// The calls of one thread.
pub type Pmi = blocking::Pmi<Stream>;

/// A process of a job, and its session with the server.
#[derive(Debug)]
pub struct Member<P = Pmi> {
    /// Session with the server: open, with limits and the name of the key-value space known.
    pub pmi: P,
    /// The rank of this process.
    pub rank: u32,
    /// Number of processes of the job.
    pub size: u32,
    /// True if another job started this one.
    pub spawned: bool,
}

/// Error of connecting a process to its server.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConnectError {
    /// The environment is inconsistent or invalid.
    Env(EnvError),
    /// `PMI_FD` is not a socket that is open.
    Inherit {
        /// The descriptor.
        fd: i32,
        /// Error of the system.
        error: io::Error,
    },
    /// Connecting to `PMI_PORT` failed.
    Dial {
        /// The host.
        host: String,
        /// The port.
        port: u16,
        /// Error of the system.
        error: io::Error,
    },
    /// `PMI_SOCKTYPE` requests a transport that this program was built without.
    NotBuiltIn {
        /// The requested socket type.
        sockets: Sockets,
    },
    /// The server does not speak TLS, or presents another certificate than that of `PMI_TLS_PIN`.
    #[cfg(feature = "tls")]
    Tls {
        /// The cause.
        error: io::Error,
    },
    /// The server did not open the session.
    Open(CallError<io::Error>),
}

/// Finds the server through the environment of this process, and opens a session in the version of
/// `PMI_VERSION`: PMI-1.1 by default.
///
/// `None` is a singleton: the process was not started as part of a job, so it is rank 0 of 1, and
/// may start a launcher of its own ([`singleton`](crate::singleton)).
///
/// # Errors
///
/// [`ConnectError`].
pub fn connect() -> Result<Option<Member>, ConnectError> {
    connect_by(Environment::of_this_process()?)
}

/// Opens a session with the server that `environment` leads to.
///
/// Wire: in PMI-1, `initack` if the server is reached by TCP, then `init`, `get_maxes` and
/// `get_my_kvsname`; in PMI-2, `init`, `fullinit` and `job-getid`.
///
/// # Errors
///
/// [`ConnectError`].
pub fn connect_by(environment: Environment) -> Result<Option<Member>, ConnectError> {
    connect_proving(environment, None)
}

/// Does as [`connect_by`], and proves knowledge of `secret` to a server that requires it. Only
/// PMI-2 has a request for that.
///
/// # Errors
///
/// [`ConnectError`].
pub fn connect_proving(
    environment: Environment,
    secret: Option<&Secret>,
) -> Result<Option<Member>, ConnectError> {
    begin(environment, secret, |stream| Ok(Pmi::new(stream)))
}

/// Does as [`connect()`], for a process whose threads share the session.
///
/// # Errors
///
/// [`ConnectError`].
pub fn connect_shared() -> Result<Option<Member<SharedPmi>>, ConnectError> {
    connect_shared_by(Environment::of_this_process()?, None)
}

/// Does as [`connect_proving`], for a process whose threads share the session.
///
/// # Errors
///
/// [`ConnectError`].
pub fn connect_shared_by(
    environment: Environment,
    secret: Option<&Secret>,
) -> Result<Option<Member<SharedPmi>>, ConnectError> {
    begin(environment, secret, |stream| SharedPmi::new(stream).map_err(CallError::Io))
}

/// The handshake that both kinds of client have in common.
pub(crate) trait Handshake: Sized {
    fn greet(&mut self, id: u64) -> Result<Identity<'static>, CallError<io::Error>>;
    fn open(&mut self, opening: &Opening<'_>) -> Result<Opened, CallError<io::Error>>;
    /// Requests limits and names, as far as the version has requests for them.
    fn fetch_limits(&mut self) -> Result<(), CallError<io::Error>>;
}

/// Result of a handshake.
pub(crate) struct Opened {
    pub(crate) identity: Option<Identity<'static>>,
    pub(crate) is_spawned: bool,
}

impl Handshake for Pmi {
    fn greet(&mut self, id: u64) -> Result<Identity<'static>, CallError<io::Error>> {
        Self::greet(self, id)
    }

    fn open(&mut self, opening: &Opening<'_>) -> Result<Opened, CallError<io::Error>> {
        Self::open(self, opening, &mut [])?;
        Ok(Opened { identity: self.identity(), is_spawned: self.client().is_spawned() })
    }

    fn fetch_limits(&mut self) -> Result<(), CallError<io::Error>> {
        self.maxes()?;
        self.kvsname().map(drop)
    }
}

fn begin<P: Handshake>(
    environment: Environment,
    secret: Option<&Secret>,
    client: impl Fn(Stream) -> Result<P, CallError<io::Error>>,
) -> Result<Option<Member<P>>, ConnectError> {
    if environment.way == Way::Singleton {
        return Ok(None);
    }
    let (first, second) = match environment.speaks {
        Speaks::Only(version) => (version, None),
        Speaks::Newest => (Version::V2_0, Some(Version::V1_1)),
    };
    let join = |version| -> Result<Member<P>, ConnectError> {
        join_job(&environment, version, secret, client(reach(&environment)?)?)
    };
    match (join(first), second) {
        (Err(ConnectError::Open(error)), Some(version))
            if may_be_pmi1(&environment.way, &error) =>
        {
            join(version)
        }
        (member, _) => member,
    }
    .map(Some)
}

/// True if the server may be of the first generation.
fn may_be_pmi1(way: &Way, error: &CallError<io::Error>) -> bool {
    match (way, error) {
        // A server that was connected to may expect a greeting first, and close the connection on
        // anything else.
        (Way::Dial { .. }, CallError::Io(_) | CallError::Peer(_)) => true,
        // A descriptor leads to the same session again, so it must still be open.
        (_, CallError::Peer(PeerError::Version { .. } | PeerError::Refused(_))) => true,
        _ => false,
    }
}

/// Connects to the server and sends nothing yet, for callers that have calls of their own: futures,
/// or a machine that they drive themselves.
///
/// # Errors
///
/// [`ConnectError`]; a singleton has no server.
pub fn reach(environment: &Environment) -> Result<Stream, ConnectError> {
    let sockets = environment.sockets;
    match &environment.way {
        Way::Inherited { fd } => match inherited_socket(*fd) {
            Ok(stream) => Ok(stream.into()),
            Err(error) => Err(ConnectError::Inherit { fd: *fd, error }),
        },
        Way::Dial { .. } if sockets == Sockets::Ssl && !cfg!(feature = "tls") => {
            Err(ConnectError::NotBuiltIn { sockets })
        }
        Way::Dial { host, port, .. } => {
            let stream = Stream::dial(host, *port).map_err(|error| ConnectError::Dial {
                host: host.clone(),
                port: *port,
                error,
            })?;
            match sockets {
                Sockets::Posix => Ok(stream),
                Sockets::Ssl => secure(stream, environment),
            }
        }
        Way::Singleton => Err(ConnectError::Open(CallError::Peer(PeerError::LeftEarly))),
    }
}

/// Establishes TLS over a stream, and trusts the certificate that the environment names.
#[cfg(feature = "tls")]
fn secure(stream: Stream, environment: &Environment) -> Result<Stream, ConnectError> {
    let Stream::Tcp(stream) = stream else {
        return Err(ConnectError::NotBuiltIn { sockets: environment.sockets });
    };
    let value = environment.pin.clone().unwrap_or_default();
    let invalid = |value| EnvError::Invalid {
        variable: PIN_VARIABLE,
        value,
        expected: "64 hexadecimal digits",
    };
    let pin = value.parse().map_err(|_| ConnectError::Env(invalid(value)))?;
    let secured = tls::Client::new(stream, pin).and_then(|mut client| {
        // At once, so that a wrong certificate is reported as such and not as a malformed reply.
        client.handshake()?;
        Ok(client)
    });
    secured.map(|client| Stream::Tls(Box::new(client))).map_err(|error| ConnectError::Tls { error })
}

#[cfg(not(feature = "tls"))]
fn secure(_stream: Stream, environment: &Environment) -> Result<Stream, ConnectError> {
    Err(ConnectError::NotBuiltIn { sockets: environment.sockets })
}

/// Opens a session over a stream.
pub(crate) fn join_job<P: Handshake>(
    environment: &Environment,
    version: Version,
    secret: Option<&Secret>,
    mut pmi: P,
) -> Result<Member<P>, ConnectError> {
    let Environment { way, rank, size, spawned, job, .. } = environment;
    let mut identity = None;
    let mut opening = Opening::new(version);
    opening.rank = Some(*rank);
    opening.job = job.as_deref().map(str::as_bytes);
    if let (Way::Dial { id, .. }, 1) = (way, version.major) {
        identity = Some(pmi.greet(*id)?);
    }
    let prover = |reply: &Reply<'_>| prove(secret?, reply);
    opening.prover = secret.is_some().then_some(&prover);
    let opened = pmi.open(&opening)?;
    pmi.fetch_limits()?;
    let identity = opened.identity.or(identity);
    Ok(Member {
        pmi,
        rank: identity.map_or(*rank, |who| who.rank),
        size: identity.map_or(*size, |who| who.size),
        spawned: *spawned || opened.is_spawned,
    })
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
            Self::NotBuiltIn { sockets } => {
                write!(f, "PMI_SOCKTYPE asks for {sockets:?}, which is not built in")
            }
            #[cfg(feature = "tls")]
            Self::Tls { error } if tls::is_plain(error) => f.write_str(
                "PMI_SOCKTYPE asks for TLS, which the server does not speak; leave it unset, or \
                 start the server with TLS",
            ),
            #[cfg(feature = "tls")]
            Self::Tls { error } => write!(f, "no safe connection to the server: {error}"),
            Self::Open(CallError::Peer(PeerError::Version { major, minor })) => {
                write!(f, "the server speaks PMI {major}.{minor} and not what it was asked for")
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
            #[cfg(feature = "tls")]
            Self::Tls { error } => Some(error),
            Self::NotBuiltIn { .. } => None,
            Self::Open(error) => Some(error),
        }
    }
}
