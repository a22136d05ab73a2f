//! Files of the kernel and of the administrator: `/proc`, `/sys`, `/dev` and `/etc`, where no other user can
//! put anything.

#![expect(clippy::disallowed_methods, reason = "no other user can put anything there")]

use rustix::fs::{Mode, OFlags};
use std::fs::{self, File};
use std::io;
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

/// Writes to a file that exists.
///
/// # Errors
///
/// Errors of the system.
pub fn write(path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    io::Write::write_all(&mut open(path, OFlags::WRONLY)?, bytes.as_ref())
}
