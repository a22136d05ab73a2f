//! `cargo xtask hardware`: `pmi-host` on machines with several sockets, memory domains and hardware threads,
//! which QEMU emulates, with the kernel of Debian.
//!
//! What the model of a node says is compared with descriptions elsewhere; here the system is asked: where ranks may
//! run, which policy their memory has, and in which domain the pages are that they have written to. Process 1 and the
//! ranks are `src/bin/node-guest.rs`.

mod scenes;

use crate::args;
use crate::linux_guest::LinuxGuest;
use crate::linux_guest::initramfs::Initramfs;
use crate::linux_guest::kernel;
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

const USAGE: &str = "cargo xtask hardware [--profile P] [SCENE...]";

pub(crate) fn command(arguments: &[String]) -> Result<ExitCode, String> {
    let (mut profile, mut names) = ("release".to_owned(), Vec::new());
    args::read(arguments, USAGE, |parser| {
        while let Some(arg) = parser.next()? {
            match arg {
                Long("profile") => profile = parser.value()?.string()?,
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
    let machine = Machine::prepare(NEEDS.iter().copied());
    let total = match NEEDS.iter().find_map(|need| machine.lack(*need)) {
        Some(why) => {
            println!("not run: {why}");
            machine::verdict_on_lack(machine::in_ci())
        }
        None => play(SCENES.iter().filter(is_meant), &profile)?,
    };
    println!("{total}");
    Ok(if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The step of the tests: all scenes, with the program that other steps have built.
pub(crate) fn check(_: &Machine) -> Tally {
    tally_of(play(SCENES.iter(), "release"))
}

fn play<'a>(scenes: impl Iterator<Item = &'a Scene>, profile: &str) -> Result<Tally, String> {
    let directory = toolchain::target_directory().join("linux-guest");
    fs::create_dir_all(&directory).map_err(|error| error.to_string())?;
    let kernel = kernel::find().ok_or("the kernel was removed")?;
    let programs = [toolchain::build_host_as(profile)?, build_guest()?];
    let mut total = Tally::default();
    for scene in scenes {
        let start = Instant::now();
        let initramfs = directory.join(format!("{}.cpio", scene.name));
        fs::write(&initramfs, image(scene, &programs)?).map_err(|error| error.to_string())?;
        let log = directory.join(format!("{}.log", scene.name));
        let name = scene.name;
        let guest = LinuxGuest { name, kernel: &kernel, initramfs: &initramfs, machine: &scene.machine() };
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

/// The file system of a guest: both programs, and the steps.
fn image(scene: &Scene, [host, guest]: &[PathBuf; 2]) -> Result<Vec<u8>, String> {
    let mut files = Initramfs::new();
    files.program("init", guest)?;
    files.program("bin/rank", guest)?;
    files.program("bin/pmi-host", host)?;
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
