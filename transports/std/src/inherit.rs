//! The one place where a number from the environment becomes a descriptor.
//!
//! There is no way around `unsafe` that works everywhere. A socket cannot be opened again through
//! `/proc/self/fd`. Linux can copy a descriptor out of a process by its number (`pidfd_getfd`),
//! and that needs no `unsafe`, but common container runtimes forbid the call.

use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;

/// Copies descriptor `fd`, which the launcher has left open, and checks that it is a socket.
///
/// Shape: the copy is closed on exec. The original stays open: a program that this process starts
/// may use it, and a second call finds it again.
///
/// # Errors
///
/// [`io::ErrorKind::NotFound`] or the error of the system if there is no such descriptor, or it is
/// no socket.
#[allow(unsafe_code, reason = "borrows a descriptor by its number; see the page")]
pub(crate) fn inherited_socket(fd: i32) -> io::Result<UnixStream> {
    if fd < 0 {
        return Err(io::ErrorKind::NotFound.into());
    }
    // SAFETY: -1 is excluded. The borrow lives for the one call that copies the descriptor and
    // touches nothing else; a number that is not open makes that call fail. The launcher opened the
    // descriptor for this use, so no owner inside the process is bypassed.
    let copy = unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned()?;
    // Stream sockets are read and written alike, regardless of their family.
    let stream = UnixStream::from(copy);
    match stream.take_error()? {
        Some(error) => Err(error),
        None => Ok(stream),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;

    #[test]
    fn descriptor_that_is_open_becomes_a_stream_and_stays_open() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        for _ in 0..2 {
            let mut stream = inherited_socket(ours.as_raw_fd()).unwrap();
            stream.write_all(b"hello").unwrap();
            let mut received = [0; 5];
            theirs.read_exact(&mut received).unwrap();
            assert_eq!(&received, b"hello");
        }
    }

    #[test]
    fn descriptor_that_is_closed_or_no_socket_is_refused() {
        assert!(inherited_socket(-1).is_err());
        assert!(inherited_socket(i32::MAX).is_err());
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(inherited_socket(file.as_raw_fd()).is_err());
    }
}
