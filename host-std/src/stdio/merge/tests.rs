//! Tests of merging on nodes of a tree of radix 2: node 1 has the children 3 and 4, and each node one rank.

use super::*;
use crate::placement::tests::placed;
use pmi_host_base::ranges::Ranks;
use pmi_host_os::clock;

const WAIT: Duration = Duration::from_secs(1);

/// Merging on node 1 for hosts `a` to `f`, which have the ranks 0 to 5.
fn merge(wait: Option<Duration>) -> LineMerge {
    let tree = TreeConfig { radix: 2, ..TreeConfig::new(NodeId(1), 7) };
    let mut merge = LineMerge::new(tree, wait);
    merge.add_job(0, Rc::new(placed("a,b,c,d,e,f", 6)), 6);
    merge.set_children([NodeId(3), NodeId(4)].into_iter());
    merge
}

fn ranks(all: &[u32]) -> Ranks {
    all.iter().copied().collect()
}

/// Lines of a rank from this position.
fn lines(at: u64, rank: u32, text: &str) -> Vec<u8> {
    lines_on(Stream::Out, at, rank, text)
}

fn lines_on(stream: Stream, at: u64, rank: u32, text: &str) -> Vec<u8> {
    let places = vec![TextPlace { at, ranks: ranks(&[rank]) }];
    let text = text.as_bytes();
    let mut bytes = Vec::new();
    OutputRecord::Shared { job: 0, stream, held_ms: 0, is_whole: true, places, text }
        .append(&mut bytes);
    bytes
}

fn end(rank: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    OutputRecord::Ended { job: 0, rank, stream: Stream::Out }.append(&mut bytes);
    bytes
}

fn add(merge: &mut LineMerge, node: u32, number: u64, records: &[u8]) {
    let batch = MergeBatch { message: None, counts: vec![(node, number)] };
    merge.add(NodeId(node), batch, records);
}

/// Records that are passed on at this time, as `ranks@position:text`, and the counts.
fn passed(merge: &mut LineMerge, now: Instant) -> (String, Vec<(u32, u64)>) {
    merge.release(now);
    let (mut all, mut counts) = (Vec::new(), Vec::new());
    while let Some(output) = merge.take() {
        let mut rest = &output.records[..];
        while let Some(record) = OutputRecord::next(&mut rest) {
            all.push(match record {
                OutputRecord::Shared { places, text, .. } => {
                    let place = |place: &TextPlace| format!("{}@{}", place.ranks, place.at);
                    let places: Vec<String> = places.iter().map(place).collect();
                    format!("{}:{}", places.join("+"), String::from_utf8_lossy(text))
                }
                OutputRecord::Ended { rank, .. } => format!("{rank}.\n"),
                other => panic!("{other:?}"),
            });
        }
        assert!(rest.is_empty());
        counts.extend(output.counts);
    }
    (all.concat(), counts)
}

#[test]
fn equal_lines_of_several_nodes_go_on_once() {
    let (mut merge, now) = (merge(Some(WAIT)), clock::now());
    add(&mut merge, 3, 1, &lines(0, 2, "a\nb\n"));
    add(&mut merge, 4, 7, &lines(0, 3, "a\nb\n"));
    assert_eq!(passed(&mut merge, now), (String::new(), vec![]));
    merge.add_own(1, &lines(0, 0, "a\nb\n"));
    let expected = ("0,2,3@0:a\nb\n".to_owned(), vec![(1, 1), (3, 1), (4, 7)]);
    assert_eq!(passed(&mut merge, now), expected);
}

#[test]
fn lines_that_differ_keep_their_order_and_positions() {
    let (mut merge, now) = (merge(Some(WAIT)), clock::now());
    add(&mut merge, 3, 1, &lines(0, 2, "first\na\n"));
    add(&mut merge, 4, 1, &lines(8, 3, "a\n"));
    merge.add_own(1, &lines(6, 0, "a\n"));
    assert_eq!(passed(&mut merge, now).0, "2@0:first\n0,2@6+3@8:a\n");
}

#[test]
fn node_without_lines_is_waited_for_until_its_ranks_end_or_time_is_over() {
    let (mut merge, now) = (merge(Some(WAIT)), clock::now());
    add(&mut merge, 3, 1, &[lines(0, 2, "a\n"), end(2)].concat());
    merge.add_own(1, &lines(0, 0, "a\n"));
    assert_eq!(passed(&mut merge, now), (String::new(), vec![]));
    assert!(merge.deadline().is_some());
    add(&mut merge, 4, 1, &end(3));
    assert_eq!(passed(&mut merge, now).0, "3.\n0,2@0:a\n2.\n");
    merge.add_own(2, &lines(2, 0, "b\n"));
    assert_eq!(passed(&mut merge, now).0, "0@2:b\n", "the others have ended");
    let mut merge = self::merge(Some(WAIT));
    add(&mut merge, 3, 1, &lines(0, 2, "a\n"));
    assert_eq!(passed(&mut merge, now), (String::new(), vec![]));
    assert_eq!(passed(&mut merge, clock::now() + WAIT), ("2@0:a\n".into(), vec![(3, 1)]));
}

#[test]
fn batch_counts_when_its_last_line_is_passed_on() {
    let (mut merge, now) = (merge(None), clock::now());
    add(&mut merge, 3, 1, &lines(0, 2, "a\n"));
    add(&mut merge, 3, 2, &lines(2, 2, "b\n"));
    add(&mut merge, 4, 1, &lines(0, 3, "a\n"));
    merge.add_own(1, &lines(0, 0, "a\n"));
    let expected = ("0,2,3@0:a\n".to_owned(), vec![(1, 1), (3, 1), (4, 1)]);
    assert_eq!(passed(&mut merge, now), expected);
    merge.end_job(None);
    assert_eq!(passed(&mut merge, now), ("2@2:b\n".into(), vec![(3, 2)]));
}

#[test]
fn child_that_is_gone_delays_no_line_and_one_that_comes_is_waited_for() {
    let (mut merge, now) = (merge(None), clock::now());
    add(&mut merge, 3, 1, &lines(0, 2, "a\n"));
    merge.add_own(1, &lines(0, 0, "b\n"));
    merge.set_children([NodeId(4)].into_iter());
    assert_eq!(passed(&mut merge, now).0, "2@0:a\n");
    merge.lose_node(NodeId(4));
    assert_eq!(passed(&mut merge, now).0, "0@0:b\n");
    merge.set_children([NodeId(4), NodeId(3)].into_iter());
    merge.add_own(2, &lines(2, 0, "c\n"));
    assert_eq!(passed(&mut merge, now).0, "");
    add(&mut merge, 3, 2, &lines(2, 2, "c\n"));
    assert_eq!(passed(&mut merge, now).0, "0,2@2:c\n");
}

#[test]
fn much_of_one_node_does_not_wait() {
    let (mut merge, now) = (merge(None), clock::now());
    let line = format!("{}\n", "x".repeat(999));
    let mut number = 0;
    while merge.pending_bytes(NodeId(3)) <= SOURCE_BYTES - 2000 {
        add(&mut merge, 3, number + 1, &lines(number * 1000, 2, &line));
        number += 1;
    }
    assert_eq!(passed(&mut merge, now), (String::new(), vec![]));
    add(&mut merge, 3, number + 1, &lines(number * 1000, 2, &line.repeat(3)));
    let (text, counts) = passed(&mut merge, now);
    assert_eq!((text.matches('\n').count() as u64, counts), (number + 3, vec![(3, number + 1)]));
}

/// Lines of different text, of 1,000 bytes each.
fn long_lines(first: u64, count: u64) -> String {
    (first..first + count).map(|number| format!("{number:0999}\n")).collect()
}

#[test]
fn line_that_waits_holds_back_no_more_than_the_limit_of_what_follows_it() {
    let (mut merge, now) = (merge(None), clock::now());
    add(&mut merge, 3, 1, &lines_on(Stream::Err, 0, 2, "warning\n"));
    let mut settled = 0;
    for batch in 0..20 {
        let text = long_lines(batch * 10, 10);
        add(&mut merge, 3, batch + 2, &lines(batch * 10_000, 2, &text));
        add(&mut merge, 4, batch + 1, &lines(batch * 10_000, 3, &text));
        merge.add_own(batch + 1, &lines(batch * 10_000, 0, &text));
        let (_, counts) = passed(&mut merge, now);
        settled = counts
            .iter()
            .filter(|(node, _)| *node == 3)
            .map(|(_, count)| *count)
            .max()
            .unwrap_or(settled);
    }
    assert!(settled >= 11, "{settled}");
}

#[test]
fn ranks_of_the_node_itself_go_on_without_the_others() {
    let (mut merge, now) = (merge(None), clock::now());
    let mut text = String::new();
    for batch in 0..30 {
        assert!(merge.takes_own(), "{batch}");
        merge.add_own(batch + 1, &lines(batch * 10_000, 0, &long_lines(batch * 10, 10)));
        text += &passed(&mut merge, now).0;
    }
    assert!(text.matches('\n').count() > 200);
}

#[test]
fn child_is_settled_while_the_node_itself_has_more_to_send() {
    let (mut merge, now) = (merge(None), clock::now());
    let (mut own, mut taken) = (0, Vec::new());
    add(&mut merge, 3, 1, &[lines(0, 2, "a\n"), end(2)].concat());
    merge.set_children([NodeId(4)].into_iter());
    for _ in 0..8 {
        while merge.takes_own() {
            own += 1;
            merge.add_own(own, &lines((own - 1) * 50_000, 0, &long_lines(own * 50, 50)));
        }
        merge.release(now);
        taken.extend(merge.take().map(|output| output.counts));
    }
    assert!(taken.len() == 8 && taken.concat().contains(&(3, 1)), "{taken:?}");
}

#[test]
fn lost_node_is_not_waited_for_in_streams_that_begin_later() {
    let (mut merge, now) = (merge(None), clock::now());
    merge.lose_node(NodeId(4));
    add(&mut merge, 3, 1, &lines(0, 2, "a\n"));
    assert_eq!(passed(&mut merge, now).0, "");
    merge.add_own(1, &lines(0, 0, "a\n"));
    assert_eq!(passed(&mut merge, now).0, "0,2@0:a\n");
}

#[test]
fn job_that_has_ended_is_forgotten_when_nothing_of_it_waits() {
    let mut merge = merge(None);
    add(&mut merge, 3, 1, &lines(0, 2, "a\n"));
    merge.note_job_end(0);
    assert_eq!((merge.streams.len(), merge.jobs.len()), (1, 1));
    add(&mut merge, 3, 2, &end(2));
    add(&mut merge, 4, 1, &end(3));
    merge.add_own(1, &[end(0), end(1), end(4), end(5)].concat());
    assert_eq!((merge.streams.len(), merge.jobs.len()), (0, 0));
    let (text, counts) = passed(&mut merge, clock::now());
    assert!(text.contains("2@0:a\n") && counts.contains(&(3, 2)), "{text}");
}
