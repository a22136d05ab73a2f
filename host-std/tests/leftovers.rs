//! Processes that a run leaves behind: they belong to the run or not, and are found by more than their
//! environment.

use crate::common::{Running, host, host_path, job, run, shell, signal_group, start};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A `sleep` that no other test starts: it is found by its words, for its environment may be empty.
fn nap(number: u32) -> String {
    format!("sleep {}.{number}", 900_000 + std::process::id())
}

/// The processes that run `words` directly.
fn running(words: &str) -> Vec<i32> {
    let wanted: Vec<u8> = words.bytes().map(|byte| if byte == b' ' { 0 } else { byte }).collect();
    let entries = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let is_it = |path: &Path| {
        fs::read(path.join("cmdline")).is_ok_and(|line| line.strip_suffix(&[0]) == Some(&wanted))
    };
    let found = entries.filter(|entry| is_it(&entry.path()));
    found.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Waits until `is_so`; false after a timeout.
fn comes(is_so: impl Fn() -> bool) -> bool {
    let until = Instant::now() + Duration::from_secs(30);
    while Instant::now() < until {
        if is_so() {
            return true;
        }
        sleep(Duration::from_millis(5));
    }
    false
}

fn kill(pid: i32) {
    assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
}

/// `bash -c SCRIPT`, in which `$0` is the launcher.
fn bash(script: &str) -> Command {
    let mut command = Command::new("bash");
    command.args(["-c", script, host_path()]).env("XDG_CONFIG_HOME", "/nowhere");
    command
}

/// A directory for one test, empty.
fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("leftovers-{name}"));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

#[test]
fn failed_run_does_not_touch_the_reader_that_a_shell_has_given_it() {
    let log = directory("log").join("log");
    let script = format!(
        "exec $0 run -n 2 sh -c 'echo hello; exit 3' > >(sleep 0.5; cat > {})",
        log.display()
    );
    for _ in 0..3 {
        let _ = fs::remove_file(&log);
        assert_eq!(bash(&script).status().unwrap().code(), Some(3));
        let lines = || fs::read_to_string(&log).map_or(0, |text| text.matches("hello\n").count());
        assert!(comes(|| lines() > 0), "the log is lost");
    }
}

#[test]
fn failed_run_does_not_touch_background_jobs_of_the_shell_before_it() {
    let (own, late) = (nap(1), nap(2));
    // One was started before the launcher, the other one by a child of the shell, which ends then: so it is
    // orphaned while the launcher runs.
    let script = format!(
        "{own} & (sleep 0.3; {late} & sleep 0.3) & exec $0 run -n 1 sh -c 'sleep 1.5; exit 3'"
    );
    assert_eq!(bash(&script).status().unwrap().code(), Some(3));
    for words in [own, late] {
        let pids = running(&words);
        assert_eq!(pids.len(), 1, "{words}");
        pids.into_iter().for_each(kill);
    }
}

#[test]
fn failed_run_terminates_daemons_of_its_ranks() {
    let nap = nap(3);
    for daemon in [
        format!("(setsid {nap} > /dev/null 2>&1 &)"),
        format!("(env -i setsid {nap} > /dev/null 2>&1 &)"),
        format!("sh -c 'sh -c \"{nap} > /dev/null 2>&1 &\" &'"),
    ] {
        let script = format!("{daemon}; sleep 1; exit 3");
        run(&mut job(2, shell(&script))).exits_with(3);
        let left = running(&nap);
        left.iter().for_each(|pid| kill(*pid));
        assert!(left.is_empty(), "{daemon} is left");
    }
}

#[test]
fn second_signal_to_the_launcher_leaves_no_daemon() {
    let (own, daemon) = (nap(31), nap(32));
    let rank = format!("(setsid sh -c \"trap '' TERM; {daemon}; true\" &); exec {own}");
    let launcher = start(&mut job(2, shell(&rank)));
    assert!(comes(|| running(&own).len() == 2 && running(&daemon).len() == 2));
    launcher.signal("TERM");
    assert!(comes(|| running(&own).is_empty()));
    // A second signal within 2 s is another request.
    sleep(Duration::from_millis(2100));
    launcher.signal("TERM");
    launcher.end().exits_with(143);
    assert_eq!(running(&daemon), [0; 0], "daemons are left");
}

#[test]
fn daemon_of_a_node_whose_ranks_have_ended_ends_with_a_run_that_fails_elsewhere() {
    let (own, daemon) = (nap(33), nap(34));
    let rank = format!(
        "[ $PMI_RANK = 1 ] && exec {own}; (setsid sh -c \"trap '' TERM; {daemon}; true\" >/dev/null 2>&1 &)"
    );
    let launcher = start(&mut crate::common::hosts::local_nodes(2, 2, &shell(&rank)));
    assert!(comes(|| running(&own).len() == 1 && running(&daemon).len() == 1));
    // The end of rank 0 is known to the head before the signal.
    sleep(Duration::from_secs(1));
    launcher.signal("TERM");
    launcher.end().exits_with(143);
    assert!(comes(|| running(&daemon).is_empty()), "the daemon is left");
}

#[test]
fn failed_run_tells_daemons_of_its_ranks_from_jobs_of_the_shell() {
    let (shells, daemons) = (nap(4), nap(5));
    // The first daemon is known by its session, the second by its environment.
    for daemon in [format!("(env -i {daemons} &)"), format!("(setsid {daemons} &)")] {
        let script = format!(
            "{shells} & exec $0 run -n 1 sh -c '{daemon} > /dev/null 2>&1; sleep 0.5; exit 3'"
        );
        assert_eq!(bash(&script).status().unwrap().code(), Some(3));
        let (left, spared) = (running(&daemons), running(&shells));
        left.iter().chain(&spared).for_each(|pid| kill(*pid));
        assert_eq!((left.len(), spared.len()), (0, 1), "{daemon}");
    }
}

#[test]
fn ranks_with_an_empty_environment_do_not_survive_a_killed_launcher() {
    let (nap, inner) = (nap(6), nap(7));
    // The rank itself, a process of its session, and one that has left that.
    let script = format!("{inner} & setsid {inner} & exec {nap}");
    let launcher = start(&mut job(2, ["env", "-i", "PATH=/bin:/usr/bin", "sh", "-c", &script]));
    assert!(comes(|| running(&nap).len() == 2 && running(&inner).len() == 4));
    launcher.signal("KILL");
    assert_eq!(launcher.end().code, 137);
    assert!(comes(|| running(&nap).is_empty() && running(&inner).is_empty()), "ranks are left");
}

#[test]
fn killed_launcher_does_not_take_jobs_of_the_shell_with_it() {
    let (shells, ranks) = (nap(8), nap(9));
    let script = format!("{shells} & exec $0 run -n 2 {ranks}");
    let launcher = start(&mut bash(&script));
    assert!(comes(|| running(&ranks).len() == 2 && running(&shells).len() == 1));
    // Long enough for the guard to have set up a control group.
    sleep(Duration::from_millis(500));
    launcher.signal("KILL");
    assert!(comes(|| running(&ranks).is_empty()));
    sleep(Duration::from_millis(1500));
    let spared = running(&shells);
    spared.iter().for_each(|pid| kill(*pid));
    assert_eq!((spared.len(), launcher.end().code), (1, 137));
}

#[test]
fn control_group_holds_what_shows_no_other_sign_of_its_run() {
    let nap = nap(10);
    let script = format!("(env -i setsid {nap} &) > /dev/null 2>&1; exec sleep 600");
    let launcher = start(&mut job(1, shell(&script)));
    let has_group = comes_to_group(&launcher);
    assert!(comes(|| running(&nap).len() == 1));
    let pid = launcher.pid();
    // The guard makes the group first and moves the processes one by one.
    let is_inside =
        || running(&nap).into_iter().all(|daemon| groups(pid).iter().any(holds(daemon)));
    assert!(!has_group || comes(is_inside), "the daemon is not in the group");
    launcher.signal("KILL");
    assert_eq!(launcher.end().code, 137);
    if !has_group {
        eprintln!("skipped: no control group can be made here");
        return running(&nap).into_iter().for_each(kill);
    }
    assert!(comes(|| running(&nap).is_empty()), "a daemon is left");
    assert!(comes(|| groups(pid).is_empty()), "{:?} is left", groups(pid));
}

#[test]
fn control_group_goes_with_its_run_and_lets_daemons_of_a_good_one_be() {
    let nap = nap(11);
    let script = format!("(setsid {nap} &) > /dev/null 2>&1; sleep 1");
    let launcher = start(&mut job(1, shell(&script)));
    let has_group = comes_to_group(&launcher);
    let pid = launcher.pid();
    launcher.end().exits_with(0).says_nothing();
    assert!(comes(|| groups(pid).is_empty()), "{:?} is left", groups(pid));
    let left = running(&nap);
    left.iter().for_each(|pid| kill(*pid));
    assert_eq!(left.len(), 1, "with a group: {has_group}");
}

#[test]
fn ranks_end_with_a_killed_launcher_where_no_control_group_can_be_made() {
    let nap = nap(12);
    let hidden = "mount -t tmpfs none /sys/fs/cgroup && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", hidden, "sh", host_path(), "run", "-n", "2"]);
    let launcher = start(command.args(["env", "-i"]).args(nap.split(' ')));
    if !comes(|| running(&nap).len() == 2 || launcher.has_ended()) || launcher.has_ended() {
        eprintln!("skipped: mounts cannot be hidden here");
        return;
    }
    sleep(Duration::from_millis(500));
    assert!(groups(launcher.pid()).is_empty());
    launcher.signal("KILL");
    assert_eq!(launcher.end().code, 137);
    assert!(comes(|| running(&nap).is_empty()), "ranks are left");
}

#[test]
fn starters_that_wait_for_their_hosts_end_with_a_killed_head() {
    let (own, shared) = (nap(35), nap(36));
    let directory = directory("starter");
    let starter = directory.join("starter");
    // What a starter shares with later ones, as `ssh` its connection, is in a session of its own.
    fs::write(&starter, format!("#!/bin/sh\n(setsid {shared} > /dev/null 2>&1 &)\nexec {own}\n"))
        .unwrap();
    fs::set_permissions(&starter, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = host(["run", "--hosts", "h1,h2", "--starter-exec"]);
    let head = start(command.arg(&starter).args(["--node-interface", "127.0.0.1", "true"]));
    assert!(comes(|| running(&own).len() == 2 && running(&shared).len() == 2));
    head.signal("KILL");
    assert_eq!(head.end().code, 137);
    let has_gone = comes(|| running(&own).is_empty());
    let spared = running(&shared);
    spared.iter().chain(&running(&own)).for_each(|pid| kill(*pid));
    assert!(has_gone, "starters are left");
    assert_eq!(spared.len(), 2);
}

/// The guard finds the launcher in the control group of the run; the refusal is printed after the run was given
/// up.
#[test]
fn refused_run_is_not_ended_by_its_own_guard_before_it_has_said_why() {
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    // The launcher waits at its message for a reader.
    fcntl_setfl(&writer, fcntl_getfl(&writer).unwrap() | OFlags::NONBLOCK).unwrap();
    while writer.write(&[b'.'; 4096]).is_ok() {}
    fcntl_setfl(&writer, fcntl_getfl(&writer).unwrap() - OFlags::NONBLOCK).unwrap();
    let mut refused = job(1, ["--result", "/nowhere/file", "true"]);
    let mut child = refused.stdout(Stdio::null()).stderr(writer).spawn().unwrap();
    drop(refused);
    sleep(Duration::from_secs(1));
    let mut text = Vec::new();
    reader.read_to_end(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{:?}", child.wait());
    let text = String::from_utf8(text).unwrap();
    assert!(text.trim_start_matches('.').starts_with("pmi-host: the report"), "{text}");
}

#[test]
fn files_of_a_killed_launcher_are_removed_with_their_directory() {
    let nap = nap(37);
    let words: Vec<&str> = nap.split(' ').collect();
    // A launcher, a head, and one whose user gets the key of the run in a file.
    let manual =
        ["run", "--hosts", "h1", "--starter", "manual", "--node-interface", "127.0.0.1", "true"];
    for (name, mut command) in [
        ("run", job(1, &words)),
        ("head", crate::common::hosts::local_nodes(2, 2, &words)),
        ("manual", host(manual)),
    ] {
        let place = directory(name);
        let launcher = start(command.env("XDG_RUNTIME_DIR", &place));
        let files = || {
            let mut all = Vec::new();
            below(&place, &mut all);
            all.retain(|path| !path.is_dir());
            all
        };
        assert!(comes(|| !files().is_empty()), "{name}");
        // By then its guard has the reports, and is no copy of the launcher any more.
        sleep(Duration::from_millis(500));
        launcher.signal("KILL");
        assert_eq!(launcher.end().code, 137);
        let is_empty = || fs::read_dir(&place).unwrap().next().is_none();
        assert!(comes(is_empty), "{name}: {:?} is left", files());
        assert!(comes(|| running(&nap).is_empty()), "{name}");
    }
}

#[test]
fn directory_for_ranks_of_a_killed_launcher_is_removed() {
    let place = directory("ranks");
    let mut command = host(["run", "--no-tools", "--pmi", "x", "-n", "1", "sleep", "600"]);
    let launcher = start(command.env("TMPDIR", &place));
    let is_there = || fs::read_dir(&place).unwrap().next().is_some();
    assert!(comes(is_there));
    // Its guard has the report once the rank runs.
    sleep(Duration::from_millis(300));
    launcher.signal("KILL");
    assert_eq!(launcher.end().code, 137);
    assert!(comes(|| !is_there()), "the directory is left");
}

#[test]
fn launcher_takes_the_first_signal_of_a_crash_for_its_end() {
    for (signal, code) in [("SEGV", 139), ("BUS", 135)] {
        let nap = nap(13);
        let launcher = start(&mut job(2, nap.split(' ')));
        assert!(comes(|| running(&nap).len() == 2));
        launcher.signal(signal);
        assert_eq!(launcher.end().code, code);
        assert!(comes(|| running(&nap).is_empty()), "ranks are left");
    }
}

#[test]
fn daemons_that_end_while_a_rank_runs_are_forgotten() {
    let script =
        "for i in 1 2 3 4; do (setsid sleep 0.1 &); done > /dev/null 2>&1; echo up; exec sleep 600";
    let launcher = start(&mut job(1, shell(script)));
    launcher.wait_for_output("up");
    let children = || {
        let path = format!("/proc/{0}/task/{0}/children", launcher.pid());
        fs::read_to_string(path).unwrap_or_default().split_whitespace().count()
    };
    // The rank and the guard.
    assert!(comes(|| children() > 2) && comes(|| children() == 2));
    launcher.signal("TERM");
    launcher.end().exits_with(143);
}

/// True if a control group is made for the run of a launcher within a few seconds.
fn comes_to_group(launcher: &Running) -> bool {
    let until = Instant::now() + Duration::from_secs(5);
    while groups(launcher.pid()).is_empty() && Instant::now() < until && !launcher.has_ended() {
        sleep(Duration::from_millis(5));
    }
    !groups(launcher.pid()).is_empty()
}

/// True for a control group that holds this process.
fn holds(pid: i32) -> impl Fn(&PathBuf) -> bool {
    move |group| {
        let members = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        members.lines().any(|line| line == pid.to_string())
    }
}

/// The control groups that were made for the run of a launcher.
fn groups(launcher: u32) -> Vec<PathBuf> {
    let start = format!("pmi-host.{launcher}.");
    let is_ours = |path: &Path| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(&start))
    };
    let mut all = Vec::new();
    below(Path::new("/sys/fs/cgroup"), &mut all);
    all.into_iter().filter(|path| is_ours(path)).collect()
}

fn below(path: &Path, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(path).into_iter().flatten().filter_map(Result::ok) {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            below(&entry.path(), all);
        }
        all.push(entry.path());
    }
}

#[test]
fn run_ends_as_elsewhere_in_a_process_namespace_without_the_leader_of_its_session() {
    let isolated = || {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--mount-proc", "--kill-child"]);
        command
    };
    if !isolated().arg("true").output().is_ok_and(|ran| ran.status.success()) {
        return eprintln!("skipped: no process namespace can be made here");
    }
    // There the ids of the session and of the process group are 0. The first process is this program.
    let own = std::env::current_exe().unwrap();
    let ran = run(isolated().arg(own).args([
        "failed_run_",
        "ranks_with_an_empty_environment_do_not_survive",
        "killed_launcher_does_not_take_jobs",
    ]));
    assert_eq!(ran.code, 0, "{}\n{}", ran.out, ran.err);
    assert!(ran.out.contains("running 6 tests"), "{}", ran.out);
    // The launcher itself is the first process, as in a container.
    for (script, code) in [("exit 0", 0), ("sleep 60 & exit 3", 3), ("kill -9 $$", 137)] {
        let words = ["run", "-n", "2", "sh", "-c", script];
        run(isolated().arg(host_path()).args(words)).exits_with(code);
    }
    let script = "trap 'exit 0' TERM; echo up; sleep 60 & wait";
    let words = [host_path(), "run", "-n", "1", "sh", "-c", script];
    let launcher = start(isolated().args(words));
    launcher.wait_for_output("up");
    signal_group(launcher.pid(), "TERM").unwrap();
    launcher.end().exits_with(143);
}

#[test]
fn ranks_that_die_with_their_parent_live_as_long_as_the_launcher() {
    // The signal follows the thread that has started the process.
    let words = ["setpriv", "--pdeathsig", "KILL", "sh", "-c", "sleep 0.5; echo done"];
    let ran = run(&mut job(40, words)).exits_with(0).says_nothing();
    assert_eq!(ran.lines(), ["done"; 40]);
}

// The name of shared memory of MPICH 5 derives from that of the job, and a killed job leaves its memory.
// Coverage: A2-10
#[test]
fn launchers_with_the_same_process_number_name_their_jobs_differently() {
    let name_of_a_job = || {
        let mut command = Command::new("unshare");
        command.args([
            "--user",
            "--map-root-user",
            "--pid",
            "--fork",
            host_path(),
            "run",
            "-n",
            "1",
        ]);
        let script =
            "printf 'cmd=init pmi_version=1 pmi_subversion=1\ncmd=get_my_kvsname\n' >&$PMI_FD
            read -r _ <&$PMI_FD; read -r answer <&$PMI_FD; echo \"$answer\"
            printf 'cmd=finalize\n' >&$PMI_FD; read -r _ <&$PMI_FD";
        run(command.args(shell(script))).exits_with(0).out
    };
    let [first, second] = [name_of_a_job(), name_of_a_job()];
    let start = |name: &str| name.rsplitn(3, '_').last().unwrap().to_owned();
    assert!(first.contains("kvsname=kvs_"), "{first}");
    assert_eq!(start(&first), start(&second), "the host and the process have the same numbers");
    assert_ne!(first, second);
}
