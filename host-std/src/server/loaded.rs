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
        let found = processes::family(pid).take(FAMILY_MAX).find_map(|pid| {
            let maps = system_file::read(format!("/proc/{pid}/maps")).ok()?;
            mpi_library(&maps).map(|path| in_namespace(pid, path))
        });
        found.is_some_and(|path| {
            let is_newer = || library::takes_newer_pmi1(&path);
            *self.inspected.entry(path.clone()).or_insert_with(is_newer)
        })
    }
}

/// The MPI library among the mapped files of a process, if the process has loaded no client library of a
/// process manager.
fn mpi_library(maps: &[u8]) -> Option<&Path> {
    let paths = maps.split(|byte| *byte == b'\n').filter_map(|line| {
        let path =
            Path::new(OsStr::from_bytes(&line[line.iter().position(|byte| *byte == b'/')?..]));
        Some((path, path.file_name()?.to_str()?))
    });
    let mut found = None;
    for (path, name) in paths {
        if library::is_pmi(name) {
            return None;
        }
        if name.starts_with("libmpi") {
            found = found.or(Some(path));
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
    fn mpi_library_is_found_by_its_name() {
        assert_eq!(mpi_library(PYTHON), Some(Path::new("/opt/my libs/libmpi.so.12.3")));
        assert_eq!(mpi_library(b"7f00-7f01 r--p 0 fe:01 13    /usr/lib/libm.so.6\n"), None);
        assert_eq!(mpi_library(b""), None);
    }

    #[test]
    fn client_library_of_a_process_manager_decides_before_an_mpi_library() {
        for name in ["libpmi.so.0", "libpmi2.so"] {
            let line = format!("7f03-7f04 r--p 0 fe:01 14    /usr/lib/{name}\n");
            assert_eq!(mpi_library(&[PYTHON, line.as_bytes()].concat()), None);
            assert_eq!(mpi_library(&[line.as_bytes(), PYTHON].concat()), None);
        }
    }
}
