//! Memory that the loader has filled, memory that is lent once, and the stack.

use core::cell::UnsafeCell;
#[cfg(not(target_arch = "x86_64"))]
use core::slice;
use core::sync::atomic::{AtomicBool, Ordering};

/// Memory with a fixed place, lent once.
pub(crate) struct Lent<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is lent to a single caller, and there is one processor.
unsafe impl<T> Sync for Lent<T> {}

impl<T> Lent<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Lends it permanently. A second call is a bug of the guest and panics.
    #[allow(clippy::mut_from_ref, reason = "that is the purpose")]
    pub(crate) fn lend(&'static self) -> &'static mut T {
        // Load and store instead of an exchange: there is one processor, and no interrupt.
        assert!(!self.taken.load(Ordering::Relaxed), "memory is lent once");
        self.taken.store(true, Ordering::Relaxed);
        // SAFETY: this line is reached once for each value.
        unsafe { &mut *self.value.get() }
    }
}

/// A text that ends with a zero byte.
#[cfg(target_arch = "x86_64")]
pub(crate) fn text(at: *const u8) -> Option<&'static [u8]> {
    if at.is_null() {
        return None;
    }
    // SAFETY: the loader has written a text there, and it is not modified any more.
    Some(unsafe { core::ffi::CStr::from_ptr(at.cast()) }.to_bytes())
}

/// The device tree at `at`, if there is one.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn device_tree(at: *const u8) -> Option<&'static [u8]> {
    const MAGIC: [u8; 4] = [0xd0, 0x0d, 0xfe, 0xed];
    if at.is_null() {
        return None;
    }
    // SAFETY: memory of this machine, aligned by its loader; it is not modified any more.
    let head = unsafe { slice::from_raw_parts(at, 8) };
    let size = head.strip_prefix(&MAGIC)?.try_into().map(u32::from_be_bytes).ok()?;
    // SAFETY: as above, and the tree contains its own length.
    Some(unsafe { slice::from_raw_parts(at, size as usize) })
}

unsafe extern "C" {
    static mut bss_start: u8;
    static mut bss_end: u8;
    static mut stack_bottom: u8;
    static mut stack_top: u8;
}

/// Fills the part of the stack that is unused so far.
// Not inlined: its own frame must lie below everything that its caller keeps on the stack.
#[inline(never)]
pub(crate) fn paint_stack() {
    let here = 0u8;
    // Below this frame, with room for what the loop itself may need.
    let end = &raw const here as usize - 512;
    for at in &raw mut stack_bottom as usize..end {
        // SAFETY: below the frame in use and above the end of the stack.
        unsafe { (at as *mut u8).write_volatile(PAINT) };
    }
}

/// Number of bytes of the stack that were ever used.
pub(crate) fn stack_used() -> usize {
    let (low, high) = (&raw const stack_bottom as usize, &raw const stack_top as usize);
    // SAFETY: the addresses are those of the stack.
    let is_painted = |at: &usize| unsafe { (*at as *const u8).read_volatile() } == PAINT;
    high - low - (low..high).take_while(is_painted).count()
}

/// Number of bytes of statics that are not in the image.
pub(crate) fn statics() -> usize {
    &raw const bss_end as usize - &raw const bss_start as usize
}

const PAINT: u8 = 0xa5;
