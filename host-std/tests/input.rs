//! Standard input of the launcher: read by one rank, by several or by none, and by commands that follow the
//! launcher.

use crate::common::{Ran, job, run, run_with_input, shell};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

#[test]
fn hundred_megabytes_reach_rank_0_as_they_are() {
    let big = file("big", 100_000_000);
    let line = format!("cat {0} | {HOST} run -n 2 cat | cmp - {0}", big.display());
    sh(&line).exits_with(0).says_nothing();
    fs::remove_file(big).unwrap();
}

#[test]
fn listed_ranks_read_all_of_the_input() {
    for (ranks, readers) in
        [("all", vec![0, 1, 2, 3]), ("1", vec![1]), ("1,3", vec![1, 3]), ("none", vec![])]
    {
        let script = "text=$(cat); echo \"$PMI_RANK:$text\"";
        let mut command = job(4, ["--stdin", ranks]);
        let ran = run_with_input(command.args(shell(script)), b"some\ntext").exits_with(0);
        let mut expected: Vec<String> = Vec::new();
        for rank in 0..4 {
            match readers.contains(&rank) {
                true => expected.extend([format!("{rank}:some"), "text".to_owned()]),
                false => expected.push(format!("{rank}:")),
            }
        }
        expected.sort();
        assert_eq!(ran.lines(), expected, "--stdin {ranks}");
    }
}

#[test]
fn much_input_reaches_several_ranks_as_it_is() {
    let big = file("several", 10_000_000);
    let name = big.display();
    let expected = sh(&format!("cksum < {name}")).exits_with(0).out;
    for input in [format!("< {name}"), format!("< <(cat {name})")] {
        let ran = sh(&format!("{HOST} run -n 3 --stdin all cksum {input}")).exits_with(0);
        assert_eq!(ran.out, expected.repeat(3), "{input}");
    }
    fs::remove_file(big).unwrap();
}

#[test]
fn rank_that_does_not_read_a_file_blocks_no_other() {
    let big = file("pace", 5_000_000);
    let done = big.with_extension("done");
    // Rank 1 reads only when rank 0 has read everything.
    let script = format!(
        "if [ $PMI_RANK = 1 ]; then until [ -e {0} ]; do sleep 0.01; done; fi; cksum; : > {0}",
        done.display()
    );
    let name = big.display();
    let expected = sh(&format!("cksum < {name}")).out;
    let ran = sh(&format!("{HOST} run -n 2 --stdin all sh -c '{script}' < {name}")).exits_with(0);
    assert_eq!(ran.out, expected.repeat(2));
    [big, done].iter().for_each(|name| fs::remove_file(name).unwrap());
}

#[test]
fn loop_around_us_reads_the_lines_that_no_rank_has_read() {
    let lines = file("lines", 0);
    fs::write(&lines, "1\n2\n3\n4\n5\n").unwrap();
    // `dash` reads a pipe byte by byte and seeks back after its last line in a file, so only the lines that
    // its script has read are consumed.
    for input in [format!("< {}", lines.display()), format!("< <(cat {})", lines.display())] {
        for (ranks, seen) in [("0", "1 2 3 4 5"), ("all", "1 2 3 4 5"), ("none", "1 2 3 4 5")] {
            let job = format!("{HOST} run -n 3 --stdin {ranks} true");
            let ran = sh(&format!("while read line; do {job}; echo $line; done {input}"));
            assert_eq!(words(&ran.exits_with(0)), seen, "{input} {ranks}");
        }
        for (ranks, seen) in
            [("0", "1 got 2 3 got 4 5 got"), ("0,2", "1 got 2 got 2 3 got 4 got 4 5 got got")]
        {
            let rank = "if [ $PMI_RANK != 1 ]; then read line; echo got $line; fi";
            let seen = match ranks {
                // The other ranks read nothing and print that.
                "0" => seen
                    .replace("got 2", "got 2 got")
                    .replace("got 4", "got 4 got")
                    .replace("5 got", "5 got got"),
                _ => seen.to_owned(),
            };
            let job = format!("{HOST} run -n 3 --stdin {ranks} dash -c '{rank}' | sort -r");
            let ran = sh(&format!("while read line; do echo $line; {job}; done {input}"));
            assert_eq!(words(&ran.exits_with(0)), seen, "{input} {ranks}");
        }
    }
    fs::remove_file(lines).unwrap();
}

#[test]
fn writer_of_the_input_learns_when_no_rank_reads_any_more() {
    for ranks in ["0", "0,1"] {
        let line = format!(
            "{{ yes; echo yes $? >&2; }} | {HOST} run -n 3 --stdin {ranks} sh -c \
             'if [ $PMI_RANK = 2 ]; then sleep 0.5; else read line; echo $line; fi'"
        );
        let ran = sh(&line).exits_with(0);
        assert!(ran.err.contains("yes 141"), "{}", ran.err);
    }
}

#[test]
fn readers_that_are_no_ranks_are_refused_before_the_start() {
    let ran = run(job(2, ["--stdin", "1-3"]).args(["echo", "started"])).exits_with(2);
    assert_eq!(ran.out, "");
    ran.says(&["rank 2 cannot read standard input", "2 ranks"]);
}

/// Runs a line in a shell that supports `<(command)`.
fn sh(line: &str) -> Ran {
    run(Command::new("bash").args(["-c", &format!("set -o pipefail; {line}")]))
}

fn words(ran: &Ran) -> String {
    ran.out.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A separate file for the test `name`, with bytes of all values in no simple order.
fn file(name: &str, bytes: usize) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("input-{name}-{}", std::process::id()));
    let mut state = 1_u32;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    fs::write(&path, std::iter::repeat_with(next).take(bytes).collect::<Vec<u8>>()).unwrap();
    path
}

const HOST: &str = env!("CARGO_BIN_EXE_pmi-host");
