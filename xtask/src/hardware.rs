//! `cargo xtask hardware`: `pmi-host` on machines with several sockets, memory domains and hardware threads,
//! which QEMU emulates, with the kernel of Debian.
//!
//! What the model of a node says is compared with descriptions elsewhere; here the system is asked:
//! where ranks may run, which policy their memory has, and in which domain the pages are that they have
//! written to. Process 1 and the ranks are `src/bin/node-guest.rs`.

mod scenes;

use crate::args;
use crate::dist;
use crate::linux_guest::LinuxGuest;
use crate::linux_guest::initramfs::Initramfs;
use crate::linux_guest::kernel::{self, Kernel};
use crate::machine::{self, Machine, Need};
use crate::process;
use crate::tally::Tally;
use crate::test::tally_of;
use crate::toolchain;
use lexopt::prelude::*;
use scenes::{SCENES, Scene};
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Requirements of the scenes.
pub(crate) const NEEDS: &[Need] = &[Need::Qemu("x86_64"), Need::LinuxKernel];

/// Longest time of a scene: a boot, and some twenty runs on emulated processors.
const SCENE_TIME: Duration = Duration::from_secs(240);

/// Further requirements of the static program.
const STATIC_NEEDS: &[Need] = &[Need::Target(dist::MUSL), Need::Musl];

const USAGE: &str = "cargo xtask hardware [--static] [--profile P] [SCENE...]";

/// The launcher that is tried.
#[derive(Debug, PartialEq, Eq)]
struct Launcher {
    /// Profile of cargo.
    profile: String,
    /// It needs no library of the system.
    is_static: bool,
}

impl Default for Launcher {
    fn default() -> Self {
        Self { profile: "release".into(), is_static: false }
    }
}

pub(crate) fn command(arguments: &[String]) -> Result<ExitCode, String> {
    let (launcher, scenes) = read(arguments)?;
    let needs = if launcher.is_static { STATIC_NEEDS } else { &[] };
    let needs = || NEEDS.iter().chain(needs).copied();
    let machine = Machine::prepare(needs());
    let total = match needs().find_map(|need| machine.lack(need)) {
        Some(why) => {
            println!("not run: {why}");
            machine::verdict_on_lack(machine::in_ci())
        }
        None => play(&scenes, &launcher)?,
    };
    println!("{total}");
    Ok(if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn read(arguments: &[String]) -> Result<(Launcher, Vec<&'static Scene>), String> {
    let (mut launcher, mut names) = (Launcher::default(), Vec::new());
    args::read(arguments, USAGE, |parser| {
        while let Some(arg) = parser.next()? {
            match arg {
                Long("static") => launcher.is_static = true,
                Long("profile") => launcher.profile = parser.value()?.string()?,
                Value(name) => names.push(name.string()?),
                other => return Err(other.unexpected()),
            }
        }
        Ok(())
    })?;
    if let Some(unknown) = names.iter().find(|name| SCENES.iter().all(|it| it.name != **name)) {
        let known: Vec<&str> = SCENES.iter().map(|scene| scene.name).collect();
        return Err(format!("no scene {unknown:?}, but: {}", known.join(", ")));
    }
    let is_meant = |scene: &&Scene| names.is_empty() || names.iter().any(|name| name == scene.name);
    Ok((launcher, SCENES.iter().filter(is_meant).collect()))
}

/// The step of the tests: all scenes, with the program that other steps have built.
pub(crate) fn check(_: &Machine) -> Tally {
    tally_of(play(&SCENES.iter().collect::<Vec<_>>(), &Launcher::default()))
}

fn play(scenes: &[&Scene], launcher: &Launcher) -> Result<Tally, String> {
    let directory = toolchain::target_directory().join("linux-guest");
    fs::create_dir_all(&directory).map_err(|error| error.to_string())?;
    let kernel = Kernel::find().ok_or("the kernel was removed")?;
    let host = match launcher.is_static {
        true => dist::static_program(&launcher.profile, &directory)?,
        false => toolchain::build_host_as(&launcher.profile)?,
    };
    let programs = [host, build_guest()?];
    let mut total = Tally::default();
    for scene in scenes {
        let start = Instant::now();
        let initramfs = directory.join(format!("{}.cpio", scene.name));
        fs::write(&initramfs, image(scene, &programs, &kernel)?)
            .map_err(|error| error.to_string())?;
        let log = directory.join(format!("{}.log", scene.name));
        let name = scene.name;
        let guest = LinuxGuest {
            name,
            kernel: &kernel.image,
            initramfs: &initramfs,
            machine: &scene.machine(),
        };
        let findings = match guest.run(&log, start + SCENE_TIME) {
            Ok(lines) => scene.findings(&lines),
            Err(why) => vec![why],
        };
        for finding in &findings {
            println!("   {name}: {finding}");
        }
        let verdict = if findings.is_empty() { "as expected" } else { "FAILED" };
        println!("   {name}: {} ({verdict}, {:.0} s)", scene.about, start.elapsed().as_secs_f64());
        total += Tally::of(findings.is_empty());
    }
    Ok(total)
}

/// The file system of a guest: both programs, modules of the kernel, and the steps.
fn image(scene: &Scene, [host, guest]: &[PathBuf; 2], kernel: &Kernel) -> Result<Vec<u8>, String> {
    let mut files = Initramfs::new();
    files.program("init", guest)?;
    files.program("bin/rank", guest)?;
    files.program("bin/pmi-host", host)?;
    for module in kernel::NETWORK {
        files.copy(&format!("modules/{module}"), &kernel.modules.join(module))?;
    }
    files.file("scene", 0o644, scene.lines().as_bytes());
    Ok(files.finish())
}

/// Builds process 1 and ranks.
fn build_guest() -> Result<PathBuf, String> {
    let mut cargo = process::cargo();
    cargo.args(["build", "--package", "xtask", "--bin", GUEST]);
    match process::succeeds(&mut cargo) {
        true => Ok(toolchain::target_directory().join("debug").join(GUEST)),
        false => Err(format!("{GUEST} does not build")),
    }
}

const GUEST: &str = "node-guest";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launcher_and_scenes_are_read() {
        let read =
            |line: &str| read(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        let (launcher, scenes) = read("").unwrap();
        assert_eq!((launcher, scenes.len()), (Launcher::default(), SCENES.len()));
        let (launcher, scenes) = read("memory --static --profile dev").unwrap();
        assert_eq!(launcher, Launcher { profile: "dev".into(), is_static: true });
        assert_eq!(scenes.iter().map(|scene| scene.name).collect::<Vec<_>>(), ["memory"]);
        assert!(read("typo").is_err_and(|why| why.contains("typo") && why.contains("sockets")));
    }
}
