//! List of installed files, which stays with the installation: an upgrade and a removal touch these files
//! only, and only while they are as they were installed.

use super::file::fingerprint_at;
use pmi_host_base::user_file;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Installed files with the fingerprints of their contents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Manifest(pub(super) BTreeMap<PathBuf, String>);

impl Manifest {
    /// Reads the list of the installation below `root`; `None` if there is none.
    ///
    /// # Errors
    ///
    /// The list cannot be read, or has a line that is none of its form.
    pub(super) fn read(root: &Path) -> io::Result<Option<Self>> {
        let text = match user_file::read_to_string(&root.join(PATH)) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let invalid = || io::Error::new(io::ErrorKind::InvalidData, "it is no list of files");
        let mut files = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (fingerprint, path) = line.split_once("  ").ok_or_else(invalid)?;
            let path = PathBuf::from(path);
            // A path that leaves the prefix would let an edited list remove any file.
            if !path.components().all(|part| matches!(part, std::path::Component::Normal(_))) {
                return Err(invalid());
            }
            files.insert(path, fingerprint.to_owned());
        }
        Ok(Some(Self(files)))
    }

    /// The list as a text.
    pub(super) fn text(&self) -> String {
        let version = env!("CARGO_PKG_VERSION");
        let mut text = format!("# pmi-host {version}: installed files, each with its SHA-256\n");
        for (path, fingerprint) in &self.0 {
            text.push_str(&format!("{fingerprint}  {}\n", path.display()));
        }
        text
    }

    /// True if the file at `path` below `root` is as it was installed.
    pub(super) fn is_unchanged(&self, root: &Path, path: &Path) -> io::Result<bool> {
        let found = fingerprint_at(&root.join(path))?;
        Ok(found.is_some() && found.as_ref() == self.0.get(path))
    }
}

/// Removes a file, and then the directories above it that are empty, up to `root`.
pub(super) fn remove(root: &Path, path: &Path) -> io::Result<()> {
    match fs::remove_file(root.join(path)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let above = path.ancestors().skip(1).take_while(|above| *above != Path::new(""));
    for directory in above {
        // It is used by others as well, or by files that are left.
        if fs::remove_dir(root.join(directory)).is_err() {
            break;
        }
    }
    Ok(())
}

/// Path of the list below the prefix.
pub(super) const PATH: &str = "share/pmi-host/installed-files";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_is_read_as_it_was_written_and_never_leads_outside() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        assert_eq!(Manifest::read(root).unwrap(), None);
        fs::create_dir_all(root.join("share/pmi-host")).unwrap();
        let files = [("bin/pmi-host", "ab"), ("share/man/man1/a b.1", "cd")];
        let files = files.map(|(path, hash)| (PathBuf::from(path), hash.to_owned()));
        let manifest = Manifest(files.into());
        fs::write(root.join(PATH), manifest.text()).unwrap();
        assert_eq!(Manifest::read(root).unwrap(), Some(manifest));
        for bad in ["ab  ../../etc/passwd\n", "ab  /etc/passwd\n", "one word\n"] {
            fs::write(root.join(PATH), bad).unwrap();
            assert!(Manifest::read(root).is_err(), "{bad}");
        }
    }
}
