//! A TCP socket as a link.

use pmi_link::{Link, LinkError, Read, Wrote};
use smoltcp::socket::tcp::{RecvError, Socket, State};

/// A socket, borrowed for one turn.
///
/// A socket that is connecting or listening transfers no bytes yet. Dropping the link
/// gives the socket back as it is; [`close_socket`] closes it.
#[derive(Debug)]
pub struct SocketLink<'s, 'b>(&'s mut Socket<'b>);

impl<'s, 'b> SocketLink<'s, 'b> {
    /// Takes a socket of the stack.
    pub const fn new(socket: &'s mut Socket<'b>) -> Self {
        Self(socket)
    }
}

impl Link for SocketLink<'_, '_> {
    fn try_read(&mut self, out: &mut [u8]) -> Result<Read, LinkError> {
        if out.is_empty() || is_opening(self.0) {
            return Ok(Read::NotNow);
        }
        match self.0.recv_slice(out) {
            Ok(0) => Ok(Read::NotNow),
            Ok(len) => Ok(Read::Bytes(len)),
            Err(RecvError::Finished) => Ok(Read::End),
            // Neither open nor ended: the peer's reset, or the socket's time-out.
            Err(RecvError::InvalidState) => Err(LinkError::Reset),
        }
    }

    fn try_write(&mut self, bytes: &[u8]) -> Result<Wrote, LinkError> {
        if bytes.is_empty() || is_opening(self.0) {
            return Ok(Wrote::NotNow);
        }
        match self.0.send_slice(bytes) {
            Ok(0) => Ok(Wrote::NotNow),
            Ok(len) => Ok(Wrote::Bytes(len)),
            Err(_) if self.0.state() == State::Closed => Err(LinkError::Reset),
            // The output direction was closed at this end.
            Err(_) => Err(LinkError::Closed),
        }
    }
}

/// Closes a socket; call it, and poll the stack, until it returns true.
///
/// A peer that continues to send after that receives a reset, as from an operating system. It
/// returns true once the peer has closed too, so that its last segment is still acknowledged; the
/// socket's time-out or the owner's own limit bounds that time.
pub fn close_socket(socket: &mut Socket<'_>) -> bool {
    if matches!(socket.state(), State::Closed | State::TimeWait) {
        return true;
    }
    if socket.can_recv() {
        socket.abort();
    } else {
        socket.close();
    }
    // The reset, or the last segment, leaves with the next poll.
    false
}

fn is_opening(socket: &Socket<'_>) -> bool {
    matches!(socket.state(), State::Listen | State::SynSent | State::SynReceived)
}
