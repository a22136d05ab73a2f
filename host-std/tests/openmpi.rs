//! Programs of PMIx clients, Open MPI's among them, beyond the cases of all libraries.

use crate::common::library::{OPEN_MPI_4, OPEN_MPI_5};
use crate::common::{host, job, mpi_program, openmpi_program, pmix_program, run};
use std::fs;
use std::path::Path;

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
fn libraries_leave_nothing_in_the_directory_for_temporary_files() {
    for (number, library) in [OPEN_MPI_4, OPEN_MPI_5].iter().enumerate() {
        let Some(program) = (library.build)("hello") else { continue };
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("open-mpi-left-{number}"));
        let _ = fs::remove_dir_all(&place);
        fs::create_dir(&place).unwrap();
        let mut command = host(["run", "--no-tools", "-n", "2"]);
        run(command.arg(&program).env("TMPDIR", &place)).exits_with(0);
        let left: Vec<_> =
            fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn protocols_that_a_user_offers_are_those_that_a_program_finds() {
    let script = "echo ${PMI_FD:+pmi} ${PMIX_NAMESPACE:+pmix} $PMIX_MINE";
    for (offer, found) in
        [("1", "pmi mine"), ("2", "pmi mine"), ("x", "pmix mine"), ("all", "pmi pmix mine")]
    {
        let mut command = host(["run", "-n", "1", "--pmi", offer, "--env", "PMIX_MINE=mine"]);
        let ran = run(command.args(["sh", "-c", script])).exits_with(0);
        assert_eq!(ran.out.split_whitespace().collect::<Vec<_>>().join(" "), found, "{offer}");
    }
}

// Coverage: X1-1
#[test]
fn job_has_ranks_of_both_generations() {
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
fn process_that_wrongly_claims_to_be_a_rank_is_rejected_and_harms_no_rank() {
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
    assert!(ran.err.contains("claims to be rank 0, and is not"), "{}", ran.err);
}

#[test]
fn program_that_is_not_there_is_an_error_of_the_call_only() {
    let Some(spawn) = openmpi_program("spawn") else { return };
    let ran = run(job(1, [&spawn]).args(["3", "missing"])).exits_with(0);
    assert_eq!(ran.lines(), ["parent 0 was refused"]);
    ran.says(&["the spawn of rank 0 of 1 (pid ", "there is no program './no/such/program'"]);
}

#[test]
fn program_in_the_directory_of_its_spawner_is_found_by_its_name_alone() {
    for library in [OPEN_MPI_4, OPEN_MPI_5] {
        let Some(spawn) = (library.build)("spawn") else { continue };
        let (directory, name) = (spawn.parent().unwrap(), spawn.file_name().unwrap());
        let ran_in = |directory: &Path| {
            let mut command = job(1, [&spawn]);
            run(command.args(["1", "program"]).arg(name).current_dir(directory)).exits_with(0)
        };
        assert_eq!(
            ran_in(directory).lines(),
            ["child 0 of 1 has 1 parents", "the children say 100"]
        );
        let ran = ran_in(Path::new("/"));
        assert_eq!(ran.lines(), ["parent 0 was refused"]);
        ran.says(&["is in no directory of PATH"]);
    }
}
