//! The one place of this crate with `unsafe`: a number from the environment becomes a descriptor, and a
//! descriptor becomes memory.
//!
//! There is no way around `unsafe` for the first that works everywhere. A socket cannot be opened again
//! through
//! `/proc/self/fd`. Linux can copy a descriptor out of a process by its number (`pidfd_getfd`),
//! and that needs no `unsafe`, but common container runtimes forbid the call.

use std::io;
use std::os::fd::BorrowedFd;

/// The type of an inherited socket. Stream sockets are read and written alike, regardless of their family, so
/// that of TCP serves on systems without Unix sockets.
#[cfg(target_os = "hermit")]
pub(crate) type Socket = std::net::TcpStream;
/// The type of an inherited socket.
#[cfg(not(target_os = "hermit"))]
pub(crate) type Socket = std::os::unix::net::UnixStream;

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
pub(crate) fn inherited_socket(fd: i32) -> io::Result<Socket> {
    if fd < 0 {
        return Err(io::ErrorKind::NotFound.into());
    }
    // SAFETY: -1 is excluded. The borrow lives for the one call that copies the descriptor and
    // touches nothing else; a number that is not open makes that call fail. The launcher opened the
    // descriptor for this use, so no owner inside the process is bypassed.
    let copy = unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned()?;
    let stream = Socket::from(copy);
    match stream.take_error()? {
        Some(error) => Err(error),
        None => Ok(stream),
    }
}

/// Has the system close an inherited descriptor in the programs that this process executes.
///
/// # Errors
///
/// The error of the system if there is no such descriptor.
#[cfg(feature = "snapshot")]
#[allow(unsafe_code, reason = "a number on the command line becomes a descriptor")]
pub fn close_on_exec(fd: u32) -> io::Result<()> {
    let fd = i32::try_from(fd).map_err(|_| io::ErrorKind::NotFound)?;
    // SAFETY: a number that fits is not -1. The borrow lives for the one call, which changes a flag of the
    // descriptor, and fails if it is not open.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    Ok(rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::CLOEXEC)?)
}

/// Memory that processes share: where a descriptor becomes memory.
#[cfg(feature = "snapshot")]
pub(crate) mod memory {
    use rustix::fs::{SealFlags, fcntl_get_seals, fstat};
    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
    use std::io;
    use std::os::fd::AsFd;
    use std::ptr::{self, NonNull};
    use std::slice;

    /// Seals of a file whose length never changes.
    pub(crate) const FIXED: SealFlags =
        SealFlags::SEAL.union(SealFlags::SHRINK).union(SealFlags::GROW);

    /// Seals of a file of which nothing ever changes.
    pub(crate) const FINAL: SealFlags = FIXED.union(SealFlags::WRITE);

    /// Checks that a file has these seals. Only files in memory have seals, so reading one never blocks.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::PermissionDenied`] if one is missing; the error of the system for another kind of
    /// file.
    pub(crate) fn check_seals(file: impl AsFd, seals: SealFlags) -> io::Result<()> {
        match fcntl_get_seals(file)?.contains(seals) {
            true => Ok(()),
            false => Err(io::ErrorKind::PermissionDenied.into()),
        }
    }

    /// Memory of a sealed file: its bytes and their number never change.
    #[derive(Debug)]
    pub struct SealedMemory(Mapped);

    /// Memory of a file whose length never changes, but whose bytes other processes may change at any time.
    #[derive(Debug)]
    pub(crate) struct SharedMemory(Mapped);

    /// A mapping, which is unmapped when it is dropped.
    #[derive(Debug)]
    struct Mapped {
        start: NonNull<u8>,
        len: usize,
    }

    // SAFETY: it is memory of the process as a whole, and no thread has a claim of its own on it.
    #[allow(unsafe_code, reason = "a pointer to memory that all threads of the process share")]
    unsafe impl Send for Mapped {}
    // SAFETY: a shared reference gives out bytes that never change, or copies them.
    #[allow(unsafe_code, reason = "a pointer to memory that all threads of the process share")]
    unsafe impl Sync for Mapped {}

    impl Mapped {
        /// Maps a whole file, which must be sealed against any change of its length.
        #[allow(unsafe_code, reason = "there is no mapping without it")]
        fn new(file: impl AsFd, seals: SealFlags, protection: ProtFlags) -> io::Result<Self> {
            check_seals(&file, seals)?;
            let len = usize::try_from(fstat(&file)?.st_size).unwrap_or(0);
            if len == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            // SAFETY: the system chooses an address that nothing else has. The file cannot be shortened,
            // so each of its bytes exists as long as the mapping.
            let start =
                unsafe { mmap(ptr::null_mut(), len, protection, MapFlags::SHARED, file, 0) }?;
            let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
            Ok(Self { start, len })
        }
    }

    impl Drop for Mapped {
        #[allow(unsafe_code, reason = "there is no end of a mapping without it")]
        fn drop(&mut self) {
            // SAFETY: this value has mapped the memory, and nothing borrows from it any more.
            let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        }
    }

    impl SealedMemory {
        /// Maps a file whose seals forbid any change.
        ///
        /// # Errors
        ///
        /// [`io::ErrorKind::PermissionDenied`] for a file that is not sealed; errors of the system.
        pub fn new(file: impl AsFd) -> io::Result<Self> {
            Mapped::new(file, FINAL, ProtFlags::READ).map(Self)
        }
    }

    impl AsRef<[u8]> for SealedMemory {
        #[allow(unsafe_code, reason = "lends the memory of a mapping")]
        fn as_ref(&self) -> &[u8] {
            // SAFETY: the mapping has this many bytes and lives as long as the borrow. The seals exclude
            // every later write and change of the length by any process, this one included.
            unsafe { slice::from_raw_parts(self.0.start.as_ptr(), self.0.len) }
        }
    }

    impl SharedMemory {
        /// Maps a file of a fixed length for reading and writing.
        ///
        /// # Errors
        ///
        /// As for [`SealedMemory::new`].
        pub(crate) fn new(file: impl AsFd) -> io::Result<Self> {
            Mapped::new(file, FIXED, ProtFlags::READ | ProtFlags::WRITE).map(Self)
        }

        /// Number of bytes.
        pub(crate) const fn len(&self) -> usize {
            self.0.len
        }

        /// Copies `bytes` to an offset; false if they do not fit, and nothing was copied.
        #[allow(unsafe_code, reason = "no reference to this memory may exist: others write to it")]
        pub(crate) fn write(&mut self, at: usize, bytes: &[u8]) -> bool {
            if at.checked_add(bytes.len()).is_none_or(|end| end > self.0.len) {
                return false;
            }
            // SAFETY: the range is inside the mapping, `bytes` is memory of this process elsewhere, and
            // `&mut` excludes other threads.
            unsafe {
                ptr::copy_nonoverlapping(
                    bytes.as_ptr(),
                    self.0.start.as_ptr().add(at),
                    bytes.len(),
                );
            }
            true
        }

        /// Copies the number at an offset; 0 beyond the end.
        #[allow(unsafe_code, reason = "no reference to this memory may exist: others write to it")]
        pub(crate) fn number(&self, at: usize) -> u32 {
            let mut bytes = [0; 4];
            if at.checked_add(bytes.len()).is_some_and(|end| end <= self.0.len) {
                // SAFETY: the range is inside the mapping, and `bytes` is elsewhere. Volatile, since another
                // process may have written.
                bytes = unsafe { self.0.start.as_ptr().add(at).cast::<[u8; 4]>().read_volatile() };
            }
            u32::from_le_bytes(bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;

    #[test]
    fn descriptor_that_is_open_becomes_a_stream_and_stays_open() {
        let (ours, mut theirs) = Socket::pair().unwrap();
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
