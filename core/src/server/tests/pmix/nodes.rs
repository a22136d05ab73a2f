//! PMIx clients of a job with ranks on several nodes.

use super::*;
use crate::ids::ProcId;
use crate::server::pmix::{ModexAnswer, ModexRequest};
use crate::store::BlockRecord;
use crate::testkit::kvs::append;

/// Node servers of one job, with the collective operations of the tree between them.
pub(super) struct Nodes {
    pub(super) halls: Vec<Hall>,
}

impl Nodes {
    /// A job of five ranks on two nodes; the rank 4 speaks PMI-1, and the rank 3 another format.
    pub(super) fn new() -> Self {
        let info = packed(Format::PLAIN, &|to| describe(5, to));
        let ranks: [&[u32]; 2] = [&[0, 2, 4], &[1, 3]];
        let halls = ranks.iter().enumerate().map(|(node, ranks)| {
            let spec = JobSpec { size: Some(5), has_uplink: true, ..job_spec(JOB_NAME) };
            let member = |rank: &u32| Member::new(0, count(node)).with_rank(Rank(*rank));
            let world = TestServer::of(spec, ranks.iter().map(member).collect());
            let mut hall = Hall::in_world(world, &info);
            for rank in ranks.iter().filter(|rank| **rank != 4) {
                hall.join(*rank, if *rank == 3 { FIXED } else { Format::PLAIN });
            }
            hall
        });
        let mut nodes = Self { halls: halls.collect() };
        let world = &mut nodes.halls[0].world;
        world.open(Peer::Member { job: world.job, rank: Rank(4) });
        world.init_all();
        nodes
    }

    /// The server of a rank, and the place of its client there.
    pub(super) fn client(&mut self, rank: usize) -> (&mut Hall, usize) {
        (&mut self.halls[rank % 2], rank / 2)
    }

    pub(super) fn commit(&mut self, rank: usize, key: &str, scope: u8) {
        let (hall, client) = self.client(rank);
        assert_eq!(hall.commit(client, key, &[scope]), Status::SUCCESS);
    }

    /// The data of `of` that a rank gets under a key.
    pub(super) fn get(
        &mut self,
        rank: usize,
        of: u32,
        key: &str,
    ) -> Result<(u32, Vec<String>), Status> {
        let (hall, client) = self.client(rank);
        hall.get(client, of, Some(key), true);
        hall.object(client)
    }

    /// The rank, and the key, that a get of a client of this node has to fetch.
    fn request(&mut self, node: usize) -> (u32, Option<String>) {
        let hall = &mut self.halls[node];
        let event = hall.world.server.poll_event();
        let Some(Event::ModexRequested { session }) = event else { panic!("{event:?}") };
        let ModexRequest { proc, key } = hall.view().modex_request(session).unwrap();
        assert_eq!(proc.job, hall.world.job);
        let wanted = (proc.rank.0, key.map(|key| String::from_utf8_lossy(key).into()));
        hall.server().request_read(session);
        assert_eq!(hall.world.server.poll_event(), None);
        wanted
    }

    /// The record of what a rank of a node has committed, `Err(true)` if that may come.
    fn committed(&mut self, node: usize, rank: u32, key: Option<&str>) -> Result<Vec<u8>, bool> {
        let hall = &mut self.halls[node];
        let proc = ProcId { job: hall.world.job, rank: Rank(rank) };
        let key = key.map(str::as_bytes);
        match hall.server().committed(ModexRequest { proc, key }) {
            ModexAnswer::Found(record) => {
                let mut block = Vec::new();
                append(&mut block, &record);
                Ok(block)
            }
            ModexAnswer::Wait => Err(true),
            ModexAnswer::NotFound => Err(false),
        }
    }

    fn add_fetched(&mut self, node: usize, block: &[u8]) {
        let hall = &mut self.halls[node];
        let job = hall.world.job;
        hall.server().add_fetched(job, block).unwrap();
    }

    /// All ranks pass a fence; returns what the nodes have contributed.
    pub(super) fn fence(&mut self) -> Vec<u8> {
        self.fence_with(false)
    }

    /// The same, with data that is kept on its nodes as far as possible.
    fn fence_with(&mut self, is_kept: bool) -> Vec<u8> {
        self.enter();
        for hall in self.halls.iter_mut().filter(|_| is_kept) {
            let job = hall.world.job;
            hall.server().keep_fence_modex(job);
        }
        let block = self.contributions();
        self.add(&block);
        self.end();
        block
    }

    fn enter(&mut self) {
        for rank in 0..4 {
            let (hall, client) = self.client(rank);
            hall.fence(client, &[WILDCARD], 0);
            assert_eq!(hall.answers(client), []);
        }
        assert_eq!(self.halls[0].world.request(0, "cmd=barrier_in\n"), "");
    }

    fn contributions(&mut self) -> Vec<u8> {
        let mut block = Vec::new();
        for hall in &mut self.halls {
            let told = hall.world.server.poll_event();
            assert!(matches!(told, Some(Event::FenceHandedUp { .. })), "{told:?}");
            let (server, job) = (&hall.world.server, hall.world.job);
            server.fence_puts(job).for_each(|record| append(&mut block, &record));
            let pmix = server.pmix_ref();
            pmix.fence_modex(job).for_each(|record| append(&mut block, &record));
        }
        block
    }

    fn add(&mut self, block: &[u8]) {
        for hall in &mut self.halls {
            let job = hall.world.job;
            hall.world.server.add_remote(job, block).unwrap();
            hall.server().add_remote(job, block).unwrap();
        }
    }

    fn end(&mut self) {
        for hall in &mut self.halls {
            hall.world.server.end_fence(hall.world.job).unwrap();
        }
        for rank in 0..4 {
            let (hall, client) = self.client(rank);
            let (answers, format) = (hall.answers(client), hall.clients[client].1);
            assert_eq!(answers.len(), 1);
            assert_eq!(status_of(&answers[0].1, format), Status::SUCCESS);
        }
        assert_eq!(self.halls[0].world.recv(0), "cmd=barrier_out rc=0\n");
    }
}

// Coverage: X1-2, X1-19
#[test]
fn data_of_ranks_on_other_nodes_is_read_after_the_fence() {
    let mut nodes = Nodes::new();
    for rank in 0..4 {
        nodes.commit(rank, "there", scope::REMOTE);
        nodes.commit(rank, "both", scope::GLOBAL);
        nodes.commit(rank, "here", scope::LOCAL);
    }
    assert_eq!(nodes.get(0, 1, "both"), Err(Status::NOT_FOUND));
    nodes.fence();
    for (rank, of) in [(0, 1), (0, 3), (2, 3), (1, 0), (3, 0), (3, 2)] {
        let seen = vec![String::from("there"), "both".into()];
        assert_eq!(nodes.get(rank, of, "both"), Ok((of, seen.clone())), "{rank} of {of}");
        assert_eq!(nodes.get(rank, of, "there"), Ok((of, seen)));
        assert_eq!(nodes.get(rank, of, "here"), Err(Status::NOT_FOUND));
    }
    // Data of the own node is that of its scope.
    assert_eq!(nodes.get(0, 2, "here"), Ok((2, vec!["both".into(), "here".into()])));
    // A rank without data has none on any node.
    assert_eq!(nodes.get(1, 4, "both"), Err(Status::NOT_FOUND));
    // Nothing goes twice, and what was committed later replaces what was there.
    assert_eq!(nodes.fence(), b"");
    nodes.commit(1, "late", scope::GLOBAL);
    assert_eq!(nodes.get(0, 1, "late"), Err(Status::NOT_FOUND));
    nodes.fence();
    let all = vec![String::from("there"), "both".into(), "late".into()];
    assert_eq!(nodes.get(2, 1, "late"), Ok((1, all)));
    assert_eq!(nodes.get(2, 3, "both").unwrap().0, 3);
}

// Coverage: X1-20
#[test]
fn get_of_a_rank_on_another_node_waits_for_the_fence() {
    let mut nodes = Nodes::new();
    nodes.commit(1, "k", scope::GLOBAL);
    // With the rank, and from any rank.
    for of in [1, ranks::UNDEF] {
        let (hall, client) = nodes.client(if of == 1 { 0 } else { 2 });
        hall.get(client, of, Some("k"), false);
        assert_eq!(hall.answers(client), []);
    }
    assert_eq!(nodes.request(0), (1, Some("k".into())));
    // A commit here answers neither.
    nodes.commit(3, "k", scope::LOCAL);
    assert_eq!(nodes.halls[0].world.request(0, "cmd=barrier_in\n"), "");
    for rank in [0, 2, 1, 3] {
        let (hall, client) = nodes.client(rank);
        hall.fence(client, &[WILDCARD], 0);
        assert_eq!(hall.answers(client), []);
    }
    let block = nodes.contributions();
    nodes.add(&block);
    for rank in [0, 2] {
        let (hall, client) = nodes.client(rank);
        let answers = hall.answers(client);
        assert_eq!(answers.len(), 1);
        assert_eq!(object(&answers[0].1, Format::PLAIN), (1, vec!["k".into()]));
    }
    nodes.end();
}

#[test]
fn data_that_is_committed_inside_a_fence_goes_with_the_next() {
    let mut nodes = Nodes::new();
    nodes.enter();
    let block = nodes.contributions();
    nodes.commit(0, "k", scope::GLOBAL);
    nodes.add(&block);
    nodes.end();
    assert_eq!(nodes.get(1, 0, "k"), Err(Status::NOT_FOUND));
    nodes.fence();
    assert_eq!(nodes.get(1, 0, "k"), Ok((0, vec!["k".into()])));
}

// Coverage: X1-23
#[test]
fn pairs_and_data_of_all_generations_go_with_one_fence() {
    let mut nodes = Nodes::new();
    let put = "cmd=put kvsname=kvs_1 key=k value=v\n";
    assert_eq!(nodes.halls[0].world.request(0, put), "cmd=put_result rc=0\n");
    nodes.commit(1, "k", scope::GLOBAL);
    nodes.fence();
    assert_eq!(nodes.get(2, 1, "k"), Ok((1, vec!["k".into()])));
    let hall = &nodes.halls[1];
    let kvs = hall.world.server.job(hall.world.job).unwrap().kvs();
    let found = kvs.find(Keyspace::Remote, b"k").and_then(|id| kvs.entry(id));
    assert_eq!(
        found.map(|entry| (entry.value, entry.visibility.writer())),
        Some((&b"v"[..], Some(Rank(4))))
    );
}

// Coverage: X1-20
#[test]
fn data_is_fetched_without_a_fence() {
    let mut nodes = Nodes::new();
    let hall = &mut nodes.halls[0];
    hall.get(0, 1, Some("k"), false);
    assert_eq!(hall.answers(0), []);
    assert_eq!(nodes.request(0), (1, Some("k".into())));
    // The other node has not committed it; other data is no answer.
    assert_eq!(nodes.committed(1, 1, Some("k")), Err(true));
    nodes.commit(1, "other", scope::GLOBAL);
    let event = nodes.halls[1].world.server.poll_event();
    let job = nodes.halls[1].world.job;
    assert_eq!(event, Some(Event::ModexCommitted { job, rank: Rank(1) }));
    assert_eq!(nodes.committed(1, 1, Some("k")), Err(true));
    nodes.commit(1, "k", scope::GLOBAL);
    assert!(matches!(nodes.halls[1].world.server.poll_event(), Some(Event::ModexCommitted { .. })));
    let block = nodes.committed(1, 1, Some("k")).unwrap();
    // Without a request that waits, commits are no events.
    nodes.commit(1, "late", scope::GLOBAL);
    assert_eq!(nodes.halls[1].world.server.poll_event(), None);
    nodes.add_fetched(0, &block);
    let both = vec![String::from("other"), "k".into()];
    assert_eq!(nodes.halls[0].object(0), Ok((1, both.clone())));
    // It is kept for the other ranks of the node, until a fence brings more.
    assert_eq!(nodes.get(2, 1, "k"), Ok((1, both)));
    nodes.fence();
    assert_eq!(nodes.get(2, 1, "late").unwrap().1.len(), 3);
}

#[test]
fn earlier_data_never_replaces_what_was_fetched() {
    let mut nodes = Nodes::new();
    nodes.commit(1, "k", scope::GLOBAL);
    nodes.enter();
    let block = nodes.contributions();
    // Rank 1 goes on behind a fence that it does not wait for, and its node is asked for the later data.
    let early = nodes.committed(1, 1, Some("k")).unwrap();
    nodes.commit(1, "later", scope::GLOBAL);
    let late = nodes.committed(1, 1, Some("later")).unwrap();
    nodes.add_fetched(0, &late);
    nodes.add(&block);
    nodes.end();
    let all = vec![String::from("k"), "later".into()];
    assert_eq!(nodes.get(0, 1, "later"), Ok((1, all.clone())));
    nodes.add_fetched(0, &early);
    assert_eq!(nodes.get(2, 1, "k"), Ok((1, all)));
}

#[test]
fn data_that_never_comes_is_not_waited_for() {
    let mut nodes = Nodes::new();
    nodes.commit(1, "here", scope::LOCAL);
    // What is for the own node only, ranks that are elsewhere, and ranks that do not exist.
    assert_eq!(nodes.committed(1, 1, Some("here")), Err(false));
    assert_eq!(nodes.committed(1, 0, Some("k")), Err(false));
    assert_eq!(nodes.committed(1, 9, Some("k")), Err(false));
    // A process that ends leaves what it has committed.
    nodes.commit(1, "k", scope::GLOBAL);
    assert_eq!(nodes.committed(1, 1, Some("never")), Err(true));
    let (hall, client) = nodes.client(0);
    hall.get(client, 1, Some("never"), false);
    assert_eq!(nodes.request(0), (1, Some("never".into())));
    nodes.halls[0].get(0, 1, None, false);
    assert_eq!(nodes.request(0), (1, None));
    let (hall, client) = nodes.client(1);
    hall.end(client);
    let (job, id) = (hall.world.job, Rank(1));
    hall.world.server.member_gone(job, id);
    assert_eq!(hall.world.server.poll_event(), Some(Event::ModexCommitted { job, rank: id }));
    assert_eq!(nodes.committed(1, 1, Some("never")), Err(false));
    let block = nodes.committed(1, 1, None).unwrap();
    let hall = &mut nodes.halls[0];
    let proc = ProcId { job: hall.world.job, rank: id };
    hall.server().fail_fetches(proc, |key| key == Some(b"never"));
    assert_eq!(hall.answers(0).len(), 1);
    nodes.add_fetched(0, &block);
    let body = nodes.halls[0].answers(0).remove(0).1;
    assert_eq!(object(&body, Format::PLAIN), (1, vec!["k".into()]));
}

#[test]
fn data_that_a_fence_leaves_is_fetched_and_goes_with_later_ones() {
    let mut nodes = Nodes::new();
    nodes.commit(1, "k", scope::GLOBAL);
    nodes.commit(3, "k", scope::GLOBAL);
    assert_eq!(nodes.fence_with(true), b"");
    // Without a fetch, nothing of the next fence either.
    nodes.commit(3, "k", scope::GLOBAL);
    assert_eq!(nodes.fence_with(true), b"");
    assert_eq!(nodes.get(0, 1, "k"), Err(Status::NOT_FOUND));
    let (hall, client) = nodes.client(0);
    hall.get(client, 1, Some("k"), false);
    assert_eq!(nodes.request(0), (1, Some("k".into())));
    let block = nodes.committed(1, 1, Some("k")).unwrap();
    nodes.add_fetched(0, &block);
    assert_eq!(nodes.halls[0].object(0), Ok((1, vec!["k".into()])));
    // From then on, changes go with the fence, or the other node would keep what it has.
    nodes.commit(1, "k2", scope::GLOBAL);
    nodes.commit(3, "k2", scope::GLOBAL);
    nodes.fence_with(true);
    assert_eq!(nodes.get(2, 1, "k2"), Ok((1, vec!["k".into(), "k2".into()])));
    assert_eq!(nodes.get(2, 3, "k2"), Err(Status::NOT_FOUND));
}

#[test]
fn data_that_a_fence_has_carried_is_carried_again_when_it_changes() {
    let mut nodes = Nodes::new();
    nodes.commit(1, "k", scope::GLOBAL);
    assert_ne!(nodes.fence_with(false), b"");
    nodes.commit(1, "k2", scope::GLOBAL);
    assert_ne!(nodes.fence_with(true), b"");
    assert_eq!(nodes.get(0, 1, "k2"), Ok((1, vec!["k".into(), "k2".into()])));
}

#[test]
fn data_that_changes_while_a_fence_carries_it_goes_with_the_next() {
    let mut nodes = Nodes::new();
    nodes.commit(1, "k", scope::GLOBAL);
    nodes.enter();
    let block = nodes.contributions();
    // Between the entry of the rank and the end of the fence.
    nodes.commit(1, "k2", scope::GLOBAL);
    nodes.add(&block);
    nodes.end();
    assert_ne!(nodes.fence_with(true), b"");
    assert_eq!(nodes.get(0, 1, "k2"), Ok((1, vec!["k".into(), "k2".into()])));
}

#[test]
fn data_of_all_ranks_of_a_node_is_fetched_at_once() {
    let mut nodes = Nodes::new();
    nodes.commit(1, "k", scope::GLOBAL);
    nodes.commit(3, "k", scope::GLOBAL);
    assert_eq!(nodes.fence_with(true), b"");
    let job = nodes.halls[1].world.job;
    let mut block = Vec::new();
    nodes.halls[1].server().committed_by_all(job).for_each(|record| append(&mut block, &record));
    nodes.add_fetched(0, &block);
    assert_eq!(nodes.get(0, 1, "k"), Ok((1, vec!["k".into()])));
    assert_eq!(nodes.get(2, 3, "k"), Ok((3, vec!["k".into()])));
    nodes.commit(3, "k2", scope::GLOBAL);
    assert_ne!(nodes.fence_with(true), b"");
    assert_eq!(nodes.get(2, 3, "k2"), Ok((3, vec!["k".into(), "k2".into()])));
}

#[test]
fn request_to_collect_data_holds_for_one_fence() {
    let mut nodes = Nodes::new();
    let collects = |nodes: &Nodes, node: usize| {
        let hall = &nodes.halls[node];
        hall.view().collects_fence_data(hall.world.job)
    };
    let (hall, client) = nodes.client(1);
    hall.collecting_fence(client);
    // The next fence of the same client, which waits for the first one.
    let (hall, client) = nodes.client(1);
    hall.collecting_fence(client);
    assert_eq!([collects(&nodes, 0), collects(&nodes, 1)], [false, true]);
    for expected in [true, false] {
        for rank in [0, 2, 3] {
            let (hall, client) = nodes.client(rank);
            hall.fence(client, &[WILDCARD], 0);
        }
        assert_eq!(nodes.halls[0].world.request(0, "cmd=barrier_in\n"), "");
        let block = nodes.contributions();
        nodes.add(&block);
        nodes.end();
        assert_eq!(collects(&nodes, 1), expected);
    }
}

#[test]
fn malformed_data_of_other_nodes_changes_nothing() {
    let mut nodes = Nodes::new();
    let hall = &mut nodes.halls[0];
    let job = hall.world.job;
    let record = |format| {
        let mut block = Vec::new();
        append(&mut block, &BlockRecord::Modex { writer: Rank(1), version: 1, format, data: b"" });
        block
    };
    assert!(matches!(hall.server().add_remote(job, &record(1)), Err(RemoteError::Misuse(_))));
    nodes.enter();
    let hall = &mut nodes.halls[0];
    assert!(matches!(hall.server().add_remote(job, &record(4)), Err(RemoteError::Block(_))));
    let mut cut = record(1);
    cut.pop();
    assert!(matches!(hall.server().add_remote(job, &cut), Err(RemoteError::Block(_))));
    // Bytes that are no committed data have no keys.
    hall.server().add_remote(job, &record(1)).unwrap();
    nodes.contributions();
    nodes.end();
    assert_eq!(nodes.get(0, 1, "k"), Err(Status::NOT_FOUND));
}
