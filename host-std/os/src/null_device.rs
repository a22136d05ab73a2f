//! Descriptor for places in which nothing is read or written.

use pmi_host_base::system_file;
use rustix::fd::OwnedFd;
use rustix::fs::{MemfdFlags, OFlags, memfd_create};
use rustix::io::Errno;
use std::io;

/// Opens `/dev/null`; where a root directory has no devices, as that of a minimal container, an empty file in
/// memory.
pub fn open() -> io::Result<OwnedFd> {
    open_at("/dev/null")
}

fn open_at(path: &str) -> io::Result<OwnedFd> {
    let opened = system_file::open(path, OFlags::RDWR);
    match opened.as_ref().map_err(Errno::from_io_error) {
        Err(Some(Errno::NOENT | Errno::NXIO | Errno::ACCESS | Errno::PERM)) => {
            Ok(memfd_create("null", MemfdFlags::CLOEXEC)?)
        }
        _ => Ok(opened?.into()),
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
