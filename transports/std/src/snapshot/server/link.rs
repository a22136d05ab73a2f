//! The link of a peer: descriptors of generations beside the bytes.

use std::io;
use std::os::unix::net::UnixStream;

use pmi_link::{Link, LinkError, Read, Wrote};
use rustix::io::Errno;

use super::peer::SnapshotPeer;
use crate::snapshot::send_with;
use crate::{NonBlocking, Stream};

/// A stream that may be able to carry descriptors.
pub trait DescriptorStream {
    /// The socket, if it is a Unix socket.
    fn as_unix(&self) -> Option<&UnixStream>;
}

impl DescriptorStream for UnixStream {
    fn as_unix(&self) -> Option<&UnixStream> {
        Some(self)
    }
}

impl DescriptorStream for Stream {
    fn as_unix(&self) -> Option<&UnixStream> {
        match self {
            Self::Unix(socket) => Some(socket),
            _ => None,
        }
    }
}

/// A connection, and the generations that its client does not have.
#[derive(Debug)]
pub struct SnapshotLink<'a, S> {
    link: &'a mut NonBlocking<S>,
    peer: &'a SnapshotPeer,
}

impl<'a, S> SnapshotLink<'a, S> {
    /// Adds the descriptors for a peer to its connection.
    pub const fn new(link: &'a mut NonBlocking<S>, peer: &'a SnapshotPeer) -> Self {
        Self { link, peer }
    }
}

impl<S: DescriptorStream> Link for SnapshotLink<'_, S>
where
    NonBlocking<S>: Link,
{
    fn try_read(&mut self, out: &mut [u8]) -> Result<Read, LinkError> {
        self.link.try_read(out)
    }

    fn try_write(&mut self, bytes: &[u8]) -> Result<Wrote, LinkError> {
        let Some(socket) = self.link.get_ref().as_unix() else {
            return self.link.try_write(bytes);
        };
        if bytes.is_empty() || !self.peer.is_sharing() {
            return self.link.try_write(bytes);
        }
        match self.peer.send(|files| send_with(socket, bytes, files)) {
            None => self.link.try_write(bytes),
            Some(Ok(len)) => Ok(Wrote::Bytes(len)),
            Some(Err(error)) if is_temporary(&error) => Ok(Wrote::NotNow),
            // A client without the generations of a fence would read old values.
            Some(Err(error)) => Err(LinkError::Failed(error.raw_os_error().unwrap_or(0))),
        }
    }
}

/// True if the same call may succeed later: once the client has read, or once the clients of this user have
/// taken descriptors that are under way.
fn is_temporary(error: &io::Error) -> bool {
    let later = [Errno::AGAIN, Errno::INTR, Errno::TOOMANYREFS];
    later.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}
