//! Libraries that a program is linked with, found without running it.
//!
//! The search follows the system's loader: the paths of the program itself, `LD_LIBRARY_PATH`, the
//! directories of the distribution and of `/etc/ld.so.conf`. Libraries that a program loads while it
//! runs are not seen, nor statically linked ones.

use crate::system_file;
use crate::user_file;
use object::elf::{
    DT_NEEDED, DT_RPATH, DT_RUNPATH, FileHeader32, FileHeader64, PT_INTERP, SHT_DYNSYM,
};
use object::read::elf::{
    ElfFile64, ElfSymbol64, FileHeader, ProgramHeader, SectionHeader, SectionTable, Sym,
};
use object::{
    Endianness, FileKind, Object, ObjectSegment, ObjectSymbol, ReadCache, ReadRef, SectionIndex,
    SymbolKind,
};
use std::cell::OnceCell;
use std::collections::{BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::{env, fmt};

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
    /// Libraries of `program`. `None` for a script, or a program for another machine.
    pub fn of(program: &Path) -> Option<Self> {
        Self::found_by(program, &Search::default())
    }

    /// The same, with another list of directories than that of the environment.
    pub fn found_by(program: &Path, search: &Search) -> Option<Self> {
        let mut all = Self::default();
        let mut queue: VecDeque<Image> = [Image::read(program)?].into();
        let mut seen: BTreeSet<String> = BTreeSet::new();
        while let Some(image) = queue.pop_front() {
            for name in image.needed.iter().filter(|name| !seen.contains(*name)) {
                match search.find(name, &image) {
                    Some(path) => {
                        queue.extend(Image::read(&path));
                        all.found.push(Library { name: name.clone(), path });
                    }
                    None => all.missing.push(name.clone()),
                }
            }
            seen.extend(image.needed);
            if seen.len() > LIBRARIES_MAX {
                break;
            }
        }
        let mut once = BTreeSet::new();
        all.found.retain(|library| once.insert(library.name.clone()));
        Some(all)
    }

    /// The library of MPI itself, if there is one.
    pub fn mpi(&self) -> Option<&Library> {
        let is_mpi = |name: &str| MPI.iter().any(|start| name.starts_with(start));
        self.found.iter().find(|library| is_mpi(&library.name))
    }

    /// MPI implementation.
    pub fn family(&self) -> Option<Family> {
        let mpi = self.mpi()?;
        // A library of the standard's binary interface may stand before that of its implementation.
        let all = self.found.iter().map(|library| &*library.name).chain([&*mpi.name]);
        Some(Family::of(all))
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

/// A program or a library, with its list of needed libraries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Names of libraries, in the order in which they are loaded; empty if statically linked.
    pub needed: Vec<String>,
    /// Directories to search before those of the user.
    first: Vec<PathBuf>,
    /// Directories to search after those of the user.
    then: Vec<PathBuf>,
}

impl Image {
    /// Reads a file; `None` if it is not a program or library.
    pub fn read(path: &Path) -> Option<Self> {
        // Programs can be large, and only a few pages of this one are read.
        let cache = ReadCache::new(user_file::open_program(path).ok()?);
        let entries = match FileKind::parse(&cache).ok()? {
            FileKind::Elf64 => entries::<FileHeader64<Endianness>, _>(&cache),
            FileKind::Elf32 => entries::<FileHeader32<Endianness>, _>(&cache),
            _ => None,
        }?;
        let of = |wanted| entries.iter().filter(move |(tag, _)| *tag == wanted);
        let directory = path.parent().unwrap_or(Path::new("."));
        let paths = |wanted| -> Vec<PathBuf> {
            let lists = of(wanted).map(|(_, list)| origin(list, directory));
            lists.flat_map(|list| env::split_paths(&list).collect::<Vec<_>>()).collect()
        };
        let then = paths(DT_RUNPATH.0);
        Some(Self {
            needed: of(DT_NEEDED.0).map(|(_, name)| name.to_string_lossy().into_owned()).collect(),
            // `DT_RPATH` is ignored beside the newer `DT_RUNPATH`.
            first: if then.is_empty() { paths(DT_RPATH.0) } else { Vec::new() },
            then,
        })
    }
}

/// The MPI library of a program and its family, with less effort than [`Libraries::of`] for one that needs
/// the C library alone.
pub fn mpi_of(program: &Path) -> Option<(Library, Family)> {
    let image = Image::read(program)?;
    let is_plain = |name: &String| PLAIN.iter().any(|start| name.starts_with(start));
    if image.needed.iter().all(is_plain) {
        return None;
    }
    let libraries = Libraries::of(program)?;
    Some((libraries.mpi()?.clone(), libraries.family()?))
}

/// Program that loads a binary and its libraries, as the file names it; `None` for one that is linked
/// statically, and for a file of another kind.
///
/// Spec: System V ABI, Program Header, `PT_INTERP`.
pub fn loader(program: &Path) -> Option<PathBuf> {
    let cache = ReadCache::new(user_file::open_program(program).ok()?);
    match FileKind::parse(&cache).ok()? {
        FileKind::Elf64 => loader_in::<FileHeader64<Endianness>, _>(&cache),
        FileKind::Elf32 => loader_in::<FileHeader32<Endianness>, _>(&cache),
        _ => None,
    }
}

fn loader_in<'data, Elf, R>(data: R) -> Option<PathBuf>
where
    Elf: FileHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    let header = Elf::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let mut segments = header.program_headers(endian, data).ok()?.iter();
    let segment = segments.find(|segment| segment.p_type(endian) == PT_INTERP)?;
    let path = segment.data(endian, data).ok()?.split(|byte| *byte == 0).next()?;
    Some(PathBuf::from(OsStr::from_bytes(path)))
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
    is_own && has_symbol(path, Symbols::Defined, &|name| name == SINCE_MPICH_4_1).unwrap_or(false)
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

/// Name of the function that contains the byte at `offset` of the file at `path`, from the symbols that the
/// dynamic linker uses and, where the file has them, from all others.
///
/// `None` if the file is not readable, is no program of 64 bits, or names no function before that byte.
pub fn function_at(path: &Path, offset: u64) -> Option<String> {
    let data = user_file::read_program(path).ok()?;
    let file = ElfFile64::<Endianness>::parse(&*data).ok()?;
    let address = file.segments().find_map(|segment| {
        let (start, len) = segment.file_range();
        let within = offset.checked_sub(start).filter(|within| *within < len)?;
        segment.address().checked_add(within)
    })?;
    let is_before = |symbol: &ElfSymbol64<'_, '_>| {
        symbol.kind() == SymbolKind::Text
            && symbol.is_definition()
            && symbol.address() <= address
            && address - symbol.address() < symbol.size().max(1)
    };
    let found = file.symbols().chain(file.dynamic_symbols()).find(is_before)?;
    found.name().ok().map(str::to_owned)
}

/// Symbols of a file: imported or defined ones.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Symbols {
    Used,
    Defined,
}

/// True if one of the symbols of a file matches. `None` if the file has no such symbols.
fn has_symbol(path: &Path, which: Symbols, is: &dyn Fn(&[u8]) -> bool) -> Option<bool> {
    let cache = ReadCache::new(user_file::open_program(path).ok()?);
    match FileKind::parse(&cache).ok()? {
        FileKind::Elf64 => any_symbol::<FileHeader64<Endianness>, _>(&cache, which, is),
        FileKind::Elf32 => any_symbol::<FileHeader32<Endianness>, _>(&cache, which, is),
        _ => None,
    }
}

fn any_symbol<'data, Elf, R>(data: R, which: Symbols, is: &dyn Fn(&[u8]) -> bool) -> Option<bool>
where
    Elf: FileHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    let header = Elf::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, data).ok()?;
    let symbols = sections.symbols(endian, data, SHT_DYNSYM).ok()?;
    let names = names_in::<Elf, R>(&sections, symbols.string_section(), endian, data)?;
    let is_used = which == Symbols::Used;
    let of = symbols.iter().filter(|symbol| symbol.is_undefined(endian) == is_used);
    let of = of.filter_map(|symbol| name_at(names, symbol.st_name(endian).into()));
    let mut of = of.filter(|name| !name.is_empty());
    let first = of.next()?;
    Some(is(first) || of.any(is))
}

/// All dynamic entries with string values.
fn entries<'data, Elf, R>(data: R) -> Option<Vec<(i64, OsString)>>
where
    Elf: FileHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    let header = Elf::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, data).ok()?;
    let table = sections.dynamic_table(endian, data).ok()?;
    let names = match sections.dynamic(endian, data).ok()? {
        Some((_, names)) => names_in::<Elf, R>(&sections, names, endian, data)?,
        None => &[],
    };
    let texts = table.iter().filter(|entry| entry.is_string()).filter_map(|entry| {
        let text = name_at(names, entry.val)?;
        Some((entry.tag.0, OsString::from_vec(text.to_vec())))
    });
    Some(texts.collect())
}

/// All strings of a section at once: reading them one by one would take longer than all else.
fn names_in<'data, Elf, R>(
    sections: &SectionTable<'data, Elf, R>,
    section: SectionIndex,
    endian: Endianness,
    data: R,
) -> Option<&'data [u8]>
where
    Elf: FileHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    sections.section(section).ok()?.data(endian, data).ok()
}

/// The string at an offset of a string table.
fn name_at(names: &[u8], place: u64) -> Option<&[u8]> {
    names.get(usize::try_from(place).ok()?..)?.split(|byte| *byte == 0).next()
}

/// Directories in the list of a file, with `$ORIGIN` resolved.
fn origin(list: &OsStr, directory: &Path) -> OsString {
    let text = list.to_string_lossy();
    let directory = directory.to_string_lossy();
    OsString::from(text.replace("${ORIGIN}", &directory).replace("$ORIGIN", &directory))
}

/// Search path of the loader.
#[derive(Debug)]
pub struct Search {
    user: Vec<PathBuf>,
    /// Directories configured by an administrator. Rarely needed, so read on first use.
    configured: OnceCell<Vec<PathBuf>>,
}

impl Search {
    /// Takes the directories of the user from `list`, which has the form of `LD_LIBRARY_PATH`.
    pub fn of(list: &OsStr) -> Self {
        let user = env::split_paths(list).filter(|path| !path.as_os_str().is_empty()).collect();
        Self { user, configured: OnceCell::new() }
    }

    /// Finds the library `name` that `image` needs.
    pub fn find(&self, name: &str, image: &Image) -> Option<PathBuf> {
        if name.contains('/') {
            return Some(PathBuf::from(name)).filter(|path| path.is_file());
        }
        let there = |directory: &Path| Some(directory.join(name)).filter(|path| path.is_file());
        let said = [&image.first, &self.user, &image.then].into_iter().flatten();
        said.map(PathBuf::as_path).chain(DIRECTORIES.iter().map(Path::new)).find_map(there).or_else(
            || {
                let configured =
                    self.configured.get_or_init(|| configured(Path::new("/etc/ld.so.conf"), 0));
                configured.iter().find_map(|directory| there(directory))
            },
        )
    }
}

impl Default for Search {
    /// Takes the directories of the user from the environment.
    fn default() -> Self {
        Self::of(&env::var_os("LD_LIBRARY_PATH").unwrap_or_default())
    }
}

/// Directories named by a configuration file of the loader and by the files it includes.
fn configured(file: &Path, depth: u32) -> Vec<PathBuf> {
    let text = system_file::read(file).unwrap_or_default();
    let mut directories = Vec::new();
    for line in text.split(|byte| *byte == b'\n') {
        let line = line.split(|byte| *byte == b'#').next().unwrap_or_default().trim_ascii();
        match line.strip_prefix(b"include ") {
            Some(pattern) if depth < INCLUDES_MAX => {
                let pattern = Path::new(OsStr::from_bytes(pattern.trim_ascii()));
                for file in included(pattern) {
                    directories.extend(configured(&file, depth + 1));
                }
            }
            Some(_) => {}
            None if line.is_empty() => {}
            None => directories.push(PathBuf::from(OsStr::from_bytes(line))),
        }
    }
    directories
}

/// Files that match a pattern: one file, or all with its suffix in a directory.
fn included(pattern: &Path) -> Vec<PathBuf> {
    let (Some(directory), Some(name)) = (pattern.parent(), pattern.file_name()) else {
        return Vec::new();
    };
    let Some(ending) = name.as_bytes().strip_prefix(b"*") else { return vec![pattern.to_owned()] };
    let entries = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    let is = |path: &PathBuf| path.as_os_str().as_bytes().ends_with(ending);
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is).collect();
    files.sort_unstable();
    files
}

/// Library directories of distributions.
const DIRECTORIES: &[&str] = &[
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

/// Prefixes of the names of MPI libraries.
pub const MPI: &[&str] = &["libmpi.so", "libmpich.so", ABI];

/// Prefix of the name of libraries with the standard's binary interface, which all implementations share.
pub const ABI: &str = "libmpi_abi.so";

/// Libraries that every program has, without further relevant ones.
pub const PLAIN: &[&str] =
    &["libc.so", "libm.so", "ld-linux", "libpthread.so", "libdl.so", "libgcc_s.so", "librt.so"];

/// A function of MPICH from 4.1 on that its derivatives lack.
const SINCE_MPICH_4_1: &[u8] = b"MPIX_Stream_create";

/// The function by which the C libraries of this project are recognised.
const VERSION_OF_OWN_CLIENTS: &[u8] = b"pmi_capi_version";

/// The function of Intel MPI that yields the processor; other derivatives of MPICH lack it.
const YIELD_OF_INTEL: &[u8] = b"I_MPI_PW_Sched_yield";

/// More than any program has.
const LIBRARIES_MAX: usize = 512;

/// Bound for configuration files that include each other.
const INCLUDES_MAX: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn function_of_this_program_is_found_by_its_place() {
        let own = env::current_exe().unwrap();
        let data = fs::read(&own).unwrap();
        let file = ElfFile64::<Endianness>::parse(&*data).unwrap();
        let is_main = |symbol: &ElfSymbol64<'_, '_>| symbol.name() == Ok("main");
        let main = file.symbols().find(is_main).unwrap();
        let holds = |segment: &object::read::elf::ElfSegment64<'_, '_>| {
            (segment.address()..segment.address() + segment.size()).contains(&main.address())
        };
        let code = file.segments().find(holds).unwrap();
        let offset = main.address() - code.address() + code.file_range().0;
        assert_eq!(function_at(&own, offset).as_deref(), Some("main"));
        assert_eq!(function_at(&own, offset + main.size() - 1).as_deref(), Some("main"));
        assert_eq!(function_at(&own, u64::MAX), None);
        assert_eq!(function_at(Path::new("/etc/hostname"), 0), None);
    }

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

    #[test]
    fn files_of_the_loader_include_others() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        fs::create_dir(directory.join("conf.d")).unwrap();
        let main = directory.join("ld.so.conf");
        let shown = directory.display();
        fs::write(
            &main,
            format!("# directories\n/first\ninclude {shown}/conf.d/*.conf\n/last # here\n"),
        )
        .unwrap();
        fs::write(
            directory.join("conf.d/a.conf"),
            format!("/second\ninclude {shown}/ld.so.conf\n"),
        )
        .unwrap();
        fs::write(directory.join("conf.d/b.txt"), "/never\n").unwrap();
        let found = configured(&main, 0);
        assert_eq!(found[..2], [PathBuf::from("/first"), PathBuf::from("/second")]);
        assert!(
            found.contains(&PathBuf::from("/last")) && !found.contains(&PathBuf::from("/never"))
        );
    }
}
