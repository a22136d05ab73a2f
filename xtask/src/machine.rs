//! Requirements of the steps, and their installation on a fresh Debian.

use crate::big_endian;
use crate::linux_guest::kernel::{self, Kernel};
use crate::process;
use crate::toolchain::{self, Facts};
use crate::{mpi, tally::Tally};
use std::env;
use std::io::{self, IsTerminal, Write};
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
    /// A small C library, for static programs.
    Musl,
    /// Valgrind, which counts instructions.
    Valgrind,
    /// A compiler for this target.
    Target(&'static str),
    /// QEMU for machines of this architecture.
    Qemu(&'static str),
    /// A kernel for guests, whose package is unpacked and not installed.
    LinuxKernel,
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

/// What an installation of packages may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Permissions {
    /// Nothing is changed: commands are printed only.
    pub(crate) is_dry: bool,
    /// No installed package is removed, in CI neither.
    pub(crate) is_no_remove: bool,
}

/// The machine after it was looked at and, where possible, completed.
pub(crate) struct Machine {
    pub(crate) facts: Facts,
    lacks: Vec<(Need, Lack)>,
}

impl Machine {
    /// Looks for all `needs`, installs the missing ones when root, and prints both.
    pub(crate) fn prepare(needs: impl Iterator<Item = Need>) -> Self {
        Self::prepare_with(needs, Permissions::default())
    }

    /// The same with other permissions.
    pub(crate) fn prepare_with(
        needs: impl Iterator<Item = Need>,
        permissions: Permissions,
    ) -> Self {
        let mut once = Vec::new();
        for need in needs {
            if !once.contains(&need) {
                once.push(need);
            }
        }
        let (mut machine, mut found) = Self::look(&once);
        let lacking: Vec<&[&str]> = machine.lacks.iter().map(|(_, lack)| lack.packages).collect();
        let has_installed = install(&lacking, permissions);
        let lacks_kernel = machine.lack(Need::LinuxKernel).is_some();
        if has_installed | (lacks_kernel && kernel::fetch(permissions)) {
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

/// The Debian packages that meet a need.
pub(crate) fn packages(need: Need) -> &'static [&'static str] {
    match need {
        Need::Rustfmt => &["rustfmt-web"],
        Need::Clippy => &["rust-web-clippy"],
        Need::Mpich => mpi::PACKAGES,
        Need::Hosts => &["openssh-server", "openssh-client", "iproute2", "nftables"],
        Need::GridEngine => GRID_ENGINE_PACKAGES,
        Need::Clang => &[CLANG],
        Need::Cmake => &["cmake"],
        Need::BigEndian => &["gcc-s390x-linux-gnu", "libc6-dev-s390x-cross", "qemu-user"],
        Need::Lwip => &["liblwip-dev", "pkg-config"],
        Need::Musl => &["musl-tools"],
        Need::Valgrind => &["valgrind"],
        Need::Target(_) => toolchain::PACKAGES,
        Need::Qemu("aarch64" | "arm") => &["qemu-system-arm"],
        Need::Qemu("x86_64") => &["qemu-system-x86"],
        Need::Qemu(_) => &["qemu-system-misc"],
        Need::LinuxKernel => &[],
        Need::Node => &["nodejs", "node-ws"],
        Need::Npm => &["npm"],
        // With the letters of the committed pictures of pages.
        Need::Chromium => &["chromium", "fonts-dejavu-core"],
        Need::Firefox => &["firefox-esr"],
    }
}

fn probe(need: Need, facts: &Facts) -> Result<String, Lack> {
    let lack_of = |what: &str| lack_of(what, packages(need));
    let program = |name: &str| program(name, packages(need));
    match need {
        Need::Rustfmt => component("fmt", "rustfmt", packages(need), facts),
        Need::Clippy => component("clippy", "clippy", packages(need), facts),
        Need::Mpich => mpi::find().map_err(|why| lack_of(&format!("MPICH: {why}"))),
        Need::Hosts => {
            let version = process::output(process::command("ip").arg("-V"));
            match version {
                Ok(version) => match [SSHD, NFT].into_iter().find(|path| !Path::new(path).exists())
                {
                    None => Ok(format!("{}, {SSHD}, {NFT}", version.trim())),
                    Some(missing) => Err(lack_of(missing)),
                },
                Err(_) => Err(lack_of("ip")),
            }
        }
        Need::GridEngine => match Path::new(GRID_ENGINE).exists() {
            true => Ok(GRID_ENGINE.to_owned()),
            false => Err(lack_of(GRID_ENGINE)),
        },
        Need::Target(target) => match toolchain::choose(target, facts) {
            Ok(choice) => Ok(format!("{target}: {choice}")),
            // Packages do not help if the active tool chain is forced.
            Err(why) if facts.forced.as_deref() == Some("installed") => {
                Err(Lack { why, packages: &[] })
            }
            Err(why) => Err(Lack { why, packages: packages(need) }),
        },
        Need::Qemu(arch) => program(&format!("qemu-system-{arch}")),
        Need::LinuxKernel => match Kernel::find() {
            Some(kernel) => Ok(kernel.image.display().to_string()),
            None => {
                let why = format!("the kernel of Debian's package {}", kernel::PACKAGE);
                Err(Lack { why, packages: packages(need) })
            }
        },
        Need::Node => {
            let script = "require('ws'); console.log('node ' + process.version)";
            let version = process::output(process::node().args(["-e", script]));
            let found = version.map(|version| version.trim().to_owned());
            found.map_err(|_| lack_of("node with its package ws"))
        }
        Need::Clang => program(CLANG),
        Need::Cmake => program("cmake"),
        Need::BigEndian => program(big_endian::LINKER).and_then(|_| program(big_endian::EMULATOR)),
        Need::Lwip => {
            let version =
                process::output(process::command("pkg-config").args(["--modversion", "lwip"]));
            let found = version.map(|version| format!("lwIP {}", version.trim()));
            found.map_err(|_| lack_of("lwIP"))
        }
        Need::Musl => program("musl-gcc"),
        Need::Valgrind => program("valgrind"),
        Need::Npm => program("npm"),
        Need::Chromium => chromium().map_or_else(|| program("chromium"), |path| Ok(path.into())),
        Need::Firefox => firefox().map(Into::into).ok_or_else(|| lack_of("firefox-esr")),
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
fn install(lacking: &[&'static [&'static str]], permissions: Permissions) -> bool {
    let packages = missing(lacking.iter().copied().flatten(), is_installed);
    if packages.is_empty() {
        if permissions.is_dry {
            println!("nothing to install");
        }
        return false;
    }
    if permissions.is_dry {
        println!("would run: {}", line(apt().arg("update")));
    } else {
        let is_root =
            process::output(process::command("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
        let is_debian = process::output(process::command("apt-get").arg("--version")).is_ok();
        if !is_root || !is_debian {
            println!("to have everything, run as root on Debian 12: {}", install_line(&packages));
            return false;
        }
        if !is_permitted(&packages) {
            println!("not installed: {}", packages.join(" "));
            return false;
        }
        println!("installing {}", packages.join(" "));
        // An archive that cannot be reached need not be one of those that hold our packages.
        process::succeeds(apt().arg("update"));
    }
    let may_remove = in_ci() && !permissions.is_no_remove;
    let groups = lacking.iter().map(|group| missing(group.iter(), is_installed));
    let mut has_installed = false;
    for batch in batches(&packages, groups, removals, may_remove) {
        let mut install = install_command(&batch);
        if !batch.is_permitted {
            println!(
                "not installed, since {} would be removed: {}; to permit that: {}",
                batch.removed.join(" "),
                batch.packages.join(" "),
                line(&install)
            );
        } else if permissions.is_dry {
            println!("would run: {}", line(&install));
        } else {
            if !batch.removed.is_empty() {
                println!(
                    "removed for that, as CI has the machine for itself: {}",
                    batch.removed.join(" ")
                );
            }
            has_installed |= process::succeeds(&mut install);
        }
    }
    has_installed
}

/// Packages that one command installs.
#[derive(Debug, PartialEq, Eq)]
struct Batch {
    packages: Vec<&'static str>,
    /// Installed packages that are removed for these.
    removed: Vec<String>,
    /// False if the packages are not installed, so that those stay.
    is_permitted: bool,
}

/// All packages as one batch; a batch for each requirement, if installed packages would be removed that may
/// not be removed.
fn batches(
    packages: &[&'static str],
    groups: impl Iterator<Item = Vec<&'static str>>,
    removals: impl Fn(&[&str]) -> Vec<String>,
    may_remove: bool,
) -> Vec<Batch> {
    let batch = |packages: Vec<&'static str>| {
        let removed = removals(&packages);
        Batch { is_permitted: removed.is_empty() || may_remove, packages, removed }
    };
    let all = batch(packages.to_vec());
    if all.is_permitted {
        return vec![all];
    }
    groups.filter(|group| !group.is_empty()).map(batch).collect()
}

/// Asks the user, if there is one.
fn is_permitted(packages: &[&str]) -> bool {
    if in_ci() || !io::stdin().is_terminal() {
        return true;
    }
    print!("install by apt-get, as root: {}? [y/N] ", packages.join(" "));
    let mut answer = String::new();
    // An end of the input is no answer.
    let _ = io::stdout().flush().and_then(|()| io::stdin().read_line(&mut answer));
    is_yes(&answer)
}

fn is_yes(answer: &str) -> bool {
    ["y", "yes"].contains(&answer.trim().to_lowercase().as_str())
}

fn apt() -> Command {
    let mut command = process::command("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}

/// `apt-get`, installing packages without a start of their services.
fn install_command(batch: &Batch) -> Command {
    let mut apt = apt();
    for (name, script) in [("Pre", FORBID_SERVICES), ("Post", PERMIT_SERVICES)] {
        apt.arg("-o").arg(format!("DPkg::{name}-Invoke::={script}"));
    }
    apt.args(if batch.removed.is_empty() { INSTALL } else { INSTALL_IN_CI });
    apt.args(&batch.packages);
    apt
}

/// A command line, as a shell reads it.
fn line(command: &Command) -> String {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    let words: Vec<String> = words.map(|word| process::quoted(&word.to_string_lossy())).collect();
    words.join(" ")
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

/// Run by `apt-get` before packages are unpacked: the policy of the system forbids the start of services. One
/// that is there already, as in images of containers, stays as it is.
const FORBID_SERVICES: &str = "test -e /usr/sbin/policy-rc.d || \
    { printf '#!/bin/sh\\n# For cargo xtask setup.\\nexit 101\\n' >/usr/sbin/policy-rc.d && \
    chmod +x /usr/sbin/policy-rc.d; }";

/// Run by `apt-get` at the end, after errors and interrupts, too: the policy above is removed.
const PERMIT_SERVICES: &str =
    "if grep -qs 'For cargo xtask setup' /usr/sbin/policy-rc.d; then rm /usr/sbin/policy-rc.d; fi";

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
    fn packages_that_conflict_with_installed_ones_are_left_out_unless_those_may_be_removed() {
        let all = ["mpich", "qemu-user", "npm"];
        let groups = || [vec!["mpich"], vec![], vec!["qemu-user", "npm"]].into_iter();
        let removals = |packages: &[&str]| {
            let is_conflict = packages.contains(&"qemu-user");
            is_conflict.then(|| "qemu-utils".to_owned()).into_iter().collect::<Vec<_>>()
        };
        let removed = vec!["qemu-utils".to_owned()];
        assert_eq!(
            batches(&all, groups(), removals, false),
            [
                Batch { packages: vec!["mpich"], removed: Vec::new(), is_permitted: true },
                Batch {
                    packages: vec!["qemu-user", "npm"],
                    removed: removed.clone(),
                    is_permitted: false
                },
            ]
        );
        let whole = |removed| vec![Batch { packages: all.to_vec(), removed, is_permitted: true }];
        assert_eq!(batches(&all, groups(), removals, true), whole(removed));
        assert_eq!(batches(&all, groups(), |_| Vec::new(), false), whole(Vec::new()));
    }

    #[test]
    fn packages_are_installed_without_their_services() {
        let mut batch = Batch { packages: vec!["munge"], removed: Vec::new(), is_permitted: true };
        let shown = line(&install_command(&batch));
        assert!(shown.contains("Pre-Invoke") && shown.contains("Post-Invoke"), "{shown}");
        assert!(shown.ends_with("--no-remove munge"), "{shown}");
        batch.removed.push("exim4".into());
        assert!(line(&install_command(&batch)).ends_with("--no-install-recommends munge"));
    }

    #[test]
    fn answer_is_yes_or_no() {
        for (answer, expected) in
            [("y\n", true), ("Yes\n", true), ("\n", false), ("", false), ("no\n", false)]
        {
            assert_eq!(is_yes(answer), expected, "{answer:?}");
        }
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
