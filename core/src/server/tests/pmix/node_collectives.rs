//! Collectives, groups and events of PMIx clients of several nodes.

use super::events::{Said, procs, yes};
use super::nodes::Nodes;
use super::*;
use crate::ids::ProcId;
use crate::server::pmix::{
    CollectiveEnd, CollectiveKind, ForwardedRequest, NamesReply, group_participants,
};

/// A part that a node has handed up.
#[derive(Debug)]
struct Part {
    node: usize,
    number: u32,
    kind: CollectiveKind,
    name: Option<Vec<u8>>,
    procs: Vec<u32>,
    is_partial: bool,
    data: Vec<u8>,
}

impl Nodes {
    /// Parts that the nodes hand up now.
    fn parts(&mut self) -> Vec<Part> {
        let mut all = Vec::new();
        for (node, hall) in self.halls.iter_mut().enumerate() {
            while let Some(event) = hall.world.server.poll_event() {
                let Event::CollectiveHandedUp { number } = event else { panic!("{event:?}") };
                let part = hall.view().collective_part(number).unwrap();
                let procs = hall.view().collective_procs(number).map(|proc| proc.rank.0).collect();
                all.push(Part {
                    node,
                    number,
                    kind: part.kind,
                    name: part.name.map(<[u8]>::to_vec),
                    procs,
                    is_partial: part.is_partial,
                    data: part.data.as_ref().to_vec(),
                });
            }
        }
        all
    }

    fn end_parts(&mut self, parts: &[Part], serial: u32) {
        let data: Vec<u8> = parts.iter().flat_map(|part| part.data.clone()).collect();
        let is_partial = parts.iter().any(|part| part.is_partial);
        for part in parts {
            let end = CollectiveEnd { serial, is_partial, data: &data };
            self.halls[part.node].server().end_remote_collective(part.number, &end).unwrap();
        }
    }

    fn construct(&mut self, rank: usize, ranks: &[u32], infos: &[Said<'_>]) {
        let (hall, client) = self.client(rank);
        hall.construct(client, ranks, infos);
    }

    /// Members and context id of the answer to a client that reads the layout of 4.2.4.
    fn constructed(&mut self, rank: usize) -> Result<Option<u64>, Status> {
        let (hall, client) = self.client(rank);
        hall.read(client, 0).map(|answer| answer.number)
    }

    fn status(&mut self, rank: usize) -> Vec<Status> {
        let (hall, client) = self.client(rank);
        let format = hall.clients[client].1;
        hall.answers(client).iter().map(|(_, body)| status_of(body, format)).collect()
    }

    /// Hands the request that a node forwards to the other one.
    fn forward(&mut self, from: usize) {
        let event = self.halls[from].world.server.poll_event();
        let Some(Event::RequestForwarded { session }) = event else { panic!("{event:?}") };
        let [one, other] = &mut self.halls[..] else { panic!("two nodes") };
        let (from, to) = if from == 0 { (one, other) } else { (other, one) };
        to.server().handle_forwarded(from.view().forwarded(session).unwrap()).unwrap();
        from.server().request_read(session);
    }
}

#[test]
fn fence_of_some_ranks_ends_with_the_data_of_all_of_their_nodes() {
    let mut nodes = Nodes::new();
    for rank in 0..4 {
        nodes.commit(rank, "k", scope::GLOBAL);
    }
    for rank in [0, 3] {
        let (hall, client) = nodes.client(rank);
        hall.fence(client, if rank == 0 { &[0, 2, 3] } else { &[3, 0, 2] }, 0);
    }
    // The part of the first node is not complete.
    let mut parts = nodes.parts();
    assert_eq!(parts.len(), 1);
    let (hall, client) = nodes.client(2);
    hall.fence(client, &[2, 0, 3], 0);
    parts.splice(0..0, nodes.parts());
    assert!([0, 2, 3].iter().all(|rank| nodes.status(*rank).is_empty()));
    for part in &mut parts {
        part.procs.sort_unstable();
        assert_eq!((part.kind, &part.procs[..]), (CollectiveKind::Fence, &[0, 2, 3][..]));
        assert!(!part.is_partial && part.name.is_none());
    }
    nodes.end_parts(&parts, 1);
    assert!([0, 2, 3].iter().all(|rank| nodes.status(*rank) == [Status::SUCCESS]));
    // Ranks outside have not contributed, and the next fence of the job carries everything.
    assert_eq!(nodes.get(0, 3, "k"), Ok((3, vec!["k".into()])));
    assert_eq!(nodes.get(0, 1, "k"), Err(Status::NOT_FOUND));
    assert_eq!(nodes.get(3, 0, "k"), Ok((0, vec!["k".into()])));
    nodes.fence();
    assert_eq!(nodes.get(0, 1, "k"), Ok((1, vec!["k".into()])));
    assert_eq!(nodes.get(0, 3, "k"), Ok((3, vec!["k".into()])));
}

#[test]
fn fence_of_ranks_of_one_node_stays_there() {
    let mut nodes = Nodes::new();
    for rank in [0, 2] {
        let (hall, client) = nodes.client(rank);
        hall.fence(client, &[0, 2], 0);
    }
    assert!(nodes.parts().is_empty());
    assert_eq!((nodes.status(0), nodes.status(2)), (vec![Status::SUCCESS], vec![Status::SUCCESS]));
}

#[test]
fn group_is_made_of_ranks_of_all_nodes_with_their_contributions() {
    let mut nodes = Nodes::new();
    for rank in [0, 1, 3] {
        let brings = |to: &mut Packer<'_>| groups::bring(rank as u64 + 10, None, to);
        let infos: [Said<'_>; 2] =
            [(keys::GROUP_INFO, &brings), (keys::GROUP_ASSIGN_CONTEXT_ID, &yes)];
        nodes.construct(rank, &[0, 1, 3], if rank == 3 { &infos[1..] } else { &infos });
    }
    let parts = nodes.parts();
    assert_eq!(parts.len(), 2);
    assert!(parts.iter().all(|part| part.name.as_deref() == Some(b"ours")));
    nodes.end_parts(&parts, 77);
    for rank in [0, 1, 3] {
        assert_eq!(nodes.constructed(rank), Ok(Some(77)), "{rank}");
    }
    for (rank, of) in [(0, 0), (0, 1), (1, 0), (3, 0), (3, 1)] {
        let (hall, client) = nodes.client(rank);
        let numbers = vec![(i64::from(of) + 10, 77)];
        assert_eq!(hall.brought(client, of, Some(77)), numbers, "{rank} of {of}");
        assert_eq!(hall.brought(client, of, Some(78)), []);
    }
    // Each node knows the group by its name.
    for rank in [0, 1, 3] {
        let (hall, client) = nodes.client(rank);
        hall.ask(client, Command::FENCE, &|to| {
            to.one(Type::SIZE).size(1).one(Type::PROC);
            Proc { nspace: b"ours", rank: WILDCARD }.write(to);
            to.one(Type::SIZE).size(0);
        });
    }
    let parts = nodes.parts();
    assert_eq!(parts.iter().map(|part| part.kind).collect::<Vec<_>>(), [CollectiveKind::Fence; 2]);
    assert!(parts.iter().all(|part| part.procs == [0, 1, 3]));
    nodes.end_parts(&parts, 78);
    assert!([0, 1, 3].iter().all(|rank| nodes.status(*rank) == [Status::SUCCESS]));
    // A member that leaves is none on any node, also while the others destruct the group.
    for rank in [0, 3] {
        let (hall, client) = nodes.client(rank);
        hall.destruct(client, None);
    }
    let early = nodes.parts();
    assert_eq!(early.len(), 1, "{early:?}");
    let (hall, client) = nodes.client(1);
    hall.ask(client, Command::GROUP_LEAVE, &|to| {
        to.one(Type::STRING).text(Some(b"ours")).one(Type::SIZE).size(0);
    });
    nodes.forward(1);
    assert_eq!(nodes.status(1), [Status::SUCCESS]);
    let parts = nodes.parts();
    assert_eq!(parts.iter().map(|part| part.procs.clone()).collect::<Vec<_>>(), [[0, 3]; 2]);
    assert_eq!((parts[0].node, parts[0].number), (0, early[0].number));
    nodes.end_parts(&parts, 79);
    assert_eq!((nodes.status(0), nodes.status(3)), (vec![Status::SUCCESS], vec![Status::SUCCESS]));
}

#[test]
fn group_is_made_of_processes_that_leaders_of_several_nodes_name() {
    let mut nodes = Nodes::new();
    let two = |to: &mut Packer<'_>| {
        to.of(Type::SIZE).size(2);
    };
    let third = |to: &mut Packer<'_>| procs(&[3], to);
    let leads: [Said<'_>; 3] = [
        (keys::GROUP_BOOTSTRAP, &two),
        (keys::GROUP_ASSIGN_CONTEXT_ID, &yes),
        (keys::GROUP_ADD_MEMBERS, &third),
    ];
    let entries = |part: &Part| -> Vec<(u32, u64, Vec<u32>)> {
        let all = group_participants(&part.data);
        all.map(|one| (one.proc.rank, one.leaders, one.named().map(|proc| proc.rank).collect()))
            .collect()
    };
    nodes.construct(0, &[0], &leads);
    let first = nodes.parts();
    assert_eq!((first.len(), first[0].kind), (1, CollectiveKind::Bootstrap));
    assert_eq!(entries(&first[0]), [(0, 2, vec![0, 3])]);
    // Another participant of the node is in a new version of its part.
    nodes.construct(2, &[], &[]);
    let second = nodes.parts();
    assert_eq!((second.len(), second[0].number), (1, first[0].number));
    assert_eq!(entries(&second[0]), [(0, 2, vec![0, 3]), (2, 0, vec![])]);
    nodes.construct(1, &[1], &leads[..2]);
    nodes.construct(3, &[], &[]);
    let third = nodes.parts();
    assert_eq!(entries(third.last().unwrap()), [(1, 2, vec![1]), (3, 0, vec![])]);
    assert!(nodes.parts().is_empty());
    let parts: Vec<Part> = second.into_iter().chain(third.into_iter().next_back()).collect();
    nodes.end_parts(&parts, 5);
    for rank in [0, 1, 3] {
        assert_eq!(nodes.constructed(rank), Ok(Some(5)), "{rank}");
    }
    // No leader has named it.
    assert_eq!(nodes.constructed(2), Err(Status::BAD_PARAM));
}

#[test]
fn groups_of_one_node_have_numbers_of_all_nodes() {
    let mut nodes = Nodes::new();
    let wants: [Said<'_>; 1] = [(keys::GROUP_ASSIGN_CONTEXT_ID, &yes)];
    nodes.construct(0, &[0, 2], &wants);
    nodes.construct(2, &[0, 2], &wants);
    let parts = nodes.parts();
    assert_eq!((parts.len(), &parts[0].procs[..]), (1, &[0, 2][..]));
    nodes.end_parts(&parts, 5);
    assert_eq!((nodes.constructed(0), nodes.constructed(2)), (Ok(Some(5)), Ok(Some(5))));
}

#[test]
fn collective_that_times_out_is_withdrawn_and_its_result_is_ignored() {
    let mut nodes = Nodes::new();
    let (hall, client) = nodes.client(0);
    hall.fence(client, &[0, 1], 5);
    let parts = nodes.parts();
    nodes.halls[0].late(5);
    assert_eq!(nodes.status(0), [Status::TIMEOUT]);
    let number = parts[0].number;
    let told = nodes.halls[0].world.server.poll_event();
    assert_eq!(told, Some(Event::CollectiveWithdrawn { number }));
    assert_eq!(nodes.halls[0].world.server.poll_event(), None);
    // The next one is another.
    let (hall, client) = nodes.client(0);
    hall.fence(client, &[0, 1], 0);
    nodes.end_parts(&parts, 1);
    assert_eq!(nodes.status(0), []);
    let parts = nodes.parts();
    assert_ne!(parts[0].number, number);
    nodes.end_parts(&parts, 2);
    assert_eq!(nodes.status(0), [Status::SUCCESS]);
}

#[test]
fn participants_that_are_gone_make_the_result_partial_on_all_nodes() {
    let mut nodes = Nodes::new();
    for rank in [0, 1] {
        let (hall, client) = nodes.client(rank);
        hall.fence(client, &[0, 2, 1], 0);
    }
    assert_eq!(nodes.parts().len(), 1);
    let hall = &mut nodes.halls[0];
    let id = hall.clients[1].0;
    let _ = hall.world.server.session(id).unwrap().handle_end(NOW);
    hall.world.server.close(id);
    let job = hall.world.job;
    hall.world.server.member_gone(job, Rank(2));
    let parts = nodes.parts();
    assert_eq!((parts.len(), parts[0].is_partial), (1, true));
    nodes.end_parts(&parts, 1);
    assert_eq!(nodes.status(0), [Status::PARTIAL_SUCCESS]);
}

#[test]
fn events_reach_clients_of_all_nodes() {
    let mut nodes = Nodes::new();
    for rank in 0..4 {
        let (hall, client) = nodes.client(rank);
        assert_eq!(hall.register(client, &[-1000], &[]), Status::SUCCESS);
    }
    let (hall, client) = nodes.client(3);
    assert_eq!(hall.notify(client, -1000, range::NAMESPACE, &[]), Status::SUCCESS);
    nodes.forward(1);
    for rank in 0..3 {
        let (hall, client) = nodes.client(rank);
        assert_eq!(hall.told(client), [(-1000, 3, vec![])], "{rank}");
    }
    // The request was taken out, so that the client goes on.
    let (hall, client) = nodes.client(3);
    assert_eq!(hall.notify(client, -1000, range::LOCAL, &[]), Status::SUCCESS);
    assert_eq!(nodes.halls[1].world.server.poll_event(), None);
    let (hall, client) = nodes.client(1);
    assert_eq!(hall.told(client).len(), 1);
}

#[test]
fn malformed_parts_and_requests_of_other_nodes_change_nothing() {
    let mut nodes = Nodes::new();
    let (hall, client) = nodes.client(0);
    hall.fence(client, &[0, 1], 0);
    hall.construct(1, &[1, 2], &[]);
    let parts = nodes.parts();
    assert_eq!(parts.len(), 2);
    for part in &parts {
        for data in [&b"\0"[..], &[0; 9], &[0, 0, 0, 9, 0, 0, 0, 0], b"\0\0\0\0\0\0\0\x05ab"] {
            let end = CollectiveEnd { serial: 1, is_partial: false, data };
            let ended = nodes.halls[0].server().end_remote_collective(part.number, &end);
            assert!(ended.is_err(), "{part:?} {data:?}");
        }
    }
    assert_eq!((nodes.status(0), nodes.status(2)), (vec![], vec![]));
    nodes.end_parts(&parts[..1], 1);
    assert_eq!(nodes.status(0), [Status::SUCCESS]);
    let job = nodes.halls[0].world.job;
    let mut forward = |rank, format, body: &[u8]| {
        let peer = ProcId { job, rank: Rank(rank) };
        nodes.halls[0].server().handle_forwarded(ForwardedRequest { peer, format, body })
    };
    let finalize = packed(Format::PLAIN, &|to| {
        to.one(Type::COMMAND).u8(Command::FINALIZE.0);
    });
    assert!(forward(1, 3, &finalize).is_err());
    let notify = packed(Format::PLAIN, &|to| {
        to.one(Type::COMMAND).u8(Command::NOTIFY.0).one(Type::STATUS).i32(-1000);
        to.one(Type::DATA_RANGE).u8(range::NAMESPACE).one(Type::SIZE).size(0);
    });
    let plain =
        u8::from(Format::PLAIN.family == Family::Flex) | u8::from(Format::PLAIN.is_described) << 1;
    assert!(matches!(forward(0, plain, &notify), Err(RemoteError::Misuse(_))));
    assert!(forward(1, 4, &notify).is_err() && forward(1, plain, &notify[..3]).is_err());
    assert_eq!(forward(1, plain, &notify), Ok(()));
}

/// Has `head` execute the request about published data that a node has handed up; the body of the answer.
fn serve_names(nodes: &mut Nodes, node: usize, head: &mut Hall) -> Option<Vec<u8>> {
    let hall = &mut nodes.halls[node];
    let event = hall.world.server.poll_event();
    let Some(Event::HostRequest { session, exchange }) = event else { panic!("{event:?}") };
    let request = hall.view().forwarded(session).unwrap();
    let reply = head.server().serve_names(request, count(node));
    hall.server().request_read(session);
    let NamesReply::Answer(body) = reply else { return None };
    let body = body.unwrap();
    hall.server().answer_with(session, exchange, body.as_ref()).unwrap();
    Some(body.as_ref().to_vec())
}

#[test]
fn published_data_is_held_by_the_head() {
    let spec = JobSpec { size: Some(5), has_uplink: true, ..job_spec(JOB_NAME) };
    let mut head = Hall::in_world(TestServer::of(spec, vec![]), b"");
    let mut nodes = Nodes::new();
    let publish = |nodes: &mut Nodes, rank: usize, of: u8| {
        let (hall, client) = nodes.client(rank);
        hall.ask(client, Command::PUBLISH, &|to| {
            to.one(Type::UINT32).u32(7).one(Type::SIZE).size(2).op(Type::INFO, 2);
            to.text(Some(b"name")).u32(0).of(Type::STRING).text(Some(b"port"));
            to.text(Some(keys::RANGE)).u32(0).of(Type::DATA_RANGE).u8(of);
        });
    };
    let lookup = |nodes: &mut Nodes, rank: usize| {
        let (hall, client) = nodes.client(rank);
        hall.ask(client, Command::LOOKUP, &|to| {
            to.one(Type::UINT32)
                .u32(7)
                .one(Type::SIZE)
                .size(1)
                .one(Type::STRING)
                .text(Some(b"name"));
            to.one(Type::SIZE).size(0);
        });
    };
    lookup(&mut nodes, 1);
    assert!(serve_names(&mut nodes, 1, &mut head).is_some());
    assert_eq!(nodes.status(1), [Status::NOT_FOUND]);
    // Data for the own node is not found on the other one.
    publish(&mut nodes, 0, range::LOCAL);
    serve_names(&mut nodes, 0, &mut head).unwrap();
    assert_eq!(nodes.status(0), [Status::SUCCESS]);
    for (rank, status) in [(1, Status::NOT_FOUND), (2, Status::SUCCESS)] {
        lookup(&mut nodes, rank);
        serve_names(&mut nodes, rank % 2, &mut head).unwrap();
        assert_eq!(nodes.status(rank), [status]);
    }
    // A text for all is found by PMI clients too.
    publish(&mut nodes, 3, range::SESSION);
    serve_names(&mut nodes, 1, &mut head).unwrap();
    assert_eq!(nodes.status(3), [Status::SUCCESS]);
    let by = ProcId { job: head.world.job, rank: Rank(4) };
    let lookup_name = NameRequest::Lookup { service: b"name" };
    let found = head.world.server.serve_name(by, lookup_name);
    assert_eq!(found, NameAnswer::Port(b"port"));
    // A client that is not who it claims to be is refused here.
    let (hall, client) = nodes.client(0);
    hall.ask(client, Command::PUBLISH, &|to| {
        to.one(Type::UINT32).u32(8).one(Type::SIZE).size(0);
    });
    assert_eq!(nodes.status(0), [Status::NO_PERMISSIONS]);
}
