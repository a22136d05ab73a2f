//! Programs built with MPICH 5: jobs that spawn jobs, jobs that connect by a published name.

mod common;
use common::wheel::{on_loopback, wheel_program};
use common::{Ran, host, job, mpi_program, run};
use std::path::Path;

fn mpi(ranks: u32, program: &Path, args: &[&str]) -> Ran {
    run(on_loopback(&mut job(ranks, [program])).args(args))
}

#[test]
fn eight_ranks_greet_and_pass_a_token_round() {
    let (Some(hello), Some(ring)) = (wheel_program("hello"), wheel_program("ring")) else { return };
    let ran = mpi(8, &hello, &[]).exits_with(0).says_nothing();
    assert_eq!(ran.out.lines().count(), 8, "{}", ran.out);
    assert_eq!(mpi(8, &ring, &[]).exits_with(0).says_nothing().out, "ring of 8: token 28\n");
}

#[test]
fn mpi_comm_spawn_connects_parents_and_children() {
    let Some(spawn) = wheel_program("spawn") else { return };
    for (parents, children, sum) in [(1, 1, 100), (2, 3, 303), (3, 8, 828)] {
        let ran = mpi(parents, &spawn, &[&children.to_string()]).exits_with(0).says_nothing();
        let mut expected: Vec<String> = (0..children)
            .map(|child| format!("child {child} of {children} has {parents} parents"))
            .collect();
        expected.push(format!("the children say {sum}"));
        assert_eq!(ran.lines(), expected);
    }
}

#[test]
fn a_program_that_is_not_there_is_an_error_of_the_call_only() {
    let Some(spawn) = wheel_program("spawn") else { return };
    let ran = mpi(2, &spawn, &["3", "missing"]).exits_with(0);
    assert_eq!(ran.lines(), ["parent 0 was refused", "parent 1 was refused"]);
    ran.says(&["the spawn of rank 0 of 2 (pid ", "there is no program './no/such/program'"]);
}

#[test]
fn mpi_comm_spawn_multiple_makes_one_job_of_two_programs() {
    let Some(spawn) = wheel_program("spawn_multiple") else { return };
    let mut command = host(["run", "-n", "1", "--universe", "7"]);
    command.arg(&spawn).arg("/usr").current_dir("/");
    let ran = run(on_loopback(&mut command)).exits_with(0).says_nothing();
    let expected = [
        "first: child 0 of 3, program 0, in /usr",
        "second: child 1 of 3, program 1, in /",
        "second: child 2 of 3, program 1, in /",
        "universe 7, 3 children, codes 0 0 0",
    ];
    assert_eq!(ran.lines(), expected);
}

#[test]
fn who_publishes_a_name_is_found_and_connected_to() {
    let Some(service) = wheel_program("service") else { return };
    let ran = mpi(3, &service, &[]).exits_with(0).says_nothing();
    let expected = [
        "rank 1: after that there is no desk",
        "rank 2: after that there is no desk",
        "the desk was told 4711",
    ];
    assert_eq!(ran.lines(), expected);
}

#[test]
fn abort_of_a_child_ends_its_parents() {
    let Some(spawn) = wheel_program("spawn_abort") else { return };
    for (who, rank) in [("child", "rank 1 of 2 in the spawned job"), ("parent", "rank 0 of 2 (pid")]
    {
        mpi(2, &spawn, &[who]).exits_with(43).says(&[rank, "43"]);
    }
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
