//! A connected stream, of whichever kind.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
#[cfg(not(target_os = "hermit"))]
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// A connection that waits when it is read or written.
///
/// It has the traits of `std::io` and those of `embedded-io`, so the calls of
/// [`pmi_link::blocking`] work on it. For a driver that must not wait, see
/// [`NonBlocking`](crate::NonBlocking).
#[derive(Debug)]
pub enum Stream {
    /// One end of a socket pair, as a launcher leaves it, or a Unix socket.
    #[cfg(not(target_os = "hermit"))]
    Unix(UnixStream),
    /// A TCP connection.
    Tcp(TcpStream),
    /// A TCP connection under TLS, as its client.
    #[cfg(feature = "tls")]
    Tls(Box<crate::tls::Client>),
    /// A TCP connection under TLS, as its server.
    #[cfg(feature = "tls")]
    Served(Box<crate::tls::Server>),
}

impl Stream {
    /// Connects to a TCP address.
    ///
    /// # Errors
    ///
    /// Of the last address that was tried, if a name has several.
    pub fn dial(host: &str, port: u16) -> io::Result<Self> {
        Self::connect_within(host, port, None)
    }

    /// Connects to a TCP address; each attempt is limited by `timeout`.
    pub(crate) fn connect_within(
        host: &str,
        port: u16,
        timeout: Option<Duration>,
    ) -> io::Result<Self> {
        let Some(timeout) = timeout else {
            return Self::connected(TcpStream::connect((host, port))?);
        };
        let mut result = Err(io::ErrorKind::AddrNotAvailable.into());
        for address in (host, port).to_socket_addrs()? {
            result = TcpStream::connect_timeout(&address, timeout);
            if result.is_ok() {
                break;
            }
        }
        Self::connected(result?)
    }

    fn connected(stream: TcpStream) -> io::Result<Self> {
        // Every message waits for its answer, so nothing is gained by holding one back.
        stream.set_nodelay(true)?;
        Ok(Self::Tcp(stream))
    }

    /// Chooses whether reads and writes block. It holds for all copies of the descriptor.
    ///
    /// # Errors
    ///
    /// The error of the system.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        match self {
            #[cfg(not(target_os = "hermit"))]
            Self::Unix(stream) => stream.set_nonblocking(nonblocking),
            Self::Tcp(stream) => stream.set_nonblocking(nonblocking),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.get_ref().set_nonblocking(nonblocking),
            #[cfg(feature = "tls")]
            Self::Served(stream) => stream.get_ref().set_nonblocking(nonblocking),
        }
    }

    /// True if there is something to read or to send that the system does not know of; possible
    /// only under TLS.
    pub fn is_pending(&mut self) -> bool {
        match self {
            #[cfg(not(target_os = "hermit"))]
            Self::Unix(_) => false,
            Self::Tcp(_) => false,
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.is_pending(),
            #[cfg(feature = "tls")]
            Self::Served(stream) => stream.is_pending(),
        }
    }

    /// True while a TLS handshake is in progress.
    pub fn is_handshaking(&self) -> bool {
        match self {
            #[cfg(not(target_os = "hermit"))]
            Self::Unix(_) => false,
            Self::Tcp(_) => false,
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.is_handshaking(),
            #[cfg(feature = "tls")]
            Self::Served(stream) => stream.is_handshaking(),
        }
    }
}

#[cfg(not(target_os = "hermit"))]
impl From<UnixStream> for Stream {
    fn from(stream: UnixStream) -> Self {
        Self::Unix(stream)
    }
}

impl From<TcpStream> for Stream {
    fn from(stream: TcpStream) -> Self {
        Self::Tcp(stream)
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            #[cfg(not(target_os = "hermit"))]
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.as_fd(),
            #[cfg(feature = "tls")]
            Self::Served(stream) => stream.as_fd(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            #[cfg(not(target_os = "hermit"))]
            Self::Unix(stream) => stream.read(out),
            Self::Tcp(stream) => stream.read(out),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.read(out),
            #[cfg(feature = "tls")]
            Self::Served(stream) => stream.read(out),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            #[cfg(not(target_os = "hermit"))]
            Self::Unix(stream) => stream.write(bytes),
            Self::Tcp(stream) => stream.write(bytes),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.write(bytes),
            #[cfg(feature = "tls")]
            Self::Served(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        // Sockets hold nothing back.
        Ok(())
    }
}

impl embedded_io::ErrorType for Stream {
    type Error = io::Error;
}

impl embedded_io::Read for Stream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        retry_interrupted(|| Read::read(self, out))
    }
}

impl embedded_io::Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        retry_interrupted(|| Write::write(self, bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Write::flush(self)
    }
}

/// Repeats a call that a signal has interrupted.
pub(crate) fn retry_interrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}
