//! Every size at its limit in frames, where each `;` may take two bytes.

use pmi_core::command::{
    Answer, Identity, LimitedField, Notice, Pair, Place, ProcessCodes, Reason, Reply, Request,
    Text, Verb, Version,
};
use pmi_core::error::{Code, Full};
use pmi_core::limits;
use pmi_core::wire::pmi2::{self, FrameStyle};
use pmi_core::wire::{Framed, WriteError};

// No text is longer on the wire than one of `;` only.
const KEY: [u8; limits::KEY_BYTES] = [b';'; limits::KEY_BYTES];
const VALUE: [u8; limits::VALUE_BYTES] = [b';'; limits::VALUE_BYTES];
const NAME: [u8; limits::KVSNAME_BYTES] = [b'n'; limits::KVSNAME_BYTES];
const TAG: [u8; limits::TAG_BYTES] = [b't'; limits::TAG_BYTES];

// Coverage: W2-18
#[test]
fn longest_requests_fit_a_frame_and_a_message() {
    let [key, value, name] = [&KEY[..], &VALUE, &NAME].map(Text::plain);
    let place = Place::Job(None);
    let full = Request::FullInit {
        rank: Some(u32::MAX),
        job: Some(name),
        threaded: true,
        method: Some(Text::from("challenge-sha256")),
    };
    let requests = [
        full,
        Request::Put { place, key, value },
        Request::Put { place: Place::Node, key, value },
        Request::Get { place: Place::Job(Some(name)), key, wait: false },
        Request::Get { place: Place::Node, key, wait: true },
        Request::Publish { service: key, port: value },
        Request::Lookup { service: key },
        Request::PutAll { job: name, pairs: u32::MAX },
        Request::PutPair { key, value },
        Request::Connect { job: name },
    ];
    let mut longest = 0;
    for request in requests {
        let mut out = [0; limits::PMI2_FRAME];
        longest = longest.max(pmi2::write_request(&request, &TAG, &NAME, &mut out).unwrap());
    }
    // The size follows from its content, not from a guess that is far too large.
    assert!(longest + 2 * limits::KVSNAME_BYTES + 160 > limits::PMI2_FRAME, "{longest}");
    const { assert!(limits::PMI2_FRAME <= limits::MESSAGE_BYTES) };
}

#[test]
fn ring_whose_values_are_at_their_limit_fits_a_message_unless_they_are_full_of_semicolons() {
    let plain = [b'v'; limits::VALUE_BYTES];
    let [left, right] = [&plain, &plain].map(Text::from);
    let mut out = [0; limits::MESSAGE_BYTES];
    let ring = Request::Ring { left, right };
    assert!(pmi2::write_request(&ring, &TAG, &NAME, &mut out).is_ok());
    let [left, right] = [&VALUE, &VALUE].map(Text::from);
    let ring = pmi2::write_request(&Request::Ring { left, right }, &TAG, &NAME, &mut out);
    assert!(matches!(ring, Err(WriteError::Full(_))));
}

#[test]
fn longest_replies_fit_what_is_kept_for_one() {
    let [key, value, name] = [&KEY[..], &VALUE, &NAME].map(Text::plain);
    let most = |to, answer| Reply { to, tag: &TAG, code: Code(i32::MIN), answer };
    let who = Identity {
        rank: u32::MAX,
        size: u32::MAX,
        appnum: i32::MIN,
        spawner: Some(name),
        is_debugged: false,
        is_verbose: false,
    };
    let too_long = Reason::Length {
        what: LimitedField::Value,
        key: &KEY,
        len_bytes: usize::MAX,
        limit_bytes: usize::MAX,
        rank: u32::MAX,
    };
    let word = [b'w'; limits::WORD_BYTES];
    let mut longest = 0;
    for reply in [
        most(Verb::FullInit, Answer::Identity(who)),
        most(Verb::FullInit, Answer::Challenge(Text::plain(&[b'9'; 18]))),
        most(Verb::KvsName, Answer::Name(name)),
        most(Verb::Get, Answer::Value(value)),
        most(Verb::NodeGet, Answer::Value(value)),
        // Under both its names.
        most(Verb::Lookup, Answer::Value(value)),
        most(Verb::Ring, Answer::Ring { count: u32::MAX, left: value, right: value }),
        most(Verb::GetAll, Answer::Count(u32::MAX)),
        most(Verb::GetAll, Answer::Pair(Pair { key, value })),
        most(Verb::Put, Answer::Refused(too_long)),
        most(
            Verb::Spawn,
            Answer::Spawned { job: Some(name), codes: Some(ProcessCodes::List(key)) },
        ),
        most(Verb::Notice, Answer::Notice(Notice::Abort(i32::MIN))),
        most(Verb::Unknown, Answer::Refused(Reason::NotSupported { word: &word })),
        most(
            Verb::Init,
            Answer::Refused(Reason::Version { newest: (u16::MAX, u16::MAX), rank: Some(u32::MAX) }),
        ),
    ] {
        for semicolons in [FrameStyle::LeftAligned, FrameStyle::RightAligned] {
            let mut out = [0; limits::REPLY_BYTES];
            let written = pmi2::write_reply(&reply, &word, semicolons, &mut out);
            assert!(written.is_ok(), "{:?} gives {written:?}", reply.to);
            longest = longest.max(written.unwrap_or(0));
        }
    }
    assert!(longest + limits::KVSNAME_BYTES + 160 > limits::REPLY_BYTES, "{longest}");
}

#[test]
fn longest_put_needs_every_byte_of_its_slice() {
    let (key, value) = (Text::plain(&KEY), Text::plain(&VALUE));
    let put = Request::Put { place: Place::Job(None), key, value };
    let words = "123456cmd=kvs-put;thrid=;key=;value=;".len();
    let needed = words + TAG.len() + 2 * KEY.len() + 2 * VALUE.len();
    let full = pmi2::write_request(&put, &TAG, b"", &mut vec![0; needed - 1]);
    assert_eq!(full, Err(WriteError::Full(Full { needed })));
    let mut out = vec![0; needed];
    assert_eq!(pmi2::write_request(&put, &TAG, b"", &mut out), Ok(needed));
    assert_eq!(pmi2::frame_request(&out), Ok(Framed::Whole(needed)));
    assert_eq!(pmi2::frame_request(&out[..needed - 1]), Ok(Framed::Partial));
    let (tag, read) = pmi2::read_request(&out).unwrap();
    assert_eq!((tag, read), (&TAG[..], put));
}

#[test]
fn codec_itself_has_no_limit_so_that_a_refusal_can_name_the_length() {
    let key = vec![b'k'; limits::KEY_BYTES + 1];
    let value = vec![b'v'; 2000];
    let put = |key, value| Request::Put { place: Place::Job(None), key, value };
    let put = put(Text::plain(&key), Text::plain(&value));
    let mut out = vec![0; 2 * limits::PMI2_FRAME];
    let len = pmi2::write_request(&put, b"", b"", &mut out).unwrap();
    assert_eq!(pmi2::read_request(&out[..len]), Ok((&b""[..], put)));
}

#[test]
fn versions_are_opened_in_a_line() {
    let version = Version { major: 2, minor: 0 };
    let written = pmi2::write_request(&Request::Init { version }, b"", b"", &mut [0; 200]);
    assert!(matches!(written, Err(WriteError::Misuse(_))));
}
