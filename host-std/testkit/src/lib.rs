//! Hosts and batch systems on one machine, which tests of the launcher and `cargo xtask bench` start it on.
//!
//! Everything ends with the value that has started it. A missing program or privilege is an error with the
//! remedy, which a test may take as a reason to skip itself.
#![forbid(unsafe_code)]

pub mod gridengine;
pub mod slurm;
pub mod ssh;
pub mod wire;

use std::process::{Command, Stdio};

/// Standard output of a command, if it can be executed.
fn output_of(program: &str, words: &[&str]) -> Option<String> {
    let output = Command::new(program).args(words).stdin(Stdio::null()).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// True if this process may make namespaces and set names of hosts.
pub fn is_root() -> bool {
    output_of("id", &["-u"]).as_deref() == Some("0\n")
}
