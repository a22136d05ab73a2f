//! Jobs with ranks on several nodes, of which a server has some.

use super::*;
use crate::ids::ProcId;

/// Node server of a job of `size` ranks with the members `ranks`, whose sessions are open in this order.
fn node_server(size: u32, ranks: &[u32]) -> TestServer {
    let spec = JobSpec { size: Some(size), has_uplink: true, ..job_spec(JOB_NAME) };
    let member = |rank: &u32| Member::new(0, 1).with_rank(Rank(*rank));
    let mut world = TestServer::of(spec, ranks.iter().map(member).collect());
    for rank in ranks {
        world.open(Peer::Member { job: world.job, rank: Rank(*rank) });
    }
    world
}

#[test]
fn ranks_and_size_are_those_of_the_whole_job() {
    let mut world = node_server(7, &[2, 5]);
    let reply = world.request(1, "cmd=initack pmiid=5\n");
    assert!(reply.starts_with("cmd=initack rc=0 rank=5 size=7 "), "{reply}");
    let job = world.server.job(world.job).unwrap();
    assert_eq!((job.size(), job.members().len(), job.has_remote()), (7, 2, true));
    let present = (0..9).map(|rank| (job.member(Rank(rank)).is_some(), job.is_remote(Rank(rank))));
    let present: Vec<_> = present.collect();
    assert_eq!(present.iter().filter(|rank| rank.0).count(), 2);
    assert_eq!(present.iter().filter(|rank| rank.1).count(), 5);
    assert_eq!(
        (present[5], present[6], present[7]),
        ((true, false), (false, true), (false, false))
    );
    let remote = Peer::Member { job: world.job, rank: Rank(3) };
    let refused = world.server.open(remote, Inbox::new(), [const { None }; 4]);
    assert_eq!(refused, Err(Misuse::NoSuch { what: "rank" }));
}

#[test]
fn members_out_of_order_are_rejected() {
    for ranks in [&[5, 2][..], &[1, 1], &[6, 7]] {
        let spec = JobSpec { size: Some(7), ..job_spec("other") };
        let member = |rank: &u32| Member::new(0, 0).with_rank(Rank(*rank));
        let members = ranks.iter().map(member).collect();
        let added = TestServer::new(1).server.add_job(spec, members, testkit_store());
        assert!(matches!(added, Err(Misuse::WrongState { .. })), "{ranks:?}");
    }
}

fn testkit_store() -> crate::testkit::server::Store {
    crate::testkit::server::store(8, 256)
}

#[test]
fn fence_is_complete_here_when_the_local_ranks_are_inside() {
    let mut world = node_server(1000, &[2, 5]);
    world.init_all();
    for generation in 0..3 {
        assert_eq!(world.missing(), [2, 5]);
        assert_eq!(world.request(1, "cmd=barrier_in\n"), "");
        assert_eq!(world.missing(), [2]);
        assert_eq!(world.server.poll_event(), None);
        assert_eq!(world.request(0, "cmd=barrier_in\n"), "");
        let told = Event::FenceHandedUp { job: world.job, generation };
        assert_eq!((world.server.poll_event(), world.server.poll_event()), (Some(told), None));
        assert_eq!((world.recv(0), world.recv(1)), (String::new(), String::new()));
        world.server.end_fence(world.job).unwrap();
        assert_eq!(world.recv(0), "cmd=barrier_out rc=0\n");
        assert_eq!(world.recv(1), "cmd=barrier_out rc=0\n");
    }
}

#[test]
fn rank_that_is_gone_is_named_by_its_rank() {
    let mut world = node_server(9, &[3, 6]);
    world.init_all();
    world.request(0, "cmd=barrier_in\n");
    world.server.close(world.sessions[1]);
    world.server.member_gone(world.job, Rank(6));
    let told = Event::FenceStuck { job: world.job, gone: Rank(6) };
    assert_eq!(world.server.poll_event(), Some(told));
}

#[cfg(feature = "pmix")]
#[test]
fn fence_is_handed_up_without_ranks_that_are_gone_if_that_is_tolerated() {
    let mut world = node_server(9, &[3, 6]);
    world.init_all();
    world.server.tolerate_failures(world.job);
    world.request(0, "cmd=barrier_in\n");
    assert_eq!(world.server.poll_event(), None);
    let leave = |world: &mut TestServer, place: usize, rank| {
        world.server.close(world.sessions[place]);
        world.server.member_gone(world.job, Rank(rank));
    };
    leave(&mut world, 1, 6);
    let handed_up = |generation| Event::FenceHandedUp { job: world.job, generation };
    let handed_up = [handed_up(0), handed_up(1), handed_up(2)];
    let [first, second, third] = handed_up;
    assert_eq!((world.server.poll_event(), world.server.poll_event()), (Some(first), None));
    world.server.end_fence(world.job).unwrap();
    assert_eq!(world.recv(0), "cmd=barrier_out rc=0\n");
    world.request(0, "cmd=barrier_in\n");
    assert_eq!((world.server.poll_event(), world.server.poll_event()), (Some(second), None));
    world.server.end_fence(world.job).unwrap();
    // Without a rank here, the fence is handed up when other nodes wait in it.
    assert!(!world.server.hand_up_empty_fence(world.job, 2), "rank 3 may enter it");
    leave(&mut world, 0, 3);
    assert_eq!(world.server.poll_event(), None);
    assert!(!world.server.hand_up_empty_fence(world.job, 3));
    assert!(world.server.hand_up_empty_fence(world.job, 2));
    assert!(!world.server.hand_up_empty_fence(world.job, 2), "once");
    assert_eq!((world.server.poll_event(), world.server.poll_event()), (Some(third), None));
}

#[test]
fn groups_of_ranks_that_do_not_exist_are_refused() {
    let mut world = node_server(4, &[0, 1]);
    for rank in 0..2 {
        world.request(rank, "cmd=init pmi_version=1 pmi_subversion=2\n");
    }
    assert!(!world.request(0, "cmd=barrier_in group=0,4\n").contains("rc=0"));
    assert!(!world.request(0, "cmd=barrier_in group=2,3\n").contains("rc=0"));
    // Ranks of this node need no other one.
    assert_eq!(world.request(0, "cmd=barrier_in group=0,1\n"), "");
    assert!(world.request(1, "cmd=barrier_in group=0,1\n").contains("rc=0"));
    assert_eq!(world.request(1, "cmd=barrier_in group=NODE\n"), "");
}

#[test]
fn connections_of_jobs_are_left_to_the_head() {
    let mut world = node_server(4, &[1, 3]);
    let spec = JobSpec { size: Some(2), has_uplink: true, ..job_spec("other") };
    let other = world.add_job(spec, vec![]);
    let own = world.job;
    world.request(0, "cmd=init pmi_version=2 pmi_subversion=0\n");
    let frame = |text: &str| std::format!("{:6}{text}", text.len());
    let refused = world.request(0, &frame("cmd=job-connect;jobid=nowhere;"));
    assert!(refused.contains("errmsg=") && world.server.poll_event().is_none(), "{refused}");
    let mut change = |verb: &str, is_connect, answers: bool| {
        let request = std::format!("cmd=job-{verb};jobid=other;");
        assert_eq!(world.request(0, &frame(&request)), "");
        let event = world.server.poll_event();
        let Some(Event::ConnectRequested { session, exchange, .. }) = event else {
            panic!("{event:?}");
        };
        let told = Event::ConnectRequested { session, exchange, job: own, other, is_connect };
        assert_eq!(event, Some(told));
        let answer = world.server.connect_jobs(own, other, is_connect);
        assert!(world.server.answer_change(session, exchange + 1, answer).is_err());
        world.server.answer_change(session, exchange, answer).unwrap();
        let reply = world.recv(0);
        assert_eq!(reply.contains("rc=0"), answers, "{reply}");
        // The data of the other job is read while they are connected.
        world.request(0, &frame("cmd=kvs-get;jobid=other;key=k;")).contains("found=TRUE")
    };
    assert!(!change("disconnect", false, false));
    assert!(!change("connect", true, true));
    let block = crate::testkit::kvs::block(&[(0, "k", "v")]);
    world.server.add_pairs(other, &block).unwrap();
    let reads = world.request(0, &frame("cmd=kvs-get;jobid=other;key=k;"));
    assert!(reads.contains("value=v"), "{reads}");
    assert!(matches!(world.server.add_pairs(other, &block[1..]), Err(RemoteError::Block(_))));
}

#[test]
fn pairs_that_are_put_at_once_are_left_to_the_head() {
    let mut world = node_server(4, &[1, 3]);
    world.request(0, "cmd=init pmi_version=2 pmi_subversion=0\n");
    let frame = |text: &str| std::format!("{:<6}{text}", text.len());
    let all = |pairs: &[&str]| {
        let announced = std::format!("cmd=kvs-putall;jobid=kvs_1;npair={};", pairs.len());
        let mut messages = frame(&announced);
        for pair in pairs {
            messages += &frame(&std::format!("cmd=kvs-putall-pair;{pair};"));
        }
        messages
    };
    assert!(world.request(0, &all(&[])).contains("rc=0"));
    assert_eq!(world.request(0, &all(&["key=a;val=1", "key=b;val=2;;3"])), "");
    let job = world.job;
    let next = |world: &mut TestServer, is_first| {
        let event = world.server.poll_event();
        let Some(Event::PairRequested { session, exchange, .. }) = event else {
            panic!("{event:?}");
        };
        assert_eq!(event, Some(Event::PairRequested { session, exchange, job, is_first }));
        let (key, value) = world.server.pair_request(session).unwrap();
        let pair: Vec<u8> = key.bytes().chain(*b"=").chain(value.bytes()).collect();
        world.server.spawn_read(session);
        assert_eq!(world.recv(0), "");
        (String::from_utf8(pair).unwrap(), exchange)
    };
    assert_eq!(next(&mut world, true), ("a=1".into(), None));
    let (pair, Some(exchange)) = next(&mut world, false) else { panic!("the last pair") };
    assert_eq!(pair, "b=2;3");
    let session = world.sessions[0];
    world.server.answer_change(session, exchange, ChangeAnswer::NoRoom).unwrap();
    let refused = world.recv(0);
    assert!(refused.contains("values") && !refused.contains("rc=0"), "{refused}");
    // A pair beyond the limits is refused here, and no further one is handed up.
    let long = std::format!("key={};val=1", "k".repeat(300));
    let refused = world.request(0, &all(&[&long, "key=c;val=1"]));
    assert!(!refused.is_empty() && !refused.contains("rc=0"), "{refused}");
    assert_eq!(world.server.poll_event(), None);
}

/// Node servers of one job, with the collective operations of the tree between them.
struct Nodes {
    servers: Vec<TestServer>,
}

impl Nodes {
    /// A job of six ranks on three nodes, placed by turns and not evenly.
    fn new() -> Self {
        let ranks: [&[u32]; 3] = [&[0, 3, 5], &[1, 4], &[2]];
        Self { servers: ranks.iter().map(|ranks| node_server(6, ranks)).collect() }
    }

    fn request(&mut self, rank: usize, bytes: &(impl AsRef<[u8]> + ?Sized)) -> String {
        let (node, place) = PLACES[rank];
        self.servers[node].request(place, bytes)
    }

    fn recv(&mut self, rank: usize) -> String {
        let (node, place) = PLACES[rank];
        self.servers[node].recv(place)
    }

    /// Ends the fence that all nodes have handed up, and returns what they contributed.
    fn end_fence(&mut self) -> Vec<u8> {
        let mut block = Vec::new();
        for node in &mut self.servers {
            let told = node.server.poll_event();
            assert!(matches!(told, Some(Event::FenceHandedUp { .. })), "{told:?}");
            for record in node.server.fence_puts(node.job) {
                crate::testkit::kvs::append(&mut block, &record);
            }
        }
        for node in &mut self.servers {
            node.server.add_remote(node.job, &block).unwrap();
            node.server.end_fence(node.job).unwrap();
        }
        block
    }

    fn init_all(&mut self) {
        self.servers.iter_mut().for_each(TestServer::init_all);
    }

    /// All ranks pass a fence of PMI-1.
    fn fence(&mut self) -> Vec<u8> {
        for rank in 0..PLACES.len() {
            assert_eq!(self.request(rank, "cmd=barrier_in\n"), "");
        }
        let block = self.end_fence();
        for rank in 0..PLACES.len() {
            assert_eq!(self.recv(rank), "cmd=barrier_out rc=0\n");
        }
        block
    }

    fn put(&mut self, rank: usize, key: &str, value: &str) {
        let put = std::format!("cmd=put kvsname=kvs_1 key={key} value={value}\n");
        assert_eq!(self.request(rank, &put), "cmd=put_result rc=0\n");
    }

    /// The value that a rank reads; empty if there is none.
    fn get(&mut self, rank: usize, key: &str) -> String {
        let reply = self.request(rank, &std::format!("cmd=get kvsname=kvs_1 key={key}\n"));
        let value = reply.split_once("value=").map_or("", |(_, value)| value);
        if reply.contains("rc=0") { value.trim_end().into() } else { String::new() }
    }

    fn read(&mut self, key: &str) -> Vec<String> {
        (0..PLACES.len()).map(|rank| self.get(rank, key)).collect()
    }
}

/// Node and place of each rank.
const PLACES: [(usize, usize); 6] = [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (0, 2)];

#[test]
fn values_are_read_on_all_nodes_after_the_fence() {
    let mut nodes = Nodes::new();
    nodes.init_all();
    for rank in 0..6 {
        nodes.put(rank, &std::format!("card{rank}"), &std::format!("of{rank}"));
    }
    assert_eq!(nodes.get(1, "card1"), "of1");
    assert_eq!(nodes.get(4, "card1"), "");
    nodes.fence();
    for rank in 0..6 {
        assert_eq!(nodes.read(&std::format!("card{rank}")), [&*std::format!("of{rank}"); 6]);
    }
    // Nothing is sent twice, and a barrier sends nothing.
    assert_eq!(nodes.fence(), b"");
    nodes.put(2, "late", "x");
    assert_eq!(nodes.fence(), crate::testkit::kvs::block(&[(2, "late", "x")]));
    assert_eq!(nodes.read("late"), ["x"; 6]);
}

#[test]
fn later_puts_replace_those_of_other_nodes() {
    let mut nodes = Nodes::new();
    nodes.init_all();
    nodes.put(0, "k", "first");
    nodes.fence();
    // Until the next fence the writer alone reads the new value, and all others the one of the fence.
    nodes.put(1, "k", "second");
    assert_eq!(nodes.read("k"), ["first", "second", "first", "first", "first", "first"]);
    nodes.fence();
    assert_eq!(nodes.read("k"), ["second"; 6]);
    // The same for a value that was put here.
    nodes.put(1, "k", "third");
    assert_eq!(nodes.read("k"), ["second", "third", "second", "second", "second", "second"]);
    nodes.put(4, "k", "fourth");
    let told = nodes.servers[1].server.poll_event();
    assert!(
        matches!(told, Some(Event::PutTwice { first: Rank(1), second: Rank(4), .. })),
        "{told:?}"
    );
    assert_eq!(
        [nodes.get(1, "k"), nodes.get(4, "k"), nodes.get(0, "k")],
        ["fourth", "fourth", "second"]
    );
    nodes.fence();
    assert_eq!(nodes.read("k"), ["fourth"; 6]);
    assert_eq!(nodes.fence(), b"");
}

#[test]
fn key_that_two_nodes_put_has_one_value_on_all_nodes() {
    let mut nodes = Nodes::new();
    nodes.init_all();
    nodes.put(2, "k", "two");
    nodes.put(0, "k", "zero");
    nodes.fence();
    let values = nodes.read("k");
    assert!(values.iter().all(|value| *value == values[0] && !value.is_empty()), "{values:?}");
}

#[test]
fn value_of_the_spawner_is_replaced_on_all_nodes() {
    let mut nodes = Nodes::new();
    for node in &mut nodes.servers {
        node.server.preput(node.job, b"k", b"given").unwrap();
        node.server.preset(node.job, b"fixed", b"given").unwrap();
    }
    nodes.init_all();
    assert_eq!(nodes.read("k"), ["given"; 6]);
    nodes.put(5, "k", "new");
    nodes.put(5, "fixed", "new");
    nodes.fence();
    assert_eq!(
        (nodes.read("k"), nodes.read("fixed")),
        (["new"; 6].map(String::from).into(), ["given"; 6].map(String::from).into())
    );
}

#[test]
fn fence_of_a_group_shows_puts_here_at_once_and_elsewhere_after_the_next_fence() {
    let mut nodes = Nodes::new();
    for rank in 0..6 {
        nodes.request(rank, "cmd=init pmi_version=1 pmi_subversion=2\n");
    }
    nodes.put(0, "k", "v");
    assert_eq!(nodes.request(0, "cmd=barrier_in group=0,3\n"), "");
    assert!(nodes.request(3, "cmd=barrier_in group=0,3\n").contains("rc=0"));
    assert_eq!(nodes.read("k"), ["v", "", "", "v", "", "v"]);
    for rank in 0..6 {
        assert_eq!(nodes.request(rank, "cmd=barrier_in\n"), "");
    }
    nodes.end_fence();
    for rank in 0..6 {
        assert!(nodes.recv(rank).starts_with("cmd=barrier_out rc=0"));
    }
    assert_eq!(nodes.read("k"), ["v"; 6]);
}

#[test]
fn ranks_of_all_dialects_read_values_of_other_nodes() {
    let mut nodes = Nodes::new();
    let frame = |text: &str| std::format!("{:<6}{text}", text.len());
    for rank in 0..6 {
        let version = if rank % 2 == 1 { 2 } else { 1 };
        nodes.request(rank, &std::format!("cmd=init pmi_version={version} pmi_subversion=0\n"));
        if rank % 2 == 1 {
            nodes.request(
                rank,
                &frame(&std::format!("cmd=fullinit;pmirank={rank};threaded=FALSE;")),
            );
            let put = std::format!("cmd=kvs-put;key=k{rank};value=two {rank};");
            assert!(nodes.request(rank, &frame(&put)).contains("rc=0"));
        } else {
            nodes.put(rank, &std::format!("k{rank}"), &std::format!("one{rank}"));
        }
    }
    for rank in 0..6 {
        let fence = if rank % 2 == 1 { frame("cmd=kvs-fence;") } else { "cmd=barrier_in\n".into() };
        assert_eq!(nodes.request(rank, &fence), "");
    }
    nodes.end_fence();
    for rank in 0..6 {
        assert!(nodes.recv(rank).contains("rc=0"));
        for other in 0..6 {
            let value = if other % 2 == 1 { "two " } else { "one" };
            let read = if rank % 2 == 1 {
                let reply = nodes.request(rank, &frame(&std::format!("cmd=kvs-get;key=k{other};")));
                reply.split_once("value=").unwrap().1.trim_end_matches(';').into()
            } else {
                nodes.get(rank, &std::format!("k{other}"))
            };
            assert_eq!(read, std::format!("{value}{other}"));
        }
    }
    // The whole space is listed once, with the pairs of every node.
    let listed = nodes.request(1, &frame("cmd=kvs-getall;jobid=kvs_1;"));
    assert!(listed.contains("npair=6;"), "{listed}");
    assert!(
        (0..6).all(|rank| listed.matches(&std::format!("key=k{rank};")).count() == 1),
        "{listed}"
    );
}

#[test]
fn blocks_are_accepted_of_a_fence_that_was_handed_up_and_only_if_they_are_whole() {
    let mut node = node_server(4, &[0]);
    node.init_all();
    let block = crate::testkit::kvs::block(&[(2, "k", "v")]);
    let early = node.server.add_remote(node.job, &block);
    assert!(matches!(early, Err(RemoteError::Misuse(Misuse::WrongState { .. }))));
    node.request(0, "cmd=barrier_in\n");
    let cut = node.server.add_remote(node.job, &block[..block.len() - 1]);
    assert!(matches!(cut, Err(RemoteError::Block(_))), "{cut:?}");
    node.server.add_remote(node.job, &block).unwrap();
    node.server.end_fence(node.job).unwrap();
    node.recv(0);
    assert!(node.request(0, "cmd=get kvsname=kvs_1 key=k\n").contains("value=v"));
}

#[test]
fn binary_clients_read_values_of_other_nodes() {
    use crate::command::{FenceGroup, Place, Text};
    let mut nodes = Nodes { servers: [0, 1].map(|rank| node_server(2, &[rank])).into() };
    let send = |node: &mut TestServer, request: &Request<'_>| {
        let mut frame = [0; 256];
        let len = crate::wire::binary::write_request(request, b"", &mut frame).unwrap();
        node.send(0, &frame[..len]).unwrap();
        node.recv_bytes(0)
    };
    nodes.servers[0].init_all();
    nodes.put(0, "text", "from a line");
    let binary = &mut nodes.servers[1];
    assert!(!send(binary, &Request::Init { version: crate::command::Version::BINARY }).is_empty());
    let (key, value) = (Text::plain(b"bytes"), Text::plain(b"\xff\n"));
    send(binary, &Request::Put { place: Place::Job(None), key, value });
    let fence = Request::Fence { group: FenceGroup::World, tag: None };
    assert_eq!(send(binary, &fence), b"");
    assert_eq!(nodes.request(0, "cmd=barrier_in\n"), "");
    nodes.end_fence();
    assert_eq!(nodes.recv(0), "cmd=barrier_out rc=0\n");
    let binary = &mut nodes.servers[1];
    assert!(!binary.recv_bytes(0).is_empty());
    let key = Text::plain(b"text");
    let reply = send(binary, &Request::Get { place: Place::Job(None), key, wait: false });
    assert!(reply.ends_with(b"from a line"), "{reply:?}");
    let job = nodes.servers[0].server.job(nodes.servers[0].job).unwrap();
    let found = job.look_up(Some(Rank(0)), Place::Job(None), b"bytes");
    assert_eq!(job.kvs().entry(found.unwrap()).unwrap().value, b"\xff\n");
}

#[test]
fn job_with_all_ranks_here_hands_up_fences_and_names_and_reads_its_spawner() {
    let mut world = node_server(3, &[1]);
    let name = crate::ids::KvsName::new(JOB_NAME.as_bytes()).unwrap();
    let spec =
        JobSpec { spawner: Some(name), size: Some(1), has_uplink: true, ..job_spec("child") };
    let child = world.add_job(spec, vec![Member::new(0, 0).with_rank(Rank(0))]);
    world.open(Peer::Member { job: child, rank: Rank(0) });
    world.init_all();
    world.request(1, "cmd=barrier_in\n");
    let event = world.server.poll_event();
    assert_eq!(event, Some(Event::FenceHandedUp { job: child, generation: 0 }));
    world.server.end_fence(child).unwrap();
    world.request(1, "cmd=lookup_name service=s\n");
    let event = world.server.poll_event();
    assert!(matches!(event, Some(Event::NameRequested { .. })), "{event:?}");
}

/// Has `head` execute the request about a name that `node` has handed up, and answers it.
fn serve_name(node: &mut TestServer, head: &mut TestServer) {
    let event = node.server.poll_event();
    let Some(Event::NameRequested { session, exchange }) = event else { panic!("{event:?}") };
    let mut room = [[0; 64]; 2];
    let [one, other] = &mut room;
    let request = match node.server.name_request(session).unwrap() {
        Request::Publish { service, port } => NameRequest::Publish {
            service: service.resolve(one).unwrap(),
            port: port.resolve(other).unwrap(),
        },
        Request::Unpublish { service } => {
            NameRequest::Unpublish { service: service.resolve(one).unwrap() }
        }
        Request::Lookup { service } => {
            NameRequest::Lookup { service: service.resolve(one).unwrap() }
        }
        other => panic!("{other:?}"),
    };
    let by = ProcId { job: head.job, rank: Rank(0) };
    let answer = head.server.serve_name(by, request);
    assert!(node.server.answer_name(session, exchange + 1, answer).is_err());
    node.server.answer_name(session, exchange, answer).unwrap();
}

#[test]
fn lookups_that_are_answered_before_either_answer_is_sent_both_find_the_name() {
    let (mut head, mut node) = (node_server(2, &[]), node_server(2, &[0, 1]));
    node.init_all();
    let by = ProcId { job: head.job, rank: Rank(0) };
    let published = head.server.serve_name(by, NameRequest::Publish { service: b"s", port: b"p" });
    assert!(matches!(published, NameAnswer::Done));
    for rank in [0, 1] {
        assert_eq!(node.request(rank, "cmd=lookup_name service=s\n"), "");
    }
    serve_name(&mut node, &mut head);
    serve_name(&mut node, &mut head);
    for rank in [0, 1] {
        let received = node.recv(rank);
        assert!(received.contains("port=p"), "{received}");
    }
}

#[test]
fn job_whose_run_has_other_clients_hands_up_names_and_ends_its_fences_here() {
    let mut world = node_server(1, &[]);
    let spec = JobSpec { size: None, has_uplink: false, ..job_spec("alone") };
    let job = world.add_job(spec, vec![Member::new(0, 0)]);
    world.server.share_with_run(job).unwrap();
    assert!(world.server.share_with_run(JobId(9)).is_err());
    world.open(Peer::Member { job, rank: Rank(0) });
    world.init_all();
    assert!(world.request(0, "cmd=barrier_in\n").contains("barrier_out"));
    assert_eq!(world.server.poll_event(), None);
    assert_eq!(world.request(0, "cmd=lookup_name service=s\n"), "");
    let event = world.server.poll_event();
    assert!(matches!(event, Some(Event::NameRequested { .. })), "{event:?}");
}

#[test]
fn names_are_held_by_the_head() {
    let mut head = node_server(4, &[]);
    let mut nodes = [node_server(4, &[0, 1]), node_server(4, &[2, 3])];
    nodes.iter_mut().for_each(TestServer::init_all);
    let mut ask = |node: usize, request: &str| {
        assert_eq!(nodes[node].request(0, request), "");
        serve_name(&mut nodes[node], &mut head);
        nodes[node].recv(0)
    };
    assert!(ask(1, "cmd=lookup_name service=s\n").contains("rc=1"));
    assert!(ask(0, "cmd=publish_name service=s port=p\n").contains("rc=0"));
    assert!(ask(1, "cmd=publish_name service=s port=q\n").contains("rc=1"));
    assert!(ask(1, "cmd=lookup_name service=s\n").contains("port=p"));
    assert!(ask(1, "cmd=unpublish_name service=s\n").contains("rc=0"));
    assert!(ask(0, "cmd=unpublish_name service=s\n").contains("rc=1"));
    assert!(ask(0, "cmd=publish_name service=s port=again\n").contains("rc=0"));
    assert!(ask(1, "cmd=lookup_name service=s\n").contains("port=again"));
    // A name that is too long is refused at once, and the session goes on after each request.
    let long = std::format!("cmd=publish_name service={} port=p\n", "x".repeat(300));
    let refused = nodes[0].request(0, &long);
    assert!(!refused.is_empty() && !refused.contains("rc=0"), "{refused}");
    assert_eq!(nodes[0].server.poll_event(), None);
    assert!(nodes[0].request(0, "cmd=get_universe_size\n").contains("size="));
}

#[test]
fn names_of_pmi2_reach_the_head_as_they_are_meant() {
    let mut head = node_server(4, &[]);
    let mut node = node_server(4, &[1, 3]);
    node.request(0, "cmd=init pmi_version=2 pmi_subversion=0\n");
    let frame = |text: &str| std::format!("{:6}{text}", text.len());
    assert_eq!(node.request(0, &frame("cmd=name-publish;name=a b;port=p q;infokeycount=0;")), "");
    serve_name(&mut node, &mut head);
    assert!(node.recv(0).contains("rc=0"));
    assert_eq!(node.request(0, &frame("cmd=name-lookup;name=a b;infokeycount=0;")), "");
    serve_name(&mut node, &mut head);
    let found = node.recv(0);
    assert!(found.contains("p q") && found.contains("rc=0"), "{found}");
}

impl Nodes {
    /// Parts of fences of groups that the nodes hand up now: node, number, tag and ranks.
    fn groups(&mut self) -> Vec<(usize, u32, u32, Vec<u32>)> {
        let mut all = Vec::new();
        for (at, node) in self.servers.iter_mut().enumerate() {
            while let Some(event) = node.server.poll_event() {
                let Event::GroupHandedUp { job, number, tag } = event else { panic!("{event:?}") };
                all.push((at, number, tag, node.server.group_ranks(job, number).collect()));
            }
        }
        all
    }

    /// Ends the fence of a group that these nodes have handed up.
    fn end_group(&mut self, parts: &[(usize, u32, u32, Vec<u32>)]) {
        let mut block = Vec::new();
        for (at, number, ..) in parts {
            let node = &self.servers[*at];
            for record in node.server.group_puts(node.job, *number) {
                crate::testkit::kvs::append(&mut block, &record);
            }
        }
        for (at, number, ..) in parts {
            let node = &mut self.servers[*at];
            let cut = node.server.end_group(node.job, *number, b"\xff");
            assert!(matches!(cut, Err(RemoteError::Block(_))), "{cut:?}");
            node.server.end_group(node.job, *number, &block).unwrap();
            // The second end finds no fence.
            node.server.end_group(node.job, *number, &block).unwrap();
        }
    }
}

#[test]
fn fence_of_a_group_over_nodes_shows_the_puts_of_its_members() {
    let mut nodes = Nodes::new();
    for rank in 0..6 {
        nodes.request(rank, "cmd=init pmi_version=1 pmi_subversion=2\n");
        nodes.put(rank, &std::format!("k{rank}"), "v");
    }
    // Ranks 0 and 3 are on the first node, 1 on the second.
    assert_eq!(nodes.request(0, "cmd=barrier_in group=0,1,3:7\n"), "");
    assert_eq!(nodes.request(1, "cmd=barrier_in group=3,1,0:7\n"), "");
    let mut parts = nodes.groups();
    assert_eq!(parts.len(), 1, "{parts:?}");
    assert_eq!(nodes.request(3, "cmd=barrier_in group=1,0,3:7\n"), "");
    parts.extend(nodes.groups());
    assert!(
        parts.iter().all(|(_, _, tag, ranks)| (*tag, &ranks[..]) == (7, &[0, 1, 3])),
        "{parts:?}"
    );
    assert_eq!(parts.len(), 2);
    nodes.end_group(&parts);
    for rank in [0, 1, 3] {
        assert!(nodes.recv(rank).contains("rc=0"));
        for other in [0, 1, 3] {
            assert_eq!(nodes.get(rank, &std::format!("k{other}")), "v", "{rank} of {other}");
        }
    }
    assert_eq!((nodes.get(0, "k4"), nodes.get(2, "k0")), (String::new(), String::new()));
    // All ranks, by name and as a list.
    for rank in 0..6 {
        let group = if rank % 2 == 0 { "WORLD" } else { "5,4,3,2,1,0" };
        assert_eq!(nodes.request(rank, &std::format!("cmd=barrier_in group={group}:1\n")), "");
    }
    let parts = nodes.groups();
    assert!(parts.iter().all(|(_, _, _, ranks)| *ranks == [0, 1, 2, 3, 4, 5]), "{parts:?}");
    nodes.end_group(&parts);
    for rank in 0..6 {
        assert!(nodes.recv(rank).contains("rc=0"));
        assert_eq!((nodes.get(rank, "k4"), nodes.get(rank, "k0")), ("v".into(), "v".into()));
    }
    // The fence of the job carries them once more, so that all nodes agree on the values.
    for rank in 0..6 {
        assert_eq!(nodes.request(rank, "cmd=barrier_in\n"), "");
    }
    nodes.end_fence();
    assert_eq!(nodes.read("k5"), ["v"; 6]);
}

#[test]
fn group_of_a_large_job_is_listed_and_names_its_missing_member() {
    let mut node = node_server(1000, &[2, 5, 700]);
    for rank in 0..3 {
        node.request(rank, "cmd=init pmi_version=1 pmi_subversion=2\n");
    }
    let enter = "cmd=barrier_in group=700,5,999\n";
    assert_eq!(node.request(2, enter), "");
    node.server.close(node.sessions[1]);
    node.server.member_gone(node.job, Rank(5));
    let told = Event::FenceStuck { job: node.job, gone: Rank(5) };
    assert_eq!(node.server.poll_event(), Some(told));
    let enter = "cmd=barrier_in group=2,300,999\n";
    assert_eq!(node.request(0, enter), "");
    let Some(Event::GroupHandedUp { number, .. }) = node.server.poll_event() else {
        panic!("the only member here is inside");
    };
    let ranks: Vec<u32> = node.server.group_ranks(node.job, number).collect();
    assert_eq!(ranks, [2, 300, 999]);
}

#[test]
fn ring_over_nodes_brings_the_values_of_neighbours() {
    let mut nodes = Nodes::new();
    let frame = |text: &str| std::format!("{:<6}{text}", text.len());
    for rank in 0..6 {
        nodes.request(rank, "cmd=init pmi_version=2 pmi_subversion=0\n");
        nodes.request(rank, &frame(&std::format!("cmd=fullinit;pmirank={rank};threaded=FALSE;")));
    }
    for round in 0..3 {
        for rank in 0..6 {
            let ring = std::format!(
                "cmd=ring;ring-count=1;ring-left=l{round}{rank};ring-right=r{round}{rank};"
            );
            assert_eq!(nodes.request(rank, &frame(&ring)), "");
        }
        let mut values = Vec::new();
        for node in &mut nodes.servers {
            let told = Event::RingHandedUp { job: node.job, generation: round };
            assert_eq!((node.server.poll_event(), node.server.poll_event()), (Some(told), None));
            for record in node.server.ring_values(node.job) {
                crate::testkit::kvs::append(&mut values, &record);
            }
        }
        for node in &mut nodes.servers {
            assert!(node.server.end_ring(node.job, &values[1..]).is_err());
            node.server.end_ring(node.job, &values).unwrap();
            assert!(node.server.end_ring(node.job, &values).is_err(), "the ring has ended");
        }
        for rank in 0..6 {
            let told = nodes.recv(rank);
            let (before, behind) = ((rank + 5) % 6, (rank + 1) % 6);
            let left = std::format!("ring-left=r{round}{before};");
            let right = std::format!("ring-right=l{round}{behind};");
            assert!(told.contains(&left) && told.contains(&right), "{rank}: {told}");
        }
    }
}
