//! Which process managers' protocols a program is offered: PMI over an inherited socket, PMIx over a
//! loopback port, or both.
//!
//! What a program links decides. Offering both does no harm to most, but some MPI libraries abort when they
//! find both, and others turn to PMIx by themselves where PMI would do; so both are offered only where a
//! look at the file cannot tell: to interpreters, and to what may start or load other programs.

use super::plan::Plan;
use super::program::Program;
use super::variables::MPICH_SPEAKS;
use super::{env, pmix};
use crate::settings::environment::Offer;
use object::elf::{DT_NEEDED, DT_RPATH, DT_RUNPATH};
use object::read::NameOrOrdinal;
use object::read::elf::{Dyn, ElfFile64, FileHeader};
use object::{Endianness, Object, ReadCache};
use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What a program is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Families {
    /// PMI-1 and PMI-2.
    pub pmi: bool,
    /// PMIx.
    pub pmix: bool,
    /// What MPICH's library is told to speak; it finds out by itself if nothing.
    pub mpich_speaks: Option<&'static str>,
    /// Why, for people.
    pub why: &'static str,
}

impl Families {
    /// PMI alone, as every rank that dials in is offered.
    pub const PMI: Self = Self::pmi("nothing else is known of it");

    /// What `program` is offered, by what the user wants and by what it links.
    pub fn of(program: &Program, offer: Offer) -> Self {
        let said = |pmi, pmix, mpich_speaks| Self { pmi, pmix, mpich_speaks, why: "--pmi says so" };
        match offer {
            Offer::Pmi1 => said(true, false, Some("1")),
            Offer::Pmi2 => said(true, false, Some("2")),
            Offer::Pmix => said(false, true, Some("x")),
            Offer::All => said(true, true, Some("1")),
            Offer::Auto => {
                let path = match &program.folder {
                    Some(folder) => folder.join(&program.path),
                    None => program.path.clone(),
                };
                Self::linked(&path)
            }
        }
    }

    fn linked(path: &Path) -> Self {
        // A script: its interpreter runs what it likes.
        let Some(image) = Image::read(path) else { return Self::both("it is a script") };
        let mut found = Found::default();
        let mut waiting: VecDeque<PathBuf> = VecDeque::new();
        let mut seen = BTreeSet::new();
        found.look_at(&image, path, &mut seen, &mut waiting);
        while let Some(library) = waiting.pop_front()
            && seen.len() < LIBRARIES_MAX
        {
            if let Some(image) = Image::read(&library) {
                found.look_at(&image, &library, &mut seen, &mut waiting);
            }
        }
        match (found.pmi, found.pmix) {
            (true, true) => Self::both("it links libraries of both kinds"),
            (true, false) => Self::pmi("it links an MPI library that speaks PMI"),
            (false, true) => Self {
                pmi: false,
                pmix: true,
                mpich_speaks: None,
                why: "it links an MPI library that speaks PMIx",
            },
            (false, false) if image.may_start_others => Self::both("it may start other programs"),
            (false, false) => Self::pmi("it links no MPI library"),
        }
    }

    const fn both(why: &'static str) -> Self {
        // A library of MPICH's that finds both gives up unless it is told which one to speak.
        Self { pmi: true, pmix: true, mpich_speaks: Some("1"), why }
    }

    const fn pmi(why: &'static str) -> Self {
        Self { pmi: true, pmix: false, mpich_speaks: None, why }
    }
}

impl Families {
    /// Variables by which the ranks of part `number` of `plan` find their servers, the same for all of them.
    /// Their socket is at `fd`.
    pub fn of_part(plan: &Plan, number: usize, fd: u32) -> Vec<(&'static str, String)> {
        let families = plan.families(number);
        let pmi = families.pmi.then(|| env::of_plan(plan, fd)).into_iter().flatten();
        let pmix = plan.pmix.as_ref().filter(|_| families.pmix);
        let pmix = pmix.map(|dial| pmix::of_plan(plan, dial)).into_iter().flatten();
        let mpich = families.mpich_speaks.map(|which| (MPICH_SPEAKS.name, which.to_owned()));
        pmi.chain(pmix).chain(mpich).collect()
    }

    /// The same for what differs from rank to rank.
    pub fn of_rank(plan: &Plan, rank: u32, local_rank: u32) -> Vec<(&'static str, String)> {
        let families = plan.families(plan.appnum(rank));
        let pmi = families.pmi.then(|| env::of_rank(rank, local_rank)).into_iter().flatten();
        let dial = plan.dial.as_ref().filter(|_| families.pmi);
        let dial = dial.into_iter().flat_map(|dial| env::of_dial(dial, rank));
        let pmix = families.pmix.then(|| pmix::of_rank(rank, local_rank)).into_iter().flatten();
        pmi.chain(dial).chain(pmix).collect()
    }
}

impl fmt::Display for Families {
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
struct Found {
    pmi: bool,
    pmix: bool,
}

impl Found {
    /// Notes what the libraries of a file are, and where those lie that have to be looked at.
    fn look_at(
        &mut self,
        image: &Image,
        path: &Path,
        seen: &mut BTreeSet<Vec<u8>>,
        waiting: &mut VecDeque<PathBuf>,
    ) {
        for name in &image.needed {
            if !seen.insert(name.clone()) {
                continue;
            }
            let is = |names: &[&str]| names.iter().any(|start| name.starts_with(start.as_bytes()));
            if is(SPEAK_PMIX) {
                self.pmix = true;
            } else if is(SPEAK_PMI) {
                self.pmi = true;
            } else if !is(PLAIN) {
                waiting.extend(image.find(path, name));
            }
        }
    }
}

/// A program or a library, as far as it matters.
struct Image {
    /// Names of libraries.
    needed: Vec<Vec<u8>>,
    /// Where to look for them first.
    folders: Vec<Vec<u8>>,
    may_start_others: bool,
}

impl Image {
    /// Reads a file; `None` if it is no program or library of this machine.
    fn read(path: &Path) -> Option<Self> {
        let cache = ReadCache::new(File::open(path).ok()?);
        let file = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
        let endian = file.endian();
        let header = file.elf_header();
        let sections = header.sections(endian, &cache).ok()?;
        let mut image = Self { needed: Vec::new(), folders: Vec::new(), may_start_others: true };
        // Without a table of libraries it is linked statically, and nobody can tell.
        let Some((table, link)) = sections.dynamic(endian, &cache).ok()? else {
            return Some(image);
        };
        let strings = sections.strings(endian, &cache, link).ok()?;
        for row in table {
            let text = || row.val32(endian).and_then(|at| strings.get(at).ok()).map(<[u8]>::to_vec);
            match row.d_tag(endian) {
                DT_NEEDED => image.needed.extend(text()),
                DT_RPATH | DT_RUNPATH => {
                    let list = text().unwrap_or_default();
                    let folders = list.split(|byte| *byte == b':').map(<[u8]>::to_vec);
                    image.folders.extend(folders);
                }
                _ => {}
            }
        }
        let imports = file.imports().ok()?;
        let starts = |name: &[u8]| STARTERS.iter().any(|start| name.starts_with(start.as_bytes()));
        let mut names = imports.filter_map(|import| match import.ok()?.name() {
            NameOrOrdinal::Name(name) => Some(name),
            NameOrOrdinal::Ordinal(_) => None,
        });
        image.may_start_others = names.any(starts);
        Some(image)
    }

    /// Where the system's loader finds a library that the file at `path` needs.
    fn find(&self, path: &Path, name: &[u8]) -> Option<PathBuf> {
        let origin = path.parent().unwrap_or(Path::new(""));
        let own = self.folders.iter().map(|folder| match folder.strip_prefix(b"$ORIGIN") {
            Some(below) => {
                origin.join(OsStr::from_bytes(below.strip_prefix(b"/").unwrap_or(below)))
            }
            None => PathBuf::from(OsStr::from_bytes(folder)),
        });
        let said = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let said: Vec<PathBuf> = std::env::split_paths(&said).collect();
        let name = OsStr::from_bytes(name);
        let places = own.chain(said).chain(FOLDERS.iter().map(PathBuf::from)).chain(configured());
        places.map(|folder| folder.join(name)).find(|file| file.is_file())
    }
}

/// Folders that an administrator has added to those of the loader.
fn configured() -> impl Iterator<Item = PathBuf> {
    let files = fs::read_dir("/etc/ld.so.conf.d").into_iter().flatten().flatten();
    let texts = files.filter_map(|file| fs::read_to_string(file.path()).ok());
    texts.flat_map(|text| {
        let lines = text.lines().map(str::trim).filter(|line| line.starts_with('/'));
        lines.map(PathBuf::from).collect::<Vec<_>>()
    })
}

/// Libraries that ask a PMIx server: Open MPI's and its own parts, and the one of PMIx.
const SPEAK_PMIX: &[&str] =
    &["libpmix.so", "libmpi.so.20", "libmpi.so.40", "libopen-rte.so", "libopen-pal.so"];

/// Libraries that ask a PMI server: MPICH's under its own name, and under the one that all that come from it
/// share; and those of PMI.
const SPEAK_PMI: &[&str] =
    &["libmpich.so", "libmpi.so.12", "libmpi_abi.so", "libpmi.so", "libpmi2.so"];

/// Libraries that every program has, and that lead nowhere.
const PLAIN: &[&str] =
    &["libc.so", "libm.so", "ld-linux", "libpthread.so", "libdl.so", "libgcc_s.so", "librt.so"];

/// What a program calls that starts others or loads libraries by name.
const STARTERS: &[&str] = &["exec", "posix_spawn", "fexecve", "dlopen", "system", "popen"];

const FOLDERS: &[&str] = &[
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
    "/usr/local/lib",
];

/// No program needs more before it comes to MPI.
const LIBRARIES_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn linked(path: &str) -> (bool, bool) {
        let Families { pmi, pmix, .. } = Families::linked(Path::new(path));
        (pmi, pmix)
    }

    #[test]
    fn what_may_start_others_is_offered_both() {
        for path in ["/bin/sh", "/usr/bin/env", "/usr/bin/ldd"] {
            assert_eq!(linked(path), (true, true), "{path}");
        }
        for path in ["/bin/true", "/bin/cat"] {
            assert_eq!(linked(path), (true, false), "{path}");
        }
    }

    #[test]
    fn what_the_user_says_holds() {
        let program = Program::new("/bin/true".into(), "true".into(), Vec::new());
        let of = |offer| {
            let Families { pmi, pmix, mpich_speaks, .. } = Families::of(&program, offer);
            (pmi, pmix, mpich_speaks)
        };
        assert_eq!(of(Offer::Auto), (true, false, None));
        assert_eq!(of(Offer::Pmi1), (true, false, Some("1")));
        assert_eq!(of(Offer::Pmi2), (true, false, Some("2")));
        assert_eq!(of(Offer::Pmix), (false, true, Some("x")));
        assert_eq!(of(Offer::All), (true, true, Some("1")));
    }
}
