//! Passes the memory layout of the machine to the linker.

use std::env::var;

fn main() {
    let here = var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let arch = var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    println!("cargo:rustc-link-arg=-T{here}/ld/{arch}.ld");
    println!("cargo:rustc-link-arg=-T{here}/ld/common.ld");
    if arch == "x86_64" {
        // The boot code runs before there are 64-bit addresses.
        println!("cargo:rustc-link-arg=--no-pie");
    }
    println!("cargo:rerun-if-changed=ld");
}
