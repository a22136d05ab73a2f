//! Files that users, variables and ranks name, opened safely against other users.
//!
//! In a directory where every user may create files, such as `/tmp`, another user may have put a symbolic
//! link, a file or a pipe under the name, or under the name of a directory in front of it. The kernel rejects
//! some of them where `fs.protected_symlinks`, `fs.protected_regular` and `fs.protected_fifos` are set; here
//! the same rules hold regardless of these settings, and for each part of a path.
//!
//! Each part is opened below the directory that was checked before it, and no call follows a link by itself:
//! whoever replaces a part meanwhile gains nothing.

#![expect(clippy::disallowed_methods, reason = "the place where other users are kept out")]

use crate::words::without_mark;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, Stat, fchmod, fcntl_getfl, fcntl_setfl, fstat,
    fstatfs, ftruncate, mkdirat, open, openat, readlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Users that may read a file that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// Those whom the mask of the process leaves (`umask`).
    Usual,
    /// Its owner.
    Owner,
}

/// A file with a secret cannot be used.
#[derive(Debug)]
pub struct SecretFileError {
    /// What the file holds, as "secret".
    what: &'static str,
    file: PathBuf,
    /// Cause.
    pub why: SecretFileCause,
}

/// Cause of a [`SecretFileError`].
#[derive(Debug)]
pub enum SecretFileCause {
    /// An error of the system.
    Unreadable(io::Error),
    /// It belongs to this user, who knows the secret, and can replace it.
    Owner(u32),
    /// Other users may read or write it.
    OpenToOthers,
}

/// Opens `path` for writing, with `flags` besides; creates it if there is none, with `mode`. Its contents
/// stay, and opening a pipe does not wait for a reader: a pipe without one is an error (`ENXIO`).
///
/// # Errors
///
/// Errors of the system, and one of kind [`PermissionDenied`](io::ErrorKind::PermissionDenied) whose text
/// names the other user who has put something there. Nothing is changed then.
pub fn open_to_write(path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    let usual =
        OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    FilePlace::find(path, Intent::Write)?.open(usual | flags, mode)
}

/// Opens `path` for reading. Opening a pipe waits for its writer.
///
/// # Errors
///
/// As [`open_to_write`].
pub fn open_to_read(path: &Path) -> io::Result<File> {
    let place = FilePlace::find(path, Intent::Read)?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
    if place.found.is_some_and(|found| file_type(&found) == FileType::Fifo) {
        return Ok(place.open(flags, Mode::empty())?.into());
    }
    let opened = place.open(flags | OFlags::NONBLOCK, Mode::empty())?;
    fcntl_setfl(&opened, fcntl_getfl(&opened)? - OFlags::NONBLOCK)?;
    Ok(opened.into())
}

/// Opens `path` for reading if it is a regular file, so that neither this nor reading waits for anybody.
///
/// # Errors
///
/// As [`open_to_write`], and one of kind [`InvalidInput`](io::ErrorKind::InvalidInput) for another file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    regular(FilePlace::find(path, Intent::Read)?.open(flags, Mode::empty())?)
}

fn regular(opened: OwnedFd) -> io::Result<File> {
    match file_type(&fstat(&opened)?) {
        FileType::RegularFile => Ok(opened.into()),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
    }
}

/// Creates a file at `path`, where there is none, for writing and reading.
///
/// # Errors
///
/// As [`open_to_write`], and [`AlreadyExists`](io::ErrorKind::AlreadyExists).
pub fn create_new(path: &Path, mode: Mode) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let place = FilePlace::find_new(path)?;
    Ok(place.open(flags, mode)?.into())
}

/// Opens the regular file of this user at `path` for reading and writing, and creates it for its owner alone
/// if there is none. A link in its place is not followed, and a pipe waits for nobody.
///
/// # Errors
///
/// As [`open_regular`], and [`PermissionDenied`](io::ErrorKind::PermissionDenied) for a file of another user.
pub fn open_own(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    let opened = FilePlace::find_new(path)?.open(flags, Mode::RUSR | Mode::WUSR)?;
    match fstat(&opened)?.st_uid {
        owner if owner == geteuid().as_raw() => regular(opened),
        owner => Err(denied(format!("it belongs to user {owner}"))),
    }
}

/// Opens the terminal or other device at `path` for reading and writing, without waiting for it.
///
/// # Errors
///
/// As [`open_to_write`].
pub fn open_device(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    FilePlace::find(path, Intent::Write)?.open(flags, Mode::empty())
}

/// Opens the program or library at `path`, which the kernel reads or may read: it follows the same links.
/// Anything but a regular file is refused, so that this waits for nobody.
///
/// # Errors
///
/// As [`open_regular`].
pub fn open_program(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    regular(open(path, flags, Mode::empty())?)
}

/// Reads the whole program or library at `path`, as [`open_program`].
///
/// # Errors
///
/// As [`open_program`].
pub fn read_program(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_program(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads the whole file at `path`, as [`open_to_read`].
///
/// # Errors
///
/// As [`open_to_read`].
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_to_read(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads the whole file at `path` as text, as [`open_to_read`], without the byte order mark that some editors
/// put in front.
///
/// # Errors
///
/// As [`open_to_read`], and [`InvalidData`](io::ErrorKind::InvalidData) if it is not UTF-8.
pub fn read_to_string(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open_to_read(path)?.read_to_string(&mut text)?;
    Ok(without_mark(text))
}

/// Reads a regular file of up to `len_max` bytes as text.
///
/// # Errors
///
/// As [`open_regular`], and one of kind [`InvalidData`](io::ErrorKind::InvalidData) for a longer file.
pub fn read_short_to_string(path: &Path, len_max: u64) -> io::Result<String> {
    let mut text = String::new();
    let file = open_regular(path)?;
    if file.take(len_max.saturating_add(1)).read_to_string(&mut text)? as u64 > len_max {
        let what = format!("it has more than {len_max} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    Ok(without_mark(text))
}

/// Opens a file with a secret, `what`, which belongs to this user or to root and which no other user may
/// read or write.
///
/// # Errors
///
/// [`SecretFileError`], a message for the user.
pub fn open_secret(path: &Path, what: &'static str) -> Result<File, SecretFileError> {
    let wrong = |why| SecretFileError { what, file: path.to_owned(), why };
    let cannot = |error| wrong(SecretFileCause::Unreadable(error));
    let file = open_to_read(path).map_err(cannot)?;
    let stat = fstat(&file).map_err(|error| cannot(error.into()))?;
    if ![geteuid().as_raw(), ROOT].contains(&stat.st_uid) {
        return Err(wrong(SecretFileCause::Owner(stat.st_uid)));
    }
    match stat.st_mode & OTHERS {
        0 => Ok(file),
        _ => Err(wrong(SecretFileCause::OpenToOthers)),
    }
}

/// Replaces the contents of `path`, for `readers`. A pipe gets `bytes` if its reader comes and takes them
/// within a few seconds.
///
/// # Errors
///
/// As [`open_to_write`], and one of kind [`TimedOut`](io::ErrorKind::TimedOut) for a pipe without a reader.
pub fn write(path: &Path, bytes: &[u8], readers: Readers) -> io::Result<()> {
    let until = Instant::now() + READER_TIMEOUT;
    let mode = match readers {
        Readers::Usual => Mode::from_raw_mode(0o666),
        Readers::Owner => Mode::RUSR | Mode::WUSR,
    };
    let opened = loop {
        match open_to_write(path, OFlags::empty(), mode) {
            Err(error) if is_without_reader(&error) && Instant::now() < until => {
                sleep(READER_PAUSE);
            }
            Err(error) if is_without_reader(&error) => return Err(no_reader()),
            opened => break opened?,
        }
    };
    match readers {
        Readers::Usual => empty(&opened)?,
        Readers::Owner => empty_and_close_to_others(&opened)?,
    }
    let (mut file, mut rest) = (File::from(opened), bytes);
    while !rest.is_empty() {
        match file.write(rest) {
            Ok(len_bytes) => rest = &rest[len_bytes..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let left = until.saturating_duration_since(Instant::now());
                let left = Timespec::try_from(left).map_err(io::Error::other)?;
                if poll(&mut [PollFd::new(&file, PollFlags::OUT)], Some(&left))? == 0 {
                    return Err(no_reader());
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Creates the directory `path`, and those in front of it, as far as they do not exist, with `mode`.
///
/// # Errors
///
/// As [`open_to_write`].
pub fn make_directories(path: &Path, mode: Mode) -> io::Result<()> {
    let mut walk = Walk::new(path, Intent::Write)?;
    while let Some(name) = walk.rest.pop_front() {
        match walk.enter(&name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                match mkdirat(&walk.directory, &name, mode) {
                    // Another process may have created it.
                    Ok(()) | Err(Errno::EXIST) => walk.enter(&name)?,
                    Err(error) => return Err(error.into()),
                }
            }
            entered => entered?,
        }
    }
    Ok(())
}

/// Empties the file; a pipe and a device stay as they are.
///
/// # Errors
///
/// Errors of the system.
pub fn empty(file: impl AsFd) -> io::Result<()> {
    match file_type(&fstat(&file)?) {
        FileType::Fifo | FileType::CharacterDevice | FileType::BlockDevice => Ok(()),
        _ => Ok(ftruncate(&file, 0)?),
    }
}

/// Empties the file, and revokes all permissions but the owner's; a pipe and a device stay as they are.
///
/// # Errors
///
/// Errors of the system; one of kind [`PermissionDenied`](io::ErrorKind::PermissionDenied) for a file of
/// another user, who could read it despite its mode.
pub fn empty_and_close_to_others(file: impl AsFd) -> io::Result<()> {
    let stat = fstat(&file)?;
    if file_type(&stat) != FileType::RegularFile {
        return Ok(());
    }
    if stat.st_uid != geteuid().as_raw() {
        return Err(denied(format!("it belongs to user {}, who could read it", stat.st_uid)));
    }
    fchmod(&file, Mode::RUSR | Mode::WUSR)?;
    Ok(ftruncate(&file, 0)?)
}

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Intent {
    Read,
    Write,
}

/// A path that is followed part by part.
#[derive(Debug)]
struct Walk {
    intent: Intent,
    /// Directory to which the parts so far have led.
    directory: OwnedFd,
    /// True below a directory that another user has put where every user may create files: its links are
    /// that user's choice.
    is_foreign: bool,
    /// Parts that follow.
    rest: VecDeque<OsString>,
    links_count: u32,
}

/// A name in a directory that was reached, and what stands there.
#[derive(Debug)]
struct FilePlace {
    intent: Intent,
    directory: OwnedFd,
    name: OsString,
    found: Option<Stat>,
    /// True for a link of procfs, which has no path and is followed by the kernel.
    is_of_kernel: bool,
}

/// What a part of a path leads to.
enum Part {
    /// Other parts, which were put in front of the rest.
    Link,
    /// A link of procfs, which has no path.
    KernelLink,
    /// No link.
    Other(Stat),
}

impl Walk {
    fn new(path: &Path, intent: Intent) -> io::Result<Self> {
        if path.as_os_str().is_empty() {
            return Err(Errno::NOENT.into());
        }
        let start = if path.is_absolute() { "/" } else { "." };
        let directory = openat(CWD, start, DIRECTORY, Mode::empty())?;
        let rest = parts(path.as_os_str()).collect();
        Ok(Self { intent, directory, is_foreign: false, rest, links_count: 0 })
    }

    /// Goes to the directory `name`, or puts the parts of a link in front of the rest.
    fn enter(&mut self, name: &OsStr) -> io::Result<()> {
        match openat(&self.directory, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(directory) => {
                self.is_foreign |= is_put_by_another(&fstat(&self.directory)?, &fstat(&directory)?);
                self.directory = directory;
                Ok(())
            }
            Err(error @ (Errno::LOOP | Errno::NOTDIR)) => match self.look_at(name)? {
                Part::Link => Ok(()),
                Part::KernelLink => {
                    self.directory = openat(&self.directory, name, DIRECTORY, Mode::empty())?;
                    Ok(())
                }
                Part::Other(_) => Err(error.into()),
            },
            Err(error) => Err(error.into()),
        }
    }

    /// Examines `name`, and follows it if it is a link that may be followed.
    fn look_at(&mut self, name: &OsStr) -> io::Result<Part> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let there = openat(&self.directory, name, flags, Mode::empty())?;
        let stat = fstat(&there)?;
        if file_type(&stat) != FileType::Symlink {
            return Ok(Part::Other(stat));
        }
        if fstatfs(&self.directory)?.f_type == PROC_SUPER_MAGIC {
            return Ok(Part::KernelLink);
        }
        check_owner(self.intent, &self.directory, name, &stat)?;
        let trusted = [geteuid().as_raw(), ROOT];
        if self.is_foreign && self.intent == Intent::Write && !trusted.contains(&stat.st_uid) {
            return Err(denied(format!(
                "user {} has put the symbolic link '{}' there, below a directory in one where every user may \
                 create files",
                stat.st_uid,
                shown(name),
            )));
        }
        self.links_count += 1;
        if self.links_count > LINKS_MAX {
            return Err(Errno::LOOP.into());
        }
        let target = OsString::from_vec(readlinkat(&there, "", Vec::new())?.into_bytes());
        if Path::new(&target).is_absolute() {
            (self.directory, self.is_foreign) =
                (openat(CWD, "/", DIRECTORY, Mode::empty())?, false);
        }
        for part in parts(&target).rev() {
            self.rest.push_front(part);
        }
        Ok(Part::Link)
    }
}

impl FilePlace {
    /// Follows `path` up to its last part.
    fn find(path: &Path, intent: Intent) -> io::Result<Self> {
        let mut walk = Walk::new(path, intent)?;
        while let Some(name) = walk.rest.pop_front() {
            if !walk.rest.is_empty() {
                walk.enter(&name)?;
                continue;
            }
            let (found, is_of_kernel) = match walk.look_at(&name) {
                Ok(Part::Link) => continue,
                Ok(Part::KernelLink) => (None, true),
                Ok(Part::Other(stat)) => {
                    check_owner(intent, &walk.directory, &name, &stat)?;
                    (Some(stat), false)
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => (None, false),
                Err(error) => return Err(error),
            };
            let directory = walk.directory;
            return Ok(Self { intent, directory, name, found, is_of_kernel });
        }
        Err(Errno::ISDIR.into())
    }

    /// Follows `path` up to its last part, which is to be created and is not followed.
    fn find_new(path: &Path) -> io::Result<Self> {
        let mut walk = Walk::new(path, Intent::Write)?;
        loop {
            let name = walk.rest.pop_front().ok_or(Errno::ISDIR)?;
            if walk.rest.is_empty() {
                let Walk { intent, directory, .. } = walk;
                return Ok(Self { intent, directory, name, found: None, is_of_kernel: false });
            }
            walk.enter(&name)?;
        }
    }

    /// Opens what stands there, or creates it if `flags` say so.
    fn open(self, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        let Self { intent, directory, name, is_of_kernel, .. } = self;
        if is_of_kernel {
            return Ok(openat(&directory, &name, flags, mode)?);
        }
        let opened = openat(&directory, &name, flags | OFlags::NOFOLLOW, mode)?;
        check_owner(intent, &directory, &name, &fstat(&opened)?)?;
        Ok(opened)
    }
}

/// Parts of a path. A path that ends in a slash names a directory, as its last part shows.
fn parts(path: &OsStr) -> impl DoubleEndedIterator<Item = OsString> {
    let bytes = path.as_bytes();
    let names = bytes.split(|byte| *byte == b'/').filter(|name| !matches!(name, [] | [b'.']));
    let names: Vec<&[u8]> = names.collect();
    let is_directory = names.is_empty() || bytes.ends_with(b"/") || bytes.ends_with(b"/.");
    let end = is_directory.then_some(&b"."[..]);
    names.into_iter().chain(end).map(|name| OsStr::from_bytes(name).to_owned())
}

/// Rejects an object that another user has put into a directory where every user may create files: when it
/// is to be written, and links and pipes when it is to be read.
fn check_owner(intent: Intent, directory: impl AsFd, name: &OsStr, stat: &Stat) -> io::Result<()> {
    let what = match file_type(stat) {
        FileType::Symlink => "symbolic link",
        FileType::RegularFile if intent == Intent::Write => "file",
        FileType::Fifo => "pipe",
        // Devices are created by the administrator.
        _ => return Ok(()),
    };
    match is_put_by_another(&fstat(directory)?, stat) {
        false => Ok(()),
        true => Err(denied(format!(
            "user {} has put the {what} '{}' into a directory where every user may create files",
            stat.st_uid,
            shown(name),
        ))),
    }
}

/// True if every user may create files in `directory`, and one who is neither this user, nor root, nor its
/// owner has created this.
fn is_put_by_another(directory: &Stat, stat: &Stat) -> bool {
    let is_shared = directory.st_mode & Mode::WOTH.as_raw_mode() != 0;
    is_shared && ![geteuid().as_raw(), ROOT, directory.st_uid].contains(&stat.st_uid)
}

fn file_type(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

fn shown(name: &OsStr) -> impl fmt::Display {
    name.as_bytes().escape_ascii()
}

fn denied(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

fn is_without_reader(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::NXIO)
}

fn no_reader() -> io::Error {
    let why = format!("nobody has read the pipe within {} s", READER_TIMEOUT.as_secs());
    io::Error::new(io::ErrorKind::TimedOut, why)
}

impl fmt::Display for SecretFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, file) = (self.what, self.file.display());
        match &self.why {
            SecretFileCause::Unreadable(error) => {
                write!(f, "the {what} in '{file}' cannot be read ({error})")
            }
            SecretFileCause::Owner(user) => write!(
                f,
                "the {what} in '{file}' belongs to user {user}, who knows it; copy it to a file of yours, or \
                 make another"
            ),
            SecretFileCause::OpenToOthers => {
                write!(f, "other users may read the {what} in '{file}'; run 'chmod 600 {file}'")
            }
        }
    }
}

impl std::error::Error for SecretFileError {}

/// A directory, for what is below it only: permission to search it is enough.
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The administrator, who can do everything anyway.
const ROOT: u32 = 0;

/// Permission bits of all users but the owner.
const OTHERS: u32 = 0o077;

/// Maximum number of links in a path, as in the kernel.
const LINKS_MAX: u32 = 40;

/// Time limit for the reader of a pipe to come, and to read a few lines.
const READER_TIMEOUT: Duration = Duration::from_secs(5);

/// Pause between attempts to open a pipe whose reader has not come.
const READER_PAUSE: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, lchown, symlink};

    #[test]
    fn paths_lead_where_the_kernel_leads() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        make_directories(&at("a/b/c"), Mode::RWXU).unwrap();
        make_directories(&at("a/b/c"), Mode::RWXU).unwrap();
        symlink("a/b", at("l")).unwrap();
        symlink(at("l/c/"), at("far")).unwrap();
        symlink("loop", at("loop")).unwrap();
        for path in ["l/../b/./c/file", "far/file", "far//file", "l/c/../../../far/file"] {
            fs::write(at("a/b/c/file"), "old").unwrap();
            assert_eq!(read_to_string(&at(path)).unwrap(), "old", "{path}");
            write(&at(path), b"new", Readers::Usual).unwrap();
            assert_eq!(fs::read(at("a/b/c/file")).unwrap(), b"new", "{path}");
        }
        // A link to nothing creates its target, and a directory is none to write to.
        symlink("a/made", at("dangling")).unwrap();
        write(&at("dangling"), b"x", Readers::Usual).unwrap();
        assert!(at("a/made").is_file());
        for (path, error) in [
            ("loop", Errno::LOOP),
            ("far", Errno::ISDIR),
            ("new/", Errno::NOENT),
            ("a/made/x", Errno::NOTDIR),
            ("none/x", Errno::NOENT),
            ("", Errno::NOENT),
        ] {
            let path = if path.is_empty() { PathBuf::new() } else { at(path) };
            let found = write(&path, b"x", Readers::Usual).unwrap_err();
            assert_eq!(Errno::from_io_error(&found), Some(error), "{}", path.display());
        }
        assert_eq!(read(Path::new("/dev/null")).unwrap(), b"");
        assert_eq!(
            open_regular(Path::new("/dev/null")).unwrap_err().to_string(),
            "it is not a regular file"
        );
        // Descriptors of the process, as behind `<(…)`.
        let (from, to) = rustix::pipe::pipe().unwrap();
        File::from(to).write_all(b"piped").unwrap();
        let fd = rustix::fd::AsRawFd::as_raw_fd(&from);
        assert_eq!(read_to_string(Path::new(&format!("/dev/fd/{fd}"))).unwrap(), "piped");
    }

    #[test]
    fn pipe_gets_a_line_when_its_reader_comes_and_is_read_when_its_writer_comes() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        rustix::fs::mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                sleep(Duration::from_millis(100));
                read_to_string(&pipe).unwrap()
            });
            write(&pipe, b"line\n", Readers::Owner).unwrap();
            assert_eq!(reader.join().unwrap(), "line\n");
        });
    }

    #[test]
    fn link_of_another_user_is_followed_nowhere_in_a_path() {
        if !geteuid().is_root() {
            eprintln!("skipped: only root can make a file of another user");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for name in ["shared", "private", "shared/theirs"] {
            fs::create_dir(at(name)).unwrap();
        }
        fs::set_permissions(at("shared"), Permissions::from_mode(0o1777)).unwrap();
        fs::write(at("private/file"), "kept").unwrap();
        let links = ["shared/link", "shared/theirs/link", "private/link"];
        for link in links {
            symlink(at("private"), at(link)).unwrap();
            lchown(at(link), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        lchown(at("shared/theirs"), Some(NOBODY), Some(NOBODY)).unwrap();
        for link in &links[..2] {
            let file = at(link).join("file");
            let errors = [
                write(&file, b"x", Readers::Usual).unwrap_err(),
                make_directories(&at(link).join("new"), Mode::RWXU).unwrap_err(),
            ];
            for error in errors {
                assert!(
                    error.to_string().starts_with("user 65534 has put the symbolic link 'link'"),
                    "{error}"
                );
            }
        }
        assert!(read(&at("shared/link/file")).unwrap_err().to_string().contains("user 65534"));
        // Where no other user can create files, links are the administrator's or the owner's.
        assert_eq!(read(&at("shared/theirs/link/file")).unwrap(), b"kept");
        assert_eq!(read(&at("private/link/file")).unwrap(), b"kept");
        write(&at("private/link/file"), b"new", Readers::Usual).unwrap();
    }

    #[test]
    fn secret_of_another_user_is_no_secret() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("key");
        write(&file, b"0123456789abcdef\n", Readers::Owner).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        open_secret(&file, "secret").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o620)).unwrap();
        let error = open_secret(&file, "secret").unwrap_err().to_string();
        assert!(
            error.contains("other users may read the secret") && error.contains("chmod 600"),
            "{error}"
        );
        let error = open_secret(&directory.path().join("none"), "key").unwrap_err();
        assert!(matches!(error.why, SecretFileCause::Unreadable(_)), "{error}");
        if geteuid().is_root() {
            fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
            lchown(&file, Some(NOBODY), Some(NOBODY)).unwrap();
            let error = open_secret(&file, "key").unwrap_err().to_string();
            assert!(error.contains("the key in") && error.contains("user 65534"), "{error}");
        }
    }

    const NOBODY: u32 = 65534;
}
