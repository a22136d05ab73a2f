//! Requests and replies that a client refuses.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::error::Code;

#[test]
fn opening_that_does_not_succeed_is_final() {
    for (asked, answer, expected) in [
        ((1, 1), "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n", Ok((1, 1))),
        ((1, 2), "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n", Ok((1, 1))),
        ((1, 1), "cmd=response_to_init pmi_version=1 pmi_subversion=0 rc=0\n", Ok((1, 0))),
        ((1, 1), "cmd=response_to_init rc=0\n", Ok((1, 1))),
        (
            (1, 1),
            "cmd=response_to_init rc=-1 pmi_version=1 pmi_subversion=1\n",
            Err(PeerError::Refused(Code::FAIL)),
        ),
        ((1, 1), "cmd=response_to_init rc=5\n", Err(PeerError::Refused(Code(5)))),
        (
            (1, 1),
            "cmd=response_to_init pmi_version=1 pmi_subversion=1\n",
            Err(PeerError::Refused(Code::FAIL)),
        ),
        (
            (1, 2),
            "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=1\n",
            Err(PeerError::Version { major: 1, minor: 1 }),
        ),
        (
            (1, 1),
            "cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n",
            Err(PeerError::Version { major: 2, minor: 0 }),
        ),
    ] {
        let mut client = fresh();
        let version = Version { major: asked.0, minor: asked.1 };
        client.start(&Request::Init { version }).unwrap();
        sent(&mut client);
        let taken = client.handle_input(NOW, answer.as_bytes());
        match expected {
            Ok((major, minor)) => {
                assert_eq!(taken, Ok(answer.len()), "{answer}");
                assert_eq!(client.version(), Some(Version { major, minor }), "{answer}");
            }
            Err(error) => {
                assert_eq!(taken, Err(error), "{answer}");
                assert_eq!(client.handle_input(NOW, b"more"), Err(error));
                assert_eq!(client.handle_timeout(NOW), Err(error));
                assert_eq!(client.handle_end(NOW), Err(error));
                assert_eq!(client.state(), State::Failed(error));
                assert!(client.is_finished());
                assert!(client.start(&INIT).is_err());
                assert_eq!(client.poll_transmit(&mut [0; 9]), Ok(None));
            }
        }
    }
}

#[test]
fn version_that_is_not_spoken_is_not_asked_for() {
    for (major, minor) in [(1, 3), (2, 1), (3, 0), (0, 9)] {
        let version = Version { major, minor };
        let refused = fresh().start(&Request::Init { version });
        assert!(matches!(refused, Err(Misuse::NotRepresentable { .. })), "{major}.{minor}");
    }
}

#[test]
fn answer_to_another_question_or_to_none_ends_the_session() {
    let barrier = PeerError::OutOfOrder { got: "barrier_out", expected: "put_result" };
    let mut client = open();
    client.start(&put(b"k", b"v")).unwrap();
    sent(&mut client);
    assert_eq!(client.handle_input(NOW, b"cmd=barrier_out rc=0\n"), Err(barrier));
    assert_eq!(client.handle_input(NOW, b"cmd=put_result rc=0\n"), Err(barrier));
    assert!(client.poll_event().is_none());

    let none = "nothing, since no request is open";
    let unasked = PeerError::OutOfOrder { got: "put_result", expected: none };
    assert_eq!(open().handle_input(NOW, b"cmd=put_result rc=0\n"), Err(unasked));
    assert_eq!(fresh().handle_input(NOW, b"cmd=put_result rc=0\n"), Err(unasked));

    let mut client = open();
    client.start(&Request::Maxes).unwrap();
    sent(&mut client);
    let unknown = PeerError::OutOfOrder { got: "an unknown answer", expected: "maxes" };
    assert_eq!(client.handle_input(NOW, b"cmd=what rc=0\n"), Err(unknown));
}

#[test]
fn fence_answers_only_to_its_tag() {
    let mut client = open_many();
    client.start(&fence(Some(1))).unwrap();
    sent(&mut client);
    assert!(matches!(
        client.handle_input(NOW, b"cmd=barrier_out tag=2\n"),
        Err(PeerError::OutOfOrder { .. })
    ));
}

#[test]
fn garbage_ends_the_session() {
    for garbage in ["\n", "hello\n", "GET / HTTP/1.0\r\n", "\0\0\0\0", "      26cmd=x;", "cmd=\n"] {
        let mut client = open();
        client.start(&Request::Maxes).unwrap();
        sent(&mut client);
        let said = client.handle_input(NOW, garbage.as_bytes());
        assert!(matches!(said, Err(PeerError::Malformed(_))), "{garbage:?}: {said:?}");
    }
    // The fields of a reply are part of it.
    let mut client = open();
    client.start(&Request::Maxes).unwrap();
    sent(&mut client);
    let said = client.handle_input(NOW, b"cmd=maxes rc=0 keylen_max=64\n");
    assert!(matches!(said, Err(PeerError::Malformed(_))));
    // A name that no dialect could write back.
    let mut client = open();
    client.start(&Request::KvsName).unwrap();
    sent(&mut client);
    let name = [&b"cmd=my_kvsname kvsname="[..], &[b'n'; 257], b"\n"].concat();
    assert!(matches!(client.handle_input(NOW, &name), Err(PeerError::Malformed(_))));
}

#[test]
fn answer_is_bounded_by_the_buffer() {
    let empty = "cmd=get_result rc=0 value=\n".len();
    for over in [0, 1] {
        let value = [b'v'; BUFFER_BYTES][..BUFFER_BYTES - empty + over].to_vec();
        let answer = [&b"cmd=get_result rc=0 value="[..], &value, b"\n"].concat();
        for step in [1, 7, answer.len()] {
            let mut client = open();
            client.start(&get(b"k")).unwrap();
            sent(&mut client);
            let fed = answer.chunks(step).try_for_each(|part| {
                client.handle_input(NOW, part).map(|len| assert_eq!(len, part.len()))
            });
            if over == 0 {
                assert_eq!(fed, Ok(()));
                assert!(client.poll_event().is_some());
            } else {
                assert_eq!(fed, Err(PeerError::MessageTooLong { limit_bytes: BUFFER_BYTES }));
            }
        }
    }
}

#[test]
fn keys_and_values_fit_the_sizes_of_the_server_less_the_terminator() {
    let long = [b'x'; 4200];
    let limit = |what, len_bytes, limit_bytes| Err(Misuse::Length { what, len_bytes, limit_bytes });
    let mut client = open();
    for (key, value, refused) in [
        (62, 1022, None),
        (63, 1023, None),
        (64, 1023, Some(limit("key", 64, 63))),
        (63, 1024, Some(limit("value", 1024, 1023))),
    ] {
        let request = put(&long[..key], &long[..value]);
        match refused {
            Some(error) => assert_eq!(client.start(&request), error),
            None => {
                let line = [
                    &b"cmd=put kvsname=kvs_1_0 key="[..],
                    &long[..key],
                    b" value=",
                    &long[..value],
                    b"\n",
                ];
                client.start(&request).unwrap();
                assert_eq!(sent(&mut client), line.concat());
                let done = b"cmd=put_result rc=0\n";
                assert_eq!(client.handle_input(NOW, done), Ok(done.len()));
                assert!(client.poll_event().is_some());
            }
        }
    }
    let maxes = "cmd=maxes rc=0 kvsname_max=64 keylen_max=16 vallen_max=4096\n";
    ask(&mut client, &Request::Maxes, "cmd=get_maxes\n", maxes);
    assert_eq!(client.maxes(), Maxes { kvsname: 64, key: 16, value: 4096 });
    assert_eq!(client.start(&put(&long[..16], b"v")), limit("key", 16, 15));
    assert_eq!(client.start(&get(&long[..16])), limit("key", 16, 15));
    // A server may allow more than the caller's buffer has room for.
    let held = Misuse::Length { what: "request", len_bytes: 4110, limit_bytes: BUFFER_BYTES };
    assert_eq!(client.start(&put(&long[..15], &long[..4095])), Err(held));
    assert!(client.start(&put(&long[..15], &long[..1100])).is_ok());
}

#[test]
fn requests_that_no_line_can_express_are_refused_before_anything_is_kept() {
    let mut client = open();
    for request in [
        put(b"a b", b"v"),
        put(b"k", b"a b"),
        put(b"k", b"a\nb"),
        get(b"k\0"),
        Request::Get { place: Place::Job(Some("a b".into())), key: "k".into(), wait: false },
        Request::Get { place: Place::Node, key: "k".into(), wait: false },
        Request::Put {
            place: Place::Job(Some("other".into())),
            key: "k".into(),
            value: "v".into(),
        },
        Request::Connect { job: "j".into() },
        Request::FullInit { rank: None, job: None, threaded: false, method: None },
        Request::Lacking { verb: Verb::Put, field: "key" },
        Request::Unknown { word: b"hello" },
        Request::Publish { service: service(), port: "a b".into() },
    ] {
        let said = client.start(&request);
        assert!(matches!(said, Err(Misuse::NotRepresentable { .. })), "{request:?}: {said:?}");
    }
    assert!(matches!(client.start(&put(b"", b"v")), Err(Misuse::Length { .. })));
    assert!(matches!(client.start(&put(b"k", b"")), Err(Misuse::Length { .. })));
    assert_eq!(client.poll_transmit(&mut []), Ok(None));
    for list in [&b"1,x"[..], b"0,0,1", b"1,0,1", b"1,01"] {
        let fence = Request::Fence { group: FenceGroup::Ranks(list), tag: None };
        let started = open_many().start(&fence);
        assert!(matches!(started, Err(Misuse::NotRepresentable { .. })), "{fence:?}: {started:?}");
    }
}

// Coverage: R13-19
#[test]
fn nothing_is_asked_before_its_time() {
    let mut client = fresh();
    let init = Misuse::WrongState { needed: "init was answered" };
    for request in [Request::Maxes, fence(None), Request::Finalize] {
        assert_eq!(client.start(&request), Err(init));
    }
    let says = "cmd=init pmi_version=1 pmi_subversion=1\n";
    ask(&mut client, &INIT, says, "cmd=response_to_init rc=0\n");
    let name = Misuse::WrongState { needed: "the name of the space was requested" };
    assert_eq!(client.start(&put(b"k", b"v")), Err(name));
    assert_eq!(client.start(&get(b"k")), Err(name));
    assert!(client.start(&INIT).is_err());
    assert!(client.start(&Request::InitAck { id: 1 }).is_err());
}

#[test]
fn end_of_the_stream_is_early_in_every_state_but_the_last() {
    let early = Err(PeerError::LeftEarly);
    assert_eq!(fresh().handle_end(NOW), early);
    assert_eq!(open().handle_end(NOW), early);
    let mut client = fresh();
    client.start(&Request::InitAck { id: 0 }).unwrap();
    assert_eq!(client.handle_end(NOW), early);
    let mut client = fresh();
    client.start(&INIT).unwrap();
    sent(&mut client);
    assert_eq!(client.handle_input(NOW, b"cmd=resp"), Ok(8));
    assert_eq!(client.handle_end(NOW), early);
    assert_eq!(client.state(), State::Failed(PeerError::LeftEarly));
    let mut client = open();
    client.start(&Request::Finalize).unwrap();
    sent(&mut client);
    assert_eq!(client.handle_end(NOW), early);

    let mut client = open();
    client.start(&abort(b"")).unwrap();
    assert_eq!(client.handle_end(NOW), Ok(()));
    assert_eq!(client.poll_transmit(&mut []), Ok(None));
    assert!(client.is_finished());

    // A reply that arrived whole is not lost with the stream.
    let mut client = open();
    client.start(&get(b"k")).unwrap();
    sent(&mut client);
    assert_eq!(client.handle_input(NOW, b"cmd=get_result rc=0 value=v\n"), Ok(28));
    assert_eq!(client.handle_end(NOW), early);
    assert!(client.poll_event().is_some());
    assert!(client.poll_event().is_none());

    // The last reply arrived together with the end, and can still be polled.
    let mut client = open();
    client.start(&Request::Finalize).unwrap();
    sent(&mut client);
    let ack = b"cmd=finalize_ack rc=0\n";
    assert_eq!(client.handle_input(NOW, ack), Ok(ack.len()));
    assert_eq!(client.handle_end(NOW), Ok(()));
    assert!(client.poll_event().is_some());
    assert_eq!(client.handle_end(NOW), Ok(()));
    assert!(client.start(&Request::Maxes).is_err());
    assert_eq!(client.handle_input(NOW, b"junk"), Ok(4));
}

#[test]
fn failed_question_is_an_answer_and_not_an_end() {
    let mut client = open();
    for (request, answer, code) in [
        (put(b"k", b"v"), "cmd=put_result rc=5\n", 5),
        (Request::Maxes, "cmd=get_maxes_result rc=-1 msg=not_supported\n", -1),
        (Request::AppNum, "cmd=get_appnum rc=-1 info=not_supported_cmd\n", -1),
        (Request::Lookup { service: service() }, "cmd=lookup_result info=fail\n", -1),
        (Request::Lookup { service: service() }, "cmd=unparseable_msg rc=-1\n", -1),
    ] {
        client.start(&request).unwrap();
        sent(&mut client);
        assert_eq!(client.handle_input(NOW, answer.as_bytes()), Ok(answer.len()));
        let Some(ClientEvent::Reply { reply, .. }) = client.poll_event() else {
            panic!("{answer}")
        };
        assert_eq!((reply.to, reply.code), (request.verb(), Code(code)), "{answer}");
    }
}

/// Feeds `bytes` in pieces while `request` is in flight, and checks the guarantees of every machine.
fn offer(client: &mut Client<Small>, request: &Request<'_>, bytes: &[u8], piece_bytes: usize) {
    let mut first_error = None;
    for piece in bytes.chunks(piece_bytes) {
        if client.start(request).is_ok() {
            let _ = client.poll_transmit(&mut [0; PMI1_LINE]);
        }
        match client.handle_input(NOW, piece) {
            Ok(len) => assert!(len <= piece.len() && first_error.is_none()),
            Err(error) => assert_eq!(*first_error.get_or_insert(error), error),
        }
        if let Some(ClientEvent::Reply { reply, .. }) = client.poll_event() {
            assert_eq!(reply.to, request.verb());
        }
    }
    assert_eq!(client.is_finished(), first_error.is_some() || client.state() == State::Ended);
}

proptest! {
    #[test]
    fn no_bytes_at_all_can_upset_a_client(
        bytes in vec(any::<u8>(), 0..2000),
        piece_bytes in 1..300usize,
        which in 0..13usize,
    ) {
        offer(&mut open(), &exchanges()[which].0, &bytes, piece_bytes);
        offer(&mut fresh(), &INIT, &bytes, piece_bytes);
    }

    #[test]
    fn no_answer_with_a_few_bytes_changed_can_upset_a_client(
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        piece_bytes in 1..60usize,
        which in 0..13usize,
    ) {
        let (request, _, answer, _) = exchanges()[which];
        let mut bytes = answer.repeat(3).into_bytes();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        offer(&mut open(), &request, &bytes, piece_bytes);
    }
}

#[test]
fn client_without_the_code_for_a_generation_does_not_ask_for_it() {
    let mut client: Client<Small, 1, 1> = Client::new(Small::new());
    let refused = Misuse::NotRepresentable { what: "an unsupported version" };
    let asked = client.start(&Request::Init { version: Version::V2_0 });
    assert_eq!(asked, Err(refused));
    assert!(client.start(&Request::Init { version: Version::V1_2 }).is_ok());
}
