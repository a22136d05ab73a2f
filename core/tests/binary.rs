//! The binary dialect: golden bytes, round trips, every cut, hostile bytes, and a whole session between
//! both machines.

use pmi_core::client::{Client, ClientEvent, FixedBuffer};
use pmi_core::command::{
    Answer, FenceGroup, Identity, Maxes, Pair, Place as At, Reply, Request, Text, Verb, Version,
};
use pmi_core::error::Code;
use pmi_core::limits::MESSAGE_BYTES;
use pmi_core::machine::Machine;
use pmi_core::time::Instant;
use pmi_core::wire::{Framed, binary};
use pmi_testkit::TestServer;
use proptest::prelude::*;

fn client() -> Client<FixedBuffer, 2> {
    let mut client = Client::new(FixedBuffer::new());
    client.use_binary();
    client
}

/// Performs one request and returns the result of `read` on the reply; bytes travel one by one.
fn ask<T>(
    server: &mut TestServer,
    rank: usize,
    client: &mut Client<FixedBuffer, 2>,
    request: &Request<'_>,
    read: impl FnOnce(&Reply<'_>) -> T,
) -> Option<T> {
    client.start(request).expect("it may be asked");
    let mut out = [0; MESSAGE_BYTES];
    let len = client.poll_transmit(&mut out).expect("room").expect("a question");
    assert_eq!(out[0], binary::MAGIC);
    out[..len].iter().for_each(|byte| assert_eq!(server.send(rank, &[*byte]), Ok(1)));
    for byte in server.recv_bytes(rank) {
        assert_eq!(client.handle_input(Instant::ZERO, &[byte]), Ok(1));
    }
    let ClientEvent::Reply { reply, .. } = client.poll_event()? else { return None };
    Some(read(&reply))
}

fn code(reply: &Reply<'_>) -> Code {
    reply.code
}

#[test]
fn two_ranks_exchange_any_bytes_and_ask_before_they_are_answered() {
    let mut server = TestServer::new(2);
    let mut clients = [client(), client()];
    let any: Vec<u8> = (0..=255).collect();
    for (rank, client) in clients.iter_mut().enumerate() {
        let open = Request::Init { version: Version::BINARY };
        let answer =
            ask(&mut server, rank, client, &open, |r| r.answer == Answer::Version(Version::BINARY));
        assert_eq!(answer, Some(true));
        let key = format!("k{rank}");
        let (key, value) = (Text::from(key.as_str()), Text::from(&any[..]));
        let put = Request::Put { place: At::Job(None), key, value };
        assert_eq!(ask(&mut server, rank, client, &put, code), Some(Code::SUCCESS));
    }
    let fence = Request::Fence { group: FenceGroup::World, tag: None };
    assert_eq!(ask(&mut server, 0, &mut clients[0], &fence, code), None);
    // While the fence is open there is room for another request.
    let limits = ask(&mut server, 0, &mut clients[0], &Request::Maxes, |r| {
        matches!(r.answer, Answer::Maxes(Maxes { value: 1024, .. }))
    });
    assert_eq!(limits, Some(true));
    assert_eq!(ask(&mut server, 1, &mut clients[1], &fence, code), Some(Code::SUCCESS));
    for byte in server.recv_bytes(0) {
        assert_eq!(clients[0].handle_input(Instant::ZERO, &[byte]), Ok(1));
    }
    assert!(
        matches!(clients[0].poll_event(), Some(ClientEvent::Reply { reply, .. }) if reply.to == Verb::Fence)
    );
    for (rank, client) in clients.iter_mut().enumerate() {
        let get =
            |key: &'static str| Request::Get { place: At::Job(None), key: key.into(), wait: false };
        let other = get(if rank == 0 { "k1" } else { "k0" });
        let is_whole = |r: &Reply<'_>| matches!(r.answer, Answer::Value(v) if v == any[..]);
        assert_eq!(ask(&mut server, rank, client, &other, is_whole), Some(true));
        let missing =
            ask(&mut server, rank, client, &get("nothing"), |r| r.answer == Answer::Missing);
        assert_eq!(missing, Some(true));
        assert_eq!(ask(&mut server, rank, client, &Request::Finalize, code), Some(Code::SUCCESS));
        assert!(client.is_finished());
    }
}

#[test]
fn bytes_are_those_of_the_document() {
    let mut out = [0; 64];
    let put = Request::Put { place: At::Job(None), key: "k".into(), value: "ab".into() };
    let len = binary::write_request(&put, b"7", &mut out).expect("room");
    assert_eq!(out[..len], *b"\xa7\x09\x00\x017\x06\x00\x01k\x02ab");
    let open = Request::Init { version: Version::BINARY };
    let len = binary::write_request(&open, b"", &mut out).expect("room");
    assert_eq!(out[..len], *b"\xa7\x04\x00\x00\x01\x0f\x01");
    let value =
        Reply { to: Verb::Get, tag: b"7", code: Code::SUCCESS, answer: Answer::Value("ab".into()) };
    let len = binary::write_reply(&value, &mut out).expect("room");
    assert_eq!(out[..len], *b"\xa7\x08\x00\x07\x017\x00\x06\x02ab");
}

#[test]
fn frame_cut_anywhere_is_partial_and_its_body_cut_anywhere_is_none() {
    let mut out = [0; 64];
    let put = Request::Put { place: At::Job(None), key: "key".into(), value: "value".into() };
    let len = binary::write_request(&put, b"12", &mut out).expect("room");
    for cut in 0..len {
        assert_eq!(binary::frame(&out[..cut]), Ok(Framed::Partial));
        assert!(binary::read_request(&out[..cut]).is_err(), "{cut}");
    }
    assert_eq!(binary::frame(&out[..len + 3]), Ok(Framed::Whole(len)));
    assert_eq!(binary::read_request(&out[..len]), Ok((&b"12"[..], put)));
    assert!(binary::read_request(&out[..=len]).is_err(), "a byte too many");
    for room in 0..len {
        let full = binary::write_request(&put, b"12", &mut out[..room]).expect_err("no room");
        assert_eq!(full, pmi_core::wire::WriteError::Full(pmi_core::error::Full { needed: len }));
    }
}

#[test]
fn peer_that_begins_in_frames_sends_nothing_else_and_no_other_peer_may_request_them() {
    let mut out = [0; 64];
    let mut server = TestServer::new(2);
    let len = binary::write_request(&Request::Init { version: Version::V1_1 }, b"", &mut out);
    assert!(server.send(0, &out[..len.expect("room")]).is_err(), "PMI-1 in frames");
    assert_eq!(server.recv_bytes(0)[0], binary::MAGIC, "told in frames");
    let told = server.request(1, b"cmd=init pmi_version=15 pmi_subversion=1\n");
    assert!(told.contains("rc=-1"), "frames in lines: {told}");

    let mut server = TestServer::new(2);
    let len = binary::write_request(&Request::Init { version: Version::BINARY }, b"", &mut out);
    server.send(0, &out[..len.expect("room")]).expect("our version");
    assert!(server.send(0, b"cmd=get_maxes\n").is_err(), "a line behind frames");

    let mut lines = Client::<FixedBuffer, 1>::new(FixedBuffer::new());
    assert!(lines.start(&Request::Init { version: Version::BINARY }).is_err());
    assert!(client().start(&Request::Init { version: Version::V1_1 }).is_err());
}

#[test]
fn question_that_is_not_known_is_refused_and_the_next_one_answered() {
    let mut server = TestServer::new(2);
    let mut own = client();
    let open = Request::Init { version: Version::BINARY };
    ask(&mut server, 0, &mut own, &open, code);
    assert_eq!(server.send(0, b"\xa7\x03\x00\x019\x7e"), Ok(6));
    let said = server.recv_bytes(0);
    let reply = binary::read_reply(&said).expect("an answer");
    assert_eq!((reply.to, reply.tag, reply.code.is_success()), (Verb::Unknown, &b"9"[..], false));
    assert!(matches!(reply.answer, Answer::Message(_)));
    assert_eq!(ask(&mut server, 0, &mut own, &Request::KvsName, code), Some(Code::SUCCESS));
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..40)
}

proptest! {
    #[test]
    fn whatever_comes_is_read_or_refused(junk in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = binary::frame(&junk);
        let _ = binary::read_request(&junk);
        let _ = binary::read_reply(&junk);
        let mut server = TestServer::new(2);
        let mut all = vec![binary::MAGIC];
        all.extend(junk);
        let _ = server.send(0, &all);
        // The other rank is served in every case.
        let mut own = client();
        let open = Request::Init { version: Version::BINARY };
        prop_assert_eq!(ask(&mut server, 1, &mut own, &open, code), Some(Code::SUCCESS));
    }

    #[test]
    fn requests_and_answers_come_back_as_they_went(
        (key, value, tag) in (bytes(), bytes(), bytes()), (id, a, b, flag) in any::<(u64, u32, i32, bool)>(),
    ) {
        let (k, v) = (Text::from(&key[..]), Text::from(&value[..]));
        let mut out = [0; 512];
        for request in [
            Request::InitAck { id },
            Request::Put { place: At::Job(flag.then_some(v)), key: k, value: v },
            Request::Put { place: At::Node, key: k, value: v },
            Request::Get { place: At::Job(flag.then_some(v)), key: k, wait: false },
            Request::Get { place: At::Node, key: k, wait: flag },
            Request::Get { place: At::Attributes, key: k, wait: false },
            Request::Publish { service: k, port: v },
            Request::Unpublish { service: k },
            Request::Lookup { service: k },
            Request::Connect { job: k },
            Request::Disconnect { job: k },
            Request::GetAll { job: k },
            Request::PutAll { job: k, pairs: a },
            Request::PutPair { key: k, value: v },
            Request::Abort { code: flag.then_some(b), world: flag, message: v },
            Request::Maxes, Request::AppNum, Request::UniverseSize, Request::KvsName, Request::Finalize,
        ] {
            let len = binary::write_request(&request, &tag, &mut out).expect("room");
            prop_assert_eq!(binary::read_request(&out[..len]), Ok((&tag[..], request)));
        }
        for answer in [
            Answer::Nothing, Answer::Missing, Answer::Number(b), Answer::Name(k), Answer::Value(v),
            Answer::Count(a), Answer::Pair(Pair { key: k, value: v }), Answer::Message(v),
            Answer::Identity(Identity {
                rank: a,
                size: a,
                appnum: b,
                spawner: flag.then_some(k),
                is_debugged: false,
                is_verbose: false,
            }),
            Answer::Released { tag: None },
        ] {
            let reply = Reply { to: Verb::Get, tag: &tag, code: Code(b), answer };
            let len = binary::write_reply(&reply, &mut out).expect("room");
            prop_assert_eq!(binary::read_reply(&out[..len]), Ok(reply));
        }
    }
}
