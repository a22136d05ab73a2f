//! Clients that read the store of their job, and what its owner may publish.

use super::*;
use crate::ids::ProcId;

/// Sends the greeting of rank 0 that claims the store `ds21`, and returns the event for the owner.
fn claim(hall: &mut Hall, version: &[u8], format: Format) -> (SessionId, Option<Event>) {
    let id = hall.open();
    let native = greeting(NSPACE, 0, format);
    let of_version = Greeting { version, store: b"ds21", ..Greeting::read(&native).unwrap() };
    hall.hand_in(id, &greeting_bytes(&of_version)).unwrap();
    (id, hall.world.server.poll_event())
}

#[test]
fn store_is_claimed_where_there_is_one_by_libraries_that_read_it() {
    let mut hall = Hall::empty(1);
    let rejects = |hall: &mut Hall, version, format| {
        let (id, event) = claim(hall, version, format);
        hall.world.server.close(id);
        let status = Status::NOT_SUPPORTED;
        matches!(event, Some(Event::AdmissionInvalid { status: of, .. }) if of == status)
    };
    assert!(rejects(&mut hall, b"4.2.2", Format::PLAIN), "there is no store");
    let job = hall.world.job;
    hall.server().set_shared_store(job).unwrap();
    for version in [&b"4.1.3"[..], b"3.2.5", b"5.0.0"] {
        assert!(rejects(&mut hall, version, Format::PLAIN));
    }
    assert!(rejects(&mut hall, b"4.2.2", FIXED));
    for version in [&b"4.2.0"[..], b"4.2.2rc2", b"4.2.9"] {
        let (id, event) = claim(&mut hall, version, Format::PLAIN);
        assert!(matches!(event, Some(Event::AdmissionRequested { .. })));
        assert!(hall.view().reads_store(id));
        hall.world.server.close(id);
    }
    // Another client of the job need not read it.
    let client = hall.join(0, Format::PLAIN);
    let id = hall.clients[client].0;
    assert!(!hall.view().reads_store(id));
}

#[test]
fn description_for_a_reader_of_the_store_has_arrays_alone() {
    let mut hall = Hall::empty(2);
    let job = hall.world.job;
    hall.server().set_shared_store(job).unwrap();
    let keys_of = |body: &[u8]| {
        let mut from = Unpacker::new(body, Format::PLAIN);
        assert_eq!(from.one(Type::STRING).unwrap().text().unwrap(), Some(NSPACE));
        let kvals = Kvals::after(from).map(|kval| kval.unwrap().key.to_vec());
        kvals.collect::<Vec<_>>()
    };
    let all = hall.join(0, Format::PLAIN);
    hall.ask(all, Command::REQ, &|_| {});
    let all = keys_of(&hall.answer(all));
    let (id, _) = claim(&mut hall, b"4.2.2", Format::PLAIN);
    hall.server().admit(id).unwrap();
    hall.bytes(id);
    hall.clients.push((id, Format::PLAIN));
    let reader = hall.clients.len() - 1;
    hall.ask(reader, Command::REQ, &|_| {});
    let arrays = [keys::SESSION_ARRAY, keys::NODE_ARRAY, keys::APP_ARRAY];
    let mut expected = all.clone();
    expected.retain(|key| arrays.contains(&key.as_slice()));
    assert_eq!(keys_of(&hall.answer(reader)), expected);
    assert!(expected.len() < all.len(), "the rest is in the store");
}

#[test]
fn owner_sees_what_a_rank_commits_for_its_node() {
    let mut hall = Hall::new(2);
    let proc = ProcId { job: hall.world.job, rank: Rank(1) };
    let seen = |hall: &Hall| {
        let version = hall.view().commit_version(proc);
        let data = hall.view().committed_data(proc);
        let keys =
            data.map(|data| data.kvals.map(|kval| kval.unwrap().key.to_vec()).collect::<Vec<_>>());
        (version, keys.unwrap_or_default())
    };
    assert_eq!(seen(&hall), (Some(0), vec![]));
    assert_eq!(hall.commit(1, "far", &[scope::REMOTE]), Status::SUCCESS);
    assert_eq!(seen(&hall), (Some(0), vec![]));
    assert_eq!(hall.commit(1, "near", &[scope::LOCAL]), Status::SUCCESS);
    assert_eq!(seen(&hall), (Some(1), vec![b"near".to_vec()]));
    assert_eq!(hall.commit(1, "all", &[scope::GLOBAL]), Status::SUCCESS);
    assert_eq!(seen(&hall), (Some(2), vec![b"near".to_vec(), b"all".to_vec()]));
    let other = ProcId { rank: Rank(2), ..proc };
    assert_eq!(hall.view().commit_version(other), None);
}
