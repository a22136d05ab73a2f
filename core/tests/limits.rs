//! Every size at one less, exact, and one more; and every message in a slice that just fits.

mod transcript;
mod wording;

use pmi_core::command::{
    Answer, Identity, LimitedField, Maxes, Place, ProcessCodes, Reason, Reply, Request, Text, Verb,
    Version,
};
use pmi_core::error::{Code, Full};
use pmi_core::ids::{Excerpt, Key, KvsName, Tag, Value, Word};
use pmi_core::limits;
use pmi_core::wire::{Framed, WriteError, pmi1};
use wording::write;

const KEY: [u8; limits::KEY_BYTES] = [b'k'; limits::KEY_BYTES];
const VALUE: [u8; limits::VALUE_BYTES] = [b'v'; limits::VALUE_BYTES];
const NAME: [u8; limits::KVSNAME_BYTES] = [b'n'; limits::KVSNAME_BYTES];

#[test]
fn names_keys_and_values_are_taken_up_to_their_limit() {
    type Takes = fn(&[u8]) -> bool;
    let kinds: [(usize, Takes); 4] = [
        (limits::KEY_BYTES, |bytes| Key::new(bytes).is_ok()),
        (limits::VALUE_BYTES, |bytes| Value::new(bytes).is_ok()),
        (limits::KVSNAME_BYTES, |bytes| KvsName::new(bytes).is_ok()),
        (limits::TAG_BYTES, |bytes| Tag::new(bytes).is_ok()),
    ];
    for (limit, takes) in kinds {
        for (len, fits) in [(limit - 1, true), (limit, true), (limit + 1, false)] {
            assert_eq!(takes(&vec![b'x'; len]), fits, "{len} of {limit}");
        }
    }
}

#[test]
fn kept_texts_are_cut_at_their_limits() {
    for (len, kept) in [(-1, -1), (0, 0), (1, 0)] {
        let at = |limit: usize, by: isize| limit.checked_add_signed(by).unwrap();
        let excerpt = Excerpt::new(vec![b'x'; at(limits::EXCERPT_BYTES, len)]);
        assert_eq!(excerpt.as_bytes().len(), at(limits::EXCERPT_BYTES, kept));
        let word = Word::new(&vec![b'x'; at(limits::WORD_BYTES, len)]);
        assert_eq!(word.as_bytes().len(), at(limits::WORD_BYTES, kept));
    }
}

#[test]
fn c_program_that_fills_its_buffers_is_understood() {
    // The numbers of `get_maxes` count the terminator: a client sends one byte less, and some
    // send all of them.
    for spare in [1, 0] {
        let key = vec![b'k'; limits::PMI1_MAX_KEYLEN - spare];
        let value = vec![b'v'; limits::PMI1_MAX_VALLEN - spare];
        let name = vec![b'n'; limits::PMI1_MAX_KVSNAME - spare];
        assert!(Key::new(&key).is_ok() && Value::new(&value).is_ok());
        assert!(KvsName::new(&name).is_ok());
        let put = put(&key, &value);
        let mut out = [0; limits::PMI1_LINE];
        let len = pmi1::write_request(&put, &name, &mut out).unwrap();
        let read = pmi1::read_request(&out[..len]).unwrap();
        let place = Place::Job(Some(Text::plain(&name)));
        let (key, value) = (Text::plain(&key), Text::plain(&value));
        assert_eq!(read, Some(Request::Put { place, key, value }));
    }
}

#[test]
fn codec_itself_has_no_limit_so_that_a_refusal_can_name_the_length() {
    let key = vec![b'k'; limits::KEY_BYTES + 1];
    let value = vec![b'v'; limits::VALUE_BYTES + 1];
    let mut out = vec![0; 2 * limits::PMI1_LINE];
    let len = pmi1::write_request(&put(&key, &value), &NAME, &mut out).unwrap();
    let Ok(Some(Request::Put { key, value, .. })) = pmi1::read_request(&out[..len]) else {
        panic!("a put that is too long is still a put");
    };
    assert_eq!((key.len(), value.len()), (limits::KEY_BYTES + 1, limits::VALUE_BYTES + 1));
}

#[test]
fn longest_requests_fit_a_line_and_a_message() {
    let [key, value, name] = [&KEY[..], &VALUE, &NAME].map(Text::plain);
    let requests = [
        put(&KEY, &VALUE),
        Request::Get { place: Place::Job(Some(name)), key, wait: false },
        Request::Publish { service: key, port: value },
        Request::Lookup { service: key },
        Request::InitAck { id: u64::MAX },
        Request::Init { version: Version { major: u16::MAX, minor: u16::MAX } },
    ];
    let mut longest = 0;
    for request in requests {
        let mut out = [0; limits::PMI1_LINE];
        longest = longest.max(pmi1::write_request(&request, &NAME, &mut out).unwrap());
    }
    // The size follows from its content, not from a guess that is far too large.
    assert!(longest + 160 > limits::PMI1_LINE, "{longest} of {}", limits::PMI1_LINE);
    const { assert!(limits::PMI1_LINE <= limits::MESSAGE_BYTES) };
}

#[test]
fn longest_replies_fit_what_is_kept_for_one() {
    let [key, value, name] = [&KEY[..], &VALUE, &NAME].map(Text::plain);
    let most = |to, answer| Reply { to, tag: b"", code: Code(i32::MIN), answer };
    let version = Version { major: u16::MAX, minor: u16::MAX };
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
    for reply in [
        most(Verb::Init, Answer::Version(version)),
        most(Verb::InitAck, Answer::Identity(who)),
        most(
            Verb::Maxes,
            Answer::Maxes(Maxes { kvsname: u32::MAX, key: u32::MAX, value: u32::MAX }),
        ),
        most(Verb::KvsName, Answer::Name(name)),
        most(Verb::Get, Answer::Value(value)),
        most(Verb::Lookup, Answer::Value(value)),
        most(Verb::Put, Answer::Refused(too_long)),
        most(Verb::Fence, Answer::Released { tag: Some(u32::MAX) }),
        most(
            Verb::Spawn,
            Answer::Spawned { job: Some(name), codes: Some(ProcessCodes::List(key)) },
        ),
    ] {
        let written = pmi1::write_reply(&reply, b"", &mut [0; limits::REPLY_BYTES]);
        assert!(written.is_ok(), "{:?} gives {written:?}", reply.to);
    }
    let word = [b'w'; limits::WORD_BYTES];
    let unknown = most(Verb::Unknown, Answer::Refused(Reason::NotSupported { word: &word }));
    assert!(pmi1::write_reply(&unknown, &word, &mut [0; limits::REPLY_BYTES]).is_ok());
}

#[test]
fn message_is_written_whole_or_not_at_all() {
    let mut written = 0;
    for transcript in transcript::all() {
        for message in transcript.scenarios.iter().flat_map(|s| s.messages()).filter(|m| m.ours) {
            let needed = message.bytes.len();
            let mut exact = vec![0; needed];
            assert_eq!(write(message.from, &message.bytes, &mut exact), Some(Ok(needed)));
            assert_eq!(exact, message.bytes, "{}", message.label);
            let mut roomy = vec![0xaa; needed + 16];
            assert_eq!(write(message.from, &message.bytes, &mut roomy), Some(Ok(needed)));
            assert_eq!(roomy[needed..], [0xaa; 16], "{}", message.label);
            for room in [needed - 1, needed / 2, 1, 0] {
                let mut tight = vec![0; room];
                let full = write(message.from, &message.bytes, &mut tight);
                assert_eq!(full, Some(Err(Full { needed })), "{} in {room}", message.label);
            }
            written += 1;
        }
    }
    assert!(written > 100, "{written} messages are in our own words");
}

#[test]
fn longest_put_needs_every_byte_of_its_slice() {
    let request = put(&KEY, &VALUE);
    let needed = "cmd=put kvsname= key= value=\n".len() + NAME.len() + KEY.len() + VALUE.len();
    let full = pmi1::write_request(&request, &NAME, &mut vec![0; needed - 1]);
    assert_eq!(full, Err(WriteError::Full(Full { needed })));
    let mut out = vec![0; needed];
    assert_eq!(pmi1::write_request(&request, &NAME, &mut out), Ok(needed));
    assert_eq!(pmi1::frame_request(&out), Ok(Framed::Whole(needed)));
    assert_eq!(pmi1::frame_request(&out[..needed - 1]), Ok(Framed::Partial));
}

fn put<'a>(key: &'a [u8], value: &'a [u8]) -> Request<'a> {
    let (key, value) = (Text::plain(key), Text::plain(value));
    Request::Put { place: Place::Job(None), key, value }
}
