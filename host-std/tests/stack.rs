//! Calls of the ranks of running jobs.

use crate::common::wheel::{MPICH, wheel_python};
use crate::common::{Ran, Running, host, mpi_program, openmpi_program, run, shell, start};
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A job, and a directory for the socket of its launcher.
struct HungJob {
    runtime: TempDir,
    running: Option<Running>,
}

impl HungJob {
    fn start(options: &[&str], words: &[&str]) -> Self {
        let runtime = tempfile::tempdir().unwrap();
        let mut command = host(["run"]);
        command.args(options).args(words).env("XDG_RUNTIME_DIR", runtime.path());
        let running = Some(start(&mut command));
        Self { runtime, running }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = host(["stack"]);
        command.args(words).env("XDG_RUNTIME_DIR", self.runtime.path());
        command
    }

    /// The output as soon as it contains all parts.
    fn shows(&self, words: &[&str], parts: &[&str]) -> String {
        let since = Instant::now();
        loop {
            let ran: Ran = run(&mut self.command(words));
            if parts.iter().all(|part| ran.out.contains(part)) {
                return ran.out;
            }
            assert!(since.elapsed() < Duration::from_secs(50), "{}{}", ran.out, ran.err);
            sleep(Duration::from_millis(200));
        }
    }

    fn pid(&self) -> String {
        self.running.as_ref().unwrap().pid().to_string()
    }
}

impl Drop for HungJob {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.signal("TERM");
            let _ = running.end();
        }
    }
}

/// False if there is no debugger, which is an error in CI, or if this user may not use it.
fn has_debugger() -> bool {
    let is_there = Command::new("gdb").arg("--version").output().is_ok();
    assert!(is_there || std::env::var_os("CI").is_none(), "there is no gdb");
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let is_restricted = !matches!(scope.trim(), "" | "0") && !rustix::process::geteuid().is_root();
    match (is_there, is_restricted) {
        (false, _) => eprintln!("skipped: there is no gdb; Debian's package gdb brings it"),
        (true, true) => {
            eprintln!("skipped: kernel.yama.ptrace_scope permits debuggers of root only")
        }
        (true, false) => return true,
    }
    false
}

#[test]
fn equal_stacks_are_merged_and_the_missing_rank_stands_apart() {
    if !has_debugger() {
        return;
    }
    let programs = [mpi_program("hang"), openmpi_program("hang")];
    for program in programs.iter().flatten() {
        let words = [program.to_str().unwrap(), "2", "sleep"];
        let job = HungJob::start(&["-n", "4"], &words);
        let parts = ["ranks 0,1,3, PMPI_Init in libmpi", "rank 2, ", "pause"];
        let shown = job.shows(&[&job.pid()], &parts);
        // The calls below the fence are those of one branch, before those of rank 2.
        let (waiting, missing) = shown.split_once("rank 2, ").unwrap();
        assert!(waiting.contains("PMPI_Init") && !missing.contains("PMPI_Init"), "{shown}");
        job.shows(&["--json", &job.pid()], &["\"function\":\"PMPI_Init\"", "\"ranks\":[[2,2]]"]);
    }
}

#[test]
fn without_a_debugger_the_last_call_is_shown() {
    let job = HungJob::start(&["-n", "2"], &shell("read line <&$PMI_FD"));
    let since = Instant::now();
    loop {
        let mut command = job.command(&[&job.pid()]);
        let ran = run(command.env("PATH", "/nowhere"));
        if ran.out.contains("  ranks 0,1, sh:\n    read in libc") {
            ran.exits_with(0);
            break;
        }
        assert!(since.elapsed() < Duration::from_secs(50), "{}{}", ran.out, ran.err);
        sleep(Duration::from_millis(100));
    }
    let shown = run(job.command(&[&job.pid()]).env("PATH", "/nowhere")).out;
    assert!(shown.contains(" in kernel\n  only the last call is known"), "{shown}");
}

#[test]
fn ranks_of_node_servers_are_shown_with_their_server() {
    let options = ["--starter", "local:2", "-n", "4"];
    let job = HungJob::start(&options, &shell("read line <&$PMI_FD"));
    // The launcher's own table has the line about the other host. Other jobs may be shown before its socket
    // is there.
    let parts = [
        "ranks 0,2 of 4, sh, started by",
        "ranks 1,3 of 4, sh, started by",
        "ranks 1,3: on local2; 'pmi-host stack' there shows it",
    ];
    job.shows(&[], &parts);
}

#[test]
fn report_without_progress_is_followed_by_stacks_on_request() {
    if !has_debugger() {
        return;
    }
    let script = "echo cmd=init pmi_version=1 pmi_subversion=1 >&$PMI_FD; read answer <&$PMI_FD
        if [ $PMI_RANK = 1 ]; then read line <&$PMI_FD; fi
        echo cmd=barrier_in >&$PMI_FD; read answer <&$PMI_FD";
    let options = ["-n", "3", "--stall-report", "1", "--stall-stacks"];
    let job = HungJob::start(&options, &shell(script));
    let running = job.running.as_ref().unwrap();
    running.wait_for_errors("wait in fence 0 for rank 1");
    running.wait_for_errors("  ranks 0-2, sh:\n");
}

#[test]
fn calls_of_python_stand_in_the_place_of_its_interpreter() {
    if !has_debugger() {
        return;
    }
    let Some(python) = wheel_python(&MPICH) else { return };
    let sampler = python.parent().unwrap();
    if !sampler.join("py-spy").exists() {
        assert!(std::env::var_os("CI").is_none(), "{} has no py-spy", sampler.display());
        return;
    }
    let script = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stack.py");
    let source = "import os\n\ndef hold():\n    os.read(int(os.environ['PMI_FD']), 1)\n\nhold()\n";
    std::fs::write(&script, source).unwrap();
    let words = [python.to_str().unwrap(), script.to_str().unwrap()];
    let job = HungJob::start(&["-n", "2"], &words);
    let path = std::env::var("PATH").unwrap();
    let since = Instant::now();
    loop {
        let mut command = job.command(&[&job.pid()]);
        let ran = run(command.env("PATH", format!("{}:{path}", sampler.display())));
        if ran.out.contains("<module> at stack.py:6\n") {
            let (_, below) = ran.out.split_once("<module> at stack.py:6\n").unwrap();
            assert!(below.trim_start().starts_with("hold at stack.py:4\n"), "{}", ran.out);
            assert!(below.contains("read"), "{}", ran.out);
            break;
        }
        assert!(since.elapsed() < Duration::from_secs(50), "{}{}", ran.out, ran.err);
        sleep(Duration::from_millis(200));
    }
}
