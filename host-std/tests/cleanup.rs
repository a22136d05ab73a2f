//! A run leaves nothing behind, by whichever end: no rank, no process of a rank, no zombie, no file.

use crate::common::{Running, host, job, run, shell, signal_group, start};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Number of processes with `entry` in their environment.
fn marked(entry: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let environments = processes.filter_map(|one| fs::read(one.path().join("environ")).ok());
    environments
        .filter(|all| all.split(|byte| *byte == 0).any(|own| own == entry.as_bytes()))
        .count()
}

/// Waits until `count` processes have `entry`; false after a timeout.
fn come_to(count: usize, entry: &str) -> bool {
    let until = Instant::now() + Duration::from_secs(20);
    while Instant::now() < until {
        if marked(entry) == count {
            return true;
        }
        sleep(Duration::from_millis(5));
    }
    false
}

/// A variable that only the processes of one test have.
fn mark(name: &str) -> (String, String) {
    ("PROBE".to_owned(), format!("{name}-{}", std::process::id()))
}

/// Starts a job with marked processes, and kills its launcher when `when` returns.
fn killed(name: &str, mut command: Command, when: impl FnOnce(&str)) -> Running {
    let (variable, value) = mark(name);
    let entry = format!("{variable}={value}");
    let running = start(command.env(variable, value));
    when(&entry);
    running.signal("KILL");
    running
}

#[test]
fn launcher_that_is_killed_leaves_no_rank_behind() {
    // Four ranks, each with a child process, and one rank that ignores SIGTERM.
    let script = "if [ $PMI_RANK = 2 ]; then trap '' TERM; fi; sleep 600; sleep 600";
    let entry = format!("PROBE=run-{}", std::process::id());
    // The launcher itself has the variable too.
    let running = killed("run", job(4, shell(script)), |entry| assert!(come_to(9, entry)));
    assert_eq!(running.end().code, 137);
    assert!(come_to(0, &entry), "{} are left", marked(&entry));
}

#[test]
fn launcher_may_be_killed_at_any_moment() {
    // From before the first rank to long after the last one of sixteen.
    for step in 0..12 {
        let name = format!("phase{step}");
        let wait = Duration::from_micros(300 << step);
        let running = killed(&name, job(16, ["sleep", "600"]), |_| sleep(wait));
        assert_eq!(running.end().code, 137);
        let entry = format!("PROBE={name}-{}", std::process::id());
        assert!(come_to(0, &entry), "killed after {wait:?}: {} are left", marked(&entry));
    }
}

#[test]
fn launcher_that_is_killed_on_its_way_down_leaves_nothing_either() {
    let script =
        "trap '' TERM; if [ $PMI_RANK = 0 ]; then sleep 0.5; exit 3; fi; sleep 600; sleep 600";
    let command = job(3, shell(script));
    let running = killed("down", command, |entry| {
        assert!(come_to(7, entry));
        // Rank 0 has failed, and the others ignore the signal.
        assert!(come_to(5, entry));
        sleep(Duration::from_millis(300));
    });
    assert_eq!(running.end().code, 137);
    let entry = format!("PROBE=down-{}", std::process::id());
    assert!(come_to(0, &entry), "{} are left", marked(&entry));
}

#[test]
fn launcher_under_a_launcher_takes_its_ranks_with_it() {
    let inner = env!("CARGO_BIN_EXE_pmi-host");
    let command = job(2, [inner, "run", "-n", "2", "sleep", "600"]);
    let entry = format!("PROBE=nested-{}", std::process::id());
    let running = killed("nested", command, |entry| assert!(come_to(7, entry)));
    assert_eq!(running.end().code, 137);
    assert!(come_to(0, &entry), "{} are left", marked(&entry));
}

#[test]
fn run_that_ends_well_leaves_what_it_was_asked_to_leave() {
    let (variable, value) = mark("daemon");
    let mut command = job(1, shell("setsid sleep 600 > /dev/null 2>&1 & echo $!"));
    let ran = run(command.env(&variable, &value)).exits_with(0).says_nothing();
    let entry = format!("{variable}={value}");
    sleep(Duration::from_millis(200));
    assert_eq!(marked(&entry), 1);
    assert!(Command::new("kill").arg(ran.out.trim()).status().unwrap().success());
    assert!(come_to(0, &entry));
}

#[test]
fn children_are_all_waited_for() {
    // This process adopts orphans of its launchers, so their zombies would be its children.
    let script = "for i in 1 2 3; do \"$@\"; done; sleep 0.2; \
                  for stat in /proc/[0-9]*/stat; do read pid name state parent rest < $stat; \
                  case $state$parent in Z$$) echo zombie $pid;; esac; done 2>/dev/null; echo done";
    let mut command = Command::new("sh");
    let own = env!("CARGO_BIN_EXE_pmi-host");
    command.args(["-c", script, "sh", own, "run", "-n", "8", "true"]);
    let ran = start(&mut command).end().exits_with(0);
    assert_eq!(ran.out, "done\n");
}

#[test]
fn run_writes_no_file_and_needs_no_home() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bare-home");
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    let mut readonly = fs::metadata(&directory).unwrap().permissions();
    readonly.set_readonly(true);
    fs::set_permissions(&directory, readonly).unwrap();
    for home in [directory.to_str().unwrap(), "/no/such/home", "/proc"] {
        let mut command = job(2, ["true"]);
        command.env("HOME", home).env("TMPDIR", &directory).current_dir(&directory);
        command.env_remove("XDG_RUNTIME_DIR").env_remove("XDG_CONFIG_HOME");
        run(&mut command).exits_with(0).says_nothing();
    }
    // A run of more than a tenth of a second makes a directory for the files by which tools find it.
    for left in fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()) {
        assert_eq!(fs::read_dir(&left).unwrap().count(), 0, "{}", left.display());
    }
}

#[test]
fn too_few_open_files_are_told_before_anything_starts() {
    let flag = Path::new(env!("CARGO_TARGET_TMPDIR")).join("started");
    let _ = fs::remove_file(&flag);
    let own = env!("CARGO_BIN_EXE_pmi-host");
    let limited = |limit: &str, ranks: &str| {
        let mut command = Command::new("sh");
        let line = format!("ulimit -n {limit}; exec \"$@\"");
        command.args(["-c", &line, "sh", own, "run", "-n", ranks, "touch"]).arg(&flag);
        start(&mut command).end()
    };
    limited("64", "32").exits_with(1).says(&[
        "32 ranks need 176 open files",
        "may have 64",
        "ulimit",
    ]);
    assert!(!flag.exists());
    limited("64", "4").exits_with(0).says_nothing();
    // Just enough: fewer ranks start at once.
    limited("112", "16").exits_with(0).says_nothing();
    limited("208", "40").exits_with(0).says_nothing();
    // A soft limit is raised for the launcher, and restored for the ranks.
    let mut command = Command::new("sh");
    let line = "ulimit -Sn 64; exec \"$@\"";
    command.args(["-c", line, "sh", own, "run", "-n", "40", "sh", "-c", "ulimit -Sn"]);
    let ran = start(&mut command).end().exits_with(0).says_nothing();
    assert_eq!(ran.lines(), ["64"; 40]);
}

#[test]
fn thousand_ranks_come_and_go() {
    let ran = run(&mut job(1000, ["true"]));
    if ran.err.contains("open files") || ran.err.contains("could not be started") {
        // The machine does not have room for them, and the launcher reports that.
        eprintln!("skipped: {}", ran.err.trim());
        return;
    }
    ran.exits_with(0).says_nothing();
}

#[test]
fn rank_that_kills_its_process_group_kills_itself_alone() {
    // The PMI library of Slurm aborts like this.
    let script = "[ $PMI_RANK = 1 ] && kill -s KILL 0; exec sleep 600";
    let ran = run(&mut job(3, shell(script))).exits_with(137);
    ran.says(&["rank 1 of 3 (pid ", "was killed by signal 9 (SIGKILL)"]);
}

#[test]
fn key_that_ends_the_launcher_does_not_reach_the_guard() {
    // The whole group of the launcher is killed, as a terminal or a batch system does it.
    let (variable, value) = mark("group");
    let entry = format!("{variable}={value}");
    let mut command = host(["run", "-n", "2", "sleep", "600"]);
    let mut launcher = command.env(variable, value).process_group(0).spawn().unwrap();
    assert!(come_to(3, &entry));
    signal_group(launcher.id(), "KILL").unwrap();
    launcher.wait().unwrap();
    assert!(come_to(0, &entry), "{} are left", marked(&entry));
}

/// The guard of a launcher: its child that executes no program of a rank.
fn guard_of(launcher: u32) -> Option<u32> {
    children(launcher).find(|pid| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).nth(1) == Some(b"guard")
    })
}

fn children(pid: u32) -> impl Iterator<Item = u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let children = children.unwrap_or_default();
    let pids = children.split_whitespace().filter_map(|pid| pid.parse().ok());
    pids.collect::<Vec<_>>().into_iter()
}

fn next_guard(launcher: u32, former: Option<u32>) -> u32 {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        match guard_of(launcher) {
            Some(pid) if Some(pid) != former => return pid,
            _ => assert!(Instant::now() < until, "there is no guard"),
        }
        sleep(Duration::from_millis(5));
    }
}

fn kill_now(pids: &[u32]) {
    for pid in pids {
        let pid = nix::unistd::Pid::from_raw(pid.cast_signed());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
    }
}

#[test]
fn guard_that_is_killed_is_replaced_by_one_that_knows_all_ranks() {
    // A rank that ignores SIGTERM, one with a daemon, and one that has left a process of its session.
    let script =
        "case $PMI_RANK in 0) trap '' TERM;; 1) (setsid sleep 600 &);; 2) sleep 600 & exit;; esac
        exec sleep 600";
    let entry = format!("PROBE=next-{}", std::process::id());
    let (variable, value) = entry.split_once('=').unwrap();
    let running = start(job(3, shell(script)).env(variable, value));
    assert!(come_to(5, &entry));
    let mut guard = None;
    for _ in 0..3 {
        let next = next_guard(running.pid(), guard);
        kill_now(&[next]);
        guard = Some(next);
    }
    next_guard(running.pid(), guard);
    running.signal("KILL");
    running.end().exits_with(137);
    assert!(come_to(0, &entry), "{} are left", marked(&entry));
}

#[test]
fn killing_all_processes_with_the_name_of_the_launcher_leaves_no_rank_behind() {
    // At once, while the guard is a copy of the launcher, and when it runs a program of its own.
    for is_copy in [true, false] {
        let entry = format!("PROBE=name-{is_copy}-{}", std::process::id());
        let (variable, value) = entry.split_once('=').unwrap();
        let running = start(job(2, shell("echo up; exec sleep 600")).env(variable, value));
        match is_copy {
            true => running.wait_for_output("up"),
            false => drop(next_guard(running.pid(), None)),
        }
        let name = |pid: u32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
        let launcher = name(running.pid());
        let own = children(running.pid()).filter(|pid| name(*pid) == launcher);
        kill_now(&own.chain([running.pid()]).collect::<Vec<_>>());
        running.end().exits_with(137);
        assert!(come_to(0, &entry), "{} are left", marked(&entry));
    }
}
