//! The client core of this project under its own launcher and, mirrored, under that of MPICH.

use crate::common::peers::{one_of_three, theirs, tolerates_a_fault_of};
use crate::common::{Ran, host, run};
use std::collections::BTreeSet;
use std::process::{Command, Stdio};

#[test]
fn without_a_program_every_rank_finds_every_other() {
    for ranks in [1, 2, 8, 32] {
        let ran = run(&mut host(["run", "-n", &ranks.to_string()])).exits_with(0).says_nothing();
        assert!(is_table(&ran, ranks), "{}", ran.out);
    }
}

#[test]
fn without_a_launcher_the_demo_is_one_rank() {
    let mut command = host(["demo-rank"]);
    let ran = run(command.env_remove("PMI_FD").env_remove("PMI_PORT")).exits_with(0);
    assert!(is_table(&ran, 1), "{}", ran.out);
    assert!(ran.out.contains("no launcher"), "{}", ran.out);
}

#[test]
fn descriptor_that_is_no_socket_is_named() {
    let mut command = host(["demo-rank"]);
    run(command.env("PMI_FD", "77").env_remove("PMI_RANK")).exits_with(1).says(&["PMI_FD", "77"]);
}

#[test]
fn our_client_runs_under_hydra() {
    let hydra = "mpiexec.hydra";
    if let Err(error) = Command::new(hydra).arg("--version").stdout(Stdio::null()).status() {
        let why = format!("{hydra} cannot be started ({error}); Debian's package mpich brings it");
        assert!(std::env::var_os("CI").is_none(), "{why}");
        eprintln!("skipped: {why}");
        return;
    }
    for ranks in [1, 2, 8, 32] {
        let mut command = Command::new(hydra);
        command.args(["-n", &ranks.to_string(), env!("CARGO_BIN_EXE_pmi-host"), "demo-rank"]);
        one_of_three(|| theirs(&command, None), |ran| ran.code == 0 && is_table(ran, ranks));
    }
}

#[test]
fn single_fault_of_hydra_is_retried() {
    tolerates_a_fault_of("mpiexec.hydra", "demo::our_client_runs_under_hydra");
}

/// One row for each rank in order, and two rows of totals.
fn is_table(ran: &Ran, ranks: usize) -> bool {
    let rows: Vec<Vec<&str>> =
        ran.out.lines().map(|line| line.split_whitespace().collect()).collect();
    let [head, _, rows @ ..] = rows.as_slice() else { return false };
    let Some((rows, [_, median, worst, ..])) = rows.split_at_checked(ranks) else { return false };
    let is_row = |(rank, row): (usize, &Vec<&str>)| row.len() == 6 && row[0] == rank.to_string();
    *head == ["rank", "pid", "host", "put", "µs", "fence", "µs", "get", "µs"]
        && rows.iter().enumerate().all(is_row)
        && rows.iter().map(|row| row[1]).collect::<BTreeSet<&str>>().len() == ranks
        && median[0] == "median"
        && worst[0] == "worst"
}
