//! Allocator of the executable: that of the system, with one sentence and an exit code where no memory is
//! left.
//!
//! The standard library aborts the process with several lines, and possibly a core file.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;

/// Terminates the process when the system has no memory for it. The guard terminates the ranks.
#[derive(Debug)]
pub(crate) struct Allocator;

#[allow(unsafe_code, reason = "an allocator can be replaced in no other way")]
// SAFETY: each method passes its arguments and result unchanged, or does not return.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the contract is that of this method.
        checked(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        checked(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        checked(unsafe { System.realloc(place, layout, size) }, size)
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }
}

/// Lets all threads allocate from one arena, where the C library would otherwise make one for each of them.
///
/// The threads of this program allocate little: some start ranks, one writes a file.
#[cfg(target_env = "gnu")]
#[allow(unsafe_code, reason = "the C library has no other setting for it")]
pub(crate) fn share_one_arena() {
    // SAFETY: it changes a number of the C library, before there are threads.
    unsafe {
        nix::libc::mallopt(nix::libc::M_ARENA_MAX, 1);
    }
}

/// Other C libraries have one arena.
#[cfg(not(target_env = "gnu"))]
pub(crate) const fn share_one_arena() {}

#[inline]
fn checked(place: *mut u8, size: usize) -> *mut u8 {
    if place.is_null() {
        exhausted(size);
    }
    place
}

#[cold]
#[inline(never)]
fn exhausted(size: usize) -> ! {
    let mut line = [0; 256];
    let mut rest = &mut line[..];
    // Nothing here allocates, and the text fits.
    let _ = writeln!(
        rest,
        "pmi-host: the system has no memory for {size} more bytes; start fewer ranks, or raise the limit \
         of this session ('ulimit -v') or of its control group"
    );
    let left = rest.len();
    let _ = rustix::io::write(rustix::stdio::stderr(), &line[..line.len() - left]);
    #[allow(
        unsafe_code,
        reason = "handlers of the usual exit may allocate, or wait for a lock held here"
    )]
    // SAFETY: it does not return, and no other thread can see a value of this process afterwards.
    unsafe {
        nix::libc::_exit(CODE)
    }
}

/// Exit code of a failure of the launcher itself.
const CODE: i32 = 1;
