//! `cargo xtask bare-metal`: guests without operating system, in jobs with each other, under QEMU.
//!
//! It builds the guest and the smallest process manager, then plays these scenes for every
//! architecture: guests that dial the manager, guests in one job with processes that `pmi-host` starts,
//! guests among themselves, and guests whose server, arguments or code are bad, which have to end with the
//! status that the README of the guest names.
//! On a microcontroller it plays eight ranks and their server in one image, and ranks that have
//! nothing but a serial line, beside a guest in C. The rank with embassy runs on a micro:bit; for the other
//! board `cargo xtask boards` builds it.

pub(crate) mod qemu;
mod scenes;

use crate::args;
use crate::machine::{self, Machine, Need};
use crate::process;
use crate::tally::Tally;
use crate::test::tally_of;
use crate::toolchain::{self, Toolchain};
use lexopt::prelude::*;
use qemu::{Line, MPS2, Running};
use scenes::{Boards, Linux, Stage};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// An architecture, and the QEMU machine that stands for it.
#[derive(Debug)]
pub(crate) struct Arch {
    pub(crate) name: &'static str,
    pub(crate) target: &'static str,
    /// Options beyond those that all machines have in common.
    pub(crate) machine: &'static str,
    /// QEMU's exit status for a guest that has ended with `status`.
    pub(crate) exit_of: fn(status: i32) -> i32,
}

const ARCHS: &[Arch] = &[
    Arch {
        name: "riscv64",
        target: "riscv64gc-unknown-none-elf",
        machine: "-M virt -bios none -m 4M",
        exit_of: |status| status,
    },
    Arch {
        name: "aarch64",
        target: "aarch64-unknown-none-softfloat",
        machine: "-M virt -cpu cortex-a53 -m 8M -semihosting-config enable=on,target=native",
        exit_of: |status| status,
    },
    Arch {
        name: "x86_64",
        target: X86_64,
        machine: "-M microvm,rtc=off,pit=off,pic=off,auto-kernel-cmdline=off -m 8M \
                  -device isa-debug-exit,iobase=0xf4,iosize=4",
        // A processor that resets itself also ends QEMU with 0, so success is another number.
        exit_of: |status| if status == 0 { 33 } else { 2 * status + 1 },
    },
];

/// Guests in a scene, unless another number is given.
const GUESTS: usize = 4;

const SCENE_TIME: Duration = Duration::from_secs(60);

/// Requirements of the scenes of the gate: boards meet a guest of the first architecture, too.
pub(crate) const NEEDS: &[Need] = &BOARD_NEEDS;

pub(crate) fn command(arguments: &[String]) -> Result<ExitCode, String> {
    let wanted = read(arguments)?;
    let mut needs: Vec<Need> = wanted.archs.iter().flat_map(|arch| arch.needs()).collect();
    if wanted.board {
        needs.extend(BOARD_NEEDS);
    }
    let total = run(&wanted, &Machine::prepare(needs.into_iter()))?;
    println!("{total}");
    Ok(if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The boards, and the guests of one architecture, whose code but the start is that of all.
pub(crate) fn check(machine: &Machine) -> Tally {
    let wanted = Selection { archs: ARCHS.iter().take(1).collect(), board: true, guests: GUESTS };
    tally_of(run(&wanted, machine))
}

fn run(wanted: &Selection, machine: &Machine) -> Result<Tally, String> {
    let is_ready = |name: &str, needs: &[Need]| match needs.iter().find_map(|n| machine.lack(*n)) {
        Some(why) => {
            println!("{name}: not run: {why}");
            false
        }
        None => true,
    };
    let mut total = Tally::default();
    let (mut stages, mut boards) = (Vec::new(), None);
    for arch in &wanted.archs {
        if !is_ready(arch.name, &arch.needs()) {
            total += machine::verdict_on_lack(machine::in_ci());
            continue;
        }
        let manager = manager().run()?;
        let kernel = rust_image(machine, arch.target, GUEST)?.run()?;
        let stage = Stage { arch, kernel, manager };
        total += stage.play(wanted.guests);
        stages.push(stage);
    }
    if wanted.board && is_ready(BOARD, &BOARD_NEEDS) {
        let manager = manager().run()?;
        let kernel = rust_image(machine, BOARD_TARGET, BOARD_PACKAGE)?.run()?;
        let serial = kernel.with_file_name("serial");
        let images = Boards {
            eight: kernel,
            serial: [serial, build_c(machine, &C_BOARD, "greet")?],
            guest: build_c(machine, &C_GUEST, "greet")?,
            microbit: embassy_image(machine, "microbit")?.run()?,
        };
        total += boards.insert(images).play(&manager);
    } else if wanted.board {
        total += machine::verdict_on_lack(machine::in_ci());
    }
    // The launcher takes longer to build than all guests, which have played without it before.
    if !stages.is_empty() || boards.is_some() {
        let linux = build_linux()?;
        stages.iter().for_each(|stage| total += stage.play_with(&linux, wanted.guests));
        boards.iter().for_each(|boards: &Boards| total += boards.play_with(&linux));
    }
    Ok(total)
}

impl Arch {
    const fn needs(&self) -> [Need; 2] {
        [Need::Target(self.target), Need::Qemu(self.name)]
    }
}

/// Selection of scenes.
struct Selection {
    archs: Vec<&'static Arch>,
    board: bool,
    guests: usize,
}

fn read(arguments: &[String]) -> Result<Selection, String> {
    let (mut arch, mut guests) = (None, GUESTS);
    args::read(arguments, "cargo xtask bare-metal [--arch A] [--guests N]", |parser| {
        while let Some(arg) = parser.next()? {
            match arg {
                Long("arch") => arch = Some(parser.value()?.string()?),
                Long("guests") => guests = parser.value()?.parse()?,
                other => return Err(other.unexpected()),
            }
        }
        match guests {
            1..=16 => Ok(()),
            _ => Err("--guests needs a number from 1 to 16".into()),
        }
    })?;
    let (archs, board) = match arch.as_deref() {
        None | Some("all") => (ARCHS.iter().collect(), true),
        Some(BOARD) => (Vec::new(), true),
        Some(name) => {
            let found = ARCHS.iter().find(|arch| arch.name == name);
            (vec![found.ok_or_else(|| format!("no architecture {name}"))?], false)
        }
    };
    Ok(Selection { archs, board, guests })
}

/// A build, and the file that it makes.
struct ImageBuild {
    build: Command,
    image: PathBuf,
}

impl ImageBuild {
    fn run(mut self) -> Result<PathBuf, String> {
        match process::succeeds(&mut self.build) {
            true => Ok(self.image),
            false => Err(format!("{} does not build", self.image.display())),
        }
    }
}

fn manager() -> ImageBuild {
    let mut manager = linux_program("pmi-manager");
    manager.build.args(["--manifest-path", MANIFEST]);
    manager
}

/// A program for this machine that guests meet. It has little to do, and is not optimized: that would take
/// longer than all scenes.
fn linux_program(package: &str) -> ImageBuild {
    let directory = toolchain::target_directory().join("bare-metal");
    let mut build = process::cargo();
    build.args(["build", "--package", package]).arg("--target-dir").arg(&directory);
    build.env("CARGO_PROFILE_DEV_DEBUG", "false");
    ImageBuild { build, image: directory.join("debug").join(package) }
}

/// One package of the bare-metal workspace for a target.
fn rust_image(machine: &Machine, target: &str, package: &str) -> Result<ImageBuild, String> {
    let toolchain = toolchain::choose(target, &machine.facts)?;
    let (mut build, directory) = image(&toolchain, target);
    build.args(["--package", package, "--all-features"]);
    Ok(ImageBuild { build, image: directory.join(target).join("release").join(package) })
}

/// The rank with embassy for the board that no machine of QEMU is like: that it links is the test. What it
/// has in common with the micro:bit runs there.
pub(crate) fn rp2040(machine: &Machine) -> Tally {
    tally_of(embassy_image(machine, "rp2040").and_then(ImageBuild::run).map(|_| Tally::PASSED))
}

/// The rank with embassy for a board.
fn embassy_image(machine: &Machine, board: &str) -> Result<ImageBuild, String> {
    let toolchain = toolchain::choose(SMALL_BOARD_TARGET, &machine.facts)?;
    let (mut build, directory) = image(&toolchain, SMALL_BOARD_TARGET);
    build.args(["--package", "pmi-embassy", "--bin", board, "--features", board]);
    let image = directory.join(SMALL_BOARD_TARGET).join("release").join(board);
    Ok(ImageBuild { build, image })
}

/// Builds a program in C of `examples/bare-metal/c-client` with the client for kernels without libc, and
/// gives its image.
pub(crate) fn build_c(
    machine: &Machine,
    program: &CProgram,
    features: &str,
) -> Result<PathBuf, String> {
    let CTarget { target, flags } = program.target;
    let toolchain = toolchain::choose(target, &machine.facts)?;
    let (mut cargo, directory) = image(&toolchain, target);
    cargo.args(["--quiet", "--package", "pmi-c-client", "--features", features]);
    if !process::succeeds(&mut cargo) {
        return Err(format!("{target}: pmi-c-client does not build"));
    }
    let release = directory.join(target).join("release");
    let image = release.join(format!("c-{}", program.name));
    let here = Path::new("examples/bare-metal");
    let mut clang = process::command(machine::CLANG);
    clang.args(C_FLAGS).args(*flags);
    for script in program.scripts {
        clang.arg("-T").arg(here.join(script));
    }
    clang.args(program.sources.iter().map(|source| here.join("c-client").join(source)));
    clang.arg(release.join("libpmi_c_client.a")).arg("-o").arg(&image);
    // The linker refuses an image with a symbol that neither of them has.
    process::output(&mut clang).map(|_| image)
}

/// A program in C for a machine without an operating system.
pub(crate) struct CProgram {
    name: &'static str,
    sources: &'static [&'static str],
    /// Layout of the memory.
    scripts: &'static [&'static str],
    target: &'static CTarget,
}

/// A target of programs in C.
struct CTarget {
    target: &'static str,
    /// Flags of the C compiler, besides those that all targets have in common.
    flags: &'static [&'static str],
}

/// A rank on the microcontroller.
const C_BOARD: CProgram = CProgram {
    name: "board",
    sources: &["board.c", "rank.c"],
    scripts: &["board/board.ld"],
    target: &CORTEX_M,
};

/// The same rank on a 64-bit guest.
const C_GUEST: CProgram = CProgram {
    name: "guest",
    sources: &["guest.c", "rank.c"],
    scripts: &["guest/ld/riscv64.ld", "guest/ld/common.ld"],
    target: &RISCV64,
};

/// The client alone, to be measured.
pub(crate) const C_PROBE: CProgram = CProgram {
    name: "probe",
    sources: &["probe.c"],
    scripts: &["probe/probe.ld"],
    target: &CORTEX_M,
};

const CORTEX_M: CTarget = CTarget {
    target: BOARD_TARGET,
    flags: &[
        "--target=thumbv7em-none-eabihf",
        "-mcpu=cortex-m4",
        "-mfpu=fpv4-sp-d16",
        "-mfloat-abi=hard",
    ],
};

const RISCV64: CTarget = CTarget {
    target: C_GUEST_TARGET,
    flags: &["--target=riscv64-unknown-elf", "-march=rv64gc", "-mabi=lp64d", "-mcmodel=medany"],
};

/// Small code, without a C library.
const C_FLAGS: &[&str] = &[
    "-Oz",
    "-ffreestanding",
    "-nostdlib",
    "-fuse-ld=lld",
    "-Wl,--gc-sections",
    "-ffunction-sections",
    "-fstack-size-section",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Itransports/capi/include",
];

/// The launcher for this machine, as users get it, and a rank.
fn build_linux() -> Result<Linux, String> {
    Ok(Linux { host: toolchain::build_host()?, cards: linux_program("pmi-cards").run()? })
}

/// A build of the bare-metal workspace, and the directory it goes to.
///
/// There is one directory, and for each target one set of flags: cargo compiles `core` once for all builds
/// that are alike in both and in the settings of the profile.
pub(crate) fn image(toolchain: &Toolchain, target: &str) -> (Command, PathBuf) {
    let mut cargo = toolchain::build(toolchain, target, "core", "release");
    // Apart from the workspace's own: other flags, other libraries.
    let directory = toolchain::target_directory().join("bare-metal-std");
    cargo.arg("--target-dir").arg(&directory);
    cargo.env("RUSTFLAGS", flags(target)).env("RUSTC_BOOTSTRAP", "1");
    cargo.args(["--manifest-path", MANIFEST]);
    (cargo, directory)
}

/// Flags of the compiler for a target.
fn flags(target: &str) -> &'static str {
    match target {
        // The sizes of frames are an option that compilers do not promise to keep. No part of an image that
        // is loaded depends on it.
        BOARD_TARGET => "-Zemit-stack-sizes",
        // The boot code runs before there are 64-bit addresses.
        X86_64 => "-Crelocation-model=static -Ccode-model=small",
        _ => "",
    }
}

const BOARD: &str = "cortex-m";
const BOARD_TARGET: &str = "thumbv7em-none-eabihf";
const BOARD_PACKAGE: &str = "pmi-board";
const GUEST: &str = "pmi-guest";
const SMALL_BOARD_TARGET: &str = "thumbv6m-none-eabi";
const X86_64: &str = "x86_64-unknown-none";
const C_GUEST_TARGET: &str = "riscv64gc-unknown-none-elf";
const BOARD_NEEDS: [Need; 6] = [
    Need::Target(BOARD_TARGET),
    Need::Target(SMALL_BOARD_TARGET),
    Need::Qemu("arm"),
    Need::Clang,
    Need::Target(C_GUEST_TARGET),
    Need::Qemu("riscv64"),
];

const MANIFEST: &str = "examples/bare-metal/Cargo.toml";

/// Output of the microcontroller; nothing if the machine has no QEMU for it.
pub(crate) fn board_lines(machine: &Machine, kernel: &Path) -> Result<Option<Vec<Line>>, String> {
    if machine.lack(Need::Qemu("arm")).is_some() {
        return Ok(None);
    }
    Running::board(MPS2, kernel, None)?.ends_with(0, Instant::now() + SCENE_TIME).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(String::from).collect()
    }

    #[test]
    fn options_choose_architectures_and_how_many_guests() {
        let one = read(&words("--arch aarch64 --guests 2")).unwrap();
        assert_eq!((one.archs[0].name, one.archs.len(), one.board), ("aarch64", 1, false));
        assert_eq!(one.guests, 2);
        let board = read(&words("--arch cortex-m")).unwrap();
        assert!(board.archs.is_empty() && board.board);
        let all = read(&[]).unwrap();
        assert_eq!((all.archs.len(), all.board), (ARCHS.len(), true));
        for wrong in ["--arch vax", "--guests 0", "--guests", "--fast 1"] {
            assert!(read(&words(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn gate_has_all_that_its_guests_need() {
        assert!(ARCHS[0].needs().iter().all(|need| NEEDS.contains(need)));
    }

    #[test]
    fn statuses_have_exit_statuses_of_their_own() {
        for arch in ARCHS {
            let mut exits: Vec<i32> = (0..=13).map(arch.exit_of).collect();
            exits.sort_unstable();
            exits.dedup();
            assert_eq!(exits.len(), 14, "{}", arch.name);
        }
    }
}
