//! Programs that the head sends to the hosts of a run: their pieces, and their files on each host.
//!
//! A program goes into a directory of the agent, which is removed with the agent, or by its guard. Where no
//! program can be executed there (`noexec`), or nothing can be written, it becomes a file in memory.

use crate::byte_vec;
use crate::launch::session_directory::SessionDirectory;
use rustix::fs::{
    MemfdFlags, SealFlags, StatVfsMountFlags, fcntl_add_seals, memfd_create, statvfs,
};
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// A piece of a program, on its way to all hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProgramPiece {
    /// Number of the program among those that are sent. Its pieces follow each other.
    number: u32,
    /// The next bytes of its file.
    #[serde(with = "byte_vec")]
    bytes: Vec<u8>,
}

/// Programs to send, at the head.
#[derive(Debug, Default)]
pub(crate) struct SentPrograms(Vec<(PathBuf, Vec<u8>)>);

/// Programs that have arrived at an agent.
#[derive(Debug, Default)]
pub(crate) struct ArrivedPrograms(Vec<Vec<u8>>);

/// Files of programs, which end with this value.
#[derive(Debug, Default)]
pub(crate) struct StagedPrograms {
    directory: Option<Rc<SessionDirectory>>,
    files: Vec<File>,
}

impl SentPrograms {
    /// Reads a program, unless it is there already, and returns its number.
    ///
    /// # Errors
    ///
    /// A sentence for the user.
    pub(crate) fn add(&mut self, path: &Path) -> Result<u32, String> {
        let known = self.0.iter().position(|(other, _)| other == path);
        let at = match known {
            Some(at) => at,
            None => {
                let cannot = |why: &dyn std::fmt::Display| {
                    format!(
                        "program '{}' cannot be sent to the hosts: {why}; install it on each host, and \
                         leave out '--stage'",
                        path.display()
                    )
                };
                let file = File::open(path).map_err(|error| cannot(&error))?;
                let len_bytes = file.metadata().map_err(|error| cannot(&error))?.len();
                if len_bytes > PROGRAM_BYTES_MAX {
                    let limit_mib = PROGRAM_BYTES_MAX >> 20;
                    return Err(cannot(&format_args!(
                        "it has {} MiB, and {limit_mib} MiB are the limit",
                        len_bytes >> 20
                    )));
                }
                let bytes = fs::read(path).map_err(|error| cannot(&error))?;
                if bytes.is_empty() {
                    return Err(cannot(&"it is empty"));
                }
                self.0.push((path.to_owned(), bytes));
                self.0.len() - 1
            }
        };
        Ok(u32::try_from(at).unwrap_or(u32::MAX))
    }

    /// The pieces of all programs, in the order in which they are sent.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = ProgramPiece> {
        (0_u32..).zip(&self.0).flat_map(|(number, (_, bytes))| {
            let piece = move |bytes: &[u8]| ProgramPiece { number, bytes: bytes.to_vec() };
            bytes.chunks(PIECE_BYTES).map(piece)
        })
    }
}

impl ArrivedPrograms {
    /// Adds a piece.
    ///
    /// # Errors
    ///
    /// A part of a sentence; the head sent something else than pieces in their order.
    pub(crate) fn add(&mut self, piece: ProgramPiece) -> Result<(), &'static str> {
        let at = usize::try_from(piece.number).unwrap_or(usize::MAX);
        if at == self.0.len() {
            self.0.push(Vec::new());
        }
        let is_last = at.checked_add(1) == Some(self.0.len());
        match self.0.get_mut(at).filter(|_| is_last) {
            Some(program) => program.extend(piece.bytes),
            None => return Err("a piece of a program is missing"),
        }
        Ok(())
    }

    /// Makes a file of each program that is `named`, below `parent`, the directory for temporary files, and
    /// hands its path to `set_path`.
    ///
    /// # Errors
    ///
    /// A sentence for the user.
    pub(crate) fn stage<'a, T: 'a>(
        &self,
        named: impl Iterator<Item = (&'a mut T, u32, OsString)>,
        (parent, set_path): (Option<&Path>, impl Fn(&mut T, PathBuf)),
    ) -> Result<StagedPrograms, String> {
        let mut staged = StagedPrograms::default();
        let mut paths: Vec<Option<PathBuf>> = vec![None; self.0.len()];
        for (target, number, name) in named {
            let at = usize::try_from(number).unwrap_or(usize::MAX);
            let both = self.0.get(at).zip(paths.get_mut(at));
            let (bytes, path) = both.ok_or("the head has not sent all programs of the job")?;
            let name = Path::new(&name).file_name().unwrap_or(OsStr::new("program")).to_owned();
            let path = match path {
                Some(path) => path.clone(),
                None => path
                    .insert(staged.write(&name, (bytes, at), parent).map_err(|error| {
                        format!(
                            "program '{}' cannot be stored on this host: {error}; name a directory with room \
                             for it by '--tmpdir'",
                            name.display()
                        )
                    })?)
                    .clone(),
            };
            set_path(target, path);
        }
        Ok(staged)
    }
}

impl StagedPrograms {
    /// Directory that ends with this value.
    pub(crate) fn directory(&self) -> Option<&Path> {
        self.directory.as_ref().map(|own| own.path())
    }

    fn write(
        &mut self,
        name: &OsStr,
        (bytes, number): (&[u8], usize),
        parent: Option<&Path>,
    ) -> io::Result<PathBuf> {
        match self.write_on_disk(name, (bytes, number), parent) {
            Ok(path) => Ok(path),
            Err(_) => self.write_in_memory(name, bytes),
        }
    }

    fn write_on_disk(
        &mut self,
        name: &OsStr,
        (bytes, number): (&[u8], usize),
        parent: Option<&Path>,
    ) -> io::Result<PathBuf> {
        let directory = match &self.directory {
            Some(directory) => Rc::clone(directory),
            None => {
                let own = Rc::new(SessionDirectory::create(parent, DIRECTORY)?);
                Rc::clone(self.directory.insert(own))
            }
        };
        if statvfs(directory.path())?.f_flag.contains(StatVfsMountFlags::NOEXEC) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        // Programs of different directories may have one name, which a program may print or depend on.
        let place = directory.path().join(number.to_string());
        fs::create_dir(&place)?;
        let path = place.join(name);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o700).open(&path)?;
        file.write_all(bytes)?;
        Ok(path)
    }

    fn write_in_memory(&mut self, name: &OsStr, bytes: &[u8]) -> io::Result<PathBuf> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let mut file = File::from(memfd_create(name, flags)?);
        file.write_all(bytes)?;
        let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
        fcntl_add_seals(&file, seals)?;
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        self.files.push(file);
        Ok(path.into())
    }
}

/// Kind of the directory, in its name.
const DIRECTORY: &str = "programs";

/// Longest piece of a program. A message of the tree has up to 16 MiB.
const PIECE_BYTES: usize = 1 << 20;

/// Longest program: head and agents hold it in memory while it is sent.
const PROGRAM_BYTES_MAX: u64 = 512 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn arrived(programs: &[&[u8]]) -> ArrivedPrograms {
        let sent = programs.iter().map(|bytes| (PathBuf::new(), bytes.to_vec())).collect();
        let mut arrived = ArrivedPrograms::default();
        SentPrograms(sent).pieces().for_each(|piece| arrived.add(piece).unwrap());
        arrived
    }

    fn stage(
        programs: &ArrivedPrograms,
        named: &[(u32, &str)],
        parent: &Path,
    ) -> Result<(Vec<PathBuf>, StagedPrograms), String> {
        let mut paths = vec![PathBuf::new(); named.len()];
        let all = paths.iter_mut().zip(named);
        let all = all.map(|(path, (number, name))| (path, *number, OsString::from(name)));
        let staged = programs.stage(all, (Some(parent), |to, path| *to = path))?;
        Ok((paths, staged))
    }

    fn scripts() -> ArrivedPrograms {
        arrived(&[b"#!/bin/sh\necho one", b"#!/bin/sh\necho two"])
    }

    fn output(path: &Path) -> Vec<u8> {
        std::process::Command::new(path).output().unwrap().stdout
    }

    #[test]
    fn pieces_are_put_together_in_their_order_only() {
        let long = vec![7; 2 * PIECE_BYTES + 1];
        assert_eq!(arrived(&[&long, b"short"]).0, [long, b"short".to_vec()]);
        let piece = |number| ProgramPiece { number, bytes: Vec::new() };
        let mut arrived = ArrivedPrograms::default();
        assert!(arrived.add(piece(1)).is_err() && arrived.add(piece(u32::MAX)).is_err());
        arrived.add(piece(0)).unwrap();
        arrived.add(piece(1)).unwrap();
        assert!(arrived.add(piece(0)).is_err());
    }

    #[test]
    fn programs_run_from_a_directory_that_ends_with_them() {
        let named = [(0, "a/prog"), (1, "b/prog"), (0, "a/prog")];
        let (paths, staged) = stage(&scripts(), &named, &std::env::temp_dir()).unwrap();
        assert_eq!(paths[0], paths[2]);
        assert!(paths.iter().all(|path| path.ends_with("prog")), "{paths:?}");
        assert_eq!([output(&paths[0]), output(&paths[1])], [b"one\n", b"two\n"]);
        let directory = staged.directory().unwrap().to_owned();
        assert!(paths[0].starts_with(&directory));
        drop(staged);
        assert!(!directory.exists());
    }

    #[test]
    fn programs_run_from_memory_where_no_file_can_be_made() {
        let missing = Path::new("/proc/no-directory");
        let (paths, staged) = stage(&scripts(), &[(1, "prog")], missing).unwrap();
        assert_eq!(staged.directory(), None);
        assert_eq!(output(&paths[0]), b"two\n");
        drop(staged);
        assert!(!paths[0].exists());
    }

    #[test]
    fn missing_and_long_programs_are_refused() {
        let why = stage(&scripts(), &[(2, "prog")], &std::env::temp_dir()).unwrap_err();
        assert!(why.contains("has not sent all programs"), "{why}");
        let mut sent = SentPrograms::default();
        let why = sent.add(Path::new("/proc/no-program")).unwrap_err();
        assert!(why.contains("'--stage'") && why.contains("/proc/no-program"), "{why}");
        let path = std::env::temp_dir().join(format!("pmi-stage-{}", std::process::id()));
        let file = File::create(&path).unwrap();
        assert!(sent.add(&path).unwrap_err().contains("it is empty"));
        file.set_len(PROGRAM_BYTES_MAX + 1).unwrap();
        let why = sent.add(&path);
        fs::remove_file(&path).unwrap();
        assert!(why.unwrap_err().contains("it has 512 MiB, and 512 MiB are the limit"));
    }
}
