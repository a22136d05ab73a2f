//! Listening sockets: all of this program are opened here, so that none accepts a connection that was not
//! judged.

use super::{Admission, Policy, admits};
use pmi_std::Stream;
use rustix::io::Errno;
use rustix::net::{SocketFlags, acceptfrom_with};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// An accepted connection, with the decision on its admission.
#[derive(Debug)]
pub struct Arrival {
    /// The server's end.
    pub stream: Stream,
    /// Address of the other end.
    pub from: SocketAddr,
    /// What is known about the peer, before any of its input is read; `None` if the peer has gone.
    pub admission: Option<Admission>,
}

/// Listening socket of TCP, whose connections are judged. It does not block, and neither do they.
#[derive(Debug)]
pub struct TcpGate {
    socket: TcpListener,
    policy: Policy,
    /// Bound address, with the port that the system chose if any was acceptable.
    pub address: SocketAddr,
}

/// Listening socket with a path, whose connections are judged. It does not block.
#[derive(Debug)]
pub struct LocalGate(UnixListener);

impl TcpGate {
    /// Opens a socket at `address`, whose connections are judged by `policy`.
    #[expect(clippy::disallowed_methods, reason = "the place where connections are judged")]
    pub fn open(address: SocketAddr, policy: Policy) -> io::Result<Self> {
        let socket = TcpListener::bind(address)?;
        socket.set_nonblocking(true)?;
        Ok(Self { address: socket.local_addr()?, socket, policy })
    }

    /// Accepts the next connection, if there is one, and judges it.
    ///
    /// # Errors
    ///
    /// Errors of the system. A connection that is closed at once is none.
    pub(crate) fn accept(&self) -> Result<Option<Arrival>, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        loop {
            match acceptfrom_with(&self.socket, flags) {
                Ok((stream, from)) => {
                    // A connection of this socket has an address of IP.
                    let Some(Ok(from)) = from.map(SocketAddr::try_from) else { continue };
                    let stream = Stream::Tcp(TcpStream::from(stream));
                    let admission = self.policy.judge(&stream, (from, self.address));
                    return Ok(Some(Arrival { stream, from, admission }));
                }
                Err(Errno::WOULDBLOCK) => return Ok(None),
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl LocalGate {
    /// Opens a socket at `path`.
    #[expect(clippy::disallowed_methods, reason = "the place where connections are judged")]
    pub fn open(path: &Path) -> io::Result<Self> {
        let socket = UnixListener::bind(path)?;
        socket.set_nonblocking(true)?;
        Ok(Self(socket))
    }

    /// Accepts the next connection of a program of this user, or of root, if there is one. Those of others
    /// are closed.
    pub fn accept(&self) -> io::Result<Option<UnixStream>> {
        loop {
            match self.0.accept() {
                Ok((stream, _)) if admits(&stream) => {
                    stream.set_nonblocking(true)?;
                    return Ok(Some(stream));
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// For options that the connections have as well, and for readiness.
impl AsFd for TcpGate {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsFd for LocalGate {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
