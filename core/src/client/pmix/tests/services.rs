//! Names, programs, other jobs and events: the server's reading of requests, and the client's of
//! replies.

use super::*;
use crate::error::Misuse;
use crate::wire::pmix::greeting::{Kind, TOOL_WELCOME_BYTES, write_tool_welcome};
use crate::wire::pmix::names::{flags, range};
use crate::wire::pmix::{App, Info, List, Query};

/// Starts a request; returns the tag and the body of the message.
fn asked(client: &mut PmixClient<Lent>, request: &PmixRequest<'_>) -> (u32, Vec<u8>) {
    let ticket = client.start(request).unwrap();
    let message = sent(client);
    let header = Header::read(&message).unwrap();
    assert_eq!((header.index, header.tag), (7, ticket.0));
    (header.tag, message[Header::BYTES..].to_vec())
}

/// Receives a reply of status 0 with this content, and passes it to a check.
fn answered<T>(
    client: &mut PmixClient<Lent>,
    tag: u32,
    body: &[u8],
    look: impl FnOnce(PmixAnswer<'_>) -> T,
) -> T {
    recv(client, &message(tag, body));
    match client.poll_event() {
        Some(PmixClientEvent::Reply { status: Status::SUCCESS, answer, .. }) => look(answer),
        other => panic!("{other:?}"),
    }
}

fn yes(format: Format, more: impl Fn(&mut Packer<'_>)) -> Vec<u8> {
    packed(format, &|to| {
        to.one(Type::STATUS).i32(0);
        more(to);
    })
}

/// Checks that every cut of the reply to `request` is a status alone or no reply.
fn is_nothing_when_cut(format: Format, request: &PmixRequest<'_>, body: &[u8]) {
    let status_bytes = yes(format, |_| {}).len();
    for len in (0..body.len()).filter(|len| *len != status_bytes) {
        let mut client = open(format);
        let (tag, _) = asked(&mut client, request);
        let received = client.handle_input(NOW, &message(tag, &body[..len]));
        assert!(matches!(received, Err(PeerError::Malformed(_))), "{request:?} cut at {len}");
    }
}

// Coverage: X1-16
#[test]
fn name_is_published_found_and_taken_back() {
    for format in FORMATS {
        let mut client = open(format);
        let (tag, body) =
            asked(&mut client, &PmixRequest::Publish { key: b"ocean", text: b"port 7" });
        let Ok(Received::Publish { user: 0, infos }) = Received::read(Unpacker::new(&body, format))
        else {
            panic!("a publish")
        };
        assert_eq!(infos.count, 1);
        assert_eq!(infos.find(b"ocean").unwrap().text(), Some(&b"port 7"[..]));
        answered(&mut client, tag, &yes(format, |_| {}), |answer| {
            assert!(answer.published().next().is_none() && answer.objects().next().is_none());
        });

        let lookup = PmixRequest::Lookup { key: b"ocean", wait: true, timeout_s: Some(4) };
        let (tag, body) = asked(&mut client, &lookup);
        let Ok(Received::Lookup(wanted)) = Received::read(Unpacker::new(&body, format)) else {
            panic!("a lookup")
        };
        assert!(wanted.keys().eq([b"ocean"]));
        let directive = |key| wanted.infos.find(key).unwrap().number();
        assert_eq!((directive(keys::WAIT), directive(keys::TIMEOUT)), (Some(0), Some(4)));
        let by = Proc { nspace: b"shop", rank: 3 };
        let found = yes(format, |to| {
            to.one(Type::SIZE).size(1).one(Type::PDATA);
            by.write(to);
            to.text(Some(b"ocean")).of(Type::STRING).text(Some(b"port 7"));
        });
        answered(&mut client, tag, &found, |answer| {
            let all: Vec<Published<'_>> = answer.published().collect();
            assert_eq!((all.len(), all[0].of, all[0].key), (1, by, &b"ocean"[..]));
            assert_eq!(all[0].value.text(), Some(&b"port 7"[..]));
            assert!(answer.nspace().is_none() && answer.jobs().next().is_none());
        });
        is_nothing_when_cut(format, &lookup, &found);

        let now = PmixRequest::Lookup { key: b"sea", wait: false, timeout_s: None };
        let (tag, body) = asked(&mut client, &now);
        let Ok(Received::Lookup(wanted)) = Received::read(Unpacker::new(&body, format)) else {
            panic!("a lookup")
        };
        assert!(wanted.infos.is_empty());
        recv(&mut client, &status(format, tag, Status::NOT_FOUND));
        assert_eq!(reply(&mut client), (PmixTicket(tag), Status::NOT_FOUND, Vec::new()));

        let (_, body) = asked(&mut client, &PmixRequest::Unpublish { key: b"ocean" });
        let Ok(Received::Unpublish(wanted)) = Received::read(Unpacker::new(&body, format)) else {
            panic!("an unpublish")
        };
        assert!(wanted.keys().eq([b"ocean"]) && wanted.infos.is_empty());
    }
}

// Coverage: X1-16
#[test]
fn program_is_spawned_and_jobs_are_connected() {
    for format in FORMATS {
        let mut client = open(format);
        let apps = [SpawnApp::new(b"./kids", 3)];
        let spawn = PmixRequest::Spawn { apps: &apps, directives: &[] };
        let (tag, body) = asked(&mut client, &spawn);
        let Ok(Received::Spawn { infos, apps }) = Received::read(Unpacker::new(&body, format))
        else {
            panic!("a spawn")
        };
        let all: Vec<App<'_>> = apps.each(Type::APP, App::read).collect();
        assert!(infos.is_empty() && all.len() == 1);
        let App { command, words, variables, directory, processes, infos } = &all[0];
        assert_eq!((*command, *directory, *processes), (&b"./kids"[..], None, 3));
        assert!(words.iter().eq([b"./kids"]) && variables.iter().next().is_none());
        assert!(infos.is_empty());
        let made = yes(format, |to| {
            to.one(Type::STRING).text(Some(b"job-2"));
        });
        answered(&mut client, tag, &made, |answer| {
            assert_eq!(answer.nspace(), Some(&b"job-2"[..]));
        });
        is_nothing_when_cut(format, &spawn, &made);

        let procs = [b"", &b"job-2"[..]].map(|nspace| Proc { nspace, rank: WILDCARD });
        let listed = [NSPACE, b"job-2"].map(|nspace| Proc { nspace, rank: WILDCARD });
        let connect = PmixRequest::Connect { procs: &procs, timeout_s: None };
        let (tag, body) = asked(&mut client, &connect);
        let Ok(Received::Connect(with)) = Received::read(Unpacker::new(&body, format)) else {
            panic!("a connect")
        };
        assert!(with.procs.procs().eq(listed) && with.infos.is_empty());
        let told = yes(format, |to| {
            to.one(Type::BYTE_OBJECT).blob(&described(format));
        });
        answered(&mut client, tag, &told, |answer| {
            let jobs: Vec<JobInfo<'_>> = answer.jobs().collect();
            assert_eq!((jobs.len(), jobs[0].nspace(), jobs[0].size()), (1, Some(NSPACE), Some(4)));
        });
        is_nothing_when_cut(format, &connect, &told);

        let disconnect = PmixRequest::Disconnect { procs: &procs, timeout_s: Some(1) };
        let (_, body) = asked(&mut client, &disconnect);
        let Ok(Received::Disconnect(from)) = Received::read(Unpacker::new(&body, format)) else {
            panic!("a disconnect")
        };
        assert!(from.procs.procs().eq(listed));
        assert_eq!(from.infos.find(keys::TIMEOUT).unwrap().number(), Some(1));
    }
}

/// Event notification of a server.
fn event(format: Format, code: i32, text: &[u8]) -> Vec<u8> {
    message(
        TAG_EVENT,
        &packed(format, &|to| {
            to.one(Type::COMMAND).u8(Command::NOTIFY.0).one(Type::STATUS).i32(code);
            Proc { nspace: b"shop", rank: 1 }.write(to.one(Type::PROC));
            to.one(Type::SIZE).size(1).one(Type::INFO);
            to.text(Some(b"why")).u32(0).of(Type::STRING).text(Some(text));
            to.one(Type::DATA_RANGE).u8(range::SESSION);
        }),
    )
}

// Coverage: X1-11
#[test]
fn registered_client_finds_events_between_answers() {
    for format in FORMATS {
        let mut client = open(format);
        // The client has not registered for it, so it is not kept.
        recv(&mut client, &event(format, -101, b"early"));
        assert!(client.poll_event().is_none());
        let (tag, body) =
            asked(&mut client, &PmixRequest::Register { codes: &[Status(-101)], directives: &[] });
        let Ok(Received::RegisterEvents { codes, infos }) =
            Received::read(Unpacker::new(&body, format))
        else {
            panic!("a registration")
        };
        assert!(codes.codes().eq([-101]) && infos.is_empty());
        // Two events, one of them longer than the lent buffer, and the reply behind them.
        let all = [
            event(format, -101, b"now"),
            event(format, -102, &[b'x'; 1500]),
            status(format, tag, Status::SUCCESS),
        ]
        .concat();
        let mut rest = &all[..];
        let mut received = Vec::new();
        while !rest.is_empty() {
            let taken = client.handle_input(NOW, &rest[..rest.len().min(5)]).unwrap();
            rest = &rest[taken..];
            match client.poll_event() {
                Some(PmixClientEvent::Happened { code, source, range: range::SESSION, infos }) => {
                    assert_eq!((source.nspace, source.rank), (&b"shop"[..], 1));
                    assert_eq!(infos.find(b"why").unwrap().text(), Some(&b"now"[..]));
                    received.push(code);
                }
                Some(PmixClientEvent::Reply { ticket, status, .. }) => {
                    assert_eq!(ticket.0, tag);
                    received.push(status);
                }
                other => assert!(other.is_none() && taken > 0),
            }
        }
        assert_eq!(received, [Status(-101), Status::SUCCESS]);

        let code = Status(-7);
        let attributes =
            [Attribute::new(keys::PROC_ID, Datum::Proc(Proc { nspace: b"shop", rank: 2 }))];
        let notify = PmixRequest::Notify { code, range: range::NAMESPACE, attributes: &attributes };
        let (_, body) = asked(&mut client, &notify);
        let Ok(Received::Notify { code: -7, range: range::NAMESPACE, infos }) =
            Received::read(Unpacker::new(&body, format))
        else {
            panic!("an event")
        };
        assert_eq!(infos.find(keys::PROC_ID).unwrap().proc().unwrap().rank, 2);
        let bad = message(TAG_EVENT, &[1, 2, 3]);
        assert!(matches!(client.handle_input(NOW, &bad), Err(PeerError::Malformed(_))));
    }
}

#[test]
fn everything_that_happens_can_be_asked_for() {
    let mut client = open(Format::PLAIN);
    let (_, body) = asked(&mut client, &PmixRequest::Register { codes: &[], directives: &[] });
    let Ok(Received::RegisterEvents { codes, .. }) =
        Received::read(Unpacker::new(&body, Format::PLAIN))
    else {
        panic!("a registration")
    };
    assert!(codes.is_empty());
}

#[test]
fn invalid_names_and_programs_are_refused_before_anything_is_sent() {
    let mut client = open(Format::PLAIN);
    let long = [b'k'; KEY_BYTES_MAX + 1];
    let arguments = SpawnApp { arguments: &[b"x", b"a\0b"], ..SpawnApp::new(b"a", 1) };
    let text = Attribute::new(keys::LOG_STDOUT, Datum::Text(b"a\0b"));
    let packed = Attribute::new(keys::CONTROL_SIGNAL, Datum::Packed(Type::INT, b""));
    for request in [
        PmixRequest::Publish { key: b"", text: b"x" },
        PmixRequest::Publish { key: &long, text: b"x" },
        PmixRequest::Publish { key: b"pmix.range", text: b"x" },
        PmixRequest::Publish { key: b"k", text: b"a\0b" },
        PmixRequest::Publish { key: b"k", text: &[b'x'; 1024] },
        PmixRequest::Lookup { key: b"a\0b", wait: false, timeout_s: None },
        PmixRequest::Unpublish { key: b"" },
        PmixRequest::Spawn { apps: &[], directives: &[] },
        PmixRequest::Spawn { apps: &[SpawnApp::new(b"", 1)], directives: &[] },
        PmixRequest::Spawn { apps: &[SpawnApp::new(b"a\0b", 1)], directives: &[] },
        PmixRequest::Spawn { apps: &[SpawnApp::new(b"a", u32::MAX)], directives: &[] },
        PmixRequest::Spawn { apps: &[arguments], directives: &[] },
        PmixRequest::Query { keys: &[b""], qualifiers: &[] },
        PmixRequest::Query { keys: &[b"k"], qualifiers: &[Attribute::enabled(b"a\0b")] },
        PmixRequest::Log { time_s: 0, data: &[text], directives: &[] },
        PmixRequest::JobControl { targets: &[], directives: &[packed] },
        PmixRequest::GroupConstruct { name: b"", procs: &[], directives: &[] },
        PmixRequest::GroupLeave { name: b"a\0b" },
    ] {
        let refused = client.start(&request);
        assert!(
            matches!(refused, Err(Misuse::NotRepresentable { .. } | Misuse::Length { .. })),
            "{request:?}"
        );
        assert_eq!(client.poll_transmit(&mut []), Ok(None));
    }
    assert_eq!(client.outstanding(), 0);
}

// Coverage: X1-16
#[test]
fn programs_are_spawned_with_all_that_belongs_to_them() {
    for format in FORMATS {
        let mut client = open(format);
        let where_to = [Attribute::new(keys::HOST, Datum::Text(b"left")).required()];
        let kids = SpawnApp {
            arguments: &[b"-n", b""],
            variables: &[b"A=1"],
            directory: Some(b"/tmp"),
            directives: &where_to,
            ..SpawnApp::new(b"./kids", 3)
        };
        let apps = [kids, SpawnApp::new(b"tool", 1)];
        let all = [Attribute::enabled(keys::FORWARD_STDOUT)];
        let (_, body) = asked(&mut client, &PmixRequest::Spawn { apps: &apps, directives: &all });
        let Ok(Received::Spawn { infos, apps }) = Received::read(Unpacker::new(&body, format))
        else {
            panic!("a spawn")
        };
        assert!(infos.is_set(keys::FORWARD_STDOUT));
        let all: Vec<App<'_>> = apps.each(Type::APP, App::read).collect();
        assert!(all[0].words.iter().eq([&b"./kids"[..], b"-n", b""]));
        assert!(all[0].variables.iter().eq([b"A=1"]));
        assert_eq!((all[0].directory, all[0].processes), (Some(&b"/tmp"[..]), 3));
        let one: Vec<Info<'_>> = all[0].infos.infos().collect();
        assert_eq!((one.len(), one[0].key, one[0].flags), (1, keys::HOST, flags::REQUIRED));
        assert_eq!((all[1].command, all[1].processes), (&b"tool"[..], 1));
    }
}

// Coverage: X2-14
#[test]
fn queries_are_sent_with_qualifiers_and_answered_by_entries() {
    for format in FORMATS {
        let mut client = open(format);
        let qualifiers = [Attribute::new(keys::NSPACE, Datum::Text(b"shop"))];
        let query = PmixRequest::Query {
            keys: &[keys::JOB_SIZE, keys::QUERY_JOB_STATUS],
            qualifiers: &qualifiers,
        };
        let (tag, body) = asked(&mut client, &query);
        let Ok(Received::Query(queries)) = Received::read(Unpacker::new(&body, format)) else {
            panic!("a query")
        };
        let all: Vec<Query<'_>> = queries.each(Type::QUERY, Query::read).collect();
        assert_eq!(all.len(), 1);
        assert!(all[0].keys.iter().eq([keys::JOB_SIZE, keys::QUERY_JOB_STATUS]));
        assert_eq!(all[0].qualifiers.find(keys::NSPACE).unwrap().text(), Some(&b"shop"[..]));
        let found = yes(format, |to| {
            to.one(Type::SIZE).size(1).one(Type::INFO);
            to.text(Some(keys::JOB_SIZE)).u32(0).of(Type::UINT32).u32(9);
        });
        answered(&mut client, tag, &found, |answer| {
            let infos = answer.infos().expect("entries");
            assert_eq!((infos.count, infos.find(keys::JOB_SIZE).unwrap().number()), (1, Some(9)));
            assert!(answer.group().is_none() && answer.nspace().is_none());
        });
        is_nothing_when_cut(format, &query, &found);
    }
}

// Coverage: X2-23
#[test]
fn log_entries_and_operations_on_processes_are_sent() {
    for format in FORMATS {
        let mut client = open(format);
        let data = [Attribute::new(keys::LOG_STDERR, Datum::Text(b"so"))];
        let directives = [Attribute::enabled(keys::LOG_ONCE)];
        let log = PmixRequest::Log { time_s: 1_700_000_000, data: &data, directives: &directives };
        let (tag, body) = asked(&mut client, &log);
        let Ok(Received::Log { time: Some(1_700_000_000), data, directives }) =
            Received::read(Unpacker::new(&body, format))
        else {
            panic!("entries of a log")
        };
        assert_eq!(data.find(keys::LOG_STDERR).unwrap().text(), Some(&b"so"[..]));
        assert!(directives.is_set(keys::LOG_ONCE));
        answered(&mut client, tag, &yes(format, |_| {}), |answer| {
            assert!(answer.infos().is_none());
        });

        let targets = [Proc { nspace: b"", rank: 2 }, Proc { nspace: b"shop", rank: WILDCARD }];
        let directives = [Attribute::new(keys::CONTROL_SIGNAL, Datum::Int(15)).required()];
        let control = PmixRequest::JobControl { targets: &targets, directives: &directives };
        let (tag, body) = asked(&mut client, &control);
        let Ok(Received::JobControl { targets, infos }) =
            Received::read(Unpacker::new(&body, format))
        else {
            panic!("an operation")
        };
        let own = Proc { nspace: NSPACE, rank: 2 };
        assert!(targets.procs().eq([own, Proc { nspace: b"shop", rank: WILDCARD }]));
        assert_eq!(infos.find(keys::CONTROL_SIGNAL).unwrap().number(), Some(15));
        let done = yes(format, |to| {
            to.one(Type::SIZE).size(0);
        });
        answered(&mut client, tag, &done, |answer| {
            assert!(answer.infos().is_some_and(|infos| infos.is_empty()));
        });
        is_nothing_when_cut(format, &control, &done);
    }
}

#[test]
fn group_is_constructed_left_and_destructed() {
    for format in FORMATS {
        let mut client = open(format);
        let procs = [0, 3].map(|rank| Proc { nspace: b"", rank });
        let directives = [Attribute::enabled(keys::GROUP_ASSIGN_CONTEXT_ID)];
        let construct =
            PmixRequest::GroupConstruct { name: b"ends", procs: &procs, directives: &directives };
        let (tag, body) = asked(&mut client, &construct);
        let Ok(Received::GroupConstruct { name: b"ends", group }) =
            Received::read(Unpacker::new(&body, format))
        else {
            panic!("a construction")
        };
        let listed = procs.map(|proc| Proc { nspace: NSPACE, ..proc });
        assert!(group.procs.procs().eq(listed));
        assert!(group.infos.is_set(keys::GROUP_ASSIGN_CONTEXT_ID));
        let number = yes(format, |to| {
            to.one(Type::SIZE).size(12);
        });
        answered(&mut client, tag, &number, |answer| {
            let expected = GroupResult { context: Some(12), members: None };
            assert_eq!(answer.group(), Some(expected));
        });
        is_nothing_when_cut(format, &construct, &number);
        // Later servers list the members, and here none has requested a number.
        let (tag, _) = asked(&mut client, &construct);
        let members = yes(format, |to| {
            to.one(Type::SIZE).size(2).op(Type::PROC, 2);
            listed.iter().for_each(|proc| proc.write(to));
            to.one(Type::SIZE).size(u64::MAX);
        });
        answered(&mut client, tag, &members, |answer| {
            let group = answer.group().expect("a group");
            assert!(group.context.is_none() && group.members.unwrap().procs().eq(listed));
        });

        let (_, body) = asked(&mut client, &PmixRequest::GroupLeave { name: b"ends" });
        let Ok(Received::GroupLeave { name: b"ends", infos }) =
            Received::read(Unpacker::new(&body, format))
        else {
            panic!("a leave")
        };
        assert!(infos.is_empty());
        let destruct = PmixRequest::GroupDestruct { name: b"ends", timeout_s: Some(3) };
        let (_, body) = asked(&mut client, &destruct);
        let Ok(Received::GroupDestruct { name: b"ends", mut rest }) =
            Received::read(Unpacker::new(&body, format))
        else {
            panic!("a destruction")
        };
        let infos = List::read(&mut rest, Type::INFO).unwrap();
        assert_eq!(infos.find(keys::TIMEOUT).unwrap().number(), Some(3));
    }
}

#[test]
fn deregistration_awaits_no_reply() {
    for format in FORMATS {
        let mut client = open(format);
        let awaited = client.outstanding();
        for (codes, expected) in
            [(&[Status(-7), Status(-8)][..], &[-7, -8][..]), (&[], &[i32::MIN])]
        {
            let (_, body) = asked(&mut client, &PmixRequest::Deregister { codes });
            let Ok(Received::DeregisterEvents(codes)) =
                Received::read(Unpacker::new(&body, format))
            else {
                panic!("a deregistration")
            };
            assert!(codes.eq(expected.iter().copied()));
            assert_eq!(client.outstanding(), awaited);
        }
    }
}

#[test]
fn tool_is_given_its_namespace() {
    for format in FORMATS {
        let owner = Credential { user: 4, group: 5 };
        let tool = ToolIdentity { owner, is_native: true, format };
        let lent = Lent::new;
        let memory = PmixBuffers { request: lent(), response: lent(), puts: lent(), job: lent() };
        let attributes = [
            Attribute::new(keys::PROC_PID, Datum::Pid(99)),
            Attribute::new(keys::COMMAND_LINE, Datum::Text(b"watch jobs")),
        ];
        let fresh = || PmixClient::<Lent>::tool(tool, &attributes, memory.clone()).unwrap();
        let long = [Attribute::new(keys::COMMAND_LINE, Datum::Text(&[b'x'; 1024]))];
        let refused = PmixClient::<Lent>::tool(tool, &long, memory.clone());
        assert!(matches!(refused, Err(Misuse::Length { .. })));
        let mut welcome = [0; TOOL_WELCOME_BYTES];
        write_tool_welcome(Some((NSPACE, 0)), (b"server", 0), &mut welcome).unwrap();
        let mut client = fresh();
        client.start(&PmixRequest::Init).unwrap();
        let greeting = sent(&mut client);
        let greeting = Greeting::read(&greeting).unwrap();
        assert_eq!((greeting.kind, greeting.identity), (Kind::Tool, None));
        assert_eq!((greeting.owner, greeting.credential_type), (Some((4, 5)), &b"native"[..]));
        let pid = greeting.extra.unwrap().find(keys::PROC_PID).unwrap();
        assert_eq!((pid.of, pid.number()), (Type::PID, Some(99)));
        let line = greeting.extra.unwrap().find(keys::COMMAND_LINE).unwrap();
        assert_eq!(line.text(), Some(&b"watch jobs"[..]));
        for byte in welcome {
            recv(&mut client, &[byte]);
        }
        let header = Header::read(&sent(&mut client)).unwrap();
        assert_eq!((header.index, header.tag), (0, 101));
        recv(&mut client, &message(101, &described(format)));
        assert_eq!(reply(&mut client).1, Status::SUCCESS);
        assert_eq!((client.identity().nspace.as_bytes(), client.identity().rank), (NSPACE, 0));
        assert!(matches!(client.state(), PmixState::Open { .. }));

        let rejected = |at: usize, status: i32, len: usize| {
            let mut client = fresh();
            client.start(&PmixRequest::Init).unwrap();
            sent(&mut client);
            let mut welcome = welcome;
            welcome[at..at + 4].copy_from_slice(&status.to_be_bytes());
            client.handle_input(NOW, &welcome[..len])
        };
        let all = TOOL_WELCOME_BYTES;
        assert_eq!(rejected(0, -23, 4), Err(PeerError::Refused(Code(-23))));
        assert_eq!(rejected(all - 4, -12, all), Err(PeerError::Refused(Code(-12))));
        // A namespace that is empty.
        assert!(matches!(rejected(4, 0, all), Err(PeerError::Malformed(_))));
    }
}

#[test]
fn spawn_longer_than_the_lent_buffer_is_refused_and_leaves_nothing_in_it() {
    for format in FORMATS {
        let mut client = open(format);
        let (long, half) = ([b'x'; 1024], [b'x'; 600]);
        let (long_words, half_words): ([&[u8]; 1], [&[u8]; 1]) = ([&long], [&half]);
        let where_to = [Attribute::new(keys::HOST, Datum::Text(&long))];
        let app = SpawnApp::new(b"a", 1);
        let fitting = SpawnApp { arguments: &half_words, ..app };
        for (apps, directives) in [
            (&[SpawnApp::new(&long, 1)][..], &[][..]),
            (&[SpawnApp { arguments: &long_words, ..app }], &[]),
            (&[SpawnApp { variables: &long_words, ..app }], &[]),
            (&[SpawnApp { directory: Some(&long), ..app }], &[]),
            (&[SpawnApp { directives: &where_to, ..app }], &[]),
            (&[app], &where_to),
            // Each of the two fits alone.
            (&[fitting, fitting], &[]),
        ] {
            let refused = client.start(&PmixRequest::Spawn { apps, directives });
            let Err(Misuse::Length { what: "request", len_bytes, limit_bytes: 1024 }) = refused
            else {
                panic!("{refused:?}")
            };
            assert!(len_bytes > 1024);
            assert_eq!((client.outstanding(), client.poll_transmit(&mut [])), (0, Ok(None)));
        }
        // A program that fits is sent alone: nothing of the others is in the buffer.
        let spawn = PmixRequest::Spawn { apps: &[fitting], directives: &[] };
        let (_, body) = asked(&mut client, &spawn);
        let Ok(Received::Spawn { infos, apps }) = Received::read(Unpacker::new(&body, format))
        else {
            panic!("a spawn")
        };
        let all: Vec<App<'_>> = apps.each(Type::APP, App::read).collect();
        assert!(infos.is_empty() && all.len() == 1);
        assert!(all[0].words.iter().eq([&b"a"[..], &half]));
    }
}
