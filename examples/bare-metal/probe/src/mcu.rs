//! The microcontroller: a register for bytes, and memory that is lent once.
#![allow(dead_code, reason = "an empty image lends nothing")]
#![allow(unsafe_code, reason = "registers and lent memory are what this file is for")]

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::panic::PanicInfo;
use core::ptr::{read_volatile, write_volatile};

/// Entry point of the image; the worst path of calls is counted from here.
// SAFETY: no other symbol of the image has this name.
#[unsafe(no_mangle)]
extern "C" fn reset() -> ! {
    crate::run()
}

/// The data register of a serial line.
const DATA: usize = 0x4000_4404;

/// Takes a byte from the line.
pub(crate) fn receive() -> u8 {
    // SAFETY: the address is the device's; reading it touches no memory of the program.
    unsafe { read_volatile(DATA as *const u8) }
}

/// Puts bytes on the line.
pub(crate) fn send(bytes: &[u8]) {
    for byte in bytes {
        // SAFETY: as for `receive`.
        unsafe { write_volatile(DATA as *mut u8, *byte) };
    }
}

/// Memory with a fixed place, so that it counts as such and not as stack.
pub(crate) struct Lent<T>(UnsafeCell<T>);

// SAFETY: one core and no interrupt handlers, so no other component shares it.
unsafe impl<T> Sync for Lent<T> {}

impl<T> Lent<T> {
    /// Takes the value that the memory holds when the image starts. A value other than zero takes as much
    /// flash.
    pub(crate) const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// Lends it for good.
    #[allow(clippy::mut_from_ref, reason = "that is the purpose; each is lent once, from `run`")]
    pub(crate) fn lend(&'static self) -> &'static mut T {
        // SAFETY: `reset` is entered once and calls each `run` once, which lends each once.
        unsafe { &mut *self.0.get() }
    }
}

/// Memory that is filled while the image runs, since its initial value is not zero.
pub(crate) type Late<T> = Lent<MaybeUninit<T>>;

impl<T> Late<T> {
    pub(crate) const fn late() -> Self {
        Self::new(MaybeUninit::uninit())
    }
}

/// No part links it: the measurement fails if one does.
#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
