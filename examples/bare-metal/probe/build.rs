//! Passes the memory layout to the linker.

fn main() {
    let here = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    println!("cargo:rustc-link-arg=-T{here}/probe.ld");
    println!("cargo:rerun-if-changed=probe.ld");
}
