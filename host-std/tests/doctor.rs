//! Report of a rank's environment and launcher, under several launchers and under none.

use crate::common::capi::{capi_program, libraries, with_libraries};
use crate::common::peers::{one_of_three, theirs, tolerates_a_fault_of};
use crate::common::{Ran, host, host_path, job, mpi_program, run, shell};
use std::process::Command;

/// `pmi-host run -n RANKS` with the doctor, reached through a shell that does `first`.
fn under_ours(ranks: u32, first: &str) -> Ran {
    let script = format!("{first}; exec {} doctor", host_path());
    run(&mut job(ranks, shell(&script)))
}

#[test]
fn under_our_launcher_one_rank_speaks_for_all() {
    let Some(program) = mpi_program("hello") else { return };
    let ran = run(job(3, [host_path()]).arg("doctor").arg(&program)).exits_with(0).says_nothing();
    for part in [
        "rank 0 of 3 on ",
        "started by pmi-host",
        " PMI_FD=",
        " is an open socket",
        "PMI-2.0: init, put, fence (",
        "get and finalize work",
        "(vector,(0,1,3)): 3 ranks on 1 node",
        "MPICH, ",
        "libmpich.so",
        "open files ",
        "\nnothing is wrong on ranks 0-2\n",
    ] {
        assert!(ran.out.contains(part), "no {part:?} in {}", ran.out);
    }
    assert_eq!(ran.out.matches("protocol").count(), 1, "{}", ran.out);
}

#[test]
fn without_a_launcher_nothing_is_wrong_but_it_is_said() {
    let ran = run(&mut host(["doctor"])).exits_with(0);
    assert!(ran.out.contains("no launcher has started this"), "{}", ran.out);
    let ran = run(&mut host(["doctor", "./no/such"])).exits_with(1);
    assert!(ran.out.contains("there is no program './no/such'"), "{}", ran.out);
    let ran = run(&mut host(["doctor", "a", "b"])).exits_with(2);
    ran.says(&["at most one program"]);
}

#[test]
fn descriptor_that_a_wrapper_has_closed_is_named() {
    let ran = under_ours(2, "eval \"exec $PMI_FD>&-\"").exits_with(1);
    assert!(ran.out.contains("is closed: a program between"), "{}", ran.out);
    assert!(!ran.out.contains("two servers"), "{}", ran.out);
}

#[test]
fn wrapper_that_clears_the_environment_makes_singletons() {
    let ran = under_ours(2, "unset PMI_FD PMI_PORT PMIX_NAMESPACE").exits_with(1);
    assert!(ran.out.contains("has started 2 processes and this is number"), "{}", ran.out);
    let tasks = Command::new(host_path())
        .arg("doctor")
        .envs([("SLURM_PROCID", "1"), ("SLURM_NTASKS", "4")])
        .output()
        .unwrap();
    let out = String::from_utf8(tasks.stdout).unwrap();
    assert!(out.contains("task 1 of 4") && out.contains("srun --mpi=pmi2"), "{out}");
}

#[test]
fn two_jobs_at_once_are_told_apart() {
    let ran = under_ours(2, "export PMIX_NAMESPACE=other PMIX_SERVER_URI41=other.0").exits_with(1);
    assert!(ran.out.contains("lead to two servers at once"), "{}", ran.out);
    let ran = under_ours(2, "export PMI_SIZE=7").exits_with(1);
    let told = "the variables mean rank 0 of 7, and the server answers rank 0 of";
    assert!(ran.out.contains(told) || ran.out.contains("fails"), "{}", ran.out);
}

#[test]
fn rank_that_does_not_take_part_is_not_waited_for_for_ever() {
    let script = format!("[ $PMI_RANK = 1 ] && exec sleep 60; exec {} doctor", host_path());
    let ran = run(&mut job(2, shell(&script))).exits_with(1);
    assert!(ran.out.contains("the fence with the other ranks is not answered"), "{}", ran.out);
}

#[test]
fn library_of_this_project_is_recognised() {
    let program = capi_program("capi_pmi2", "pmi2");
    let mut command = host(["doctor"]);
    let ran = run(with_libraries(command.arg(&program))).exits_with(0);
    let library = libraries().join("libpmi2.so.0");
    let shown = format!("no MPI library, {} (of pmi-host)", library.display());
    assert!(ran.out.contains(&shown), "{}", ran.out);
    assert!(!ran.out.contains("links no MPI library"), "{}", ran.out);
}

#[test]
fn under_hydra_it_works_as_under_ours() {
    if Command::new("mpiexec.hydra").arg("--version").output().is_err() {
        assert!(std::env::var_os("CI").is_none(), "Debian's package mpich brings mpiexec.hydra");
        return eprintln!("skipped: there is no mpiexec.hydra");
    }
    let mut hydra = Command::new("mpiexec.hydra");
    hydra.args(["-n", "3", host_path(), "doctor"]);
    let parts = [
        "rank 0 of 3",
        "started by hydra_pmi_proxy",
        "PMI-1.1: init",
        "nothing is wrong on ranks 0-2",
    ];
    let is_right = |ran: &Ran| ran.code == 0 && parts.iter().all(|part| ran.out.contains(part));
    one_of_three(|| theirs(&hydra, None), is_right);
}

#[test]
fn single_fault_of_hydra_is_retried() {
    tolerates_a_fault_of("mpiexec.hydra", "doctor::under_hydra_it_works_as_under_ours");
}
