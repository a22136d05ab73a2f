//! Files without a name whose properties are sealed.

use crate::inherit::memory::{FINAL, FIXED};
use rustix::fs::{MemfdFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;

/// Creates an empty file that can be sealed.
pub(super) fn create(name: &str) -> io::Result<OwnedFd> {
    Ok(memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?)
}

/// Creates a file of `len` zeros, which keeps this length. Pages that are never written take no memory.
pub(super) fn fixed(name: &str, len: u64) -> io::Result<OwnedFd> {
    let file = create(name)?;
    ftruncate(&file, len)?;
    fcntl_add_seals(&file, FIXED)?;
    Ok(file)
}

/// Creates a file with these bytes, which nothing changes any more.
///
/// # Errors
///
/// Errors of the system.
pub fn publish(bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(create("pmi-snapshot")?);
    file.write_all(bytes)?;
    fcntl_add_seals(&file, FINAL)?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inherit::memory::{SealedMemory, SharedMemory};
    use rustix::fs::SealFlags;

    #[test]
    fn sealed_memory_is_read_and_file_that_may_change_is_not_mapped() {
        let file = publish(b"abc").unwrap();
        assert_eq!(SealedMemory::new(&file).unwrap().as_ref(), b"abc");
        let open = create("test").unwrap();
        ftruncate(&open, 3).unwrap();
        for seals in [SealFlags::empty(), SealFlags::SHRINK | SealFlags::GROW, SealFlags::SEAL] {
            fcntl_add_seals(&open, seals).unwrap();
            let error = SealedMemory::new(&open).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{seals:?}");
        }
        assert!(SealedMemory::new(File::open("/dev/null").unwrap()).is_err());
    }

    #[test]
    fn shared_memory_takes_no_byte_beyond_its_end() {
        let mut memory = SharedMemory::new(fixed("test", 8).unwrap()).unwrap();
        assert!(memory.write(4, &[1, 0, 0, 0]) && memory.write(8, b""));
        assert!(!memory.write(5, &[0; 4]) && !memory.write(usize::MAX, b"ab"));
        assert_eq!((memory.number(4), memory.number(5), memory.number(usize::MAX)), (1, 0, 0));
    }
}
