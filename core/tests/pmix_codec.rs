//! PMIx values and messages, as recorded from real peers, read and written again, whole and cut.

use pmi_core::error::{Full, Malformed};
use pmi_core::wire::Framed;
use pmi_core::wire::pmix::greeting::{self, Credential, Greeting, Kind, Layout};
use pmi_core::wire::pmix::header::Header;
use pmi_core::wire::pmix::names::{Command, keys, scope};
use pmi_core::wire::pmix::{
    DEPTH_MAX, Family, Format, Info, Kval, Kvals, List, Packer, Proc, Release, Request, Type,
    Unpacker, WILDCARD,
};
use proptest::prelude::*;

const FIXED: Format = Format { family: Family::Fixed, is_described: false };
const FORMATS: [Format; 4] = [
    Format::PLAIN,
    FIXED,
    Format { family: Family::Flex, is_described: true },
    Format { family: Family::Fixed, is_described: true },
];

/// A vector: a writer, and a check that reading gives the written value.
type Check = (&'static str, fn(&mut Packer<'_>), fn(&mut Unpacker<'_>) -> Result<bool, Malformed>);

const CHECKS: &[Check] = &[
    (
        "COMMAND 5",
        |to| {
            to.one(Type::COMMAND).u8(5);
        },
        |from| Ok(from.one(Type::COMMAND)?.u8()? == 5),
    ),
    (
        "STATUS 0",
        |to| {
            to.one(Type::STATUS).i32(0);
        },
        |from| Ok(from.one(Type::STATUS)?.i32()? == 0),
    ),
    (
        "STATUS -46",
        |to| {
            to.one(Type::STATUS).i32(-46);
        },
        |from| Ok(from.one(Type::STATUS)?.i32()? == -46),
    ),
    (
        "SIZE 300",
        |to| {
            to.one(Type::SIZE).size(300);
        },
        |from| Ok(from.one(Type::SIZE)?.size()? == 300),
    ),
    (
        "SIZE 2^56",
        |to| {
            to.one(Type::SIZE).size(1 << 56);
        },
        |from| Ok(from.one(Type::SIZE)?.size()? == 1 << 56),
    ),
    (
        "UINT64 2^64-1",
        |to| {
            to.one(Type::UINT64).u64(u64::MAX);
        },
        |from| Ok(from.one(Type::UINT64)?.u64()? == u64::MAX),
    ),
    (
        "INT64 -2^63",
        |to| {
            to.one(Type::INT64).i64(i64::MIN);
        },
        |from| Ok(from.one(Type::INT64)?.i64()? == i64::MIN),
    ),
    (
        "INT -5",
        |to| {
            to.one(Type::INT).int(-5);
        },
        |from| Ok(from.one(Type::INT)?.int()? == -5),
    ),
    (
        "INT16 -32768",
        |to| {
            to.one(Type::INT16).i16(i16::MIN);
        },
        |from| Ok(from.one(Type::INT16)?.i16()? == i16::MIN),
    ),
    (
        "PROC_RANK WILDCARD",
        |to| {
            to.one(Type::PROC_RANK).u32(WILDCARD);
        },
        |from| Ok(from.one(Type::PROC_RANK)?.u32()? == WILDCARD),
    ),
    (
        "STRING \"hi\"",
        |to| {
            to.one(Type::STRING).text(Some(b"hi"));
        },
        |from| Ok(from.one(Type::STRING)?.text()? == Some(b"hi")),
    ),
    (
        "STRING null",
        |to| {
            to.one(Type::STRING).text(None);
        },
        |from| Ok(from.one(Type::STRING)?.text()?.is_none()),
    ),
    (
        "2 STRINGs \"a\", \"b\"",
        |to| {
            to.op(Type::STRING, 2).text(Some(b"a")).text(Some(b"b"));
        },
        |from| {
            let count = from.op(Type::STRING)?;
            Ok((count, from.text()?, from.text()?) == (2, Some(b"a"), Some(b"b")))
        },
    ),
    (
        "PID 4000000",
        |to| {
            to.one(Type::PID).pid(4_000_000);
        },
        |from| Ok(from.one(Type::PID)?.pid()? == 4_000_000),
    ),
    (
        "DOUBLE 3.5",
        |to| {
            to.one(Type::DOUBLE).text(Some(b"3.500000"));
        },
        |from| Ok(from.one(Type::DOUBLE)?.text()? == Some(b"3.500000")),
    ),
    (
        "TIMEVAL 5 s, -7 us",
        |to| {
            to.one(Type::TIMEVAL).i64(5).i64(-7);
        },
        |from| {
            let from = from.one(Type::TIMEVAL)?;
            Ok((from.i64()?, from.i64()?) == (5, -7))
        },
    ),
    (
        "PROC ns:0",
        |to| Proc { nspace: b"ns", rank: 0 }.write(to.one(Type::PROC)),
        |from| Ok(Proc::read(from.one(Type::PROC)?)? == Proc { nspace: b"ns", rank: 0 }),
    ),
    (
        "BYTE_OBJECT 01 02 03",
        |to| {
            to.one(Type::BYTE_OBJECT).blob(&[1, 2, 3]);
        },
        |from| Ok(from.one(Type::BYTE_OBJECT)?.blob()? == [1, 2, 3]),
    ),
    (
        "KVAL k = UINT32 7",
        |to| {
            to.one(Type::KVAL).text(Some(b"k")).of(Type::UINT32).u32(7);
        },
        |from| {
            let Kval { key, value } = Kval::read(from)?;
            Ok((key, value.of, value.number()) == (b"k", Type::UINT32, Some(7)))
        },
    ),
    (
        "INFO pmix.collect = BOOL true",
        |to| {
            to.one(Type::INFO).text(Some(keys::COLLECT)).u32(0).of(Type::BOOL).u8(1);
        },
        |from| {
            let Info { key, flags, value } = Info::read(from.one(Type::INFO)?)?;
            Ok((key, flags, value.is_true()) == (keys::COLLECT, 0, true))
        },
    ),
    (
        "VALUE DATA_ARRAY of PROC_RANK 0, 1",
        |to| {
            let to = to.one(Type::VALUE).of(Type::DATA_ARRAY);
            to.of(Type::PROC_RANK).size(2).u32(0).u32(1);
        },
        |from| {
            let list = from.one(Type::VALUE)?.value()?.array();
            let list = list.ok_or(Malformed::new(0, "an array"))?;
            let ranks: Vec<u32> = list.each(Type::PROC_RANK, Unpacker::u32).collect();
            Ok((list.count, ranks) == (2, vec![0, 1]))
        },
    ),
    (
        "QUERY [pmix.qry.ns]",
        |to| {
            to.one(Type::QUERY).i32(1).text(Some(b"pmix.qry.ns")).size(0);
        },
        |from| {
            let from = from.one(Type::QUERY)?;
            Ok((from.i32()?, from.text()?, from.size()?) == (1, Some(b"pmix.qry.ns"), 0))
        },
    ),
    (
        "BUFFER aa bb",
        |to| {
            to.one(Type::BUFFER).u8(1).blob(&[0xaa, 0xbb]);
        },
        |from| {
            let from = from.one(Type::BUFFER)?;
            Ok((from.u8()?, from.blob()?) == (1, &[0xaa, 0xbb]))
        },
    ),
    (
        "COMMAND 0, SIZE 1, fully described",
        |to| {
            to.one(Type::COMMAND).u8(0).one(Type::SIZE).size(1);
        },
        |from| {
            let command = from.one(Type::COMMAND)?.u8()?;
            Ok((command, from.one(Type::SIZE)?.size()?) == (0, 1))
        },
    ),
];

// Coverage: X1-9, X2-7
#[test]
fn vectors_are_written_and_read_and_have_no_meaning_when_cut() {
    let vectors = vectors(include_str!("../vectors/pmix/values.txt"));
    assert_eq!(vectors.len(), CHECKS.len());
    let mut count = 0;
    for (name, columns) in &vectors {
        let (_, write, read) = CHECKS.iter().find(|check| check.0 == name).expect(name);
        for (column, bytes) in columns {
            let family = if column == "flex" { Family::Flex } else { Family::Fixed };
            let format = Format { family, is_described: name.ends_with("described") };
            assert_eq!(packed(format, write), *bytes, "{name} {column}");
            let mut from = Unpacker::new(bytes, format);
            assert_eq!(read(&mut from), Ok(true), "{name} {column}");
            assert!(from.is_empty(), "{name} {column}");
            for cut in 0..bytes.len() {
                let mut from = Unpacker::new(&bytes[..cut], format);
                assert_ne!(read(&mut from), Ok(true), "{name} {column} cut at {cut}");
            }
            count += 1;
        }
    }
    assert_eq!(count, 2 * vectors.len() - 1, "one vector is known in one family only");
}

#[test]
fn recorded_conversations_are_read_and_written_again_byte_for_byte() {
    let said = vectors(include_str!("../vectors/pmix/conversation.txt"));
    let mut said = said.iter().map(|(who, columns)| (&**who, &columns[0].1[..]));
    let mut next = |who: &str| {
        let (speaker, bytes) = said.next().expect("more is said");
        assert_eq!(speaker, who);
        bytes
    };

    let bytes = next("C>S");
    let greeting = Greeting::read(bytes).unwrap();
    assert_eq!((greeting.kind, greeting.layout()), (Kind::Client, Layout::Client));
    assert_eq!(greeting.identity, Some((&b"18153473"[..], 0)));
    assert_eq!((greeting.release(), greeting.store), (Release::new(4, 2, 2), &b"hash"[..]));
    assert_eq!(Credential::read(greeting.credential), Some(Credential { user: 0, group: 0 }));
    // The library counts a byte too many.
    let again = fits(|out| greeting.write(out));
    assert_eq!((&again[16..], again.len() + 1), (&bytes[16..bytes.len() - 1], bytes.len()));
    assert_eq!(fits(|out| greeting::write_welcome(1, out)), next("S>C"));

    let mut asked = |command: Command, tag: u32| {
        let (header, body) = message(next("C>S"));
        assert_eq!(header, Header { index: 1, tag, body_bytes: header.body_bytes });
        assert_eq!(Request::read(Unpacker::new(body, Format::PLAIN)).unwrap().command(), command);
        let (header, answer) = message(next("S>C"));
        assert_eq!(header, Header { index: 0, tag, body_bytes: header.body_bytes });
        (body, answer)
    };

    let (_, answer) = asked(Command::REQ, 101);
    let mut from = Unpacker::new(answer, Format::PLAIN);
    assert_eq!(from.one(Type::STRING).unwrap().text(), Ok(Some(&b"18153473"[..])));
    let info: Vec<Kval<'_>> = Kvals::after(from).collect::<Result<_, _>>().unwrap();
    assert_eq!(info.len(), 18);
    let blobs = info.iter().filter(|kval| kval.key == keys::PROC_BLOB);
    let ranks: Vec<u32> = blobs
        .map(|kval| {
            let mut from = Unpacker::new(kval.value.blob().unwrap(), Format::PLAIN);
            let rank = from.one(Type::PROC_RANK).unwrap().u32().unwrap();
            assert_eq!(Kvals::after(from).count(), 8);
            rank
        })
        .collect();
    assert_eq!(ranks, [0, 1]);
    let node = info.iter().find(|kval| kval.key == keys::NODE_ARRAY).unwrap();
    let node = node.value.array().unwrap();
    assert_eq!(node.find(keys::LOCAL_PEERS).unwrap().text(), Some(&b"0,1"[..]));
    let again = packed(Format::PLAIN, &|to| {
        to.one(Type::STRING).text(Some(b"18153473"));
        info.iter().for_each(|kval| kval.write(to).unwrap());
    });
    assert_eq!(again, answer);

    let (body, answer) = asked(Command::COMMIT, 102);
    let Ok(Request::Commit(scopes)) = Request::read(Unpacker::new(body, Format::PLAIN)) else {
        panic!("a commit")
    };
    let scopes: Vec<(u8, &[u8])> = scopes.collect::<Result<_, _>>().unwrap();
    assert_eq!(
        scopes.iter().map(|(scope, _)| *scope).collect::<Vec<_>>(),
        [scope::LOCAL, scope::REMOTE]
    );
    for (_, bytes) in scopes {
        let value = Kvals::new(bytes, Format::PLAIN).find(b"k-0").unwrap();
        assert_eq!((value.of, value.number()), (Type::UINT64, Some(1000)));
    }
    assert_eq!(answer, status(0));

    let (body, answer) = asked(Command::FENCE, 103);
    let Ok(Request::Fence(fence)) = Request::read(Unpacker::new(body, Format::PLAIN)) else {
        panic!("a fence")
    };
    let all_ranks = Proc { nspace: b"18153473", rank: WILDCARD };
    assert_eq!(fence.procs.procs().collect::<Vec<_>>(), [all_ranks]);
    assert!(fence.infos.is_set(keys::COLLECT) && !fence.infos.is_set(keys::TIMEOUT));
    assert_eq!(answer, status(0));

    let (body, answer) = asked(Command::GET, 104);
    let Ok(Request::Get(get)) = Request::read(Unpacker::new(body, Format::PLAIN)) else {
        panic!("a get")
    };
    assert_eq!((get.nspace, get.rank, get.key), (&b"18153473"[..], 1, Some(&b"k-1"[..])));
    let again = packed(Format::PLAIN, &|to| {
        to.one(Type::STATUS).i32(0).one(Type::BYTE_OBJECT).nested(|to| {
            Proc { nspace: b"18153473", rank: 1 }.write(to.one(Type::PROC));
            to.one(Type::KVAL).text(Some(b"k-1")).of(Type::UINT64).u64(1001);
        });
    });
    assert_eq!(again, answer);

    let (_, answer) = asked(Command::FINALIZE, 105);
    assert_eq!(answer, status(0));
    assert_eq!(said.next(), None);
}

#[test]
fn conversation_cut_at_any_byte_is_a_part_of_it() {
    let said = vectors(include_str!("../vectors/pmix/conversation.txt"));
    for (at, (_, columns)) in said.iter().enumerate().filter(|(at, _)| *at != 1) {
        let mut bytes = columns[0].1.to_vec();
        if at == 0 && cfg!(target_endian = "big") {
            // Its length is in the byte order of its sender, which was recorded on another machine.
            bytes[8..12].reverse();
        }
        let bytes = &bytes;
        let frame = |bytes: &[u8]| match at {
            0 => Greeting::frame(bytes),
            _ => Ok(Header::frame(bytes)),
        };
        assert_eq!(frame(bytes), Ok(Framed::Whole(bytes.len())));
        for cut in 0..bytes.len() {
            assert_eq!(frame(&bytes[..cut]), Ok(Framed::Partial), "message {at} cut at {cut}");
        }
    }
}

#[test]
fn request_cut_at_any_byte_is_an_error_or_a_shorter_request() {
    let said = vectors(include_str!("../vectors/pmix/conversation.txt"));
    for (_, columns) in said.iter().skip(2).step_by(2) {
        let (_, body) = message(&columns[0].1);
        for cut in 0..body.len() {
            let cut = Unpacker::new(&body[..cut], Format::PLAIN);
            // A get may end before its key, a commit after any scope, the others nowhere.
            match Request::read(cut) {
                Err(_) | Ok(Request::Get(_) | Request::Commit(_)) => {}
                Ok(other) => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn layout_of_a_welcome_follows_kind_and_version() {
    let layout = |kind, version: &'static str| greeting(kind, version.as_bytes()).layout();
    assert_eq!(layout(Kind::Client, "3.2.3"), Layout::Client);
    assert_eq!(layout(Kind::Tool, "6.1.0"), Layout::Tool { gives_identity: true });
    assert_eq!(layout(Kind::Launcher, "4.2.2"), Layout::Tool { gives_identity: true });
    for kind in [Kind::NamedTool, Kind::StartedTool, Kind::NamedLauncher, Kind::Scheduler] {
        assert_eq!(layout(kind, "5.0.11"), Layout::Tool { gives_identity: false });
    }
    let singletons = [("4.2.2", false), ("5.0.8", false), ("5.0.9", true), ("5.1.0", true)];
    for (version, is_client) in singletons.into_iter().chain([("6.0.0", false), ("6.1.0", true)]) {
        assert_eq!(layout(Kind::Singleton, version) == Layout::Client, is_client, "{version}");
    }
    let welcome = fits(|out| greeting::write_tool_welcome(Some((b"tool", 0)), (b"srv", 7), out));
    assert_eq!(welcome.len(), 4 + 260 + 260 + 4);
    assert_eq!((&welcome[4..9], &welcome[264..268]), (&b"tool\0"[..], &b"srv\0"[..]));
    assert_eq!(welcome[520..], [0, 0, 0, 7, 0, 0, 0, 0]);
    let refused = fits(|out| greeting::write_refusal(-46, out));
    assert_eq!(greeting::read_welcome(&refused), Some((Err(-46), 4)));
}

#[test]
fn greetings_of_all_kinds_are_read_as_written_and_cut_nowhere() {
    for number in 0..=u8::MAX {
        let Some(kind) = Kind::numbered(number) else { continue };
        assert_eq!(kind.number(), number);
        let greeting = greeting(kind, b"6.1.0");
        let bytes = fits(|out| greeting.write(out));
        assert_eq!(Greeting::read(&bytes), Ok(greeting));
        for cut in 0..bytes.len() {
            assert_eq!(Greeting::frame(&bytes[..cut]), Ok(Framed::Partial), "{kind:?} {cut}");
            assert!(Greeting::read(&bytes[..cut]).is_err(), "{kind:?} {cut}");
        }
    }
    let mut long = [0xff; 12];
    long[8..].copy_from_slice(&131_073_u32.to_ne_bytes());
    assert!(Greeting::frame(&long).is_err());
    assert_eq!(Greeting::frame(b"cmd=init").unwrap_err().at, 0);
}

#[test]
fn bytes_behind_a_greeting_are_taken_only_as_a_list() {
    let greeting = greeting(Kind::Client, b"6.1.0");
    let mut bytes = fits(|out| greeting.write(out));
    let extra = packed(Format::PLAIN, &|to| {
        let to = to.one(Type::SIZE).size(1).one(Type::INFO);
        to.text(Some(b"pmix.ppid")).u32(0).of(Type::PID).pid(77);
    });
    bytes.extend_from_slice(&extra);
    let read = Greeting::read(&bytes).unwrap().extra.unwrap();
    assert_eq!(read.find(b"pmix.ppid").unwrap().number(), Some(77));
    bytes.truncate(bytes.len() - 1);
    assert_eq!(Greeting::read(&bytes).unwrap().extra, None);
}

// Coverage: X2-15
#[test]
fn arrays_lie_in_each_other_so_deep_and_no_deeper() {
    let nested = |depth: u32| {
        packed(Format::PLAIN, &|to| {
            to.one(Type::VALUE);
            for _ in 0..depth {
                to.of(Type::DATA_ARRAY).of(Type::VALUE).size(1);
            }
            to.of(Type::UINT32).u32(7);
        })
    };
    let read = |bytes: &[u8]| {
        let mut from = Unpacker::new(bytes, Format::PLAIN);
        from.one(Type::VALUE).unwrap().value().map(|_| from.is_empty())
    };
    for depth in 0..=DEPTH_MAX - 1 {
        assert_eq!(read(&nested(depth)), Ok(true), "{depth}");
    }
    assert!(read(&nested(DEPTH_MAX + 1)).is_err());
    assert!(read(&nested(30_000)).is_err());
}

#[test]
fn no_count_is_believed_that_the_bytes_do_not_bear_out() {
    let huge = packed(Format::PLAIN, &|to| {
        to.one(Type::VALUE).of(Type::DATA_ARRAY).of(Type::UNDEF).size(u64::MAX);
    });
    assert!(Unpacker::new(&huge, Format::PLAIN).one(Type::VALUE).unwrap().value().is_err());
    let mut nothing = packed(Format::PLAIN, &|to| {
        to.one(Type::VALUE).of(Type::DATA_ARRAY).of(Type::UNDEF).size(2);
    });
    nothing.extend_from_slice(b"what follows bears nothing out");
    assert!(Unpacker::new(&nothing, Format::PLAIN).one(Type::VALUE).unwrap().value().is_err());
    let many = packed(Format::PLAIN, &|to| {
        to.one(Type::SIZE).size(u64::from(u32::MAX)).op(Type::PROC, u32::MAX / 2);
    });
    assert!(List::read(&mut Unpacker::new(&many, Format::PLAIN), Type::PROC).is_err());
    for too_wide in [&[0x80, 0x80, 0x04][..], &[0xff, 0xff, 0xff, 0xff, 0x10]] {
        assert!(Unpacker::new(too_wide, Format::PLAIN).u16().is_err());
        assert!(Unpacker::new(too_wide, Format::PLAIN).i16().is_err());
    }
    assert!(Unpacker::new(&[0xff, 0xff, 0xff, 0xff, 0x10], Format::PLAIN).u32().is_err());
}

// Coverage: X2-17
#[test]
fn value_of_an_unknown_type_ends_the_readable_part_and_is_kept() {
    for format in FORMATS {
        let known = packed(format, &|to| {
            to.one(Type::KVAL).text(Some(b"a")).of(Type::UINT32).u32(7);
        });
        let unknown = packed(format, &|to| {
            to.one(Type::KVAL).text(Some(b"b")).of(Type(999)).raw(b"who knows");
        });
        let both = [&known[..], &unknown].concat();
        let mut kvals = Kvals::new(&both, format);
        assert_eq!(kvals.next().unwrap().unwrap().key, b"a");
        assert!(kvals.next().unwrap().is_err());
        assert!(kvals.next().is_none());
        assert_eq!(kvals.rest(), unknown);
    }
}

proptest! {
    #[test]
    fn numbers_survive_every_family(a: u64, b: i64, c: u32, d: i32, e: u16, f: i16) {
        for format in FORMATS {
            let bytes = packed(format, &|to| {
                to.u64(a).i64(b).u32(c).i32(d).u16(e).i16(f).size(a).int(d).pid(c);
            });
            let mut from = Unpacker::new(&bytes, format);
            prop_assert_eq!((from.u64(), from.i64(), from.u32()), (Ok(a), Ok(b), Ok(c)));
            prop_assert_eq!((from.i32(), from.u16(), from.i16()), (Ok(d), Ok(e), Ok(f)));
            prop_assert_eq!((from.size(), from.int(), from.pid()), (Ok(a), Ok(d), Ok(c)));
            prop_assert!(from.is_empty());
        }
    }

    #[test]
    fn any_bytes_are_some_value_or_none_of_every_type(
        of in 0_u16..80,
        bytes in proptest::collection::vec(any::<u8>(), 0..64),
    ) {
        for format in FORMATS {
            let mut from = Unpacker::new(&bytes, format);
            let Ok(value) = from.skip(Type(of)) else { continue };
            // Every readable value can be written in every format, and read there.
            for to in FORMATS {
                let copied = packed(to, &|packer| {
                    Unpacker::new(value, format).copy(Type(of), packer).unwrap();
                });
                let mut again = Unpacker::new(&copied, to);
                prop_assert_eq!(again.skip(Type(of)).map(<[u8]>::len), Ok(copied.len()));
                if to == format && format.family == Family::Fixed {
                    prop_assert_eq!(&copied, value);
                }
            }
        }
    }

    #[test]
    fn any_bytes_are_a_greeting_and_a_request_or_none(
        bytes in proptest::collection::vec(any::<u8>(), 0..128),
    ) {
        let _ = Greeting::read(&bytes);
        for format in FORMATS {
            if let Ok(Request::Commit(scopes)) = Request::read(Unpacker::new(&bytes, format)) {
                prop_assert!(scopes.count() <= bytes.len());
            }
        }
    }
}

fn greeting(kind: Kind, version: &[u8]) -> Greeting<'_> {
    Greeting {
        credential_type: b"native",
        credential: &[0; 8],
        kind,
        owner: (kind != Kind::Client).then_some((1000, 100)),
        identity: (!matches!(kind, Kind::Tool | Kind::Launcher)).then_some((b"ns", 3)),
        version,
        encoding: b"v41",
        format: Format::PLAIN,
        store: b"hash",
        extra: None,
    }
}

fn message(bytes: &[u8]) -> (Header, &[u8]) {
    let header = Header::read(bytes).unwrap();
    assert_eq!(header.bytes(), bytes[..16]);
    assert_eq!(header.body_bytes as usize, bytes.len() - 16);
    (header, &bytes[16..])
}

fn status(code: i32) -> Vec<u8> {
    packed(Format::PLAIN, &|to| {
        to.one(Type::STATUS).i32(code);
    })
}

fn packed(format: Format, write: &dyn Fn(&mut Packer<'_>)) -> Vec<u8> {
    let pack = |out: &mut [u8]| {
        let mut to = Packer::new(out, format);
        write(&mut to);
        to.finish()
    };
    match pack(&mut []) {
        Ok(_) => Vec::new(),
        Err(_) => fits(pack),
    }
}

/// Writes into exactly the room that `write` requires.
fn fits(write: impl Fn(&mut [u8]) -> Result<usize, Full>) -> Vec<u8> {
    let Err(Full { needed }) = write(&mut []) else { panic!("nothing is written into no room") };
    assert_eq!(write(&mut vec![0; needed - 1]), Err(Full { needed }));
    let mut out = vec![0; needed];
    assert_eq!(write(&mut out), Ok(needed));
    out
}

/// A name, and bytes in named columns.
type Vector = (String, Vec<(String, Vec<u8>)>);

/// Names at the start of a line, and under each, indented, bytes in columns.
fn vectors(text: &str) -> Vec<Vector> {
    let mut lines = text.lines();
    assert!(lines.next().is_some_and(|line| line.starts_with("# source: ")));
    let mut all: Vec<Vector> = Vec::new();
    for line in lines.filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let Some(columns) = line.strip_prefix("    ") else {
            all.push((line.to_owned(), Vec::new()));
            continue;
        };
        let (_, columns_so_far) = all.last_mut().expect("a name comes first");
        let (column, hex) = match columns.split_once(' ') {
            Some((column @ ("flex" | "fixed"), hex)) => (column, hex),
            _ => ("", columns),
        };
        let bytes = hex.split(' ').map(|digits| u8::from_str_radix(digits, 16).expect("hex"));
        match columns_so_far.last_mut().filter(|(last, _)| last.is_empty()) {
            Some((_, so_far)) => so_far.extend(bytes),
            None => columns_so_far.push((column.to_owned(), bytes.collect())),
        }
    }
    all
}
