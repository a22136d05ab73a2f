//! Hosts that are too slow for the start of a run with `--min-nodes`, and join it when they come.

use crate::common::spawner::SPAWNER;
use crate::common::{Running, host, run, start};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A run on `hosts`, of which those whose names begin with `slow` start as soon as there is a file of their name,
/// unless `NAME.fails` is there then. The first rank runs `script`.
struct LateRun {
    directory: PathBuf,
    running: Running,
}

impl LateRun {
    fn start(test: &str, hosts: &str, options: &[&str], script: &str) -> Self {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("late-of-{test}"));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).unwrap();
        Self::start_in(directory, hosts, options, script)
    }

    fn start_in(directory: PathBuf, hosts: &str, options: &[&str], script: &str) -> Self {
        let starter = "sh -c 'case {host} in slow*) until [ -e {host} ]; do sleep 0.05; done; \
             if [ -e {host}.fails ]; then echo no route to {host}; exit 7; fi ;; esac; exec {cmd}'";
        let text = format!(
            "{SPAWNER} if [ $PMI_RANK = 0 ]; then {script}\nfi; ask barrier_in; ask finalize >/dev/null"
        );
        let mut command: Command = host(["run", "--hosts", hosts, "--starter-cmd", starter]);
        command.args(["--min-nodes", "2", "--start-timeout", "6"]).args(options);
        command.args(["--label-format", "%g:%r@%h ", "sh", "-c", &text]);
        command.env("XDG_CONFIG_HOME", "/nowhere").env("XDG_RUNTIME_DIR", &directory);
        let running = start(command.current_dir(&directory));
        Self { directory, running }
    }

    fn make(&self, file: &str) {
        fs::write(self.directory.join(file), "").unwrap();
    }
}

const UNTIL_GO: &str = "until [ -e go ]; do sleep 0.02; done";

#[test]
fn slow_host_joins_when_it_comes_and_one_that_fails_is_named() {
    let script = format!("echo $PMI_SIZE ranks; {UNTIL_GO}; spawn_by 3 '' '' 'echo more'");
    let late = LateRun::start("joins", "a,b,slow1:2,slow2", &[], &script);
    late.running.wait_for_output("2 ranks");
    let errors = late.running.errors();
    for part in ["on 2 of 4 hosts; the run starts on the others", "slow1", "slow2", "when it comes"]
    {
        assert!(errors.contains(part), "no {part:?} in {errors}");
    }
    late.make("slow2.fails");
    late.make("slow2");
    late.running.wait_for_errors(
        "host 'slow2' has not joined the run, which continues: 'sh' exited with 7",
    );
    late.running.wait_for_errors("; its start is tried again in 6 s\n  no route to slow2\n");
    late.make("slow1");
    late.running.wait_for_errors("pmi-host: host slow1 has joined the run after ");
    // A launcher answers as soon as it has run for a while.
    let ps = loop {
        let mut ps = host(["ps", "--json", &late.running.pid().to_string()]);
        let ps = run(ps.env("XDG_RUNTIME_DIR", &late.directory)).out;
        if ps.contains("\"jobs\"") {
            break ps;
        }
    };
    assert!(ps.contains("\"host\":\"slow1\"") && !ps.contains("slow2"), "{ps}");
    late.make("go");
    let ran = late.running.end().exits_with(0);
    assert_eq!(
        ran.lines(),
        [
            "0:0@a 2 ranks",
            "0:0@a cmd=barrier_out rc=0",
            "0:0@a cmd=spawn_result rc=0",
            "0:1@b cmd=barrier_out rc=0",
            "1:0@slow1 more",
            "1:1@slow1 more",
            "1:2@a more",
        ]
    );
    assert!(ran.err.contains("; spawned jobs may use it\n"), "{}", ran.err);
}

#[test]
fn host_whose_start_has_failed_is_tried_again_and_joins() {
    let script = format!("echo $PMI_SIZE ranks; {UNTIL_GO}; spawn_by 3 '' '' 'echo more'");
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("late-of-again");
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    // It boots, and can be reached the third time.
    fs::write(directory.join("slow1"), "").unwrap();
    fs::write(directory.join("slow1.fails"), "").unwrap();
    let late = LateRun::start_in(directory, "a,b,slow1", &[], &script);
    late.running.wait_for_output("2 ranks");
    late.running.wait_for_errors("'sh' exited with 7; its start is tried again in 6 s");
    late.running.wait_for_errors("'sh' exited with 7; its start is tried again in 12 s");
    fs::remove_file(late.directory.join("slow1.fails")).unwrap();
    late.running.wait_for_errors("host slow1 has joined the run after ");
    late.make("go");
    let ran = late.running.end().exits_with(0);
    assert!(ran.out.contains("1:0@slow1 more\n"), "{}", ran.out);
}

#[test]
fn spawn_waits_for_a_slow_host_that_it_names() {
    let script = format!(
        "echo ready; spawn_by 1 add-host slow1,c 'echo first'
        {UNTIL_GO}; spawn_by 1 add-host slow2 'echo no'
        spawn_by 1 add-host slow1 'echo second'"
    );
    let late = LateRun::start("waits", "a,b,slow1,slow2", &[], &script);
    late.running.wait_for_output("ready");
    late.make("slow1");
    late.running.wait_for_output("@slow1 first");
    late.make("slow2.fails");
    late.make("go");
    late.make("slow2");
    let ran = late.running.end().exits_with(0);
    assert_eq!(
        ran.lines(),
        [
            "0:0@a cmd=barrier_out rc=0",
            "0:0@a cmd=spawn_result rc=-1",
            "0:0@a cmd=spawn_result rc=0",
            "0:0@a cmd=spawn_result rc=0",
            "0:0@a ready",
            "0:1@b cmd=barrier_out rc=0",
            "1:0@slow1 first",
            "2:0@slow1 second",
        ]
    );
    assert!(ran.err.contains("is refused: host 'slow2' cannot be added to the run"), "{}", ran.err);
}

#[test]
fn run_ends_without_hosts_that_have_not_come() {
    let late = LateRun::start("ends", "a,b,slow1", &[], "echo alone");
    let ran = late.running.end().exits_with(0);
    assert_eq!(ran.out.matches("barrier_out").count(), 2, "{}", ran.out);
    assert!(!ran.err.contains("has joined"), "{}", ran.err);
}

#[test]
fn slow_host_that_is_lost_without_ranks_leaves_the_run() {
    let script = format!("echo ready; {UNTIL_GO}; spawn_by 1 '' '' 'echo more'");
    let late = LateRun::start("leaves", "a,b,slow1", &[], &script);
    late.running.wait_for_output("ready");
    late.make("slow1");
    late.running.wait_for_errors("host slow1 has joined the run after ");
    // Its node server is that whose name is in its arguments.
    let node = fs::read_dir("/proc").unwrap().flatten().find(|entry| {
        let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        let mut words = words.split(|byte| *byte == 0);
        let directory = late.directory.as_os_str().as_encoded_bytes();
        words.any(|word| word == b"slow1")
            && environment.windows(directory.len()).any(|part| part == directory)
    });
    let node = node.unwrap().file_name().into_string().unwrap();
    run(Command::new("kill").args(["-KILL", &node])).exits_with(0);
    late.running.wait_for_errors("host slow1, which was added, has left the run, which continues");
    late.make("go");
    let ran = late.running.end().exits_with(0);
    assert!(ran.out.contains("1:0@a more\n") || ran.out.contains("1:0@b more\n"), "{}", ran.out);
}
