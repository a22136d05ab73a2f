//! Published data, for clients of every generation.

use super::*;
use crate::ids::ProcId;
use crate::server::pmix::{EndedPublisher, ForwardedRequest, PmixWait};
use crate::wire::pmix::Request as PmixRequest;

impl Hall {
    fn publish(&mut self, client: usize, key: &str, directives: &[(&[u8], Type, u8)]) -> Status {
        self.ask(client, Command::PUBLISH, &|to| {
            let infos = 1 + directives.len() as u64;
            to.one(Type::UINT32)
                .u32(7)
                .one(Type::SIZE)
                .size(infos)
                .op(Type::INFO, count(1 + directives.len()));
            to.text(Some(key.as_bytes())).u32(0).of(Type::STRING).text(Some(b"port"));
            for (key, of, value) in directives {
                to.text(Some(key)).u32(0).of(*of).u8(*value);
            }
        });
        self.status(client)
    }

    fn look_up(&mut self, client: usize, keys: &[&str], waits: bool) {
        self.names(client, Command::LOOKUP, keys, waits);
    }

    fn names(&mut self, client: usize, command: Command, keys: &[&str], waits: bool) {
        self.ask(client, command, &|to| {
            to.one(Type::UINT32).u32(7).one(Type::SIZE).size(keys.len() as u64);
            for key in keys {
                to.one(Type::STRING).text(Some(key.as_bytes()));
            }
            if waits {
                to.one(Type::SIZE).size(2).op(Type::INFO, 2);
                to.text(Some(keys::WAIT)).u32(0).of(Type::BOOL).u8(1);
                to.text(Some(keys::TIMEOUT)).u32(0).of(Type::UINT8).u8(9);
            } else {
                to.one(Type::SIZE).size(0);
            }
        });
    }

    /// Status of a lookup, and the publisher, key and value of each result.
    fn found(&mut self, client: usize) -> (Status, Vec<(u32, String, String)>) {
        let mut answers = self.answers(client);
        assert_eq!(answers.len(), 1);
        let (body, format) = (answers.remove(0).1, self.clients[client].1);
        let status = status_of(&body, format);
        let mut from = Unpacker::new(&body, format);
        from.one(Type::STATUS).unwrap().i32().unwrap();
        if from.is_empty() {
            return (status, Vec::new());
        }
        let text = |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap()).into_owned();
        let count = from.one(Type::SIZE).unwrap().size().unwrap();
        assert_eq!(u64::from(from.op(Type::PDATA).unwrap()), count);
        let found = (0..count).map(|_| {
            let proc = Proc::read(&mut from).unwrap();
            assert_eq!(proc.nspace, NSPACE);
            let key = text(from.text().unwrap());
            (proc.rank, key, text(from.value().unwrap().text()))
        });
        (status, found.collect())
    }
}

fn port(rank: u32, key: &str) -> (u32, String, String) {
    (rank, key.into(), "port".into())
}

// Coverage: X1-17
#[test]
fn published_names_are_found_by_their_audience_until_they_are_unpublished() {
    // Ranks 0 and 1 share a node.
    let mut hall = Hall::empty(3);
    hall.join(0, Format::PLAIN);
    hall.join(1, FIXED);
    hall.join(2, Format::PLAIN);
    let on_node = (keys::RANGE, Type::DATA_RANGE, range::LOCAL);
    assert_eq!(hall.publish(0, "all", &[]), Status::SUCCESS);
    assert_eq!(hall.publish(2, "all", &[]), Status::DUPLICATE_KEY);
    assert_eq!(hall.publish(0, "node", &[on_node]), Status::SUCCESS);
    hall.look_up(1, &["all", "node"], false);
    assert_eq!(hall.found(1), (Status::SUCCESS, vec![port(0, "all"), port(0, "node")]));
    hall.look_up(2, &["all", "node"], false);
    assert_eq!(hall.found(2), (Status::PARTIAL_SUCCESS, vec![port(0, "all")]));
    // Only its publisher can unpublish it, and unknown keys are no error.
    hall.names(2, Command::UNPUBLISH, &["all"], false);
    assert_eq!(hall.status(2), Status::SUCCESS);
    hall.look_up(2, &["all"], false);
    assert_eq!(hall.found(2).0, Status::SUCCESS);
    hall.names(0, Command::UNPUBLISH, &[], false);
    assert_eq!(hall.status(0), Status::SUCCESS);
    hall.look_up(1, &["all", "node"], false);
    assert_eq!(hall.found(1), (Status::NOT_FOUND, vec![]));
}

#[test]
fn lookup_waits_through_publications_of_other_names() {
    let mut hall = Hall::new(3);
    hall.look_up(1, &["one"], true);
    hall.look_up(2, &["two"], true);
    assert_eq!(hall.publish(0, "other", &[]), Status::SUCCESS);
    assert_eq!((hall.answers(1), hall.answers(2)), (vec![], vec![]));
    for (client, key) in [(1, "one"), (2, "two")] {
        assert_eq!(hall.publish(0, key, &[]), Status::SUCCESS);
        let found = vec![(0, key.into(), "port".into())];
        assert_eq!(hall.found(client), (Status::SUCCESS, found));
    }
}

#[test]
fn lookup_waits_for_what_is_read_once() {
    let mut hall = Hall::new(3);
    hall.look_up(1, &["k"], true);
    assert_eq!(hall.answers(1), []);
    let once = (keys::PERSIST, Type::PERSIST, persistence::FIRST_READ);
    assert_eq!(hall.publish(0, "k", &[once]), Status::SUCCESS);
    assert_eq!(hall.found(1), (Status::SUCCESS, vec![port(0, "k")]));
    hall.look_up(2, &["k"], true);
    assert_eq!(hall.answers(2), []);
    hall.late(9);
    assert_eq!(hall.found(2), (Status::TIMEOUT, vec![]));
    // Data with the persistence of its publisher is removed with it.
    let own = (keys::PERSIST, Type::PERSIST, persistence::PROC);
    assert_eq!(hall.publish(0, "k", &[own]), Status::SUCCESS);
    hall.end(0);
    hall.look_up(1, &["k"], false);
    assert_eq!(hall.found(1), (Status::NOT_FOUND, vec![]));
}

#[test]
fn names_are_the_same_for_clients_of_every_generation() {
    let mut hall = Hall::empty(2);
    let client = hall.join(0, Format::PLAIN);
    let peer = Peer::Member { job: hall.world.job, rank: Rank(1) };
    let session = hall.world.server.open(peer, Inbox::new(), [const { None }; 4]).unwrap();
    hall.world.sessions = vec![session; 2];
    hall.world.request(1, "cmd=init pmi_version=1 pmi_subversion=1\n");
    assert_eq!(hall.publish(client, "mine", &[]), Status::SUCCESS);
    let received = hall.world.request(1, "cmd=lookup_name service=mine\n");
    assert!(received.contains("port=port"), "{received}");
    hall.world.request(1, "cmd=publish_name service=theirs port=port\n");
    hall.look_up(client, &["theirs"], false);
    assert_eq!(hall.found(client), (Status::SUCCESS, vec![port(1, "theirs")]));
    assert_eq!(hall.publish(client, "theirs", &[]), Status::DUPLICATE_KEY);
    hall.names(client, Command::UNPUBLISH, &["mine"], false);
    assert_eq!(hall.status(client), Status::SUCCESS);
    let received = hall.world.request(1, "cmd=lookup_name service=mine\n");
    assert!(!received.contains("port=port"), "{received}");
    // A lookup waits until the data is published.
    hall.look_up(client, &["later"], true);
    assert_eq!(hall.answers(client), []);
    hall.world.request(1, "cmd=publish_name service=later port=port\n");
    assert_eq!(hall.found(client), (Status::SUCCESS, vec![port(1, "later")]));
}

#[test]
fn name_that_another_generation_has_unpublished_is_free_for_all() {
    let mut hall = Hall::empty(2);
    let client = hall.join(0, Format::PLAIN);
    let peer = Peer::Member { job: hall.world.job, rank: Rank(1) };
    let session = hall.world.server.open(peer, Inbox::new(), [const { None }; 4]).unwrap();
    hall.world.sessions = vec![session; 2];
    hall.world.request(1, "cmd=init pmi_version=1 pmi_subversion=1\n");
    assert_eq!(hall.publish(client, "k", &[]), Status::SUCCESS);
    hall.world.request(1, "cmd=unpublish_name service=k\n");
    // Another client takes the name: it is the owner, and the name stays when its former owner
    // unpublishes everything.
    hall.world.request(1, "cmd=publish_name service=k port=port\n");
    hall.look_up(client, &["k"], false);
    assert_eq!(hall.found(client), (Status::SUCCESS, vec![port(1, "k")]));
    hall.names(client, Command::UNPUBLISH, &[], false);
    assert_eq!(hall.status(client), Status::SUCCESS);
    hall.look_up(client, &["k"], false);
    assert_eq!(hall.found(client), (Status::SUCCESS, vec![port(1, "k")]));
    // Its former owner may publish it again.
    assert_eq!(hall.publish(client, "k", &[]), Status::DUPLICATE_KEY);
    hall.world.request(1, "cmd=unpublish_name service=k\n");
    assert_eq!(hall.publish(client, "k", &[]), Status::SUCCESS);
    hall.world.request(1, "cmd=unpublish_name service=k\n");
    assert_eq!(hall.publish(client, "k", &[]), Status::SUCCESS);
    hall.look_up(client, &["k"], false);
    assert_eq!(hall.found(client), (Status::SUCCESS, vec![port(0, "k")]));
}

#[test]
fn key_may_be_published_by_several_processes_in_ranges_that_exclude_each_other() {
    let mut hall = Hall::new(2);
    let own = (keys::RANGE, Type::DATA_RANGE, range::PROC_LOCAL);
    assert_eq!(hall.publish(0, "k", &[own]), Status::SUCCESS);
    assert_eq!(hall.publish(0, "k", &[own]), Status::DUPLICATE_KEY);
    assert_eq!(hall.publish(1, "k", &[own]), Status::SUCCESS);
    for client in [0, 1] {
        hall.look_up(client, &["k"], false);
        assert_eq!(hall.found(client), (Status::SUCCESS, vec![port(count(client), "k")]));
    }
    let all = (keys::RANGE, Type::DATA_RANGE, range::SESSION);
    assert_eq!(hall.publish(0, "k", &[all]), Status::SUCCESS);
    assert_eq!(hall.publish(1, "k", &[all]), Status::DUPLICATE_KEY);
}

#[test]
fn data_ends_with_its_process_its_job_or_its_session() {
    let mut hall = Hall::new(1);
    let job = hall.world.job;
    let all = [
        ("proc", persistence::PROC),
        ("once", persistence::FIRST_READ),
        ("app", persistence::APP),
        ("session", persistence::SESSION),
        ("indef", persistence::INDEFINITE),
    ];
    for (key, how) in all {
        let how = (keys::PERSIST, Type::PERSIST, how);
        assert_eq!(hall.publish(0, key, &[how]), Status::SUCCESS);
    }
    let process = EndedPublisher::Process(ProcId { job, rank: Rank(0) });
    let ends = [process, EndedPublisher::Job(job), EndedPublisher::Session(job)];
    for (ended, left) in
        ends.into_iter().zip([&["app", "session", "indef"][..], &["session", "indef"], &["indef"]])
    {
        hall.server().names_owner_gone(ended);
        let has = hall.world.server.pmix_ref().has_published(job);
        assert!(has);
        hall.look_up(0, &["proc", "app", "session", "indef"], false);
        let keys: Vec<String> = hall.found(0).1.into_iter().map(|(_, key, _)| key).collect();
        assert_eq!(keys, left, "{ended:?}");
    }
    hall.names(0, Command::UNPUBLISH, &["indef"], false);
    assert_eq!(hall.status(0), Status::SUCCESS);
    assert!(!hall.world.server.pmix_ref().has_published(job));
}

#[test]
fn owner_serves_the_names_of_a_job_on_one_node() {
    let mut hall = Hall::new(2);
    let job = hall.world.job;
    hall.world.server.hand_names_up(job).unwrap();
    hall.look_up(0, &["k"], false);
    let Some(Event::HostRequest { session, exchange }) = hall.world.server.poll_event() else {
        panic!("the owner has no request");
    };
    let waits = hall.world.server.pmix_ref().waits().map(|(_, wait)| wait);
    assert_eq!(waits.collect::<Vec<_>>(), [PmixWait::Lookup(b"k")]);
    let request = hall.world.server.pmix_ref().forwarded(session).unwrap();
    assert!(matches!(request.read(), Ok(PmixRequest::Lookup(target)) if target.count == 1));
    assert!(ForwardedRequest { format: 9, ..request }.read().is_err());
    hall.server().request_read(session);
    let answer = packed(Format::PLAIN, &|to| {
        to.one(Type::STATUS).i32(Status::NOT_FOUND.0);
    });
    hall.server().answer_with(session, exchange, &answer).unwrap();
    assert_eq!(hall.found(0), (Status::NOT_FOUND, vec![]));
}
