//! A stream of the system as a [`Link`].

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
#[cfg(not(target_os = "hermit"))]
use std::os::unix::net::UnixStream;

use pmi_link::{Link, LinkError, Wrote};

use crate::stream::{Stream, retry_interrupted};

/// A stream that never waits, for the driver loop of [`pmi_link`].
#[derive(Debug)]
pub struct NonBlocking<S> {
    stream: S,
    /// The end was read; some systems report an error behind it.
    ended: bool,
}

#[cfg(not(target_os = "hermit"))]
impl NonBlocking<UnixStream> {
    /// Makes a Unix socket one that never waits. It holds for all copies of the descriptor.
    ///
    /// # Errors
    ///
    /// Error of the system.
    pub fn unix(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self::of(stream))
    }
}

impl NonBlocking<TcpStream> {
    /// Makes a TCP connection one that never waits.
    ///
    /// # Errors
    ///
    /// Error of the system.
    pub fn tcp(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(Self::of(stream))
    }
}

impl NonBlocking<Stream> {
    /// Makes a stream of either kind one that never waits.
    ///
    /// # Errors
    ///
    /// Error of the system.
    pub fn stream(stream: Stream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self::of(stream))
    }
}

impl<S> NonBlocking<S> {
    /// Takes a stream that never waits already.
    pub const fn of(stream: S) -> Self {
        Self { stream, ended: false }
    }

    /// The stream, to wait for its readiness or to inspect it.
    pub const fn get_ref(&self) -> &S {
        &self.stream
    }

    /// The stream, mutably, to inspect its own buffers.
    pub const fn get_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Gives the stream back, as it is.
    pub fn into_inner(self) -> S {
        self.stream
    }
}

impl<S: AsFd> AsFd for NonBlocking<S> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl<S: Read + Write> Link for NonBlocking<S> {
    fn try_read(&mut self, out: &mut [u8]) -> Result<pmi_link::Read, LinkError> {
        if out.is_empty() {
            return Ok(pmi_link::Read::NotNow);
        }
        if self.ended {
            return Ok(pmi_link::Read::End);
        }
        match retry_interrupted(|| self.stream.read(out)) {
            Ok(0) => {
                self.ended = true;
                Ok(pmi_link::Read::End)
            }
            Ok(len) => Ok(pmi_link::Read::Bytes(len)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(pmi_link::Read::NotNow),
            Err(error) => Err(link_error(&error)),
        }
    }

    fn try_write(&mut self, bytes: &[u8]) -> Result<Wrote, LinkError> {
        if bytes.is_empty() {
            return Ok(Wrote::NotNow);
        }
        match retry_interrupted(|| self.stream.write(bytes)) {
            Ok(0) => Ok(Wrote::NotNow),
            Ok(len) => Ok(Wrote::Bytes(len)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(Wrote::NotNow),
            Err(error) => Err(link_error(&error)),
        }
    }
}

fn link_error(error: &io::Error) -> LinkError {
    match error.kind() {
        ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted => LinkError::Reset,
        ErrorKind::BrokenPipe | ErrorKind::NotConnected => LinkError::Closed,
        _ => LinkError::Failed(error.raw_os_error().unwrap_or(0)),
    }
}
