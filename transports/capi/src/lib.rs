//! The PMI-1 client of `pmi-core` for C programs without a C library.
//!
//! `include/pmi_client.h` is the documentation for users. This crate has two layers: [`session`] is the
//! client with its one pending call, without `unsafe`; [`ffi`] has the functions of the header, which turn
//! pointers into slices.
//!
//! ```text
//! cargo rustc -p pmi-client --release --crate-type staticlib --features panic-handler --target …
//! ```
#![no_std]

pub mod ffi;
pub mod session;

/// Reached by no call: the code of this crate and of `pmi-core` has no path to a panic, which `cargo xtask
/// sizes` checks in the images.
#[cfg(feature = "panic-handler")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
