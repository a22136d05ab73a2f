//! MPI processes that cannot find their launcher, since a program between removed its variables.
//!
//! Each of them is rank 0 of 1 after `MPI_Init`. They are recognised while they run, by the environment
//! that they were started with, the libraries that they have loaded, and what `MPI_Init` leaves open.

use crate::launch::plan::protocol_offer::ProtocolOffer;
use pmi_host_base::library::{self, Family};
use pmi_host_base::system_file;
use pmi_host_os::processes;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::fd::RawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// An MPI process without a launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MpiSingleton {
    pub(crate) pid: i32,
    /// Time of the first look at which it had exited.
    pub(crate) exited_at: Option<Instant>,
    /// Its command line up to the first blank.
    pub(crate) program: OsString,
    /// File name of its MPI library.
    pub(crate) library: String,
    pub(crate) family: Family,
    /// Variable that it lacks.
    pub(crate) variable: &'static str,
    /// True if the launcher has set that variable, and another program has removed it.
    pub(crate) was_offered: bool,
}

/// The first process among `pid` and its descendants that has called `MPI_Init` without the variables of
/// `offer`.
///
/// Reads the descriptors of each process of the user's, and two files where these raise the suspicion.
/// Every rank starts with the descriptor `link`.
pub(crate) fn below(pid: i32, offer: ProtocolOffer, link: RawFd) -> Option<MpiSingleton> {
    processes::family(pid).take(PROCESSES_MAX).find_map(|pid| of(pid, offer, link))
}

/// True while a process exists.
pub(crate) fn is_alive(pid: i32) -> bool {
    processes::relations(pid).is_some_and(|one| one.is_alive)
}

fn of(pid: i32, offer: ProtocolOffer, link: RawFd) -> Option<MpiSingleton> {
    // Most processes show none of it, and this takes less time than reading what they have mapped.
    if !shows_init(pid, link) {
        return None;
    }
    let read = |name: &str| system_file::read(format!("/proc/{pid}/{name}")).ok();
    let environment = read("environ").filter(|text| !has_all(text, offer))?;
    // Empty for a process that has exited.
    let maps = read("maps")?;
    let (library, family) = mpi_library(&maps)?;
    let variables = variables(family, offer);
    if variables.iter().any(|name| has_variable(&environment, name)) {
        return None;
    }
    let words = read("cmdline")?;
    let program = words.split(|byte| *byte == 0).next().unwrap_or_default().to_vec();
    let variable = variables.first()?;
    let program = OsString::from_vec(program);
    let was_offered = family == Family::Mpich || offer.pmix;
    Some(MpiSingleton { pid, exited_at: None, program, library, family, variable, was_offered })
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
        Path::new(OsStr::from_bytes(path)).file_name()?.to_str()
    });
    let names = Vec::from_iter(names);
    let mpi = names.iter().find(|name| library::is_mpi(name))?;
    Some(((*mpi).to_owned(), Family::of(names.iter().copied())))
}

/// True if a process has a second thread, a socket or an event queue of its own, or reads descriptions of
/// hardware: every MPI library does between `MPI_Init` and `MPI_Finalize`. Sockets that it has inherited from
/// the launcher do not count.
fn shows_init(pid: i32, link: RawFd) -> bool {
    let starts = |file: &Path, start: &[u8]| file.as_os_str().as_bytes().starts_with(start);
    let is_sign = |file: &Path| starts(file, b"anon_inode:[event") || starts(file, b"/sys/");
    let is_socket = |file: &Path| starts(file, b"socket:");
    let is_own = |at: &OsStr, file: &Path| {
        let is_link = at.to_str().and_then(|at| at.parse().ok()) == Some(link);
        !is_link && !open_files("self").any(|(_, ours)| ours == file)
    };
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    threads.flatten().nth(1).is_some()
        || open_files(&pid.to_string())
            .any(|(at, file)| is_sign(&file) || (is_socket(&file) && is_own(&at, &file)))
}

/// Numbers of the descriptors of a process, with what they refer to.
fn open_files(process: &str) -> impl Iterator<Item = (OsString, PathBuf)> {
    let entries = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some((entry.file_name(), fs::read_link(entry.path()).ok()?)))
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
        let abi = ["/opt/lib/libmpi_abi.so.1", "/opt/lib/libopen-pal.so.80"];
        assert_eq!(of(&abi), Some(("libmpi_abi.so.1".into(), Family::OpenMpi)));
        assert_eq!(of(&abi[..1]), Some(("libmpi_abi.so.1".into(), Family::Mpich)));
        assert_eq!(of(&["/usr/lib/libmpicxx.so", "[heap]", ""]), None);
    }
}
