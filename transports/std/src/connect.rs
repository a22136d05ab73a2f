//! Connects the process to the server that its environment names.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use pmi_core::auth::{NONCE_DIGITS, Nonce, Secret};
use pmi_core::client::{MutualProver, Prover, prove};
use pmi_core::command::{Reply, Version};
use pmi_core::error::PeerError;
use pmi_link::CallError;

use crate::env::{EnvError, Environment, RequestedVersions, Sockets, Transport};
use crate::inherit::{Socket, inherited_socket};
use crate::munge::MungeProver;
use crate::owned::Membership;
use crate::pmi::Pmi;
use crate::shared::SharedPmi;
use crate::stream::Stream;
#[cfg(feature = "tls")]
use crate::{env::PIN_VARIABLE, tls};

type CallResult<T> = Result<T, CallError<io::Error>>;

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
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The environment is inconsistent or invalid.
    #[error("{0}")]
    Env(#[from] EnvError),
    /// `PMI_FD` is not a socket that is open.
    #[error("PMI_FD names descriptor {fd}, which is not an open socket: {error}")]
    Inherit {
        /// The descriptor.
        fd: i32,
        /// Error of the system.
        #[source]
        error: io::Error,
    },
    /// Connecting to `PMI_PORT` failed.
    #[error("PMI_PORT names {host}:{port}, which cannot be reached: {error}")]
    Connect {
        /// The host.
        host: String,
        /// The port.
        port: u16,
        /// Error of the system.
        #[source]
        error: io::Error,
    },
    /// `PMI_SOCKTYPE` requests a transport that this program was built without.
    #[error("PMI_SOCKTYPE requests {sockets:?}, which is not built in")]
    NotBuiltIn {
        /// The requested socket type.
        sockets: Sockets,
    },
    /// The server does not speak TLS, or presents another certificate than that of `PMI_TLS_PIN`.
    #[cfg(feature = "tls")]
    #[error("{}", tls::failure(.error))]
    Tls {
        /// The cause.
        #[source]
        error: io::Error,
    },
    /// The program `munge` gave no credential.
    #[error(
        "munge gives this process no credential: {error}; munged must run, with its socket at the given path"
    )]
    Munge {
        /// The cause.
        #[source]
        error: io::Error,
    },
    /// The server did not reply within the time limit.
    #[error("the server did not open the session within {after:?}")]
    Timeout {
        /// The limit.
        after: Duration,
    },
    /// The server did not open the session.
    #[error("{}", opening(.0))]
    Open(#[from] CallError<io::Error>),
}

/// Options for connecting to a server: by default those of the environment, without a secret and without a
/// time limit.
///
/// ```no_run
/// use pmi_core::auth::Secret;
/// use pmi_std::ConnectOptions;
/// use std::time::Duration;
///
/// let secret = Secret::new(&std::fs::read("job.secret")?).map_err(|_| "no usable secret")?;
/// let options = ConnectOptions::new().secret(secret).timeout(Duration::from_secs(10));
/// if let Some(member) = options.connect_shared()? {
///     member.pmi.fence()?;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct ConnectOptions {
    environment: Option<Environment>,
    secret: Option<Secret>,
    is_mutual: bool,
    /// Proof by munge; the inner option is the socket of its daemon.
    munge: Option<Option<PathBuf>>,
    #[cfg(feature = "tls")]
    pin: Option<tls::Pin>,
    timeout: Option<Duration>,
}

/// Finds the server through the environment of this process, and opens a session in the version of
/// `PMI_REQUEST_VERSION`: by default the newest that the server speaks.
///
/// `None` is a singleton: the process was not started as part of a job, so it is rank 0 of 1, and
/// may start a launcher of its own ([`singleton`](crate::singleton)).
///
/// # Errors
///
/// [`ConnectError`].
pub fn connect() -> Result<Option<Member>, ConnectError> {
    ConnectOptions::new().connect()
}

/// Does as [`connect()`] with the given environment.
///
/// # Errors
///
/// [`ConnectError`].
pub fn connect_by(environment: Environment) -> Result<Option<Member>, ConnectError> {
    ConnectOptions::new().environment(environment).connect()
}

/// Does as [`connect()`], for a process whose threads share the session.
///
/// # Errors
///
/// [`ConnectError`].
pub fn connect_shared() -> Result<Option<Member<SharedPmi>>, ConnectError> {
    ConnectOptions::new().connect_shared()
}

impl ConnectOptions {
    /// Options that are those of the environment of this process.
    pub fn new() -> Self {
        Self::default()
    }

    /// Uses `environment` instead of that of this process.
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = Some(environment);
        self
    }

    /// Proves knowledge of `secret` to a server that requires it. Only PMI-2 has a request for that.
    pub fn secret(mut self, secret: Secret) -> Self {
        self.secret = Some(secret);
        self
    }

    /// Requires that the server proves the secret as well, before this process is a member of the job: a
    /// server that proves nothing is refused with [`PeerError::Unproven`]. So is every connection in PMI-1 or
    /// without a [`secret`](Self::secret), and one that the process has inherited, whose server asks for no
    /// proof.
    ///
    /// Wire: the method `mutual-hmac-sha256`, which only the servers of this project offer
    /// ([`MutualHmac`](pmi_core::auth::MutualHmac)).
    pub fn mutual(mut self) -> Self {
        self.is_mutual = true;
        self
    }

    /// Proves the user of this process by a credential of munge, which the program `munge` requests from the
    /// daemon at `socket`, or at that of the system. A server without this method, or without a daemon of the
    /// same realm, refuses; of the servers of this project those started with `--munge` have it. Only PMI-2
    /// has a request for that. With [`mutual`](Self::mutual) the secret is proved instead.
    ///
    /// Wire: the method `munge` ([`MungeCredential`](pmi_core::auth::MungeCredential)).
    pub fn munge(mut self, socket: Option<PathBuf>) -> Self {
        self.munge = Some(socket);
        self
    }

    /// Connects under TLS, and trusts the certificate of `pin`; without it `PMI_SOCKTYPE` and `PMI_TLS_PIN`
    /// decide.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, pin: tls::Pin) -> Self {
        self.pin = Some(pin);
        self
    }

    /// Limits the time of connecting, and of each wait for the server until the session is open. Later calls
    /// have no limit: a fence waits for all ranks.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Connects and opens a session for one thread; `None` is a singleton, as for [`connect()`].
    ///
    /// Wire: in PMI-1, `initack` if the server is reached by TCP, then `init`, `get_maxes` and
    /// `get_my_kvsname`; in PMI-2, `init`, `fullinit` and `job-getid`.
    ///
    /// # Errors
    ///
    /// [`ConnectError`].
    pub fn connect(self) -> Result<Option<Member>, ConnectError> {
        self.open(|stream| Ok(Pmi::new(stream)), Pmi::join)
    }

    /// Connects and opens a session that several threads use at once.
    ///
    /// Wire: as for [`connect`](Self::connect).
    ///
    /// # Errors
    ///
    /// [`ConnectError`].
    pub fn connect_shared(self) -> Result<Option<Member<SharedPmi>>, ConnectError> {
        #[cfg(feature = "snapshot")]
        let offers = {
            let environment = self.effective_environment()?;
            environment.snapshot && matches!(environment.transport, Transport::Inherited { .. })
        };
        let new = |stream| {
            #[cfg(feature = "snapshot")]
            if offers {
                return SharedPmi::with_snapshot(stream).map_err(CallError::Io);
            }
            SharedPmi::new(stream).map_err(CallError::Io)
        };
        self.open(new, |pmi, environment, version, prover| pmi.join(environment, version, prover))
    }

    /// Connects and sends nothing yet, for callers that have calls of their own: futures, or a machine that
    /// they drive themselves. The stream has no time limit.
    ///
    /// # Errors
    ///
    /// [`ConnectError`]; a singleton has no server.
    pub fn connect_stream(self) -> Result<Stream, ConnectError> {
        let environment = self.effective_environment()?;
        let stream = reach_within(&environment, self.timeout)?;
        if self.timeout.is_some() {
            set_timeout(&second_descriptor(&stream)?, None)?;
        }
        Ok(stream)
    }

    fn effective_environment(&self) -> Result<Environment, ConnectError> {
        let environment = self.environment.clone();
        #[cfg_attr(not(feature = "tls"), allow(unused_mut, reason = "only TLS changes it"))]
        let mut environment = environment.map_or_else(Environment::of_this_process, Ok)?;
        #[cfg(feature = "tls")]
        if let Some(pin) = &self.pin {
            environment.sockets = Sockets::Ssl;
            environment.pin = Some(pin.to_string());
        }
        Ok(environment)
    }

    fn open<P>(
        &self,
        new: impl Fn(Stream) -> CallResult<P>,
        join: impl Fn(&mut P, &Environment, Version, Option<&dyn Prover>) -> CallResult<Membership>,
    ) -> Result<Option<Member<P>>, ConnectError> {
        let environment = self.effective_environment()?;
        if environment.transport == Transport::Singleton {
            return Ok(None);
        }
        let (first, second) = match environment.versions {
            RequestedVersions::Only(version) => (version, None),
            // PMI-1 has no proof of the server.
            RequestedVersions::Newest if self.is_mutual => (Version::V2_0, None),
            RequestedVersions::Newest => (Version::V2_0, Some(Version::V1_1)),
        };
        if self.is_mutual && (self.secret.is_none() || first.major < 2) {
            return Err(ConnectError::Open(CallError::Peer(PeerError::Unproven)));
        }
        let attempt = |version| -> Result<Member<P>, ConnectError> {
            let stream = reach_within(&environment, self.timeout)?;
            let socket = second_descriptor(&stream)?;
            let mut pmi = new(stream)?;
            let one_round = |reply: &Reply<'_>| prove(self.secret.as_ref()?, reply);
            let mutual = self.mutual_prover().map_err(CallError::Io)?;
            let munge = self.munge.clone().map(MungeProver::new);
            let prover: Option<&dyn Prover> = match (&mutual, &munge, &self.secret) {
                (Some(mutual), ..) => Some(mutual),
                (None, Some(munge), _) => Some(munge),
                (None, None, Some(_)) => Some(&one_round),
                (None, None, None) => None,
            };
            let membership = join(&mut pmi, &environment, version, prover);
            let membership = membership.map_err(|error| {
                let failure = munge.and_then(MungeProver::into_failure);
                failure.map_or_else(|| self.timed_out(error), |error| ConnectError::Munge { error })
            })?;
            if self.timeout.is_some() {
                set_timeout(&socket, None)?;
            }
            Ok(Member::new(pmi, membership))
        };
        match (attempt(first), second) {
            (Err(ConnectError::Open(error)), Some(version))
                if may_be_pmi1(&environment.transport, &error) =>
            {
                attempt(version)
            }
            (member, _) => member,
        }
        .map(Some)
    }

    /// The prover of one session in which the server proves the secret as well.
    fn mutual_prover(&self) -> io::Result<Option<MutualProver>> {
        let Some(secret) = self.secret.clone().filter(|_| self.is_mutual) else { return Ok(None) };
        let mut random = [0; NONCE_DIGITS];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        Ok(Some(MutualProver::new(secret, Nonce::new(random))))
    }

    /// The error of a handshake, which may be that of the time limit.
    fn timed_out(&self, error: CallError<io::Error>) -> ConnectError {
        match (self.timeout, &error) {
            (Some(after), CallError::Io(io)) if is_timeout(io) => ConnectError::Timeout { after },
            _ => ConnectError::Open(error),
        }
    }
}

impl fmt::Debug for ConnectOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut options = f.debug_struct("ConnectOptions");
        options.field("environment", &self.environment).field("has_secret", &self.secret.is_some());
        options.field("is_mutual", &self.is_mutual).field("munge", &self.munge);
        options.field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl<P> Member<P> {
    pub(crate) fn new(pmi: P, Membership { rank, size, spawned }: Membership) -> Self {
        Self { pmi, rank, size, spawned }
    }
}

/// True if the server may be of the first generation.
fn may_be_pmi1(transport: &Transport, error: &CallError<io::Error>) -> bool {
    match (transport, error) {
        // A server that was connected to may expect a greeting first, and close the connection on
        // anything else.
        (Transport::Tcp { .. }, CallError::Io(_) | CallError::Peer(_)) => true,
        // A descriptor leads to the same session again, so it must still be open.
        (_, CallError::Peer(PeerError::Version { .. } | PeerError::Refused(_))) => true,
        _ => false,
    }
}

/// Connects to the server that `environment` names and sends nothing yet.
///
/// # Errors
///
/// As for [`ConnectOptions::connect_stream`].
pub fn reach(environment: &Environment) -> Result<Stream, ConnectError> {
    ConnectOptions::new().environment(environment.clone()).connect_stream()
}

/// Connects; `timeout` holds for connecting, and for later reads and writes.
fn reach_within(
    environment: &Environment,
    timeout: Option<Duration>,
) -> Result<Stream, ConnectError> {
    let sockets = environment.sockets;
    let stream = match &environment.transport {
        Transport::Inherited { fd } => match inherited_socket(*fd) {
            Ok(stream) => stream.into(),
            Err(error) => return Err(ConnectError::Inherit { fd: *fd, error }),
        },
        Transport::Tcp { .. } if sockets == Sockets::Ssl && !cfg!(feature = "tls") => {
            return Err(ConnectError::NotBuiltIn { sockets });
        }
        Transport::Tcp { host, port, .. } => Stream::connect_within(host, *port, timeout)
            .map_err(|error| ConnectError::Connect { host: host.clone(), port: *port, error })?,
        Transport::Singleton => {
            return Err(ConnectError::Open(CallError::Peer(PeerError::LeftEarly)));
        }
    };
    if timeout.is_some() {
        set_timeout(&second_descriptor(&stream)?, timeout)?;
    }
    match &environment.transport {
        Transport::Tcp { .. } if sockets == Sockets::Ssl => secure(stream, environment),
        _ => Ok(stream),
    }
}

/// Duplicates the descriptor of a socket, whose time limits can be set through each of the two.
fn second_descriptor(stream: &Stream) -> CallResult<Socket> {
    stream.as_fd().try_clone_to_owned().map(Socket::from).map_err(CallError::Io)
}

/// Limits each read and write of the socket.
fn set_timeout(socket: &Socket, timeout: Option<Duration>) -> CallResult<()> {
    let read = socket.set_read_timeout(timeout);
    read.and_then(|()| socket.set_write_timeout(timeout)).map_err(CallError::Io)
}

/// True for the error of a read or write that has reached its limit.
fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
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

/// The words for an error of opening the session.
fn opening(error: &CallError<io::Error>) -> String {
    match error {
        CallError::Peer(PeerError::Version { major, minor }) => {
            format!("the server speaks PMI {major}.{minor}, which is not the requested version")
        }
        error => format!("the server did not open the session: {error}"),
    }
}
