//! Completions for shells and pages for `man`, derived from the same tables as the help.

use super::{COMMANDS, FACES, Subcommand, define, manual};
use crate::cli::explain;
use crate::cli::mpiexec;
use clap::{Arg, ArgMatches, Command};
use clap_complete::Shell;
use clap_mangen::Man;
use pmi_host_base::exit::{FAILED, complain, print, refuse};
use pmi_host_base::usage::UsageError;
use std::ffi::OsString;
use std::io;
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
        match shell_completion(shell, name) {
            Some(text) => print(&text),
            None => {
                let what = format!("'{name}' is not a name of this program");
                refuse(&UsageError::Other { what })
            }
        }
    })
}

/// Completions of a shell for one name of this program; `None` if it is no name of it.
pub(super) fn shell_completion(shell: Shell, name: &str) -> Option<String> {
    let mut command = match FACES.iter().find(|face| **face == name) {
        Some(face) => mpiexec::define(face),
        None if name == OWN => define(),
        None => return None,
    };
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut text);
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// Prints a man page.
pub(super) fn man(words: Vec<OsString>) -> ExitCode {
    with(define_man(), words, |matches| {
        let name = matches.get_one::<String>(NAME).map_or(OWN, String::as_str);
        let known = COMMANDS.iter().find(|command| command.name == name);
        let command = match known {
            Some(known) => titled(known),
            None if name == OWN => define(),
            None => {
                return refuse(&UsageError::Other {
                    what: format!("there is no command '{name}'"),
                });
            }
        };
        match page(command) {
            Ok(text) => print(&text),
            Err(error) => complain(&error, FAILED),
        }
    })
}

/// The page of this program, those of its commands, and one for each name under which it reads another
/// command line; each with its title.
pub(super) fn manual_pages() -> Vec<(String, String)> {
    let shown = COMMANDS.iter().filter(|command| !(command.define)().is_hide_set());
    let commands = shown.map(titled).chain(std::iter::once(define()));
    let faces = FACES.iter().filter(|face| **face != "mpiexec").map(|face| mpiexec::define(face));
    let pages = commands.chain(faces).filter_map(|command| {
        let title = command.get_name().to_owned();
        Some((title, page(command).ok()?))
    });
    pages.collect()
}

/// Definition of a command with the title of its page. Pages of commands are named as those of git.
fn titled(command: &Subcommand) -> Command {
    let title = match command.name {
        "mpiexec" => command.name.to_owned(),
        name => format!("{OWN}-{name}"),
    };
    (command.define)().name(title)
}

fn page(command: Command) -> io::Result<String> {
    let title = command.get_name().to_owned();
    let source = format!("{OWN} {}", env!("CARGO_PKG_VERSION"));
    let mut text = Vec::new();
    Man::new(command).source(source).render(&mut text)?;
    let mut text = String::from_utf8_lossy(&text).into_owned();
    text.push_str(&manual::sections(&title));
    Ok(text)
}

/// Parses the arguments of a small command, then runs it.
fn with(
    command: Command,
    words: Vec<OsString>,
    effect: impl Fn(&ArgMatches) -> ExitCode,
) -> ExitCode {
    explain::parse(command, words).map_or_else(|code| code, |matches| effect(&matches))
}

fn name(help: &'static str) -> Arg {
    Arg::new(NAME).help(help)
}

const OWN: &str = "pmi-host";
const SHELL: &str = "SHELL";
const NAME: &str = "NAME";
