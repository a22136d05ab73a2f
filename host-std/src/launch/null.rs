//! Descriptor for places in which nothing is read or written.

use rustix::fd::OwnedFd;
use rustix::fs::{CWD, MemfdFlags, Mode, OFlags, memfd_create, openat};
use rustix::io::Errno;
use std::io;

/// Opens `/dev/null`; where a root directory has no devices, as that of a minimal container, an empty file in
/// memory.
///
/// # Errors
///
/// Errors of the system.
pub(crate) fn open() -> io::Result<OwnedFd> {
    open_at("/dev/null")
}

fn open_at(path: &str) -> io::Result<OwnedFd> {
    match openat(CWD, path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
        Err(Errno::NOENT | Errno::NXIO | Errno::ACCESS | Errno::PERM) => {
            Ok(memfd_create("null", MemfdFlags::CLOEXEC)?)
        }
        opened => Ok(opened?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_that_is_missing_is_replaced_by_an_empty_file() {
        for path in ["/dev/null", "/no/such/device"] {
            let null = open_at(path).unwrap();
            assert_eq!(rustix::io::read(&null, &mut [0; 1]), Ok(0), "{path}");
        }
    }
}
