//! Links the program: exported symbols, the order of functions, the address at which it is loaded, and the
//! libraries of C.

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
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
    let is_fixed = env::var_os(PIE).is_none();
    if is_fixed {
        println!("cargo:rustc-link-arg-bins=-no-pie");
    }
    if env::var("HOST") != env::var("TARGET") {
        return;
    }
    // Without the loader and the mappings of its libraries, a start takes less time and memory.
    let is_usual = is("CARGO_CFG_TARGET_ARCH", "x86_64")
        && !["sanitizer", "prefer-dynamic"].iter().any(|flag| flags.contains(flag));
    let features = env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    let has_static_libraries = features.split(',').any(|feature| feature == "crt-static");
    if is_fixed
        && is_usual
        && !has_static_libraries
        && let Some(directory) = directory_of_archives()
    {
        println!("cargo:rustc-link-arg-bins=-static");
        println!("cargo:rustc-link-arg-bins=-L{}", directory.display());
        for function in OPTIONAL_FUNCTIONS {
            println!("cargo:rustc-link-arg-bins=-Wl,-u,{function}");
        }
        // These need each other, and linkers other than the default one look once.
        for word in ["-Wl,--start-group", "-lgcc_s", "-lc", "-lgcc", "-Wl,--end-group"] {
            println!("cargo:rustc-link-arg-bins={word}");
        }
        return;
    }
    // The loader maps one library less if the unwinder, which is used after a panic only, is in the program.
    if let Some(directory) = archive("gcc_eh").as_deref().and_then(Path::parent) {
        println!("cargo:rustc-link-search=native={}", directory.display());
        println!("cargo:rustc-link-lib=static:-bundle=gcc_eh");
    }
}

/// A directory with the archives of the libraries that the compiler names, and with no shared library, which
/// the linker would prefer. `None` where an archive is missing, or threads are not part of the C library, as
/// before glibc 2.34.
fn directory_of_archives() -> Option<PathBuf> {
    let is_empty =
        |path: &Path| fs::metadata(path).is_ok_and(|file| file.len() <= EMPTY_ARCHIVE_BYTES);
    archive("pthread").filter(|path| is_empty(path))?;
    let directory = Path::new(&env::var_os("OUT_DIR")?).join("archives");
    fs::create_dir_all(&directory).ok()?;
    // The shared library of gcc has the unwinder and functions of its archive, which is linked as well.
    let pairs = ["c", "m", "rt", "pthread", "util", "dl"].map(|name| (name, name));
    for (name, with) in pairs.into_iter().chain([("gcc_s", "gcc_eh")]) {
        let link = directory.join(format!("lib{name}.a"));
        let _ = fs::remove_file(&link);
        symlink(archive(with)?, &link).ok()?;
    }
    Some(directory)
}

/// Path of an archive that the C compiler has.
fn archive(name: &str) -> Option<PathBuf> {
    let compiler = env::var("RUSTC_LINKER").unwrap_or_else(|_| "cc".into());
    let found =
        Command::new(compiler).arg(format!("-print-file-name=lib{name}.a")).output().ok()?;
    let path = PathBuf::from(String::from_utf8(found.stdout).ok()?.trim());
    path.is_absolute().then_some(path)
}

/// Functions that the standard library calls if the C library has them. Such a call alone does not link the
/// member of an archive that defines the function.
const OPTIONAL_FUNCTIONS: &[&str] = &[
    "__cxa_thread_atexit_impl",
    "copy_file_range",
    "gettid",
    "posix_spawn_file_actions_addchdir_np",
    "statx",
];
/// Size of an archive without members.
const EMPTY_ARCHIVE_BYTES: u64 = 8;
/// Written by `cargo xtask layout --write`.
const LAYOUT: &str = "layout.ld";
/// Variable that keeps the program independent of its position.
const PIE: &str = "PMI_HOST_PIE";
