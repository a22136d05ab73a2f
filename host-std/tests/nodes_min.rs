//! Runs that leave out hosts on which no node server can be started (`--min-nodes`).

use crate::common::{host, run};
use std::fs;
use std::process::Command;

/// `pmi-host run` on hosts of which those that match the pattern `bad` cannot be reached.
fn command(hosts: &str, bad: &str, words: &[&str]) -> Command {
    let mut command = host(["run"]);
    let starter = format!(
        "sh -c 'case {{host}} in {bad}) echo no route to {{host}} >&2; exit 255 ;; esac; exec {{cmd}}'"
    );
    command.env("XDG_CONFIG_HOME", "/nowhere");
    command.args(["--hosts", hosts, "--starter-cmd", &starter]).args(words);
    command
}

fn sorted(out: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = out.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn run_starts_on_the_hosts_that_are_left() {
    let words = ["--min-nodes", "2", "sh", "-c", "echo $PMI_RANK of $PMI_SIZE"];
    let ran = run(&mut command("h[1-4]:2", "h2", &words)).exits_with(0);
    // The number of ranks follows from the hosts.
    let expected: Vec<String> = (0..6).map(|rank| format!("{rank} of 6")).collect();
    assert_eq!(sorted(&ran.out), expected);
    let lines: Vec<&str> = ran.err.lines().collect();
    let starts = "on 1 of 4 hosts; the run starts on the others (--min-nodes):";
    assert!(lines[0].ends_with(starts), "{}", ran.err);
    assert!(lines[1].starts_with("  h2  'sh' exited with 255"), "{}", ran.err);
    assert_eq!((lines[2].trim(), lines.len()), ("no route to h2", 3), "{}", ran.err);
}

#[test]
fn ranks_of_a_stated_number_are_placed_on_the_hosts_that_are_left() {
    let words = ["-n", "4", "--min-nodes", "2", "-l", "sh", "-c", "echo $PMI_SIZE"];
    let ran = run(&mut command("h1,h2,h3,h4", "h[14]", &words)).exits_with(0);
    assert_eq!(sorted(&ran.out), ["[0] 4", "[1] 4", "[2] 4", "[3] 4"], "{}", ran.err);
    // Both failures are known before the second start.
    assert!(ran.err.contains("on 2 of 4 hosts;"), "{}", ran.err);
}

#[test]
fn run_with_too_few_hosts_fails() {
    let words = ["--min-nodes", "3", "true"];
    let ran = run(&mut command("h1,h2,h3,h4", "h[14]", &words)).exits_with(1);
    ran.says(&["on 2 of 4 hosts, and nothing is left running"]);
    let ran = run(&mut command("h1", "h1", &["--min-nodes", "0", "true"])).exits_with(2);
    ran.says(&["--min-nodes"]);
}

#[test]
fn program_whose_hosts_are_all_left_out_is_reported() {
    let words = ["--min-nodes", "1", "true", ":", "--hosts", "h2", "-n", "1", "true"];
    let ran = run(&mut command("h1", "h2", &words));
    assert!(ran.err.contains("none of the hosts of a program"), "{}", ran.err);
    assert!(ran.err.contains("no route to h2"), "{}", ran.err);
}

#[test]
fn files_of_ranks_that_are_left_out_are_not_made() {
    let directory = tempfile::tempdir().unwrap();
    let files = directory.path().join("rank.%r");
    let words =
        ["--min-nodes", "2", "--stdout-to", files.to_str().unwrap(), "sh", "-c", "echo $PMI_RANK"];
    run(&mut command("h[1-4]:2", "h2", &words)).exits_with(0);
    let mut made: Vec<String> = fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    made.sort_unstable();
    let expected: Vec<String> = (0..6).map(|rank| format!("rank.{rank}")).collect();
    assert_eq!(made, expected);
}

#[test]
fn host_that_was_to_start_others_and_fails_is_left_out_alone() {
    let words = ["--starter-fanout", "2", "--min-nodes", "5", "sh", "-c", "echo $PMI_SIZE"];
    let ran = run(&mut command("h[1-6]", "h2", &words)).exits_with(0);
    assert_eq!(ran.out, "5\n".repeat(5), "{}", ran.err);
    assert!(ran.err.contains("on 1 of 6 hosts;"), "{}", ran.err);
    assert!(ran.err.contains("'h2' has no node server that could start 'h4'"), "{}", ran.err);
}
