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
            Status::NOT_SUPPORTED,
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
