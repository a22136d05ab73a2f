//! `libpmi_server`, as launchers in C use it.

use crate::common::capi::{capi_program, static_capi_program, valgrind, with_libraries};
use crate::common::{mpi_program, run, slurm_program};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The example launcher in C.
fn launcher() -> PathBuf {
    capi_program("capi_launcher", "pmi_server")
}

/// The launcher under valgrind, if there is one, which does not follow its ranks.
fn launched(launcher: &Path, ranks: u32, program: &Path, words: &[&str]) -> Command {
    let mut command = valgrind().unwrap_or_else(|| Command::new("env"));
    command.arg(launcher).arg(ranks.to_string()).arg(program).args(words);
    with_libraries(&mut command).env("UCX_TLS", "self,sm");
    command
}

// Coverage: X1-22
#[test]
fn functions_of_the_server_do_as_the_header_says_and_leak_nothing() {
    let program = static_capi_program("capi_server", "pmi_server");
    run(&mut Command::new(&program)).exits_with(0);
    let Some(mut checked) = valgrind() else { return };
    let ran = run(checked.arg(&program)).exits_with(0);
    assert_eq!(ran.lines(), ["all as expected"]);
}

#[test]
fn example_in_c_is_short_and_runs_mpich() {
    let launcher = launcher();
    let source = include_str!("../../examples/embedded-server/c/launcher.c");
    assert!(source.lines().count() <= 60);
    let Some(ring) = mpi_program("ring") else { return };
    // The sum of all ranks.
    for (ranks, token) in [(2, 1), (5, 10)] {
        let ran = run(&mut launched(&launcher, ranks, &ring, &[])).exits_with(0);
        assert_eq!(ran.lines(), [format!("ring of {ranks}: token {token}")]);
    }
}

#[test]
fn abort_of_mpich_ends_the_job_of_the_example_with_its_code() {
    let Some(abort) = mpi_program("abort") else { return };
    run(&mut launched(&launcher(), 3, &abort, &["1", "77"])).exits_with(77);
}

#[test]
fn spawns_and_names_of_slurm_s_client_are_served_by_the_example() {
    let Some(program) = slurm_program("slurm") else { return };
    let ran = run(&mut launched(&launcher(), 2, &program, &[])).exits_with(0);
    let all = ["child 0", "child 1", "rank 0", "rank 1"];
    let expected = all.map(|rank| format!("{rank} of 2: all as expected"));
    let lines: Vec<_> = ran.lines().into_iter().filter(|line| line.ends_with("expected")).collect();
    assert_eq!(lines, expected);
}

#[test]
fn jobs_are_connected_by_our_library_under_the_example() {
    let program = capi_program("capi_pmi2", "pmi2");
    let words = ["names", "wait", "spawn", "connect"];
    let mut command = launched(&launcher(), 2, &program, &words);
    let ran = run(command.env("ANY_DIRECTORY", "1")).exits_with(0);
    let all = ["child 0", "child 1", "rank 0", "rank 1"];
    let expected = all.map(|rank| format!("{rank} of 2: all as expected"));
    assert_eq!(ran.lines(), expected, "{}", ran.err);
}
