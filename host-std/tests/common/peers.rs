//! Launchers of others, which now and then fail or do not terminate. A test fails only through a fault of
//! this project, so a statement about a peer is tried three times, and each try is bounded in time.

use super::{Ran, run, run_with_input};
use std::fmt::Debug;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

/// Runs another launcher, with `input` if there is some, for 20 s at most.
pub fn theirs(launcher: &Command, input: Option<&[u8]>) -> Ran {
    let mut bounded = bounded(launcher, 20);
    match input {
        Some(input) => run_with_input(&mut bounded, input),
        None => run(bounded.stdin(Stdio::null())),
    }
}

/// The command, terminated after so many seconds; its exit code is 124 then.
pub fn bounded(command: &Command, seconds: u32) -> Command {
    let mut bounded = Command::new("timeout");
    bounded.args(["-k", "5", &seconds.to_string()]).arg(command.get_program());
    bounded.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => bounded.env(name, value),
            None => bounded.env_remove(name),
        };
    }
    bounded
}

/// Checks a statement about a peer: `is_right` holds for one of three tries. Each other one is reported, also
/// if the test succeeds.
#[track_caller]
pub fn one_of_three<T: Debug>(mut once: impl FnMut() -> T, is_right: impl Fn(&T) -> bool) -> T {
    let place = Location::caller();
    for count in 1..=3 {
        let outcome = once();
        if is_right(&outcome) {
            return outcome;
        }
        // Not by a macro: the output of a successful test is not shown.
        let report = format!("{place}: try {count} of 3 is not as expected: {outcome:?}\n");
        let _ = io::stderr().write_all(report.as_bytes());
    }
    panic!("not as expected in any of three tries");
}

/// Runs one test of this program again, with a launcher called `name` in `PATH` that fails at its first use
/// with a program to start. The test is to succeed and to report that.
#[track_caller]
pub fn tolerates_a_fault_of(name: &str, test: &str) {
    let Some(real) = in_path(name) else { return eprintln!("skipped: there is no {name}") };
    // A path with a colon cannot be searched.
    let directory = format!("faulty-{name}-{}", test.replace("::", "-"));
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(directory);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    let (stub, used) = (directory.join(name), directory.join("used"));
    let is_asked = "case \"$*\" in *--version*) ;;";
    let fails = format!("*) mkdir '{}' 2>/dev/null && exit 99;; esac", used.display());
    fs::write(&stub, format!("#!/bin/sh\n{is_asked} {fails}\nexec '{}' \"$@\"\n", real.display()))
        .unwrap();
    fs::set_permissions(&stub, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", directory.display(), env::var("PATH").unwrap());
    let mut again = Command::new(env::current_exe().unwrap());
    let ran = run(again.args(["--exact", test]).env("PATH", path).stdin(Stdio::null()));
    let ran = ran.exits_with(0);
    assert!(used.exists(), "the launcher was not used");
    assert!(ran.err.contains("try 1 of 3 is not as expected"), "{}{}", ran.out, ran.err);
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|one| one.join(name)).find(|one| one.is_file())
}
