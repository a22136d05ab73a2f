//! Executable: passes its arguments to the library and returns the exit code.

mod allocator;

use allocator::Allocator;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn main() -> ExitCode {
    allocator::share_one_arena();
    pmi_host::main(std::env::args_os())
}
