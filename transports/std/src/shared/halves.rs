//! The two directions of a connection, which two threads use at once.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use crate::stream::Stream;
#[cfg(feature = "tls")]
use crate::tls::{TlsReader, TlsWriter};

/// The receiving direction of a connection.
#[derive(Debug)]
pub(super) enum ReadHalf {
    /// A copy of the descriptor of a socket.
    Stream(Stream),
    /// The plaintext of a connection under TLS.
    #[cfg(feature = "tls")]
    Tls(TlsReader),
}

/// The sending direction of a connection.
#[derive(Debug)]
pub(super) enum WriteHalf {
    /// A socket.
    Stream(Stream),
    /// The plaintext of a connection under TLS.
    #[cfg(feature = "tls")]
    Tls(TlsWriter),
}

/// Separates the directions of `stream`; under TLS after the handshake, which needs both.
pub(super) fn split(stream: Stream) -> io::Result<(ReadHalf, WriteHalf)> {
    let copy = match &stream {
        #[cfg(not(target_os = "hermit"))]
        Stream::Unix(stream) => Stream::Unix(stream.try_clone()?),
        Stream::Tcp(stream) => Stream::Tcp(stream.try_clone()?),
        #[cfg(feature = "tls")]
        Stream::Tls(_) | Stream::Served(_) => return split_tls(stream),
    };
    Ok((ReadHalf::Stream(copy), WriteHalf::Stream(stream)))
}

#[cfg(feature = "tls")]
fn split_tls(stream: Stream) -> io::Result<(ReadHalf, WriteHalf)> {
    let (reader, writer) = match stream {
        Stream::Tls(client) => client.split()?,
        Stream::Served(server) => server.split()?,
        other => return split(other),
    };
    Ok((ReadHalf::Tls(reader), WriteHalf::Tls(writer)))
}

impl Read for ReadHalf {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Stream(stream) => stream.read(out),
            #[cfg(feature = "tls")]
            Self::Tls(reader) => reader.read(out),
        }
    }
}

impl Write for WriteHalf {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stream(stream) => stream.write(bytes),
            #[cfg(feature = "tls")]
            Self::Tls(writer) => writer.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stream(stream) => stream.flush(),
            #[cfg(feature = "tls")]
            Self::Tls(writer) => writer.flush(),
        }
    }
}

impl AsFd for ReadHalf {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Stream(stream) => stream.as_fd(),
            #[cfg(feature = "tls")]
            Self::Tls(reader) => reader.as_fd(),
        }
    }
}

impl AsFd for WriteHalf {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Stream(stream) => stream.as_fd(),
            #[cfg(feature = "tls")]
            Self::Tls(writer) => writer.as_fd(),
        }
    }
}
