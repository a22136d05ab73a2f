//! The compiler for a target other than the host: chosen once, and printed.
//!
//! The order: the one that `XTASK_TOOLCHAIN` forces; the active tool chain if it has the target's
//! libraries; Debian's compiler, which builds them from its packaged sources; else none, with the
//! remedy.

use crate::process;
use std::env;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Debian packages of the second way. `rust-lld` comes with `rust-web-llvm` as a link into `lld-22`, which
/// nothing pulls in: both must be named.
pub(crate) const PACKAGES: &[&str] =
    &["rustc-web", "cargo-web", "rust-web-llvm", "rust-web-src", "lld-22", "llvm-22"];

/// A way to build for one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Toolchain {
    /// The active tool chain, which has the libraries of this target.
    Installed,
    /// Debian's compiler, with the libraries built by cargo on the way; `linker` stands in for a `rust-lld`
    /// that is not installed.
    BuildStd { linker: Option<PathBuf> },
}

impl fmt::Display for Toolchain {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Installed => write!(out, "active tool chain, it has the target's libraries"),
            Self::BuildStd { linker } => {
                write!(out, "Debian's compiler with -Zbuild-std, the active one lacks the target")?;
                linker.as_ref().map_or(Ok(()), |path| write!(out, "; linker {}", path.display()))
            }
        }
    }
}

/// All that the choice depends on, so that it can be tested without a machine.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) forced: Option<String>,
    pub(crate) sysroot: Option<PathBuf>,
    pub(crate) exists: fn(&Path) -> bool,
}

impl Facts {
    /// Looks at this machine. The sysroot is asked for instead of rustup: it also covers distributions.
    pub(crate) fn probe() -> Self {
        let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let sysroot = process::output(process::command(rustc).args(["--print", "sysroot"])).ok();
        Self {
            forced: env::var("XTASK_TOOLCHAIN").ok().filter(|name| !name.is_empty()),
            sysroot: sysroot.map(|path| PathBuf::from(path.trim())),
            exists: Path::exists, // follows links: a dangling one counts as absent
        }
    }

    /// Is the active compiler itself Debian's, so that Debian's packages add to it?
    pub(crate) fn debian_is_active(&self) -> bool {
        self.sysroot.as_deref() == Some(Path::new(DEBIAN))
    }
}

/// Chooses for `target`; the error names the package to install.
pub(crate) fn choose(target: &str, facts: &Facts) -> Result<Toolchain, String> {
    match facts.forced.as_deref() {
        None => installed(target, facts).or_else(|()| build_std(facts)),
        Some("installed") => installed(target, facts).map_err(|()| String::from("no libraries")),
        Some("build-std") => build_std(facts),
        Some(_) => return Err("XTASK_TOOLCHAIN is neither `installed` nor `build-std`".into()),
    }
    .map_err(|lack| {
        format!(
            "{target}: {lack}; run `rustup target add {target}`, or on Debian 12 \
             `apt-get install --no-install-recommends {}`",
            PACKAGES.join(" ")
        )
    })
}

fn installed(target: &str, facts: &Facts) -> Result<Toolchain, ()> {
    let sysroot = facts.sysroot.as_ref().ok_or(())?;
    let libraries = sysroot.join("lib/rustlib").join(target).join("lib");
    (facts.exists)(&libraries).then_some(Toolchain::Installed).ok_or(())
}

fn build_std(facts: &Facts) -> Result<Toolchain, String> {
    let debian = Path::new(DEBIAN);
    for part in ["bin/rustc", "bin/cargo", "lib/rustlib/src/rust/library/Cargo.lock"] {
        let part = debian.join(part);
        if !(facts.exists)(&part) {
            return Err(format!("no libraries, and no {} to build them", part.display()));
        }
    }
    if (facts.exists)(&debian.join("bin/rust-lld")) {
        return Ok(Toolchain::BuildStd { linker: None });
    }
    // rustup's compilers carry a linker of their own, which serves as well.
    let bundled = facts.sysroot.as_ref().map(|sysroot| sysroot.join(BUNDLED_LINKER));
    match bundled.filter(|path| (facts.exists)(path)) {
        Some(path) => Ok(Toolchain::BuildStd { linker: Some(path) }),
        None => Err("no rust-lld".into()),
    }
}

/// A `cargo build` with a profile for `target`; `crates` lists the crates of std that the code may use.
pub(crate) fn build(toolchain: &Toolchain, target: &str, crates: &str, profile: &str) -> Command {
    cargo(toolchain, "build", target, crates, profile)
}

/// The same for another command of cargo.
pub(crate) fn cargo(
    toolchain: &Toolchain,
    command: &str,
    target: &str,
    crates: &str,
    profile: &str,
) -> Command {
    let Toolchain::BuildStd { linker } = toolchain else {
        let mut cargo = process::cargo();
        cargo.args([command, "--profile", profile, "--target", target]);
        return cargo;
    };
    let bin = Path::new(DEBIAN).join("bin");
    let mut cargo = process::cargo_at(bin.join("cargo"));
    cargo.args([command, "--profile", profile, "--target", target]);
    cargo.arg(format!("-Zbuild-std={crates}"));
    if crates.starts_with("std") || target.starts_with("wasm") {
        // Pages load the result, and cannot show a backtrace.
        cargo.arg("-Zbuild-std-features=optimize_for_size");
    }
    // Cargo must find Debian's rustc and its helpers first, and be let to use unstable options.
    cargo
        .env("PATH", first_in_path(&bin))
        .env("RUSTC", bin.join("rustc"))
        .env("RUSTC_BOOTSTRAP", "1");
    // Variables of an outer cargo under rustup, which would lead the inner cargo to the other tool
    // chain.
    for name in ["RUSTUP_TOOLCHAIN", "CARGO", "RUSTDOC", "LD_LIBRARY_PATH"] {
        cargo.env_remove(name);
    }
    // Two compilers, two directories: neither throws away what the other built.
    cargo.env("CARGO_TARGET_DIR", directory(toolchain));
    let upper = target.to_uppercase().replace('-', "_");
    let mut flags = Vec::new();
    if target.starts_with("wasm") {
        // Places in the source would be a hundredth of what a page loads.
        flags.push("-Zlocation-detail=none");
    }
    if let Some(linker) = linker {
        cargo.env(format!("CARGO_TARGET_{upper}_LINKER"), linker);
        if target.starts_with("wasm") {
            flags.push("-Clinker-flavor=wasm-ld");
        }
    }
    if !flags.is_empty() {
        cargo.env(format!("CARGO_TARGET_{upper}_RUSTFLAGS"), flags.join(" "));
    }
    cargo
}

fn first_in_path(directory: &Path) -> OsString {
    let path = env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(directory.to_path_buf()).chain(env::split_paths(&path));
    env::join_paths(all).unwrap_or(path)
}

/// The target directory of a tool chain.
pub(crate) fn directory(toolchain: &Toolchain) -> PathBuf {
    match toolchain {
        Toolchain::Installed => target_directory(),
        Toolchain::BuildStd { .. } => target_directory().join("build-std"),
    }
}

/// Name of the directory for products of a profile.
pub(crate) fn profile_directory(profile: &str) -> &str {
    if profile == "dev" { "debug" } else { profile }
}

/// Cargo's target directory.
pub(crate) fn target_directory() -> PathBuf {
    process::root().join(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// Builds the launcher as README says, and returns its path.
pub(crate) fn build_host() -> Result<PathBuf, String> {
    build_host_as("release")
}

/// Builds the launcher with a profile of cargo, and returns its path.
pub(crate) fn build_host_as(profile: &str) -> Result<PathBuf, String> {
    let mut cargo = process::cargo();
    cargo.args(["build", "--package", "pmi-host", "--profile", profile]);
    match process::succeeds(&mut cargo) {
        true => Ok(target_directory().join(profile_directory(profile)).join("pmi-host")),
        false => Err("pmi-host does not build".into()),
    }
}

const DEBIAN: &str = "/usr";
const BUNDLED_LINKER: &str = "lib/rustlib/x86_64-unknown-linux-gnu/bin/rust-lld";

#[cfg(test)]
mod tests {
    use super::*;

    const WASM: &str = "wasm32-unknown-unknown";

    fn facts(forced: Option<&str>, exists: fn(&Path) -> bool) -> Facts {
        Facts { forced: forced.map(String::from), sysroot: Some("/active".into()), exists }
    }

    fn only_debian(path: &Path) -> bool {
        path.starts_with("/usr")
    }

    #[test]
    fn active_tool_chain_wins_when_it_has_the_target() {
        assert_eq!(choose(WASM, &facts(None, |_| true)), Ok(Toolchain::Installed));
    }

    #[test]
    fn debians_compiler_is_next() {
        assert_eq!(
            choose(WASM, &facts(None, only_debian)),
            Ok(Toolchain::BuildStd { linker: None })
        );
    }

    #[test]
    fn forced_way_is_the_only_one_tried() {
        let all = choose(WASM, &facts(Some("build-std"), |_| true));
        assert_eq!(all, Ok(Toolchain::BuildStd { linker: None }));
        assert!(choose(WASM, &facts(Some("installed"), only_debian)).is_err());
        assert!(choose(WASM, &facts(Some("other"), |_| true)).is_err());
    }

    #[test]
    fn missing_linker_is_replaced_by_the_bundled_one() {
        let exists = |path: &Path| {
            path != Path::new("/usr/bin/rust-lld") && !path.ends_with("wasm32-unknown-unknown/lib")
        };
        let expected =
            Toolchain::BuildStd { linker: Some(Path::new("/active").join(BUNDLED_LINKER)) };
        assert_eq!(choose(WASM, &facts(None, exists)), Ok(expected));
        let neither = |path: &Path| only_debian(path) && !path.ends_with("rust-lld");
        assert!(choose(WASM, &facts(None, neither)).is_err_and(|why| why.contains("no rust-lld")));
    }

    #[test]
    fn missing_compiler_is_reported_with_both_remedies() {
        let Err(why) = choose(WASM, &facts(None, |_| false)) else { panic!("chose from nothing") };
        assert!(why.contains("rustup target add wasm32-unknown-unknown"), "{why}");
        assert!(PACKAGES.iter().all(|package| why.contains(package)), "{why}");
    }

    #[test]
    fn building_with_debians_compiler_leaves_the_active_one_alone() {
        let command = build(&Toolchain::BuildStd { linker: None }, WASM, "core", "release");
        let value =
            |name: &str| command.get_envs().find(|(key, _)| *key == name).map(|(_, value)| value);
        assert_eq!(value("RUSTUP_TOOLCHAIN"), Some(None));
        assert_eq!(value("RUSTC"), Some(Some("/usr/bin/rustc".as_ref())));
        let directory = value("CARGO_TARGET_DIR").flatten().map(Path::new);
        assert!(directory.is_some_and(|path| path.ends_with("build-std")));
        assert_eq!(command.get_program(), "/usr/bin/cargo");
    }

    #[test]
    fn standard_library_is_built_small_where_it_is_built() {
        let is_small = |target, crates| {
            let command = build(&Toolchain::BuildStd { linker: None }, target, crates, "release");
            command.get_args().any(|word| word == "-Zbuild-std-features=optimize_for_size")
        };
        // Libraries for pages have `core` in common with the modules.
        assert!(is_small(WASM, "std,panic_abort") && is_small(WASM, "core"));
        assert!(is_small("x86_64-unknown-hermit", "std,panic_abort"));
        assert!(!is_small("thumbv7em-none-eabihf", "core"));
    }
}
