//! End of a command: its output and its exit code.

use std::fmt::Display;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;

/// Exit code of a failure with a valid command line.
pub const FAILED: u8 = 1;

/// Exit code of an invalid command line, as in most programs.
pub const USAGE: u8 = 2;

/// One line for standard error, with the name of this program.
pub fn line(what: impl Display) -> String {
    format!("pmi-host: {what}\n")
}

/// Prints to standard output. A closed pipe is no failure: a reader such as `head` may stop early.
pub fn print(text: &str) -> ExitCode {
    print_bytes(text.as_bytes())
}

/// As [`print()`], for bytes that need not be text.
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

/// Writes a line to standard output (`-`), to standard error (`+`) or to a file.
///
/// # Errors
///
/// Errors of the system.
pub fn print_to(place: &Path, what: impl Display) -> io::Result<()> {
    let text = format!("{what}\n");
    match place.to_str() {
        Some("-") => io::stdout().write_all(text.as_bytes()),
        Some("+") => io::stderr().write_all(text.as_bytes()),
        _ => fs::write(place, text),
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
