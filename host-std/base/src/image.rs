//! Programs and libraries as files: what they need, where it is to be searched, their functions.
//!
//! A file may be broken, or made to mislead: a table is read only up to a length that no program reaches, and
//! all of it is checked before it is used.

use crate::user_file;
use object::elf::{
    DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_SONAME, FileHeader32, FileHeader64, PT_INTERP, SHT_DYNSYM,
};
use object::read::elf::{
    ElfFile64, ElfSymbol64, FileHeader, ProgramHeader, SectionHeader, SectionTable, Sym,
};
use object::{
    Endianness, FileKind, Object, ObjectSegment, ObjectSymbol, ReadCache, ReadRef, SectionIndex,
    SymbolKind,
};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// A program or a library, with its list of needed libraries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Names of libraries, in the order in which they are loaded; empty if statically linked.
    pub needed: Vec<String>,
    /// Name by which others need it (`DT_SONAME`).
    pub name: Option<String>,
    pub(crate) path: PathBuf,
    /// Machine for which it is made.
    pub(crate) machine: Machine,
    /// Lists of directories to search before those of the user (`DT_RPATH`).
    pub(crate) first: Vec<OsString>,
    /// Lists of directories to search after those of the user (`DT_RUNPATH`).
    pub(crate) then: Vec<OsString>,
}

/// Kind of machine for which a program or library is made; a loader passes over libraries for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    is_64: bool,
    /// Spec: System V ABI, ELF Header, `e_machine`.
    number: u16,
}

/// Entries of the dynamic section with text, and the machine.
struct Contents {
    machine: Machine,
    texts: Vec<(i64, OsString)>,
}

impl Image {
    /// Reads a file; `None` if it is not a program or library.
    pub fn read(path: &Path) -> Option<Self> {
        // Programs can be large, and only a few pages of this one are read.
        let cache = ReadCache::new(user_file::open_program(path).ok()?);
        let data = Bounded(&cache);
        let Contents { machine, texts } = match FileKind::parse(data).ok()? {
            FileKind::Elf64 => contents::<FileHeader64<Endianness>, _>(data, true),
            FileKind::Elf32 => contents::<FileHeader32<Endianness>, _>(data, false),
            _ => None,
        }?;
        let of = |wanted| texts.iter().filter(move |(tag, _)| *tag == wanted).map(|(_, text)| text);
        let text = |text: &OsString| text.to_string_lossy().into_owned();
        let then: Vec<OsString> = of(DT_RUNPATH.0).cloned().collect();
        Some(Self {
            needed: of(DT_NEEDED.0).map(text).collect(),
            name: of(DT_SONAME.0).map(text).next(),
            path: path.to_owned(),
            machine,
            // `DT_RPATH` is ignored beside the newer `DT_RUNPATH`.
            first: if then.is_empty() { of(DT_RPATH.0).cloned().collect() } else { Vec::new() },
            then,
        })
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// A file of which no single read is longer than the tables of a program: its headers may claim any length,
/// and a file with holes has it.
#[derive(Clone, Copy)]
struct Bounded<'data>(&'data ReadCache<File>);

impl<'data> ReadRef<'data> for Bounded<'data> {
    fn len(self) -> Result<u64, ()> {
        self.0.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'data [u8], ()> {
        match size <= TABLE_MAX {
            true => self.0.read_bytes_at(offset, size),
            false => Err(()),
        }
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'data [u8], ()> {
        self.0.read_bytes_at_until(range, delimiter)
    }
}

/// Program that loads a binary and its libraries, as the file names it; `None` for one that is linked
/// statically, and for a file of another kind.
///
/// Spec: System V ABI, Program Header, `PT_INTERP`.
pub fn loader(program: &Path) -> Option<PathBuf> {
    let cache = ReadCache::new(user_file::open_program(program).ok()?);
    let data = Bounded(&cache);
    match FileKind::parse(data).ok()? {
        FileKind::Elf64 => loader_in::<FileHeader64<Endianness>, _>(data),
        FileKind::Elf32 => loader_in::<FileHeader32<Endianness>, _>(data),
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
pub(crate) enum Symbols {
    Used,
    Defined,
}

/// True if one of the symbols of a file matches. `None` if the file has no such symbols.
pub(crate) fn has_symbol(path: &Path, which: Symbols, is: &dyn Fn(&[u8]) -> bool) -> Option<bool> {
    let cache = ReadCache::new(user_file::open_program(path).ok()?);
    let data = Bounded(&cache);
    match FileKind::parse(data).ok()? {
        FileKind::Elf64 => any_symbol::<FileHeader64<Endianness>, _>(data, which, is),
        FileKind::Elf32 => any_symbol::<FileHeader32<Endianness>, _>(data, which, is),
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

/// All dynamic entries with string values, and the machine.
fn contents<'data, Elf, R>(data: R, is_64: bool) -> Option<Contents>
where
    Elf: FileHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    let header = Elf::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let machine = Machine { is_64, number: header.e_machine(endian).0 };
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
    Some(Contents { machine, texts: texts.take(ENTRIES_MAX).collect() })
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

/// Longest table of a program, of its symbols or their names: programs with the most of them have a fifth.
const TABLE_MAX: u64 = 512 << 20;

/// More entries than any program has.
const ENTRIES_MAX: usize = 4096;

#[cfg(test)]
pub(crate) mod made {
    //! Files for tests: a program or library with a dynamic section, and nothing else.

    use object::elf::{
        DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_SONAME, EM_X86_64, ET_DYN, SHT_DYNAMIC, SHT_STRTAB,
    };

    /// Contents of such a file.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Made<'a> {
        pub(crate) needed: &'a [&'a str],
        pub(crate) name: Option<&'a str>,
        pub(crate) rpath: Option<&'a str>,
        pub(crate) runpath: Option<&'a str>,
        pub(crate) machine: u16,
    }

    impl Default for Made<'_> {
        fn default() -> Self {
            Self { needed: &[], name: None, rpath: None, runpath: None, machine: EM_X86_64.0 }
        }
    }

    impl Made<'_> {
        pub(crate) fn bytes(&self) -> Vec<u8> {
            let mut texts = vec![0_u8];
            let mut entries: Vec<[u64; 2]> = Vec::new();
            let needed = self.needed.iter().map(|name| (DT_NEEDED.0, Some(*name)));
            let others =
                [(DT_SONAME.0, self.name), (DT_RPATH.0, self.rpath), (DT_RUNPATH.0, self.runpath)];
            for (tag, text) in needed.chain(others) {
                if let Some(text) = text {
                    entries.push([tag.cast_unsigned(), texts.len() as u64]);
                    texts.extend(text.as_bytes());
                    texts.push(0);
                }
            }
            entries.push([0, 0]);
            texts.resize(texts.len().next_multiple_of(8), 0);
            let dynamic_at = HEADER + texts.len() as u64;
            let dynamic_len = entries.len() as u64 * 16;
            let sections_at = dynamic_at + dynamic_len;
            let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
            bytes.resize(16, 0);
            bytes.extend([ET_DYN.0, self.machine].map(u16::to_le_bytes).concat());
            bytes.extend(1_u32.to_le_bytes());
            bytes.extend([0, 0, sections_at].map(u64::to_le_bytes).concat());
            bytes.extend(0_u32.to_le_bytes());
            // Lengths of headers, and three sections.
            bytes.extend([64_u16, 0, 0, 64, 3, 1].map(u16::to_le_bytes).concat());
            bytes.extend(texts.iter());
            bytes.extend(entries.iter().flatten().flat_map(|number| number.to_le_bytes()));
            bytes.resize(bytes.len() + 64, 0);
            bytes.extend(section(SHT_STRTAB.0, [HEADER, texts.len() as u64], 0));
            bytes.extend(section(SHT_DYNAMIC.0, [dynamic_at, dynamic_len], 1));
            bytes
        }
    }

    /// Header of a section of this kind, with its place and length, and the number of its texts.
    fn section(kind: u32, range: [u64; 2], texts: u32) -> Vec<u8> {
        let start = [0, kind].map(u32::to_le_bytes).concat();
        let middle = [0, 0, range[0], range[1]].map(u64::to_le_bytes).concat();
        let links = [texts, 0].map(u32::to_le_bytes).concat();
        let end = [8, 16].map(u64::to_le_bytes).concat();
        [start, middle, links, end].concat()
    }

    const HEADER: u64 = 64;
}

#[cfg(test)]
mod tests {
    use super::made::Made;
    use super::*;
    use std::io::{Seek, SeekFrom, Write};
    use std::time::{Duration, Instant};
    use std::{env, fs};

    #[test]
    fn paths_of_the_older_kind_count_without_those_of_the_newer() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let made =
            Made { needed: &["liba.so"], name: Some("me"), rpath: Some("/r"), ..Made::default() };
        fs::write(file.path(), made.bytes()).unwrap();
        let image = Image::read(file.path()).unwrap();
        assert_eq!(
            (&*image.needed, image.name.as_deref()),
            (&["liba.so".to_owned()][..], Some("me"))
        );
        assert_eq!((image.first, image.then.len()), (vec![OsString::from("/r")], 0));
        fs::write(file.path(), Made { runpath: Some("/u"), ..made }.bytes()).unwrap();
        let image = Image::read(file.path()).unwrap();
        assert_eq!((image.first.len(), image.then), (0, vec![OsString::from("/u")]));
    }

    #[test]
    fn broken_file_is_no_program_or_has_what_can_be_read_of_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let made = Made { needed: &["liba.so", "libb.so"], ..Made::default() }.bytes();
        for len in 0..made.len() {
            fs::write(file.path(), &made[..len]).unwrap();
            assert!(Image::read(file.path()).is_none_or(|image| image.needed.len() <= 2), "{len}");
        }
        for at in 0..made.len() {
            let mut bytes = made.clone();
            bytes[at..].iter_mut().take(8).for_each(|byte| *byte = 0xff);
            fs::write(file.path(), &bytes).unwrap();
            // Returns, whatever it finds.
            let _ = Image::read(file.path());
            let _ = has_symbol(file.path(), Symbols::Used, &|_| true);
        }
    }

    #[test]
    fn table_as_long_as_a_file_with_holes_is_not_read() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut bytes = Made { needed: &["liba.so"], ..Made::default() }.bytes();
        // The length of the texts in the header of their section, the second but one.
        let at = bytes.len() - 128 + 32;
        let len_bytes = 1_u64 << 40;
        bytes[at..at + 8].copy_from_slice(&len_bytes.to_le_bytes());
        file.write_all(&bytes).unwrap();
        file.as_file_mut().seek(SeekFrom::Start(2 * len_bytes)).unwrap();
        file.write_all(&[0]).unwrap();
        let since = Instant::now();
        assert_eq!(Image::read(file.path()), None);
        assert!(since.elapsed() < Duration::from_secs(5));
    }

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
}
