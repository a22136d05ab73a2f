//! MPI processes that cannot find their launcher, since a program between removed its variables.
//!
//! Each of them is rank 0 of 1 after `MPI_Init`. They are recognised while they run, by the environment
//! that they were started with, the libraries that they have loaded, and what `MPI_Init` leaves open.

use super::processes;
use super::protocol_offer::ProtocolOffer;
use pmi_host_base::library::{self, Family};
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// An MPI process without a launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MpiSingleton {
    /// Its command line up to the first blank.
    pub(crate) program: OsString,
    /// File name of its MPI library.
    pub(crate) library: String,
    pub(crate) family: Family,
    /// Variable that it lacks.
    pub(crate) variable: &'static str,
}

/// The first process among `pid` and its descendants that has called `MPI_Init` without the variables of
/// `offer`.
///
/// Reads two files of each process of the user's, and its descriptors where these two raise the suspicion.
pub(crate) fn below(pid: i32, offer: ProtocolOffer) -> Option<MpiSingleton> {
    processes::family(pid).take(PROCESSES_MAX).find_map(|pid| of(pid, offer))
}

fn of(pid: i32, offer: ProtocolOffer) -> Option<MpiSingleton> {
    let read = |name: &str| fs::read(format!("/proc/{pid}/{name}")).ok();
    let environment = read("environ").filter(|text| !has_all(text, offer))?;
    // Empty for a process that has exited.
    let maps = read("maps")?;
    let (library, family) = mpi_library(&maps)?;
    let variables = variables(family, offer);
    if variables.iter().any(|name| has_variable(&environment, name)) || !is_connected(pid) {
        return None;
    }
    let words = read("cmdline")?;
    let program = words.split(|byte| *byte == 0).next().unwrap_or_default().to_vec();
    let variable = variables.first()?;
    Some(MpiSingleton { program: OsString::from_vec(program), library, family, variable })
}

/// Variables of which one leads a library to the launcher.
const fn variables(family: Family, offer: ProtocolOffer) -> &'static [&'static str] {
    match family {
        Family::Mpich if offer.pmi => &["PMI_FD", "PMI_PORT"],
        Family::Mpich | Family::OpenMpi => &["PMIX_NAMESPACE"],
    }
}

/// True if no library can miss its variable.
fn has_all(environment: &[u8], offer: ProtocolOffer) -> bool {
    [Family::Mpich, Family::OpenMpi].into_iter().all(|family| {
        let mut variables = variables(family, offer).iter();
        variables.any(|name| has_variable(environment, name))
    })
}

fn has_variable(environment: &[u8], name: &str) -> bool {
    let mut entries = environment.split(|byte| *byte == 0);
    entries
        .any(|entry| entry.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"=")))
}

/// The MPI library in a list of mapped files.
fn mpi_library(maps: &[u8]) -> Option<(String, Family)> {
    let lines = maps.split(|byte| *byte == b'\n');
    let names = lines.filter_map(|line| {
        let path = &line[line.iter().position(|byte| *byte == b'/')?..];
        Path::new(std::ffi::OsStr::from_bytes(path)).file_name()?.to_str()
    });
    let mut mpi = names.filter(|name| library::MPI.iter().any(|start| name.starts_with(start)));
    let name = mpi.next()?;
    let family = match name.starts_with("libmpi.so.40") {
        true => Family::OpenMpi,
        false => Family::Mpich,
    };
    Some((name.to_owned(), family))
}

/// True if a process has a second thread, or an open socket or event queue: every MPI library has one
/// between `MPI_Init` and `MPI_Finalize`.
fn is_connected(pid: i32) -> bool {
    let entries =
        |name: &str| fs::read_dir(format!("/proc/{pid}/{name}")).into_iter().flatten().flatten();
    let starts = [&b"socket:"[..], b"anon_inode:[event"];
    let is_open =
        |link: &Path| starts.iter().any(|start| link.as_os_str().as_bytes().starts_with(start));
    let mut open = entries("fd").filter_map(|entry| fs::read_link(entry.path()).ok());
    entries("task").nth(1).is_some() || open.any(|link| is_open(&link))
}

/// Processes of one rank that are read; a rank may be a shell with thousands of them.
const PROCESSES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_found_by_their_whole_names() {
        let environment = b"PMI_FDX=1\0APMI_FD=1\0PMIX_NAMESPACE=a\0";
        assert!(!has_variable(environment, "PMI_FD"));
        assert!(has_variable(environment, "PMIX_NAMESPACE"));
        assert!(!has_all(environment, ProtocolOffer::PMI));
        assert!(has_all(b"PMI_PORT=h:1\0PMIX_NAMESPACE=a\0", ProtocolOffer::PMI));
    }

    #[test]
    fn library_is_found_among_mapped_files() {
        let line = |path: &str| format!("7f00-7f10 r--p 0000 fe:00 1      {path}\n");
        let of = |paths: &[&str]| {
            mpi_library(paths.iter().map(|path| line(path)).collect::<String>().as_bytes())
        };
        let names = ["/usr/lib/libc.so.6", "[heap]", "/opt/a b/libmpich.so.12.2.2"];
        assert_eq!(of(&names), Some(("libmpich.so.12.2.2".into(), Family::Mpich)));
        let open = Some(("libmpi.so.40.30.4".into(), Family::OpenMpi));
        assert_eq!(of(&["/usr/lib/libmpi.so.40.30.4"]), open);
        assert_eq!(of(&["/usr/lib/libmpicxx.so", "[heap]", ""]), None);
    }
}
