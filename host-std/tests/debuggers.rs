//! Debuggers without PMIx: they find the ranks through variables of the launcher, as installed, that is,
//! without debug information.

use crate::common::{host_path, mpi_program, openmpi_program, run, shell, start};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The launcher without symbols but those that it exports.
fn stripped(test: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("pmi-host-stripped-{test}"));
    let done = Command::new("strip").arg("-o").arg(&path).arg(host_path()).status();
    assert!(done.expect("strip is part of the compiler's tools").success());
    path
}

/// True if there is a debugger; prints a note otherwise.
fn has_gdb() -> bool {
    let found = Command::new("gdb").arg("--version").output().is_ok();
    assert!(found || std::env::var_os("CI").is_none(), "Debian's package gdb is missing");
    if !found {
        eprintln!("skipped: Debian's package gdb is missing");
    }
    found
}

/// Starts the stripped launcher with `words` in gdb, which sets the breakpoint of the interface and executes
/// `commands` there.
fn debugged(test: &str, commands: &str, words: &[&str]) -> crate::common::Ran {
    let script = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}.gdb"));
    let text = format!(
        "set confirm off\nhandle SIGCHLD nostop noprint\nstarti\n\
         set *(int *)&MPIR_being_debugged = 1\nbreak *MPIR_Breakpoint\ncontinue\n{commands}\n"
    );
    fs::write(&script, text).unwrap();
    let mut command = Command::new("gdb");
    command.args(["-q", "-nx", "-batch", "-x"]).arg(script);
    command.arg("--args").arg(stripped(test)).arg("run").args(words);
    command.env("UCX_TLS", "self,sm");
    run(&mut command)
}

/// Prints the table, attaches to rank 1 until it is in `MPI_Init`, and detaches.
const ATTACH: &str = r#"
printf "state %d, %d ranks\n", *(int *)&MPIR_debug_state, *(int *)&MPIR_proctable_size
set $rank = *(long *)&MPIR_proctable + 24
printf "rank 1 runs %s\n", *(char **)($rank + 8)
eval "shell for try in $(seq 100); do gdb -q -nx -batch -p %d -ex bt 2>&1 | grep -ao 'MPI_Init ' && break; sleep 0.1; done", *(int *)($rank + 16)
continue
"#;

#[track_caller]
fn attaches_to_rank_1(test: &str, program: Option<PathBuf>) {
    let Some(program) = program.filter(|_| has_gdb()) else { return };
    let program = program.display().to_string();
    let ran = debugged(test, ATTACH, &["-n", "2", &program, "9", "none"]).exits_with(0);
    let says = |what: &str| assert!(ran.out.contains(what), "{what}: {} {}", ran.out, ran.err);
    says("state 1, 2 ranks\n");
    says(&format!("rank 1 runs {program}\n"));
    // It waits there for the response to its first request, which follows when the debugger continues.
    says("\nMPI_Init \n");
    says("exited normally]");
}

// Coverage: X2-6
#[test]
fn debugger_attaches_to_a_rank_of_mpich_that_is_held_in_init() {
    attaches_to_rank_1("debug-mpich", mpi_program("hang"));
}

#[test]
fn debugger_attaches_to_a_rank_of_open_mpi_that_is_held_in_init() {
    attaches_to_rank_1("debug-openmpi", openmpi_program("hang"));
}

#[test]
fn debugger_reads_the_table_of_a_launcher_that_runs() {
    if !has_gdb() {
        return;
    }
    let mut command = Command::new(stripped("debug-attach"));
    let [sh, option, script] = shell("echo $$; exec sleep 1000");
    let job = start(command.args(["run", "-n", "1", sh, option, script]));
    job.wait_for_output("\n");
    let mut gdb = Command::new("gdb");
    gdb.args(["-q", "-nx", "-batch", "-p", &job.pid().to_string()]);
    gdb.args(["-ex", r#"printf "table %d\n", *(int *)(*(long *)&MPIR_proctable + 16)"#]);
    let ran = run(&mut gdb).exits_with(0);
    job.signal("TERM");
    let pid = job.end().out.trim().to_owned();
    assert!(ran.out.contains(&format!("table {pid}\n")), "{} {}", ran.out, ran.err);
}

#[test]
fn debugger_is_told_of_an_abort() {
    if !has_gdb() {
        return;
    }
    let commands = "continue\nprintf \"state %d\\n\", *(int *)&MPIR_debug_state\ncontinue";
    let ran = debugged("debug-abort", commands, &["-n", "1", "sh", "-c", "exit 3"]).exits_with(0);
    assert!(ran.out.contains("state 2\n"), "{} {}", ran.out, ran.err);
    assert!(ran.out.contains("exited with code 03]"), "{}", ran.out);
}

// Coverage: W2-28
#[test]
fn rank_is_told_that_a_debugger_controls_it() {
    if !has_gdb() {
        return;
    }
    // The last 14 of the 101 bytes tell.
    let script = "echo cmd=init pmi_version=2 pmi_subversion=0 >&$PMI_FD; read answer <&$PMI_FD
        printf '38    cmd=fullinit;pmirank=0;threaded=FALSE;' >&$PMI_FD; head -c 101 <&$PMI_FD
        printf '13    cmd=finalize;' >&$PMI_FD; head -c 33 <&$PMI_FD > /dev/null";
    let ran = debugged("debug-told", "continue", &["-n", "1", "sh", "-c", script]).exits_with(0);
    assert!(ran.out.contains(";appnum=0;debugged=TRUE;"), "{} {}", ran.out, ran.err);
}
