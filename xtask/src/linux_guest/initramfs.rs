//! The first root file system of a guest, as an archive that kernels unpack: `newc` of cpio.
//!
//! Spec: `Documentation/driver-api/early-userspace/buffer-format.rst` of Linux.

use crate::{dist, process};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// An archive that is written file by file. The same files give the same bytes.
pub(crate) struct Initramfs {
    bytes: Vec<u8>,
    /// Directories and libraries that it has.
    paths: BTreeSet<String>,
    entries: u32,
}

/// What the system knows of a file besides its name.
struct Metadata {
    /// Type and permissions.
    mode: u32,
    /// Major and minor number of a device.
    device: [u32; 2],
}

impl Initramfs {
    /// An archive with the console alone, on which process 1 prints.
    pub(crate) fn new() -> Self {
        let mut archive = Self { bytes: Vec::new(), paths: BTreeSet::new(), entries: 0 };
        archive.directory("dev");
        archive.entry("dev/console", &Metadata { mode: 0o020_600, device: [5, 1] }, &[]);
        archive
    }

    /// Adds a file, and the directories above it. Its path has no slash in front.
    pub(crate) fn file(&mut self, path: &str, permissions: u32, contents: &[u8]) {
        for (at, _) in path.match_indices('/') {
            self.directory(&path[..at]);
        }
        let mode = 0o100_000 | permissions;
        self.entry(path, &Metadata { mode, device: [0, 0] }, contents);
    }

    /// Adds the contents of a file of this machine.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub(crate) fn copy(&mut self, path: &str, file: &Path) -> Result<(), String> {
        let contents = fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
        self.file(path, 0o755, &contents);
        Ok(())
    }

    /// Adds a program without its symbols, and the libraries that it needs.
    ///
    /// # Errors
    ///
    /// A file cannot be read.
    pub(crate) fn program(&mut self, path: &str, program: &Path) -> Result<(), String> {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let stripped = directory.path().join("program");
        process::output(process::command("strip").arg("-o").arg(&stripped).arg(program))?;
        self.copy(path, &stripped)?;
        for library in dist::libraries(program) {
            let path = library.trim_start_matches('/');
            if self.paths.insert(path.to_owned()) {
                self.copy(path, Path::new(&library))?;
            }
        }
        Ok(())
    }

    /// The whole archive.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", &Metadata { mode: 0, device: [0, 0] }, &[]);
        self.bytes
    }

    fn directory(&mut self, path: &str) {
        if self.paths.insert(path.to_owned()) {
            self.entry(path, &Metadata { mode: 0o040_755, device: [0, 0] }, &[]);
        }
    }

    fn entry(&mut self, path: &str, metadata: &Metadata, contents: &[u8]) {
        self.entries += 1;
        let [size, name_size] =
            [contents.len(), path.len() + 1].map(|len| u32::try_from(len).unwrap_or(u32::MAX));
        let [major, minor] = metadata.device;
        let (owner, group, links, time, check) = (0, 0, 1, 0, 0);
        let fields = [
            self.entries,
            metadata.mode,
            owner,
            group,
            links,
            time,
            size,
            0,
            0,
            major,
            minor,
            name_size,
            check,
        ];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08X}").bytes());
        }
        self.bytes.extend(path.bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend(contents);
        self.pad();
    }

    /// Names and contents end at a multiple of four bytes.
    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archive_has_each_directory_once_and_files_behind_it() {
        let mut archive = Initramfs::new();
        archive.file("a/b/one", 0o644, b"1");
        archive.file("a/b/two", 0o755, b"22222");
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 4, 0);
        let (mut names, mut at) = (Vec::new(), 0);
        while at < bytes.len() {
            let field = |number: usize| {
                let from = at + 6 + 8 * number;
                let digits = std::str::from_utf8(&bytes[from..from + 8]).unwrap();
                usize::from_str_radix(digits, 16).unwrap()
            };
            assert_eq!(&bytes[at..at + 6], b"070701");
            let (size, name_size, mode) = (field(6), field(11), field(1));
            let name = &bytes[at + 110..at + 110 + name_size - 1];
            names.push(format!("{} {mode:o} {size}", String::from_utf8_lossy(name)));
            at = (at + 110 + name_size).next_multiple_of(4);
            at = (at + size).next_multiple_of(4);
        }
        let expected = [
            "dev 40755 0",
            "dev/console 20600 0",
            "a 40755 0",
            "a/b 40755 0",
            "a/b/one 100644 1",
            "a/b/two 100755 5",
            "TRAILER!!! 0 0",
        ];
        assert_eq!(names, expected);
    }
}
