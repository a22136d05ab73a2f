//! Protocols offered to a program: PMI over an inherited socket, PMIx over a loopback port, or both.
//!
//! The libraries that a program links decide. Offering both does no harm to most, but some MPI libraries
//! abort when they find both, and others turn to PMIx by themselves where PMI would do; so both are
//! offered only where the file does not settle it: to interpreters, to programs that may start or
//! load others, and to those whose MPI library the loader does not find.
//!
//! The name of a library of MPI settles it where it has the version of an implementation. One of the
//! standard's binary interface has the same name everywhere, and one around another library may have any:
//! these are of the kind of those that they need.

use super::pmix_store;
use super::pmix_store::StoreOffer;
use super::preload::INTEL_LIBRARY;
use super::program_environment;
use crate::settings::environment::{Environment, Offer};
use pmi_host_base::library;
use pmi_host_base::loader::{Needed, Search, Walk};
use pmi_host_base::program::Program;
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
        let environment = program_environment::composed(program, all);
        let linked = Self::linked(&path, &environment.search(program));
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
                let named = environment.get(INTEL_LIBRARY.as_ref());
                let named = named.map(|variable| Path::new(&variable.value));
                let name = named.and_then(|path| path.file_name()?.to_str());
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

    fn linked(path: &Path, search: &Search) -> Self {
        // A script: its interpreter may run any program.
        let Some(mut walk) = Walk::of(path, search) else { return Self::both("it is a script") };
        let mut found = LinkedLibraries::default();
        while let Some(needed) = walk.next_needed() {
            found.look_at(&needed, &mut walk, search);
        }
        found.judge_interface();
        let mpi = found.mpi_of_pmi.take();
        let is_own = !found.pmi_client;
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
            (false, false) if found.is_missing => {
                Self::both("its MPI library is in no directory of the loader")
            }
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
                // Some interpreters are a thin program over a library of their own.
                let offered = match walk.files().any(|file| library::may_call(file, STARTERS)) {
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
    /// Links a part of Open MPI.
    open_mpi: bool,
    /// Links a client of a process manager.
    pmi_client: bool,
    /// The loader does not find a library of MPI whose name does not tell its protocol.
    is_missing: bool,
    /// File of an MPI library that uses PMI.
    mpi_of_pmi: Option<PathBuf>,
    /// File of the library of the standard's binary interface.
    interface: Option<PathBuf>,
    /// File of the library of PMIx that it links.
    pmix_file: Option<PathBuf>,
    /// File of the one that its Open MPI loads.
    open_mpi_pmix_file: Option<PathBuf>,
}

impl LinkedLibraries {
    /// Classifies a library that a program needs, and continues with those that it needs itself unless its
    /// kind is known.
    fn look_at(&mut self, needed: &Needed, walk: &mut Walk<'_>, search: &Search) {
        let name = library::file_name(&needed.name);
        // A preloaded client replaces another one, and says nothing about the program.
        if library::is_plain(name) || (needed.is_preloaded && library::is_pmi(name)) {
            return;
        }
        self.pmi_client |= library::is_pmi(name);
        self.mpi |= library::is_mpi(name);
        let is_of = |names| is_one_of(name, names);
        let is_known = is_of(OPEN_MPI_LIBRARIES) || is_of(PMI_LIBRARIES) || is_of(PMIX_LIBRARIES);
        let file = walk.load(needed);
        let needs = file.as_ref().map_or(&[][..], |file| &file.needed);
        // A library around another one has the name by which programs look for it.
        let is_around = library::is_mpi(name) && needs.iter().any(|name| library::is_mpi(name));
        let needs_pmix = needs.iter().any(|name| is_one_of(name, PMIX_LIBRARIES));
        let path = file.as_ref().map(|file| file.path().to_owned());
        if !is_around {
            self.open_mpi |= is_of(OPEN_MPI_LIBRARIES);
            self.pmix |= is_of(OPEN_MPI_LIBRARIES) || is_of(PMIX_LIBRARIES);
            self.pmi |= is_of(PMI_LIBRARIES);
            if is_of(PMIX_LIBRARIES) {
                self.pmix_file.clone_from(&path);
            } else if is_of(OPEN_MPI_LIBRARIES) && self.open_mpi_pmix_file.is_none() {
                self.open_mpi_pmix_file =
                    path.as_deref().and_then(|path| pmix_store::loaded_by(path, search));
            } else if is_of(PMI_LIBRARIES) && library::is_mpi(name) {
                self.mpi_of_pmi.clone_from(&path);
            }
            if name.starts_with(library::ABI) {
                self.is_missing |= path.is_none();
                self.interface = path;
            }
        }
        if let Some(file) = file
            && (!is_known || is_around || (is_of(PMI_LIBRARIES) && needs_pmix))
        {
            walk.follow(needed, file);
        }
    }

    /// Judges a library of the standard's binary interface by all that it needs: without a part of Open MPI
    /// it is of MPICH or a derivative, also if that was built with PMIx besides.
    fn judge_interface(&mut self) {
        if let Some(file) = self.interface.take().filter(|_| !self.open_mpi) {
            self.pmi = true;
            self.mpi_of_pmi.get_or_insert(file);
        }
    }
}

fn is_one_of(name: &str, libraries: &[&str]) -> bool {
    libraries.iter().any(|start| name.starts_with(start))
}

/// Libraries that use a PMIx server: Open MPI's and its own parts.
const OPEN_MPI_LIBRARIES: &[&str] =
    &["libmpi.so.20", "libmpi.so.40", "libopen-rte.so", "libopen-pal.so"];

/// The library of PMIx.
const PMIX_LIBRARIES: &[&str] = &["libpmix.so"];

/// Libraries that use a PMI server: MPICH's under its own name, and under the name shared by its
/// derivatives; and those of PMI.
const PMI_LIBRARIES: &[&str] = &["libmpich.so", "libmpi.so.12", "libpmi.so", "libpmi2.so"];

/// Functions that start other programs or load libraries by name.
const STARTERS: &[&str] =
    &["exec", "posix_spawn", "fexecve", "dlopen", "dlmopen", "system", "popen"];

#[cfg(test)]
mod tests {
    use super::*;

    fn linked(path: &str) -> (bool, bool) {
        let ProtocolOffer { pmi, pmix, .. } =
            ProtocolOffer::linked(Path::new(path), &Search::here());
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
            let offer = ProtocolOffer::linked(Path::new(path), &Search::here());
            assert_eq!(offer.may_link_mpi, may, "{path}");
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
