//! The C libraries of this project, and programs that load them.

use super::{build_with, or_skip};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Directory of the libraries and headers, made on first use from the sources as they are.
pub fn directory() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("capi");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["xtask", "capi", "--profile", "dev", "--directory"]).arg(&directory);
        cargo.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."));
        let made = cargo.output().expect("cargo has started this test");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stdout));
        directory
    })
}

/// Directory of `libpmi.so.0` and `libpmi2.so.0`.
pub fn libraries() -> PathBuf {
    directory().join("lib")
}

/// Builds `tests/programs/NAME.c` with the headers and one of the libraries, `pmi` or `pmi2`.
pub fn capi_program(name: &str, library: &str) -> PathBuf {
    let flags = format!("-I{0}/include -L{0}/lib -l{library} -pthread", directory().display());
    built(name, name, &flags)
}

/// The same with the static archive.
pub fn static_capi_program(name: &str, library: &str) -> PathBuf {
    let flags =
        format!("-I{0}/include {0}/lib/lib{library}.a -pthread -ldl -lm", directory().display());
    built(name, &format!("static-{name}"), &flags)
}

/// The same with these flags, or a note about what is missing, as for [`mpi_program`](super::mpi_program).
pub fn program_with(name: &str, program: &str, flags: &str) -> Option<PathBuf> {
    let flags: Vec<&str> = flags.split(' ').collect();
    let built = build_with(OsStr::new("cc"), name, program, &flags);
    or_skip(built, "Debian's packages libpmi0 and libpmi0-dev bring what is missing")
}

/// The same with these flags alone.
pub fn program_of(name: &str, flags: &str) -> PathBuf {
    built(name, name, flags)
}

/// The same as `program`, so that one source can be built in several ways.
pub fn variant_of(name: &str, program: &str, flags: &str) -> PathBuf {
    built(name, program, flags)
}

fn built(name: &str, program: &str, flags: &str) -> PathBuf {
    let flags: Vec<&str> = flags.split(' ').chain(["-Wall", "-Wextra", "-Werror"]).collect();
    build_with(OsStr::new("cc"), name, program, &flags)
        .expect("cc builds a program with the headers")
}

/// Has a command and its ranks find the libraries, before those of Debian.
pub fn with_libraries(command: &mut Command) -> &mut Command {
    command.env("LD_LIBRARY_PATH", libraries())
}

/// Valgrind, which fails for errors and lost memory; prints a note if it is missing.
pub fn valgrind() -> Option<Command> {
    let mut checked = Command::new("valgrind");
    if checked.arg("--version").output().is_err() {
        let remedy = "valgrind cannot be started; Debian's package valgrind brings it";
        assert!(std::env::var_os("CI").is_none(), "{remedy}");
        eprintln!("skipped: {remedy}");
        return None;
    }
    let mut checked = Command::new("valgrind");
    checked.args(["-q", "--error-exitcode=9", "--leak-check=full"]);
    checked.arg("--errors-for-leak-kinds=definite");
    Some(checked)
}
