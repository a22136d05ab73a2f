//! Values of a job in shared memory, read by programs that are linked with Debian's library of PMIx.

use crate::common::{host, job, openmpi_program, pmix_program, run, start};
use std::path::Path;
use std::time::Duration;
use std::{fs, thread};

/// Directories for stores of launchers of this machine, by the process in their names.
fn stores_of(pid: u32) -> Vec<String> {
    let entries = fs::read_dir("/dev/shm").unwrap().map(|entry| entry.unwrap().file_name());
    let names = entries.map(|name| name.to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(&format!("pmi-host-{pid}-"))).collect()
}

#[test]
fn values_in_memory_are_those_of_messages() {
    let Some(program) = pmix_program("pmix_store") else { return };
    for (choice, how) in [("ds21,hash", "found in memory"), ("hash", "found by messages")] {
        let mut command = host(["run", "-n", "3", "--env"]);
        let ran = run(command.arg(format!("PMIX_GDS_MODULE={choice}")).arg(&program));
        let ran = ran.exits_with(0).says_nothing();
        let lines: Vec<String> = (0..3).map(|rank| format!("{rank}: {how}")).collect();
        assert_eq!(ran.lines(), lines, "{}", ran.err);
    }
}

#[test]
fn store_is_offered_on_request_to_programs_of_pmix_and_by_default_to_those_of_open_mpi() {
    let chosen = |program: &Path| {
        let ran = run(host(["run", "-n", "1", "--env-report"]).arg(program));
        let line = ran.err.lines().find(|line| line.contains("+ PMIX_GDS_MODULE=")).map(str::trim);
        let value = line.and_then(|line| line.split_once('=')?.1.split_whitespace().next());
        value.unwrap_or_default().to_owned()
    };
    if let Some(program) = pmix_program("pmix_store") {
        assert_eq!(chosen(&program), "hash");
    }
    if let Some(program) = openmpi_program("hello") {
        assert_eq!(chosen(&program), "ds21,hash");
    }
}

#[test]
fn client_without_its_store_takes_values_from_messages() {
    let Some(program) = pmix_program("pmix_store") else { return };
    let mut command = job(2, ["--env"]);
    command.args(["PMIX_GDS_MODULE=ds21,hash", "--env", "PMIX_DSTORE_21_BASE_PATH=/nonexistent"]);
    let ran = run(command.arg(&program)).exits_with(0);
    assert_eq!(ran.lines(), ["0: found by messages", "1: found by messages"], "{}", ran.err);
}

#[test]
fn files_of_a_store_are_removed_with_the_run_and_by_the_guard() {
    let Some(program) = pmix_program("pmix_store") else { return };
    let begin = || {
        let mut command = job(2, ["--env", "PMIX_GDS_MODULE=ds21,hash"]);
        let running = start(command.arg(&program).arg("and waits"));
        running.wait_for_output("1: found in memory");
        assert_eq!(stores_of(running.pid()).len(), 1);
        running
    };
    let ended = begin();
    ended.signal("TERM");
    let pid = ended.pid();
    ended.end();
    assert_eq!(stores_of(pid), <[String; 0]>::default());
    let killed = begin();
    killed.signal("KILL");
    let pid = killed.pid();
    killed.end();
    while !stores_of(pid).is_empty() {
        thread::sleep(Duration::from_millis(10));
    }
}
