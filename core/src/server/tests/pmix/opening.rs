//! Admission of peers, and the connections of a rank.

use super::*;

#[test]
fn client_is_let_in_only_when_its_owner_says_so() {
    let mut hall = Hall::empty(2);
    let id = hall.open();
    hall.hand_in(id, &greeting(NSPACE, 1, Format::PLAIN)).unwrap();
    hall.world.server.poll_event().unwrap();
    assert_eq!(hall.world.server.peer(id), None);
    hall.server().refuse(id, Status::NO_PERMISSIONS);
    assert_eq!(read_welcome(&hall.bytes(id)), Some((Err(Status::NO_PERMISSIONS.0), 4)));
    assert!(hall.world.server.session(id).unwrap().is_finished());
    assert_eq!(hall.world.phase(1), Phase::Absent);
    hall.join(1, Format::PLAIN);
    assert_eq!(hall.world.phase(1), Phase::Open);
}

#[test]
fn greeting_may_come_in_pieces_and_with_requests_behind_it() {
    let mut hall = Hall::empty(1);
    let id = hall.open();
    let request = packed(Format::PLAIN, &|to| {
        to.one(Type::COMMAND).u8(Command::FINALIZE.0);
    });
    let all = [greeting(NSPACE, 0, Format::PLAIN), message(id.place(), 101, &request)].concat();
    let (said, asked) = all.split_at(all.len() - 18);
    for byte in said {
        assert_eq!(hall.hand_in(id, &[*byte]), Ok(1));
    }
    // Bytes behind the greeting wait in the peer.
    assert_eq!(hall.hand_in(id, asked), Ok(0));
    assert!(matches!(hall.world.server.poll_event(), Some(Event::AdmissionRequested { .. })));
    hall.server().admit(id).unwrap();
    assert_eq!(hall.bytes(id), [0, 0, 0, 0, 0, 0, 0, 0]);
    for byte in asked {
        assert_eq!(hall.hand_in(id, &[*byte]), Ok(1));
    }
    assert_eq!(hall.bytes(id), message(0, 101, &[2, 0]));
    assert_eq!(hall.world.phase(0), Phase::Finalized);
}

#[test]
fn impossible_claims_are_rejected_with_a_status() {
    let native = greeting(NSPACE, 1, Format::PLAIN);
    let plain = Greeting::read(&native).unwrap();
    let cases = [
        (greeting(b"other", 0, Format::PLAIN), Status::NOT_FOUND),
        (greeting(NSPACE, 2, Format::PLAIN), Status::NOT_FOUND),
        (greeting_bytes(&Greeting { store: b"shmem2", ..plain }), Status::NOT_SUPPORTED),
        (greeting_bytes(&Greeting { credential_type: b"munge", ..plain }), Status::INVALID_CRED),
        (greeting_bytes(&Greeting { credential: b"short", ..plain }), Status::INVALID_CRED),
        (
            greeting_bytes(&Greeting { kind: Kind::NamedTool, owner: Some((7, 8)), ..plain }),
            Status::EXISTS,
        ),
        (tool(Kind::NamedTool, Some((NSPACE, 0))), Status::EXISTS),
        (tool(Kind::NamedTool, Some((b"mine", u32::MAX))), Status::BAD_PARAM),
        (tool(Kind::StartedTool, Some((b"other", 0))), Status::NOT_FOUND),
        (
            greeting_bytes(&Greeting {
                kind: Kind::Tool,
                owner: Some((6, 8)),
                identity: None,
                ..plain
            }),
            Status::INVALID_CRED,
        ),
    ];
    let mut hall = Hall::empty(2);
    for (greeting, status) in cases {
        let id = hall.open();
        hall.hand_in(id, &greeting).unwrap();
        assert_eq!(hall.bytes(id), b"", "it hangs up when it is told");
        let Some(Event::AdmissionInvalid { session, status: said, .. }) =
            hall.world.server.poll_event()
        else {
            panic!("the owner may look at it")
        };
        assert_eq!((session, said), (id, status));
        hall.server().refuse(id, status);
        assert_eq!(read_welcome(&hall.bytes(id)), Some((Err(status.0), 4)));
        assert!(hall.world.server.session(id).unwrap().is_finished());
        hall.world.server.close(id);
    }
    let id = hall.open();
    assert!(matches!(hall.hand_in(id, b"cmd=init"), Err(PeerError::Malformed(_))));
    hall.world.server.close(id);
    let id = hall.open();
    hall.late(5);
    assert_eq!(hall.hand_in(id, &native), Err(PeerError::TimedOut));
}

// Coverage: X1-14
#[test]
fn child_may_speak_for_its_rank_and_go_before_it() {
    let mut hall = Hall::new(1);
    let child = hall.join(0, Format::PLAIN);
    let id = hall.clients[child].0;
    let mut connection = hall.world.server.session(id).unwrap();
    assert_eq!(connection.handle_end(NOW), Ok(()));
    hall.world.server.close(id);
    assert_eq!(hall.world.phase(0), Phase::Open);
    hall.ask(0, Command::FINALIZE, &|_| {});
    assert_eq!(hall.status(0), Status::SUCCESS);
    assert_eq!(hall.world.phase(0), Phase::Finalized);
    // It may initialize again while its process runs.
    hall.join(0, Format::PLAIN);
    assert_eq!(hall.world.phase(0), Phase::Open);
}

#[test]
fn job_stays_while_a_connection_belongs_to_it_or_claims_to() {
    let mut hall = Hall::empty(2);
    let claims = hall.open();
    hall.hand_in(claims, &greeting(NSPACE, 0, Format::PLAIN)).unwrap();
    hall.world.server.poll_event().unwrap();
    let speaks = hall.join(1, Format::PLAIN);
    let job = hall.world.job;
    let refused = Err(Misuse::WrongState { needed: "no connection of the job is open" });
    for id in [claims, hall.clients[speaks].0] {
        assert_eq!(hall.world.server.remove_job(job), refused);
        assert!(hall.world.server.job(job).is_some());
        hall.world.server.close(id);
    }
    assert_eq!(hall.world.server.remove_job(job), Ok(()));
    assert!(hall.world.server.job(job).is_none());
    assert!(hall.world.server.remove_job(job).is_err());
}

#[test]
fn connections_of_a_rank_are_found_until_they_are_closed() {
    let mut hall = Hall::empty(2);
    let all: Vec<usize> = (0..3).map(|_| hall.join(1, Format::PLAIN)).collect();
    hall.join(0, Format::PLAIN);
    let ids: Vec<SessionId> = all.iter().map(|client| hall.clients[*client].0).collect();
    let job = hall.world.job;
    let found =
        |hall: &Hall, rank| -> Vec<SessionId> { hall.view().sessions(job, Rank(rank)).collect() };
    assert_eq!(found(&hall, 1), ids);
    assert_eq!(found(&hall, 0), [hall.clients[3].0]);
    // A peer that was not admitted is none of them, and its end removes none.
    let claimed = hall.open();
    hall.hand_in(claimed, &greeting(NSPACE, 1, Format::PLAIN)).unwrap();
    hall.world.server.close(claimed);
    for (closed, left) in [(1, &[0, 2][..]), (0, &[2]), (2, &[])] {
        hall.world.server.close(ids[closed]);
        let left: Vec<SessionId> = left.iter().map(|at: &usize| ids[*at]).collect();
        assert_eq!(found(&hall, 1), left);
    }
    hall.join(1, Format::PLAIN);
    assert_eq!(found(&hall, 1), [hall.clients[4].0]);
}

/// Greeting of a tool, which brings this identity if any.
fn tool(kind: Kind, identity: Option<(&[u8], u32)>) -> Vec<u8> {
    let native = greeting(NSPACE, 1, Format::PLAIN);
    let native = Greeting::read(&native).unwrap();
    let greeting = Greeting { kind, owner: Some((7, 8)), identity, ..native };
    greeting_bytes(&greeting)
}

impl Hall {
    /// Connects a tool as a job of this name; returns its number among the clients.
    pub(super) fn add_tool_session(&mut self, name: &str) -> usize {
        let id = self.open();
        self.hand_in(id, &tool(Kind::Tool, None)).unwrap();
        self.world.server.poll_event();
        let job = add_tool(self, name, 0);
        self.server().admit_tool(id, job).unwrap();
        self.bytes(id);
        self.clients.push((id, Format::PLAIN));
        self.clients.len() - 1
    }
}

/// Adds the job of a tool.
fn add_tool(hall: &mut Hall, name: &str, rank: u32) -> JobId {
    let member = Member::new(0, 0).with_rank(Rank(rank));
    let job = hall
        .world
        .server
        .add_job(job_spec(name), vec![member], testkit::server::store(8, 256))
        .unwrap();
    let info = packed(Format::PLAIN, &|to| {
        to.one(Type::KVAL).text(Some(keys::SERVER_NSPACE)).of(Type::STRING).text(Some(b"server"));
        to.one(Type::KVAL).text(Some(keys::SERVER_RANK)).of(Type::PROC_RANK).u32(3);
    });
    let info = Block::from_slice(&info).unwrap();
    hall.server().add_job(job, info, vec![RankData::of(Rank(rank))]).unwrap();
    job
}

#[test]
fn tool_that_its_launcher_has_started_is_a_rank_with_the_welcome_of_a_tool() {
    let info = packed(Format::PLAIN, &|to| {
        describe(2, to);
        to.one(Type::KVAL).text(Some(keys::SERVER_NSPACE)).of(Type::STRING).text(Some(b"server"));
        to.one(Type::KVAL).text(Some(keys::SERVER_RANK)).of(Type::PROC_RANK).u32(3);
    });
    for (info, is_described) in [(info, true), (Vec::new(), false)] {
        let mut hall = Hall::described(2, &info);
        let id = hall.open();
        hall.hand_in(id, &tool(Kind::StartedTool, Some((NSPACE, 1)))).unwrap();
        let (job, rank) = (hall.world.job, Rank(1));
        let event = Event::AdmissionRequested { session: id, job, rank, user: Some(7) };
        assert_eq!(hall.world.server.poll_event(), Some(event));
        assert_eq!(hall.server().admit(id).is_ok(), is_described);
        if is_described {
            let bytes = hall.bytes(id);
            assert_eq!((bytes.len(), &bytes[..10]), (4 + 260 + 4, &b"\0\0\0\0server"[..]));
            assert!(!hall.view().is_tool(id));
            assert_eq!(hall.view().peer(id), Some(crate::ids::ProcId { job, rank }));
            assert_eq!(hall.world.phase(1), Phase::Open);
        }
    }
}

#[test]
fn tool_gets_an_identity_or_keeps_its_own_and_knows_the_server() {
    for (kind, identity) in [
        (Kind::Tool, None),
        (Kind::NamedTool, Some((&b"mine"[..], 0))),
        (Kind::NamedTool, Some((&b"mine"[..], 4711))),
    ] {
        let mut hall = Hall::empty(1);
        let id = hall.open();
        hall.hand_in(id, &tool(kind, identity)).unwrap();
        let event = Event::ToolAdmissionRequested { session: id, user: Some(7) };
        assert_eq!(hall.world.server.poll_event(), Some(event));
        let brought = identity.map(|(name, rank)| (name, Rank(rank)));
        assert_eq!(hall.view().tool_identity(id), brought);
        assert!(hall.server().admit(id).is_err(), "it is no rank");
        assert!(hall.server().admit_tool(id, JobId(9)).is_err(), "there is no such job");
        assert_eq!(hall.bytes(id), b"");
        let rank = identity.map_or(0, |(_, rank)| rank);
        let job = add_tool(&mut hall, "mine", rank);
        hall.server().admit_tool(id, job).unwrap();
        assert_eq!(hall.view().peer(id), Some(crate::ids::ProcId { job, rank: Rank(rank) }));
        assert!(hall.server().admit_tool(id, job).is_err(), "once is enough");
        let name = |name: &[u8], rank: u8| {
            let mut field = [0; 260];
            field[..name.len()].copy_from_slice(name);
            field[259] = rank;
            field.to_vec()
        };
        let given = identity.map_or_else(|| name(b"mine", 0), |_| Vec::new());
        let expected = [vec![0; 4], given, name(b"server", 3), vec![0; 4]].concat();
        assert_eq!(hall.bytes(id), expected);
        assert!(hall.view().is_tool(id) && hall.view().has_job(job));
        hall.clients.push((id, Format::PLAIN));
        hall.ask(0, Command::ABORT, &|to| {
            to.one(Type::STATUS).i32(1).one(Type::STRING).text(None).one(Type::SIZE).size(0);
        });
        assert_eq!(hall.status(0), Status::NOT_SUPPORTED);
        hall.ask(0, Command::FINALIZE, &|_| {});
        assert_eq!(hall.status(0), Status::SUCCESS);
        hall.world.server.close(id);
        hall.world.server.remove_job(job).unwrap();
        assert!(!hall.view().has_job(job));
    }
}

#[test]
fn event_of_a_tool_goes_to_all_nodes_at_their_head_only() {
    for (mut hall, is_head) in [(Hall::with_uplink(1), true), (Hall::new(1), false)] {
        hall.add_tool_session("mine");
        let id = hall.clients[1].0;
        for (range, is_for_all) in [(range::SESSION, true), (range::NAMESPACE, false)] {
            assert_eq!(hall.notify(1, -1000, range, &[]), Status::SUCCESS);
            let event = hall.world.server.poll_event();
            let expected = Event::RequestForwarded { session: id };
            assert_eq!(event, (is_head && is_for_all).then_some(expected));
            hall.server().request_read(id);
        }
    }
}
