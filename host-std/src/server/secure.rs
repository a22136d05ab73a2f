//! TLS over the connections of ranks that dial in, as far as it is built in.

use pmi_std::Stream;
use std::io::{self, ErrorKind};
use std::net::TcpStream;

/// What somebody who has dialled in begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hello {
    /// Nothing has come.
    Silent,
    /// A handshake, or the end of the stream.
    Secured,
    /// Something else; so many bytes of it were looked at.
    Plain {
        /// How many.
        len_bytes: usize,
    },
}

/// The certificate of a job, by which its ranks know us.
#[cfg(feature = "tls")]
#[derive(Clone, Debug)]
pub struct Certificate(pmi_std::tls::Identity);

/// The certificate of a job. There is none, since TLS is not built in.
#[cfg(not(feature = "tls"))]
#[derive(Clone, Debug)]
pub enum Certificate {}

impl Certificate {
    /// Looks at the first bytes of a connection, and leaves them there.
    ///
    /// A peer that speaks in the clear would read an alert of TLS as nonsense, so it is found out
    /// before TLS says anything.
    /// Shape: `out` holds what was looked at.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn hello(&self, socket: &TcpStream, out: &mut [u8]) -> io::Result<Hello> {
        match socket.peek(out) {
            Ok(0) => Ok(Hello::Secured),
            Ok(_) if out.first() == Some(&HANDSHAKE) => Ok(Hello::Secured),
            Ok(len_bytes) => Ok(Hello::Plain { len_bytes }),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(Hello::Silent),
            Err(error) => Err(error),
        }
    }
}

#[cfg(feature = "tls")]
impl Certificate {
    /// Makes one, in memory.
    ///
    /// # Errors
    ///
    /// A sentence for people.
    pub fn for_job() -> Result<Self, String> {
        let made = pmi_std::tls::Identity::for_job();
        made.map(Self).map_err(|error| format!("no certificate can be made for the job ({error})"))
    }

    /// What ranks must be told to believe it.
    pub fn pin(&self) -> String {
        self.0.pin().to_string()
    }

    /// Puts TLS over a connection that has begun with it. The handshake is done by what is read and written.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn accept(&self, socket: TcpStream) -> io::Result<Stream> {
        Ok(Stream::Served(Box::new(self.0.accept(socket)?)))
    }
}

#[cfg(not(feature = "tls"))]
impl Certificate {
    /// Says that there is none.
    ///
    /// # Errors
    ///
    /// A sentence for people, always.
    pub fn for_job() -> Result<Self, String> {
        Err("this pmi-host was built without TLS; leave '--tls' out, or build it with the feature 'tls'"
            .to_owned())
    }

    /// What ranks must be told to believe it.
    pub fn pin(&self) -> String {
        match *self {}
    }

    /// Puts TLS over a connection.
    ///
    /// # Errors
    ///
    /// None, since there is no such certificate.
    pub fn accept(&self, _socket: TcpStream) -> io::Result<Stream> {
        match *self {}
    }
}

/// How the first record of a handshake begins. No message of PMI does.
const HANDSHAKE: u8 = 0x16;
