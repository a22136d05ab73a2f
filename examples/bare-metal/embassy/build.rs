//! Passes the memory layout of the board to the linker, where `cortex-m-rt` expects it.

use std::env::var_os;
use std::path::PathBuf;
use std::{fs, io};

fn main() -> io::Result<()> {
    let has = |feature: &str| var_os(format!("CARGO_FEATURE_{feature}")).is_some();
    let layout = if has("RP2040") { RP2040 } else { MICROBIT };
    let directory = PathBuf::from(var_os("OUT_DIR").unwrap_or_default());
    fs::write(directory.join("memory.x"), layout)?;
    println!("cargo:rustc-link-search={}", directory.display());
    println!("cargo:rustc-link-arg-bins=-Tlink.x");
    if has("RP2040") {
        println!("cargo:rustc-link-arg-bins=-Tlink-rp.x");
        println!("cargo:rustc-link-arg-bins=-Tdefmt.x");
    }
    println!("cargo:rerun-if-changed=build.rs");
    Ok(())
}

/// The second stage of the boot loader is in front of the program.
const RP2040: &str = "MEMORY {
    BOOT2 : ORIGIN = 0x10000000, LENGTH = 0x100
    FLASH : ORIGIN = 0x10000100, LENGTH = 2048K - 0x100
    RAM : ORIGIN = 0x20000000, LENGTH = 264K
}
";

/// An nRF51822 with 256 KiB of flash.
const MICROBIT: &str = "MEMORY {
    FLASH : ORIGIN = 0x00000000, LENGTH = 256K
    RAM : ORIGIN = 0x20000000, LENGTH = 16K
}
";
