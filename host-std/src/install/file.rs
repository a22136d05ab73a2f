//! A file of an installation: its path below the prefix, its content, and how it is put there.

use sha2::{Digest, Sha256};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// A file to install.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InstallFile {
    /// Path below the prefix.
    pub(super) path: PathBuf,
    /// Its content.
    pub(super) content: FileContent,
}

/// Content of a file to install.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FileContent {
    /// A text.
    Text(String),
    /// A copy of a file, with its permission to be executed.
    Copy(PathBuf),
    /// A symbolic link with this target.
    Link(PathBuf),
}

impl InstallFile {
    /// A file with this text.
    pub(super) fn text(path: impl Into<PathBuf>, text: String) -> Self {
        Self { path: path.into(), content: FileContent::Text(text) }
    }

    /// A symbolic link.
    pub(super) fn link(path: impl Into<PathBuf>, target: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), content: FileContent::Link(target.into()) }
    }

    /// Puts the file below `root`, in place of one that is there. A program that runs from the old file is
    /// not disturbed.
    ///
    /// # Errors
    ///
    /// Errors of the system; an old file is unchanged then.
    pub(super) fn write(&self, root: &Path) -> io::Result<()> {
        let path = root.join(&self.path);
        let parent = path.parent().unwrap_or(root);
        fs::create_dir_all(parent)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let fresh = parent.join(format!(".{name}.{}", std::process::id()));
        let written = match &self.content {
            FileContent::Text(text) => {
                fs::write(&fresh, text).and_then(|()| set_mode(&fresh, READABLE))
            }
            FileContent::Copy(from) => fs::metadata(from).and_then(|metadata| {
                fs::copy(from, &fresh)?;
                let is_program = metadata.permissions().mode() & 0o100 != 0;
                set_mode(&fresh, if is_program { EXECUTABLE } else { READABLE })
            }),
            FileContent::Link(target) => symlink(target, &fresh),
        };
        written.and_then(|()| fs::rename(&fresh, &path)).inspect_err(|_| {
            let _ = fs::remove_file(&fresh);
        })
    }

    /// Fingerprint of the content, for the list of installed files.
    ///
    /// # Errors
    ///
    /// The file to copy cannot be read.
    pub(super) fn fingerprint(&self) -> io::Result<String> {
        match &self.content {
            FileContent::Text(text) => Ok(hash(text.as_bytes())),
            FileContent::Copy(from) => fs::read(from).map(|bytes| hash(&bytes)),
            FileContent::Link(target) => Ok(link_fingerprint(target)),
        }
    }
}

/// Fingerprint of what is at `path`; `None` if there is nothing.
///
/// # Errors
///
/// It cannot be read.
pub(super) fn fingerprint_at(path: &Path) -> io::Result<Option<String>> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if found.is_symlink() {
        return fs::read_link(path).map(|target| Some(link_fingerprint(&target)));
    }
    fs::read(path).map(|bytes| Some(hash(&bytes)))
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn link_fingerprint(target: &Path) -> String {
    format!("link:{}", hash(target.as_os_str().as_encoded_bytes()))
}

fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(mode))
}

/// Whatever the umask is: an installation is for all users.
const READABLE: u32 = 0o644;
const EXECUTABLE: u32 = 0o755;
