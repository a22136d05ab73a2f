//! The project's chores, started as `cargo xtask COMMAND`: one file per command, nothing installed by hand.
//!
//! `test` is the command the README names and CI runs; the others are single checks of it, for people who
//! want an answer in a second. Nothing in the workspace depends on this crate.
#![forbid(unsafe_code)]

mod args;
mod bare_metal;
mod bench;
mod beside;
mod big_endian;
mod book;
mod capi;
mod check;
mod coverage;
mod cycles;
mod dist;
mod documents;

mod failures;
mod faults;
mod files;
mod fuzz;
mod hardware;
mod instructions;
mod layers;
mod linux_guest;
mod machine;
mod modules;
mod mpi;
mod mutants;
mod package;
mod page;
mod part;
mod playground;
mod pmix_tools;
mod process;
mod processes;
mod random;
mod repeat;
mod rustdoc;
mod same;
mod setup;
mod sizes;
mod slowest;
mod soak;
mod source;
mod step_times;
mod tally;
mod test;
mod tidy;
mod toolchain;
mod tree;
mod wasm;
mod wheel;

use std::process::ExitCode;

/// Does the work of a command. An error text means that it could not do its work at all.
type Run = fn(&[String]) -> Result<ExitCode, String>;

const COMMANDS: &[(&str, Run)] = &[
    ("test", test::command),
    ("ci", test::command),
    ("check", check::command),
    ("setup", setup::command),
    ("layers", layers::command),
    ("tidy", tidy::command),
    ("bench", bench::command),
    ("bare-metal", bare_metal::command),
    ("boards", test::boards),
    ("hardware", hardware::command),
    ("book", book::command),
    ("capi", capi::command),
    ("coverage", coverage::command),
    ("mutants", mutants::command),
    ("sizes", sizes::command),
    ("instructions", instructions::command),
    ("same", same::command),
    ("faults", faults::command),
    ("fuzz", fuzz::command),
    ("flaky", repeat::flaky),
    ("peers", repeat::peers),
    ("soak", soak::command),
    ("pmix-tools", pmix_tools::command),
    ("package", package::command),
    ("dist", dist::command),
    ("playground", playground::command),
    ("help", help),
];

const USAGE: &str = "usage: cargo xtask COMMAND

  test, ci   set the machine up and run every step, or only the STEPs named
  check      format, lints and tests of what has changed, and of what stands on it [--since REV] [--list]
  setup      install the programs and packages for the steps of the tests, or for the named STEPs only:
             [--list] the packages of each step, [--dry-run] the commands; [--no-remove] of what is installed
  layers     check permitted dependencies: crates, foreign packages, modules of core
  tidy       check house rules that compilers do not check
  bench      compare with Hydra and a floor: all, launch, kvs, memory, nodes, ...; --write into the docs
  bare-metal run guests without operating system under QEMU [--arch A] [--guests N]
  boards     build the libraries for all boards without operating system, and the image for an RP2040
  capi       build the C libraries, libpmi and libpmi2, into target/capi [--profile P] [--directory D]
  coverage   check the tables of what the specifications require, and the tests that prove it [--write]
  mutants    break code behind these items, so that a test must fail: [--count N] [--seed N] [ITEM...]
  sizes      measure the size of PMI on a microcontroller, against its budgets [--write]
  instructions count what the server executes for one operation, against docs/performance.md [--write]
  same       compare two builds of pmi-host by their command lines, by seed: --help lists its options
  faults     inject faults into runs of launchers, by seed: --help lists its options
  fuzz       run the fuzzers on random bytes: [--seconds N] [TARGET...]
  flaky      repeat timing-sensitive suites on busy cores: [--runs N] [--spinners N] [SUITE...]
  peers      check the statements of the documentation about prterun and srun, which may fail because of them
  soak       run what the gate has no time for, for hours: [--list] [PART...]
  pmix-tools compare PMIx tools with this launcher and with prterun [--write]
  package    check licences, sources and versions of dependencies, and assemble the crates [--verify]
  dist       build archives and packages of a release, and try them [--static] [--portable] [--untried]
  hardware   place ranks on machines with sockets and memory domains under QEMU: [--static] [SCENE...]
  book       build the book of docs, with the playground and rustdoc, and check its links [--archive FILE]
  playground build and serve the page on which jobs are played [--port N] [--build-only DIR] [--bench]
  help       print this page
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (name, rest) = match arguments.split_first() {
        Some((name, rest)) => (name.trim_start_matches('-'), rest),
        None => ("help", &[][..]),
    };
    let Some((_, run)) = COMMANDS.iter().find(|(known, _)| *known == name) else {
        eprintln!("xtask: no command {name:?}; see `cargo xtask help`");
        return ExitCode::from(2);
    };
    run(rest).unwrap_or_else(|why| {
        eprintln!("xtask {name}: {why}");
        ExitCode::FAILURE
    })
}

/// The names of all commands.
fn names() -> Vec<&'static str> {
    COMMANDS.iter().map(|(name, _)| *name).collect()
}

fn help(_: &[String]) -> Result<ExitCode, String> {
    println!("{USAGE}\nsteps of `test`, in order:\n");
    for (name, about) in test::steps() {
        println!("  {name:<10} {about}");
    }
    println!("\nenvironment:\n");
    println!("  CI=true             a missing program is an error instead of a skipped step");
    println!(
        "  XTASK_TOOLCHAIN     installed | build-std: which compiler builds for other targets"
    );
    Ok(ExitCode::SUCCESS)
}

/// Prints what a check found, one line each, and turns it into an exit code.
fn report(check: &str, findings: &[String]) -> ExitCode {
    for finding in findings {
        println!("{finding}");
    }
    if findings.is_empty() {
        println!("{check}: nothing found");
        ExitCode::SUCCESS
    } else {
        println!("{check}: {} found", findings.len());
        ExitCode::FAILURE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_on_the_help_page() {
        for name in names() {
            let is_row = |line: &str| line.split([' ', ',']).take(5).any(|word| word == name);
            assert!(USAGE.lines().any(is_row), "{name}");
        }
    }
}
