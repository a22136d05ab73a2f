//! PMIx clients of a job with ranks on several nodes.

use super::*;
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

    /// All ranks pass a fence; returns what the nodes have contributed.
    pub(super) fn fence(&mut self) -> Vec<u8> {
        self.enter();
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

#[test]
fn malformed_data_of_other_nodes_changes_nothing() {
    let mut nodes = Nodes::new();
    let hall = &mut nodes.halls[0];
    let job = hall.world.job;
    let record = |format| {
        let mut block = Vec::new();
        append(
            &mut block,
            &crate::store::BlockRecord::Modex { writer: Rank(1), format, data: b"" },
        );
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

#[test]
fn requests_that_need_ranks_of_other_nodes_are_refused() {
    let mut nodes = Nodes::new();
    let (hall, client) = nodes.client(0);
    // Without a list, leaders name the members of a group.
    hall.ask(client, Command::GROUP_CONSTRUCT, &|to| {
        to.one(Type::STRING).text(Some(b"ours")).one(Type::SIZE).size(0).one(Type::SIZE).size(0);
    });
    assert_eq!(hall.status(client), Status::NOT_SUPPORTED);
}
