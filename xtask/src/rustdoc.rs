//! The documentation of the crates, as rustdoc writes it.

use crate::process;
use std::env;
use std::process::Command;

/// Builds the documentation of the workspace; a warning is an error. With other flags rustdoc would write all
/// of it again.
pub(crate) fn command() -> Command {
    let flags = format!("{} -D warnings", env::var("RUSTDOCFLAGS").unwrap_or_default());
    let mut cargo = process::cargo();
    cargo.args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", flags.trim());
    cargo
}
