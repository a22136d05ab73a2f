//! Executable: passes its arguments to the library and returns the exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    pmi_host::main(std::env::args_os())
}
