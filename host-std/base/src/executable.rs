//! Obstacles to the execution of a file by this user, with their remedies.

use crate::user_file;
use rustix::fs::{Access, StatVfsMountFlags, access, statvfs};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::fs::Metadata;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Obstacle to the execution of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// There is no such file.
    Absent,
    /// The file exists, and cannot or may not be executed for this reason.
    Unfit(String),
}

/// Obstacle to the execution of the file at `path`; `None` if the permissions allow it.
pub fn obstacle(path: &Path) -> Option<Obstacle> {
    let meta = match path.metadata() {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Some(Obstacle::Unfit(closed_directory(path)));
        }
        Err(_) => return Some(Obstacle::Absent),
    };
    if meta.is_dir() {
        Some(Obstacle::Unfit("it is a directory".to_owned()))
    } else if !meta.is_file() {
        Some(Obstacle::Unfit("it is not a regular file".to_owned()))
    } else if !may_execute(path) {
        Some(Obstacle::Unfit(not_permitted(path, &meta)))
    } else {
        None
    }
}

/// True if this user may execute a file or enter a directory, and where a sandbox refuses to say so.
fn may_execute(path: &Path) -> bool {
    matches!(access(path, Access::EXEC_OK), Ok(()) | Err(Errno::PERM | Errno::NOSYS))
}

/// Sentence about the first directory on the way to a file that this user may not enter.
fn closed_directory(path: &Path) -> String {
    let mut above: Vec<&Path> = path.ancestors().skip(1).collect();
    above.reverse();
    let mut above = above.into_iter().filter(|directory| !directory.as_os_str().is_empty());
    let closed = above.find(|directory| !may_execute(directory));
    match closed.and_then(|directory| Some((directory, directory.metadata().ok()?))) {
        Some((directory, meta)) => format!(
            "only {} may enter the directory '{}' on the path to it (mode {:04o}), and this is {}",
            allowed(&meta),
            directory.display(),
            meta.mode() & 0o7777,
            user(geteuid().as_raw()),
        ),
        None => "a directory on the path to it may not be entered".to_owned(),
    }
}

/// Reason for which a regular file may not be executed.
fn not_permitted(path: &Path, meta: &Metadata) -> String {
    let is_noexec =
        |path| statvfs(path).is_ok_and(|system| system.f_flag.contains(StatVfsMountFlags::NOEXEC));
    let mode = meta.mode() & 0o7777;
    if mode & 0o111 != 0 && is_noexec(path) {
        return "its file system is mounted with 'noexec', so it has no programs; copy it to another one"
            .to_owned();
    }
    if mode & 0o111 != 0 {
        return format!(
            "only {} may execute it (mode {mode:04o}), and this is {}; its owner can allow it, by 'chmod \
             a+rx'",
            allowed(meta),
            user(geteuid().as_raw()),
        );
    }
    if is_program(path) == Some(false) {
        return "it is not executable, and begins neither with '#!' nor as a binary; if a program is to read \
                it, name that one in front of it"
            .to_owned();
    }
    match geteuid().as_raw() {
        own if own == 0 || own == meta.uid() => {
            "it is not executable; 'chmod +x' makes it so".to_owned()
        }
        _ => format!(
            "it is not executable (mode {mode:04o}); its owner, {}, can make it so by 'chmod +x'",
            user(meta.uid())
        ),
    }
}

/// True if a file begins as a program does; `None` if it cannot be read.
fn is_program(path: &Path) -> Option<bool> {
    let mut start = Vec::new();
    user_file::open_program(path).ok()?.take(4).read_to_end(&mut start).ok()?;
    Some(start.starts_with(b"#!") || start == b"\x7fELF")
}

/// Users who have the permission to execute a file, or to enter a directory.
fn allowed(meta: &Metadata) -> String {
    let is_allowed = |bit: u32| meta.mode() & bit != 0;
    let (owner, group) = (user(meta.uid()), format!("group {}", name_of("/etc/group", meta.gid())));
    match (is_allowed(0o100), is_allowed(0o010), is_allowed(0o001)) {
        (true, true, false) => format!("{owner} and {group}"),
        (false, true, false) => group,
        (true, _, false) => owner,
        (false, _, true) => format!("users other than {owner}"),
        (true, _, true) => format!("users outside of {group}"),
        (false, false, false) => "root".to_owned(),
    }
}

fn user(number: u32) -> String {
    format!("user {}", name_of("/etc/passwd", number))
}

/// Name of a user or a group; its number if the file has none.
fn name_of(file: &str, number: u32) -> String {
    let text = user_file::read_to_string(Path::new(file)).unwrap_or_default();
    let name = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(number)).then(|| name.to_owned())
    });
    name.unwrap_or_else(|| number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn file(content: &[u8], mode: u32) -> tempfile::TempPath {
        let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    fn why(path: &Path) -> String {
        match obstacle(path) {
            Some(Obstacle::Unfit(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn mode_is_to_be_changed_for_programs_only() {
        assert_eq!(
            why(&file(b"#!/bin/sh\n", 0o644)),
            "it is not executable; 'chmod +x' makes it so"
        );
        assert!(why(&file(b"\x7fELF\x02", 0o644)).contains("chmod +x"));
        let data = why(&file(b"1 2 3\n", 0o644));
        assert!(data.contains("in front of it") && !data.contains("chmod"), "{data}");
        assert_eq!(obstacle(&file(b"", 0o755)), None);
        assert_eq!(obstacle(Path::new("/no/such/file")), Some(Obstacle::Absent));
    }

    #[test]
    fn users_who_may_are_named_by_the_mode() {
        for (mode, users) in [
            (0o700, "OWNER"),
            (0o750, "OWNER and GROUP"),
            (0o070, "GROUP"),
            (0o077, "users other than OWNER"),
            (0o701, "users outside of GROUP"),
        ] {
            let path = file(b"", mode);
            let meta = path.metadata().unwrap();
            let owner = user(meta.uid());
            let group = format!("group {}", name_of("/etc/group", meta.gid()));
            assert_eq!(allowed(&meta), users.replace("OWNER", &owner).replace("GROUP", &group));
        }
        assert_eq!((user(0), user(4_000_000)), ("user root".to_owned(), "user 4000000".to_owned()));
    }
}
