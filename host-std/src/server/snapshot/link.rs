//! The link of a peer: descriptors of generations beside the bytes.

use super::peer::SnapshotPeer;
use pmi_link::{Link, LinkError, Read, Wrote};
use pmi_std::snapshot::send_with;
use pmi_std::{NonBlocking, Stream};
use rustix::io::Errno;
use std::io;

/// A connection, and the generations that its client does not have.
pub(in crate::server) struct SnapshotLink<'a> {
    link: &'a mut NonBlocking<Stream>,
    peer: &'a SnapshotPeer,
}

impl<'a> SnapshotLink<'a> {
    pub(in crate::server) const fn new(
        link: &'a mut NonBlocking<Stream>,
        peer: &'a SnapshotPeer,
    ) -> Self {
        Self { link, peer }
    }
}

impl Link for SnapshotLink<'_> {
    fn try_read(&mut self, out: &mut [u8]) -> Result<Read, LinkError> {
        self.link.try_read(out)
    }

    fn try_write(&mut self, bytes: &[u8]) -> Result<Wrote, LinkError> {
        let Stream::Unix(socket) = self.link.get_ref() else { return self.link.try_write(bytes) };
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
