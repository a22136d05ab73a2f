//! Errors of the option parser as errors of this program, with the option that was probably meant.

use super::options;
use crate::cli::nearest::remedy;
use clap::ArgMatches;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use pmi_host_base::exit::{print, refuse};
use pmi_host_base::usage::UsageError;
use std::ffi::OsString;
use std::process::ExitCode;

/// Parses the words behind a command. Its help, or the error in the words, is printed, and the exit code
/// returned.
pub(crate) fn parse(command: clap::Command, words: Vec<OsString>) -> Result<ArgMatches, ExitCode> {
    let mut command = command.no_binary_name(true);
    command.try_get_matches_from_mut(words).map_err(|error| match error.use_stderr() {
        false => print(&error.to_string()),
        true => refuse(&explain(&error, &command)),
    })
}

/// Translates an error of `command` into one of this program.
pub(crate) fn explain(error: &clap::Error, command: &clap::Command) -> UsageError {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        _ => String::new(),
    };
    // The parser names an option with its value, as `--ranks <N>`.
    let argument = text(ContextKind::InvalidArg);
    let option = argument.split(' ').next().unwrap_or_default().to_owned();
    match error.kind() {
        ErrorKind::UnknownArgument if is_elsewhere(&option) => {
            UsageError::NotOfPart { got: option }
        }
        ErrorKind::UnknownArgument => {
            let options = command.get_arguments().filter(|arg| !arg.is_positional());
            let names = options.flat_map(|arg| {
                let long = arg.get_long().map(|long| format!("--{long}"));
                [arg.get_short().map(|short| format!("-{short}")), long]
            });
            let list = format!("pmi-host {} --help", command.get_name());
            UsageError::UnknownOption {
                remedy: remedy(&option, names.flatten(), &list),
                got: option,
            }
        }
        ErrorKind::InvalidValue if text(ContextKind::InvalidValue).is_empty() => {
            let name = option.trim_start_matches('-');
            let known = options::all().find(|option| option.name == name);
            let option = known.map_or(option, options::OptionSpec::shown);
            let value = argument.split_once(' ').map_or("a value", |(_, value)| value);
            UsageError::MissingValue { option, value: value.trim_matches(['<', '>']).to_owned() }
        }
        ErrorKind::TooManyValues => UsageError::NeedlessValue { option },
        _ => {
            let message = error.to_string();
            let first = message.lines().next().unwrap_or_default();
            UsageError::Other { what: first.trim_start_matches("error: ").to_owned() }
        }
    }
}

/// True for an option of `run` that is not valid at this place of the command line.
fn is_elsewhere(option: &str) -> bool {
    options::all().any(|known| {
        let long = option.strip_prefix("--").map(|name| name.strip_prefix("no-").unwrap_or(name));
        long == Some(known.name) || known.short.is_some_and(|letter| option == format!("-{letter}"))
    })
}
