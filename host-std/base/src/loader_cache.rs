//! Cache of the system's loader, `/etc/ld.so.cache`: paths of libraries in the directories that an
//! administrator has configured, as ldconfig(8) has found them.
//!
//! The format is that of the GNU C library from 2.2 on, alone or behind that of older ones. Numbers are
//! those of the machine; each offset is checked, and a file of another form has no entries.

use crate::system_file;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Contents of the cache.
#[derive(Debug, Default)]
pub(crate) struct LoaderCache {
    /// From the header on, where offsets of texts begin.
    bytes: Vec<u8>,
    /// Number of entries.
    entries: usize,
}

/// An entry.
struct Entry<'a> {
    name: &'a [u8],
    path: &'a [u8],
    /// True for a variant for extensions of the processor.
    is_variant: bool,
}

impl LoaderCache {
    /// Reads the cache of this system; empty if there is none.
    pub(crate) fn read() -> Self {
        let bytes = system_file::read_bytes_bounded(FILE, LENGTH_MAX).unwrap_or_default();
        Self::parse(&bytes).unwrap_or_default()
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes = match bytes.strip_prefix(MAGIC_OLD) {
            None => bytes,
            Some(_) => {
                let entries = usize::try_from(number(bytes, OLD_COUNT_AT)?).ok()?;
                let end = entries.checked_mul(OLD_ENTRY_BYTES)?.checked_add(OLD_HEADER_BYTES)?;
                bytes.get(end.checked_next_multiple_of(8)?..)?
            }
        };
        if !bytes.starts_with(MAGIC) {
            return None;
        }
        let entries = usize::try_from(number(bytes, COUNT_AT)?).ok()?;
        Some(Self { bytes: bytes.to_vec(), entries })
    }

    /// Paths of the library `name`, in the order of the loader; those of other machines are among them.
    pub(crate) fn paths(&self, name: &str) -> Vec<PathBuf> {
        let entries = (0..self.entries).map_while(|at| self.entry(at));
        let (variants, usual): (Vec<_>, Vec<_>) = entries
            .filter(|entry| entry.name == name.as_bytes())
            .partition(|entry| entry.is_variant);
        let all = usual.into_iter().chain(variants);
        all.map(|entry| PathBuf::from(OsStr::from_bytes(entry.path))).collect()
    }

    fn entry(&self, at: usize) -> Option<Entry<'_>> {
        let start = at.checked_mul(ENTRY_BYTES)?.checked_add(HEADER_BYTES)?;
        let text = |field: usize| {
            let offset = usize::try_from(number(&self.bytes, start.checked_add(field)?)?).ok()?;
            let rest = self.bytes.get(offset..)?;
            rest.get(..rest.iter().position(|byte| *byte == 0)?)
        };
        let extensions = self.bytes.get(start.checked_add(16)?..start.checked_add(24)?)?;
        let is_variant = extensions.iter().any(|byte| *byte != 0);
        Some(Entry { name: text(4)?, path: text(8)?, is_variant })
    }
}

/// The number of four bytes at an offset.
fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let number = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(number.try_into().ok()?))
}

const FILE: &str = "/etc/ld.so.cache";

/// More than any cache has.
const LENGTH_MAX: usize = 64 << 20;

const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const COUNT_AT: usize = 20;
const HEADER_BYTES: usize = 48;
const ENTRY_BYTES: usize = 24;

const MAGIC_OLD: &[u8] = b"ld.so-1.7.0";
const OLD_COUNT_AT: usize = 12;
const OLD_HEADER_BYTES: usize = 16;
const OLD_ENTRY_BYTES: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    /// A cache with these names and paths; the extensions of an entry are its number, from 0.
    fn cache(entries: &[[&str; 2]]) -> Vec<u8> {
        let mut texts = Vec::new();
        let mut bytes = MAGIC.to_vec();
        bytes.extend(u32::try_from(entries.len()).unwrap().to_ne_bytes());
        bytes.resize(HEADER_BYTES, 0);
        let start = HEADER_BYTES + entries.len() * ENTRY_BYTES;
        for (extensions, entry) in entries.iter().enumerate() {
            bytes.extend(3_u32.to_ne_bytes());
            for text in entry {
                bytes.extend(u32::try_from(start + texts.len()).unwrap().to_ne_bytes());
                texts.extend(text.as_bytes());
                texts.push(0);
            }
            bytes.extend(0_u32.to_ne_bytes());
            bytes.extend(u64::try_from(extensions).unwrap().to_ne_bytes());
        }
        [bytes, texts].concat()
    }

    fn paths(bytes: &[u8], name: &str) -> Vec<PathBuf> {
        LoaderCache::parse(bytes).unwrap_or_default().paths(name)
    }

    #[test]
    fn cache_of_this_system_has_the_c_library() {
        let found = LoaderCache::read().paths("libc.so.6");
        assert!(found.iter().any(|path| path.is_file()), "{found:?}");
    }

    #[test]
    fn entry_for_any_processor_stands_before_variants() {
        let bytes = cache(&[["libb.so", "/b"], ["liba.so", "/v/a"], ["libb.so", "/v/b"]]);
        assert_eq!(paths(&bytes, "libb.so"), [PathBuf::from("/b"), PathBuf::from("/v/b")]);
        assert_eq!(paths(&bytes, "liba.so"), [PathBuf::from("/v/a")]);
        assert_eq!(paths(&bytes, "libc.so"), Vec::<PathBuf>::new());
    }

    #[test]
    fn cache_behind_one_of_older_loaders_is_read() {
        let mut bytes = MAGIC_OLD.to_vec();
        bytes.resize(OLD_COUNT_AT, 0);
        bytes.extend(1_u32.to_ne_bytes());
        // One entry, and up to the next multiple of eight.
        bytes.resize(32, 0xff);
        bytes.extend(cache(&[["liba.so", "/a"]]));
        assert_eq!(paths(&bytes, "liba.so"), [PathBuf::from("/a")]);
    }

    #[test]
    fn broken_cache_has_what_can_be_read_of_it() {
        let whole = cache(&[["liba.so", "/a"]]);
        for len in 0..whole.len() {
            let found = paths(&whole[..len], "liba.so");
            assert_eq!(found, Vec::<PathBuf>::new(), "{len}");
        }
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at..].iter_mut().take(8).for_each(|byte| *byte = 0xff);
            paths(&bytes, "liba.so");
        }
    }
}
