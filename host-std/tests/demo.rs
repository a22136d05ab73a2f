//! The client core of this project under its own launcher and, mirrored, under that of MPICH.

mod common;
use common::{Ran, host, run};
use std::process::{Command, Stdio};

#[test]
fn without_a_program_every_rank_finds_every_other() {
    for ranks in [1, 2, 8, 32] {
        let ran = run(&mut host(["run", "-n", &ranks.to_string()])).exits_with(0).says_nothing();
        check_table(&ran, ranks);
    }
}

#[test]
fn without_a_launcher_the_demo_is_one_rank() {
    let mut command = host(["demo-rank"]);
    let ran = run(command.env_remove("PMI_FD").env_remove("PMI_PORT")).exits_with(0);
    check_table(&ran, 1);
    assert!(ran.out.contains("no launcher"), "{}", ran.out);
}

#[test]
fn a_descriptor_that_is_no_socket_is_named() {
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
        let ran = run(command.stdin(Stdio::null())).exits_with(0);
        check_table(&ran, ranks);
    }
}

/// One row for each rank in order, and two rows of totals.
fn check_table(ran: &Ran, ranks: usize) {
    let rows: Vec<Vec<&str>> =
        ran.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        rows[0],
        ["rank", "pid", "host", "put", "µs", "fence", "µs", "get", "µs"],
        "{}",
        ran.out
    );
    for rank in 0..ranks {
        let row = &rows[2 + rank];
        assert_eq!((row.len(), row[0]), (6, &*rank.to_string()), "{}", ran.out);
    }
    let pids: std::collections::BTreeSet<&str> =
        rows[2..2 + ranks].iter().map(|row| row[1]).collect();
    assert_eq!(pids.len(), ranks, "{}", ran.out);
    assert_eq!(rows[3 + ranks][0], "median", "{}", ran.out);
    assert_eq!(rows[4 + ranks][0], "worst", "{}", ran.out);
}
