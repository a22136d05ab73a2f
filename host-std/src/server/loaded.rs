//! MPI libraries that ranks have loaded while they run, as Python does. The executable does not show them,
//! and the answer to `init` depends on them.

use pmi_core::ids::JobId;
use pmi_host_base::library;
use pmi_host_base::system_file;
use pmi_host_os::processes;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Libraries that were inspected.
#[derive(Debug, Default)]
pub(super) struct LoadedLibraries {
    /// True for those with a client of PMI-1 that takes a newer version than it requests.
    inspected: BTreeMap<PathBuf, bool>,
    /// By job; what the first rank to connect has loaded. MPICH's ranks have to agree on the version.
    by_job: BTreeMap<u32, bool>,
}

impl LoadedLibraries {
    /// True if a rank's process, or one that it has started, has loaded MPICH's own client of PMI-1, which
    /// takes a newer version than it requests. False if that is unknown. The first answer for a job holds
    /// for all of its ranks.
    pub(super) fn takes_newer_pmi1(&mut self, job: JobId, pid: i32) -> bool {
        if let Some(known) = self.by_job.get(&job.0) {
            return *known;
        }
        let is_newer = self.has_newer_pmi1(pid);
        self.by_job.insert(job.0, is_newer);
        is_newer
    }

    /// Removes a job; its number may be used again.
    pub(super) fn forget(&mut self, job: JobId) {
        self.by_job.remove(&job.0);
    }

    fn has_newer_pmi1(&mut self, pid: i32) -> bool {
        let mut family = processes::family(pid).take(FAMILY_MAX);
        let found = family.find_map(|pid| {
            let maps = system_file::read(format!("/proc/{pid}/maps")).ok()?;
            let libraries = mpi_libraries(&maps);
            let paths = libraries.into_iter().map(|path| in_namespace(pid, path));
            Some(paths.collect::<Vec<PathBuf>>()).filter(|paths| !paths.is_empty())
        });
        // One of them may be around another one.
        found.into_iter().flatten().any(|path| {
            let is_newer = || library::takes_newer_pmi1(&path);
            *self.inspected.entry(path.clone()).or_insert_with(is_newer)
        })
    }
}

/// MPI libraries among the mapped files of a process; none if the process has loaded a client library of a
/// process manager.
fn mpi_libraries(maps: &[u8]) -> Vec<&Path> {
    let paths = maps.split(|byte| *byte == b'\n').filter_map(|line| {
        let path =
            Path::new(OsStr::from_bytes(&line[line.iter().position(|byte| *byte == b'/')?..]));
        Some((path, path.file_name()?.to_str()?))
    });
    let mut found = Vec::new();
    for (path, name) in paths {
        if library::is_pmi(name) {
            return Vec::new();
        }
        // A file is mapped in several parts.
        if library::is_mpi(name) && found.last() != Some(&path) {
            found.push(path);
        }
    }
    found
}

/// A file of a process, which may see other file systems than the launcher.
fn in_namespace(pid: i32, path: &Path) -> PathBuf {
    let seen = Path::new("/proc").join(pid.to_string()).join("root");
    let same = fs::read_link(&seen).is_ok_and(|root| root == Path::new("/")) && path.exists();
    match (same, path.strip_prefix("/")) {
        (false, Ok(inner)) => seen.join(inner),
        _ => path.to_owned(),
    }
}

/// More processes than wrappers of a rank have.
const FAMILY_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const PYTHON: &[u8] = b"55e0-55e1 r--p 0 fe:01 12    /usr/bin/python3.11\n\
        7f00-7f01 r--p 0 fe:01 13    /opt/my libs/libmpi.so.12.3\n\
        7f01-7f02 rw-p 0 00:00 0 \n\
        7f02-7f03 rw-p 0 00:00 0     [stack]\n";

    #[test]
    fn mpi_libraries_are_found_by_their_names() {
        let mpi = Path::new("/opt/my libs/libmpi.so.12.3");
        assert_eq!(mpi_libraries(PYTHON), [mpi]);
        let others = b"7f03-7f04 r--p 0 fe:01 14    /opt/libmpifort.so.12\n\
            7f05-7f06 r--p 0 fe:01 15    /opt/libmpi_abi.so.1\n\
            7f06-7f07 r-xp 0 fe:01 15    /opt/libmpi_abi.so.1\n";
        let all = [PYTHON, others].concat();
        assert_eq!(mpi_libraries(&all), [mpi, Path::new("/opt/libmpi_abi.so.1")]);
        let none: [&Path; 0] = [];
        assert_eq!(mpi_libraries(b"7f00-7f01 r--p 0 fe:01 13    /usr/lib/libm.so.6\n"), none);
        assert_eq!(mpi_libraries(b""), none);
    }

    #[test]
    fn client_library_of_a_process_manager_decides_before_an_mpi_library() {
        let none: [&Path; 0] = [];
        for name in ["libpmi.so.0", "libpmi2.so"] {
            let line = format!("7f03-7f04 r--p 0 fe:01 14    /usr/lib/{name}\n");
            assert_eq!(mpi_libraries(&[PYTHON, line.as_bytes()].concat()), none);
            assert_eq!(mpi_libraries(&[line.as_bytes(), PYTHON].concat()), none);
        }
    }
}
