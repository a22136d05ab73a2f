//! Programs built with the compilers and libraries of MPICH, Open MPI and Intel MPI, unmodified.
//!
//! Every case is a function of a library; the tables at the end say which libraries it is run with.

use crate::common::library::{INTEL, Library, MPICH_4, MPICH_5, OPEN_MPI_4, OPEN_MPI_5};
use crate::common::{host, run};

fn hello_comes_from_every_rank_once(library: &Library) {
    let Some(hello) = (library.build)("hello") else { return };
    for size in library.sizes {
        let ran = run(library.prepare(&mut crate::common::job(*size, [&hello])));
        let ran = ran.exits_with(0).says_nothing();
        let mut expected: Vec<String> =
            (0..*size).map(|rank| format!("rank {rank} of {size}")).collect();
        expected.sort_unstable();
        // Libraries print lines of their own.
        let greetings = ran.lines().into_iter().filter(|line| line.starts_with("rank "));
        let found = greetings.map(|line| line.split(" on ").next().unwrap_or(line));
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }
}

fn token_goes_round_the_ring(library: &Library) {
    let Some(ring) = (library.build)("ring") else { return };
    for size in library.sizes.iter().filter(|size| **size <= 8) {
        let ran = library.run::<&str>(*size, &ring, &[]).exits_with(0).says_nothing();
        assert_eq!(ran.out, format!("ring of {size}: token {}\n", size * (size - 1) / 2));
    }
}

fn allreduce_gives_every_rank_the_sum(library: &Library) {
    let Some(allreduce) = (library.build)("allreduce") else { return };
    for size in library.sizes.iter().filter(|size| **size <= 8) {
        let ran = library.run::<&str>(*size, &allreduce, &[]).exits_with(0).says_nothing();
        let sum: u32 = (0..*size).map(|rank| rank * rank).sum();
        assert_eq!(ran.out, format!("allreduce of {size}: sum {sum}\n"));
    }
}

fn exit_code_of_a_rank_is_that_of_the_job(library: &Library) {
    let Some(exitcode) = (library.build)("exitcode") else { return };
    library.run(4, &exitcode, &["3", "7"]).exits_with(7).says(&["rank 3 of 4 (pid ", "code 7"]);
    library.run(4, &exitcode, &["3", "0"]).exits_with(0).says_nothing();
}

fn mpi_abort_ends_the_job_with_its_code(library: &Library) {
    let Some(abort) = (library.build)("abort") else { return };
    for size in [1, 4] {
        let (last, rank) = (size - 1, format!("rank {} of {size} (pid ", size - 1));
        let ran = library.run(size, &abort, &[&*last.to_string(), "42"]).exits_with(42);
        // MPICH's client exits without a request if it is the only rank.
        ran.says(&[&rank, "code 42"]);
    }
}

fn signal_that_terminates_a_rank_ends_the_job(library: &Library) {
    let Some(killed) = (library.build)("killed") else { return };
    for (signal, code, name) in
        [("11", 139, "SIGSEGV"), ("9", 137, "SIGKILL"), ("6", 134, "SIGABRT")]
    {
        let ran = library.run(4, &killed, &["3", signal]).exits_with(code);
        ran.says(&["rank 3 of 4 (pid ", name]);
    }
}

fn rank_that_leaves_without_finalize_ends_the_job(library: &Library) {
    let Some(leave) = (library.build)("leave") else { return };
    library.run(4, &leave, &["0"]).exits_with(1).says(&["rank 0 of 4", "without finalize"]);
}

fn mpi_comm_spawn_connects_parents_and_children(library: &Library) {
    let Some(spawn) = (library.build)("spawn") else { return };
    for (parents, children, sum) in [(1, 1, 100), (2, 3, 303)] {
        let mut command = host(["run", "--summary", "-n", &parents.to_string()]);
        let ran = library.run_jobs(2, command.arg(&spawn).arg(children.to_string()));
        let mut expected: Vec<String> = (0..children)
            .map(|child| format!("child {child} of {children} has {parents} parents"))
            .collect();
        expected.push(format!("the children say {sum}"));
        assert_eq!(ran.lines(), expected);
    }
}

fn manager_finds_room_for_workers(library: &Library) {
    let Some(manager) = (library.build)("manager") else { return };
    for (options, workers, sum) in [
        (&["-n", "1", "--hosts", "localhost:4"][..], 3, 3),
        (&["-n", "2", "--hosts", "localhost:4"], 2, 1),
        (&["-n", "1", "--hosts", "localhost:4", "--universe", "3"], 2, 1),
    ] {
        let mut command = host(["run", "--summary"]);
        let ran = library.run_jobs(2, command.args(options).arg(&manager));
        assert_eq!(ran.out, format!("{workers} workers say {sum}\n"), "{options:?}");
    }
    // Without a list of hosts, clients of PMI read no number, and those of PMIx that of the processors.
    let processors = std::thread::available_parallelism().unwrap().get();
    if processors > 1 {
        let workers = (processors - 1).to_string();
        let mut command = host(["run", "--summary", "-n", "1"]);
        let ran = library.run_jobs(2, command.arg(&manager).arg(&workers));
        assert!(ran.out.starts_with(&format!("{workers} workers say ")), "{}", ran.out);
    }
}

fn published_name_is_found_and_connected_to(library: &Library) {
    let Some(service) = (library.build)("service") else { return };
    let ran = library.run::<&str>(3, &service, &[]).exits_with(0).says_nothing();
    let expected = [
        "rank 1: after that there is no desk",
        "rank 2: after that there is no desk",
        "the directory received 4711",
    ];
    assert_eq!(ran.lines(), expected);
}

fn abort_of_a_child_ends_its_parents(library: &Library) {
    let Some(spawn) = (library.build)("spawn_abort") else { return };
    library
        .run(2, &spawn, &["child"])
        .exits_with(43)
        .says(&["rank 1 of 2 in the spawned job", "43"]);
}

fn mpi_comm_spawn_multiple_makes_one_job_of_two_programs(library: &Library) {
    let Some(spawn) = (library.build)("spawn_multiple") else { return };
    let mut command = host(["run", "--summary", "-n", "1", "--universe", "7"]);
    let ran = library.run_jobs(2, command.arg(&spawn).arg("/usr").current_dir("/"));
    let expected = [
        "first: child 0 of 3, program 0, in /usr",
        "second: child 1 of 3, program 1, in /",
        "second: child 2 of 3, program 1, in /",
        "universe 7, 3 children, codes 0 0 0",
    ];
    assert_eq!(ran.lines(), expected);
}

/// A module for each library, with a test for each case.
macro_rules! suites {
    ($( $module:ident = $library:ident: $( $case:ident )*; )*) => { $(
        mod $module {
            $(
                #[test]
                fn $case() {
                    super::$case(&super::$library);
                }
            )*
        }
    )* };
}

macro_rules! libraries {
    ($( $module:ident = $library:ident: $( $case:ident )*; )*) => {
        suites! { $(
            $module = $library:
                hello_comes_from_every_rank_once
                token_goes_round_the_ring
                allreduce_gives_every_rank_the_sum
                exit_code_of_a_rank_is_that_of_the_job
                mpi_abort_ends_the_job_with_its_code
                signal_that_terminates_a_rank_ends_the_job
                rank_that_leaves_without_finalize_ends_the_job
                $( $case )*;
        )* }
    };
}

libraries! {
    mpich_4 = MPICH_4: ;
    mpich_5 = MPICH_5:
        mpi_comm_spawn_connects_parents_and_children
        manager_finds_room_for_workers
        mpi_comm_spawn_multiple_makes_one_job_of_two_programs
        published_name_is_found_and_connected_to
        abort_of_a_child_ends_its_parents;
    open_mpi_4 = OPEN_MPI_4:
        mpi_comm_spawn_connects_parents_and_children
        manager_finds_room_for_workers
        published_name_is_found_and_connected_to
        abort_of_a_child_ends_its_parents;
    open_mpi_5 = OPEN_MPI_5:
        mpi_comm_spawn_connects_parents_and_children
        manager_finds_room_for_workers
        published_name_is_found_and_connected_to;
    intel_mpi = INTEL:
        mpi_comm_spawn_connects_parents_and_children
        manager_finds_room_for_workers
        mpi_comm_spawn_multiple_makes_one_job_of_two_programs
        published_name_is_found_and_connected_to;
}
