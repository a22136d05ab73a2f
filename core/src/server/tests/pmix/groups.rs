//! Groups of processes: construction by clients of every release, and destruction.

use super::events::{Said, one_proc, procs, write_infos, yes};
use super::*;
use crate::server::pmix::{CollectiveKind, PmixWait};
use crate::wire::pmix::{Info, List};

/// Content of the answer to a construct request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    members: Vec<u32>,
    pub(super) number: Option<u64>,
    /// Contributions: rank and number.
    brought: Vec<(u32, i64)>,
}

impl Hall {
    /// One client for each release with another layout of the answer, and one of an older release.
    fn of_all_releases() -> Self {
        let mut hall = Self::empty(5);
        for (rank, version) in (0..).zip(["4.2.2rc2", "4.2.4", "5.0.11", "6.0.0", "6.1.0"]) {
            let format = if rank == 1 { FIXED } else { Format::PLAIN };
            hall.join_with(rank, format, version.as_bytes());
        }
        hall
    }

    pub(super) fn construct(&mut self, client: usize, ranks: &[u32], infos: &[Said<'_>]) {
        self.ask(client, Command::GROUP_CONSTRUCT, &|to| {
            to.one(Type::STRING).text(Some(b"ours"));
            write_procs(ranks, to);
            write_infos(infos, to);
        });
    }

    pub(super) fn destruct(&mut self, client: usize, lists: Option<&[u32]>) {
        self.ask(client, Command::GROUP_DESTRUCT, &|to| {
            to.one(Type::STRING).text(Some(b"ours"));
            if let Some(ranks) = lists {
                write_procs(ranks, to);
            }
            to.one(Type::SIZE).size(0);
        });
    }

    /// The only answer, as a client of a release before or after 4.2.4, 6.0 and 6.1 reads it.
    pub(super) fn read(&mut self, client: usize, release: usize) -> Result<Answer, Status> {
        let answers = self.answers(client);
        assert_eq!(answers.len(), 1, "{answers:?}");
        let (body, format) = (&answers[0].1, self.clients[client].1);
        let status = status_of(body, format);
        let mut from = Unpacker::new(body, format);
        from.one(Type::STATUS).unwrap().i32().unwrap();
        if status != Status::SUCCESS {
            assert!(from.is_empty());
            return Err(status);
        }
        let mut answer = Answer { members: vec![], number: None, brought: vec![] };
        if release > 0 {
            let list = List::read(&mut from, Type::PROC).unwrap();
            answer.members = list.procs().map(|proc| proc.rank).collect();
        }
        if release < 2 || from.one(Type::BOOL).unwrap().u8() == Ok(1) {
            answer.number = Some(from.one(Type::SIZE).unwrap().size().unwrap());
        }
        if release > 2 {
            let count = from.one(Type::SIZE).unwrap().size().unwrap();
            let one = |_| {
                let info = Info::read(from.one(Type::INFO).unwrap()).unwrap();
                assert_eq!(info.key, keys::GROUP_INFO);
                let list = info.value.array().unwrap();
                let proc = list.find(keys::PROC_ID).unwrap().proc().unwrap();
                (proc.rank, list.find(b"pmix.grp.lclid").unwrap().number().unwrap())
            };
            answer.brought = (0..count).map(one).collect();
        }
        assert!(from.is_empty());
        Ok(answer)
    }

    /// Stored contributions of a rank: numbers, and the groups that they belong to.
    pub(super) fn brought(
        &mut self,
        client: usize,
        rank: u32,
        group: Option<u64>,
    ) -> Vec<(i64, i64)> {
        self.ask(client, Command::GET, &|to| {
            to.one(Type::STRING).text(Some(NSPACE)).one(Type::PROC_RANK).u32(rank);
            to.one(Type::SIZE).size(1 + u64::from(group.is_some()));
            to.op(Type::INFO, 1 + u32::from(group.is_some()));
            yes(to.text(Some(keys::IMMEDIATE)).u32(0));
            if let Some(group) = group {
                to.text(Some(keys::GROUP_CONTEXT_ID)).u32(8).of(Type::SIZE).size(group);
            }
            to.one(Type::STRING).text(Some(b"pmix.grp.lclid"));
        });
        let (body, format) = (self.answer(client), self.clients[client].1);
        if status_of(&body, format) == Status::NOT_FOUND {
            return vec![];
        }
        let mut from = Unpacker::new(&body, format);
        from.one(Type::STATUS).unwrap().i32().unwrap();
        let mut from = Unpacker::new(from.one(Type::BYTE_OBJECT).unwrap().blob().unwrap(), format);
        assert_eq!(Proc::read(from.one(Type::PROC).unwrap()).unwrap().rank, rank);
        let number = |kval: crate::wire::pmix::Kval<'_>| {
            assert_eq!(kval.key, keys::QUALIFIED_VALUE);
            let list = kval.value.array().unwrap();
            let flags: Vec<u32> = list.infos().map(|info| info.flags).collect();
            assert_eq!(flags, [0, 8]);
            let number = |key| list.find(key).unwrap().number().unwrap();
            (number(b"pmix.grp.lclid"), number(keys::GROUP_CONTEXT_ID))
        };
        Kvals::after(from).map(|kval| number(kval.unwrap())).collect()
    }
}

fn write_procs(ranks: &[u32], to: &mut Packer<'_>) {
    to.one(Type::SIZE).size(ranks.len() as u64);
    if !ranks.is_empty() {
        to.op(Type::PROC, count(ranks.len()));
    }
    ranks.iter().for_each(|rank| Proc { nspace: NSPACE, rank: *rank }.write(to));
}

/// Contribution of a client: a number and, in newer releases, the name of the process in front.
pub(super) fn bring(number: u64, rank: Option<u32>, to: &mut Packer<'_>) {
    to.of(Type::DATA_ARRAY).of(Type::INFO).size(1 + u64::from(rank.is_some()));
    if let Some(rank) = rank {
        one_proc(rank, to.text(Some(keys::PROC_ID)).u32(0));
    }
    to.text(Some(b"pmix.grp.lclid")).u32(0).of(Type::SIZE).size(number);
}

#[test]
fn group_is_made_when_all_have_come_and_each_is_told_as_it_reads_it() {
    let mut hall = Hall::of_all_releases();
    for round in 1..=2 {
        for client in 0..5 {
            let ranks = if client == 2 { &[4, 3, 2, 1, 0][..] } else { &[WILDCARD] };
            let own = (client == 4).then_some(4);
            let brings = |to: &mut Packer<'_>| bring(round * 10 + client as u64, own, to);
            let wants: Said<'_> = (keys::GROUP_ASSIGN_CONTEXT_ID, &yes);
            let infos = [(keys::GROUP_INFO, &brings as _), wants];
            assert_eq!(hall.answers(0), []);
            hall.construct(client, ranks, if client == 1 { &[] } else { &infos });
        }
        for (client, release) in [(0, 0), (1, 1), (2, 1), (3, 2), (4, 3)] {
            let answer = hall.read(client, release).unwrap();
            let members = if release > 0 { vec![0, 1, 2, 3, 4] } else { vec![] };
            let brought =
                [0, 2, 3, 4].map(|rank: u32| (rank, (round * 10) as i64 + i64::from(rank)));
            let brought = if release > 2 { brought.to_vec() } else { vec![] };
            assert_eq!(answer, Answer { members, number: Some(round), brought });
        }
        // The same name again, while the group is there.
        hall.construct(3, &[WILDCARD], &[]);
        assert_eq!(hall.read(3, 2), Err(Status::EXISTS));
        for client in 0..5 {
            assert_eq!(hall.answers(0), []);
            hall.destruct(client, (client > 0).then_some(&[0, 1, 2, 3, 4]));
        }
        (0..5).for_each(|client| assert_eq!(hall.answers(client).len(), 1));
        hall.destruct(0, None);
        assert_eq!(hall.status(0), Status::NOT_FOUND);
    }
    // The contributions stay, qualified by the group.
    assert_eq!(hall.brought(0, 3, Some(1)), [(13, 1)]);
    assert_eq!(hall.brought(1, 4, Some(2)), [(24, 2)]);
    assert_eq!(hall.brought(0, 3, None), [(13, 1), (23, 2)]);
    assert_eq!(hall.brought(0, 3, Some(3)), []);
    assert_eq!(hall.brought(0, 1, Some(1)), []);
}

#[test]
fn group_without_a_number_says_so() {
    let mut hall = Hall::of_all_releases();
    (0..5).for_each(|client| hall.construct(client, &[WILDCARD], &[]));
    for (client, release, number) in
        [(0, 0, Some(u64::MAX)), (1, 1, Some(u64::MAX)), (3, 2, None), (4, 3, None)]
    {
        assert_eq!(hall.read(client, release).unwrap().number, number);
    }
}

#[test]
fn group_is_made_of_leaders_and_of_those_that_they_add() {
    let mut hall = Hall::empty(5);
    for rank in 0..5 {
        hall.join_with(rank, Format::PLAIN, b"6.1.0");
    }
    let two = |to: &mut Packer<'_>| {
        to.of(Type::SIZE).size(2);
    };
    let (third, fourth) =
        (|to: &mut Packer<'_>| procs(&[3], to), |to: &mut Packer<'_>| procs(&[4, 0], to));
    hall.construct(4, &[], &[]);
    hall.construct(0, &[0], &[(keys::GROUP_BOOTSTRAP, &two), (keys::GROUP_ADD_MEMBERS, &third)]);
    hall.construct(1, &[1], &[(keys::GROUP_BOOTSTRAP, &two), (keys::GROUP_ADD_MEMBERS, &fourth)]);
    // A process that no leader has added does not join.
    hall.construct(2, &[], &[]);
    (0..5).for_each(|client| assert_eq!(hall.answers(client), []));
    let Some((_, PmixWait::Together { purpose: CollectiveKind::Bootstrap, at })) =
        hall.view().waits().next()
    else {
        panic!("they wait together")
    };
    assert_eq!(hall.view().group_name(at), Some(&b"ours"[..]));
    let who = hall.view().taking_part(at);
    let missing: Vec<u32> =
        who.filter(|(_, is_in)| !is_in).map(|(member, _)| member.rank.0).collect();
    assert_eq!(missing, [3]);
    hall.construct(3, &[], &[]);
    for client in [0, 1, 3, 4] {
        assert_eq!(hall.read(client, 3).unwrap().members, [0, 1, 3, 4]);
    }
    assert_eq!(hall.read(2, 3), Err(Status::BAD_PARAM));
    // The same if it comes late, unless leaders construct another group of the name.
    hall.construct(2, &[], &[]);
    assert_eq!(hall.read(2, 3), Err(Status::BAD_PARAM));
    for client in 0..5 {
        hall.destruct(client, (client != 2).then_some(&[0, 1, 3, 4]));
    }
    (0..5).for_each(|client| drop(hall.answers(client)));
    hall.construct(2, &[], &[]);
    assert_eq!(hall.answers(2), []);
    let add = |to: &mut Packer<'_>| procs(&[2], to);
    hall.construct(0, &[0], &[(keys::GROUP_BOOTSTRAP, &two), (keys::GROUP_ADD_MEMBERS, &add)]);
    hall.construct(1, &[1], &[(keys::GROUP_BOOTSTRAP, &two)]);
    assert_eq!(hall.read(2, 3).unwrap().members, [0, 1, 2]);
}

#[test]
fn group_is_made_without_those_that_are_gone_if_that_is_wanted() {
    for (key, made) in [
        (keys::TIMEOUT, Err(Status::PARTIAL_SUCCESS)),
        (keys::GROUP_OPTIONAL, Ok(vec![0, 2])),
        (keys::GROUP_FT_COLLECTIVE, Ok(vec![0, 2])),
    ] {
        let mut hall = Hall::empty(3);
        for rank in 0..3 {
            hall.join_with(rank, Format::PLAIN, b"5.0.11");
        }
        hall.construct(0, &[0, 1, 2], &[(key, &yes)]);
        hall.construct(2, &[0, 1, 2], &[(key, &yes)]);
        assert_eq!(hall.answers(0), []);
        hall.end(1);
        for client in [0, 2] {
            assert_eq!(hall.read(client, 1).map(|answer| answer.members), made);
        }
    }
}

#[test]
fn group_that_waits_too_long_is_none() {
    let mut hall = Hall::new(3);
    let five = |to: &mut Packer<'_>| {
        to.of(Type::UINT32).u32(5);
    };
    for ranks in [&[0, 1][..], &[]] {
        hall.construct(0, ranks, &[(keys::TIMEOUT, &five)]);
        hall.late(5);
        assert_eq!(hall.read(0, 0), Err(Status::TIMEOUT));
    }
    hall.construct(0, &[0, 9], &[]);
    assert_eq!(hall.read(0, 0), Err(Status::NOT_FOUND));
    hall.construct(0, &[1, 2], &[]);
    assert_eq!(hall.read(0, 0), Err(Status::BAD_PARAM));
}

#[test]
fn groups_and_their_members_are_known_to_all_clients() {
    let mut hall = Hall::new(3);
    hall.construct(0, &[0, 2], &[]);
    hall.construct(2, &[0, 2], &[]);
    let keys = [keys::QUERY_NUM_GROUPS, keys::QUERY_GROUP_NAMES, keys::QUERY_GROUP_MEMBERSHIP];
    hall.query(1, &[(&keys, &[(keys::GROUP_NAME, "ours")])]);
    let known = ["pmix.qry.pgrpnum=1", "pmix.qry.pgrp='ours'", "pmix.qry.pgrpmems=[0][2]"];
    assert_eq!(hall.entries(1), (Status::SUCCESS, known.map(String::from).to_vec()));
    hall.query(1, &[(&keys[2..], &[(keys::GROUP_NAME, "theirs")])]);
    assert_eq!(hall.entries(1).0, Status::NOT_FOUND);
}

#[test]
fn members_learn_who_leaves_and_who_ends() {
    let mut hall = Hall::new(4);
    let watched: [Said<'_>; 1] = [(keys::GROUP_NOTIFY_TERMINATION, &yes)];
    (0..4).for_each(|client| assert_eq!(hall.register(client, &[], &[]), Status::SUCCESS));
    (0..4).for_each(|client| hall.construct(client, &[WILDCARD], &watched));
    (0..4).for_each(|client| drop(hall.read(client, 0).unwrap()));
    hall.destruct(0, None);
    hall.destruct(1, None);
    let leave = |to: &mut Packer<'_>| {
        to.one(Type::STRING).text(Some(b"ours")).one(Type::SIZE).size(0);
    };
    hall.ask(3, Command::GROUP_LEAVE, &leave);
    assert_eq!(hall.status(3), Status::SUCCESS);
    hall.ask(3, Command::GROUP_LEAVE, &leave);
    assert_eq!(hall.status(3), Status::NOT_FOUND);
    let keys = || vec!["pmix.evrange".into(), "pmix.grp.id".into(), "pmix.evproc".into()];
    assert_eq!(hall.told(2), [(-160, 3, keys())]);
    hall.end(2);
    // Members that waited for the departed one are answered.
    for client in 0..2 {
        let answers = hall.answers(client);
        assert_eq!(answers.len(), 3);
        assert_eq!(status_of(&answers[2].1, Format::PLAIN), Status::PARTIAL_SUCCESS);
        hall.received = vec![(client, answers[..2].to_vec())];
        assert_eq!(hall.told(client), [(-160, 3, keys()), (-170, 2, keys())]);
    }
}

#[test]
fn contributions_to_many_groups_are_kept_for_the_last_ones() {
    let mut hall = Hall::new(1);
    for round in 0..40 {
        let brings = |to: &mut Packer<'_>| bring(round, None, to);
        let infos: [Said<'_>; 2] =
            [(keys::GROUP_INFO, &brings), (keys::GROUP_ASSIGN_CONTEXT_ID, &yes)];
        hall.construct(0, &[0], &infos);
        assert_eq!(hall.read(0, 0).unwrap().number, Some(round + 1));
        hall.destruct(0, None);
        assert_eq!(hall.status(0), Status::SUCCESS);
    }
    assert_eq!(hall.brought(0, 0, Some(40)), [(39, 40)]);
    assert_eq!(hall.brought(0, 0, Some(1)), []);
}

/// Both clients have one answer, and it is a good one.
#[track_caller]
fn all_end_well(hall: &mut Hall, clients: [usize; 2]) {
    for client in clients {
        let format = hall.clients[client].1;
        let answers = hall.answers(client);
        let status: Vec<Status> = answers.iter().map(|(_, body)| status_of(body, format)).collect();
        assert_eq!(status, [Status::SUCCESS], "of client {client}");
    }
}

#[test]
fn fence_names_members_by_their_group_and_no_outsider() {
    let mut hall = Hall::new(4);
    let by_name = |hall: &mut Hall, client: usize, places: &[u32]| {
        hall.ask(client, Command::FENCE, &|to| {
            let count = u32::try_from(places.len()).unwrap();
            to.one(Type::SIZE).size(count.into()).op(Type::PROC, count);
            places.iter().for_each(|place| Proc { nspace: b"ours", rank: *place }.write(to));
            to.one(Type::SIZE).size(0);
        });
    };
    for client in [1, 3] {
        hall.construct(client, &[1, 3], &[]);
    }
    all_end_well(&mut hall, [1, 3]);
    // All of it, place by place, and as the list that it stands for, are the same fence.
    for other in [&[WILDCARD][..], &[1, 0]] {
        by_name(&mut hall, 1, &[WILDCARD]);
        assert_eq!(hall.answers(1), []);
        by_name(&mut hall, 3, other);
        all_end_well(&mut hall, [1, 3]);
    }
    by_name(&mut hall, 3, &[WILDCARD]);
    hall.fence(1, &[3, 1], 0);
    all_end_well(&mut hall, [1, 3]);
    // There is no third place, and the length of a list is bounded.
    for places in [vec![0, 2], vec![WILDCARD; 65]] {
        by_name(&mut hall, 1, &places);
        assert_eq!(hall.status(1), Status::NOT_FOUND);
    }
    by_name(&mut hall, 0, &[WILDCARD]);
    assert_eq!(hall.status(0), Status::NOT_FOUND);
}

#[test]
fn fence_of_a_group_of_all_is_that_of_the_job() {
    let mut hall = Hall::new(2);
    for client in 0..2 {
        hall.construct(client, &[WILDCARD], &[]);
    }
    all_end_well(&mut hall, [0, 1]);
    hall.fence(0, &[WILDCARD], 0);
    hall.ask(1, Command::FENCE, &|to| {
        to.one(Type::SIZE).size(1).one(Type::PROC);
        Proc { nspace: b"ours", rank: WILDCARD }.write(to);
        to.one(Type::SIZE).size(0);
    });
    all_end_well(&mut hall, [0, 1]);
}

// Coverage: X2-8
#[test]
fn group_of_the_ranks_of_a_node_has_those_as_members() {
    let mut hall = Hall::empty(4);
    for rank in 0..4 {
        hall.join_with(rank, Format::PLAIN, b"4.2.4");
    }
    for client in [0, 2, 1] {
        hall.construct(client, &[ranks::LOCAL_PEERS], &[]);
    }
    assert_eq!([0, 1].map(|client| hall.read(client, 1).unwrap().members), [[0, 1], [0, 1]]);
    assert_eq!(hall.answers(2), []);
    hall.construct(3, &[2, 3], &[]);
    assert_eq!([2, 3].map(|client| hall.read(client, 1).unwrap().members), [[2, 3], [2, 3]]);
}
