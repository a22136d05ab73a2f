//! TLS on the connections of ranks, as far as it is built in.

use pmi_std::Stream;
use std::io::{self, ErrorKind};
use std::net::TcpStream;

/// First bytes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FirstBytes {
    /// Nothing has arrived.
    Silent,
    /// A handshake, or the end of the stream.
    Secured,
    /// Anything else.
    Plain {
        /// Number of bytes that were examined.
        len_bytes: usize,
    },
}

/// Certificate of a job, by which its ranks authenticate the server. Without TLS there is none.
#[derive(Clone, Debug)]
pub(crate) struct Certificate(Key);

#[cfg(feature = "tls")]
type Key = pmi_std::tls::Identity;
#[cfg(not(feature = "tls"))]
type Key = std::convert::Infallible;

impl Certificate {
    /// Examines the first bytes of a connection without consuming them.
    ///
    /// A peer that speaks in the clear could not parse a TLS alert, so it is detected before TLS sends
    /// anything.
    ///
    /// Shape: `out` holds the examined bytes.
    pub(crate) fn hello(&self, socket: &TcpStream, out: &mut [u8]) -> io::Result<FirstBytes> {
        match socket.peek(out) {
            Ok(0) => Ok(FirstBytes::Secured),
            Ok(_) if out.first() == Some(&HANDSHAKE) => Ok(FirstBytes::Secured),
            Ok(len_bytes) => Ok(FirstBytes::Plain { len_bytes }),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(FirstBytes::Silent),
            Err(error) => Err(error),
        }
    }
}

#[cfg(feature = "tls")]
impl Certificate {
    /// Generates a certificate in memory.
    ///
    /// # Errors
    ///
    /// A message for the user.
    pub(crate) fn for_job() -> Result<Self, String> {
        let made = pmi_std::tls::Identity::for_job();
        made.map(Self).map_err(|error| format!("no certificate can be made for the job ({error})"))
    }

    /// Pin by which ranks trust the certificate.
    pub(crate) fn pin(&self) -> String {
        self.0.pin().to_string()
    }

    /// Starts TLS on a connection whose peer has begun a handshake. Reads and writes complete the
    /// handshake.
    pub(crate) fn accept(&self, socket: TcpStream) -> io::Result<Stream> {
        Ok(Stream::Served(Box::new(self.0.accept(socket)?)))
    }
}

#[cfg(not(feature = "tls"))]
impl Certificate {
    /// Reports that TLS is not built in.
    ///
    /// # Errors
    ///
    /// A message for the user, always.
    pub(crate) fn for_job() -> Result<Self, String> {
        Err("this pmi-host was built without TLS; leave '--tls' out, or build it with the feature 'tls'"
            .to_owned())
    }

    /// Pin by which ranks trust the certificate.
    pub(crate) fn pin(&self) -> String {
        match self.0 {}
    }

    /// Starts TLS on a connection.
    ///
    /// # Errors
    ///
    /// None, since no such certificate exists.
    pub(crate) fn accept(&self, _socket: TcpStream) -> io::Result<Stream> {
        match self.0 {}
    }
}

/// First byte of a handshake record. No PMI message begins with it.
const HANDSHAKE: u8 = 0x16;
