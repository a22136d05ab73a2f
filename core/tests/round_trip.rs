//! A written message is read again with the same meaning, and no bytes do harm.

mod meaning;
mod starts;
mod transcript;

use pmi_core::command::{
    Answer, Argument, FenceGroup, Identity, InfoList, Maxes, Pair, Place, ProcessCodes, Program,
    Reply, Request, Spawn, Text, Verb, Version,
};
use pmi_core::error::{Code, Misuse};
use pmi_core::wire::{Framed, WriteError, pmi1};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use starts::{Starts, with_spawn};
use transcript::{Side, Voice};

/// The name that the writing client owns.
const OWN: &[u8] = b"kvs_1_0";

/// A client and a server that use lines.
const LINES: [Voice; 2] =
    [Voice { side: Side::Client, generation: 1 }, Voice { side: Side::Server, generation: 1 }];

/// A request that a line can express.
#[derive(Clone, Debug)]
enum Says {
    Init(u16, u16),
    InitAck(u32),
    Maxes,
    AppNum,
    UniverseSize,
    KvsName,
    Put(Vec<u8>, Vec<u8>),
    Get(Option<Vec<u8>>, Vec<u8>),
    Fence(Option<u32>),
    FenceNode(u32),
    FenceRanks(Vec<u32>, u32),
    Publish(Vec<u8>, Vec<u8>),
    Unpublish(Vec<u8>),
    Lookup(Vec<u8>),
    Abort(i32, Vec<u8>),
    Finalize,
}

/// A reply that a line can express.
#[derive(Clone, Debug)]
enum Answers {
    Version(u16, u16),
    Identity(u32, u32, i32, Option<Vec<u8>>),
    Maxes(u32, u32, u32),
    AppNum(i32),
    UniverseSize(i32),
    Name(Vec<u8>),
    Done(Verb),
    Value(Vec<u8>),
    Missing(i32),
    Released(Option<u32>),
    Port(Vec<u8>),
    Spawned(Option<Vec<u8>>, Option<Vec<u32>>),
    Failed(Verb, i32, Option<Vec<u8>>),
}

proptest! {
    #[test]
    fn request_is_read_as_it_was_meant(says in says()) {
        let list = says.list();
        let request = says.request(&list);
        let mut out = [0; 2048];
        let len = pmi1::write_request(&request, OWN, &mut out).unwrap();
        let bytes = &out[..len];
        prop_assert_eq!(pmi1::frame_request(bytes), Ok(Framed::Whole(len)));
        let read = pmi1::read_request(bytes).unwrap();
        prop_assert_eq!(read, Some(says.read_as(request)));
    }

    #[test]
    fn reply_is_read_as_it_was_meant(answers in answers()) {
        let codes = answers.codes();
        let reply = answers.reply(&codes);
        let mut out = [0; 2048];
        let len = pmi1::write_reply(&reply, b"", &mut out).unwrap();
        let bytes = &out[..len];
        prop_assert_eq!(pmi1::frame_reply(bytes), Ok(Framed::Whole(len)));
        prop_assert_eq!(pmi1::read_reply(bytes), Ok(reply));
    }

    #[test]
    fn spawn_is_read_as_it_was_meant(
        starts in vec(starts(), 1..4),
        preputs in vec((word(16), rest(32)), 0..3),
    ) {
        with_spawn(&starts, &preputs, |spawn| {
            let mut out = vec![0; 16 * 1024];
            let request = Request::Spawn(spawn);
            let len = pmi1::write_request(&request, OWN, &mut out).unwrap();
            let bytes = &out[..len];
            prop_assert_eq!(pmi1::frame_request(bytes), Ok(Framed::Whole(len)));
            for cut in 0..len {
                prop_assert_eq!(pmi1::frame_request(&bytes[..cut]), Ok(Framed::Partial));
            }
            prop_assert_eq!(pmi1::read_request(bytes), Ok(Some(request)));
            Ok(())
        })?;
    }

    #[test]
    fn written_messages_are_always_read_again(request in any_request(), name in vec(any::<u8>(), 0..8)) {
        let mut out = [0; 512];
        if let Ok(len) = request.with(|request| pmi1::write_request(&request, &name, &mut out)) {
            let bytes = &out[..len];
            prop_assert_eq!(pmi1::frame_request(bytes), Ok(Framed::Whole(len)));
            let read = pmi1::read_request(bytes).unwrap().unwrap();
            prop_assert_eq!(read.verb(), request.with(|request| request.verb()));
            let lacks = matches!(read, Request::Lacking { .. });
            prop_assert!(!lacks, "{:?}", read);
        }
    }

    #[test]
    fn no_bytes_do_harm(bytes in soup()) {
        for (from, framed) in [
            (LINES[0], pmi1::frame_request(&bytes)),
            (LINES[1], pmi1::frame_reply(&bytes)),
        ] {
            if let Ok(Framed::Whole(len)) = framed {
                prop_assert!(0 < len && len <= bytes.len());
                meaning::read(from, &bytes[..len]);
            }
            // Bytes that were not framed should not be read, but reading them does no harm.
            meaning::read(from, &bytes);
        }
    }

    #[test]
    fn front_is_never_more_wrong_than_the_whole(bytes in soup()) {
        for (from, frame) in [
            (LINES[0], pmi1::frame_request as fn(&[u8]) -> _),
            (LINES[1], pmi1::frame_reply as fn(&[u8]) -> _),
        ] {
            let whole = frame(&bytes);
            for cut in 0..bytes.len() {
                match (frame(&bytes[..cut]), whole) {
                    (Ok(Framed::Whole(len)), whole) => prop_assert_eq!(whole, Ok(Framed::Whole(len))),
                    (Ok(Framed::Partial), _) | (Err(_), Err(_)) => {}
                    (Err(_), Ok(Framed::Partial)) => prop_assert!(false, "cut at {}", cut),
                    (Err(_), Ok(Framed::Whole(len))) => {
                        prop_assert!(meaning::read(from, &bytes[..len]).starts_with(b"malformed"));
                    }
                }
            }
        }
    }

    #[test]
    fn messages_that_were_read_are_written_with_the_same_meaning(bytes in soup()) {
        let Ok(Framed::Whole(len)) = pmi1::frame_reply(&bytes) else { return Ok(()) };
        let Ok(reply) = pmi1::read_reply(&bytes[..len]) else { return Ok(()) };
        let mut out = [0; 4096];
        let written = pmi1::write_reply(&reply, b"word", &mut out).unwrap();
        let again = pmi1::read_reply(&out[..written]).unwrap();
        prop_assert_eq!((again.to, again.code), (reply.to, reply.code));
    }
}

// Coverage: R13-27
#[test]
fn messages_that_no_line_can_express_are_not_written() {
    let text = |bytes: &'static [u8]| Text::plain(bytes);
    let put = |key, value| Request::Put { place: Place::Job(None), key, value };
    let get = |name, key| Request::Get { place: Place::Job(name), key, wait: false };
    for bad in [&b""[..], b"a b", b"a\nb", b"a\rb", b"a\0b"] {
        for request in [
            put(text(bad), text(b"v")),
            put(text(b"k"), text(bad)),
            get(None, text(bad)),
            get(Some(text(bad)), text(b"k")),
            Request::Publish { service: text(bad), port: text(b"p") },
            Request::Publish { service: text(b"s"), port: text(bad) },
            Request::Unpublish { service: text(bad) },
            Request::Lookup { service: text(bad) },
            Request::Fence { group: FenceGroup::Ranks(bad), tag: Some(1) },
        ] {
            assert_misuse(&request);
        }
    }
    for group in [&b"WORLD"[..], b"0,", b",", b"0,1:2", b"-1,2"] {
        assert_misuse(&Request::Fence { group: FenceGroup::Ranks(group), tag: Some(1) });
    }
    for request in [
        Request::Lacking { verb: Verb::Put, field: "key" },
        Request::Unknown { word: b"put" },
        Request::Connect { job: text(b"j") },
        Request::FullInit { rank: None, job: None, threaded: false, method: None },
        Request::Get { place: Place::Node, key: text(b"k"), wait: false },
        Request::Put { place: Place::Node, key: text(b"k"), value: text(b"v") },
        Request::Get { place: Place::Attributes, key: text(b"k"), wait: false },
    ] {
        assert_misuse(&request);
    }
}

#[test]
fn spawn_that_no_reader_would_understand_is_not_said() {
    let spawns = |programs: &[Program<'_>], preputs: &[Pair<'_>]| {
        assert_misuse(&Request::Spawn(Spawn::Given { programs, preputs }));
    };
    let program = Program {
        executable: Text::from("a.out"),
        processes: 1,
        arguments: Argument::Given(&[]),
        info: InfoList::Given(&[]),
    };
    spawns(&[], &[]);
    spawns(&[Program { executable: Text::EMPTY, ..program }], &[]);
    for bad in ["a\nb", "a\0b", "a\r"].map(Text::from) {
        let pairs = [Pair { key: Text::from("k"), value: bad }];
        spawns(&[Program { executable: bad, ..program }], &[]);
        spawns(&[Program { arguments: Argument::Given(&[bad]), ..program }], &[]);
        spawns(&[Program { info: InfoList::Given(&pairs), ..program }], &[]);
        spawns(&[program], &pairs);
    }
}

#[test]
fn message_of_a_server_is_one_word() {
    // Clients up to MPICH 4.0 drop a message with bare words and continue with the fields of the last.
    let told = Answer::Message(Text::from("no such\nkey"));
    let reply = Reply { to: Verb::Put, tag: b"", code: Code::FAIL, answer: told };
    let mut out = [0; 64];
    let len = pmi1::write_reply(&reply, b"", &mut out).unwrap();
    assert_eq!(&out[..len], b"cmd=put_result rc=-1 msg=no_such_key\n");
}

fn assert_misuse(request: &Request<'_>) {
    let written = pmi1::write_request(request, OWN, &mut [0; 512]);
    let misuse = matches!(
        written,
        Err(WriteError::Misuse(Misuse::NotRepresentable { .. } | Misuse::Length { .. }))
    );
    assert!(misuse, "{request:?} gives {written:?}");
}

/// Bytes that can stand in a line as one word.
fn word(len_max: usize) -> impl Strategy<Value = Vec<u8>> + Clone {
    let byte = any::<u8>().prop_filter("a byte that can be said", |b| !b"\0\n\r ".contains(b));
    vec(byte, 1..=len_max)
}

/// Bytes that can stand at the end of a line, blanks included.
fn rest(len_max: usize) -> impl Strategy<Value = Vec<u8>> + Clone {
    let byte = any::<u8>().prop_filter("a byte that can be said", |b| !b"\0\n".contains(b));
    vec(byte, 0..=len_max)
        .prop_filter("a line end is not the last byte", |text| text.last() != Some(&b'\r'))
}

/// Words with single blanks between, none of them a field that could stand behind a value.
fn sentence() -> impl Strategy<Value = Vec<u8>> + Clone {
    let plain = |w: &Vec<u8>| !w.contains(&b'=');
    vec(word(12).prop_filter("no field", plain), 1..4).prop_map(|words| words.join(&b' '))
}

fn says() -> impl Strategy<Value = Says> {
    prop_oneof![
        (any::<u16>(), any::<u16>()).prop_map(|(major, minor)| Says::Init(major, minor)),
        any::<u32>().prop_map(Says::InitAck),
        Just(Says::Maxes),
        Just(Says::AppNum),
        Just(Says::UniverseSize),
        Just(Says::KvsName),
        (word(64), word(1024)).prop_map(|(key, value)| Says::Put(key, value)),
        (option::of(word(32)), word(64)).prop_map(|(name, key)| Says::Get(name, key)),
        option::of(any::<u32>()).prop_map(Says::Fence),
        any::<u32>().prop_map(Says::FenceNode),
        (vec(any::<u32>(), 1..5), any::<u32>()).prop_map(|(list, tag)| Says::FenceRanks(list, tag)),
        (word(64), word(200)).prop_map(|(service, port)| Says::Publish(service, port)),
        word(64).prop_map(Says::Unpublish),
        word(64).prop_map(Says::Lookup),
        (any::<i32>(), sentence()).prop_map(|(code, text)| Says::Abort(code, text)),
        any::<i32>().prop_map(|code| Says::Abort(code, Vec::new())),
        Just(Says::Finalize),
    ]
}

impl Says {
    fn list(&self) -> Vec<u8> {
        match self {
            Self::FenceRanks(list, _) => list_of(list),
            _ => Vec::new(),
        }
    }

    fn request<'a>(&'a self, list: &'a [u8]) -> Request<'a> {
        match self {
            Self::Init(major, minor) => {
                Request::Init { version: Version { major: *major, minor: *minor } }
            }
            Self::InitAck(id) => Request::InitAck { id: u64::from(*id) },
            Self::Maxes => Request::Maxes,
            Self::AppNum => Request::AppNum,
            Self::UniverseSize => Request::UniverseSize,
            Self::KvsName => Request::KvsName,
            Self::Put(key, value) => Request::Put {
                place: Place::Job(None),
                key: Text::plain(key),
                value: Text::plain(value),
            },
            Self::Get(name, key) => Request::Get {
                place: Place::Job(name.as_deref().map(Text::plain)),
                key: Text::plain(key),
                wait: false,
            },
            Self::Fence(tag) => Request::Fence { group: FenceGroup::World, tag: *tag },
            Self::FenceNode(tag) => Request::Fence { group: FenceGroup::Node, tag: Some(*tag) },
            Self::FenceRanks(_, tag) => {
                Request::Fence { group: FenceGroup::Ranks(list), tag: Some(*tag) }
            }
            Self::Publish(service, port) => {
                Request::Publish { service: Text::plain(service), port: Text::plain(port) }
            }
            Self::Unpublish(service) => Request::Unpublish { service: Text::plain(service) },
            Self::Lookup(service) => Request::Lookup { service: Text::plain(service) },
            Self::Abort(code, message) => {
                Request::Abort { code: Some(*code), world: true, message: Text::plain(message) }
            }
            Self::Finalize => Request::Finalize,
        }
    }

    /// The request as a server reads it, always with the name of the space.
    fn read_as<'a>(&self, request: Request<'a>) -> Request<'a> {
        let own = Place::Job(Some(Text::plain(OWN)));
        match request {
            Request::Put { key, value, .. } => Request::Put { place: own, key, value },
            Request::Get { place: Place::Job(None), key, wait } => {
                Request::Get { place: own, key, wait }
            }
            other => other,
        }
    }
}

fn answers() -> impl Strategy<Value = Answers> {
    let done = prop_oneof![
        Just(Verb::Put),
        Just(Verb::Publish),
        Just(Verb::Unpublish),
        Just(Verb::Finalize)
    ];
    let failed = prop_oneof![
        Just(Verb::Maxes),
        Just(Verb::KvsName),
        Just(Verb::Put),
        Just(Verb::Fence),
        Just(Verb::Publish),
        Just(Verb::Lookup),
        Just(Verb::Spawn),
        Just(Verb::InitAck)
    ];
    let bad = any::<i32>().prop_filter("no success", |code| *code != 0);
    let value = prop_oneof![word(1024), sentence(), Just(Vec::new())];
    prop_oneof![
        (any::<u16>(), any::<u16>()).prop_map(|(major, minor)| Answers::Version(major, minor)),
        (any::<u32>(), any::<u32>(), any::<i32>(), option::of(word(32))).prop_map(
            |(rank, size, appnum, spawner)| Answers::Identity(rank, size, appnum, spawner)
        ),
        (any::<u32>(), any::<u32>(), any::<u32>()).prop_map(|(n, k, v)| Answers::Maxes(n, k, v)),
        any::<i32>().prop_map(Answers::AppNum),
        any::<i32>().prop_map(Answers::UniverseSize),
        word(256).prop_map(Answers::Name),
        done.prop_map(Answers::Done),
        value.prop_map(Answers::Value),
        bad.clone().prop_map(Answers::Missing),
        option::of(any::<u32>()).prop_map(Answers::Released),
        word(1024).prop_map(Answers::Port),
        (option::of(word(32)), option::of(vec(any::<u32>(), 1..4)))
            .prop_map(|(job, codes)| Answers::Spawned(job, codes)),
        (failed, bad, option::of(vec(b'!'..=b'~', 1..40)))
            .prop_map(|(to, code, msg)| Answers::Failed(to, code, msg)),
    ]
}

impl Answers {
    fn codes(&self) -> Vec<u8> {
        match self {
            Self::Spawned(_, Some(codes)) => list_of(codes),
            _ => Vec::new(),
        }
    }

    fn reply<'a>(&'a self, codes: &'a [u8]) -> Reply<'a> {
        let ok = |to, answer| Reply { to, tag: b"", code: Code::SUCCESS, answer };
        let text = |bytes: &'a Vec<u8>| Text::plain(bytes);
        match self {
            Self::Version(major, minor) => {
                ok(Verb::Init, Answer::Version(Version { major: *major, minor: *minor }))
            }
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
                ok(Verb::InitAck, Answer::Identity(who))
            }
            Self::Maxes(kvsname, key, value) => {
                let maxes = Maxes { kvsname: *kvsname, key: *key, value: *value };
                ok(Verb::Maxes, Answer::Maxes(maxes))
            }
            Self::AppNum(number) => ok(Verb::AppNum, Answer::Number(*number)),
            Self::UniverseSize(number) => ok(Verb::UniverseSize, Answer::Number(*number)),
            Self::Name(name) => ok(Verb::KvsName, Answer::Name(text(name))),
            Self::Done(verb) => ok(*verb, Answer::Nothing),
            Self::Value(value) => ok(Verb::Get, Answer::Value(text(value))),
            Self::Missing(code) => {
                Reply { to: Verb::Get, tag: b"", code: Code(*code), answer: Answer::Missing }
            }
            Self::Released(tag) => ok(Verb::Fence, Answer::Released { tag: *tag }),
            Self::Port(port) => ok(Verb::Lookup, Answer::Value(text(port))),
            Self::Spawned(job, list) => {
                let codes = list.is_some().then(|| ProcessCodes::List(Text::plain(codes)));
                ok(Verb::Spawn, Answer::Spawned { job: job.as_ref().map(text), codes })
            }
            Self::Failed(to, code, msg) => {
                let answer = msg.as_ref().map_or(Answer::Nothing, |msg| Answer::Message(text(msg)));
                Reply { to: *to, tag: b"", code: Code(*code), answer }
            }
        }
    }
}

fn list_of(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(",").into_bytes()
}

fn starts() -> impl Strategy<Value = Starts> {
    let tricky = prop_oneof![
        rest(24),
        Just(b"x totspawns=9".to_vec()),
        Just(b"endcmd".to_vec()),
        Just(b"mcmd=spawn".to_vec()),
    ];
    let name = rest(24).prop_filter("a program has a name", |name| !name.is_empty());
    (name, any::<u32>(), vec(tricky, 0..5), vec((rest(12), rest(24)), 0..3)).prop_map(
        |(executable, processes, arguments, info)| Starts {
            executable,
            processes,
            arguments,
            info,
        },
    )
}

/// A request with any bytes in its fields, as from a careless caller.
#[derive(Clone, Debug)]
struct Careless {
    kind: u8,
    fields: [Vec<u8>; 2],
}

fn any_request() -> impl Strategy<Value = Careless> {
    let field = || prop_oneof![vec(any::<u8>(), 0..8), word(8), Just(b"0,1".to_vec())];
    (0..8u8, field(), field()).prop_map(|(kind, a, b)| Careless { kind, fields: [a, b] })
}

impl Careless {
    fn with<R>(&self, then: impl FnOnce(Request<'_>) -> R) -> R {
        let [a, b] = [&self.fields[0], &self.fields[1]].map(|field| Text::plain(field));
        then(match self.kind {
            0 => Request::Put { place: Place::Job(None), key: a, value: b },
            1 => Request::Get { place: Place::Job(Some(a)), key: b, wait: false },
            2 => Request::Fence { group: FenceGroup::Ranks(&self.fields[0]), tag: Some(3) },
            3 => Request::Publish { service: a, port: b },
            4 => Request::Lookup { service: a },
            5 => Request::Abort { code: None, world: true, message: a },
            6 => Request::Get { place: Place::Job(None), key: b, wait: false },
            _ => Request::Unpublish { service: a },
        })
    }
}

/// Bytes that look like the protocol here and there.
fn soup() -> impl Strategy<Value = Vec<u8>> {
    const PIECES: [&[u8]; 28] = [
        b"cmd=",
        b"mcmd=spawn\n",
        b"endcmd\n",
        b"totspawns=2\n",
        b"spawnssofar=1\n",
        b"nprocs=1\n",
        b"execname=a\n",
        b"put",
        b"get_result",
        b"initack",
        b"cmd=set rank=0\n",
        b"cmd=initack\n",
        b"init",
        b"response_to_init",
        b" rc=0",
        b" rc=-1",
        b" value=",
        b" found=TRUE",
        b" key=k",
        b"barrier_in",
        b" group=0,1:2",
        b" pmi_version=1 pmi_subversion=1",
        b" ",
        b"\n",
        b"\r\n",
        b"=",
        b"lookup_result",
        b" port=",
    ];
    let piece = prop_oneof![
        8 => (0..PIECES.len()).prop_map(|at| PIECES[at].to_vec()),
        1 => vec(any::<u8>(), 1..4),
    ];
    vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}
