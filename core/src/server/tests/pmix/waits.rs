//! Pending operations of PMIx clients that an owner can read.

use super::*;
use crate::ids::ProcId;
use crate::server::pmix::{CollectiveKind, PmixWait};

#[test]
fn get_that_waits_names_the_key_and_the_process() {
    let mut hall = Hall::new(2);
    let job = hall.world.job;
    assert_eq!(hall.view().waits().count(), 0);
    hall.get(0, 1, Some("card"), false);
    hall.get(0, 1, None, false);
    hall.get(1, ranks::UNDEF, Some("any"), false);
    let post = |rank, key| PmixWait::Post { job, rank, key };
    let (first, second) = (ProcId { job, rank: Rank(0) }, ProcId { job, rank: Rank(1) });
    let waits = Vec::from_iter(hall.view().waits());
    let expected = [
        (first, post(Some(Rank(1)), Some(&b"card"[..]))),
        (first, post(Some(Rank(1)), None)),
        (second, post(None, Some(b"any"))),
    ];
    assert_eq!(waits, expected);
    hall.commit(1, "card", &[3]);
    let keys = hall.view().waits().map(|(peer, _)| peer);
    assert_eq!(Vec::from_iter(keys), [second], "both gets of rank 0 have their answers");
}

#[test]
fn fence_of_some_names_who_is_in_it() {
    let mut hall = Hall::new(4);
    let job = hall.world.job;
    // The fence of all ranks is reported by the job itself.
    hall.fence(3, &[WILDCARD], 0);
    assert_eq!(hall.view().waits().count(), 0);
    hall.fence(0, &[0, 1, 2], 0);
    hall.fence(2, &[2, 1, 0], 0);
    let waits = Vec::from_iter(hall.view().waits());
    let [(first, PmixWait::Together { purpose: CollectiveKind::Fence, at }), (second, same)] =
        waits[..]
    else {
        panic!("{waits:?}")
    };
    assert_eq!([first, second], [ProcId { job, rank: Rank(0) }, ProcId { job, rank: Rank(2) }]);
    assert_eq!(waits[0].1, same);
    let who = hall.view().taking_part(at);
    let who: Vec<(u32, bool)> = who.map(|(member, is_in)| (member.rank.0, is_in)).collect();
    assert_eq!(who, [(0, true), (1, false), (2, true)]);
    hall.fence(1, &[0, 1, 2], 0);
    assert_eq!(hall.view().waits().count(), 0);
    assert_eq!(hall.view().taking_part(at).count(), 0);
}
