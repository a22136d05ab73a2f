//! Neither the codec nor the machines allocate memory.

use assert_no_alloc::{AllocDisabler, assert_no_alloc, violation_count};
use pmi_core::client::{Client, ClientEvent, PMI2_BUFFER_BYTES};
use pmi_core::command::{
    Answer, Argument, FenceGroup, Identity, InfoList, Pair, Place, Program, Reply, Request, Spawn,
    Text, Verb, Version,
};
use pmi_core::error::Code;
use pmi_core::ids::{Rank, SessionId};
use pmi_core::limits::{KEY_BYTES, KVSNAME_BYTES, MESSAGE_BYTES, REPLY_BYTES, VALUE_BYTES};
use pmi_core::machine::Machine;
use pmi_core::server::{Arrays, Member, Peer, Server};
use pmi_core::storage::ArrayBuffer;
use pmi_core::store::{Arena, ArenaCell as Cell};
use pmi_core::time::Instant;
use pmi_core::wire::pmi2::{self, FrameStyle};
use pmi_core::wire::{Framed, mapping, pmi1};
use pmi_testkit::server::{JOB_NAME, job_spec};

#[global_allocator]
static WATCHED: AllocDisabler = AllocDisabler;

const KEY: [u8; KEY_BYTES] = [b'k'; KEY_BYTES];
const VALUE: [u8; VALUE_BYTES] = [b'v'; VALUE_BYTES];
const NAME: [u8; KVSNAME_BYTES] = [b'n'; KVSNAME_BYTES];

#[test]
fn counter_counts() {
    assert_ne!(asked(|| drop(std::hint::black_box(Box::new(7)))), 0);
    assert_eq!(asked(|| assert_eq!(std::hint::black_box([7; 64]).len(), 64)), 0);
}

#[test]
fn longest_put_is_written_and_read_without_memory() {
    let key = Text::plain(&KEY);
    let put = Request::Put { place: Place::Job(None), key, value: Text::plain(&VALUE) };
    assert_eq!(asked(|| request(&put)), 0);
}

#[test]
fn spawn_of_several_programs_is_written_and_read_without_memory() {
    let words = ["a", "b c", "d=e"].map(Text::from);
    let pairs = [Pair { key: Text::from("wdir"), value: Text::from("/tmp") }];
    let program = Program {
        executable: Text::from("a.out"),
        processes: 4,
        arguments: Argument::Given(&words),
        info: InfoList::Given(&pairs),
    };
    let programs = [program; 3];
    let spawn = Spawn::Given { programs: &programs, preputs: &pairs };
    assert_eq!(asked(|| request(&Request::Spawn(spawn))), 0);
}

#[test]
fn replies_are_written_and_read_without_memory() {
    let reply = |to, code, answer| Reply { to, tag: b"", code, answer };
    for reply in [
        reply(Verb::Get, Code::SUCCESS, Answer::Value(Text::plain(&VALUE))),
        reply(Verb::Fence, Code::SUCCESS, Answer::Released { tag: Some(7) }),
        reply(Verb::Lookup, Code::FAIL, Answer::Message(Text::from("no_such_service"))),
    ] {
        let asked = asked(|| {
            let mut out = [0; MESSAGE_BYTES];
            let len = pmi1::write_reply(&reply, b"", &mut out).unwrap();
            assert_eq!(pmi1::frame_reply(&out), Ok(Framed::Whole(len)));
            assert_eq!(pmi1::read_reply(&out[..len]), Ok(reply));
        });
        assert_eq!(asked, 0, "{:?}", reply.to);
    }
}

#[test]
fn frames_are_written_and_read_without_memory() {
    let (key, value) = (Text::plain(&KEY), Text::plain(&VALUE));
    let words = ["a", "b;c", "d=e"].map(Text::from);
    let pairs = [Pair { key: Text::from("wdir"), value: Text::from("/tmp") }];
    let program = Program {
        executable: Text::from("a.out"),
        processes: 4,
        arguments: Argument::Given(&words),
        info: InfoList::Given(&pairs),
    };
    let programs = [program; 3];
    let spawn = Spawn::Given { programs: &programs, preputs: &pairs };
    for request in [
        Request::Put { place: Place::Node, key, value },
        Request::Get { place: Place::Node, key, wait: true },
        Request::Publish { service: Text::from("svc"), port: Text::from("a;b") },
        Request::Ring { left: Text::from("a"), right: Text::from("b") },
        Request::Spawn(spawn),
    ] {
        let asked = asked(|| {
            let mut out = [0; MESSAGE_BYTES];
            let len = pmi2::write_request(&request, b"7", &NAME, &mut out).unwrap();
            assert_eq!(pmi2::frame_request(&out), Ok(Framed::Whole(len)));
            assert!(pmi2::read_request(&out[..len]) == Ok((&b"7"[..], request)));
        });
        assert_eq!(asked, 0, "{:?}", request.verb());
    }
    let told = Answer::Message(Text::from("no such service; sorry"));
    let answers = [(Code::SUCCESS, Answer::Value(value)), (Code::FAIL, told)];
    for (code, answer) in answers {
        let reply = Reply { to: Verb::Lookup, tag: b"7", code, answer };
        let asked = asked(|| {
            let mut out = [0; REPLY_BYTES];
            let len = pmi2::write_reply(&reply, b"", FrameStyle::LeftAligned, &mut out).unwrap();
            assert_eq!(pmi2::frame(&out), Ok(Framed::Whole(len)));
            assert_eq!(pmi2::read_reply(&out[..len]), Ok(reply));
        });
        assert_eq!(asked, 0, "{code:?}");
    }
}

#[test]
fn process_mapping_is_written_and_read_without_memory() {
    let nodes = || (0..64u32).map(|rank| rank / 4);
    let asked = asked(|| {
        let mut out = [0; VALUE_BYTES];
        let len = mapping::write_mapping(nodes(), &mut out).unwrap();
        assert!(mapping::read_mapping(&out[..len], 64).unwrap().eq(nodes()));
    });
    assert_eq!(asked, 0);
}

#[test]
fn server_and_its_client_put_fence_and_get_without_memory() {
    let (key, value) = (Text::plain(&KEY[1..]), Text::plain(&VALUE[1..]));
    let place = Place::Job(None);
    converse(&[
        (Request::Init { version: Version::V1_1 }, Answer::Version(Version::V1_1)),
        (Request::KvsName, Answer::Name(Text::from("kvs_1"))),
        (Request::Put { place, key, value }, Answer::Nothing),
        (Request::Fence { group: FenceGroup::World, tag: None }, Answer::Released { tag: None }),
        (Request::Get { place, key, wait: false }, Answer::Value(value)),
        (Request::Finalize, Answer::Nothing),
    ]);
}

#[test]
fn machines_converse_in_frames_without_memory() {
    let (key, value) = (Text::plain(&KEY[1..]), Text::plain(&VALUE[1..]));
    let (own, node) = (Place::Job(None), Place::Node);
    let full = Request::FullInit { rank: Some(0), job: None, threaded: false, method: None };
    let who = Identity {
        rank: 0,
        size: 1,
        appnum: 0,
        spawner: None,
        is_debugged: false,
        is_verbose: false,
    };
    let (service, port) = (Text::from("svc"), Text::from("a;b"));
    let (left, right) = (Text::from("to the left"), Text::from("to the right"));
    converse(&[
        (Request::Init { version: Version::V2_0 }, Answer::Version(Version::V2_0)),
        (full, Answer::Identity(who)),
        (Request::KvsName, Answer::Name(Text::from("kvs_1"))),
        (Request::Put { place: own, key, value }, Answer::Nothing),
        (Request::Fence { group: FenceGroup::World, tag: None }, Answer::Released { tag: None }),
        (Request::Get { place: own, key, wait: false }, Answer::Value(value)),
        (Request::Put { place: node, key: left, value: port }, Answer::Nothing),
        (Request::Get { place: node, key: left, wait: true }, Answer::Value(port)),
        (Request::Publish { service, port }, Answer::Nothing),
        (Request::Lookup { service }, Answer::Value(port)),
        // Alone in the ring, it is its own neighbour.
        (Request::Ring { left, right }, Answer::Ring { count: 0, left: right, right: left }),
        (Request::Finalize, Answer::Nothing),
    ]);
}

/// Performs one request after the other, with these replies.
fn converse(exchanges: &[(Request<'_>, Answer<'_>)]) {
    let mut server = Server::<Board>::new([const { None }; 1], [const { None }; 1], store());
    let job = server.add_job(job_spec(JOB_NAME), [Member::new(0, 0)], store()).unwrap();
    let peer = Peer::Member { job, rank: Rank(0) };
    let session = server.open(peer, ArrayBuffer::new(), [const { None }; 1]).unwrap();
    let mut client = Client::new(ArrayBuffer::new());
    let asked = asked(|| {
        for (request, expected) in exchanges {
            exchange(&mut server, session, &mut client, request, *expected);
        }
    });
    assert_eq!(asked, 0);
    assert!(client.is_finished() && server.session(session).unwrap().is_finished());
}

type Store = Arena<[Cell; 8], [u8; 2048]>;
type Inbox = ArrayBuffer<MESSAGE_BYTES>;
type Mirror = Client<ArrayBuffer<PMI2_BUFFER_BYTES>>;

/// Storage of a board: arrays only.
type Board = Arrays<Inbox, Store, [Member; 1], 1, 1, 1>;

fn store() -> Store {
    Arena::new([Cell::FREE; 8], [0; 2048])
}

/// One request and its reply, from end to end.
fn exchange(
    server: &mut Server<Board>,
    session: SessionId,
    client: &mut Mirror,
    request: &Request<'_>,
    expected: Answer<'_>,
) {
    let mut wire = [0; MESSAGE_BYTES];
    client.start(request).unwrap();
    let len = client.poll_transmit(&mut wire).unwrap().unwrap();
    let mut session = server.session(session).unwrap();
    assert_eq!(session.handle_input(Instant::ZERO, &wire[..len]), Ok(len));
    let len = session.poll_transmit(&mut wire).unwrap().unwrap();
    assert_eq!(client.handle_input(Instant::ZERO, &wire[..len]), Ok(len));
    let Some(ClientEvent::Reply { reply, .. }) = client.poll_event() else { panic!("no answer") };
    assert_eq!((reply.code, reply.answer), (Code::SUCCESS, expected));
}

/// Writes a request and reads it again.
fn request(request: &Request<'_>) {
    let mut out = [0; MESSAGE_BYTES];
    let len = pmi1::write_request(request, &NAME, &mut out).unwrap();
    assert_eq!(pmi1::frame_request(&out), Ok(Framed::Whole(len)));
    let read = pmi1::read_request(&out[..len]).unwrap().unwrap();
    assert_eq!(read.verb(), request.verb());
    if let (Request::Spawn(given), Request::Spawn(read)) = (*request, read) {
        assert!(given == read);
    }
}

/// Number of allocations and deallocations of `what`. Other threads do not count.
fn asked(what: impl FnOnce()) -> u32 {
    let before = violation_count();
    assert_no_alloc(what);
    violation_count() - before
}
