//! Hosts that do not reach the head: their connections over standard input and output of their starters
//! (`--node-relay`).

use crate::common::hosts::ssh_hosts;
use crate::common::spawner::SPAWNER;
use crate::common::{host, run, start};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A starter that is called as `starter HOST COMMAND`, greets as a login shell may, and hides the address of the
/// head from the command.
fn starter(test: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("relay-{test}"));
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    let path = directory.join("starter");
    let script = "#!/bin/sh\n\
                  echo \"welcome to $1\"; shift; last=; first=yes\n\
                  for word; do\n\
                  [ \"$last\" = --to ] && word=127.0.0.1:1; last=$word\n\
                  if [ $first ]; then set -- \"$word\"; first=; else set -- \"$@\" \"$word\"; fi\n\
                  done\nexec \"$@\"\n";
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn command(word: &str, test: &str, hosts: &str) -> Command {
    let mut command = host([word]);
    command.env("XDG_CONFIG_HOME", "/nowhere");
    let template = format!("'{}' {{host}} {{cmd}}", starter(test).display());
    command.args(["--hosts", hosts, "--starter-cmd", &template]);
    command
}

#[test]
fn hosts_join_and_exchange_values_over_their_starters() {
    let ran = run(command("doctor", "check", "h[1-6]").arg("--node-relay"));
    let ran = ran.exits_with(0).says_nothing();
    let names: BTreeSet<&str> =
        ran.out.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names.len(), 6, "{}", ran.out);
    // The ranks of the demo read the values of all others, and long output goes to the head.
    let mut demo = command("run", "demo", "h[1-6]:2");
    let ran = run(demo.args(["--node-relay", "--tree-radix", "2"])).exits_with(0).says_nothing();
    assert_eq!(ran.lines().len(), 12 + 5, "{}", ran.out);
    let mut long = command("run", "output", "h[1-2]");
    let ran = run(long.args(["--node-relay", "sh", "-c", "seq 100000"])).exits_with(0);
    assert_eq!(ran.out.lines().count(), 200_000);
}

#[test]
fn hosts_that_are_added_connect_over_their_starters() {
    let text = format!(
        "{SPAWNER} if [ $PMI_RANK = 0 ]; then spawn_by 2 add-host h3,h4 'echo here'
        spawn_by 1 host h4 'seq 20000'; fi; ask barrier_in; ask finalize >/dev/null"
    );
    let mut added = command("run", "added", "h[1-2]");
    // Other shells have no descriptors of two digits.
    let words = ["--node-relay", "--label-format", "%g@%h ", "bash", "-c", &text];
    let ran = run(added.args(words)).exits_with(0).says_nothing();
    for (line, count) in [
        ("0@h1 cmd=spawn_result rc=0", 2),
        ("0@h1 cmd=barrier_out rc=0", 1),
        ("0@h2 cmd=barrier_out rc=0", 1),
        ("1@h3 here", 1),
        ("1@h4 here", 1),
        ("2@h4 20000", 1),
    ] {
        assert_eq!(ran.out.lines().filter(|one| *one == line).count(), count, "{line}");
    }
}

#[test]
fn hosts_that_only_another_host_reaches_are_started_and_connected_through_it() {
    // The head starts h1 alone, and h1 all others; none of them reaches the head.
    let path = starter("gateway");
    let script = fs::read_to_string(&path).unwrap();
    let gate = "if [ $1 = h1 ]; then export AT_GATEWAY=1\n\
                elif [ -z \"$AT_GATEWAY\" ]; then echo no route to $1 >&2; exit 255; fi\n";
    let template = format!("'{}' {{host}} {{cmd}}", path.display());
    fs::write(&path, script.replacen("#!/bin/sh\n", &format!("#!/bin/sh\n{gate}"), 1)).unwrap();
    let through = |word: &str, words: &[&str]| {
        let mut command = host([word]);
        command.env("XDG_CONFIG_HOME", "/nowhere");
        command.args(["--hosts", "h[1-6]", "--starter-cmd", &template, "--node-relay"]);
        run(command.args(words))
    };
    through("run", &["true"]).exits_with(1).says(&["on 5 of 6 hosts"]);
    let ran = through("run", &["--starter-fanout", "1"]).exits_with(0).says_nothing();
    assert_eq!(ran.lines().len(), 6 + 5, "{}", ran.out);
}

#[test]
fn launcher_travels_to_hosts_whose_connections_are_carried() {
    let mut staged = command("run", "staged", "h[1-3]:2");
    let options = ["--node-relay", "--stage-launcher", "--starter-fanout"];
    for fanout in ["all", "1"] {
        let ran = run(staged.args(options).args([fanout, "true"]));
        ran.exits_with(0).says_nothing();
        staged = command("run", "staged", "h[1-3]:2");
    }
    let script = "readlink /proc/$PPID/exe";
    let ran =
        run(staged.args(&options[..2]).args(["sh", "-c", script])).exits_with(0).says_nothing();
    let copies: BTreeSet<String> = ran.lines().into_iter().map(str::to_owned).collect();
    assert_eq!(copies.len(), 3, "{}", ran.out);
    for copy in copies {
        assert!(copy.contains("/pmi-host."), "{copy}");
        let until = Instant::now() + Duration::from_secs(60);
        while Path::new(&copy).exists() {
            assert!(Instant::now() < until, "{copy} is left");
            sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn first_failure_ends_a_run_over_starters() {
    let mut failing = command("run", "failure", "h[1-3]");
    let script = "[ $PMI_RANK = 1 ] && exit 7; exec sleep 600";
    let ran = run(failing.args(["--node-relay", "sh", "-c", script])).exits_with(7);
    ran.says(&["rank 1 of 3", "on h2", "code 7"]);
}

#[test]
fn nothing_is_left_of_a_run_over_starters_when_the_head_is_killed() {
    let word = format!("77{}", std::process::id());
    let mut sleeping = command("run", "killed", "h[1-2]");
    let script = format!("echo up >&2; exec sleep {word}");
    let running = start(sleeping.args(["--node-relay", "sh", "-c", &script]));
    running.wait_for_errors("up");
    let pid = running.pid().to_string();
    running.signal("KILL");
    // Ranks, and relays with the starter's path among their words.
    for word in [word.as_str(), "relay-killed/starter"] {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let found = Command::new("pgrep").args(["-f", word]).output().unwrap().stdout;
            let found = String::from_utf8_lossy(&found).into_owned();
            if found.lines().all(|line| line == pid) {
                break;
            }
            assert!(Instant::now() < until, "{word} is left: {found}");
            sleep(Duration::from_millis(50));
        }
    }
}

#[test]
fn hosts_without_a_way_to_the_head_are_in_the_table() {
    let ran = run(&mut command("doctor", "none", "h[1-2]")).exits_with(1);
    let ran = ran.says(&["on 2 of 2 hosts"]);
    for part in ["cannot be reached", "'--node-relay'"] {
        assert!(ran.err.contains(part), "{}", ran.err);
    }
    let words = ["doctor", "--hosts", "h1", "--node-relay", "--starter-cmd"];
    let ran = run(host(words).arg("sh -c 'echo no route >&2; exit 255' {host} {cmd}"));
    let err = ran.exits_with(1).err;
    assert!(err.contains("h1  'sh' exited with 255\n      no route"), "{err}");
    let words = ["doctor", "--hosts", "h1", "--node-relay", "--starter", "flux"];
    run(&mut host(words)).exits_with(1).says(&["'--node-relay'"]);
}

#[test]
fn starter_that_writes_between_the_connections_is_explained() {
    let mark = r#"sh -c 'printf "\250pmi-relay\001\nwelcome"; exec sleep 600' {host} {cmd}"#;
    let words = ["doctor", "--hosts", "h1", "--node-relay", "--starter-cmd", mark];
    let err = run(&mut host(words)).exits_with(1).err;
    for part in ["h1  'sh' was terminated", "something else was written between them"] {
        assert!(err.contains(part), "{err}");
    }
}

#[test]
fn head_that_only_its_own_host_reaches_is_reached_over_ssh() {
    let Some(hosts) = ssh_hosts("relay", 5) else { return };
    // No other host has the head at this address.
    let words = ["run", "--hosts", "n[1-5]", "--node-interface", "127.0.0.9", "--tree-radix", "2"];
    let rank = ["-l", "sh", "-c", "uname -n"];
    let ran = run(&mut hosts.head(&[&words[..], &rank].concat())).exits_with(1);
    // Which hosts have failed by then depends on their time.
    for part in [" of 5 hosts", "'--node-relay' connects over the starter"] {
        assert!(ran.err.contains(part), "{}", ran.err);
    }
    let relayed = [&words[..], &["--node-relay"], &rank].concat();
    let ran = run(&mut hosts.head(&relayed)).exits_with(0).says_nothing();
    let mut lines = ran.lines();
    lines.sort_unstable();
    let expected: Vec<String> = (0..5).map(|rank| format!("[{rank}] n{}", rank + 1)).collect();
    assert_eq!(lines, expected);
    // Nodes connect to each other directly, so the demo needs no relay for its values.
    let demo = [&words[..], &["--node-relay"]].concat();
    let ran = run(&mut hosts.head(&demo)).exits_with(0).says_nothing();
    assert_eq!(ran.lines().len(), 5 + 5, "{}", ran.out);
}
