//! Programs built with MPICH, beyond the cases of all libraries: larger and failing spawns, protocol versions.

use crate::common::wheel::{on_loopback, wheel_program};
use crate::common::{Ran, host, job, mpi_program, run};
use std::path::Path;

fn mpi(ranks: u32, program: &Path, args: &[&str]) -> Ran {
    run(on_loopback(&mut job(ranks, [program])).args(args))
}

#[test]
fn mpi_comm_spawn_of_eight_connects_parents_and_children() {
    let Some(spawn) = wheel_program("spawn") else { return };
    let ran = mpi(3, &spawn, &["8"]).exits_with(0).says_nothing();
    let mut expected: Vec<String> =
        (0..8).map(|child| format!("child {child} of 8 has 3 parents")).collect();
    expected.push("the children say 828".into());
    assert_eq!(ran.lines(), expected);
}

#[test]
fn program_that_is_not_there_is_an_error_of_the_call_only() {
    let Some(spawn) = wheel_program("spawn") else { return };
    let ran = mpi(2, &spawn, &["3", "missing"]).exits_with(0);
    assert_eq!(ran.lines(), ["parent 0 was refused", "parent 1 was refused"]);
    ran.says(&["the spawn of rank 0 of 2 (pid ", "there is no program './no/such/program'"]);
}

#[test]
fn abort_of_a_parent_ends_its_children() {
    let Some(spawn) = wheel_program("spawn_abort") else { return };
    mpi(2, &spawn, &["parent"]).exits_with(43).says(&["rank 0 of 2 (pid", "43"]);
}

/// The versions in replies to rank 0 under `--pmi 1`, from a trace.
fn agreed(program: &Path, name: &str) -> String {
    let trace = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("version-{name}.trace"));
    let mut command = host(["run", "-n", "2", "--pmi", "1", "--trace"]);
    run(on_loopback(command.arg(&trace).arg(program))).exits_with(0);
    let shown = run(host(["trace", "show", "--raw"]).arg(&trace)).exits_with(0);
    std::fs::remove_file(trace).unwrap();
    shown.out.lines().filter(|line| line.contains("response_to_init")).collect()
}

#[test]
fn ranks_of_mpich_5_read_one_file_with_the_topology() {
    let Some(hello) = wheel_program("hello") else { return };
    let trace = Path::new(env!("CARGO_TARGET_TMPDIR")).join("topology.trace");
    let mut command = host(["run", "-n", "3", "--pmi", "1", "--trace"]);
    run(on_loopback(command.arg(&trace).arg(&hello))).exits_with(0);
    let shown = run(host(["trace", "show", "--raw"]).arg(&trace)).exits_with(0);
    std::fs::remove_file(trace).unwrap();
    let is_file = |line: &&str| line.contains("value=/proc/") && line.contains("/fd/");
    let found: Vec<_> = shown.out.lines().filter(is_file).collect();
    assert_eq!(found.len(), 3, "{}", shown.out);
}

#[test]
fn mpich_5_reaches_pmi_1_2_which_it_does_not_request() {
    let Some(hello) = wheel_program("hello") else { return };
    let agreed = agreed(&hello, "mpich-5");
    assert!(agreed.contains("pmi_subversion=2") && !agreed.contains("=1\\n"), "{agreed}");
}

#[test]
fn mpich_4_0_and_programs_that_are_not_linked_with_mpi_are_answered_as_they_request() {
    let Some(hello) = mpi_program("hello") else { return };
    let agreed = agreed(&hello, "mpich-4");
    assert!(agreed.contains("pmi_subversion=1") && !agreed.contains("=2\\n"), "{agreed}");
}
