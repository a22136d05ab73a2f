//! Programs built with MPICH's own compiler and client library, unmodified.

mod common;
use common::{Ran, job, mpi_program, run};
use std::path::Path;

/// Sizes of the jobs. The larger ones have more ranks than any machine that runs the tests has cores.
const SIZES: [u32; 4] = [1, 2, 8, 32];

fn mpi(ranks: u32, program: &Path, args: &[&str]) -> Ran {
    run(job(ranks, [program]).args(args))
}

#[test]
fn hello_comes_from_every_rank_once() {
    let Some(hello) = mpi_program("hello") else { return };
    for size in SIZES {
        let ran = mpi(size, &hello, &[]).exits_with(0).says_nothing();
        let mut ranks: Vec<u32> = ran
            .out
            .lines()
            .map(|line| {
                let words: Vec<&str> = line.split(' ').collect();
                assert_eq!(
                    (words[0], words[2], words[3]),
                    ("rank", "of", &*size.to_string()),
                    "{line}"
                );
                words[1].parse().unwrap()
            })
            .collect();
        ranks.sort_unstable();
        assert_eq!(ranks, Vec::from_iter(0..size));
    }
}

#[test]
fn a_token_goes_round_the_ring() {
    let Some(ring) = mpi_program("ring") else { return };
    for size in SIZES {
        let ran = mpi(size, &ring, &[]).exits_with(0).says_nothing();
        assert_eq!(ran.out, format!("ring of {size}: token {}\n", size * (size - 1) / 2));
    }
}

#[test]
fn allreduce_gives_everybody_the_sum() {
    let Some(allreduce) = mpi_program("allreduce") else { return };
    for size in SIZES {
        let ran = mpi(size, &allreduce, &[]).exits_with(0).says_nothing();
        let sum: u32 = (0..size).map(|rank| rank * rank).sum();
        assert_eq!(ran.out, format!("allreduce of {size}: sum {sum}\n"));
    }
}

#[test]
fn the_exit_code_of_a_rank_is_passed_on() {
    let Some(exitcode) = mpi_program("exitcode") else { return };
    for size in SIZES {
        let last = (size - 1).to_string();
        mpi(size, &exitcode, &[&last, "7"])
            .exits_with(7)
            .says(&[&format!("rank {last} of"), "code 7"]);
        mpi(size, &exitcode, &[&last, "0"]).exits_with(0).says_nothing();
    }
}

#[test]
fn mpi_abort_ends_the_job_with_its_code() {
    let Some(abort) = mpi_program("abort") else { return };
    for size in SIZES {
        let last = (size - 1).to_string();
        mpi(size, &abort, &[&last, "42"]).exits_with(42).says(&[&format!("rank {last} of"), "42"]);
    }
}

#[test]
fn a_rank_that_a_signal_ends_ends_the_job() {
    let Some(killed) = mpi_program("killed") else { return };
    for size in SIZES {
        let last = (size - 1).to_string();
        for (signal, name) in [("11", "SIGSEGV"), ("9", "SIGKILL"), ("6", "SIGABRT")] {
            let code = 128 + signal.parse::<i32>().unwrap();
            mpi(size, &killed, &[&last, signal])
                .exits_with(code)
                .says(&[&format!("rank {last} of"), name]);
        }
    }
}

#[test]
fn a_rank_that_leaves_without_finalize_ends_the_job() {
    let Some(leave) = mpi_program("leave") else { return };
    for size in SIZES {
        mpi(size, &leave, &["0"]).exits_with(1).says(&["rank 0 of", "without finalize"]);
    }
}
