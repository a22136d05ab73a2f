//! Links the program: exported symbols, the order of functions, the address at which it is loaded, and the
//! unwinder.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={LAYOUT}");
    println!("cargo:rerun-if-env-changed=RUSTC_LINKER");
    println!("cargo:rerun-if-env-changed={PIE}");
    let linker = env::var("RUSTC_LINKER");
    // Zig's linker, with which releases for older systems are linked, exports all symbols or none.
    let is_zig = linker.as_ref().is_ok_and(|linker| linker.contains("zig"));
    // Debuggers look the symbols of the MPIR interface up in the executable, stripped or not.
    let symbols = if is_zig { "--export-dynamic" } else { "--export-dynamic-symbol=MPIR_*" };
    println!("cargo:rustc-link-arg-bins=-Wl,{symbols}");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    if is_zig || !is("PROFILE", "release") || !is("CARGO_CFG_TARGET_ENV", "gnu") {
        return;
    }
    // The system maps pieces of 64 KiB around each page that is used, so functions of a run lie together.
    // Other linkers than the default one of this target do not read the script, or read it slowly.
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let is_default = linker.is_err() && !flags.contains("linker") && !flags.contains("-fuse-ld");
    let directory = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let layout = Path::new(&directory).join(LAYOUT);
    if is_default && is("TARGET", "x86_64-unknown-linux-gnu") && layout.exists() {
        println!("cargo:rustc-link-arg-bins=-Wl,-T,{}", layout.display());
    }
    // At a fixed address nothing is relocated: a relocation copies its page, in each process.
    if env::var_os(PIE).is_none() {
        println!("cargo:rustc-link-arg-bins=-no-pie");
    }
    // The loader maps one library less if the unwinder, which is used after a panic only, is in the program.
    if env::var("HOST") == env::var("TARGET")
        && let Some(directory) = directory_of_unwinder()
    {
        println!("cargo:rustc-link-search=native={directory}");
        println!("cargo:rustc-link-lib=static:-bundle=gcc_eh");
    }
}

/// Directory with the unwinder as an archive, as the C compiler has it.
fn directory_of_unwinder() -> Option<String> {
    let compiler = env::var("RUSTC_LINKER").unwrap_or_else(|_| "cc".into());
    let found = Command::new(compiler).arg("-print-file-name=libgcc_eh.a").output().ok()?;
    let file = String::from_utf8(found.stdout).ok()?;
    let file = Path::new(file.trim());
    file.is_absolute().then(|| Some(file.parent()?.to_str()?.to_owned()))?
}

/// Written by `cargo xtask layout --write`.
const LAYOUT: &str = "layout.ld";
/// Variable that keeps the program independent of its position.
const PIE: &str = "PMI_HOST_PIE";
