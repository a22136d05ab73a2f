//! Completions for shells and pages for `man`, derived from the same tables as the help.

use super::{COMMANDS, FACES, define};
use crate::cli::explain::explain;
use crate::cli::mpiexec;
use clap::{Arg, ArgMatches, Command};
use clap_complete::Shell;
use clap_mangen::Man;
use pmi_host_base::exit::{FAILED, complain, print, refuse};
use pmi_host_base::usage::UsageError;
use std::ffi::OsString;
use std::process::ExitCode;

/// Definition of `completions`.
pub(super) fn define_completions() -> Command {
    Command::new("completions")
        .about("Print completions for a shell: source <(pmi-host completions bash)")
        .arg(
            Arg::new(SHELL)
                .required(true)
                .value_parser(clap::value_parser!(Shell))
                .help("shell of the completions"),
        )
        .arg(name("name of the program"))
}

/// Definition of `man`.
pub(super) fn define_man() -> Command {
    Command::new("man")
        .about("Print a page for man: pmi-host man run | man -l -")
        .arg(name("the page of this command (default: the one that lists them)"))
}

/// Prints completions.
pub(super) fn completions(words: Vec<OsString>) -> ExitCode {
    with(define_completions(), words, |matches| {
        let shell = *matches.get_one::<Shell>(SHELL).expect("clap has required it");
        let name = matches.get_one::<String>(NAME).map_or(OWN, String::as_str);
        let mut command = match FACES.iter().find(|face| **face == name) {
            Some(face) => mpiexec::define(face),
            None if name == OWN => define(),
            None => {
                return refuse(&UsageError::Other {
                    what: format!(
                        "'{name}' is not a name of this \
                program"
                    ),
                });
            }
        };
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut command, name, &mut text);
        print(&String::from_utf8_lossy(&text))
    })
}

/// Prints a man page.
pub(super) fn man(words: Vec<OsString>) -> ExitCode {
    with(define_man(), words, |matches| {
        let name = matches.get_one::<String>(NAME).map_or(OWN, String::as_str);
        let known = COMMANDS.iter().find(|command| command.name == name);
        let command = match known.map(|command| (command.define)()) {
            Some(command) => {
                // Pages of commands are named as those of git.
                let title =
                    if name == "mpiexec" { name.to_owned() } else { format!("{OWN}-{name}") };
                command.name(title)
            }
            None if name == OWN => define(),
            None => {
                return refuse(&UsageError::Other {
                    what: format!("there is no command '{name}'"),
                });
            }
        };
        let mut text = Vec::new();
        let source = format!("{OWN} {}", env!("CARGO_PKG_VERSION"));
        match Man::new(command).source(source).render(&mut text) {
            Ok(()) => print(&String::from_utf8_lossy(&text)),
            Err(error) => complain(&error, FAILED),
        }
    })
}

/// Parses the arguments of a small command, then runs it.
fn with(
    command: Command,
    words: Vec<OsString>,
    effect: impl Fn(&ArgMatches) -> ExitCode,
) -> ExitCode {
    let mut command = command.no_binary_name(true);
    match command.try_get_matches_from_mut(words) {
        Ok(matches) => effect(&matches),
        Err(error) if !error.use_stderr() => print(&error.to_string()),
        Err(error) => refuse(&explain(&error, &command)),
    }
}

fn name(help: &'static str) -> Arg {
    Arg::new(NAME).help(help)
}

const OWN: &str = "pmi-host";
const SHELL: &str = "SHELL";
const NAME: &str = "NAME";
