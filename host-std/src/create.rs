//! Files that the launcher creates where users name them, opened safely against links of other users.
//!
//! In a directory where every user may create files, such as `/tmp`, another user may have put a symbolic
//! link, a file or a pipe under the name. The kernel rejects them where `fs.protected_symlinks`,
//! `fs.protected_regular` and `fs.protected_fifos` are set; the same rules hold here regardless of these
//! settings.

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, Stat, fchmod, fstat, ftruncate, open, statat,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::io;
use std::path::Path;

/// Opens `path` for writing, with `flags` besides; creates it if there is none, with `mode`. Its contents
/// stay, and opening a pipe does not wait for a reader: a pipe without one is an error (`ENXIO`).
///
/// # Errors
///
/// Errors of the system, and one of kind [`PermissionDenied`](io::ErrorKind::PermissionDenied) whose text
/// names the other user who has put something there. Nothing is changed then.
pub(crate) fn open_to_write(path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    let usual =
        OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = match open(path, usual | flags | OFlags::NOFOLLOW, mode) {
        // The second one is the kernel's error for such an object; its owner is more useful in the
        // message.
        Err(refused @ (Errno::LOOP | Errno::ACCESS)) => {
            let there = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).map_err(|_| refused)?;
            check_owner(path, &there)?;
            if FileType::from_raw_mode(there.st_mode) != FileType::Symlink {
                return Err(refused.into());
            }
            open(path, usual | flags, mode)?
        }
        opened => opened?,
    };
    let stat = fstat(&opened)?;
    check_owner(path, &stat)?;
    Ok(opened)
}

/// Empties the file, and revokes all permissions but the owner's; a pipe and a device stay as they are.
///
/// # Errors
///
/// Errors of the system; one of kind [`PermissionDenied`](io::ErrorKind::PermissionDenied) for a file of
/// another user, who could read it despite its mode.
pub(crate) fn empty_and_close_to_others(file: impl AsFd) -> io::Result<()> {
    let stat = fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(());
    }
    if stat.st_uid != geteuid().as_raw() {
        return Err(denied(format!("it belongs to user {}, who could read it", stat.st_uid)));
    }
    fchmod(&file, Mode::RUSR | Mode::WUSR)?;
    Ok(ftruncate(&file, 0)?)
}

/// Rejects an object that another user has put into a directory where every user may create files.
fn check_owner(path: &Path, stat: &Stat) -> io::Result<()> {
    let what = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => "symbolic link",
        FileType::RegularFile => "file",
        FileType::Fifo => "pipe",
        // Devices are created by the administrator.
        _ => return Ok(()),
    };
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = statat(CWD, parent.unwrap_or(Path::new(".")), AtFlags::empty())?;
    let is_shared = directory.st_mode & Mode::WOTH.as_raw_mode() != 0;
    let trusted = [geteuid().as_raw(), directory.st_uid];
    if !is_shared || trusted.contains(&stat.st_uid) {
        return Ok(());
    }
    let owner = stat.st_uid;
    Err(denied(format!(
        "user {owner} has put a {what} there, in a directory where every user may create files"
    )))
}

fn denied(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}
