//! Service of a run for hosts that are added to it: tables, reports, traces, signals, output and exit codes, where
//! node servers on this machine are the hosts.

use crate::common::hosts::local_nodes as nodes;
use crate::common::spawner::SPAWNER;
use crate::common::{host, run, start};
use pmi_host::table::Table;
use pmi_host_testkit::is_root;
use std::fs;
use std::os::unix::fs::PermissionsExt;
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

/// `flux` for brokers 0 to 3, which are processes on this machine under the names of their hosts. It notes the brokers
/// of each `flux exec`.
const FLUX: &str = r#"#!/bin/sh
if [ "$1" = kvs ]; then
    echo '{"version":1,"execution":{"R_lite":[{"rank":"0-3","children":{"core":"0"}}],"nodelist":["f[0-3]"]}}'
    exit
fi
echo "$1 $2 $3" >> "${0%/*}/calls"
brokers=$3; shift 3
key=$(head -n 1)
for broker in $(echo "$brokers" | tr , ' '); do
    echo "$key" | unshare --uts sh -c 'hostname "$0"; exec "$@"' "f$broker" "$@" & all="$all $!"
done
for one in $all; do wait "$one" || code=$?; done
exit $code
"#;

// Coverage: FLUX-2, FLUX-3
#[test]
fn flux_starts_node_servers_on_the_brokers_of_used_and_added_hosts_only() {
    if !is_root() {
        assert!(std::env::var_os("CI").is_none(), "names of hosts cannot be set without root");
        return eprintln!("skipped: names of hosts cannot be set without root");
    }
    let directory = directory("flux");
    fs::write(directory.join("flux"), FLUX).unwrap();
    fs::set_permissions(directory.join("flux"), fs::Permissions::from_mode(0o755)).unwrap();
    let child = format!("{CHILD} echo up; ask finalize >/dev/null");
    let text = format!(
        "{SPAWNER} if [ $PMI_RANK = 0 ]; then spawn_by 1 add-host f3 '{child}' >/dev/null; \
         spawn_by 1 add-host f9 true; fi; ask finalize >/dev/null"
    );
    let options = ["--label-format", "%g:%r@%h ", "--allocation", "--exclude-hosts", "f1"];
    let mut command = host(["run", "--nodes", "2", "-n", "2"]);
    command.args(options).args(["sh", "-c", &text]);
    let path = format!("{}:{}", directory.display(), std::env::var("PATH").unwrap());
    command.env("PATH", path).env("FLUX_URI", "local:///of-a-test");
    for variable in ["SLURM_JOB_ID", "FLUX_JOB_ID", "HYDRA_LAUNCHER"] {
        command.env_remove(variable);
    }
    let ran = run(&mut command).exits_with(0);
    assert!(ran.out.contains("1:0@f3 up\n"), "{}", ran.out);
    ran.says(&["host 'f9' is not in the allocation", "(f0, f1, f2, f3)"]);
    let calls = fs::read_to_string(directory.join("calls")).unwrap();
    assert_eq!(calls.lines().collect::<Vec<_>>(), ["exec -r 0,2", "exec -r 3"]);
}
