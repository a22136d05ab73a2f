//! Programs for older systems and for another processor, linked by Zig's linker.
//!
//! A program that is linked here requires the C library of this machine or a newer one. Zig brings the
//! symbols of older versions, and the libraries of other processors; both it and `cargo-zigbuild` are wheels
//! of the Python package index.

use super::{Release, process, toolchain, version_numbers};
use crate::toolchain::{Facts, Toolchain};
use crate::wheel;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A processor for which the program is built.
struct PortableTarget {
    /// Target of the compiler.
    name: &'static str,
    /// Processor, in the name of the archive.
    processor: &'static str,
}

const TARGETS: [PortableTarget; 2] = [
    PortableTarget { name: "x86_64-unknown-linux-gnu", processor: "x86_64" },
    PortableTarget { name: "aarch64-unknown-linux-gnu", processor: "aarch64" },
];

/// Oldest version of glibc on which the programs run: that of RHEL 8 and of its derivatives.
const GLIBC: &str = "2.28";

const WHEELS: &[&str] = &["cargo-zigbuild==0.24.1", "ziglang==0.17.1"];

/// Builds an archive for each processor, and tries those that run on this machine, if by QEMU.
///
/// # Errors
///
/// The program cannot be built, requires a newer C library, or does not run.
pub(super) fn archives(release: &Release) -> Result<Vec<PathBuf>, String> {
    let directory = toolchain::target_directory().join("tmp");
    let builder = wheel::install(&directory, "cargo-zigbuild", WHEELS)?;
    TARGETS.iter().map(|target| target.archive(release, &builder)).collect()
}

impl PortableTarget {
    fn archive(&self, release: &Release, builder: &Path) -> Result<PathBuf, String> {
        let program = self.build(builder)?;
        let needed = super::needed_glibc(&program)?;
        if version_numbers(&needed) > version_numbers(GLIBC) {
            return Err(format!("{} requires glibc {needed}", program.display()));
        }
        let tree = release.tree(self.processor, &format!("gnu{GLIBC}"), &program)?;
        let archive = release.pack(&tree)?;
        match self.processor == env::consts::ARCH {
            true => release.try_archive(&archive)?,
            false => self.try_under_qemu(&tree.join("bin/pmi-host"))?,
        }
        Ok(archive)
    }

    fn build(&self, builder: &Path) -> Result<PathBuf, String> {
        let toolchain = toolchain::choose(self.name, &Facts::probe())?;
        let plain = toolchain::build(&toolchain, self.name, "std,panic_abort", "release");
        let mut cargo = process::command(builder);
        cargo.arg("zigbuild");
        let words = plain.get_args().skip(1).map(|word| match word == self.name {
            true => format!("{}.{GLIBC}", self.name).into(),
            false => word.to_owned(),
        });
        cargo.args(words).args(["--package", "pmi-host", "--config", "profile.release.strip=true"]);
        for (name, value) in plain.get_envs() {
            match value {
                Some(value) => cargo.env(name, value),
                None => cargo.env_remove(name),
            };
        }
        if matches!(toolchain, Toolchain::BuildStd { .. }) {
            // A cargo of rustup in PATH would start another compiler.
            cargo.env("CARGO", plain.get_program());
        }
        // Zig is a module of the Python beside the builder.
        let beside = builder.parent().unwrap_or(builder).join("python3");
        cargo.env("CARGO_ZIGBUILD_PYTHON_PATH", beside);
        if !process::succeeds(&mut cargo) {
            return Err(format!("pmi-host cannot be built for {}", self.name));
        }
        let built = toolchain::directory(&toolchain).join(self.name);
        Ok(built.join("release/pmi-host"))
    }

    /// Runs a job of two ranks by QEMU's emulation of the processor, if it is installed.
    fn try_under_qemu(&self, program: &Path) -> Result<(), String> {
        let emulator = format!("qemu-{}", self.processor);
        let libraries = format!("/usr/{}-linux-gnu", self.processor);
        if Command::new(&emulator).arg("--version").output().is_err()
            || !Path::new(&libraries).exists()
        {
            println!(
                "the program for {} is not tried; on Debian: apt-get install qemu-user libc6-arm64-cross",
                self.processor
            );
            return Ok(());
        }
        let mut run = process::command(&emulator);
        run.args(["-L", &libraries]).arg(program).args(["run", "-n", "2", "echo", "under QEMU"]);
        let printed = process::output(&mut run)?;
        match printed == "under QEMU\n".repeat(2) {
            true => Ok(()),
            false => Err(format!("two ranks under {emulator} print {printed:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::version_numbers;

    #[test]
    fn versions_are_compared_by_number() {
        assert!(version_numbers("2.4") < version_numbers("2.28"));
        assert!(version_numbers("2.28") <= version_numbers("2.28"));
        assert!(version_numbers("2.34") > version_numbers("2.28"));
    }
}
