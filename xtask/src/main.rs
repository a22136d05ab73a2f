//! The project's chores, started as `cargo xtask COMMAND`: one file per command, nothing installed by hand.
//!
//! `test` is the command the README names and CI runs; the others are single checks of it, for people who
//! want an answer in a second. Nothing in the workspace depends on this crate.
#![forbid(unsafe_code)]

mod bare_metal;
mod bench;
mod documents;
mod faults;
mod fuzz;
mod layers;
mod machine;
mod modules;
mod mpi;
mod package;
mod playground;
mod process;
mod processes;
mod repeat;
mod sizes;
mod source;
mod tally;
mod test;
mod tidy;
mod toolchain;
mod tree;
mod vocabulary;
mod wasm;

use std::process::ExitCode;

/// One sub-command. An error text means that the command could not do its work at all.
struct XtaskCommand {
    names: &'static [&'static str],
    about: &'static str,
    run: fn(&[String]) -> Result<ExitCode, String>,
}

const COMMANDS: &[XtaskCommand] = &[
    XtaskCommand {
        names: &["test", "ci"],
        about: "set the machine up and run every step, or only the STEPs named",
        run: test::command,
    },
    XtaskCommand {
        names: &["setup"],
        about: "install the programs and packages for the steps of the tests, or for the named \
                STEPs only",
        run: test::setup,
    },
    XtaskCommand {
        names: &["layers"],
        about: "check permitted dependencies: crates, foreign packages, modules of core",
        run: layers::command,
    },
    XtaskCommand {
        names: &["tidy"],
        about: "check house rules that compilers do not check",
        run: tidy::command,
    },
    XtaskCommand {
        names: &["vocabulary"],
        about: "measure names, prose and structure: [--check | --write | --list FIGURE [PATH]]",
        run: vocabulary::command,
    },
    XtaskCommand {
        names: &["bench"],
        about: "compare with Hydra and a floor: all, launch, kvs, memory; --write into the docs",
        run: bench::command,
    },
    XtaskCommand {
        names: &["bare-metal"],
        about: "run guests without operating system under QEMU [--arch A] [--guests N]",
        run: bare_metal::command,
    },
    XtaskCommand {
        names: &["sizes"],
        about: "measure the size of PMI on a microcontroller, against its budgets [--write]",
        run: sizes::command,
    },
    XtaskCommand {
        names: &["faults"],
        about: "inject faults into runs of launchers, by seed: --help lists its options",
        run: faults::command,
    },
    XtaskCommand {
        names: &["fuzz"],
        about: "run the fuzzers on random bytes: [--seconds N] [TARGET...]",
        run: fuzz::command,
    },
    XtaskCommand {
        names: &["flaky"],
        about: "repeat timing-sensitive suites on busy cores: [--runs N] [--spinners N] [SUITE...]",
        run: repeat::flaky,
    },
    XtaskCommand {
        names: &["peers"],
        about: "check the statements of the documentation about prterun and srun, which may fail \
                because of them",
        run: repeat::peers,
    },
    XtaskCommand {
        names: &["package"],
        about: "check licences, sources and versions of dependencies, and assemble the crates [--verify]",
        run: package::command,
    },
    XtaskCommand {
        names: &["playground"],
        about: "build and serve the page on which jobs are played [--port N] [--build-only DIR] [--bench]",
        run: playground::command,
    },
    XtaskCommand { names: &["help"], about: "print this page", run: help },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (name, rest) = match arguments.split_first() {
        Some((name, rest)) => (name.trim_start_matches('-'), rest),
        None => ("help", &[][..]),
    };
    let Some(command) = COMMANDS.iter().find(|command| command.names.contains(&name)) else {
        eprintln!("xtask: no command {name:?}; see `cargo xtask help`");
        return ExitCode::from(2);
    };
    (command.run)(rest).unwrap_or_else(|why| {
        eprintln!("xtask {name}: {why}");
        ExitCode::FAILURE
    })
}

/// The names of all commands.
fn names() -> Vec<&'static str> {
    COMMANDS.iter().flat_map(|command| command.names).copied().collect()
}

fn help(_: &[String]) -> Result<ExitCode, String> {
    println!("usage: cargo xtask COMMAND\n");
    for command in COMMANDS {
        println!("  {:<10} {}", command.names.join(", "), command.about);
    }
    println!("\nsteps of `test`, in order:\n");
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
