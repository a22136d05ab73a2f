//! Files and directories that are removed at the end of ranks: those that they have registered, and those
//! of this launcher.
//!
//! A rank that is killed cannot remove its shared memory segments. It registers them beforehand, and
//! they are removed once it has terminated, for any reason. Files of other users are safe: only files of
//! this user are removed, and symbolic links are not followed.

use crate::runtime_dir;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, mkdir, openat, statat, unlinkat};
use rustix::process::getuid;
use serde::{Deserialize, Serialize};
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{env, io};

/// Files and directories of one rank, or of the last rank to terminate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cleanup {
    /// Files to remove.
    pub files: Vec<CString>,
    /// Directories to empty and remove.
    pub directories: Vec<CString>,
    /// True if subdirectories are removed with their contents.
    pub is_recursive: bool,
    /// True if only empty directories are removed.
    pub only_empty: bool,
    /// True if the directories themselves stay.
    pub leaves_top: bool,
    /// Names to keep.
    pub kept: Vec<CString>,
}

/// A directory of this launcher among temporary files, which is removed with everything in it when it is
/// dropped: that of ranks that speak PMIx, or that of programs that were sent to this host.
///
/// Without the first, libraries of Open MPI create directories with predictable names in the directory for
/// temporary files, which stay there after the run.
#[derive(Debug)]
pub struct SessionDirectory {
    path: PathBuf,
}

impl Cleanup {
    /// True if there is nothing to remove.
    pub const fn is_empty(&self) -> bool {
        self.files.is_empty() && self.directories.is_empty()
    }

    /// Removes the files and directories. Failures are ignored: the rank that could be notified has
    /// terminated.
    pub fn run(&self) {
        for file in self.files.iter().filter(|file| is_absolute(file) && !self.kept.contains(file))
        {
            if is_ours(CWD, file) == Ok(FileType::RegularFile) {
                let _ = unlinkat(CWD, file.as_c_str(), AtFlags::empty());
            }
        }
        for directory in self.directories.iter().filter(|directory| is_absolute(directory)) {
            if is_ours(CWD, directory) != Ok(FileType::Directory) {
                continue;
            }
            let _ = self.empty(CWD, directory, DEPTH_MAX);
            if !self.leaves_top {
                let _ = unlinkat(CWD, directory.as_c_str(), AtFlags::REMOVEDIR);
            }
        }
    }

    /// Removes the contents of the directory `name` of `parent`.
    fn empty(&self, parent: impl AsFd, name: &CStr, depth: u32) -> io::Result<()> {
        let directory = place(parent, name)?;
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..")
                || self.kept.iter().any(|kept| **kept == *name)
            {
                continue;
            }
            match is_ours(&directory, name) {
                Ok(FileType::Directory) if self.is_recursive && depth > 0 => {
                    self.empty(&directory, name, depth - 1)?;
                    let _ = unlinkat(&directory, name, AtFlags::REMOVEDIR);
                }
                Ok(FileType::Directory) | Err(_) => {}
                Ok(_) if self.only_empty => {}
                Ok(_) => {
                    let _ = unlinkat(&directory, name, AtFlags::empty());
                }
            }
        }
        Ok(())
    }
}

impl SessionDirectory {
    /// Creates a directory that only this user may enter, in `parent`, else in the directory for temporary
    /// files. Its name ends with `kind`. `announce` gets its path before it exists: who removes it if this
    /// process is killed must know it by then.
    pub fn create(
        parent: Option<&Path>,
        kind: &str,
        announce: impl FnOnce(&Path),
    ) -> io::Result<Self> {
        // The time in it keeps the name from other users, who may create files in the same directory.
        let name = format!("pmi-host-{}", runtime_dir::name(std::process::id()));
        let path = std::path::absolute(parent.map_or_else(env::temp_dir, Path::to_owned))?
            .join(name)
            .with_extension(kind);
        announce(&path);
        mkdir(&path, Mode::RWXU)?;
        Ok(Self { path })
    }

    /// Its absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SessionDirectory {
    fn drop(&mut self) {
        remove_directory(&self.path);
    }
}

/// Removes a directory of this user with everything in it, as far as possible.
pub fn remove_directory(path: &Path) {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return };
    Cleanup { directories: vec![path], is_recursive: true, ..Cleanup::default() }.run();
}

/// File type of an entry, if it belongs to the user of the launcher.
fn is_ours(parent: impl AsFd, name: &CStr) -> Result<FileType, rustix::io::Errno> {
    let found = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    match found.st_uid == getuid().as_raw() {
        true => Ok(FileType::from_raw_mode(found.st_mode)),
        false => Err(rustix::io::Errno::PERM),
    }
}

#[expect(clippy::disallowed_methods, reason = "a directory below one that is open, and no link")]
fn place(parent: impl AsFd, name: &CStr) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(parent, name, flags, Mode::empty())?)
}

/// True for an absolute path without `..`: it means the same for the launcher and the rank.
fn is_absolute(path: &CStr) -> bool {
    let mut parts = path.to_bytes().split(|byte| *byte == b'/');
    path.to_bytes().starts_with(b"/") && !parts.any(|part| part == b"..")
}

/// Maximum depth of nested directories.
const DEPTH_MAX: u32 = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    /// A directory with files, in it and below.
    fn tree() -> TempDir {
        let tree = tempfile::tempdir().unwrap();
        fs::create_dir_all(tree.path().join("below/deeper")).unwrap();
        for name in ["file", "kept", "below/deeper/file"] {
            fs::write(tree.path().join(name), "").unwrap();
        }
        tree
    }

    fn path(path: &Path) -> CString {
        CString::new(path.as_os_str().as_bytes()).unwrap()
    }

    #[test]
    fn directory_is_announced_before_it_exists() {
        let parent = tempfile::tempdir().unwrap();
        let mut announced = None;
        let directory = SessionDirectory::create(Some(parent.path()), "kind", |path| {
            assert!(!path.exists());
            announced = Some(path.to_owned());
        });
        let directory = directory.unwrap();
        assert_eq!(announced.as_deref(), Some(directory.path()));
        assert!(directory.path().is_dir());
    }

    #[test]
    fn files_go_and_links_are_not_followed() {
        let directory = tree();
        let directory = directory.path();
        let other = directory.join("link");
        symlink(directory.join("kept"), &other).unwrap();
        let files = ["file", "link", "not-there"].map(|name| path(&directory.join(name)));
        Cleanup { files: files.into(), ..Cleanup::default() }.run();
        assert!(!directory.join("file").exists() && directory.join("kept").exists());
        assert!(other.is_symlink());
    }

    #[test]
    fn tree_goes_without_what_it_links_to() {
        let (tree, outside) = (tree(), tree());
        let (tree, outside) = (tree.path(), outside.path());
        symlink(outside, tree.join("below/out")).unwrap();
        let flat = Cleanup { directories: vec![path(tree)], ..Cleanup::default() };
        flat.run();
        assert!(!tree.join("file").exists() && tree.join("below/deeper/file").exists());
        Cleanup { is_recursive: true, ..flat }.run();
        assert!(!tree.exists());
        assert!(outside.join("below/deeper/file").exists());
    }

    #[test]
    fn excepted_files_stay() {
        let tree = tree();
        let tree = tree.path();
        let cleanup = Cleanup {
            directories: vec![path(tree)],
            is_recursive: true,
            leaves_top: true,
            kept: vec![c"kept".into()],
            ..Cleanup::default()
        };
        cleanup.run();
        let left: Vec<_> =
            fs::read_dir(tree).unwrap().map(|one| one.unwrap().file_name()).collect();
        assert_eq!(left, ["kept"]);
        let up = CString::new([path(tree).as_bytes(), b"/../nothing"].concat()).unwrap();
        assert!(!is_absolute(&up) && !is_absolute(c"file") && is_absolute(c"/a/b"));
    }
}
