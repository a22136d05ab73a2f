//! The command line, as used by users and scripts.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

fn pmi_sim(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pmi-sim")).args(args).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// A place for a file of one test.
fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

#[test]
fn sweep_ends_with_one_sentence_and_the_exit_code_of_its_result() {
    let clean = pmi_sim(&["sweep", "--seeds", "5", "put-fence-get", "random"]);
    assert_eq!(clean.status.code(), Some(0));
    let last = out(&clean).lines().last().unwrap().to_owned();
    assert!(last.starts_with("2 scenarios with 5 seeds each from 0: 10 runs, "), "{last}");
    assert!(last.ends_with(" steps, 0 broken."), "{last}");
    let broken =
        pmi_sim(&["sweep", "--seeds", "3", "--mutant", "swallow-release", "put-fence-get"]);
    assert_eq!(broken.status.code(), Some(1));
    let text = out(&broken);
    assert!(text.contains("put-fence-get with seed 0: waits: "), "{text}");
    assert!(text.contains("pmi-sim shrink put-fence-get --seed 0"), "{text}");
    assert!(text.contains("/#scenario=put-fence-get&seed=0\n"), "{text}");
    assert!(text.lines().last().unwrap().ends_with("3 broken."), "{text}");
}

#[test]
fn trace_is_replayed_and_a_changed_one_is_not() {
    let trace = file("a.trace");
    let path = trace.to_str().unwrap();
    let run = pmi_sim(&["run", "dead-rank", "--seed", "9", "--trace", path]);
    assert_eq!(run.status.code(), Some(0), "{run:?}");
    assert_eq!(pmi_sim(&["replay", path]).status.code(), Some(0));
    let changed = fs::read_to_string(&trace).unwrap().replacen("rank 1 ask 0", "rank 1 ask 9", 1);
    fs::write(&trace, changed).unwrap();
    let replay = pmi_sim(&["replay", path]);
    assert_eq!(replay.status.code(), Some(1));
    assert!(out(&replay).contains("differs"));
}

#[test]
fn failing_scenario_shrinks_to_a_file_that_fails() {
    let small = file("small.txt");
    let path = small.to_str().unwrap();
    let mutant = ["--mutant", "lose-put"];
    let args = [&["shrink", "put-fence-get", "--seed", "0", "--out", path][..], &mutant].concat();
    let shrunk = pmi_sim(&args);
    assert_eq!(shrunk.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&shrunk.stderr).contains("/#text=name+"), "{shrunk:?}");
    let text = fs::read_to_string(&small).unwrap();
    assert!(text.starts_with("# value: ") || text.starts_with("# wanted: "), "{text}");
    assert!(text.lines().count() < 20, "{text}");
    assert_eq!(pmi_sim(&[&["run", path][..], &mutant].concat()).status.code(), Some(1));
    // Without the fault there is nothing to see.
    assert_eq!(pmi_sim(&["run", path]).status.code(), Some(0));
}

#[test]
fn empty_tally_is_neither_success_nor_failure() {
    for args in [&["run", "no-such-thing"][..], &["jump"], &["replay", "/dev/null"]] {
        let output = pmi_sim(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(!output.stderr.is_empty());
    }
    let bad = file("bad.txt");
    fs::write(&bad, "ranks 2\nscript all\n jump\nend\n").unwrap();
    let output = pmi_sim(&["run", bad.to_str().unwrap()]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("bad.txt: line 3: `jump` is no step"), "{said}");
}

#[test]
fn tree_that_needs_more_memory_than_there_is_is_refused() {
    let output = pmi_sim(&["tree", "scale", "--nodes", "1000000", "--bytes", "1000000"]);
    assert_ne!(output.status.code(), Some(0));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("1000000 nodes that contribute 1000000 bytes each need"), "{said}");
}

#[test]
fn shipped_scenarios_are_listed_and_shown() {
    let list = out(&pmi_sim(&["list"]));
    assert!(list.contains("torn-frames"), "{list}");
    let shown = out(&pmi_sim(&["show", "torn-frames"]));
    assert!(shown.contains("split 90%"), "{shown}");
    let scale = out(&pmi_sim(&["scale", "--ranks", "50"]));
    assert!(scale.contains("One fence of 50 ranks took 600 messages."), "{scale}");
}
