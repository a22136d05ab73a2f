use super::*;
use crate::other_runs::ConnectResult;
use crate::other_runs::tests::part;

/// Jobs `a`, `b` and `c` of the launchers 1, 2 and 3, with 3, 3 and 1 ranks.
fn connects() -> Connects {
    let mut connects = Connects::default();
    for (link, nspace, size) in [(1, "a", 3), (2, "b", 3), (3, "c", 1)] {
        connects.start_job(link, nspace.into(), size);
    }
    connects
}

fn encoded(part: &ConnectPart) -> Vec<u8> {
    postcard::to_stdvec(part).unwrap()
}

impl Connects {
    /// Adds the part of a launcher that has these ranks of its job, and lists those of others.
    fn send(&mut self, link: u32, ranks: u32, others: &[(&str, Option<u32>)]) -> Vec<ConnectDue> {
        let nspace = ["a", "b", "c"][link as usize - 1];
        self.add((link, 7), &encoded(&part(nspace, ranks, others)))
    }
}

/// Namespaces that a result hands to a launcher.
#[track_caller]
fn received(due: &ConnectDue, link: u32) -> Vec<Vec<u8>> {
    let ConnectDue::Connected(query, content) = due else { panic!("{due:?}") };
    assert_eq!(*query, (link, 7));
    let result: ConnectResult = postcard::from_bytes(content).unwrap();
    assert!(!result.is_partial && result.jobs.iter().all(|job| job.data == [7; 3]));
    result.jobs.into_iter().map(|job| job.nspace).collect()
}

fn failed(link: u32, status: Status) -> ConnectDue {
    ConnectDue::Failed((link, 7), status)
}

#[test]
fn parts_of_two_launchers_are_handed_over_in_any_order() {
    for order in [[1, 2], [2, 1]] {
        let mut connects = connects();
        for link in order {
            let due = match link {
                1 => connects.send(1, 3, &[("b", Some(2))]),
                _ => connects.send(2, 2, &[("a", None)]),
            };
            if link == order[0] {
                assert_eq!(due, []);
                continue;
            }
            assert_eq!(received(&due[0], order[0]), [[b"b", b"a"][order[0] as usize - 1]]);
            assert_eq!(received(&due[1], order[1]), [[b"b", b"a"][order[1] as usize - 1]]);
        }
        assert!(connects.open.is_empty());
        // Each launcher receives one notice of the end of the job of the other.
        assert_eq!(connects.end_job(2, b"b"), [ConnectDue::Ended(1, b"b".to_vec())]);
        assert_eq!(connects.end_session(2), []);
        assert_eq!(connects.end_session(1), []);
    }
}

#[test]
fn three_launchers_meet_and_others_beside_them() {
    let mut connects = connects();
    let due = connects.add((1, 8), &encoded(&part("a", 3, &[("b", None)])));
    assert_eq!(due, []);
    assert_eq!(connects.send(1, 3, &[("b", None), ("c", Some(1))]), []);
    assert_eq!(connects.send(3, 1, &[("b", None), ("a", None)]), []);
    let due = connects.send(2, 2, &[("c", None), ("a", Some(3))]);
    assert_eq!(received(&due[0], 1), [b"c", b"b"]);
    assert_eq!(received(&due[1], 3), [b"a", b"b"]);
    assert_eq!(received(&due[2], 2), [b"a", b"c"]);
    assert_eq!(connects.open.len(), 1, "that of two of them");
    let mut lacking = part("b", 2, &[("a", None)]);
    lacking.is_partial = true;
    let due = connects.add((2, 9), &encoded(&lacking));
    let ConnectDue::Connected((1, 8), content) = &due[0] else { panic!("{due:?}") };
    assert!(postcard::from_bytes::<ConnectResult>(content).unwrap().is_partial);
}

#[test]
fn operation_fails_with_the_end_of_a_launcher_of_a_job_or_of_a_member() {
    let lost = [failed(1, Status::LOST_CONNECTION)];
    let opened = || {
        let mut connects = connects();
        assert_eq!(connects.send(1, 3, &[("b", Some(2)), ("c", Some(1))]), []);
        assert_eq!(connects.send(2, 2, &[("a", Some(3)), ("c", Some(1))]), []);
        connects
    };
    let both = [lost[0].clone(), failed(2, Status::LOST_CONNECTION)];
    // One that has sent no part, and one that has.
    assert_eq!(opened().end_session(3), both);
    assert_eq!(opened().end_session(2), lost);
    assert_eq!(opened().end_job(3, b"c"), both);
    assert_eq!(opened().end_rank(3, b"c", 0), both);
    assert_eq!(opened().end_rank(2, b"b", 1), both);
    // Others may come, or are no members.
    let mut connects = opened();
    assert_eq!(connects.end_rank(2, b"b", 2), []);
    assert_eq!(connects.end_rank(1, b"c", 0), []);
    assert_eq!(connects.end_job(1, b"c"), []);
    assert_eq!(connects.open.len(), 1);
    // A member has ended before the part that names it.
    assert_eq!(connects.end_rank(3, b"c", 0), both);
    assert_eq!(connects.send(1, 3, &[("c", Some(1))]), lost);
    assert_eq!(connects.send(1, 3, &[("c", None)]), lost);
    assert!(connects.open.is_empty());
}

#[test]
fn withdrawn_part_is_awaited_again() {
    let mut connects = connects();
    assert_eq!(connects.send(1, 3, &[("b", None)]), []);
    assert!(connects.withdraw((1, 7)) && !connects.withdraw((1, 7)));
    assert_eq!(connects.send(2, 2, &[("a", None)]), []);
    assert!(!connects.withdraw((1, 7)));
    assert_eq!(connects.send(1, 3, &[("b", None)]).len(), 2);
    assert!(!connects.withdraw((1, 7)) && connects.open.is_empty());
}

#[test]
fn part_of_processes_that_no_launcher_has_is_refused() {
    let mut connects = connects();
    let absent = [failed(1, Status::NOT_FOUND)];
    assert_eq!(connects.send(1, 3, &[("d", None)]), absent);
    let others = part("b", 2, &[("c", None)]);
    assert_eq!(connects.add((1, 7), &encoded(&others)), absent, "a job of another launcher");
    let mut both = part("a", 3, &[("b", None)]);
    both.others.push((b"a".to_vec(), None));
    let invalid = [failed(1, Status::BAD_PARAM)];
    assert_eq!(connects.add((1, 7), &encoded(&both)), invalid, "a job on both sides");
    // A launcher cannot take the job of another one.
    connects.start_job(1, b"b".to_vec(), 1);
    assert_eq!(connects.send(1, 3, &[("b", None)]), []);
}

#[test]
fn malformed_and_long_parts_are_refused() {
    let mut connects = connects();
    let invalid = [failed(1, Status::BAD_PARAM)];
    let whole = encoded(&part("a", 3, &[("b", None)]));
    for len in 0..whole.len() {
        assert_eq!(connects.add((1, 7), &whole[..len]), invalid, "{len} bytes");
    }
    let more = [&whole[..], &[0]].concat();
    assert_eq!(connects.add((1, 7), &more), invalid, "bytes behind it");
    let mut wrong = whole;
    wrong[0] = 3;
    assert_eq!(connects.add((1, 7), &wrong), invalid, "no kind");
    for others in [0, NAMESPACES_MAX + 1] {
        let mut wrong = part("a", 3, &[]);
        wrong.others = (0..others).map(|other| (other.to_string().into_bytes(), None)).collect();
        assert_eq!(connects.add((1, 7), &encoded(&wrong)), invalid, "{others} others");
    }
    // Each fits, and both together do not.
    let long = |nspace, other| {
        let mut long = part(nspace, 2, &[(other, Some(2))]);
        long.own[0].data = vec![7; CONNECT_BYTES / 2];
        encoded(&long)
    };
    assert_eq!(connects.add((1, 7), &long("a", "b")), []);
    let full = |link| failed(link, Status::OUT_OF_RESOURCE);
    assert_eq!(connects.add((2, 7), &long("b", "a")), [full(1), full(2)]);
    assert!(connects.open.is_empty());
}

#[test]
fn number_of_operations_and_their_bytes_are_bounded() {
    let mut connects = connects();
    let full = |due: Vec<ConnectDue>| match &*due {
        [ConnectDue::Failed(_, Status::OUT_OF_RESOURCE)] => true,
        [] => false,
        other => panic!("{other:?}"),
    };
    let mut long = part("a", 3, &[("b", None)]);
    long.own[0].data = vec![7; CONNECT_BYTES - 100];
    let long = encoded(&long);
    let held = (0..).find(|query| full(connects.add((1, *query), &long))).unwrap();
    assert_eq!(usize::try_from(held).unwrap(), HELD_BYTES / long.len());
    connects.end_session(1);
    assert_eq!(connects.open.len(), 0, "they were of a launcher that is gone");
    connects.start_job(1, b"a".to_vec(), 3);
    let short = encoded(&part("a", 3, &[("b", None)]));
    let open = (0..).find(|query| full(connects.add((1, *query), &short))).unwrap();
    assert_eq!(usize::try_from(open).unwrap(), OPEN_MAX);
}
