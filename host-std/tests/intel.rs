//! Programs built with Intel MPI, with the PMI libraries that it may be configured to load.

use crate::common::wheel::{intel_program, on_loopback};
use crate::common::{host, job, run};
use std::path::Path;

#[test]
fn pmi_library_that_the_user_names_finds_the_server_that_it_speaks_with() {
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

#[test]
fn variable_of_intel_mpi_that_one_program_has_holds_for_all() {
    let shows = ["sh", "-c", "echo $I_MPI_DEBUG $OTHER"];
    let (first, second) = (["-env", "I_MPI_DEBUG", "4"], ["-env", "OTHER", "x"]);
    for (before, behind) in [(&first, &second), (&second, &first)] {
        let words = [&["mpiexec", "-n", "1"], &before[..], &shows, &[":", "-n", "1"]].concat();
        let ran = run(&mut host([&words[..], behind, &shows].concat())).exits_with(0);
        assert_eq!(ran.lines(), ["4", "4 x"]);
    }
    let words =
        [&["run", "-n", "1"], &shows[..], &[":", "-n", "1", "--env", "I_MPI_DEBUG=4"]].concat();
    let ran = run(&mut host([&words[..], &shows].concat())).exits_with(0);
    assert_eq!(ran.lines(), ["4", "4"]);
    // The library compares its settings over all ranks.
    let Some(ring) = intel_program("ring") else { return };
    let ring = ring.to_str().unwrap();
    let words = ["mpiexec", "-n", "1", "-env", "I_MPI_DEBUG", "4", ring, ":", "-n", "1", ring];
    let ran = run(on_loopback(&mut host(words))).exits_with(0);
    assert!(ran.out.contains("ring of 2: token 1"), "{}", ran.out);
}

/// Directory of Debian's libraries.
const LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu";
