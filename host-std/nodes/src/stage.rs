//! Programs that the head sends to the hosts of a run: their pieces, and their files on each host.
//!
//! A program goes into a directory of the node, which is removed with the node, or by its guard. Where no
//! program can be executed there (`noexec`), or nothing can be written, it becomes a file in memory.

use pmi_host_base::user_file;
use pmi_host_os::byte_vec;
use pmi_host_os::cleanup::files::SessionDirectory;
use rustix::fs::{
    MemfdFlags, Mode, SealFlags, StatVfsMountFlags, fcntl_add_seals, memfd_create, statvfs,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// A piece of a program, on its way to hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramPiece {
    /// Number of the program in the run.
    number: u32,
    /// Number of its bytes in front of these.
    offset: u64,
    /// The next bytes of its file.
    #[serde(with = "byte_vec")]
    bytes: Vec<u8>,
}

/// Programs of a run that are sent, at the head.
#[derive(Debug, Default)]
pub struct SentPrograms(Vec<SentProgram>);

#[derive(Debug)]
struct SentProgram {
    path: PathBuf,
    /// State of its file: device, number, size, and time of the last change.
    file: [u64; 4],
    /// Its bytes, until they are sent.
    bytes: Option<Vec<u8>>,
    /// Numbers of the nodes that have it.
    nodes: BTreeSet<u32>,
}

/// Programs that have arrived at a node, and their files, which end with this value.
#[derive(Debug, Default)]
pub struct StagedPrograms {
    /// Bytes of programs that have no files, by number.
    arrived: BTreeMap<u32, Vec<u8>>,
    paths: BTreeMap<u32, PathBuf>,
    directory: Option<Rc<SessionDirectory>>,
    files: Vec<File>,
}

impl SentPrograms {
    /// Reads a program, unless it is there already, and returns its number.
    ///
    /// # Errors
    ///
    /// A sentence for the user.
    pub fn add(&mut self, path: &Path) -> Result<u32, String> {
        let cannot = |why: &dyn std::fmt::Display| {
            format!(
                "program '{}' cannot be sent to the hosts: {why}; install it on each host, and leave out \
                 '--stage'",
                path.display()
            )
        };
        let file = fs::metadata(path).map_err(|error| cannot(&error))?;
        let changed = file.mtime().cast_unsigned().wrapping_mul(1_000_000_000);
        let changed = changed.wrapping_add(file.mtime_nsec().cast_unsigned());
        let state = [file.dev(), file.ino(), file.len(), changed];
        let known = self.0.iter().position(|one| one.path == path && one.file == state);
        let at = match known {
            Some(at) => at,
            None => {
                if file.len() > PROGRAM_BYTES_MAX {
                    let limit_mib = PROGRAM_BYTES_MAX >> 20;
                    return Err(cannot(&format_args!(
                        "it has {} MiB, and {limit_mib} MiB are the limit",
                        file.len() >> 20
                    )));
                }
                self.0.push(SentProgram {
                    path: path.to_owned(),
                    file: state,
                    bytes: None,
                    nodes: BTreeSet::new(),
                });
                self.0.len() - 1
            }
        };
        let program = &mut self.0[at];
        if program.bytes.is_none() {
            let bytes = user_file::read_program(path).map_err(|error| cannot(&error))?;
            if bytes.is_empty() {
                return Err(cannot(&"it is empty"));
            }
            program.bytes = Some(bytes);
        }
        Ok(u32::try_from(at).unwrap_or(u32::MAX))
    }

    /// The pieces of the programs that were added since the last call, in the order in which they are sent,
    /// for those of `nodes` that lack them.
    pub fn take_pieces(&mut self, nodes: &[u32]) -> Vec<(Vec<u32>, Vec<ProgramPiece>)> {
        let mut all = Vec::new();
        for (number, program) in (0_u32..).zip(&mut self.0) {
            let Some(bytes) = program.bytes.take() else { continue };
            let lacking: Vec<u32> =
                nodes.iter().copied().filter(|node| program.nodes.insert(*node)).collect();
            let chunks = bytes.chunks(PIECE_BYTES).scan(0, |offset, bytes| {
                let piece = ProgramPiece { number, offset: *offset, bytes: bytes.to_vec() };
                *offset += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
                Some(piece)
            });
            if !lacking.is_empty() {
                all.push((lacking, chunks.collect()));
            }
        }
        all
    }
}

impl StagedPrograms {
    /// Adds a piece.
    ///
    /// # Errors
    ///
    /// A part of a sentence; the head sent something else than pieces in their order.
    pub fn add(&mut self, piece: ProgramPiece) -> Result<(), &'static str> {
        let ProgramPiece { number, offset, bytes } = piece;
        let program = self.arrived.entry(number).or_default();
        if offset == 0 {
            program.clear();
        }
        if u64::try_from(program.len()) != Ok(offset) {
            return Err("a piece of a program is missing");
        }
        program.extend(bytes);
        Ok(())
    }

    /// Drops the programs that have arrived and have no files.
    pub fn drop_arrived(&mut self) {
        self.arrived = BTreeMap::new();
    }

    /// Makes a file of each program that is `named` and has none, below `parent`, the directory for temporary
    /// files, and hands its path to `set_path`.
    ///
    /// # Errors
    ///
    /// A sentence for the user.
    pub fn stage<'a, T: 'a>(
        &mut self,
        named: impl Iterator<Item = (&'a mut T, u32, OsString)>,
        (parent, set_path): (Option<&Path>, impl Fn(&mut T, PathBuf)),
    ) -> Result<(), String> {
        for (target, number, name) in named {
            let name = Path::new(&name).file_name().unwrap_or(OsStr::new("program")).to_owned();
            let path = match (self.paths.get(&number), self.arrived.remove(&number)) {
                (Some(path), _) => path.clone(),
                (None, None) => {
                    return Err("the head has not sent all programs of the job".to_owned());
                }
                (None, Some(bytes)) => {
                    let written = self.write(&name, (&bytes, number), parent);
                    let path = written.map_err(|error| {
                        format!(
                            "program '{}' cannot be stored on this host: {error}; name a directory with room \
                             for it by '--tmpdir'",
                            name.display()
                        )
                    })?;
                    self.paths.insert(number, path.clone());
                    path
                }
            };
            set_path(target, path);
        }
        Ok(())
    }

    /// Directory that ends with this value.
    pub fn directory(&self) -> Option<&Path> {
        self.directory.as_ref().map(|own| own.path())
    }

    fn write(
        &mut self,
        name: &OsStr,
        (bytes, number): (&[u8], u32),
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
        (bytes, number): (&[u8], u32),
        parent: Option<&Path>,
    ) -> io::Result<PathBuf> {
        let directory = match &self.directory {
            Some(directory) => Rc::clone(directory),
            None => {
                let own = Rc::new(SessionDirectory::create(parent, DIRECTORY, |_| {})?);
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
        let mut file = user_file::create_new(&path, Mode::RWXU)?;
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

/// Longest program: head and nodes hold it in memory while it is sent.
const PROGRAM_BYTES_MAX: u64 = 512 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::NamedTempFile;

    /// Programs that have arrived, by `sent`.
    fn arrived(sent: &mut SentPrograms, node: u32) -> StagedPrograms {
        let mut arrived = StagedPrograms::default();
        for (nodes, pieces) in sent.take_pieces(&[node]) {
            assert_eq!(nodes, [node]);
            pieces.into_iter().for_each(|piece| arrived.add(piece).unwrap());
        }
        arrived
    }

    fn stage(
        staged: &mut StagedPrograms,
        named: &[(u32, &str)],
        parent: &Path,
    ) -> Result<Vec<PathBuf>, String> {
        let mut paths = vec![PathBuf::new(); named.len()];
        let all = paths.iter_mut().zip(named);
        let all = all.map(|(path, (number, name))| (path, *number, OsString::from(name)));
        staged.stage(all, (Some(parent), |to, path| *to = path))?;
        Ok(paths)
    }

    /// Programs with these contents.
    fn sent(programs: &[&[u8]]) -> SentPrograms {
        let mut sent = SentPrograms::default();
        for (number, content) in (0..).zip(programs) {
            let file = NamedTempFile::new().unwrap();
            fs::write(&file, content).unwrap();
            assert_eq!([(); 2].map(|()| sent.add(file.path())), [Ok(number), Ok(number)]);
        }
        sent
    }

    fn scripts() -> StagedPrograms {
        arrived(&mut sent(&[b"#!/bin/sh\necho one", b"#!/bin/sh\necho two"]), 1)
    }

    fn output(path: &Path) -> Vec<u8> {
        loop {
            match std::process::Command::new(path).output() {
                // A process that another test is just starting has it open for writing.
                Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => {}
                output => return output.unwrap().stdout,
            }
        }
    }

    #[test]
    fn pieces_are_put_together_in_their_order_only() {
        let long = vec![7; 2 * PIECE_BYTES + 1];
        let arrived = arrived(&mut sent(&[&long, b"short"]), 1);
        assert_eq!(arrived.arrived, BTreeMap::from([(0, long), (1, b"short".to_vec())]));
        let piece = |offset| ProgramPiece { number: 0, offset, bytes: vec![0; 2] };
        let mut arrived = StagedPrograms::default();
        assert!(arrived.add(piece(2)).is_err());
        arrived.add(piece(0)).unwrap();
        assert!(arrived.add(piece(1)).is_err() && arrived.add(piece(u64::MAX)).is_err());
        arrived.add(piece(2)).unwrap();
        assert_eq!(arrived.arrived[&0].len(), 4);
        arrived.drop_arrived();
        let parent = tempfile::tempdir().unwrap();
        assert!(stage(&mut arrived, &[(0, "prog")], parent.path()).is_err());
    }

    #[test]
    fn program_is_sent_once_to_each_node_unless_its_file_has_changed() {
        let file = NamedTempFile::new().unwrap();
        fs::write(&file, "one").unwrap();
        let mut sent = SentPrograms::default();
        let mut to = |nodes: &[u32]| {
            let number = sent.add(file.path()).unwrap();
            let of = |(nodes, pieces): (Vec<u32>, Vec<ProgramPiece>)| (nodes, pieces[0].number);
            (number, sent.take_pieces(nodes).into_iter().map(of).collect::<Vec<_>>())
        };
        assert_eq!(to(&[1, 2]), (0, vec![(vec![1, 2], 0)]));
        assert_eq!(to(&[2, 3]), (0, vec![(vec![3], 0)]));
        assert_eq!(to(&[1, 3]), (0, vec![]));
        fs::write(&file, "longer").unwrap();
        assert_eq!(to(&[1]), (1, vec![(vec![1], 1)]));
    }

    #[test]
    fn programs_run_from_a_directory_that_ends_with_them() {
        let named = [(0, "a/prog"), (1, "b/prog"), (0, "a/prog")];
        let (parent, mut staged) = (tempfile::tempdir().unwrap(), scripts());
        let paths = stage(&mut staged, &named, parent.path()).unwrap();
        assert_eq!(paths[0], paths[2]);
        assert!(paths.iter().all(|path| path.ends_with("prog")), "{paths:?}");
        assert_eq!([output(&paths[0]), output(&paths[1])], [b"one\n", b"two\n"]);
        // A later job has them as well.
        assert_eq!(stage(&mut staged, &named[1..2], parent.path()).unwrap(), paths[1..2]);
        let directory = staged.directory().unwrap().to_owned();
        assert!(paths[0].starts_with(&directory));
        drop(staged);
        assert!(!directory.exists());
    }

    #[test]
    fn programs_run_from_memory_where_no_file_can_be_made() {
        let (missing, mut staged) = (Path::new("/proc/no-directory"), scripts());
        let paths = stage(&mut staged, &[(1, "prog")], missing).unwrap();
        assert_eq!(staged.directory(), None);
        assert_eq!(output(&paths[0]), b"two\n");
        let is_in_memory = |path: &Path| {
            fs::read_link(path).is_ok_and(|file| file.to_string_lossy().starts_with("/memfd:"))
        };
        assert!(is_in_memory(&paths[0]), "{paths:?}");
        drop(staged);
        // Another test may have opened a file under the number.
        assert!(!is_in_memory(&paths[0]), "{paths:?}");
    }

    #[test]
    fn missing_and_long_programs_are_refused() {
        let parent = tempfile::tempdir().unwrap();
        let why = stage(&mut scripts(), &[(2, "prog")], parent.path()).unwrap_err();
        assert!(why.contains("has not sent all programs"), "{why}");
        let mut sent = SentPrograms::default();
        let why = sent.add(Path::new("/proc/no-program")).unwrap_err();
        assert!(why.contains("'--stage'") && why.contains("/proc/no-program"), "{why}");
        let file = NamedTempFile::new().unwrap();
        assert!(sent.add(file.path()).unwrap_err().contains("it is empty"));
        file.as_file().set_len(PROGRAM_BYTES_MAX + 1).unwrap();
        let why = sent.add(file.path()).unwrap_err();
        assert!(why.contains("it has 512 MiB, and 512 MiB are the limit"), "{why}");
    }
}
