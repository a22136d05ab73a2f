//! Requests and replies that a client refuses in frames.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::storage::ArrayBuffer;

#[test]
fn texts_at_their_longest_fit_and_one_byte_more_does_not() {
    let long = [b';'; 1024];
    for (key, value, fits) in [(62, 1022, true), (63, 1023, true), (64, 1, false), (1, 1024, false)]
    {
        for pair in [false, true] {
            let mut client = ready::<1>();
            let (key, value) = (Text::plain(&long[..key]), Text::plain(&long[..value]));
            let request = if pair {
                client.start(&Request::PutAll { job: "j".into(), pairs: 1 }).unwrap();
                said(&mut client);
                Request::PutPair { key, value }
            } else {
                Request::Put { place: Place::Node, key, value }
            };
            let started = client.start(&request);
            assert_eq!(started.is_ok(), fits, "{started:?}");
            if fits {
                let frame = said(&mut client);
                assert_eq!(frame.len(), client.message_bytes(&request).unwrap());
                assert!(frame.len() <= PMI2_FRAME);
                let read = crate::wire::pmi2::read_request(frame.as_bytes());
                assert_eq!(read, Ok((&b""[..], request)));
            }
        }
    }
    // A request that does not fit the buffer fails with an error, and a reply too.
    let mut small: Client<ArrayBuffer<64>> = Client::new(ArrayBuffer::new());
    let open = |client: &mut Client<ArrayBuffer<64>>, request, answer: &str| {
        client.start(&request).unwrap();
        client.poll_transmit(&mut [0; 200]).unwrap();
        assert_eq!(client.handle_input(NOW, answer.as_bytes()), Ok(answer.len()));
        client.poll_event().unwrap();
    };
    open(&mut small, INIT_2, AGREED);
    open(&mut small, JOIN, &right("cmd=fullinit-response;rc=0;rank=0;size=1;"));
    let limit = Misuse::Length { what: "request", len_bytes: 65, limit_bytes: 64 };
    assert_eq!(small.start(&Request::Connect { job: long[..65].into() }), Err(limit));
    assert!(small.start(&Request::Connect { job: long[..64].into() }).is_ok());
}

#[test]
fn answer_in_a_frame_is_bounded_by_the_buffer() {
    let empty = right("cmd=kvs-get-response;value=;").len();
    for over in [0, 1] {
        let value = "v".repeat(PMI2_BUFFER_BYTES - empty + over);
        let answer = right(&format!("cmd=kvs-get-response;value={value};"));
        for step in [1, 7, answer.len()] {
            let mut client = ready::<1>();
            client.start(&get(b"k")).unwrap();
            said(&mut client);
            let fed = answer.as_bytes().chunks(step).try_for_each(|part| {
                client.handle_input(NOW, part).map(|len| assert_eq!(len, part.len()))
            });
            let limit_bytes = PMI2_BUFFER_BYTES;
            let expected =
                if over == 0 { Ok(()) } else { Err(PeerError::MessageTooLong { limit_bytes }) };
            assert_eq!(fed, expected);
        }
    }
    // The longest value with each `;` doubled, under the longest name, fits in full.
    let mut client = ready::<1>();
    client.start(&node_get(true)).unwrap();
    said(&mut client);
    let body =
        "cmd=info-getnodeattr-response;thrid=0x7ffe994a9a301234567890;rc=0;found=TRUE;value=";
    let answer = right(&format!("{body}{};", ";;".repeat(1024)));
    assert_eq!(client.handle_input(NOW, answer.as_bytes()), Ok(answer.len()));
    let Some(ClientEvent::Reply { reply: Reply { answer: Answer::Value(text), .. }, .. }) =
        client.poll_event()
    else {
        panic!()
    };
    assert_eq!(text.len(), 1024);
}

#[test]
fn bytes_that_are_no_frame_end_the_session() {
    for garbage in [
        "cmd=kvs-get-response rc=0\n",
        "\n",
        "     0",
        "      ",
        "12x456",
        "     5hello",
        "    10cmd=;rc=0;",
        "    21cmd=ring-response;rc=0;",
    ] {
        let mut client = ready::<1>();
        let request = match garbage.contains("ring") {
            true => Request::Ring { left: "".into(), right: "".into() },
            false => Request::KvsName,
        };
        client.start(&request).unwrap();
        said(&mut client);
        let received = client.handle_input(NOW, garbage.as_bytes());
        assert!(matches!(received, Err(PeerError::Malformed(_))), "{garbage:?}: {received:?}");
    }
    // Half a frame may continue.
    let mut client = ready::<1>();
    client.start(&Request::KvsName).unwrap();
    said(&mut client);
    assert_eq!(client.handle_input(NOW, b"    99cmd=job-getid-response;"), Ok(29));
    assert_eq!(client.handle_end(NOW), Err(PeerError::LeftEarly));
}

#[test]
fn requests_that_frames_do_not_have_are_refused_before_anything_is_kept() {
    let mut client = ready::<1>();
    for request in [
        Request::Maxes,
        Request::AppNum,
        Request::UniverseSize,
        Request::Fence { group: FenceGroup::Node, tag: None },
        fence(Some(1)),
        Request::Put { place: Place::Attributes, key: "k".into(), value: "v".into() },
        Request::Put {
            place: Place::Job(Some("other".into())),
            key: "k".into(),
            value: "v".into(),
        },
        Request::Unknown { word: b"hello" },
    ] {
        let said = client.start(&request);
        assert!(matches!(said, Err(Misuse::NotRepresentable { .. })), "{request:?}: {said:?}");
    }
    assert!(matches!(client.start(&put(b"k", b"")), Err(Misuse::Length { .. })));
    assert!(matches!(
        client.start(&Request::Connect { job: "".into() }),
        Err(Misuse::Length { .. })
    ));
    assert_eq!(client.poll_transmit(&mut []), Ok(None));
    let needed = Misuse::WrongState { needed: "the name of the space was requested" };
    assert_eq!(joined::<1>().start(&get(b"k")), Err(needed));
    // A put does not name the space.
    assert!(joined::<1>().start(&put(b"k", b"v")).is_ok());
}

/// Feeds `bytes` in pieces while `request` is in flight, and checks the guarantees of every machine.
fn offer(request: &Request<'_>, bytes: &[u8], piece_bytes: usize) {
    let mut client = ready::<2>();
    let mut first_error = None;
    for mut piece in bytes.chunks(piece_bytes) {
        while !piece.is_empty() {
            if client.start(request).is_ok() {
                let _ = client.poll_transmit(&mut [0; PMI2_FRAME]);
            }
            match client.handle_input(NOW, piece) {
                Ok(len) => {
                    assert!(len <= piece.len() && first_error.is_none());
                    piece = &piece[len..];
                }
                Err(error) => {
                    assert_eq!(*first_error.get_or_insert(error), error);
                    piece = &[];
                }
            }
            if let Some(ClientEvent::Reply { reply, .. }) = client.poll_event() {
                assert_eq!(reply.to, request.verb());
            }
        }
    }
    assert_eq!(client.is_finished(), first_error.is_some() || client.state() == State::Ended);
}

proptest! {
    #[test]
    fn no_bytes_at_all_can_upset_a_client_of_frames(
        bytes in vec(any::<u8>(), 0..3000),
        len in 0..4000usize,
        piece_bytes in 1..300usize,
        which in 0..26usize,
    ) {
        let request = exchanges()[which].0;
        offer(&request, &bytes, piece_bytes);
        // Behind a valid length, more bytes are checked.
        offer(&request, &[format!("{len:>6}cmd=").as_bytes(), &bytes].concat(), piece_bytes);
    }

    #[test]
    fn no_frame_with_a_few_bytes_changed_can_upset_a_client(
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        piece_bytes in 1..60usize,
        which in 0..26usize,
    ) {
        let (request, _, answer, _) = exchanges()[which];
        let mut bytes = right(answer).repeat(3).into_bytes();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        offer(&request, &bytes, piece_bytes);
    }
}
