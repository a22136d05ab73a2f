//! TLS as one more stream, for `PMI_SOCKTYPE=OpenSSL`.
//!
//! A job needs no certificate authority: the server makes a certificate for the job, in memory, and
//! passes its [`Pin`] to the ranks in their environment, like everything else. A rank trusts that
//! one certificate and no other; names and dates have no meaning. This keeps the session
//! confidential; PMI's own challenge decides which process may join (see [`pmi_core::auth`]).
//!
//! Wire: TLS 1.3 around the bytes of any dialect. Spec: PMI-2 wire protocol, "The Protocol", which
//! names the variable and leaves the rest open.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, Connection, DigitallySignedStruct, Error,
    ServerConfig, ServerConnection, SideData, SignatureScheme, StreamOwned,
};
use sha2::{Digest, Sha256};

use crate::env::PIN_VARIABLE;

/// The SHA-256 of a certificate; as text, 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pin([u8; 32]);

/// The certificate of one job and its key, which exist in memory only.
#[derive(Clone)]
pub struct Identity {
    config: Arc<ServerConfig>,
    pin: Pin,
}

/// A TCP connection under TLS, blocking or not as the connection below.
///
/// The handshake is done by the first reads and writes.
///
/// Shape: a write accepts bytes only while the connection below has room for their encrypted form,
/// so that written bytes need no further call.
pub struct Secured<C>(StreamOwned<C, TcpStream>);

/// The receiving direction of a connection that two threads use at once.
pub(crate) struct TlsReader(SharedTls);

/// The sending direction of a connection that two threads use at once.
///
/// Shape: bytes are encrypted while the connection is locked and sent while it is not, so a message that
/// waits for room prevents no reading. One thread at a time writes, so records keep their order.
pub(crate) struct TlsWriter {
    shared: SharedTls,
    /// Records that are on their way.
    sealed: Vec<u8>,
}

/// The state of a connection, which both directions need, and its socket.
struct SharedTls {
    connection: Arc<Mutex<Connection>>,
    socket: TcpStream,
}

/// The connecting end.
pub type Client = Secured<ClientConnection>;

/// The listening end.
pub type Server = Secured<ServerConnection>;

impl Identity {
    /// Makes a certificate for a job.
    ///
    /// # Errors
    ///
    /// If the system has no random numbers.
    pub fn for_job() -> io::Result<Self> {
        let made =
            rcgen::generate_simple_self_signed([NAME.to_owned()]).map_err(io::Error::other)?;
        let certificate = made.cert.der().clone();
        let pin = Pin::of(&certificate);
        let key =
            PrivateKeyDer::try_from(made.signing_key.serialize_der()).map_err(io::Error::other)?;
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .map_err(io::Error::other)?;
        // No client resumes, and a rank that exits with an unread ticket would seem to have
        // crashed.
        config.send_tls13_tickets = 0;
        Ok(Self { config: Arc::new(config), pin })
    }

    /// The value of [`PIN_VARIABLE`] for ranks.
    pub const fn pin(&self) -> Pin {
        self.pin
    }

    /// Wraps an accepted connection as its server.
    ///
    /// # Errors
    ///
    /// Only if the configuration cannot be used; a peer that does not speak TLS shows when
    /// it is read.
    pub fn accept(&self, stream: TcpStream) -> io::Result<Server> {
        stream.set_nodelay(true)?;
        let connection = ServerConnection::new(self.config.clone()).map_err(io::Error::other)?;
        Ok(Secured(StreamOwned::new(connection, stream)))
    }
}

impl Client {
    /// Wraps a TCP connection as its client, and trusts only the certificate with this pin.
    ///
    /// # Errors
    ///
    /// Only if the configuration is unusable; a wrong certificate is reported by the first read.
    pub fn new(stream: TcpStream, pin: Pin) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let provider = provider();
        let verifier = Pinned { pin, provider: provider.clone() };
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(io::Error::other)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        let name = ServerName::try_from(NAME).map_err(io::Error::other)?;
        let connection = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
        Ok(Self(StreamOwned::new(connection, stream)))
    }
}

impl<C, S> Secured<C>
where
    C: std::ops::DerefMut<Target = rustls::ConnectionCommon<S>>,
    S: SideData,
{
    /// Does the handshake now, as far as the connection below lets it.
    ///
    /// # Errors
    ///
    /// The error of the peer, or [`ErrorKind::WouldBlock`] if it is not done yet.
    pub fn handshake(&mut self) -> io::Result<()> {
        while self.0.conn.is_handshaking() {
            self.0.conn.complete_io(&mut self.0.sock)?;
        }
        // The last message of the handshake may still be buffered.
        self.send()
    }

    /// Separates the two directions, for two threads, after the handshake, which needs both.
    ///
    /// Shape: the connection below must be one that waits.
    ///
    /// # Errors
    ///
    /// Those of the handshake, and the error of the system if the descriptor has no copy.
    pub(crate) fn split(mut self) -> io::Result<(TlsReader, TlsWriter)>
    where
        Connection: From<C>,
    {
        self.handshake()?;
        let (connection, socket) = self.0.into_parts();
        let copy = socket.try_clone()?;
        let connection = Arc::new(Mutex::new(Connection::from(connection)));
        let reader = SharedTls { connection: Arc::clone(&connection), socket: copy };
        let shared = SharedTls { connection, socket };
        Ok((TlsReader(reader), TlsWriter { shared, sealed: Vec::new() }))
    }

    /// True until the peer has proven that it speaks TLS.
    pub fn is_handshaking(&self) -> bool {
        self.0.conn.is_handshaking()
    }

    /// True if there is something to read, or to send, that the system does not know of: it was
    /// taken from the connection below, or has not gone there.
    ///
    /// A caller that waits for the connection to become readable then also waits for it to become
    /// writable, which it mostly is already.
    pub fn is_pending(&mut self) -> bool {
        let conn = &mut self.0.conn;
        // An error here recurs at the next read, which reports it.
        let has_read =
            conn.process_new_packets().map_or(true, |io| io.plaintext_bytes_to_read() > 0);
        has_read || conn.wants_write()
    }

    /// Finds out whether a record fits below, where that must not be waited for.
    ///
    /// The system calls a TCP connection writable when a third of its buffer is free, which is more
    /// than a record.
    fn check_room(&self) -> io::Result<()> {
        if !rustix::fs::fcntl_getfl(&self.0.sock)?.contains(OFlags::NONBLOCK) {
            return Ok(());
        }
        let mut writable = [PollFd::new(&self.0.sock, PollFlags::OUT)];
        match poll(&mut writable, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? {
            0 => Err(ErrorKind::WouldBlock.into()),
            _ => Ok(()),
        }
    }

    /// Sends what is encrypted.
    fn send(&mut self) -> io::Result<()> {
        while self.0.conn.wants_write() {
            if self.0.conn.write_tls(&mut self.0.sock)? == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
        }
        Ok(())
    }

    /// The connection below, to wait for its readiness or to inspect it.
    pub const fn get_ref(&self) -> &TcpStream {
        &self.0.sock
    }
}

impl<C, S> Read for Secured<C>
where
    C: std::ops::DerefMut<Target = rustls::ConnectionCommon<S>>,
    S: SideData,
{
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self.0.read(out) {
            // A process that exits closes its socket without a TLS end. PMI has its own finalize,
            // so a truncated session is detected there.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(0),
            read => read,
        }
    }
}

impl<C, S> Write for Secured<C>
where
    C: std::ops::DerefMut<Target = rustls::ConnectionCommon<S>>,
    S: SideData,
{
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.handshake()?;
        self.check_room()?;
        let len = self.0.conn.writer().write(bytes.get(..RECORD).unwrap_or(bytes))?;
        match self.send() {
            // They are encrypted, so they are written; the next call sends what is left.
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(len),
            sent => sent.map(|()| len),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send()
    }
}

impl SharedTls {
    /// The state stays usable after a panic of another thread: each call of it is whole.
    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Read for TlsReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let Self(shared) = self;
        loop {
            match shared.lock().reader().read(out) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // As for `Secured`.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                read => return read,
            }
            // Waits without the lock, and leaves the bytes where they are; then reading does not wait.
            shared.socket.peek(&mut [0])?;
            let mut connection = shared.lock();
            connection.read_tls(&mut &shared.socket)?;
            let processed = connection.process_new_packets();
            processed.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        }
    }
}

impl Write for TlsWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Self { shared, sealed } = self;
        sealed.clear();
        let len = {
            let mut connection = shared.lock();
            let len = connection.writer().write(bytes.get(..RECORD).unwrap_or(bytes))?;
            while connection.wants_write() {
                connection.write_tls(sealed)?;
            }
            len
        };
        (&shared.socket).write_all(sealed)?;
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        // Every write sends what it has encrypted.
        Ok(())
    }
}

impl AsFd for TlsReader {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.socket.as_fd()
    }
}

impl AsFd for TlsWriter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.socket.as_fd()
    }
}

impl fmt::Debug for TlsReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TlsReader").field(&self.0.socket).finish()
    }
}

impl fmt::Debug for TlsWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TlsWriter").field(&self.shared.socket).finish()
    }
}

impl<C> AsFd for Secured<C> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.sock.as_fd()
    }
}

impl<C> fmt::Debug for Secured<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Secured").field(&self.0.sock).finish()
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("pin", &self.pin).finish_non_exhaustive()
    }
}

impl Pin {
    fn of(certificate: &CertificateDer<'_>) -> Self {
        Self(Sha256::digest(certificate).into())
    }
}

/// The words for a failed handshake.
pub(crate) fn failure(error: &io::Error) -> String {
    match error.get_ref().and_then(|inner| inner.downcast_ref()) {
        Some(Error::InvalidMessage(_)) => {
            "PMI_SOCKTYPE requests TLS, which the server does not speak; leave it unset, or start \
             the server with TLS"
                .to_owned()
        }
        _ => format!("no secure connection to the server: {error}"),
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Pin {
    type Err = NotAPin;

    fn from_str(text: &str) -> Result<Self, NotAPin> {
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return Err(NotAPin);
        }
        for (at, byte) in bytes.iter_mut().enumerate() {
            let digits = text.get(2 * at..2 * at + 2).ok_or(NotAPin)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| NotAPin)?;
        }
        Ok(Self(bytes))
    }
}

/// A text that is not 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{PIN_VARIABLE} must be 64 hexadecimal digits")]
pub struct NotAPin;

/// Trusts one certificate.
#[derive(Debug)]
struct Pinned {
    pin: Pin,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _chain: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if Pin::of(certificate) == self.pin {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        // Only TLS 1.3 is offered, so no peer can select it.
        Err(Error::General("TLS 1.2 is not supported".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        // That the peer has the key of the certificate is what the signature proves.
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Size of one record: a few messages of PMI, and less than a third of the smallest buffer of a
/// connection.
const RECORD: usize = 4 * 1024;

/// The name in the certificate, which must have one; it is not checked.
const NAME: &str = "pmi-job";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pin_is_written_and_read_as_text() {
        let pin = Identity::for_job().unwrap().pin();
        let text = pin.to_string();
        assert_eq!((text.len(), text.parse()), (64, Ok(pin)));
        for bad in ["", "00", &text[1..], &format!("{text}0"), &text.replace(&text[..1], "g")] {
            assert_eq!(bad.parse::<Pin>(), Err(NotAPin), "{bad}");
        }
        assert_ne!(Identity::for_job().unwrap().pin(), pin);
    }
}
