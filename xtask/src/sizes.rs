//! `cargo xtask sizes`: cost of PMI on a microcontroller, against committed budgets.
//!
//! Each image is one part of PMI linked for a Cortex-M4 with nothing else, so that the remainder is
//! the cost of the part. Flash and static memory are read from the image, the stack from its frames
//! and calls. A figure that exceeds its budget by more than two per cent fails the command; with
//! `--write` the figures become the budgets and `docs/sizes.md` is written anew: an intended growth
//! is committed with its cause.

mod stack;

use crate::args;
use crate::bare_metal;
use crate::machine::{Machine, Need};
use crate::page;
use crate::process;
use crate::toolchain;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

/// One image.
struct Image {
    name: &'static str,
    package: &'static str,
    features: &'static str,
    about: &'static str,
}

const IMAGES: &[Image] = &[
    Image {
        name: "client",
        package: "pmi-probe",
        features: "client",
        about: "PMI-1 client on an inherited line, put, fence, get: codec, state machine, line buffer",
    },
    Image {
        name: "client+short",
        package: "pmi-probe",
        features: "short",
        about: "the same with lines of 192 bytes, for short names and values",
    },
    Image {
        name: "client in C",
        package: C_CLIENT,
        features: "",
        about: "the client of `pmi_client.h` for kernels without libc: open, put, fence, get, finalize",
    },
    Image {
        name: "client+pmi2",
        package: "pmi-probe",
        features: "pmi2",
        about: "the first with PMI-2, chosen at run time",
    },
    Image {
        name: "client+binary",
        package: "pmi-probe",
        features: "binary",
        about: "the first with the binary dialect, chosen at run time",
    },
    Image {
        name: "client+all",
        package: "pmi-probe",
        features: "all",
        about: "the same with names, connections over TCP and every other feature of the core",
    },
    Image {
        name: "client+server",
        package: "pmi-probe",
        features: "client,server",
        about: "the first and a server for 8 ranks that do the same; two lines and 2 KiB of store are lent",
    },
    Image {
        name: "client+server+all",
        package: "pmi-probe",
        features: "all,server",
        about: "both with every feature, as the server of a host",
    },
    Image {
        name: "client+tcp",
        package: "pmi-probe",
        features: "tcp",
        about: "PMI-1 client over smoltcp: Ethernet, ARP, IPv4, TCP, two frames, one socket",
    },
    Image {
        name: "board",
        package: "pmi-board",
        features: "",
        about: "8 clients and their server with lines of 96 bytes, which also runs under QEMU",
    },
];

/// A target of the project: its subject, its limit, and its figure.
type Goal = (&'static str, i64, fn(&Find<'_>) -> i64);

/// Gives the figures of an image by its name.
type Find<'a> = dyn Fn(&str) -> Figures + 'a;

const GOALS: &[Goal] = &[
    ("PMI-1 client, text", 6 << 10, |of| of("client").text),
    ("PMI-1 client, static RAM and stack", 2700, |of| of("client").memory()),
    ("PMI-1 client with lines of 192 bytes, flash", 7680, |of| of("client+short").flash),
    ("PMI-1 client with lines of 192 bytes, static RAM and stack", 2 << 10, |of| {
        of("client+short").memory()
    }),
    ("PMI-2, text beyond the client's", 5 << 10, |of| of("client+pmi2").text - of("client").text),
    ("client and server for 8 ranks, text", 14 << 10, |of| of("client+server").text),
    ("client and server for 8 ranks, flash", 17 << 10, |of| of("client+server").flash),
    ("client and server for 8 ranks, static RAM and stack", 12 << 10, |of| {
        of("client+server").memory()
    }),
    ("client in C, flash beyond that of the client", 600, |of| {
        of("client in C").flash - of("client").flash
    }),
    ("client over smoltcp, flash", 45 << 10, |of| of("client+tcp").flash),
    ("client over smoltcp, static RAM and stack", 12 << 10, |of| of("client+tcp").memory()),
    ("board, flash", 64 << 10, |of| of("board").flash),
    ("board, static RAM and stack", 16 << 10, |of| of("board").memory()),
    ("functions of core::fmt and of panics in all images without smoltcp", 0, |of| {
        let images = IMAGES.iter().filter(|image| image.features != "tcp");
        images.map(|image| of(image.name).forbidden).sum()
    }),
];

/// Bytes, and functions that should not be there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Figures {
    text: i64,
    flash: i64,
    ram: i64,
    stack: i64,
    /// Stack that a run has used, if there was one.
    painted: Option<i64>,
    /// Functions of formatting and panicking.
    forbidden: i64,
    /// Functions whose calls through a register the stack analysis did not follow.
    unfollowed: i64,
}

impl Figures {
    /// Static RAM and stack.
    const fn memory(self) -> i64 {
        self.ram + self.stack
    }
}

const TARGET: &str = "thumbv7em-none-eabihf";
const C_CLIENT: &str = "pmi-c-client";

const BUDGETS: &str = "examples/bare-metal/budgets.txt";
const PAGE: &str = "docs/sizes.md";

pub(crate) fn command(arguments: &[String]) -> Result<ExitCode, String> {
    let [is_write] = args::flags(arguments, "cargo xtask sizes [--write]", ["write"])?;
    let needs = [Need::Target(TARGET), Need::Qemu("arm"), Need::Clang];
    let machine = Machine::prepare(needs.into_iter());
    if !is_write {
        return Ok(crate::report("sizes", &check(&machine)?));
    }
    let (compiler, all) = measure(&machine)?;
    let table = table(&compiler, &all);
    println!("\n{table}");
    write(BUDGETS, &budgets(&compiler, &all))?;
    write(PAGE, &whole_page(&table))?;
    page::write("README.md", MARKS, &rows(&all))?;
    Ok(ExitCode::SUCCESS)
}

/// Figures that exceed their budget.
pub(crate) fn check(machine: &Machine) -> Result<Vec<String>, String> {
    let (compiler, all) = measure(machine)?;
    println!("\n{}", table(&compiler, &all));
    let text = fs::read_to_string(process::root().join(BUDGETS)).map_err(|e| e.to_string())?;
    Ok(compare(&text, &compiler, &all))
}

/// Builds and measures all images; also returns the compiler.
fn measure(machine: &Machine) -> Result<(String, Vec<Row>), String> {
    if let Some(why) = machine.lack(Need::Target(TARGET)) {
        return Err(why.into());
    }
    let toolchain = toolchain::choose(TARGET, &machine.facts)?;
    let tools = SizeTools::find(machine)?;
    let mut compiler = String::new();
    let mut all = Vec::new();
    for image in IMAGES {
        if image.package == C_CLIENT {
            let program = &bare_metal::C_PROBE;
            let elf = bare_metal::build_c(machine, program, image.features)?;
            all.push((image, tools.measure(&elf)?));
            continue;
        }
        let (mut cargo, directory) = bare_metal::image(&toolchain, TARGET);
        cargo.args(["--quiet", "--package", image.package, "--features", image.features]);
        compiler = version(&cargo)?;
        if !process::succeeds(&mut cargo) {
            return Err(format!("{}: does not build", image.name));
        }
        let elf = directory.join(TARGET).join("release").join(image.package);
        let mut figures = tools.measure(&elf)?;
        if image.package == "pmi-board" {
            figures.painted = painted(bare_metal::board_lines(machine, &elf)?)?;
        }
        all.push((image, figures));
    }
    Ok((compiler, all))
}

/// The stack that the board reports as used; nothing if it could not run here.
fn painted(lines: Option<Vec<String>>) -> Result<Option<i64>, String> {
    let Some(lines) = lines else { return Ok(None) };
    let used = lines
        .iter()
        .find_map(|line| line.split_once("done, stack ")?.1.split(' ').next()?.parse().ok());
    used.map(Some).ok_or_else(|| format!("no stack in {lines:?}"))
}

fn version(cargo: &Command) -> Result<String, String> {
    let own = cargo.get_envs().find(|(name, _)| *name == "RUSTC").and_then(|(_, value)| value);
    let rustc = own.unwrap_or_else(|| "rustc".as_ref());
    let text = process::output(process::command(rustc).arg("--version"))?;
    Ok(text.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
}

fn write(path: &str, text: &str) -> Result<(), String> {
    println!("writing {path}");
    fs::write(process::root().join(path), text).map_err(|error| format!("{path}: {error}"))
}

/// LLVM's tools, by the name they have here.
struct SizeTools {
    suffix: &'static str,
    directory: String,
}

impl SizeTools {
    fn find(machine: &Machine) -> Result<Self, String> {
        let sysroot = machine.facts.sysroot.as_deref().unwrap_or(Path::new(""));
        let bundled = sysroot.join("lib/rustlib/x86_64-unknown-linux-gnu/bin/");
        let bundled = bundled.to_string_lossy();
        for (directory, suffix) in [("", "-22"), (&*bundled, ""), ("", "")] {
            let tools = Self { suffix, directory: directory.into() };
            if tools.run("llvm-objdump", &["--version"]).is_ok() {
                return Ok(tools);
            }
        }
        Err("no llvm-objdump; on Debian 12 `apt-get install llvm-22`, or \
             `rustup component add llvm-tools`"
            .into())
    }

    fn run(&self, name: &str, arguments: &[&str]) -> Result<String, String> {
        let program = format!("{}{name}{}", self.directory, self.suffix);
        process::output(process::command(program).args(arguments))
    }

    fn measure(&self, elf: &Path) -> Result<Figures, String> {
        let elf = elf.to_string_lossy();
        let size = |name: &str| -> Result<i64, String> {
            Ok(section(&self.run("llvm-size", &["-A", "-d", &elf])?, name))
        };
        let (text, data) = (size(".text")?, size(".data")?);
        let names = self.run("llvm-nm", &["--demangle", &elf])?;
        let calls = stack::Calls::read(
            &self.run("llvm-readobj", &["--stack-sizes", &elf])?,
            &self.run("llvm-objdump", &["-d", "--no-show-raw-insn", &elf])?,
        );
        let worst = calls.worst("reset")?;
        Ok(Figures {
            text,
            flash: text + size(".rodata")? + data,
            ram: data + size(".bss")?,
            stack: worst.bytes,
            painted: None,
            forbidden: forbidden(&names),
            unfollowed: worst.unfollowed,
        })
    }
}

/// The size of a section, from the output of `llvm-size -A -d`.
fn section(text: &str, name: &str) -> i64 {
    let found = text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next()? == name).then(|| words.next()?.parse().ok()).flatten()
    });
    found.unwrap_or(0)
}

/// Number of functions of formatting and panicking an image has, from the output of `llvm-nm`.
fn forbidden(names: &str) -> i64 {
    let is_one = |line: &&str| FORBIDDEN.iter().any(|name| line.contains(name));
    i64::try_from(names.lines().filter(is_one).count()).unwrap_or(i64::MAX)
}

const FORBIDDEN: &[&str] = &[
    "core::fmt::",
    "core::panicking::",
    "rust_begin_unwind",
    "slice_index_fail",
    "len_mismatch_fail",
    "expect_failed",
    "unwrap_failed",
];

/// An image and what it takes.
type Row = (&'static Image, Figures);
type Measured = [Row];

fn table(compiler: &str, all: &Measured) -> String {
    let mut text = format!(
        "`{TARGET}`, `opt-level = \"z\"`, LTO, `panic = \"abort\"`, {compiler}; all in bytes.\n\n\
         | image | text | flash | static RAM | stack | painted | fmt and panic |\n\
         |---|---|---|---|---|---|---|\n"
    );
    for (image, f) in all {
        let Figures { text: code, flash, ram, stack, painted, forbidden, unfollowed } = f;
        let painted = painted.map_or("–".into(), |bytes| bytes.to_string());
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "| {} | {code} | {flash} | {ram} | {stack} ({unfollowed}) | {painted} | {forbidden} |",
            image.name
        );
    }
    text.push_str("\n| goal | limit | now | |\n|---|---|---|---|\n");
    for (what, limit, now) in reached(all) {
        let verdict = if now <= limit { "met" } else { "missed" };
        let _ = writeln!(text, "| {what} | {limit} | {now} | {verdict} |");
    }
    text
}

/// Every goal, and how near the figures come to it.
fn reached(all: &Measured) -> impl Iterator<Item = (&'static str, i64, i64)> {
    let of = |name: &str| {
        all.iter().find(|(image, _)| image.name == name).map(|(_, f)| *f).unwrap_or_default()
    };
    GOALS.iter().map(move |(what, limit, now)| (*what, *limit, now(&of)))
}

fn whole_page(table: &str) -> String {
    let mut text = String::from(
        "# Sizes\n\n\
         Written by `cargo xtask sizes --write`; do not edit. `cargo xtask sizes` fails when a \
         figure exceeds\nits budget in `examples/bare-metal/budgets.txt` by more than 2 per cent, \
         or a goal is missed.\n\n",
    );
    text.push_str(table);
    text.push_str("\n## The images\n\n");
    for image in IMAGES {
        let _ = writeln!(text, "- **{}**: {}.", image.name, image.about);
    }
    text.push_str(
        "\nText is code, flash is code and constants, static RAM is everything with a fixed \
         place. The stack is\nthe worst path of direct calls from the entry on, with the slice \
         that a message is rendered into;\nthe number behind it is the number of functions on \
         such paths that also call through a register, which is\nnot followed. Painted is what a \
         run under QEMU has used.\n",
    );
    text
}

fn budgets(compiler: &str, all: &Measured) -> String {
    let mut text = format!(
        "# Budget of each image, in bytes: text, flash, static RAM, stack.\n# Written by `cargo \
         xtask sizes --write`.\ncompiler {compiler}\n"
    );
    for (image, f) in all {
        let _ = writeln!(text, "{} {} {} {} {}", image.name, f.text, f.flash, f.ram, f.stack);
    }
    text
}

/// The table of the README.
fn rows(all: &Measured) -> String {
    let row = |(image, f): &Row| {
        let about = format!("{}: {}", image.name, image.about);
        vec![about, f.flash.to_string(), f.ram.to_string(), f.stack.to_string()]
    };
    let header = ["image", "flash", "static RAM", "stack"];
    page::table(&header, ["---", "---"], &all.iter().map(row).collect::<Vec<_>>())
}

const MARKS: [&str; 2] =
    ["<!-- sizes: written by `cargo xtask sizes --write` -->", "<!-- end of sizes -->"];

/// Figures that exceed their budget, or a goal.
fn compare(budgets: &str, compiler: &str, all: &Measured) -> Vec<String> {
    let mut findings = Vec::new();
    // Another compiler gives figures that differ by a few per cent, without a change here.
    let is_same = budgets.lines().any(|line| line == format!("compiler {compiler}"));
    let per_cent = if is_same { 2 } else { 15 };
    for (image, f) in all {
        let row = budgets.lines().find_map(|line| line.strip_prefix(image.name)?.strip_prefix(' '));
        let Some(row) = row else {
            findings.push(format!("{}: has no budget", image.name));
            continue;
        };
        let limits = row.split(' ').map(|word| word.parse::<i64>().unwrap_or(0));
        let figures = [f.text, f.flash, f.ram, f.stack];
        for ((what, now), limit) in COLUMNS.iter().zip(figures).zip(limits) {
            if now * 100 > limit * (100 + per_cent) {
                findings.push(format!("{}: {what} is {now}, the budget {limit}", image.name));
            }
        }
    }
    let missed = reached(all).filter(|(_, limit, now)| is_same && now > limit);
    findings.extend(missed.map(|(what, limit, now)| format!("{what} is {now}, the goal {limit}")));
    findings
}

const COLUMNS: [&str; 4] = ["text", "flash", "static RAM", "stack"];

#[cfg(test)]
mod tests {
    use super::*;

    const FIGURES: Figures = Figures {
        text: 100,
        flash: 200,
        ram: 50,
        stack: 10,
        painted: None,
        forbidden: 0,
        unfollowed: 0,
    };

    #[test]
    fn two_per_cent_too_much_are_allowed_and_more_is_not() {
        let all: Vec<_> = IMAGES.iter().map(|image| (image, FIGURES)).collect();
        let text = budgets("rustc 1.0", &all);
        assert_eq!(compare(&text, "rustc 1.0", &all), [""; 0]);
        let grown: Vec<_> =
            IMAGES.iter().map(|image| (image, Figures { text: 102, ..FIGURES })).collect();
        assert_eq!(compare(&text, "rustc 1.0", &grown), [""; 0]);
        let grown: Vec<_> =
            IMAGES.iter().map(|image| (image, Figures { text: 103, ..FIGURES })).collect();
        assert_eq!(compare(&text, "rustc 1.0", &grown).len(), IMAGES.len());
        assert_eq!(compare(&text, "rustc 2.0", &grown), [""; 0]);
        assert_eq!(compare("", "rustc 1.0", &all).len(), IMAGES.len());
    }

    #[test]
    fn missed_goal_is_reported_whatever_the_budget_is() {
        let fat: Vec<_> =
            IMAGES.iter().map(|image| (image, Figures { ram: 1 << 20, ..FIGURES })).collect();
        let text = budgets("rustc 1.0", &fat);
        let told = compare(&text, "rustc 1.0", &fat);
        assert!(
            told.contains(&"PMI-1 client, static RAM and stack is 1048586, the goal 2700".into()),
            "{told:?}"
        );
        assert_eq!(compare(&text, "rustc 2.0", &fat), [""; 0]);
    }

    #[test]
    fn sections_and_forbidden_functions_are_read_as_the_tools_print_them() {
        let text = "x  :\nsection   size   addr\n.text     15838   134217728\n.bss  1528  0\n";
        assert_eq!((section(text, ".text"), section(text, ".data")), (15838, 0));
        let names = "08000000 t core::panicking::panic_fmt\n08000002 t pmi_core::client::start\n\
                     08000004 t <u32 as core::fmt::Display>::fmt\n";
        assert_eq!(forbidden(names), 1 + 1);
    }

    #[test]
    fn board_reports_its_stack() {
        let said = |line: &str| painted(Some(vec!["noise".into(), line.into()]));
        assert_eq!(said("board: 8 ranks done, stack 3528 of 4688"), Ok(Some(3528)));
        assert!(said("board: failed, stack 3528 of 4688").is_err());
        assert_eq!(painted(None), Ok(None));
    }

    #[test]
    fn goal_is_met_or_missed() {
        let all: Vec<_> = IMAGES.iter().map(|image| (image, FIGURES)).collect();
        let text = table("rustc 1.0", &all);
        assert!(text.contains("| PMI-1 client, text | 6144 | 100 | met |"), "{text}");
    }

    #[test]
    fn readme_has_a_place_for_the_rows_of_every_image() {
        let readme = fs::read_to_string(process::root().join("README.md")).unwrap();
        let written = page::replace(&readme, MARKS, &rows(&[(&IMAGES[0], FIGURES)])).unwrap();
        assert!(written.contains("| 200 | 50 | 10 |"));
    }
}
