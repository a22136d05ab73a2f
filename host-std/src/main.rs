//! The command: hands over its words and gives back the exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    pmi_host::commands::main(std::env::args_os())
}
