//! Files of the kernel and of the administrator: `/proc`, `/sys`, `/dev` and `/etc`, where no other user can
//! put anything.

#![expect(clippy::disallowed_methods, reason = "no other user can put anything there")]

use rustix::fs::{Mode, OFlags};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// Opens a file that exists, with `flags`. It is closed on execution.
///
/// # Errors
///
/// Errors of the system.
pub fn open(path: impl AsRef<Path>, flags: OFlags) -> io::Result<File> {
    Ok(rustix::fs::open(path.as_ref(), flags | OFlags::CLOEXEC, Mode::empty())?.into())
}

/// Reads the whole file.
///
/// # Errors
///
/// Errors of the system.
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    fs::read(path)
}

/// Reads the whole file as text.
///
/// # Errors
///
/// As [`read`], and [`InvalidData`](io::ErrorKind::InvalidData) if it is not UTF-8.
pub fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    fs::read_to_string(path)
}

/// Reads a text of at most `bytes_max` bytes, without waiting for anybody: a longer one has no end, or is
/// no file of the kernel.
///
/// # Errors
///
/// As [`read_to_string`], and [`FileTooLarge`](io::ErrorKind::FileTooLarge).
pub fn read_bounded(path: impl AsRef<Path>, bytes_max: usize) -> io::Result<String> {
    let bytes = read_bytes_bounded(path, bytes_max)?;
    String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// The same for any contents.
///
/// # Errors
///
/// As [`read`], and [`FileTooLarge`](io::ErrorKind::FileTooLarge).
pub fn read_bytes_bounded(path: impl AsRef<Path>, bytes_max: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX);
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() <= bytes_max {
        true => Ok(bytes),
        false => Err(io::ErrorKind::FileTooLarge.into()),
    }
}

/// Opens the file of a device for reading and closes it: by this alone a process learns whether its control
/// group admits it to the device.
///
/// # Errors
///
/// Errors of the system: [`NotFound`](io::ErrorKind::NotFound) where a container has no such file, and
/// [`PermissionDenied`](io::ErrorKind::PermissionDenied) if the control group or the mode refuses.
pub fn try_device(path: impl AsRef<Path>) -> io::Result<()> {
    open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY).map(drop)
}

/// Writes to a file that exists.
///
/// # Errors
///
/// Errors of the system.
pub fn write(path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    io::Write::write_all(&mut open(path, OFlags::WRONLY)?, bytes.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_is_too_long_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "0-3\n").unwrap();
        assert_eq!(read_bounded(file.path(), 4).unwrap(), "0-3\n");
        for (path, bytes_max) in [(file.path(), 3), (Path::new("/dev/zero"), 4096)] {
            let error = read_bounded(path, bytes_max).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::FileTooLarge, "{}", path.display());
        }
    }
}
