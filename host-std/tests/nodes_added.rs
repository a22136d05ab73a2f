//! Service of a run for hosts that are added to it: tables, reports, traces, signals, output and exit codes, where
//! node servers on this machine are the hosts.

mod common;

use common::hosts::local_nodes as nodes;
use common::spawner::SPAWNER;
use common::{host, run, start};
use pmi_host::table::Table;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A child that has initialized, with a function `ask` for requests; one line, as the message demands.
const CHILD: &str = r#"ask() { echo "cmd=$1" >&$PMI_FD; read answer <&$PMI_FD; echo "$answer"; }; ask "init pmi_version=1 pmi_subversion=1" >/dev/null;"#;

/// Two ranks on two nodes; the first one spawns `count` ranks of `child` on an added host. Both sleep then, or end if
/// there is a file `end` in the working directory.
fn with_child(count: u32, child: &str, options: &[&str]) -> Command {
    let text = format!(
        "trap : USR2; {SPAWNER} if [ $PMI_RANK = 0 ]; then spawn_by {count} add-host local3 '{child}' >/dev/null; fi
        until [ -e end ]; do sleep 0.05; done; ask finalize >/dev/null"
    );
    let options = [&["--label-format", "%g:%r@%h "], options].concat();
    nodes(2, 2, &[&options[..], &["sh", "-c", &text]].concat())
}

fn directory(test: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("added-of-{test}"));
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    directory
}

#[test]
fn tables_have_the_ranks_of_an_added_host() {
    let directory = directory("tables");
    let child = format!("{CHILD} echo up; until [ -e end ]; do sleep 0.05; done; ask finalize");
    let mut command = with_child(2, &child, &[]);
    let running = start(command.current_dir(&directory).env("XDG_RUNTIME_DIR", &directory));
    running.wait_for_output("1:0@local3 up\n");
    running.wait_for_output("1:1@local3 up\n");
    // A launcher answers as soon as it has run for a while.
    let (ps, tables) = loop {
        let mut ps = host(["ps", "--json", &running.pid().to_string()]);
        let ps = run(ps.env("XDG_RUNTIME_DIR", &directory));
        let tables: Vec<Table> = serde_json::from_str(&ps.out).unwrap_or_default();
        if !tables.is_empty() {
            break (ps, tables);
        }
    };
    let [_, child] = &tables[0].jobs[..] else { panic!("{}", ps.out) };
    assert_eq!((&*child.nodes[0].host, child.nodes[0].ranks.count()), ("local3", 2), "{}", ps.out);
    let hosts: Vec<_> = child.ranks.iter().map(|rank| rank.host.as_deref()).collect();
    assert_eq!(hosts, [Some("local3"); 2], "{}", ps.out);
    assert!(child.ranks.iter().all(|rank| rank.pid.is_some()) && tables[0].idle_nodes.is_empty());
    running.signal("USR1");
    running.wait_for_errors("local3  0,1    all");
    fs::write(directory.join("end"), "").unwrap();
    running.end().exits_with(0);
}

#[test]
fn rank_of_an_added_host_that_others_wait_for_is_named() {
    let child = format!("{CHILD} [ $PMI_RANK = 0 ] && exec sleep 600; ask barrier_in");
    let mut command = with_child(2, &child, &["--stall-report", "0.5", "--stall-abort", "2"]);
    let ran = run(command.current_dir(directory("stall"))).exits_with(124);
    assert!(ran.err.contains("  rank 1 of 2 in the spawned job kvs_"), "{}", ran.err);
    assert!(ran.err.contains(" waits in fence 0 for rank 0\n"), "{}", ran.err);
    let is_row = |line: &str| {
        let cells: Vec<&str> = line.split_whitespace().collect();
        matches!(cells[..], ["0", _, "local3", "sleeping", ..])
    };
    assert!(ran.err.lines().any(is_row), "{}", ran.err);
}

#[test]
fn signals_to_the_run_reach_ranks_of_an_added_host() {
    let child = "trap \"echo got USR2\" USR2; trap \"echo got TERM; exit 0\" TERM; echo up; \
                 while :; do sleep 0.05; done";
    let mut command = with_child(1, child, &["--forward-signals", "USR2"]);
    let running = start(command.current_dir(directory("signals")));
    running.wait_for_output("1:0@local3 up\n");
    running.signal("USR2");
    running.wait_for_output("1:0@local3 got USR2\n");
    running.signal("TERM");
    let ran = running.end().exits_with(143);
    assert!(ran.out.contains("1:0@local3 got TERM\n"), "{}", ran.out);
}

#[test]
fn messages_of_an_added_host_are_recorded_and_shown() {
    let directory = directory("trace");
    let child =
        format!("{CHILD} ask get_maxes; touch end; ask barrier_in; ask finalize >/dev/null");
    let mut command = with_child(1, &child, &["--trace", "run.trace", "--show-messages"]);
    let ran = run(command.current_dir(&directory)).exits_with(0);
    for message in ["→ init version=1.1", "← finalize rc=0"] {
        assert!(ran.err.contains(&format!("rank 0 of job 1 {message}\n")), "{}", ran.err);
    }
    let mut show = host(["trace", "show", "run.trace"]);
    let ran = run(show.current_dir(&directory)).exits_with(0);
    let of_child = |line: &&str| line.contains("1:0") && line.contains("finalize");
    assert!(ran.out.lines().any(|line| of_child(&line)), "{}", ran.out);
}

#[test]
fn output_and_exit_code_of_an_added_host_are_those_of_the_run() {
    let directory = directory("output");
    // All output arrives before the report of the failure.
    let child = "seq 2000; echo last >&2; exit 9";
    let mut command = with_child(1, child, &["--stdout-to", "out.%g.%r"]);
    let ran = run(command.current_dir(&directory)).exits_with(9);
    let out = fs::read_to_string(directory.join("out.1.0")).unwrap();
    assert_eq!(out.lines().count(), 2000);
    let (before, after) = ran.err.split_once("1:0@local3 last\n").unwrap();
    assert!(!before.contains("exited with") && after.contains("exited with code 9"), "{}", ran.err);
    assert!(after.contains("on local3)"), "{}", ran.err);
}
