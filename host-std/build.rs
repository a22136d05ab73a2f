//! Exports the symbols of the MPIR interface: debuggers look them up in the executable, stripped or not.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=RUSTC_LINKER");
    // Zig's linker, with which releases for older systems are linked, exports all symbols or none.
    let is_zig = env::var("RUSTC_LINKER").is_ok_and(|linker| linker.contains("zig"));
    let symbols = if is_zig { "--export-dynamic" } else { "--export-dynamic-symbol=MPIR_*" };
    println!("cargo:rustc-link-arg-bins=-Wl,{symbols}");
}
