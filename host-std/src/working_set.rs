//! Working set: pages of the program and of its libraries that are mapped into this process.
//!
//! Starting ranks needs other functions than serving them, and the system keeps mapped all that were ever
//! called, in pieces of 64 KiB around each page. They count as memory of the launcher for as long as it runs.
//! [`trim`] unmaps them between two phases of a run; a page that is used again is mapped again from the
//! system's cache, some microseconds for each piece.

use pmi_host_base::system_file;
use rustix::fs::OFlags;
use rustix::mm::{Advice, madvise};
use std::io::{self, BufRead, BufReader};
use std::ops::Range;

/// Unmaps the pages that a finished phase of a run of this many ranks needed. With few ranks, their memory
/// counts for less than the time, some 0.2 ms.
pub(crate) fn trim_for(ranks: u32) {
    if ranks >= TRIMMED_FROM {
        trim();
    }
}

/// Unmaps pages of files that this process has not changed, and pages of the stack that earlier calls used.
///
/// A mapping with a page that was changed is left out: a debugger has set a breakpoint, or the loader has
/// written addresses. Without `/proc` nothing is unmapped.
#[cold]
#[inline(never)]
pub(crate) fn trim() {
    let Ok(mappings) = system_file::open("/proc/self/smaps", OFlags::RDONLY) else { return };
    let frame = 0_u8;
    let unused = (&raw const frame).addr().saturating_sub(CALLS_BYTES);
    // Each mapping is unmapped when its description was read, so that none is kept in memory.
    let _ = for_each_unneeded(BufReader::with_capacity(LINES_BYTES, mappings), unused, unmap);
}

/// Unmaps the pages at these addresses.
#[allow(unsafe_code, reason = "the functions of rustix for memory take addresses")]
fn unmap(pages: Range<usize>) {
    let start = std::ptr::without_provenance_mut(pages.start);
    // SAFETY: the pages in this range are unchanged, private ones of a file, which have the same content when
    // they are mapped again, or lie below the frames of all functions that are being executed. A failure
    // leaves them mapped.
    let _ = unsafe { madvise(start, pages.len(), Advice::LinuxDontNeed) };
}

/// Calls `handle` with the addresses of each private mapping of a file, readable but not writable, that has
/// no page of its own, and with those of the stack of the first thread below `unused`, if that is on it.
fn for_each_unneeded(
    lines: impl BufRead,
    unused: usize,
    mut handle: impl FnMut(Range<usize>),
) -> io::Result<()> {
    let mut mapping = None;
    for line in lines.split(b'\n') {
        let line = line?;
        // The path at the end of a head need not be text.
        let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
        match words.next() {
            Some(b"Anonymous:") => {
                if let (Some(pages), Some(b"0")) = (mapping.take(), words.next()) {
                    handle(pages);
                }
            }
            Some(addresses) if addresses.contains(&b'-') => {
                let is_constant = words
                    .next()
                    .is_some_and(|access| matches!(access, [b'r', b'-', b'-' | b'x', b'p']));
                let path = words.nth(3).unwrap_or_default();
                let pages = range(addresses);
                if let Some(stack) = pages.clone().filter(|pages| pages.contains(&unused))
                    && path == b"[stack]"
                {
                    handle(stack.start..unused - unused % PAGE_BYTES);
                }
                mapping = pages.filter(|_| is_constant && path.starts_with(b"/"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Reads `START-END`, in hexadecimal digits.
fn range(addresses: &[u8]) -> Option<Range<usize>> {
    let (start, end) = std::str::from_utf8(addresses).ok()?.split_once('-')?;
    Some(usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?)
}

/// Number of ranks whose starts take a hundred times as long as a [`trim`].
const TRIMMED_FROM: u32 = 128;

/// Room on the stack for calls of [`trim`], which are not among its callers.
const CALLS_BYTES: usize = 16 << 10;

/// Smallest size of a page. Where pages are larger, the call for an address between two of them fails.
const PAGE_BYTES: usize = 4096;

/// Size of the buffer for descriptions of mappings.
const LINES_BYTES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    /// A mapping as `/proc/self/smaps` describes it.
    fn mapping(addresses: &str, access: &str, path: &str, anonymous: &str) -> String {
        format!(
            "{addresses} {access} 00000000 fe:00 17 {path}\nSize: 8 kB\nAnonymous: {anonymous} kB\n\
             VmFlags: rd mr mw me\n"
        )
    }

    #[test]
    fn only_unchanged_mappings_of_files_and_unused_stack_are_found() {
        let text = [
            mapping("1000-2000", "r-xp", "/usr/bin/pmi host", "0"),
            mapping("2000-3000", "r-xp", "/usr/bin/pmi-host", "4"),
            mapping("3000-4000", "rw-p", "/usr/bin/pmi-host", "0"),
            mapping("4000-5000", "r--s", "/dev/shm/x", "0"),
            mapping("5000-6000", "r--p", "/lib/libc.so.6", "0"),
            mapping("6000-7000", "r-xp", "[vdso]", "0"),
            mapping("7000-8000", "r--p", "", "0"),
            mapping("10000-20000", "rw-p", "[stack]", "64"),
        ]
        .concat();
        let mut found = Vec::new();
        for_each_unneeded(text.as_bytes(), 0x18765, |pages| found.push(pages)).unwrap();
        assert_eq!(found, [0x1000..0x2000, 0x5000..0x6000, 0x10000..0x18000]);
        // That is on the stack of another thread.
        for_each_unneeded(text.as_bytes(), 0x28765, |pages| found.push(pages)).unwrap();
        assert_eq!(found[3..], [0x1000..0x2000, 0x5000..0x6000]);
    }

    #[test]
    fn functions_and_constants_stay_usable() {
        let sum = |words: &[&str]| words.iter().map(|word| word.len()).sum::<usize>();
        let words = ["pages", "come", "back"];
        let before = (sum(&words), format!("{:?}", std::time::Duration::from_secs(7)));
        trim();
        assert_eq!((sum(&words), format!("{:?}", std::time::Duration::from_secs(7))), before);
        // The pages of this function are among the clean ones, as the test runs without a debugger.
        let mappings = File::open("/proc/self/smaps").unwrap();
        let at = functions_and_constants_stay_usable as *const () as usize;
        let mut contains = false;
        for_each_unneeded(BufReader::new(mappings), 0, |pages| contains |= pages.contains(&at))
            .unwrap();
        assert!(contains);
    }
}
