//! Executable: passes its arguments to the library and returns the exit code.
#![cfg_attr(all(target_env = "gnu", not(test)), no_main)]

mod allocator;
#[cfg(all(target_env = "gnu", not(test)))]
mod entry;
#[cfg(target_env = "gnu")]
mod resolver;

use allocator::Allocator;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

#[cfg(not(all(target_env = "gnu", not(test))))]
fn main() -> ExitCode {
    start()
}

fn start() -> ExitCode {
    allocator::share_one_arena();
    pmi_host::main(std::env::args_os())
}
