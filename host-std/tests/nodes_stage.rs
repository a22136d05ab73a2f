//! Programs that the launcher sends to the hosts of a run (`--stage`), and itself (`--stage-launcher`), where node
//! servers on this machine are the hosts.

use crate::common::hosts::local_nodes as nodes;
use crate::common::spawner::SPAWNER;
use crate::common::{Ran, copy_program, host, launcher_at, run, small_host_path, start};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A directory for one test.
fn directory(test: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("stage-{test}"));
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    directory
}

fn program(directory: &Path, name: &str, content: &[u8]) -> PathBuf {
    let path = directory.join(name);
    fs::write(&path, content).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// A program of several pieces that prints the path of its own file.
fn long_readlink(directory: &Path) -> PathBuf {
    let mut content = fs::read("/usr/bin/readlink").unwrap();
    content.resize(content.len() + 3_000_000, 0);
    program(directory, "prog", &content)
}

fn wait_until_gone(path: &Path) {
    let until = Instant::now() + Duration::from_secs(60);
    while path.exists() {
        assert!(Instant::now() < until, "{} is left", path.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn program_runs_from_a_copy_on_each_host_that_ends_with_the_run() {
    let directory = directory("copies");
    let temporary = directory.join("tmp");
    fs::create_dir(&temporary).unwrap();
    let program = long_readlink(&directory);
    let mut command = nodes(3, 6, &["--stage", program.to_str().unwrap(), "/proc/self/exe"]);
    // The files for tools are elsewhere.
    command.env("TMPDIR", &temporary).env("PMIX_SYSTEM_TMPDIR", &directory);
    let ran = run(&mut command).exits_with(0).says_nothing();
    let paths: BTreeSet<&str> = ran.lines().into_iter().collect();
    assert_eq!((ran.lines().len(), paths.len()), (6, 3), "{}", ran.out);
    for path in paths.into_iter().map(Path::new) {
        assert!(path.starts_with(&temporary) && path.ends_with("0/prog"), "{}", path.display());
    }
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0);
}

#[test]
fn programs_of_a_run_are_sent_once_each() {
    let directory = directory("several");
    let [one, other] = ["one", "other"]
        .map(|name| program(&directory, name, format!("#!/bin/sh\necho {name} $0\n").as_bytes()));
    let [one, other] = [one, other].map(|path| path.to_str().unwrap().to_owned());
    let words = ["--stage", &one, ":", "-n", "1", &other, ":", "-n", "1", &one];
    let ran = run(&mut nodes(1, 1, &words)).exits_with(0).says_nothing();
    let mut lines = ran.lines();
    lines.sort_unstable();
    assert_eq!(lines[0], lines[1]);
    assert!(lines[1].starts_with("one ") && lines[1].ends_with("/0/one"), "{}", ran.out);
    assert!(lines[2].starts_with("other ") && lines[2].ends_with("/1/other"), "{}", ran.out);
}

#[test]
fn programs_of_spawned_jobs_are_sent_also_to_hosts_that_are_added() {
    let directory = directory("spawned");
    let temporary = directory.join("tmp");
    fs::create_dir(&temporary).unwrap();
    let other = directory.join("other");
    copy_program("/bin/sh", &other, 0o755);
    let shown = "readlink /proc/$$/exe";
    let spawn_other = SPAWNER.replace("execname=sh", &format!("execname={}", other.display()));
    let spawn_other = spawn_other.rsplit_once("ask 'init").unwrap().0;
    let script = format!(
        "{SPAWNER} if [ $PMI_RANK = 0 ]; then {shown}
        spawn_by 3 add-host local1,local3,local4 '{shown}'
        spawn_by 1 host local3 '{shown}'
        {spawn_other} spawn_by 2 host local3,local2 '{shown}'
        fi; ask barrier_in >/dev/null; ask finalize >/dev/null"
    );
    let words = ["--stage", "--label-format", "%g:%r@%h ", "sh", "-c", &script];
    let mut command = nodes(2, 2, &words);
    command.env("TMPDIR", &temporary).env("PMIX_SYSTEM_TMPDIR", &directory);
    let ran = run(&mut command).exits_with(0).says_nothing();
    let path_of = |label: &str| {
        let found = ran.out.lines().find_map(|line| line.strip_prefix(label)?.strip_prefix(' '));
        found.unwrap_or_else(|| panic!("no {label} in {}", ran.out))
    };
    // Each host has one copy of each program.
    assert_eq!(path_of("1:0@local1"), path_of("0:0@local1"));
    assert_eq!(path_of("2:0@local3"), path_of("1:1@local3"));
    for (label, end) in [("0:0@local1", "/0/sh"), ("1:1@local3", "/0/sh"), ("1:2@local4", "/0/sh")]
        .into_iter()
        .chain([("3:0@local3", "/1/other"), ("3:1@local2", "/1/other")])
    {
        let path = path_of(label);
        assert!(path.ends_with(end) && Path::new(path).starts_with(&temporary), "{label} {path}");
    }
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0);
    // A program that is gone refuses the spawn, and no other one.
    let script = format!(
        "{SPAWNER} {spawn_other} rm {0}; echo >{0}; chmod +x {0}; : >{0}
        spawn_by 1 add-host local3 'true'; ask finalize >/dev/null",
        other.display()
    );
    let ran = run(&mut nodes(1, 1, &["--stage", "sh", "-c", &script])).exits_with(0);
    assert_eq!(ran.lines(), ["cmd=spawn_result rc=-1"], "{}", ran.err);
    ran.says(&["the spawn of rank 0", "cannot be sent to the hosts: it is empty", "'--stage'"]);
}

#[test]
fn program_runs_from_memory_where_no_directory_takes_it() {
    let program = long_readlink(&directory("memory"));
    let mut command = nodes(2, 2, &["--stage", program.to_str().unwrap(), "/proc/self/exe"]);
    let ran = run(command.env("TMPDIR", "/proc/no-directory")).exits_with(0).says_nothing();
    assert_eq!(ran.lines(), ["/memfd:prog (deleted)"; 2]);
}

#[test]
fn copies_of_an_agent_that_is_killed_are_removed_by_its_guard() {
    let directory = directory("killed");
    let temporary = directory.join("tmp");
    fs::create_dir(&temporary).unwrap();
    let program =
        program(&directory, "prog", b"#!/bin/sh\necho $0 $PPID end >&2\nexec sleep 600\n");
    let mut command = nodes(1, 1, &["--stage", program.to_str().unwrap()]);
    let running = start(command.env("TMPDIR", &temporary));
    running.wait_for_errors("end");
    let line = running.errors();
    let mut words = line.split_whitespace();
    let (path, agent) = (words.next().unwrap(), words.next().unwrap());
    assert!(Path::new(path).exists(), "{line}");
    let killed = Command::new("kill").args(["-s", "KILL", agent]).status().unwrap();
    assert!(killed.success());
    running.end().exits_with(1);
    wait_until_gone(Path::new(path));
    wait_until_gone(Path::new(path).parent().unwrap());
}

#[test]
fn program_that_cannot_be_read_is_refused_before_the_start() {
    let directory = directory("long");
    let program = program(&directory, "prog", b"#!/bin/sh\necho started\n");
    fs::File::options().write(true).open(&program).unwrap().set_len(600 << 20).unwrap();
    let ran = run(&mut nodes(1, 1, &["--stage", program.to_str().unwrap()])).exits_with(1);
    ran.says(&["cannot be sent to the hosts", "600 MiB", "'--stage'"]);
}

/// The launcher on hosts that receive it, with programs of `directory` in front of others, and with its
/// temporary files below it.
fn staged_launcher(directory: &Path, words: &[&str]) -> Command {
    let temporary = directory.join("tmp");
    fs::create_dir_all(&temporary).unwrap();
    let mut command = launcher_at(small_host_path());
    command.arg(words[0]).stdin(Stdio::null());
    command.env("XDG_CONFIG_HOME", "/nowhere").env("TMPDIR", &temporary);
    // The files for tools are elsewhere.
    command.env("PMIX_SYSTEM_TMPDIR", directory);
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", directory.display()));
    command.args(["--stage-launcher", "--starter-cmd", "sh -c 'host={host}; {cmd}'"]);
    command.args(&words[1..]);
    command
}

/// Checks that the ranks of four hosts have printed the paths of copies of the launcher, which end with the run.
fn expect_four_copies(ran: &Ran, directory: &Path) {
    let paths: BTreeSet<&str> = ran.lines().into_iter().collect();
    assert_eq!(paths.len(), 4, "{}", ran.out);
    let temporary = directory.join("tmp");
    for path in paths.into_iter().map(Path::new) {
        assert!(path.starts_with(&temporary) && path.ends_with("pmi-host"), "{}", path.display());
        wait_until_gone(path.parent().unwrap());
    }
}

#[test]
fn launcher_runs_from_a_copy_on_each_host_that_ends_with_the_run() {
    let directory = directory("launcher");
    let words = ["run", "--hosts", "h[1-4]", "--starter-fanout", "2"];
    let agent = ["sh", "-c", "readlink /proc/$PPID/exe"];
    let ran = run(&mut staged_launcher(&directory, &[&words[..], &agent].concat()));
    let ran = ran.exits_with(0).says_nothing();
    expect_four_copies(&ran, &directory);
}

#[test]
fn launcher_is_sent_to_hosts_that_are_added() {
    let directory = directory("launcher-added");
    let shown = "readlink /proc/$PPID/exe";
    let script = format!(
        "{SPAWNER} if [ $PMI_RANK = 0 ]; then spawn_by 2 add-host h3,h4 '{shown}' >/dev/null; fi
        {shown}; ask finalize >/dev/null"
    );
    let words = ["run", "--hosts", "h1,h2", "--stage", "sh", "-c", &script];
    let ran = run(&mut staged_launcher(&directory, &words)).exits_with(0).says_nothing();
    expect_four_copies(&ran, &directory);
}

#[test]
fn launcher_is_copied_where_it_can_be_executed() {
    let directory = directory("noexec");
    // As in a directory that permits no execution.
    let script = format!(
        "#!/bin/sh\ncase $2 in '{}'/*) ;; *) exec /bin/chmod \"$@\" ;; esac\n",
        directory.join("tmp").display()
    );
    program(&directory, "chmod", script.as_bytes());
    let agent = ["run", "--hosts", "h1", "sh", "-c", "readlink /proc/$PPID/exe"];
    let ran = run(&mut staged_launcher(&directory, &agent)).exits_with(0).says_nothing();
    assert!(ran.out.starts_with("/tmp/pmi-host."), "{}", ran.out);
    wait_until_gone(Path::new(ran.out.trim()).parent().unwrap());
    assert_eq!(fs::read_dir(directory.join("tmp")).unwrap().count(), 0);
}

#[test]
fn host_that_cannot_run_the_launcher_is_in_the_table() {
    let directory = directory("architecture");
    program(&directory, "uname", b"#!/bin/sh\necho m68k\n");
    let ran = run(&mut staged_launcher(&directory, &["run", "--hosts", "h1,h2", "true"]));
    let ran = ran.exits_with(1).says(&["on 2 of 2 hosts"]);
    assert!(ran.err.contains("architecture m68k, and the launcher is for"), "{}", ran.err);
    let directory = self::directory("nowhere");
    program(&directory, "mktemp", b"#!/bin/sh\nexit 1\n");
    let ran = run(&mut staged_launcher(&directory, &["doctor", "--hosts", "h1"])).exits_with(1);
    assert!(ran.err.contains("no directory for temporary files"), "{}", ran.err);
    let by_hand = ["--starter", "manual", "--hosts", "h1", "--stage-launcher"];
    run(host(["doctor"]).args(by_hand)).exits_with(1).says(&["'--stage-launcher'", "by hand"]);
}

#[test]
fn launcher_that_arrives_in_part_is_removed_although_nobody_reads_the_reason() {
    let directory = directory("launcher-part");
    // As an ssh that is killed during the start: the rest does not come, and there is no reader.
    let starter = ["--starter-cmd", "sh -c 'head -c 70000 | {cmd} 2>&1 | true'"];
    let words = [&["run", "--hosts", "h1"][..], &starter, &["true"]].concat();
    let ran = run(&mut staged_launcher(&directory, &words));
    assert_ne!(ran.code, 0, "{}", ran.err);
    let temporary = directory.join("tmp");
    for entry in fs::read_dir(&temporary).unwrap() {
        wait_until_gone(&entry.unwrap().path());
    }
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0);
}

#[test]
fn start_that_is_interrupted_leaves_no_copy_of_the_launcher() {
    for name in ["TERM", "INT"] {
        let directory = directory(&format!("launcher-{name}"));
        // The start takes longer than the launcher waits for its end.
        program(&directory, "chmod", b"#!/bin/sh\nsleep 4\nexec /bin/chmod \"$@\"\n");
        let running =
            start(&mut staged_launcher(&directory, &["run", "--hosts", "h[1-2]", "true"]));
        let temporary = directory.join("tmp");
        let copies = || fs::read_dir(&temporary).unwrap().count();
        while copies() < 2 {
            std::thread::sleep(Duration::from_millis(10));
        }
        running.signal(name);
        let ran = running.end();
        for entry in fs::read_dir(&temporary).unwrap() {
            wait_until_gone(&entry.unwrap().path());
        }
        ran.exits_with(if name == "INT" { 130 } else { 143 });
    }
}
