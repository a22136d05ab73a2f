//! Values in memory that ranks and the server share.

use crate::common::capi::{static_capi_program, with_libraries};
use crate::common::{Ran, job, run};
use pmi_trace::Direction;
use pmi_trace::open::{self, OpenedTrace};
use std::path::{Path, PathBuf};

/// Puts and gets of `capi_snapshot`: per rank, and by rank 0 alone.
const PUTS: usize = 6;
const LONG_PUTS: usize = 300;

fn program() -> PathBuf {
    static_capi_program("capi_snapshot", "pmi")
}

fn expected(ranks: u32) -> Vec<String> {
    let mut lines: Vec<String> =
        (0..ranks).map(|rank| format!("rank {rank} of {ranks}: all as expected")).collect();
    lines.sort();
    lines
}

/// Runs a job of the program with these options and a trace, and returns the number of requests with each of these
/// commands.
#[track_caller]
fn counted<const N: usize>(
    options: &[&str],
    ranks: u32,
    word: &str,
    asked: [&str; N],
) -> [usize; N] {
    let name = format!("snapshot-{ranks}{}{word}.trace", options.concat());
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_file(&path);
    let mut command = job(ranks, options);
    command.arg("--trace").arg(&path).arg(program()).arg(word);
    let ran = run(with_libraries(&mut command)).exits_with(0);
    assert_eq!(sorted(&ran), expected(ranks), "{}", ran.err);
    let OpenedTrace { trace, .. } = open::read(&std::fs::read(&path).unwrap()).unwrap();
    asked.map(|word| {
        let is_asked =
            |(_, _, direction, bytes): &(usize, &pmi_trace::Record, Direction, &[u8])| {
                *direction == Direction::ToServer
                    && pmi_trace::message::word(bytes) == word.as_bytes()
            };
        trace.messages().filter(is_asked).count()
    })
}

fn sorted(ran: &Ran) -> Vec<String> {
    ran.lines().iter().map(ToString::to_string).collect()
}

const COUNTED: [&str; 3] = ["kvs-put", "kvs-get", "kvs-fence"];

#[test]
fn gets_after_a_fence_are_no_messages_and_puts_are_in_the_trace() {
    for (ranks, count) in [(1, 1), (4, 4), (32, 32)] {
        let [puts, gets, fences] = counted(&[], ranks, "", COUNTED);
        assert_eq!(puts, PUTS * count + LONG_PUTS);
        // In each round a rank asks for a key that it has just put, and once for one that is missing.
        assert_eq!(gets, 3 * count);
        assert_eq!(fences, 5 * count);
    }
}

// Coverage: X1-4
#[test]
fn job_on_two_nodes_reads_the_values_of_both_without_messages() {
    let [puts, gets, fences] = counted(&["--starter", "local:2"], 4, "", COUNTED);
    assert_eq!((puts, gets, fences), (PUTS * 4 + LONG_PUTS, 3 * 4, 5 * 4));
}

#[test]
fn job_without_the_offer_uses_messages_with_the_same_result() {
    let [puts, gets, fences] = counted(&["--env", "PMI_SNAPSHOT=0"], 4, "", COUNTED);
    assert_eq!((puts, fences), (PUTS * 4 + LONG_PUTS, 5 * 4));
    // Two rounds with the keys of all ranks and an own one, two long values, a missing one, the mapping.
    assert_eq!(gets, 4 * (2 * (4 * PUTS / 2 + 1) + 4));
}

#[test]
fn puts_are_messages_while_another_thread_waits() {
    let [puts, gets, fences] = counted(&[], 4, "thread", COUNTED);
    assert_eq!((puts, gets, fences), (PUTS * 4 + LONG_PUTS, 3 * 4, 5 * 4));
}

#[test]
fn limits_and_warnings_hold_for_puts_without_messages() {
    let mut command = job(2, ["--kvs-pairs", "60"]);
    let ran = run(with_libraries(command.arg(program()).arg("refused"))).exits_with(0);
    assert!(ran.out.contains(": refused"), "{}", ran.out);
    let ran = ran.says(&["put of 'k-", "--kvs-pairs", "reported once"]);
    assert!(ran.out.contains(": taken"), "{}", ran.out);
    let mut command = job(2, [program()]);
    let ran = run(with_libraries(command.arg("twice"))).exits_with(0);
    ran.says(&["'same'"]);
}

/// Runs the client that misuses its segment.
fn hostile(word: &str) -> Ran {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/snapshot_hostile.py");
    run(job(1, ["python3"]).arg(script).arg(word))
}

#[test]
fn client_that_offers_another_file_is_served_by_messages() {
    for word in ["short", "unsealed", "null", "pipe", "many"] {
        let ran = hostile(word).exits_with(0);
        let lines: Vec<&str> = ran.out.lines().collect();
        assert_eq!(lines[0], "generations 0", "{word}");
        assert!(lines[1].starts_with("cmd=barrier_out rc=0"), "{word}: {lines:?}");
        assert!(lines[2].starts_with("cmd=get_result rc=4"), "{word}: {lines:?}");
    }
}

#[test]
fn client_can_change_neither_the_length_of_its_segment_nor_a_generation() {
    for word in ["good", "truncate", "again"] {
        let ran = hostile(word).exits_with(0);
        let lines: Vec<&str> = ran.out.lines().collect();
        assert_eq!(lines.len(), 3, "{word}: {lines:?}");
        assert_eq!(lines[0], "generations 1");
        assert!(lines[1].starts_with("cmd=barrier_out rc=0"), "{word}: {lines:?}");
        assert!(lines[2].ends_with("value=v"), "{word}: {lines:?}");
    }
    let ran = hostile("key").exits_with(0);
    assert!(ran.out.contains("refused 5\n"), "{}", ran.out);
}

#[test]
fn segment_with_malformed_requests_ends_the_job_like_malformed_bytes() {
    for word in ["length", "garbage"] {
        let ran = hostile(word);
        assert_ne!(ran.code, 0, "{word}: {}", ran.out);
        ran.says(&["sent bytes that are not PMI"]);
    }
    hostile("abort").exits_with(7);
}
