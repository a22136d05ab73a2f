//! Programs of MPICH, and of Slurm's client library, under the embedded server.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Builds a program of the tests of the launcher; `None` with a note if there is no such compiler.
fn program(name: &str, compiler: &str, libraries: &[&str]) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../host-std/tests/programs");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("embedded-{name}"));
    let mut command = Command::new(compiler);
    command.arg("-o").arg(&program).arg(source.join(name).with_extension("c")).args(libraries);
    if command.status().is_ok_and(|status| status.success()) {
        return Some(program);
    }
    let remedy = "Debian's packages libmpich-dev and libpmi2-0-dev bring what is missing";
    assert!(std::env::var_os("CI").is_none(), "{compiler} failed; {remedy}");
    eprintln!("skipped: {compiler} failed; {remedy}");
    None
}

fn run(words: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.arg("30").arg(env!("CARGO_BIN_EXE_pmi-embedded-server")).args(words);
    command.env("UCX_TLS", "self,sm").output().unwrap()
}

fn lines(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn ring_of_mpich_runs_under_the_server() {
    let Some(ring) = program("ring", "mpicc.mpich", &[]) else { return };
    // The sum of all ranks.
    for (ranks, token) in [("2", 1), ("5", 10)] {
        let output = run(&[ranks, ring.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(lines(&output), [format!("ring of {ranks}: token {token}")]);
    }
}

#[test]
fn abort_of_mpich_ends_the_job_with_its_code() {
    let Some(abort) = program("abort", "mpicc.mpich", &[]) else { return };
    let output = run(&["3", abort.to_str().unwrap(), "1", "77"]);
    assert_eq!(output.status.code(), Some(77), "{output:?}");
}

#[test]
fn names_attributes_and_a_spawn_of_slurm_s_client_are_served() {
    let Some(slurm) = program("slurm", "cc", &["-pthread", "-lpmi2"]) else { return };
    let output = run(&["2", slurm.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let all = ["child 0", "child 1", "rank 0", "rank 1"];
    assert_eq!(lines(&output), all.map(|rank| format!("{rank} of 2: all as expected")));
}

#[test]
fn example_has_at_most_60_lines() {
    assert!(include_str!("../src/main.rs").lines().count() <= 60);
}
