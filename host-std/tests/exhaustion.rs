//! Runs that reach a limit of the session: they terminate with one sentence and their exit code, and leave
//! nothing behind.

use crate::common::{Ran, copy_program, host_path, run, start};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The launcher with this limit, as an option of the program `prlimit`.
fn limited(limit: &str, options: &[&str]) -> Command {
    let mut command = Command::new("prlimit");
    command.arg(limit).arg(host_path()).arg("run").args(options).env("XDG_CONFIG_HOME", "/nowhere");
    command.stdin(Stdio::null());
    command
}

/// Processes for which `is_one` holds, and that are no zombies.
fn alive(is_one: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let is_alive = |path: &PathBuf| {
        let stat = fs::read_to_string(path.join("stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
    };
    let entries = fs::read_dir("/proc").unwrap().filter_map(Result::ok).map(|entry| entry.path());
    entries.filter(|path| is_one(path)).filter(is_alive).collect()
}

/// Waits until no process is left for which `is_one` holds.
#[track_caller]
fn all_go(is_one: impl Fn(&Path) -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while !alive(&is_one).is_empty() {
        assert!(Instant::now() < until, "{:?} are left", alive(&is_one));
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn too_few_open_files_are_counted_with_all_that_needs_them() {
    let rank = ["sh", "-c", "echo started"];
    for (options, part) in [
        (&["-n", "3"][..], "3 ranks need 60 open files"),
        (&["-n", "3", "--pty", "0"], "3 ranks need 60 open files"),
        (&["-n", "3", "--pmi", "x"], "3 ranks need 60 open files"),
        (
            &["-n", "3", "--listen", "127.0.0.1:0", "--expect", "2"],
            "3 ranks and 66 other connections need 324 open files",
        ),
        (
            &["-n", "3", "--websocket", "127.0.0.1:0"],
            "3 ranks and 256 other connections need 1084 open files",
        ),
    ] {
        for limit in [5, 20, 59] {
            let ran = run(&mut limited(&format!("--nofile={limit}"), &[options, &rank].concat()));
            let had = format!("may have {limit};");
            let ran = ran.exits_with(1).says(&[part, &had, "fewer ranks"]);
            assert_eq!(ran.out, "", "{options:?}");
        }
    }
}

#[test]
fn too_few_processes_terminate_the_ranks_that_were_started() {
    // The limit does not hold for root, and counts all processes of a user: this one has no others.
    let user = 70_000 + std::process::id();
    let as_user = |words: &mut Command| -> Ran {
        let mut command = Command::new("setpriv");
        command.args([format!("--reuid={user}"), format!("--regid={user}")]);
        command.arg("--clear-groups").arg(words.get_program()).args(words.get_args());
        run(command.env("XDG_CONFIG_HOME", "/nowhere").stdin(Stdio::null()))
    };
    if as_user(&mut Command::new("true")).code != 0 {
        return eprintln!("skipped: the user cannot be changed here");
    }
    // The build directory may be closed to other users.
    let program = tempfile::NamedTempFile::new().unwrap().into_temp_path();
    copy_program(host_path(), &program, 0o755);
    for limit in [1, 2, 3, 4, 6, 8] {
        for options in [&[][..], &["--pty", "0"], &["--pmi", "x"]] {
            let mut command = Command::new("prlimit");
            command.arg(format!("--nproc={limit}")).arg(&program).args(["run", "-n", "9"]);
            let ran = as_user(command.args(options).args(["sleep", "600"])).exits_with(1);
            let ran = ran.says(&["could not be started", "fewer ranks", "ulimit"]);
            assert_eq!(ran.out, "");
            all_go(|path| fs::metadata(path).is_ok_and(|meta| meta.uid() == user));
        }
    }
}

#[test]
fn launcher_without_memory_reports_it_in_one_sentence_and_leaves_no_rank() {
    // A rank that stores until the launcher may not take more memory.
    let fill = "V=$(printf %01000d 0); ask() { echo \"$1\" >&$PMI_FD; read -r R <&$PMI_FD; }; \
        ask 'cmd=init pmi_version=1 pmi_subversion=1'; ask cmd=get_my_kvsname; N=${R#*kvsname=}; \
        echo up; read -r go; \
        for ((i = 0; i < 100000; i++)); do ask \"cmd=put kvsname=$N key=k$i value=$V\"; done";
    let mark = format!("exhaustion {}", std::process::id());
    let mut command = limited("--core=0", &["-n", "2", "--stdin", "0", "bash", "-c"]);
    let script = format!("[ $PMI_RANK = 1 ] && sleep 600; {fill}");
    let mut launcher = start(command.args([&script, &mark]).stdin(Stdio::piped()));
    launcher.wait_for_output("up");
    let process = format!("/proc/{}", launcher.pid());
    let status = fs::read_to_string(format!("{process}/status")).unwrap();
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
    let size: u64 = size.trim().trim_end_matches(" kB").parse().unwrap();
    let most = Some((size + 2048) * 1024);
    let limit = Rlimit { current: most, maximum: most };
    prlimit(Pid::from_raw(launcher.pid().cast_signed()), Resource::As, limit).unwrap();
    launcher.types("go\n");
    let ran = launcher.end().exits_with(1);
    ran.says(&["no memory for", "ulimit -v", "fewer ranks"]);
    let words = [&mark, ""].join("\0").into_bytes();
    all_go(|path| fs::read(path.join("cmdline")).is_ok_and(|line| line.ends_with(&words)));
}
