//! A file of an installation: its path below the prefix, its content, and how it is put there.

use pmi_host_base::user_file;
use rustix::fs::Mode;
use sha2::{Digest, Sha256};
use std::fs::{self, Permissions};
use std::io::{self, Write};
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
        user_file::make_directories(parent, Mode::from_raw_mode(0o777))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let fresh = parent.join(format!(".{name}.{}", std::process::id()));
        let written = match &self.content {
            FileContent::Text(text) => {
                fill(&fresh, text.as_bytes()).and_then(|()| set_mode(&fresh, READABLE))
            }
            FileContent::Copy(from) => fs::metadata(from).and_then(|metadata| {
                fill(&fresh, &user_file::read_program(from)?)?;
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
            FileContent::Copy(from) => user_file::read_program(from).map(|bytes| hash(&bytes)),
            FileContent::Link(target) => Ok(link_fingerprint(target)),
        }
    }
}

/// Fingerprint of what is at `path`; `None` if there is nothing.
pub(super) fn fingerprint_at(path: &Path) -> io::Result<Option<String>> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if found.is_symlink() {
        return fs::read_link(path).map(|target| Some(link_fingerprint(&target)));
    }
    user_file::read_program(path).map(|bytes| Some(hash(&bytes)))
}

/// Creates a file with these bytes, in place of one that a process with the same number has left.
fn fill(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let _ = fs::remove_file(path);
    user_file::create_new(path, Mode::RUSR | Mode::WUSR)?.write_all(bytes)
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
