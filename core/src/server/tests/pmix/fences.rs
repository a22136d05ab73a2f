//! Fences of all, of some, and of several jobs.

use super::*;

#[test]
fn fence_of_all_is_that_of_ranks_of_every_generation() {
    let mut hall = Hall::empty(3);
    let peer = Peer::Member { job: hall.world.job, rank: Rank(2) };
    let session = hall.world.server.open(peer, Inbox::new(), [const { None }; 4]).unwrap();
    hall.world.sessions = vec![session; 3];
    hall.world.request(2, "cmd=init pmi_version=1 pmi_subversion=1\n");
    let (one, other) = (hall.join(0, Format::PLAIN), hall.join(1, FIXED));
    for _ in 0..2 {
        hall.fence(one, &[WILDCARD], 0);
        assert_eq!(hall.world.missing(), [1, 2]);
        // One by one they are the same as all of them.
        hall.fence(other, &[2, 0, 1], 0);
        assert_eq!(hall.answers(other), []);
        assert_eq!(hall.world.request(2, "cmd=barrier_in\n"), "cmd=barrier_out rc=0\n");
        for client in [one, other] {
            let answers = hall.answers(client);
            assert_eq!(status_of(&answers[0].1, hall.clients[client].1), Status::SUCCESS);
        }
    }
    // The PMI rank waits, and the last one to come is a PMIx client.
    assert_eq!(hall.world.request(2, "cmd=barrier_in\n"), "");
    hall.fence(one, &[WILDCARD], 0);
    hall.fence(other, &[WILDCARD], 0);
    assert_eq!(hall.world.recv(2), "cmd=barrier_out rc=0\n");
}

// Coverage: X1-12
#[test]
fn fences_that_are_entered_at_once_end_in_their_order() {
    let mut hall = Hall::new(2);
    let tags = [hall.fence(0, &[WILDCARD], 0), hall.fence(0, &[WILDCARD], 0)];
    for tag in tags {
        assert_eq!(hall.answers(0), []);
        hall.fence(1, &[WILDCARD], 0);
        assert_eq!(hall.status(1), Status::SUCCESS);
        assert_eq!(hall.answers(0), [(tag, vec![2, 0])]);
    }
}

// Coverage: X2-8
#[test]
fn fence_of_the_ranks_of_a_node_waits_for_those_alone() {
    let mut hall = Hall::new(4);
    for set in [ranks::LOCAL_PEERS, ranks::LOCAL_NODE] {
        hall.fence(0, &[set], 0);
        hall.fence(2, &[set], 0);
        assert_eq!((hall.answers(0), hall.answers(2)), (vec![], vec![]));
        // One by one they are the same.
        hall.fence(1, &[1, 0], 0);
        assert_eq!(hall.status(1), Status::SUCCESS);
        assert_eq!(hall.answers(0).len(), 1);
        assert_eq!(hall.answers(2), []);
        hall.fence(3, &[set], 0);
        assert_eq!(hall.status(3), Status::SUCCESS);
        assert_eq!(hall.answers(2).len(), 1);
    }
    // A rank is listed twice.
    hall.fence(0, &[ranks::LOCAL_PEERS, 1], 0);
    assert_eq!(hall.status(0), Status::BAD_PARAM);
    // On one node they are the job.
    let mut hall = Hall::new(2);
    hall.fence(0, &[ranks::LOCAL_PEERS], 0);
    hall.fence(1, &[WILDCARD], 0);
    assert_eq!(hall.status(1), Status::SUCCESS);
    assert_eq!(hall.answers(0).len(), 1);
}

#[test]
fn fence_requested_ahead_is_entered_when_the_one_before_ends() {
    let mut hall = Hall::new(2);
    hall.fence(0, &[WILDCARD], 0);
    hall.fence(0, &[WILDCARD], 0);
    hall.now = NOW.plus(Duration::from_secs(30));
    hall.fence(1, &[WILDCARD], 0);
    assert_eq!(hall.status(1), Status::SUCCESS);
    let fence = hall.world.server.job(hall.world.job).unwrap().fence();
    assert_eq!((fence.inside(), fence.since()), (1, Some(hall.now)));
    let job = hall.world.server.job(hall.world.job).unwrap();
    assert_eq!(job.last_progress(), Some(hall.now));
}

#[test]
fn fence_requested_ahead_of_one_that_timed_out_is_entered_as_well() {
    let mut hall = Hall::new(2);
    let tags = [hall.fence(0, &[WILDCARD], 5), hall.fence(0, &[WILDCARD], 0)];
    hall.late(5);
    let answers = hall.answers(0);
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].0, tags[0]);
    assert_eq!(status_of(&answers[0].1, Format::PLAIN), Status::TIMEOUT);
    hall.fence(1, &[WILDCARD], 0);
    assert_eq!(hall.status(1), Status::SUCCESS);
    assert_eq!(hall.answers(0), [(tags[1], vec![2, 0])]);
}

#[test]
fn fence_that_a_pmix_rank_completes_is_handed_up() {
    let mut hall = Hall::with_uplink(2);
    hall.fence(0, &[WILDCARD], 0);
    assert_eq!(hall.world.server.poll_event(), None);
    hall.fence(1, &[WILDCARD], 0);
    let handed_up = Event::FenceHandedUp { job: hall.world.job, generation: 0 };
    assert_eq!(hall.world.server.poll_event(), Some(handed_up));
    assert_eq!(hall.world.server.poll_event(), None);
    assert_eq!((hall.answers(0), hall.answers(1)), (vec![], vec![]));
    hall.world.server.end_fence(hall.world.job).unwrap();
    assert_eq!(hall.status(1), Status::SUCCESS);
    assert_eq!(hall.answers(0).len(), 1);
}

#[test]
fn fence_ends_without_those_that_are_gone_and_says_so() {
    let mut hall = Hall::new(3);
    hall.fence(0, &[WILDCARD], 0);
    hall.end(2);
    assert_eq!(hall.answers(0), []);
    hall.fence(1, &[WILDCARD], 0);
    assert_eq!(hall.status(1), Status::PARTIAL_SUCCESS);
    let answers = hall.answers(0);
    assert_eq!(status_of(&answers[0].1, Format::PLAIN), Status::PARTIAL_SUCCESS);
    assert_eq!(hall.world.server.poll_event(), None, "no rank is stuck");
    // The other way round: all others are inside when it goes.
    hall.fence(0, &[0, 1], 0);
    assert_eq!(hall.answers(0), []);
    hall.end(1);
    let answers = hall.answers(0);
    assert_eq!(status_of(&answers[0].1, Format::PLAIN), Status::PARTIAL_SUCCESS);
}

#[test]
fn fence_that_waits_too_long_lets_all_out_who_are_in_it() {
    for procs in [&[WILDCARD][..], &[0, 1]] {
        let mut hall = Hall::new(3);
        hall.fence(0, procs, 5);
        hall.late(5);
        assert_eq!(hall.status(0), Status::TIMEOUT);
        assert_eq!(hall.world.missing(), [0, 1, 2]);
        // The state is as if no rank had entered.
        for client in 0..procs.len().max(2) + usize::from(procs == [WILDCARD]) {
            hall.fence(client, procs, 5);
        }
        assert_eq!(hall.answers(0).len(), 1);
    }
}

#[test]
fn fence_of_some_is_told_apart_by_who_takes_part() {
    let mut hall = Hall::new(3);
    hall.fence(0, &[0, 1], 0);
    hall.fence(2, &[1, 2], 0);
    hall.fence(1, &[2, 1], 0);
    assert_eq!(hall.status(1), Status::SUCCESS);
    assert_eq!((hall.answers(2).len(), hall.answers(0).len()), (1, 0));
    hall.fence(1, &[1, 0], 0);
    assert_eq!(hall.status(1), Status::SUCCESS);
    assert_eq!(hall.answers(0).len(), 1);
    // A rank outside the list cannot enter, and a rank that does not exist keeps no other waiting.
    hall.fence(2, &[0, 1], 0);
    assert_eq!(hall.status(2), Status::BAD_PARAM);
    hall.fence(2, &[2, 3], 0);
    assert_eq!(hall.status(2), Status::NOT_FOUND);
}

#[test]
fn child_that_comes_for_its_rank_as_well_is_no_other_process() {
    let mut hall = Hall::new(3);
    let child = hall.join(0, Format::PLAIN);
    hall.fence(0, &[0, 1], 0);
    hall.fence(child, &[0, 1], 0);
    assert_eq!((hall.answers(0), hall.answers(child)), (vec![], vec![]));
    hall.fence(1, &[0, 1], 0);
    assert_eq!(hall.status(1), Status::SUCCESS);
    assert_eq!((hall.answers(0).len(), hall.answers(child).len()), (1, 1));
    // The same beside one that is gone.
    hall.end(2);
    let fence = |hall: &mut Hall, client| {
        hall.ask(client, Command::CONNECT, &|to| {
            to.one(Type::SIZE).size(1).one(Type::PROC);
            Proc { nspace: NSPACE, rank: WILDCARD }.write(to);
            to.one(Type::SIZE).size(0);
        });
    };
    fence(&mut hall, 0);
    fence(&mut hall, child);
    assert_eq!((hall.answers(0), hall.answers(child)), (vec![], vec![]));
    fence(&mut hall, 1);
    assert_eq!(hall.status(1), Status::PARTIAL_SUCCESS);
}

impl Hall {
    /// A second job, `kvs_2`, with one client.
    fn with_another_job() -> (Self, JobId) {
        let mut hall = Self::new(1);
        let name = crate::ids::KvsName::new(b"kvs_2").unwrap();
        let spec =
            JobSpec { name, spawner: None, universe_size: None, size: None, has_uplink: false };
        let other = hall.world.add_job(spec, vec![Member::new(0, 0)]);
        let info = packed(Format::PLAIN, &|to| describe(1, to));
        let posts = vec![RankData::default()];
        hall.server().add_job(other, Block::from_slice(&info).unwrap(), posts).unwrap();
        let id = hall.open();
        hall.clients.push((id, Format::PLAIN));
        hall.hand_in(id, &greeting(b"kvs_2", 0, Format::PLAIN)).unwrap();
        hall.world.server.poll_event();
        hall.server().admit(id).unwrap();
        hall.bytes(id);
        (hall, other)
    }

    /// Both jobs are to connect, or the contrary.
    fn meet(&mut self, client: usize, command: Command) {
        self.ask(client, command, &|to| {
            to.one(Type::SIZE).size(2).op(Type::PROC, 2);
            Proc { nspace: b"kvs_2", rank: WILDCARD }.write(to);
            Proc { nspace: NSPACE, rank: 0 }.write(to);
            to.one(Type::SIZE).size(0);
        });
    }
}

#[test]
fn fence_that_lists_a_process_twice_is_refused_and_waits_for_no_process() {
    let mut hall = Hall::new(3);
    for procs in [&[0, 0][..], &[1, 0, 1], &[0, 1, 1]] {
        hall.fence(0, procs, 0);
        assert_eq!(hall.status(0), Status::BAD_PARAM, "{procs:?}");
    }
    hall.ask(0, Command::CONNECT, &|to| {
        to.one(Type::SIZE).size(2).op(Type::PROC, 2);
        [2, WILDCARD].into_iter().for_each(|rank| Proc { nspace: NSPACE, rank }.write(to));
        to.one(Type::SIZE).size(0);
    });
    assert_eq!(hall.status(0), Status::BAD_PARAM);
    // All ranks of a job are meant, however they are listed.
    for client in 0..3 {
        hall.fence(client, &[WILDCARD, 1], 0);
    }
    assert!((0..3).all(|client| hall.answers(client).len() == 1));
}

#[test]
fn forgotten_jobs_are_not_waited_for() {
    let (mut hall, other) = Hall::with_another_job();
    // It has finalized, and might begin again.
    hall.ask(1, Command::FINALIZE, &|_| {});
    assert_eq!(hall.status(1), Status::SUCCESS);
    hall.meet(0, Command::CONNECT);
    assert_eq!(hall.answers(0), []);
    let id = hall.clients[1].0;
    hall.world.server.close(id);
    hall.world.server.remove_job(other).unwrap();
    assert_eq!(hall.status(0), Status::NOT_FOUND);
    hall.meet(0, Command::CONNECT);
    assert_eq!(hall.status(0), Status::NOT_FOUND);
}

#[test]
fn jobs_that_connect_learn_of_each_other() {
    let (mut hall, other) = Hall::with_another_job();
    for command in [Command::CONNECT, Command::DISCONNECT] {
        for client in 0..2 {
            assert_eq!(hall.answers(0), []);
            hall.meet(client, command);
        }
        for (client, met) in [(0, &b"kvs_2"[..]), (1, NSPACE)] {
            let body = hall.answers(client).remove(0).1;
            let mut from = Unpacker::new(&body, Format::PLAIN);
            assert_eq!(from.one(Type::STATUS).unwrap().i32(), Ok(0));
            if command == Command::DISCONNECT {
                assert!(from.is_empty());
                continue;
            }
            let bytes = from.one(Type::BYTE_OBJECT).unwrap().blob().unwrap();
            let mut object = Unpacker::new(bytes, Format::PLAIN);
            assert_eq!(object.one(Type::STRING).unwrap().text(), Ok(Some(met)));
            assert_eq!((Kvals::after(object).count(), from.is_empty()), (3, true));
        }
        for job in [hall.world.job, other] {
            assert_eq!(hall.world.server.is_connected(job), command == Command::CONNECT);
        }
    }
}

#[test]
fn fences_end_without_a_rank_that_never_came() {
    let mut hall = Hall::empty(3);
    for rank in [1, 2] {
        hall.join(rank, Format::PLAIN);
    }
    hall.world.server.member_gone(hall.world.job, Rank(0));
    for _ in 0..3 {
        let tags = [0, 1].map(|client| hall.fence(client, &[WILDCARD], 0));
        for (client, tag) in tags.into_iter().enumerate() {
            let answers = hall.answers(client);
            assert_eq!(answers.len(), 1, "{answers:?}");
            assert_eq!(answers[0].0, tag);
            assert_eq!(status_of(&answers[0].1, Format::PLAIN), Status::PARTIAL_SUCCESS);
        }
        assert_eq!(hall.world.missing(), [0, 1, 2]);
    }
}
