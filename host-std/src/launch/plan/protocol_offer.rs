//! Protocols offered to a program: PMI over an inherited socket, PMIx over a loopback port, or both.
//!
//! The libraries that a program links decide. Offering both does no harm to most, but some MPI libraries
//! abort when they find both, and others turn to PMIx by themselves where PMI would do; so both are
//! offered only where the file does not settle it: to interpreters, and to programs that may start or
//! load others.

use super::pmix_store;
use super::pmix_store::StoreOffer;
use super::preload::INTEL_LIBRARY;
use super::program_environment;
use crate::settings::environment::{Environment, Offer};
use pmi_host_base::library::{self, Image, Libraries, Search};
use pmi_host_base::program::Program;
use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::path::{Path, PathBuf};

/// Protocols offered to a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProtocolOffer {
    /// PMI-1 and PMI-2.
    pub(crate) pmi: bool,
    /// PMIx.
    pub(crate) pmix: bool,
    /// Protocol set for MPICH's library; `None` leaves the choice to the library.
    pub(crate) mpich_version: Option<&'static str>,
    /// True if it may be linked with MPI, that is, unless the inspected files rule it out.
    pub(crate) may_link_mpi: bool,
    /// True if it links MPICH's own client of PMI-1, which takes a newer version than it requests.
    pub(crate) takes_newer_pmi1: bool,
    /// True if it may load a client of PMI-1 at run time: it links none, and may start or load programs.
    pub(crate) may_load_pmi1: bool,
    /// How its ranks wait where they share a processor.
    pub(crate) waiting: Waiting,
    /// Store of PMIx data in shared memory that its library reads.
    pub(crate) pmix_store: StoreOffer,
    /// Reason, for users.
    pub(crate) why: &'static str,
}

/// How ranks wait for each other where they share a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// They spin, or nothing is known.
    Spinning,
    /// They yield the processor while they set up shared memory, in `MPI_Init`, and spin later: MPICH
    /// from 4.1 on.
    YieldingInInit,
    /// They yield the processor once they know that they share it: Open MPI and Intel MPI.
    Yielding,
}

impl ProtocolOffer {
    /// PMI alone, the offer for every rank that connects by itself.
    pub(crate) const PMI: Self = Self::pmi("its program is unknown");

    /// Offer for `program`, by the user's settings and the libraries it links.
    pub(crate) fn of(program: &Program, all: &Environment) -> Self {
        let path = match &program.directory {
            Some(directory) => directory.join(&program.path),
            None => program.path.clone(),
        };
        let linked = Self::linked(&path);
        let requested = |pmi, pmix, mpich_version| Self {
            pmi,
            pmix,
            mpich_version,
            may_link_mpi: true,
            takes_newer_pmi1: linked.takes_newer_pmi1,
            may_load_pmi1: linked.may_load_pmi1,
            waiting: linked.waiting,
            pmix_store: linked.pmix_store,
            why: "specified by --pmi",
        };
        match all.offer {
            Offer::Pmi1 => requested(true, false, Some("1")),
            Offer::Pmi2 => requested(true, false, Some("2")),
            Offer::Pmix => requested(false, true, Some("x")),
            Offer::All => requested(true, true, Some("1")),
            Offer::Auto => {
                let named =
                    program_environment::found_by(program, all, INTEL_LIBRARY).map(PathBuf::from);
                let name = named.as_ref().and_then(|path| path.file_name()?.to_str());
                let is_pmix = name.is_some_and(|name| is_one_of(name, PMIX_LIBRARIES));
                match linked {
                    Self { pmi: true, pmix: false, .. } if is_pmix => {
                        Self::both("its environment names a library that speaks PMIx")
                    }
                    _ => linked,
                }
            }
        }
    }

    fn linked(path: &Path) -> Self {
        // A script: its interpreter may run any program.
        let Some(image) = Image::read(path) else { return Self::both("it is a script") };
        let mut found = LinkedLibraries::default();
        let mut waiting: VecDeque<PathBuf> = VecDeque::new();
        // Some interpreters are a thin program over a library of their own.
        let mut files = vec![path.to_owned()];
        let (mut seen, search) = (BTreeSet::new(), Search::default());
        found.look_at(&image, &search, &mut seen, &mut waiting);
        while let Some(library) = waiting.pop_front()
            && seen.len() < LIBRARIES_MAX
        {
            if let Some(image) = Image::read(&library) {
                found.look_at(&image, &search, &mut seen, &mut waiting);
                files.push(library);
            }
        }
        let mpi = found.mpi_of_pmi.take();
        let is_own = !seen.iter().any(|name| library::is_pmi(name));
        let is_newer = mpi.as_ref().is_some_and(|mpi| library::takes_newer_pmi1(mpi));
        let takes_newer_pmi1 = is_own && is_newer;
        let waiting = match &mpi {
            Some(mpi) if library::is_intel(mpi) => Waiting::Yielding,
            Some(_) if is_newer => Waiting::YieldingInInit,
            Some(_) => Waiting::Spinning,
            None if found.pmix && !found.pmi => Waiting::Yielding,
            None => Waiting::Spinning,
        };
        let offer = match (found.pmi, found.pmix) {
            (true, true) => Self::both("it links libraries of both kinds"),
            (true, false) => Self::pmi("it links an MPI library that speaks PMI"),
            (false, true) => Self {
                pmi: false,
                pmix: true,
                mpich_version: None,
                may_link_mpi: true,
                takes_newer_pmi1: false,
                may_load_pmi1: false,
                waiting: Waiting::Yielding,
                pmix_store: StoreOffer::None,
                why: "it links an MPI library that speaks PMIx",
            },
            (false, false) => {
                let offered = match files.iter().any(|file| library::may_call(file, STARTERS)) {
                    true => Self::both("it may start other programs"),
                    false => Self::pmi("it links no MPI library"),
                };
                Self { may_link_mpi: found.mpi, ..offered }
            }
        };
        let may_load_pmi1 = offer.may_load_pmi1 && !found.pmi;
        let (linked, loaded) = (found.pmix_file, found.open_mpi_pmix_file);
        let pmix_store = StoreOffer::of(linked.as_deref(), loaded.as_deref());
        Self { takes_newer_pmi1, may_load_pmi1, waiting, pmix_store, ..offer }
    }

    const fn both(why: &'static str) -> Self {
        // A library of MPICH's that finds both protocols aborts unless one of them is selected.
        Self { pmix: true, mpich_version: Some("1"), may_load_pmi1: true, ..Self::pmi(why) }
    }

    const fn pmi(why: &'static str) -> Self {
        Self {
            pmi: true,
            pmix: false,
            mpich_version: None,
            may_link_mpi: true,
            takes_newer_pmi1: false,
            may_load_pmi1: false,
            waiting: Waiting::Spinning,
            pmix_store: StoreOffer::None,
            why,
        }
    }
}

impl fmt::Display for ProtocolOffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let which = match (self.pmi, self.pmix) {
            (true, true) => "PMI and PMIx",
            (false, true) => "PMIx",
            (_, false) => "PMI",
        };
        write!(f, "finds a server for {which}: {}", self.why)
    }
}

#[derive(Default)]
struct LinkedLibraries {
    pmi: bool,
    pmix: bool,
    /// Links a library of MPI, with any protocol.
    mpi: bool,
    /// File of an MPI library that uses PMI.
    mpi_of_pmi: Option<PathBuf>,
    /// File of the library of PMIx that it links.
    pmix_file: Option<PathBuf>,
    /// File of the one that its Open MPI loads.
    open_mpi_pmix_file: Option<PathBuf>,
}

impl LinkedLibraries {
    /// Classifies the libraries of a file, and queues those that have to be inspected.
    fn look_at(
        &mut self,
        image: &Image,
        search: &Search,
        seen: &mut BTreeSet<String>,
        waiting: &mut VecDeque<PathBuf>,
    ) {
        for name in &image.needed {
            if !seen.insert(name.clone()) {
                continue;
            }
            let is_any_of = |names| is_one_of(name, names);
            self.mpi |= is_any_of(library::MPI);
            if is_any_of(PMIX_LIBRARIES) {
                self.pmix = true;
                let file = || search.find(name, image);
                if name.starts_with("libpmix.so") {
                    self.pmix_file = file();
                } else if self.open_mpi_pmix_file.is_none() {
                    let found = file().and_then(|file| pmix_store::loaded_by(&file, search));
                    self.open_mpi_pmix_file = found;
                }
            } else if name.starts_with(library::ABI) {
                let file = search.find(name, image);
                // Every implementation has a library of this name.
                if file.as_deref().is_some_and(|file| needs_pmix(file, search)) {
                    self.pmix = true;
                    waiting.extend(file);
                } else {
                    (self.pmi, self.mpi_of_pmi) = (true, file);
                }
            } else if is_any_of(PMI_LIBRARIES) {
                self.pmi = true;
                if is_any_of(library::MPI) {
                    self.mpi_of_pmi = search.find(name, image);
                }
            } else if !is_any_of(library::PLAIN) {
                waiting.extend(search.find(name, image));
            }
        }
    }
}

/// True if a library is linked with one that uses a PMIx server, itself or through others.
fn needs_pmix(library: &Path, search: &Search) -> bool {
    let Some(Libraries { found, missing }) = Libraries::found_by(library, search) else {
        return false;
    };
    let mut names = found.iter().map(|library| &library.name).chain(&missing);
    names.any(|name| is_one_of(name, PMIX_LIBRARIES))
}

fn is_one_of(name: &str, libraries: &[&str]) -> bool {
    libraries.iter().any(|start| name.starts_with(start))
}

/// Libraries that use a PMIx server: Open MPI's and its own parts, and the one of PMIx.
const PMIX_LIBRARIES: &[&str] =
    &["libpmix.so", "libmpi.so.20", "libmpi.so.40", "libopen-rte.so", "libopen-pal.so"];

/// Libraries that use a PMI server: MPICH's under its own name, and under the name shared by its
/// derivatives; and those of PMI.
const PMI_LIBRARIES: &[&str] = &["libmpich.so", "libmpi.so.12", "libpmi.so", "libpmi2.so"];

/// Functions that start other programs or load libraries by name.
const STARTERS: &[&str] = &["exec", "posix_spawn", "fexecve", "dlopen", "system", "popen"];

/// Bound on the search; no program needs more before MPI is found.
const LIBRARIES_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn linked(path: &str) -> (bool, bool) {
        let ProtocolOffer { pmi, pmix, .. } = ProtocolOffer::linked(Path::new(path));
        (pmi, pmix)
    }

    #[test]
    fn programs_that_may_start_others_are_offered_both_protocols() {
        for path in ["/bin/sh", "/usr/bin/env", "/usr/bin/ldd", "/usr/bin/id"] {
            assert_eq!(linked(path), (true, true), "{path}");
        }
        for path in ["/bin/true", "/bin/cat"] {
            assert_eq!(linked(path), (true, false), "{path}");
        }
        for (path, may) in [("/bin/sh", false), ("/bin/true", false), ("/usr/bin/ldd", true)] {
            assert_eq!(ProtocolOffer::linked(Path::new(path)).may_link_mpi, may, "{path}");
        }
    }

    #[test]
    fn choice_of_the_user_holds() {
        let program = Program::new("/bin/true".into(), "true".into(), Vec::new());
        let of = |offer| {
            let all = Environment { offer, ..Environment::default() };
            let ProtocolOffer { pmi, pmix, mpich_version, .. } = ProtocolOffer::of(&program, &all);
            (pmi, pmix, mpich_version)
        };
        assert_eq!(of(Offer::Auto), (true, false, None));
        assert_eq!(of(Offer::Pmi1), (true, false, Some("1")));
        assert_eq!(of(Offer::Pmi2), (true, false, Some("2")));
        assert_eq!(of(Offer::Pmix), (false, true, Some("x")));
        assert_eq!(of(Offer::All), (true, true, Some("1")));
    }
}
