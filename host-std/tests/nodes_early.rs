//! Runs whose ranks start on some hosts before others have joined (`--start-early`).

use crate::common::{host, run};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `pmi-host run --start-early` on these hosts, of which `slow` does `before` before it starts, in a directory that
/// is empty at first.
fn command(
    test: &str,
    hosts: &str,
    (slow, before): (&str, &str),
    script: &str,
) -> (Command, PathBuf) {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("early-of-{test}"));
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    let mut command = host(["run", "--start-early", "--hosts", hosts]);
    let starter = format!("sh -c 'case {{host}} in {slow}) {before} ;; esac; exec {{cmd}}'");
    command.env("XDG_CONFIG_HOME", "/nowhere").current_dir(&directory);
    command.args(["--starter-cmd", &starter, "sh", "-c", script]);
    (command, directory)
}

#[test]
fn slow_host_joins_a_run_whose_other_ranks_have_started() {
    // A host cannot join before the rank of the first one runs, and all meet in a fence. It is below another host
    // in the tree, as the second one is below the head.
    let say = |line: &str| format!("echo cmd={line} >&$PMI_FD; read answer <&$PMI_FD; ");
    let wait = "until [ -e started ]; do sleep 0.02; done";
    let meet = say("barrier_in");
    let script = format!(
        "{}[ $PMI_RANK = 0 ] && touch started; {meet}echo \"$PMI_RANK: $answer\"; {}",
        say("init pmi_version=1 pmi_subversion=1"),
        say("finalize")
    );
    for (hosts, slow, ranks) in [("h1,h2", "h2", 2), ("h[1-6]", "h6", 6)] {
        let (mut command, _) = command(slow, hosts, (slow, wait), &script);
        let ran = run(&mut command).exits_with(0).says_nothing();
        let mut lines = ran.lines();
        lines.sort_unstable();
        let expected: Vec<String> =
            (0..ranks).map(|rank| format!("{rank}: cmd=barrier_out rc=0")).collect();
        assert_eq!(lines, expected);
    }
}

#[test]
fn host_that_fails_later_ends_the_ranks_that_have_started() {
    let fails = "until [ -e started ]; do sleep 0.02; done; echo no such host >&2; exit 255";
    let script = "trap 'touch ended; exit 1' TERM; touch started; while :; do sleep 0.02; done";
    let (mut command, directory) = command("fails", "h1,h2", ("h2", fails), script);
    let ran = run(&mut command).exits_with(1);
    assert!(ran.err.contains("on 1 of 2 hosts"), "{}", ran.err);
    assert!(ran.err.contains("h2  'sh' exited with 255"), "{}", ran.err);
    assert!(directory.join("ended").exists(), "{}", ran.err);
}

#[test]
fn early_start_excludes_a_choice_of_hosts() {
    let mut command =
        host(["run", "--start-early", "--min-nodes", "1", "--hosts", "h1,h2", "true"]);
    run(&mut command).exits_with(2).says(&["'--start-early'", "'--min-nodes'", "leave one"]);
}
