//! Links the part of GNU's compiler library that walks stacks into the program, where it can be.
//!
//! Rust takes it from a shared library (`libgcc_s.so.1`), and the loader needs longer for that one than for
//! the launcher itself: the library asks the processor what it can do, which is slow under a hypervisor.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=RUSTC_LINKER");
    if is_gnu() && has_archive() {
        // All of it, and in front of the shared library, which is left out then because nobody asks for it.
        println!("cargo::rustc-link-lib=static:-bundle,+whole-archive=gcc_eh");
    }
}

/// Whether the program is for a system whose compiler library this is.
fn is_gnu() -> bool {
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu")
}

/// Whether the linker has it for that system. Nothing is lost where it has not.
fn has_archive() -> bool {
    let is_native = env::var_os("TARGET") == env::var_os("HOST");
    let linker = env::var_os("RUSTC_LINKER").or_else(|| is_native.then(|| "cc".into()));
    let found =
        linker.and_then(|cc| Command::new(cc).arg("-print-file-name=libgcc_eh.a").output().ok());
    // What it does not find it names as it was asked.
    found
        .is_some_and(|found| Path::new(String::from_utf8_lossy(&found.stdout).trim()).is_absolute())
}
