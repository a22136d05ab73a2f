//! Directory for the sockets and secrets of launchers of one user.
//!
//! It is `$XDG_RUNTIME_DIR`, which the system creates for one user and removes with the last session, or
//! else a directory below `/tmp`. Only its owner may enter either, and one that another user has created
//! is not used: where that user has taken the name, launchers make a directory with a further, random part in
//! its name.

use crate::random::token;
use pmi_host_base::user_file;
use rustix::fs::{FlockOperation, Mode, flock, mkdir};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{Pid, geteuid, test_kill_process};
use std::env;
use std::fs::{self, DirEntry};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// All directories in which launchers of this user may have their sockets, the best first.
pub fn candidates() -> Vec<PathBuf> {
    let shared = Path::new(SHARED);
    own_runtime().into_iter().chain([below(shared)]).chain(spares(shared)).collect()
}

/// Makes a file in the first directory where that succeeds.
///
/// # Errors
///
/// The error in the last one.
pub fn create_in_first<T>(make: impl Fn(&Path) -> io::Result<T>) -> io::Result<T> {
    match own_runtime().map(|directory| create_in(&directory, &make)) {
        Some(Ok(made)) => Ok(made),
        _ => create_below(Path::new(SHARED), make),
    }
}

/// Makes a file in a directory of this user below `parent`, which other users may write to.
pub fn create_below<T>(
    parent: &Path,
    mut make: impl FnMut(&Path) -> io::Result<T>,
) -> io::Result<T> {
    let directory = below(parent);
    let refused = match create_in(&directory, &mut make) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => error,
        made => return made,
    };
    let is_taken =
        fs::symlink_metadata(&directory).is_ok_and(|found| found.uid() != geteuid().as_raw());
    if !is_taken {
        return Err(refused);
    }
    for spare in spares(parent) {
        if let Ok(made) = create_in(&spare, &mut make) {
            return Ok(made);
        }
    }
    let name = format!("{}-{}", directory.display(), token()?);
    create_in(Path::new(&name), make)
}

/// Directory that the system creates for this user.
fn own_runtime() -> Option<PathBuf> {
    let runtime = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    runtime.filter(|path| path.is_absolute()).map(|path| path.join(NAME))
}

/// Directory of this user below `parent`.
fn below(parent: &Path) -> PathBuf {
    parent.join(format!("pmi-host-{}", geteuid().as_raw()))
}

/// Directories that were made since another user had taken the name of the usual one.
fn spares(parent: &Path) -> Vec<PathBuf> {
    let usual = format!("pmi-host-{}-", geteuid().as_raw());
    let entries = fs::read_dir(parent).into_iter().flatten().filter_map(Result::ok);
    let entries = entries.take(SCANNED_MAX);
    let named = entries.filter(|entry| entry.file_name().as_bytes().starts_with(usual.as_bytes()));
    let mut found: Vec<PathBuf> = named.map(|entry| entry.path()).collect();
    found.retain(|path| check(path).is_ok());
    found.sort_unstable();
    found
}

/// Makes a file in a directory, which is [prepared](prepare) for it, although other launchers
/// [remove](remove_if_empty) the directory meanwhile.
pub fn create_in<T>(
    directory: &Path,
    mut make: impl FnMut(&Path) -> io::Result<T>,
) -> io::Result<T> {
    let mut made = make(directory);
    for _ in 0..ATTEMPTS {
        if !made.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            break;
        }
        made = make(directory);
    }
    made
}

/// Removes a file of this launcher, and its directory if no other launcher has one there. What cannot be
/// removed is left to the next launcher.
pub fn remove(file: &Path) {
    let _ = fs::remove_file(file);
    file.parent().into_iter().for_each(remove_if_empty);
}

/// Removes `files` of the launcher with this process, which was killed, what it had begun to make in the
/// directories of this user, and those that are empty then.
pub(crate) fn remove_of_killed(launcher: i32, files: &[PathBuf]) {
    for file in files {
        // Removed already, or never made.
        let _ = fs::remove_file(file);
    }
    let parents = files.iter().filter_map(|file| file.parent());
    let is_ours = |parent: &&Path| parent.file_name().is_some_and(|name| name == NAME);
    let of_files = parents.filter(is_ours).map(Path::to_owned);
    for directory in candidates().into_iter().chain(of_files) {
        sweep(&directory);
        for entry in fs::read_dir(&directory).into_iter().flatten().filter_map(Result::ok) {
            if is_begun_by(launcher, &entry.path()) {
                let _ = fs::remove_file(entry.path());
            }
        }
        remove_if_empty(&directory);
    }
}

/// True for the temporary name of a file of the launcher with this process.
fn is_begun_by(launcher: i32, path: &Path) -> bool {
    path.extension().is_some_and(|end| end == FRESH) && pid(path) == Some(launcher)
}

/// Removes the directory unless it has files, as those of other launchers.
pub fn remove_if_empty(directory: &Path) {
    // It has files, or is gone already: there is nothing to do.
    let _ = fs::remove_dir(directory);
}

/// Creates the directory unless it exists, and checks that only this user can change it.
///
/// # Errors
///
/// Errors of the system; `PermissionDenied` for a directory that another user could change.
pub fn prepare(directory: &Path) -> io::Result<()> {
    match mkdir(directory, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => check(directory),
        Err(error) => Err(error.into()),
    }
}

/// Checks that `directory` is a directory of this user which no other user may enter.
pub(crate) fn check(directory: &Path) -> io::Result<()> {
    // A symbolic link is examined itself, and is no directory.
    let found = fs::symlink_metadata(directory)?;
    let is_ours = found.is_dir() && found.uid() == geteuid().as_raw();
    match is_ours && found.mode() & OTHERS == 0 {
        true => Ok(()),
        false => Err(io::ErrorKind::PermissionDenied.into()),
    }
}

/// Sockets in the directory, sorted by name.
pub fn sockets(directory: &Path) -> io::Result<Vec<PathBuf>> {
    check(directory)?;
    let is_socket = |entry: &DirEntry| entry.file_type().is_ok_and(|kind| kind.is_socket());
    let entries = fs::read_dir(directory)?.filter_map(Result::ok).filter(is_socket);
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == SOCKET));
    paths.sort_unstable();
    Ok(paths)
}

/// Name of a socket of process `pid`. The time distinguishes processes with the same pid, as in two
/// containers with one `/tmp`.
pub fn name(pid: u32) -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("{pid}-{:x}.{SOCKET}", since.as_nanos())
}

/// Pid in the name of a socket, or in a temporary name.
pub fn pid(path: &Path) -> Option<i32> {
    let name = path.file_stem()?.to_str()?;
    name.strip_prefix(BEGUN).unwrap_or(name).split('-').next()?.parse().ok()
}

/// Removes the sockets of launchers that are gone and could not remove them.
pub fn sweep(directory: &Path) {
    for path in sockets(directory).unwrap_or_default().into_iter().take(SWEPT_MAX) {
        if is_abandoned(&path) {
            let _ = fs::remove_file(path);
        }
    }
    // A launcher that was killed may leave its secret, or the temporary name of its socket.
    let is_old = |entry: &DirEntry| {
        let changed = entry.metadata().and_then(|found| found.modified());
        changed.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > UNFINISHED))
    };
    for entry in fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok) {
        let path = entry.path();
        let is_left = match path.extension() {
            Some(end) if end == FRESH => is_old(&entry),
            Some(end) if end == SECRET => is_old(&entry) && is_unlocked(&path),
            _ => false,
        };
        if is_left {
            let _ = fs::remove_file(path);
        }
    }
}

/// Connects to the listener at `path`, without waiting for it.
///
/// # Errors
///
/// Errors of the system; `ConnectionRefused` if there is no listener, `WouldBlock` if its backlog is full.
pub fn dial(path: &Path) -> io::Result<rustix::fd::OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// True if no launcher will ever listen there again. A live launcher is not disturbed: its process is
/// looked up first, and a connection is attempted only where that is not visible, as from another
/// container.
fn is_abandoned(path: &Path) -> bool {
    let lives = pid(path).and_then(Pid::from_raw).is_some_and(|pid| test_kill_process(pid).is_ok());
    !lives && dial(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// True if no launcher uses a secret, which it keeps locked.
fn is_unlocked(path: &Path) -> bool {
    let lock = |file| flock(&file, FlockOperation::NonBlockingLockExclusive);
    user_file::open_regular(path).is_ok_and(|file| lock(file).is_ok())
}

/// Name of the directory below the one that the system creates for this user.
const NAME: &str = "pmi-host";

/// Directory where every user may create files.
const SHARED: &str = "/tmp";

/// Maximum number of entries of such a directory that are looked at.
const SCANNED_MAX: usize = 100_000;

/// Suffix of a socket's name.
const SOCKET: &str = "sock";

/// Suffix of a socket's name until it can be connected to.
pub const FRESH: &str = "new";

/// Start of the temporary name of another file, in front of the process and the time.
pub const BEGUN: &str = ".pmi-host-";

/// Suffix of a secret's name.
pub(crate) const SECRET: &str = "secret";

/// Permission bits of all users but the owner.
const OTHERS: u32 = 0o077;

/// Maximum number of entries that a launcher checks when it starts; the next one checks the rest.
const SWEPT_MAX: usize = 64;

/// Number of times that a file is tried to be made in a directory that others remove. Each time needs another
/// launcher that ends at the same moment.
const ATTEMPTS: u32 = 64;

/// Longest time that creating a socket takes.
const UNFINISHED: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;

    #[test]
    fn temporary_names_are_those_of_one_launcher() {
        for (name, is_its) in [
            ("12-5f3a.new", true),
            (".pmi-host-12-5f3a.new", true),
            (".pmi-host-123-5f3a.new", false),
            ("2-5f3a.new", false),
            ("12-5f3a.sock", false),
        ] {
            assert_eq!(is_begun_by(12, Path::new("/d").join(name).as_path()), is_its, "{name}");
        }
    }

    #[test]
    fn directory_that_others_may_enter_is_not_used() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("shared");
        prepare(&directory).unwrap();
        prepare(&directory).unwrap();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(prepare(&directory).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();
        let link = directory.join("link");
        symlink(&directory, &link).unwrap();
        assert_eq!(prepare(&link).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert!(prepare(&directory.join("no/such")).is_err());
    }

    #[test]
    fn only_sockets_without_a_listener_are_swept() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("sweep");
        prepare(&directory).unwrap();
        // Pids end far below this one.
        let [alive, elsewhere, dead] = ["1-1", "2000000000-1", "2000000001-1"]
            .map(|name| directory.join(name).with_extension(SOCKET));
        let _listeners = [&alive, &elsewhere].map(|path| UnixListener::bind(path).unwrap());
        drop(UnixListener::bind(&dead).unwrap());
        fs::write(directory.join("notes.txt"), "kept").unwrap();
        fs::write(directory.join("3-1.new"), "young").unwrap();
        sweep(&directory);
        assert_eq!(sockets(&directory).unwrap(), [alive, elsewhere]);
        assert!(directory.join("notes.txt").exists() && directory.join("3-1.new").exists());
    }

    #[test]
    fn directory_that_others_remove_is_created_again() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("removed");
        let mut removals = 3;
        let make = |directory: &Path| {
            prepare(directory)?;
            if removals > 0 {
                removals -= 1;
                remove_if_empty(directory);
            }
            fs::write(directory.join("file"), "")
        };
        create_in(&directory, make).unwrap();
        remove_if_empty(&directory);
        assert!(directory.join("file").exists(), "a directory with a file stays");
        fs::remove_file(directory.join("file")).unwrap();
        remove_if_empty(&directory);
        assert!(!directory.exists());
        let nowhere = create_in(&directory.join("no/such"), prepare).unwrap_err();
        assert_eq!(nowhere.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn launchers_that_start_and_end_together_find_their_directory() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("together");
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let directory = &directory;
                scope.spawn(move || {
                    for number in 0..200 {
                        let name = format!("{thread}-{number}.{SOCKET}");
                        let make = |directory: &Path| {
                            prepare(directory)?;
                            UnixListener::bind(directory.join(&name)).map(drop)
                        };
                        create_in(directory, make).unwrap();
                        fs::remove_file(directory.join(&name)).unwrap();
                        remove_if_empty(directory);
                    }
                });
            }
        });
        assert!(!directory.exists());
    }

    #[test]
    fn directory_whose_name_another_user_has_taken_has_a_substitute_that_is_found() {
        if !geteuid().is_root() {
            eprintln!("skipped: only root can make a file of another user");
            return;
        }
        let parent = tempfile::tempdir().unwrap();
        let parent = parent.path();
        fs::create_dir(below(parent)).unwrap();
        let theirs = PathBuf::from(format!("{}-0", below(parent).display()));
        fs::create_dir(&theirs).unwrap();
        for path in [&below(parent), &theirs] {
            std::os::unix::fs::chown(path, Some(65534), Some(65534)).unwrap();
        }
        let make = |directory: &Path| {
            prepare(directory)?;
            Ok(directory.to_owned())
        };
        let made = create_below(parent, make).unwrap();
        assert_ne!((&made, &made), (&below(parent), &theirs));
        assert_eq!(create_below(parent, make).unwrap(), made, "it is used again");
        assert_eq!(spares(parent), [made]);
        // One of this user that is open to others is an error of this user.
        fs::remove_dir(below(parent)).unwrap();
        fs::create_dir(below(parent)).unwrap();
        assert!(create_below(parent, make).is_err());
    }

    #[test]
    fn socket_is_named_for_its_process() {
        assert_eq!(pid(Path::new("/x").join(name(4711)).as_path()), Some(4711));
        assert_eq!(pid(Path::new("/x/a-b.sock")), None);
    }
}
