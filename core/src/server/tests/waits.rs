//! Pending operations that an owner can read.

use super::*;

impl TestServer {
    fn waits(&self, rank: usize) -> Vec<Wait<'_>> {
        self.server.waits(self.sessions[rank]).collect()
    }

    fn moved(&self) -> Option<u64> {
        self.server.job(self.job).unwrap().last_progress().map(Instant::as_micros)
    }

    fn say_at(&mut self, micros: u64, rank: usize, line: &str) {
        let mut session = self.server.session(self.sessions[rank]).unwrap();
        session.handle_input(Instant::from_micros(micros), line.as_bytes()).unwrap();
    }
}

fn ranks(found: impl Iterator<Item = Rank>) -> Vec<u32> {
    found.map(|rank| rank.0).collect()
}

#[test]
fn members_in_a_fence_wait_until_it_has_ended() {
    let mut world = TestServer::new(3);
    world.init_all();
    assert_eq!(world.waits(0), []);
    world.request(0, "cmd=barrier_in\n");
    world.request(2, "cmd=barrier_in\n");
    assert_eq!(world.waits(0), [Wait::Fence(0)]);
    assert_eq!(world.waits(1), []);
    assert_eq!(ranks(world.server.job(world.job).unwrap().missing()), [1]);
    // The answers are not read yet, but no rank waits for others any more.
    world.send(1, "cmd=barrier_in\n").unwrap();
    assert!((0..3).all(|rank| world.waits(rank).is_empty()));
}

#[test]
fn ranks_that_a_group_lacks_are_told() {
    let mut world = TestServer::new(4);
    for rank in 0..4 {
        world.request(rank, "cmd=init pmi_version=1 pmi_subversion=2\n");
    }
    world.request(0, "cmd=barrier_in group=0,2,3\n");
    let Some(Wait::Group(group)) = world.waits(0).first().copied() else { panic!("it waits") };
    assert_eq!(ranks(world.server.missing_from_group(world.job, group)), [2, 3]);
    world.request(3, "cmd=barrier_in group=0,2,3\n");
    assert_eq!(ranks(world.server.missing_from_group(world.job, group)), [2]);
}

#[test]
fn messages_are_counted() {
    let mut world = TestServer::new(1);
    let count = |world: &TestServer| {
        world.server.job(world.job).unwrap().member(Rank(0)).unwrap().request_count()
    };
    assert_eq!(count(&world), 0);
    world.init_all();
    world.request(0, "cmd=get_maxes\n");
    assert_eq!(count(&world), 2);
}

#[test]
fn looking_moves_nothing() {
    let mut world = TestServer::new(2);
    world.say_at(10, 0, "cmd=init pmi_version=1 pmi_subversion=1\n");
    assert_eq!(world.moved(), Some(10));
    world.recv(0);
    world.say_at(20, 0, "cmd=get kvsname=kvs_1 key=nothing\n");
    world.recv(0);
    assert_eq!(world.moved(), Some(10));
    world.say_at(30, 0, "cmd=put kvsname=kvs_1 key=a value=b\n");
    assert_eq!(world.moved(), Some(30));
}
