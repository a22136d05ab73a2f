//! Libraries that a program is linked with, found without running it, and the MPI implementations that they
//! belong to.

use crate::image::{Image, Symbols, has_symbol};
use crate::loader::{Needed, Search, Walk};
use std::fmt;
use std::path::{Path, PathBuf};

/// Libraries of a program, direct and indirect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Libraries {
    /// In breadth-first order: those of the program first.
    pub found: Vec<Library>,
    /// Names that are in no directory.
    pub missing: Vec<String>,
}

/// A library with its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    /// Name in the program.
    pub name: String,
    /// Path of the file.
    pub path: PathBuf,
}

/// MPI implementation that a program is linked with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// MPICH, or one of its many derivatives; they share names and calls.
    Mpich,
    /// Open MPI, which looks for its launcher through PMIx alone.
    OpenMpi,
}

impl Libraries {
    /// Libraries of `program` by the variables of this process. `None` for a script, or a program for another
    /// machine.
    pub fn of(program: &Path) -> Option<Self> {
        Self::found_by(program, &Search::here())
    }

    /// The same with another search.
    pub fn found_by(program: &Path, search: &Search) -> Option<Self> {
        let mut all = Self::default();
        let mut walk = Walk::of(program, search)?;
        while let Some(needed) = walk.next_needed() {
            match walk.load(&needed) {
                Some(image) => {
                    let path = image.path.clone();
                    walk.follow(&needed, image);
                    all.found.push(Library { name: needed.name, path });
                }
                None if needed.is_preloaded => {}
                None => all.missing.push(needed.name),
            }
        }
        Some(all)
    }

    /// The library of MPI itself, if there is one.
    pub fn mpi(&self) -> Option<&Library> {
        self.found.iter().find(|library| is_mpi(file_name(&library.name)))
    }

    /// MPI implementation: a library of the standard's binary interface, or one around another library, is
    /// of that which it needs.
    pub fn family(&self) -> Option<Family> {
        let names = self.found.iter().map(|library| &library.name).chain(&self.missing);
        self.mpi().map(|_| Family::of(names.map(|name| file_name(name))))
    }

    /// Libraries related to finding a launcher: MPI and clients of process managers; true for a client that
    /// `cargo xtask capi` makes.
    pub fn of_interest(&self) -> impl Iterator<Item = (&Library, bool)> {
        let starts = ["libmpi", "libpmi", "libopen-", "libprrte", "libflux"];
        let is = move |name: &str| starts.iter().any(|start| name.starts_with(start));
        let found = self.found.iter().filter(move |library| is(&library.name));
        found.map(|library| (library, is_pmi(&library.name) && is_own(&library.path)))
    }
}

impl Family {
    /// Implementation to which libraries of these names belong, of which one is a library of MPI.
    pub fn of<'a>(mut libraries: impl Iterator<Item = &'a str>) -> Self {
        // A part of Open MPI, or the version of its interface, which no other implementation has.
        let is_open = |name: &str| name.starts_with("libopen-") || name.starts_with("libmpi.so.40");
        match libraries.any(is_open) {
            true => Self::OpenMpi,
            false => Self::Mpich,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mpich => "MPICH",
            Self::OpenMpi => "Open MPI",
        })
    }
}

/// The MPI library of a program and its family, with less effort than [`Libraries::of`] for one that needs
/// the C library alone.
pub fn mpi_of(program: &Path, search: &Search) -> Option<(Library, Family)> {
    let mut walk = Walk::of(program, search)?;
    let is_other = |needed: &Needed| !is_plain(&needed.name);
    std::iter::from_fn(|| walk.next_needed()).find(is_other)?;
    let libraries = Libraries::found_by(program, search)?;
    Some((libraries.mpi()?.clone(), libraries.family()?))
}

/// True for the name of a library of MPI.
pub fn is_mpi(name: &str) -> bool {
    MPI.iter().any(|start| name.starts_with(start))
}

/// True for the name of a library that every program has.
pub fn is_plain(name: &str) -> bool {
    PLAIN.iter().any(|start| name.starts_with(start))
}

/// Name of a library whose path may be known.
pub fn file_name(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or_default()
}

/// True if a program imports a function with a name that begins with one of `starts`, or if that is
/// unknown, as for statically linked programs.
pub fn may_call(program: &Path, starts: &[&str]) -> bool {
    let is = |name: &[u8]| starts.iter().any(|start| name.starts_with(start.as_bytes()));
    has_symbol(program, Symbols::Used, &is).unwrap_or(true)
}

/// True if the MPI library `path` has the PMI-1 client that requests version 1.1 and takes 1.2: that of
/// MPICH from 4.1 on, unless it was built for a library of another process manager.
pub fn takes_newer_pmi1(path: &Path) -> bool {
    let image = Image::read(path);
    let is_own = image.is_some_and(|image| !image.needed.iter().any(|name| is_pmi(name)));
    is_own
        && has_symbol(path, Symbols::Defined, &|name| SINCE_MPICH_4_1.contains(&name))
            .unwrap_or(false)
}

/// True if the MPI library in this file is Intel's, whose ranks yield a processor that they share.
pub fn is_intel(path: &Path) -> bool {
    has_symbol(path, Symbols::Defined, &|name| name == YIELD_OF_INTEL).unwrap_or(false)
}

/// True if this is a library that `cargo xtask capi` makes.
fn is_own(path: &Path) -> bool {
    has_symbol(path, Symbols::Defined, &|name| name == VERSION_OF_OWN_CLIENTS).unwrap_or(false)
}

/// True if the library of this name is a client of a process manager, as Flux and Slurm have.
pub fn is_pmi(name: &str) -> bool {
    name.starts_with("libpmi")
}

/// Prefixes of the names of MPI libraries.
const MPI: &[&str] = &["libmpi.so", "libmpich.so", ABI];

/// Prefix of the name of libraries with the standard's binary interface, which all implementations share.
pub const ABI: &str = "libmpi_abi.so";

/// Libraries that every program has, without further relevant ones.
const PLAIN: &[&str] =
    &["libc.so", "libm.so", "ld-linux", "libpthread.so", "libdl.so", "libgcc_s.so", "librt.so"];

/// Functions of MPICH from 4.1 on that its derivatives lack; its library of the standard's binary interface
/// has the second alone.
const SINCE_MPICH_4_1: &[&[u8]] = &[b"MPIX_Stream_create", b"MPIX_Type_iov_len"];

/// The function by which the C libraries of this project are recognised.
const VERSION_OF_OWN_CLIENTS: &[u8] = b"pmi_capi_version";

/// The function of Intel MPI that yields the processor; other derivatives of MPICH lack it.
const YIELD_OF_INTEL: &[u8] = b"I_MPI_PW_Sched_yield";

#[cfg(test)]
mod tests {
    use super::*;

    fn library(name: &str) -> Library {
        Library { name: name.to_owned(), path: PathBuf::from("/lib").join(name) }
    }

    fn family(names: &[&str]) -> Option<Family> {
        let found = names.iter().map(|name| library(name)).collect();
        Libraries { found, missing: Vec::new() }.family()
    }

    #[test]
    fn program_of_the_system_is_linked_with_its_c_library() {
        let found = Libraries::of(Path::new("/bin/sh")).unwrap();
        let libc = found.found.iter().find(|library| library.name.starts_with("libc.so"));
        assert!(libc.is_some_and(|libc| libc.path.is_file()), "{found:?}");
        assert_eq!((found.mpi(), found.family(), found.missing.len()), (None, None, 0));
    }

    #[test]
    fn script_and_nothing_at_all_are_linked_with_nothing() {
        for path in ["/etc/passwd", "/no/such/program", "/dev/null", "/"] {
            assert_eq!(Libraries::of(Path::new(path)), None, "{path}");
        }
    }

    #[test]
    fn calls_of_a_program_are_found_and_unknown_ones_are_possible() {
        assert!(may_call(Path::new("/bin/sh"), &["execv"]));
        assert!(!may_call(Path::new("/bin/true"), &["execv", "dlopen"]));
        assert!(may_call(Path::new("/etc/passwd"), &["execv"]));
    }

    #[test]
    fn names_tell_whose_mpi_it_is() {
        assert_eq!(family(&["libc.so.6"]), None);
        assert_eq!(family(&["libmpich.so.12", "libpmi.so.0"]), Some(Family::Mpich));
        assert_eq!(family(&["libmpi.so.12"]), Some(Family::Mpich));
        assert_eq!(family(&["libmpi.so.40"]), Some(Family::OpenMpi));
        assert_eq!(family(&["libmpi.so.80", "libopen-pal.so.80"]), Some(Family::OpenMpi));
        assert_eq!(family(&["libmpi_abi.so.1", "libfabric.so.1"]), Some(Family::Mpich));
        for other in ["libmpi.so.40", "libopen-pal.so.80"] {
            assert_eq!(family(&["libmpi_abi.so.1", other]), Some(Family::OpenMpi));
        }
    }
}
