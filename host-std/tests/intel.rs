//! Programs built with Intel MPI's own compiler and library, unmodified; by default it speaks PMI-1,
//! otherwise the protocol of the PMI library that it is configured to load.

mod common;
use common::wheel::{intel_program, on_loopback};
use common::{Ran, host, job, run};
use std::path::Path;

fn mpi(ranks: u32, program: &Path, args: &[&str]) -> Ran {
    run(on_loopback(&mut job(ranks, [program])).args(args))
}

#[test]
fn ranks_greet_add_up_and_pass_a_token_round() {
    let (Some(hello), Some(sum), Some(ring)) =
        (intel_program("hello"), intel_program("allreduce"), intel_program("ring"))
    else {
        return;
    };
    for ranks in [1, 2, 8, 32] {
        let ran = run(&mut job(ranks, [&hello])).exits_with(0).says_nothing();
        let greetings = ran.lines().into_iter().filter(|line| line.starts_with("rank "));
        assert_eq!(greetings.count(), ranks as usize, "{}", ran.out);
    }
    let ran = run(&mut job(8, [&sum])).exits_with(0).says_nothing();
    assert_eq!(ran.out, "allreduce of 8: sum 140\n");
    assert_eq!(mpi(8, &ring, &[]).exits_with(0).says_nothing().out, "ring of 8: token 28\n");
}

#[test]
fn abort_exit_code_and_signal_are_what_the_run_ends_with() {
    let (Some(abort), Some(exit), Some(killed)) =
        (intel_program("abort"), intel_program("exitcode"), intel_program("killed"))
    else {
        return;
    };
    let ran = mpi(3, &abort, &["1", "42"]).exits_with(42);
    ran.says(&["rank 1 of 3 (pid ", "called abort with code 42"]);
    mpi(3, &exit, &["2", "7"]).exits_with(7).says(&["rank 2 of 3 (pid ", "exited with code 7"]);
    mpi(3, &killed, &["1", "11"]).exits_with(139).says(&["rank 1 of 3 (pid ", "SIGSEGV"]);
}

#[test]
fn jobs_start_jobs_and_find_each_other_by_name() {
    let (Some(spawn), Some(several), Some(service)) =
        (intel_program("spawn"), intel_program("spawn_multiple"), intel_program("service"))
    else {
        return;
    };
    let ran = mpi(2, &spawn, &["3"]).exits_with(0).says_nothing();
    let mut expected: Vec<String> =
        (0..3).map(|child| format!("child {child} of 3 has 2 parents")).collect();
    expected.push("the children say 303".into());
    assert_eq!(ran.lines(), expected);

    let mut command = host(["run", "-n", "1", "--universe", "7"]);
    command.arg(&several).arg("/usr").current_dir("/");
    let ran = run(on_loopback(&mut command)).exits_with(0).says_nothing();
    assert_eq!(ran.lines().last(), Some(&"universe 7, 3 children, codes 0 0 0"), "{}", ran.out);

    let ran = mpi(3, &service, &[]).exits_with(0).says_nothing();
    assert!(ran.out.contains("the desk was told 4711"), "{}", ran.out);
}

#[test]
fn a_pmi_library_that_the_user_names_finds_the_server_that_it_speaks_with() {
    let Some(ring) = intel_program("ring") else { return };
    for library in ["libpmi2.so.0", "libpmix.so.2"] {
        let mut command = job(3, [&ring]);
        command.env("I_MPI_PMI_LIBRARY", Path::new(LIBRARIES).join(library));
        let ran = run(on_loopback(&mut command)).exits_with(0).says_nothing();
        assert_eq!(ran.out, "ring of 3: token 3\n", "{library}");
    }
}

#[test]
fn slurm_s_library_for_pmi_1_ends_its_own_rank_only_and_that_is_told() {
    // It connects to Slurm's daemons, and kills its process group without them.
    let Some(ring) = intel_program("ring") else { return };
    let mut command = job(2, [&ring]);
    command.env("I_MPI_PMI_LIBRARY", Path::new(LIBRARIES).join("libpmi.so.0"));
    let ran = run(on_loopback(&mut command)).exits_with(137);
    ran.says(&["of 2 (pid ", "was killed by signal 9 (SIGKILL)"]);
}

/// Directory of Debian's libraries.
const LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu";
