//! Starts in two levels: node servers that start others, and their failures.

use crate::common::hosts::{ssh_hosts, ssh_hosts_of};
use crate::common::{Ran, host, run, small_host_path};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;
use tempfile::TempDir;

/// A directory with a starter that is called as `starter HOST COMMAND`. It logs the host and the launcher's
/// command that has executed it, and runs `script` with the host in `$host` before the command.
fn starter(script: &str) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("starter");
    let text = format!(
        "#!/bin/sh\nhost=$1; shift\n\
         by=$(tr '\\0' ' ' </proc/$PPID/cmdline | cut -d' ' -f2)\n\
         echo $host $by >>'{}'\n{script}\nexec \"$@\"\n",
        directory.path().join("log").display()
    );
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    directory
}

fn command(word: &str, starter: &TempDir, hosts: &str) -> Command {
    let mut command = host([word]);
    command.env("XDG_CONFIG_HOME", "/nowhere");
    let template = format!("'{}/starter' {{host}} {{cmd}}", starter.path().display());
    command.args(["--hosts", hosts, "--starter-cmd", &template]);
    command
}

/// Hosts that a launcher's command has started, sorted.
fn started_by(starter: &TempDir, command: &str) -> Vec<String> {
    let log = fs::read_to_string(starter.path().join("log")).unwrap();
    let of_command = log.lines().filter_map(|line| line.strip_suffix(&format!(" {command}")));
    let mut hosts: Vec<String> = of_command.map(str::to_owned).collect();
    hosts.sort_unstable();
    hosts
}

fn names(out: &str) -> BTreeSet<&str> {
    out.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect()
}

fn wait_until_gone(word: &str) {
    let is_there = || {
        let found = Command::new("pgrep").args(["-f", word]).output().unwrap();
        !found.stdout.is_empty()
    };
    for _ in 0..600 {
        if !is_there() {
            return;
        }
        sleep(Duration::from_millis(50));
    }
    panic!("'{word}' still runs");
}

#[test]
fn first_hosts_start_the_others() {
    let starter = starter("");
    let mut check = command("doctor", &starter, "h[1-9]");
    let ran = run(check.args(["--starter-fanout", "2"])).exits_with(0).says_nothing();
    assert_eq!(names(&ran.out).len(), 9, "{}", ran.out);
    assert_eq!(started_by(&starter, "doctor"), ["h1", "h2"]);
    assert_eq!(started_by(&starter, "node"), ["h3", "h4", "h5", "h6", "h7", "h8", "h9"]);
}

#[test]
fn head_starts_all_hosts_by_default_and_on_request() {
    for options in [&[][..], &["--starter-fanout", "all"], &["--starter-fanout", "3"]] {
        let starter = starter("");
        let mut check = command("doctor", &starter, "h[1-3]");
        run(check.args(options)).exits_with(0).says_nothing();
        assert_eq!(started_by(&starter, "node"), <[&str; 0]>::default());
    }
    let starter = starter("");
    let ran = run(command("doctor", &starter, "h[1-3]").args(["--starter-fanout", "0"]));
    ran.exits_with(2).says(&["no number of hosts", "'all'"]);
}

#[test]
fn ranks_run_on_hosts_that_others_have_started() {
    let starter = starter("");
    let script = "echo $PMI_RANK $(ulimit -Sn)";
    let mut job = command("run", &starter, "h[1-7]:2");
    let ran = run(job.args(["--starter-fanout", "2", "sh", "-c", script])).exits_with(0);
    let mut lines = ran.says_nothing().lines().into_iter().map(str::to_owned).collect::<Vec<_>>();
    lines.sort_by_key(|line| line.split(' ').next().unwrap().parse::<u32>().unwrap());
    let limit = run(Command::new("sh").args(["-c", "ulimit -Sn"])).out;
    let expected: Vec<String> = (0..14).map(|rank| format!("{rank} {}", limit.trim())).collect();
    assert_eq!(lines, expected);
    assert_eq!(started_by(&starter, "node").len(), 5);
}

#[test]
fn head_starts_hosts_that_others_cannot_start() {
    let starter = starter("if [ $by = node ]; then echo 'Permission denied' >&2; exit 255; fi");
    let mut check = command("doctor", &starter, "h[1-5]");
    let ran = run(check.args(["--starter-fanout", "2"])).exits_with(0);
    assert_eq!(names(&ran.out).len(), 5, "{}", ran.out);
    // One report for all of them.
    assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
    for part in ["cannot start 'h", "exited with 255: Permission denied", "'--starter-fanout all'"]
    {
        assert!(ran.err.contains(part), "{}", ran.err);
    }
    assert_eq!(started_by(&starter, "doctor"), ["h1", "h2", "h3", "h4", "h5"]);
}

fn failed(ran: Ran) -> String {
    ran.exits_with(1).err.replace('\n', " ")
}

#[test]
fn host_that_cannot_be_started_is_in_the_table_and_no_starter_is_left() {
    let word = format!("100{}", std::process::id());
    let script = format!(
        "case $host in\nh3) exec sleep {word} ;;\nh4) echo 'no route to host' >&2; exit 255 ;;\nesac"
    );
    let starter = starter(&script);
    let mut job = command("run", &starter, "h[1-5]");
    let err = failed(run(job.args(["--starter-fanout", "2", "true"])));
    for part in ["could be started on 1 of 5 hosts", "  h4  ", "exited with 255", "no route"] {
        assert!(err.contains(part), "{err}");
    }
    wait_until_gone(&format!("sleep {word}"));
}

#[test]
fn hosts_are_started_over_ssh_by_others() {
    let Some(hosts) = ssh_hosts("fanout", 8) else { return };
    let words = ["run", "--hosts", "n[1-8]", "--starter-fanout", "2", "-l", "sh", "-c", "uname -n"];
    let ran = run(&mut hosts.head(&words)).exits_with(0).says_nothing();
    let mut lines = ran.lines();
    lines.sort_unstable();
    let expected: Vec<String> = (0..8).map(|rank| format!("[{rank}] n{}", rank + 1)).collect();
    assert_eq!(lines, expected);
}

#[test]
fn launcher_travels_over_ssh_in_both_levels() {
    // All hosts of the test store it in one directory.
    let Some(hosts) = ssh_hosts_of(small_host_path(), "travel", 5) else { return };
    let words =
        ["run", "--hosts", "n[1-5]", "--starter-fanout", "2", "--stage-launcher", "sh", "-c"];
    let rank = "echo $(uname -n) $(readlink /proc/$PPID/exe)";
    let mut command = hosts.head(&[&words[..], &[rank]].concat());
    let ran = run(command.env("TMPDIR", "/tmp")).exits_with(0).says_nothing();
    let places: BTreeSet<&str> = ran.lines().into_iter().collect();
    assert_eq!(places.len(), 5, "{}", ran.out);
    for place in places {
        assert!(place.contains(" /tmp/pmi-host."), "{place}");
    }
}
