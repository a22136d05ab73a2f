//! Output files of ranks, one for each or one for several.

use pmi_host_base::user_file;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::{fmt, io};

/// Error: a file cannot be written. The text ends with the remedy.
#[derive(Debug)]
pub(crate) struct FileError {
    /// Its name.
    pub(crate) name: PathBuf,
    /// The error of the system.
    pub(crate) why: io::Error,
}

/// Opens and truncates all of `names`, which are distinct: either all or none.
///
/// # Errors
///
/// [`FileError`]; then no file was created or changed.
pub(crate) fn open_all(names: &[PathBuf]) -> Result<Vec<OwnedFd>, FileError> {
    let (mut files, mut made) = (Vec::with_capacity(names.len()), Vec::new());
    for name in names {
        let is_new = fs::symlink_metadata(name).is_err();
        match open(name) {
            Ok(file) => {
                files.push(file);
                made.extend(is_new.then_some(name));
            }
            Err(why) => {
                // If one cannot be removed, it is empty.
                made.iter().for_each(|name| drop(fs::remove_file(name)));
                return Err(FileError { name: name.clone(), why });
            }
        }
    }
    for (file, name) in files.iter().zip(names) {
        user_file::empty(file).map_err(|why| FileError { name: name.clone(), why })?;
    }
    Ok(files.into_iter().map(OwnedFd::from).collect())
}

/// Creates the directories of files, as far as they do not exist.
pub(crate) fn make_directories(names: &[PathBuf]) -> Result<(), FileError> {
    names.iter().try_for_each(|name| {
        let directory = name.parent().filter(|directory| !directory.as_os_str().is_empty());
        let made = directory.map_or(Ok(()), |directory| {
            user_file::make_directories(directory, Mode::from_raw_mode(0o777))
        });
        made.map_err(|why| FileError { name: name.clone(), why })
    })
}

/// Opens a file that ranks wrote to before, for appending.
pub(crate) fn open_again(name: &Path) -> Result<OwnedFd, FileError> {
    open(name).map(OwnedFd::from).map_err(|why| FileError { name: name.to_owned(), why })
}

/// Opens for appending: another program may write to the same file.
fn open(name: &Path) -> io::Result<File> {
    user_file::open_to_write(name, OFlags::APPEND, Mode::from_raw_mode(0o666)).map(File::from)
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, why } = self;
        write!(f, "output of ranks cannot go to '{}' ({why})", name.display())?;
        let directory = name.parent().filter(|directory| !directory.as_os_str().is_empty());
        match (why.kind(), directory) {
            (io::ErrorKind::NotFound, Some(directory)) => {
                write!(f, "; 'mkdir -p {}' creates the directory", directory.display())
            }
            (io::ErrorKind::IsADirectory, _) => f.write_str("; it is a directory; add a file name"),
            (io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem, _) => {
                f.write_str("; choose a directory where you may write")
            }
            _ if why.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {
                f.write_str("; start the reader of this pipe first")
            }
            _ => f.write_str("; choose another name"),
        }
    }
}

impl std::error::Error for FileError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_emptied_together_or_not_at_all() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let [old, new] = ["old", "new"].map(|name| directory.join(name));
        fs::write(&old, "kept").unwrap();
        let error = open_all(&[new.clone(), old.clone(), directory.join("no/such")]).unwrap_err();
        assert!(error.to_string().contains("no/such' ("), "{error}");
        assert!(error.to_string().contains("mkdir -p"), "{error}");
        assert!(!new.exists());
        assert_eq!(fs::read(&old).unwrap(), b"kept");
        assert_eq!(open_all(&[new, old.clone()]).unwrap().len(), 2);
        assert_eq!(fs::read(&old).unwrap(), b"");
        let error = open_all(&[directory.to_owned()]).unwrap_err();
        assert!(error.to_string().contains("add a file name"), "{error}");
    }

    #[test]
    fn devices_are_left_as_they_are() {
        assert_eq!(open_all(&[PathBuf::from("/dev/null")]).unwrap().len(), 1);
    }
}
