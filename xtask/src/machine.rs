//! Requirements of the steps, and their installation on a fresh Debian.

use crate::big_endian;
use crate::process;
use crate::toolchain::{self, Facts};
use crate::{mpi, tally::Tally};
use std::env;
use std::path::Path;
use std::process::Command;

/// Something a step cannot run without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// `cargo fmt`.
    Rustfmt,
    /// `cargo clippy`.
    Clippy,
    /// MPICH with its compiler wrapper and launcher.
    Mpich,
    /// A server of `ssh` and network namespaces, for tests with many hosts.
    Hosts,
    /// A batch system whose own starter (`qrsh`) is tested.
    GridEngine,
    /// A C compiler for targets without an operating system.
    Clang,
    /// CMake, for the example that uses it.
    Cmake,
    /// Linker and emulator of a machine whose numbers begin with their highest byte.
    BigEndian,
    /// lwIP, a TCP stack of boards, as a library of this machine.
    Lwip,
    /// Valgrind, which counts instructions.
    Valgrind,
    /// A compiler for this target.
    Target(&'static str),
    /// QEMU for machines of this architecture.
    Qemu(&'static str),
    /// Node, which runs wasm without a browser, and a package that gives it web sockets.
    Node,
    /// npm, which installs what drives a browser.
    Npm,
    /// A browser.
    Chromium,
    /// Another browser, with an engine of its own.
    Firefox,
}

/// Why a need is not met, and the Debian packages that would meet it (none when they cannot).
#[derive(Debug, PartialEq, Eq)]
struct Lack {
    why: String,
    packages: &'static [&'static str],
}

/// The machine after it was looked at and, where possible, completed.
pub(crate) struct Machine {
    pub(crate) facts: Facts,
    lacks: Vec<(Need, Lack)>,
}

impl Machine {
    /// Looks for all `needs`, installs the missing ones when root, and prints both.
    pub(crate) fn prepare(needs: impl Iterator<Item = Need>) -> Self {
        let mut once = Vec::new();
        for need in needs {
            if !once.contains(&need) {
                once.push(need);
            }
        }
        let (mut machine, mut found) = Self::look(&once);
        let lacking: Vec<&[&str]> = machine.lacks.iter().map(|(_, lack)| lack.packages).collect();
        if install(&lacking) {
            (machine, found) = Self::look(&once);
        }
        for line in found {
            println!("found: {line}");
        }
        for (_, lack) in &machine.lacks {
            println!("lacks: {}", lack.why);
        }
        machine
    }

    /// Why `need` is not met; `None` when it is.
    pub(crate) fn lack(&self, need: Need) -> Option<&str> {
        self.lacks.iter().find(|(lacking, _)| *lacking == need).map(|(_, lack)| lack.why.as_str())
    }

    /// True when every need is met.
    pub(crate) fn is_complete(&self) -> bool {
        self.lacks.is_empty()
    }

    fn look(needs: &[Need]) -> (Self, Vec<String>) {
        let mut machine = Self { facts: Facts::probe(), lacks: Vec::new() };
        let mut found = Vec::new();
        for &need in needs {
            match probe(need, &machine.facts) {
                Ok(what) => found.push(what),
                Err(lack) => machine.lacks.push((need, lack)),
            }
        }
        (machine, found)
    }
}

/// The C compiler of [`Need::Clang`], by the name that Debian gives it; it is as new as the linker.
pub(crate) const CLANG: &str = "clang-22";

/// True in CI, where a missing requirement is an error rather than a hint.
pub(crate) fn in_ci() -> bool {
    env::var("CI").is_ok_and(|value| value == "true" || value == "1")
}

/// Result of a step that could not run.
pub(crate) fn verdict_on_lack(ci: bool) -> Tally {
    if ci { Tally::FAILED } else { Tally::SKIPPED }
}

fn probe(need: Need, facts: &Facts) -> Result<String, Lack> {
    match need {
        Need::Rustfmt => component("fmt", "rustfmt", &["rustfmt-web"], facts),
        Need::Clippy => component("clippy", "clippy", &["rust-web-clippy"], facts),
        Need::Mpich => mpi::find().map_err(|why| lack_of(&format!("MPICH: {why}"), mpi::PACKAGES)),
        Need::Hosts => {
            let version = process::output(process::command("ip").arg("-V"));
            match version {
                Ok(version) => match [SSHD, NFT].into_iter().find(|path| !Path::new(path).exists())
                {
                    None => Ok(format!("{}, {SSHD}, {NFT}", version.trim())),
                    Some(missing) => Err(lack_of(missing, HOST_PACKAGES)),
                },
                Err(_) => Err(lack_of("ip", HOST_PACKAGES)),
            }
        }
        Need::GridEngine => match Path::new(GRID_ENGINE).exists() {
            true => Ok(GRID_ENGINE.to_owned()),
            false => Err(lack_of(GRID_ENGINE, GRID_ENGINE_PACKAGES)),
        },
        Need::Target(target) => match toolchain::choose(target, facts) {
            Ok(choice) => Ok(format!("{target}: {choice}")),
            // Packages do not help if the active tool chain is forced.
            Err(why) if facts.forced.as_deref() == Some("installed") => {
                Err(Lack { why, packages: &[] })
            }
            Err(why) => Err(Lack { why, packages: toolchain::PACKAGES }),
        },
        Need::Qemu(arch) => program(
            &format!("qemu-system-{arch}"),
            match arch {
                "aarch64" | "arm" => &["qemu-system-arm"],
                "x86_64" => &["qemu-system-x86"],
                _ => &["qemu-system-misc"],
            },
        ),
        Need::Node => {
            let script = "require('ws'); console.log('node ' + process.version)";
            let version = process::output(process::node().args(["-e", script]));
            let found = version.map(|version| version.trim().to_owned());
            found.map_err(|_| lack_of("node with its package ws", &["nodejs", "node-ws"]))
        }
        Need::Clang => program(CLANG, &["clang-22"]),
        Need::Cmake => program("cmake", &["cmake"]),
        Need::BigEndian => {
            let linker = program(big_endian::LINKER, BIG_ENDIAN);
            linker.and_then(|_| program(big_endian::EMULATOR, BIG_ENDIAN))
        }
        Need::Lwip => {
            let version =
                process::output(process::command("pkg-config").args(["--modversion", "lwip"]));
            let found = version.map(|version| format!("lwIP {}", version.trim()));
            found.map_err(|_| lack_of("lwIP", &["liblwip-dev", "pkg-config"]))
        }
        Need::Valgrind => program("valgrind", &["valgrind"]),
        Need::Npm => program("npm", &["npm"]),
        Need::Chromium => {
            chromium().map_or_else(|| program("chromium", CHROMIUM), |path| Ok(path.into()))
        }
        Need::Firefox => {
            firefox().map(Into::into).ok_or_else(|| lack_of("firefox-esr", &["firefox-esr"]))
        }
    }
}

/// A program that prints its version on request, in the first line.
fn program(name: &str, packages: &'static [&'static str]) -> Result<String, Lack> {
    let version = process::output(process::command(name).arg("--version"));
    let found = version.map(|text| format!("{name} {}", text.lines().next().unwrap_or_default()));
    found.map_err(|_| lack_of(name, packages))
}

fn lack_of(what: &str, packages: &'static [&'static str]) -> Lack {
    Lack { why: format!("{what}; on Debian: apt-get install {}", packages.join(" ")), packages }
}

/// Path of the browser: it is not started for that, since some take long.
pub(crate) fn chromium() -> Option<&'static str> {
    ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"]
        .into_iter()
        .find(|path| Path::new(path).exists())
}

/// Path of the other browser.
pub(crate) fn firefox() -> Option<&'static str> {
    ["/usr/bin/firefox-esr", "/usr/bin/firefox"].into_iter().find(|path| Path::new(path).exists())
}

fn component(
    word: &str,
    name: &str,
    debian: &'static [&'static str],
    facts: &Facts,
) -> Result<String, Lack> {
    match process::output(process::cargo().args([word, "--version"])) {
        Ok(version) => Ok(version.trim().to_owned()),
        Err(_) if facts.debian_is_active() => Err(Lack {
            why: format!("cargo {word}: apt-get install {}", debian.join(" ")),
            packages: debian,
        }),
        // Debian's would belong to another compiler than the active one.
        Err(_) => {
            Err(Lack { why: format!("cargo {word}: rustup component add {name}"), packages: &[] })
        }
    }
}

/// Each package once, in order, without those that are there already.
fn missing<'a>(
    packages: impl Iterator<Item = &'a &'static str>,
    installed: impl Fn(&str) -> bool,
) -> Vec<&'static str> {
    let mut missing = Vec::new();
    for &package in packages {
        if !missing.contains(&package) && !installed(package) {
            missing.push(package);
        }
    }
    missing
}

fn is_installed(package: &str) -> bool {
    if package == MAIL_COMMAND && Path::new("/usr/sbin/sendmail").exists() {
        return true;
    }
    let status = process::output(process::command("dpkg-query").args([
        "-W",
        "-f=${db:Status-Status}",
        package,
    ]));
    status.is_ok_and(|status| status.trim() == "installed")
}

/// Installs the missing ones of these packages, a list for each requirement, when this is a Debian and we are
/// root; otherwise prints the line to run. Outside CI no installed package is removed: a requirement that
/// conflicts with one stays unmet. Returns whether packages have been installed.
fn install(lacking: &[&'static [&'static str]]) -> bool {
    let packages = missing(lacking.iter().copied().flatten(), is_installed);
    if packages.is_empty() {
        return false;
    }
    let root = process::output(process::command("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    let debian = process::output(process::command("apt-get").arg("--version")).is_ok();
    if !root || !debian {
        println!("to have everything, run as root on Debian 12: {}", install_line(&packages));
        return false;
    }
    println!("installing {}", packages.join(" "));
    // An archive that cannot be reached need not be one of those that hold our packages.
    process::succeeds(apt().arg("update"));
    let removed = removals(&packages);
    if removed.is_empty() || in_ci() {
        if !removed.is_empty() {
            println!("removed for that, as CI has the machine for itself: {}", removed.join(" "));
        }
        let words: &[&str] = if removed.is_empty() { INSTALL } else { INSTALL_IN_CI };
        return process::succeeds(apt().args(words).args(packages));
    }
    let mut has_installed = false;
    for group in lacking {
        let packages = missing(group.iter(), is_installed);
        let removed = removals(&packages);
        if removed.is_empty() {
            has_installed |=
                !packages.is_empty() && process::succeeds(apt().args(INSTALL).args(packages));
        } else {
            println!(
                "not installed, since {} would be removed: {}; to permit that: apt-get {} {}",
                removed.join(" "),
                packages.join(" "),
                INSTALL_IN_CI.join(" "),
                packages.join(" ")
            );
        }
    }
    has_installed
}

fn apt() -> Command {
    let mut command = process::command("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}

/// Installed packages that would be removed with the installation of `packages`, by a simulation.
fn removals(packages: &[&str]) -> Vec<String> {
    let simulated = apt().arg("--simulate").args(INSTALL_IN_CI).args(packages).output();
    let output = simulated.map(|output| output.stdout).unwrap_or_default();
    removed_names(&String::from_utf8_lossy(&output))
}

/// The names in lines such as `Remv qemu-utils [1:10.0.2]`.
fn removed_names(simulation: &str) -> Vec<String> {
    let names = simulation.lines().filter_map(|line| line.strip_prefix("Remv ")?.split(' ').next());
    names.map(str::to_owned).collect()
}

fn install_line(packages: &[&str]) -> String {
    format!("apt-get update && apt-get {} {}", INSTALL.join(" "), packages.join(" "))
}

/// Server of `ssh`, with which tests start programs on other hosts.
const SSHD: &str = "/usr/sbin/sshd";

/// Packages for hosts that are network namespaces.
const HOST_PACKAGES: &[&str] = &["openssh-server", "openssh-client", "iproute2", "nftables"];

/// Program that sets rules for packets, by which the wire of a host loses some.
const NFT: &str = "/usr/sbin/nft";

/// Master of Grid Engine.
const GRID_ENGINE: &str = "/usr/sbin/sge_qmaster";

/// Grid Engine depends on a command that sends mail; without this one, which starts no service, the system
/// would get a mail server.
const GRID_ENGINE_PACKAGES: &[&str] =
    &["gridengine-master", "gridengine-exec", "gridengine-client", MAIL_COMMAND];

/// Met by any package that has `/usr/sbin/sendmail`.
const MAIL_COMMAND: &str = "msmtp-mta";

/// Linker, libraries and emulator of an s390x.
const BIG_ENDIAN: &[&str] = &["gcc-s390x-linux-gnu", "libc6-dev-s390x-cross", "qemu-user"];

/// A browser, and the letters of the committed pictures of pages.
const CHROMIUM: &[&str] = &["chromium", "fonts-dejavu-core"];

const INSTALL: &[&str] = &["install", "-y", "--no-install-recommends", "--no-remove"];

/// The same with permission to remove what conflicts.
const INSTALL_IN_CI: &[&str] = &["install", "-y", "--no-install-recommends"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_missing_packages_are_asked_for_and_only_once() {
        let named = ["mpich", "lld-22", "mpich", "rustc-web"];
        assert_eq!(missing(named.iter(), |package| package == "rustc-web"), ["mpich", "lld-22"]);
        assert_eq!(
            install_line(&["mpich", "lld-22"]),
            "apt-get update && apt-get install -y --no-install-recommends --no-remove mpich lld-22"
        );
    }

    #[test]
    fn removed_packages_are_read_from_a_simulation() {
        let simulation = "Reading package lists...\nRemv qemu-utils [1:10.0.2+ds-2]\n\
                          Inst qemu-system-arm (1:7.2 Debian:12.15/oldstable [amd64])\n\
                          Remv a-b:amd64 [1]\n";
        assert_eq!(removed_names(simulation), ["qemu-utils", "a-b:amd64"]);
        assert_eq!(removed_names(""), [""; 0]);
    }

    #[test]
    fn missing_requirements_fail_in_ci_and_skip_elsewhere() {
        assert_eq!(verdict_on_lack(true), Tally::FAILED);
        assert_eq!(verdict_on_lack(false), Tally::SKIPPED);
    }

    #[test]
    fn packages_are_not_offered_with_a_forced_tool_chain() {
        let facts = Facts { forced: Some("installed".into()), sysroot: None, exists: |_| false };
        let lack = probe(Need::Target("wasm32-unknown-unknown"), &facts);
        assert!(lack.is_err_and(|lack| lack.packages.is_empty()));
        let facts = Facts { forced: None, ..facts };
        let lack = probe(Need::Target("wasm32-unknown-unknown"), &facts);
        assert!(lack.is_err_and(|lack| lack.packages.contains(&"rust-web-src")));
    }

    #[test]
    fn missing_component_comes_from_where_the_compiler_comes_from() {
        let lack = |sysroot: &str| {
            let facts = Facts { forced: None, sysroot: Some(sysroot.into()), exists: |_| false };
            component("no-such-command", "some-component", &["some-package"], &facts).unwrap_err()
        };
        assert_eq!(lack("/usr").packages, ["some-package"]);
        assert!(lack("/active").packages.is_empty());
        assert!(lack("/active").why.contains("rustup component add some-component"));
    }
}
