//! `libpmi_c_client.a`: the functions of `pmi_client.h` for a target without an operating system.
#![no_std]

pub use pmi_client::ffi;
