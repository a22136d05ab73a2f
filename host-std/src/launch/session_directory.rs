//! Directories of this launcher among temporary files: that of ranks that speak PMIx, and that of programs
//! that were sent to this host.
//!
//! Without the first, libraries of Open MPI create directories with predictable names in the directory for
//! temporary files, which stay there after the run.

use super::cleanup::Cleanup;
use crate::runtime_dir;
use rustix::fs::{Mode, mkdir};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{env, io};

/// A directory of this launcher, which is removed with everything in it when it is dropped.
#[derive(Debug)]
pub(crate) struct SessionDirectory {
    path: PathBuf,
}

impl SessionDirectory {
    /// Creates a directory that only this user may enter, in `parent`, else in the directory for temporary
    /// files. Its name ends with `kind`.
    ///
    /// # Errors
    ///
    /// Errors of the system.
    pub(crate) fn create(parent: Option<&Path>, kind: &str) -> io::Result<Self> {
        // The time in it keeps the name from other users, who may create files in the same directory.
        let name = format!("pmi-host-{}", runtime_dir::name(std::process::id()));
        let path = std::path::absolute(parent.map_or_else(env::temp_dir, Path::to_owned))?
            .join(name)
            .with_extension(kind);
        mkdir(&path, Mode::RWXU)?;
        Ok(Self { path })
    }

    /// Its absolute path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SessionDirectory {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Removes a directory of this user with everything in it, as far as possible.
pub(crate) fn remove(path: &Path) {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return };
    Cleanup { directories: vec![path], is_recursive: true, ..Cleanup::default() }.run();
}
