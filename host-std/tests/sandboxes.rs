//! Jobs where the system refuses calls, or hides processes from their own user: containers, sandboxes,
//! programs without read permission.

use crate::common::hosts::local_nodes;
use crate::common::{
    Ran, c_program, copy_program, host, host_path, openmpi_program, run, shell, small_host_path,
    start,
};
use nix::libc;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// `command` where the system answers these calls with `error`.
fn denied(error: i32, calls: &[libc::c_long], command: &Command) -> Command {
    let mut denied = Command::new(c_program("deny"));
    let calls: Vec<String> = calls.iter().map(ToString::to_string).collect();
    denied.args([&error.to_string(), &calls.join(",")]).arg(command.get_program());
    denied.args(command.get_args()).stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => denied.env(name, value),
            None => denied.env_remove(name),
        };
    }
    denied
}

/// Answers of a kernel that does not have a call, and of most filters.
const ANSWERS: [i32; 2] = [libc::ENOSYS, libc::EPERM];

/// Calls of handles of processes, which came with Linux 5.1 to 5.4.
const HANDLES: [libc::c_long; 2] = [libc::SYS_pidfd_open, libc::SYS_pidfd_send_signal];

#[test]
fn jobs_run_and_fail_as_always_where_handles_of_processes_are_refused() {
    for error in ANSWERS {
        let job =
            |script: &str| denied(error, &HANDLES, host(["run", "-n", "3"]).args(shell(script)));
        let ran = run(&mut job("echo rank $PMI_RANK")).exits_with(0).says_nothing();
        assert_eq!(ran.lines(), ["rank 0", "rank 1", "rank 2"]);
        let ran = run(&mut job("[ $PMI_RANK = 1 ] && exit 5; exec sleep 100")).exits_with(5);
        ran.says(&["rank 1 of 3", "exited with code 5"]);
        let running = start(&mut job("trap 'echo got; exit 0' TERM; echo up; sleep 100 & wait"));
        for _ in 0..3 {
            running.wait_for_output("up");
        }
        running.signal("TERM");
        running.end().exits_with(143);
    }
}

#[test]
fn signals_reach_ranks_where_only_their_call_for_handles_is_refused() {
    let script = "trap 'echo got; exit 0' USR2; echo up; while :; do sleep 0.05; done";
    let calls = [libc::SYS_pidfd_send_signal];
    let mut command = host(["run", "-n", "1"]);
    let running = start(&mut denied(libc::EPERM, &calls, command.args(shell(script))));
    running.wait_for_output("up");
    running.signal("USR2");
    assert!(running.end().exits_with(0).out.contains("got"));
}

#[test]
fn nodes_are_started_and_end_where_handles_of_processes_are_refused() {
    for error in ANSWERS {
        let mut command = local_nodes(2, 4, &[]);
        let ran = run(&mut denied(error, &HANDLES, command.args(shell("echo $PMI_RANK"))));
        assert_eq!(ran.exits_with(0).says_nothing().lines(), ["0", "1", "2", "3"]);
        let mut command = local_nodes(2, 4, &[]);
        command.args(shell("[ $PMI_RANK = 3 ] && exit 7; exec sleep 100"));
        run(&mut denied(error, &HANDLES, &command)).exits_with(7).says(&["rank 3 of 4"]);
    }
}

#[test]
fn refused_limits_keep_no_job_from_its_start() {
    for error in ANSWERS {
        let calls = [libc::SYS_prlimit64];
        let ran = run(&mut denied(error, &calls, host(["run", "-n", "2"]).args(["echo", "ok"])));
        assert_eq!(ran.exits_with(0).says_nothing().lines(), ["ok", "ok"]);
    }
}

#[test]
fn sandbox_without_descriptors_of_signals_is_named() {
    for error in ANSWERS {
        let calls = [libc::SYS_signalfd4];
        let ran = run(&mut denied(error, &calls, host(["run", "-n", "2"]).args(["echo", "ok"])));
        ran.exits_with(1).says(&["the system refuses signalfd4 (", "has to permit it"]);
    }
}

/// A directory that every user may enter, with the launcher and Open MPI's `hello`, which users may execute
/// and not read.
struct Unreadable(tempfile::TempDir);

impl Unreadable {
    /// `None` with a note if root or Open MPI is missing.
    fn new() -> Option<Self> {
        if !rustix::process::getuid().is_root() {
            assert!(std::env::var_os("CI").is_none(), "CI runs as root");
            eprintln!("skipped: only root can run something as another user");
            return None;
        }
        let hello = openmpi_program("hello")?;
        let directory = tempfile::tempdir().unwrap();
        let place = |from: &Path, name: &str, mode: u32| {
            copy_program(from, directory.path().join(name), mode);
        };
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        place(small_host_path(), "pmi-host", 0o755);
        place(&hello, "hello", 0o711);
        Some(Self(directory))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Two ranks, started by a user who may not read the program.
    fn run(&self) -> Ran {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        command.arg(self.path("pmi-host")).args(["run", "-n", "2"]).arg(self.path("hello"));
        let directory = self.0.path().join("own");
        let _ = fs::create_dir(&directory);
        std::os::unix::fs::chown(&directory, Some(65534), Some(65534)).unwrap();
        let (home, tmp) = (("HOME", directory.as_os_str()), ("TMPDIR", OsStr::new("/tmp")));
        command.envs([home, tmp]).env_remove("XDG_RUNTIME_DIR").env("XDG_CONFIG_HOME", "/nowhere");
        run(command.stdin(Stdio::null()))
    }
}

/// Checks that both ranks of `hello` are in one job, and that nothing was reported.
#[track_caller]
fn are_two_ranks(ran: Ran) {
    let ran = ran.exits_with(0).says_nothing();
    let ranks =
        ran.lines().iter().map(|line| line.split(" on ").next().unwrap()).collect::<Vec<_>>();
    assert_eq!(ranks, ["rank 0 of 2", "rank 1 of 2"]);
}

#[test]
fn ranks_whose_program_their_user_may_not_read_are_admitted() {
    let Some(place) = Unreadable::new() else { return };
    are_two_ranks(place.run());
}

#[test]
fn ranks_with_capabilities_of_their_file_are_admitted() {
    let Some(place) = Unreadable::new() else { return };
    let hello = place.path("hello");
    fs::set_permissions(&hello, fs::Permissions::from_mode(0o755)).unwrap();
    let set = Command::new("setcap").arg("cap_sys_nice+ep").arg(&hello).status();
    if !set.is_ok_and(|status| status.success()) {
        return eprintln!("skipped: no capabilities of files here");
    }
    are_two_ranks(place.run());
}

#[test]
fn ranks_are_admitted_without_a_process_file_system() {
    let Some(place) = Unreadable::new() else { return };
    let script = format!(
        "mount -t tmpfs none /proc && exec {} run -n 2 {}",
        host_path(),
        place.path("hello").display()
    );
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script]).env("XDG_CONFIG_HOME", "/nowhere");
    are_two_ranks(run(command.stdin(Stdio::null())));
}

#[test]
fn process_that_has_left_its_rank_is_admitted_as_that_rank() {
    let Some(hello) = openmpi_program("hello") else { return };
    let out = tempfile::NamedTempFile::new().unwrap();
    // The first shell ends at once, so the program is a child of the launcher.
    let script = format!(
        "(setsid {} > {} 2>&1 &); while ! grep -q 'of 1' {}; do sleep 0.1; done",
        hello.display(),
        out.path().display(),
        out.path().display()
    );
    run(host(["run", "-n", "1", "--pmi", "x"]).args(shell(&script))).exits_with(0).says_nothing();
    assert!(fs::read_to_string(out.path()).unwrap().starts_with("rank 0 of 1 on "));
}
