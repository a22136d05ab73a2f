//! Programs for older systems and for another processor, linked by Zig's linker.
//!
//! A program that is linked here requires the C library of this machine or a newer one. Zig brings the
//! symbols of older versions, and the libraries of other processors; both it and `cargo-zigbuild` are wheels
//! of the Python package index.

use super::{Release, add_libraries, process, toolchain, version_numbers};
use crate::capi::{self, OtherTarget};
use crate::toolchain::{Facts, Toolchain};
use crate::wheel;
use std::env;
use std::ffi::OsString;
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
        let libraries = self.libraries(release, builder)?;
        add_libraries(&tree, &libraries)?;
        let archive = release.pack(&tree)?;
        match self.processor == env::consts::ARCH {
            true => release.try_archive(&archive)?,
            false => self.try_under_qemu(&tree.join("bin/pmi-host"))?,
        }
        self.try_libraries(&libraries, builder, &toolchain::build_host()?)?;
        Ok(archive)
    }

    /// Makes the C libraries, and returns their directory.
    fn libraries(&self, release: &Release, builder: &Path) -> Result<PathBuf, String> {
        let toolchain = toolchain::choose(self.name, &Facts::probe())?;
        let plain = toolchain::build(&toolchain, self.name, "std,panic_unwind", capi::PROFILE);
        // With one kind of product, its functions are compiled for it and not for a later linker.
        let mut cargo = process::command(plain.get_program());
        cargo.args(["rustc", "--package", "pmi-capi", "--lib", "--crate-type", "staticlib"]);
        cargo.args(plain.get_args().skip(1));
        copy_environment(&plain, &mut cargo);
        let built = toolchain::directory(&toolchain).join(self.name).join(capi::PROFILE);
        let (archive, compiler) = (built.join("libpmi_capi.a"), self.compiler(builder));
        let directory = release.directory.join(format!("capi-{}", self.processor));
        let findings = capi::make_for(&directory, OtherTarget { cargo, archive, compiler })?;
        let needed = super::newest_glibc(&directory.join("lib"))?;
        if version_numbers(&needed) > version_numbers(GLIBC) {
            return Err(format!("a library of {} requires glibc {needed}", directory.display()));
        }
        findings.first().map_or(Ok(directory), |finding| Err(finding.clone()))
    }

    /// Words of Zig's C compiler for this target and the oldest C library.
    fn compiler(&self, builder: &Path) -> Vec<OsString> {
        // Zig is a module of the Python beside the builder.
        let python = python_beside(builder).into_os_string();
        let target = format!("{}-linux-gnu.{GLIBC}", self.processor);
        [python]
            .into_iter()
            .chain(["-m", "ziglang", "cc", "-target", &target].map(OsString::from))
            .collect()
    }

    /// Runs two ranks of a program that is linked with the libraries under `launcher`, by QEMU where the
    /// processor is another one.
    fn try_libraries(
        &self,
        libraries: &Path,
        builder: &Path,
        launcher: &Path,
    ) -> Result<(), String> {
        let program = libraries.join("cards");
        let words = self.compiler(builder);
        let mut words = words.iter();
        let mut compile = process::command(words.next().ok_or("no compiler")?);
        compile.args(words).arg("host-std/tests/programs/capi_cards.c").arg("-o").arg(&program);
        compile.arg("-I").arg(libraries.join("include")).arg("-L").arg(libraries.join("lib"));
        compile.arg("-lpmi").arg(format!("-Wl,-rpath,{}", libraries.join("lib").display()));
        process::output(&mut compile)?;
        let mut run = process::command(launcher);
        run.args(["run", "-n", "2"]);
        if self.processor != env::consts::ARCH {
            let Some([emulator, option, libraries]) = self.emulator() else { return Ok(()) };
            run.args([emulator, option, libraries]);
        }
        let printed = process::output(run.arg(&program))?;
        let mut lines: Vec<&str> = printed.lines().collect();
        lines.sort_unstable();
        match lines == ["rank 0 of 2: card from-1", "rank 1 of 2: card from-0"] {
            true => Ok(()),
            false => Err(format!("two ranks with libpmi for {} print {printed:?}", self.processor)),
        }
    }

    /// Words that run a program of this processor; `None` if something lacks.
    fn emulator(&self) -> Option<[String; 3]> {
        let emulator = format!("qemu-{}", self.processor);
        let libraries = format!("/usr/{}-linux-gnu", self.processor);
        let is_there = Command::new(&emulator).arg("--version").output().is_ok()
            && Path::new(&libraries).exists();
        is_there.then(|| [emulator, "-L".into(), libraries])
    }

    fn build(&self, builder: &Path) -> Result<PathBuf, String> {
        let toolchain = toolchain::choose(self.name, &Facts::probe())?;
        let plain = toolchain::build(&toolchain, self.name, "std,panic_abort", super::PROFILE);
        let mut cargo = process::command(builder);
        cargo.arg("zigbuild");
        let words = plain.get_args().skip(1).map(|word| match word == self.name {
            true => format!("{}.{GLIBC}", self.name).into(),
            false => word.to_owned(),
        });
        cargo.args(words).args(["--package", "pmi-host", "--config", "profile.dist.strip=true"]);
        copy_environment(&plain, &mut cargo);
        if matches!(toolchain, Toolchain::BuildStd { .. }) {
            // A cargo of rustup in PATH would start another compiler.
            cargo.env("CARGO", plain.get_program());
        }
        cargo.env("CARGO_ZIGBUILD_PYTHON_PATH", python_beside(builder));
        if !process::succeeds(&mut cargo) {
            return Err(format!("pmi-host cannot be built for {}", self.name));
        }
        let built = toolchain::directory(&toolchain).join(self.name);
        Ok(built.join(super::PROFILE).join("pmi-host"))
    }

    /// Runs a job of two ranks by QEMU's emulation of the processor, if it is installed.
    fn try_under_qemu(&self, program: &Path) -> Result<(), String> {
        let Some([emulator, option, libraries]) = self.emulator() else {
            println!(
                "the program for {} is not tried; on Debian: apt-get install qemu-user libc6-arm64-cross",
                self.processor
            );
            return Ok(());
        };
        let mut run = process::command(&emulator);
        run.args([option, libraries]).arg(program).args(["run", "-n", "2", "echo", "under QEMU"]);
        let printed = process::output(&mut run)?;
        match printed == "under QEMU\n".repeat(2) {
            true => Ok(()),
            false => Err(format!("two ranks under {emulator} print {printed:?}")),
        }
    }
}

fn copy_environment(from: &Command, to: &mut Command) {
    for (name, value) in from.get_envs() {
        match value {
            Some(value) => to.env(name, value),
            None => to.env_remove(name),
        };
    }
}

/// The Python of the builder, which has Zig as a module.
fn python_beside(builder: &Path) -> PathBuf {
    builder.parent().unwrap_or(builder).join("python3")
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
