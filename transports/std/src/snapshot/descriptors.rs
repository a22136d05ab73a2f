//! Descriptors that travel with the bytes of a stream.

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Number of descriptors that one message carries at most.
pub const DESCRIPTORS_MAX: usize = 32;

/// Bytes and descriptors of one read.
#[derive(Debug)]
pub struct ReceivedDescriptors {
    /// Number of bytes read; 0 at the end of the stream.
    pub len: usize,
    /// The descriptors, in the order in which they were sent.
    pub descriptors: Vec<OwnedFd>,
    /// True if there were more than this process has room for.
    pub is_truncated: bool,
}

/// Writes bytes, with these descriptors beside the first of them. Returns the number of written bytes.
///
/// Shape: one call of the system. At most [`DESCRIPTORS_MAX`] descriptors, and at least one byte.
///
/// # Errors
///
/// Errors of the system; nothing was sent.
pub fn send_with(
    socket: impl AsFd,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?)
}

/// Reads bytes, and the descriptors that were sent with them.
///
/// # Errors
///
/// Errors of the system.
pub fn recv_with(socket: impl AsFd, out: &mut [u8]) -> io::Result<ReceivedDescriptors> {
    recv(socket, out, RecvFlags::empty())
}

/// The descriptors that came with the first bytes, which stay in the stream for the next read.
///
/// # Errors
///
/// Errors of the system; [`io::ErrorKind::WouldBlock`] if nothing has arrived.
pub fn peek_descriptors(socket: impl AsFd) -> io::Result<ReceivedDescriptors> {
    recv(socket, &mut [0], RecvFlags::PEEK | RecvFlags::DONTWAIT)
}

fn recv(socket: impl AsFd, out: &mut [u8], flags: RecvFlags) -> io::Result<ReceivedDescriptors> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = flags | RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(socket, &mut [IoSliceMut::new(out)], &mut control, flags)?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    let is_truncated = received.flags.contains(ReturnFlags::CTRUNC);
    Ok(ReceivedDescriptors { len: received.bytes, descriptors, is_truncated })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    #[test]
    fn descriptors_arrive_with_the_bytes_or_not_at_all() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let file = File::open("/dev/null").unwrap();
        assert_eq!(send_with(&near, b"init", &[file.as_fd(), file.as_fd()]).unwrap(), 4);
        assert_eq!(peek_descriptors(&far).unwrap().descriptors.len(), 2);
        let mut out = [0; 16];
        let received = recv_with(&far, &mut out).unwrap();
        assert_eq!((received.len, received.descriptors.len()), (4, 2));
        assert!(!received.is_truncated);
        assert!(peek_descriptors(&far).is_err());
        // A reader that does not ask for them does not get them.
        send_with(&near, b"init", &[file.as_fd()]).unwrap();
        assert_eq!(far.read(&mut out).unwrap(), 4);
        send_with(&near, b"more", &[]).unwrap();
        assert_eq!(recv_with(&far, &mut out).unwrap().descriptors.len(), 0);
    }
}
