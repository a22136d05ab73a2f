//! Links the program: exported symbols, and the unwinder.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=RUSTC_LINKER");
    // Zig's linker, with which releases for older systems are linked, exports all symbols or none.
    let is_zig = env::var("RUSTC_LINKER").is_ok_and(|linker| linker.contains("zig"));
    // Debuggers look the symbols of the MPIR interface up in the executable, stripped or not.
    let symbols = if is_zig { "--export-dynamic" } else { "--export-dynamic-symbol=MPIR_*" };
    println!("cargo:rustc-link-arg-bins=-Wl,{symbols}");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    // The loader maps one library less if the unwinder, which is used after a panic only, is in the program.
    if !is_zig
        && is("PROFILE", "release")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
        && env::var("HOST") == env::var("TARGET")
        && let Some(directory) = directory_of("libgcc_eh.a")
    {
        println!("cargo:rustc-link-search=native={}", directory.display());
        println!("cargo:rustc-link-lib=static:-bundle=gcc_eh");
    }
}

/// Directory of an archive that the C compiler has.
fn directory_of(archive: &str) -> Option<PathBuf> {
    let compiler = env::var("RUSTC_LINKER").unwrap_or_else(|_| "cc".into());
    let found = Command::new(compiler).arg(format!("-print-file-name={archive}")).output().ok()?;
    let path = PathBuf::from(String::from_utf8(found.stdout).ok()?.trim());
    path.is_absolute().then(|| path.parent().map(PathBuf::from))?
}
