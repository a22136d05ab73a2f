//! Tests of merging on nodes of a tree of radix 2: node 1 has the children 3 and 4, and each node one rank.

use super::*;
use crate::placement::tests::placed;
use pmi_host_base::ranges::Ranks;

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
    let places = vec![TextPlace { at, ranks: ranks(&[rank]) }];
    let (stream, text) = (Stream::Out, text.as_bytes());
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
    let (mut merge, now) = (merge(Some(WAIT)), Instant::now());
    add(&mut merge, 3, 1, &lines(0, 2, "a\nb\n"));
    add(&mut merge, 4, 7, &lines(0, 3, "a\nb\n"));
    assert_eq!(passed(&mut merge, now), (String::new(), vec![]));
    merge.add_own(1, &lines(0, 0, "a\nb\n"));
    let expected = ("0,2,3@0:a\nb\n".to_owned(), vec![(1, 1), (3, 1), (4, 7)]);
    assert_eq!(passed(&mut merge, now), expected);
}

#[test]
fn lines_that_differ_keep_their_order_and_positions() {
    let (mut merge, now) = (merge(Some(WAIT)), Instant::now());
    add(&mut merge, 3, 1, &lines(0, 2, "first\na\n"));
    add(&mut merge, 4, 1, &lines(8, 3, "a\n"));
    merge.add_own(1, &lines(6, 0, "a\n"));
    assert_eq!(passed(&mut merge, now).0, "2@0:first\n0,2@6+3@8:a\n");
}

#[test]
fn node_without_lines_is_waited_for_until_its_ranks_end_or_time_is_over() {
    let (mut merge, now) = (merge(Some(WAIT)), Instant::now());
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
    assert_eq!(passed(&mut merge, Instant::now() + WAIT), ("2@0:a\n".into(), vec![(3, 1)]));
}

#[test]
fn batch_counts_when_its_last_line_is_passed_on() {
    let (mut merge, now) = (merge(None), Instant::now());
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
    let (mut merge, now) = (merge(None), Instant::now());
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
    let (mut merge, now) = (merge(None), Instant::now());
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
