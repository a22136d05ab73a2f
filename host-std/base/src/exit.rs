//! End of a command: its output and its exit code.

use crate::user_file::{self, Readers};
use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;

/// Exit code of a failure with a valid command line.
pub const FAILED: u8 = 1;

/// Exit code of an invalid command line, as in most programs.
pub const USAGE: u8 = 2;

/// One line for standard error, with the name of this program.
pub fn line(what: impl Display) -> String {
    format!("pmi-host: {}\n", shown(&what.to_string()))
}

/// `text` in a form that a terminal shows and does not obey: control characters except for line ends and
/// tabs are written as in `\u{1b}`. Names, files and peers may contain them.
pub fn shown(text: &str) -> Cow<'_, str> {
    let is_obeyed = |sign: char| sign.is_control() && sign != '\n' && sign != '\t';
    if !text.contains(is_obeyed) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len());
    for sign in text.chars() {
        match is_obeyed(sign) {
            true => shown.extend(sign.escape_default()),
            false => shown.push(sign),
        }
    }
    shown.into()
}

/// Prints text to standard output, as [`shown`]. A closed pipe is no failure: a reader such as `head` may
/// stop early.
pub fn print(text: &str) -> ExitCode {
    print_bytes(shown(text).as_bytes())
}

/// Prints JSON to standard output, with the control characters that its strings may hold escaped.
pub fn print_json(json: &str) -> ExitCode {
    let is_obeyed = |sign: char| sign.is_control() && sign != '\n';
    let escaped = json.chars().fold(String::with_capacity(json.len()), |mut text, sign| {
        match is_obeyed(sign) {
            true => text.push_str(&format!("\\u{:04x}", u32::from(sign))),
            false => text.push(sign),
        }
        text
    });
    print_bytes(escaped.as_bytes())
}

/// As [`print()`], for bytes that are written as they are.
pub fn print_bytes(bytes: &[u8]) -> ExitCode {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            let why = format_args!("standard output cannot be written ({error}) and is incomplete");
            complain(&why, FAILED)
        }
        _ => ExitCode::SUCCESS,
    }
}

/// Writes a line to standard output (`-`), to standard error (`+`) or to a file, for `readers`.
///
/// # Errors
///
/// Those of [`user_file::write`].
pub fn print_to(place: &Path, what: impl Display, readers: Readers) -> io::Result<()> {
    let text = format!("{what}\n");
    match place.to_str() {
        Some("-") => io::stdout().write_all(text.as_bytes()),
        Some("+") => io::stderr().write_all(text.as_bytes()),
        _ => user_file::write(place, text.as_bytes(), readers),
    }
}

/// Prints an error, and returns its exit code.
pub fn complain(what: &dyn Display, code: u8) -> ExitCode {
    let _ = io::stderr().write_all(line(what).as_bytes());
    ExitCode::from(code)
}

/// Prints an error of the command line, and returns its exit code.
pub fn refuse(what: &dyn Display) -> ExitCode {
    complain(&format_args!("{what}; 'pmi-host help' lists all"), USAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_of_a_message_do_not_reach_a_terminal() {
        assert_eq!(
            line("a\x1b]0;title\x07\u{9b}2J\rb\tc\nd"),
            "pmi-host: a\\u{1b}]0;title\\u{7}\\u{9b}2J\\rb\tc\nd\n"
        );
        assert!(matches!(shown("plain – text"), Cow::Borrowed(_)));
    }
}
