//! Exports the symbols of the MPIR interface: debuggers look them up in the executable, stripped or not.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-arg-bins=-Wl,--export-dynamic-symbol=MPIR_*");
}
