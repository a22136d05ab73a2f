//! A message that is written as a frame is read again with the same meaning, in either form of `;`.

mod starts;

use pmi_core::command::{
    Answer, Argument, FenceGroup, Identity, InfoList, Notice, Pair, Place, ProcessCodes, Program,
    Reply, Request, Spawn, Text, Verb,
};
use pmi_core::error::{Code, Misuse};
use pmi_core::limits::PMI2_LENGTH_DIGITS;
use pmi_core::wire::pmi2::{self, FrameStyle};
use pmi_core::wire::{Framed, WriteError};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use starts::{Starts, with_spawn};

/// The job of the writing client.
const OWN: &[u8] = b"kvs_1_0";

/// A request that owns its words.
#[derive(Clone, Debug)]
enum Says {
    FullInit(Option<u32>, Option<Vec<u8>>, bool, Option<Vec<u8>>),
    Pair(Verb, Vec<u8>, Vec<u8>),
    Get(Option<Vec<u8>>, Vec<u8>),
    NodeGet(Vec<u8>, bool),
    One(Verb, Vec<u8>),
    PutAll(Vec<u8>, u32),
    Ring(Vec<u8>, Vec<u8>),
    Abort(i32, bool, Vec<u8>),
    Bare(Verb),
}

/// A reply that owns its words.
#[derive(Clone, Debug)]
enum Answers {
    Identity(u32, u32, i32, Option<Vec<u8>>),
    One(Verb, Vec<u8>),
    Missing(Verb),
    Pair(Vec<u8>, Vec<u8>),
    Ring(u32, Vec<u8>, Vec<u8>),
    Spawned(Option<Vec<u8>>, Option<Vec<u8>>),
    Count(u32),
    Notice(Option<i32>),
    Done(Verb),
    Failed(Verb, i32, Option<Vec<u8>>),
}

proptest! {
    // Coverage: W2-17
    #[test]
    fn request_is_read_as_it_was_meant(says in says(text()), tag in tag()) {
        let request = says.request();
        let mut out = [0; 8192];
        let len = pmi2::write_request(&request, &tag, OWN, &mut out).unwrap();
        let bytes = &out[..len];
        prop_assert_eq!(pmi2::frame_request(bytes), Ok(Framed::Whole(len)));
        prop_assert_eq!(pmi2::detect_style(bytes), FrameStyle::LeftAligned);
        prop_assert_eq!(pmi2::read_request(bytes), Ok((&tag[..], read_as(request))));
    }

    // Coverage: W2-15
    #[test]
    fn length_on_the_right_says_the_same_if_there_is_no_semicolon(says in says(plain()), tag in tag()) {
        let request = says.request();
        let mut out = [0; 8192];
        let len = pmi2::write_request(&request, &tag, OWN, &mut out).unwrap();
        let body = &out[PMI2_LENGTH_DIGITS..len];
        let mut bytes = format!("{:6}", body.len()).into_bytes();
        bytes.extend(body);
        prop_assert_ne!(pmi2::detect_style(&bytes), FrameStyle::LeftAligned);
        prop_assert_eq!(pmi2::read_request(&bytes), Ok((&tag[..], read_as(request))));
    }

    #[test]
    fn reply_is_read_as_it_was_meant(answers in answers(text()), tag in tag()) {
        let reply = answers.reply(&tag);
        let mut out = [0; 8192];
        let len = pmi2::write_reply(&reply, b"", FrameStyle::LeftAligned, &mut out).unwrap();
        let bytes = &out[..len];
        prop_assert_eq!(pmi2::frame(bytes), Ok(Framed::Whole(len)));
        prop_assert_eq!(pmi2::read_reply(bytes), Ok(reply));
    }

    #[test]
    fn reply_without_semicolon_is_written_one_way(answers in answers(plain()), tag in tag()) {
        let reply = answers.reply(&tag);
        let written = [FrameStyle::LeftAligned, FrameStyle::RightAligned].map(|semicolons| {
            let mut out = [0; 8192];
            let len = pmi2::write_reply(&reply, b"", semicolons, &mut out).unwrap();
            out[..len].to_vec()
        });
        prop_assert_eq!(&written[0], &written[1]);
    }

    #[test]
    fn value_that_cannot_be_said_is_refused(front in text(), back in text()) {
        let value = [&front[..], b";", &back].concat();
        for to in [Verb::Get, Verb::NodeGet, Verb::JobGet, Verb::Lookup] {
            let reply = ok(to, b"7", Answer::Value(Text::plain(&value)));
            let mut out = [0; 8192];
            let len = pmi2::write_reply(&reply, b"", FrameStyle::RightAligned, &mut out).unwrap();
            let read = pmi2::read_reply(&out[..len]).unwrap();
            prop_assert_eq!((read.to, read.tag, read.code), (to, &b"7"[..], Code::INVALID_VAL));
        }
    }

    // Coverage: W2-33
    #[test]
    fn spawn_is_read_as_it_was_meant(
        starts in vec(starts(), 1..4),
        preputs in vec((text(), text()), 0..3),
    ) {
        with_spawn(&starts, &preputs, |spawn| {
            let mut out = vec![0; 64 * 1024];
            let request = Request::Spawn(spawn);
            let len = pmi2::write_request(&request, b"", OWN, &mut out).unwrap();
            let bytes = &out[..len];
            prop_assert_eq!(pmi2::frame_request(bytes), Ok(Framed::Whole(len)));
            for cut in (0..PMI2_LENGTH_DIGITS + 2).chain([len / 2, len - 1]) {
                prop_assert_eq!(pmi2::frame_request(&bytes[..cut]), Ok(Framed::Partial));
            }
            prop_assert_eq!(pmi2::read_request(bytes), Ok((&b""[..], request)));
            Ok(())
        })?;
    }

    #[test]
    fn six_bytes_of_old_memory_change_nothing(says in says(text()), old in vec(any::<u8>(), 6)) {
        // A client of that kind names every exchange but the opening, by an address.
        let request = says.request();
        prop_assume!(request.verb() != Verb::FullInit);
        let mut out = [0; 8192];
        let len = pmi2::write_request(&request, b"__7ffe994a9a30", OWN, &mut out).unwrap();
        let name = out.windows(2).position(|two| two == b"__").unwrap();
        out[name..name + 2].copy_from_slice(b"0x");
        let body = [&out[PMI2_LENGTH_DIGITS..len], &old].concat();
        let bytes = [format!("{:<6}", body.len()).into_bytes(), body].concat();
        let (tag, read) = pmi2::read_request(&bytes).unwrap();
        prop_assert_eq!(tag, b"0x7ffe994a9a30");
        prop_assert_eq!(read, read_as(request));
    }
}

#[test]
fn messages_that_no_frame_can_express_are_not_written() {
    let (some, none) = (Text::from("a"), Text::EMPTY);
    let place = Place::Job(None);
    for request in [
        Request::Put { place, key: none, value: some },
        Request::Put { place, key: some, value: none },
        Request::Get { place, key: none, wait: false },
        Request::Get { place: Place::Node, key: none, wait: true },
        Request::Publish { service: none, port: some },
        Request::Publish { service: some, port: none },
        Request::Unpublish { service: none },
        Request::Lookup { service: none },
        Request::Connect { job: none },
        Request::PutPair { key: some, value: none },
        Request::Fence { group: FenceGroup::Node, tag: None },
        Request::Fence { group: FenceGroup::World, tag: Some(1) },
        Request::Maxes,
        Request::InitAck { id: 1 },
        Request::Lacking { verb: Verb::Put, field: "key" },
        Request::Unknown { word: b"kvs-put" },
    ] {
        let written = pmi2::write_request(&request, b"", OWN, &mut [0; 512]);
        let misuse = matches!(
            written,
            Err(WriteError::Misuse(Misuse::NotRepresentable { .. } | Misuse::Length { .. }))
        );
        assert!(misuse, "{request:?} gives {written:?}");
    }
}

#[test]
fn exchange_is_not_called_what_would_be_misread() {
    // The first is a tag of clients that send old memory behind the last field.
    for (tag, is_said) in [(&b"0x7f"[..], false), (b"a;b", false), (b"x7f", true), (b"", true)] {
        let written = pmi2::write_request(&Request::KvsName, tag, OWN, &mut [0; 64]);
        assert_eq!(written.is_ok(), is_said, "{tag:?}");
    }
}

// Coverage: W2-21
#[test]
fn spawn_goes_on_in_further_frames_of_a_length_that_peers_read() {
    // One argument that ends the first frame, at and beyond what six digits can say, and then many.
    let first =
        "cmd=spawn;thrid=7;ncmds=1;preputcount=0;subcmd=a;maxprocs=1;argc=1;argv0=;concat=1;";
    let long = |len: usize| vec![vec![b'x'; len - first.len()]];
    let many: Vec<_> = (0..300).map(|n| vec![b';'; n]).collect();
    for (arguments, frames) in
        [(long(999_998), 2), (long(999_999), 2), (long(1_000_000), 0), (many, 3)]
    {
        let arguments: Vec<_> = arguments.iter().map(|bytes| Text::plain(bytes)).collect();
        let programs = [Program {
            executable: Text::from("a"),
            processes: 1,
            arguments: Argument::Given(&arguments),
            info: InfoList::Given(&[]),
        }];
        let spawn = Request::Spawn(Spawn::Given { programs: &programs, preputs: &[] });
        let mut out = vec![0; 1_100_000];
        let written = pmi2::write_request(&spawn, b"7", OWN, &mut out);
        if frames == 0 {
            assert!(matches!(written, Err(WriteError::Misuse(Misuse::Length { .. }))));
            continue;
        }
        let bytes = &out[..written.unwrap()];
        assert_eq!(pmi2::frame_request(bytes), Ok(Framed::Whole(bytes.len())));
        assert_eq!(pmi2::frame_request(&bytes[..bytes.len() - 1]), Ok(Framed::Partial));
        assert_eq!(pmi2::read_request(bytes), Ok((&b"7"[..], spawn)));
        let (mut rest, mut count) = (bytes, 0);
        while let Ok(Framed::Whole(len)) = pmi2::frame(rest) {
            (rest, count) = (&rest[len..], count + 1);
        }
        assert_eq!((count, rest), (frames, &b""[..]));
    }
}

/// Bytes of any kind, with those of the syntax more often than by chance.
fn text() -> impl Strategy<Value = Vec<u8>> + Clone {
    let byte = prop_oneof![4 => any::<u8>(), 1 => Just(b';'), 1 => Just(b'='), 1 => Just(0)];
    vec(byte, 1..200)
}

/// Bytes without `;`.
fn plain() -> impl Strategy<Value = Vec<u8>> + Clone {
    let byte = any::<u8>().prop_map(|byte| if byte == b';' { b'=' } else { byte });
    vec(byte, 1..200)
}

/// Tag of an exchange; a tag that begins like an address implies old memory behind the frame.
fn tag() -> impl Strategy<Value = Vec<u8>> + Clone {
    prop_oneof![
        Just(Vec::new()),
        Just(b"77".to_vec()),
        vec(b'!'..=b'/', 1..24),
        vec(b'<'..=b'~', 24)
    ]
}

fn says(text: impl Strategy<Value = Vec<u8>> + Clone) -> impl Strategy<Value = Says> {
    use Verb::{
        AuthResponse, Connect, Disconnect, Finalize, GetAll, JobGet, KvsName, Lookup, Proof,
        Unpublish,
    };
    let text = || text.clone();
    let pair =
        prop_oneof![Just(Verb::Put), Just(Verb::NodePut), Just(Verb::Publish), Just(Verb::PutPair)];
    let one = proptest::sample::select(vec![
        Proof,
        AuthResponse,
        JobGet,
        Unpublish,
        Lookup,
        Connect,
        Disconnect,
        GetAll,
    ]);
    let bare = proptest::sample::select(vec![KvsName, Verb::Fence, Finalize]);
    prop_oneof![
        (option::of(any::<u32>()), option::of(text()), any::<bool>(), option::of(text()))
            .prop_map(|(rank, job, threaded, method)| Says::FullInit(rank, job, threaded, method)),
        (pair, text(), text()).prop_map(|(verb, key, value)| Says::Pair(verb, key, value)),
        (option::of(text()), text()).prop_map(|(job, key)| Says::Get(job, key)),
        (text(), any::<bool>()).prop_map(|(key, wait)| Says::NodeGet(key, wait)),
        (one, text()).prop_map(|(verb, text)| Says::One(verb, text)),
        (text(), any::<u32>()).prop_map(|(job, pairs)| Says::PutAll(job, pairs)),
        (text(), text()).prop_map(|(left, right)| Says::Ring(left, right)),
        (any::<i32>(), any::<bool>(), text())
            .prop_map(|(code, world, message)| Says::Abort(code, world, message)),
        bare.prop_map(Says::Bare),
    ]
}

impl Says {
    fn request(&self) -> Request<'_> {
        let text = |bytes| Text::plain(bytes);
        match self {
            Self::FullInit(rank, job, threaded, method) => Request::FullInit {
                rank: *rank,
                job: job.as_deref().map(text),
                threaded: *threaded,
                method: method.as_deref().map(text),
            },
            Self::Pair(verb, a, b) => {
                let (key, value) = (text(a), text(b));
                match verb {
                    Verb::NodePut => Request::Put { place: Place::Node, key, value },
                    Verb::Publish => Request::Publish { service: key, port: value },
                    Verb::PutPair => Request::PutPair { key, value },
                    _ => Request::Put { place: Place::Job(None), key, value },
                }
            }
            Self::Get(job, key) => {
                let place = Place::Job(job.as_deref().map(text));
                Request::Get { place, key: text(key), wait: false }
            }
            Self::NodeGet(key, wait) => {
                Request::Get { place: Place::Node, key: text(key), wait: *wait }
            }
            Self::One(verb, bytes) => {
                let (job, service) = (text(bytes), text(bytes));
                match verb {
                    Verb::Proof => Request::Proof { digits: job, is_last: true },
                    Verb::AuthResponse => Request::Proof { digits: job, is_last: false },
                    Verb::Unpublish => Request::Unpublish { service },
                    Verb::Lookup => Request::Lookup { service },
                    Verb::Connect => Request::Connect { job },
                    Verb::Disconnect => Request::Disconnect { job },
                    Verb::GetAll => Request::GetAll { job },
                    _ => Request::Get { place: Place::Attributes, key: job, wait: false },
                }
            }
            Self::PutAll(job, pairs) => Request::PutAll { job: text(job), pairs: *pairs },
            Self::Ring(left, right) => Request::Ring { left: text(left), right: text(right) },
            Self::Abort(code, world, message) => {
                Request::Abort { code: Some(*code), world: *world, message: text(message) }
            }
            Self::Bare(Verb::Fence) => Request::Fence { group: FenceGroup::World, tag: None },
            Self::Bare(Verb::KvsName) => Request::KvsName,
            Self::Bare(_) => Request::Finalize,
        }
    }
}

/// The request as a server reads it, always with a job.
fn read_as(request: Request<'_>) -> Request<'_> {
    match request {
        Request::Get { place: Place::Job(None), key, wait } => {
            Request::Get { place: Place::Job(Some(Text::plain(OWN))), key, wait }
        }
        Request::FullInit { rank, job: None, threaded, method } => {
            Request::FullInit { rank, job: Some(Text::from("0")), threaded, method }
        }
        other => other,
    }
}

fn answers(text: impl Strategy<Value = Vec<u8>> + Clone) -> impl Strategy<Value = Answers> {
    use Verb::{Get, JobGet, KvsName, Lookup, NodeGet};
    let text = || text.clone();
    let done = vec![
        Verb::Put,
        Verb::NodePut,
        Verb::Publish,
        Verb::Unpublish,
        Verb::Disconnect,
        Verb::PutAll,
        Verb::GetAll,
        Verb::Connect,
        Verb::Finalize,
    ];
    let failed = [&done[..], &[Verb::Fence, Verb::Spawn, Verb::FullInit, Lookup, KvsName]].concat();
    let bad = any::<i32>().prop_filter("no success", |code| *code != 0);
    let one = proptest::sample::select(vec![Get, NodeGet, JobGet, Lookup, KvsName, Verb::FullInit]);
    let asks = proptest::sample::select(vec![Get, NodeGet, JobGet]);
    prop_oneof![
        (any::<u32>(), any::<u32>(), any::<i32>(), option::of(text())).prop_map(
            |(rank, size, appnum, spawner)| Answers::Identity(rank, size, appnum, spawner)
        ),
        (one, text()).prop_map(|(to, text)| Answers::One(to, text)),
        asks.prop_map(Answers::Missing),
        (text(), text()).prop_map(|(key, value)| Answers::Pair(key, value)),
        (any::<u32>(), text(), text()).prop_map(|(count, l, r)| Answers::Ring(count, l, r)),
        (option::of(text()), option::of(text())).prop_map(|(job, c)| Answers::Spawned(job, c)),
        any::<u32>().prop_map(Answers::Count),
        option::of(any::<i32>()).prop_map(Answers::Notice),
        proptest::sample::select(done).prop_map(Answers::Done),
        (proptest::sample::select(failed), bad, option::of(text()))
            .prop_map(|(to, code, told)| Answers::Failed(to, code, told)),
    ]
}

impl Answers {
    fn reply<'a>(&'a self, tag: &'a [u8]) -> Reply<'a> {
        let text = |bytes: &'a Vec<u8>| Text::plain(bytes);
        let ok = |to, answer| ok(to, tag, answer);
        match self {
            Self::Identity(rank, size, appnum, spawner) => {
                let spawner = spawner.as_ref().map(text);
                let who = Identity {
                    rank: *rank,
                    size: *size,
                    appnum: *appnum,
                    spawner,
                    is_debugged: false,
                    is_verbose: false,
                };
                ok(Verb::FullInit, Answer::Identity(who))
            }
            Self::One(Verb::KvsName, name) => ok(Verb::KvsName, Answer::Name(text(name))),
            Self::One(Verb::FullInit, nonce) => ok(Verb::FullInit, Answer::Challenge(text(nonce))),
            Self::One(to, value) => ok(*to, Answer::Value(text(value))),
            Self::Missing(to) => ok(*to, Answer::Missing),
            Self::Pair(key, value) => {
                let (key, value) = (text(key), text(value));
                ok(Verb::GetAll, Answer::Pair(Pair { key, value }))
            }
            Self::Ring(count, left, right) => {
                let (left, right) = (text(left), text(right));
                ok(Verb::Ring, Answer::Ring { count: *count, left, right })
            }
            Self::Spawned(job, codes) => {
                let codes = codes.as_ref().map(|codes| ProcessCodes::List(text(codes)));
                ok(Verb::Spawn, Answer::Spawned { job: job.as_ref().map(text), codes })
            }
            Self::Count(count) => ok(Verb::GetAll, Answer::Count(*count)),
            Self::Notice(None) => ok(Verb::Notice, Answer::Notice(Notice::Checkpoint)),
            Self::Notice(Some(code)) => ok(Verb::Notice, Answer::Notice(Notice::Abort(*code))),
            Self::Done(to) => ok(*to, Answer::Nothing),
            Self::Failed(to, code, told) => {
                let answer =
                    told.as_ref().map_or(Answer::Nothing, |told| Answer::Message(text(told)));
                Reply { to: *to, tag, code: Code(*code), answer }
            }
        }
    }
}

fn ok<'a>(to: Verb, tag: &'a [u8], answer: Answer<'a>) -> Reply<'a> {
    Reply { to, tag, code: Code::SUCCESS, answer }
}

fn starts() -> impl Strategy<Value = Starts> {
    let any_text = || prop_oneof![8 => text(), 1 => Just(Vec::new())];
    (text(), any::<u32>(), vec(any_text(), 0..5), vec((any_text(), any_text()), 0..3)).prop_map(
        |(executable, processes, arguments, info)| Starts {
            executable,
            processes,
            arguments,
            info,
        },
    )
}
