//! Names, programs, other jobs and events: the server's reading of requests, and the client's of
//! replies.

use super::*;
use crate::error::Misuse;
use crate::wire::pmix::names::range;
use crate::wire::pmix::{App, List};

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
        let kids = PmixProgram {
            words: &[b"./kids", b"a b", b""],
            variables: &[b"A=1"],
            directory: Some(b"/tmp"),
            processes: 3,
        };
        let others = PmixProgram { words: &[b"b"], variables: &[], directory: None, processes: 1 };
        let spawn = PmixRequest::Spawn { programs: &[kids, others] };
        let (tag, body) = asked(&mut client, &spawn);
        let Ok(Received::Spawn { infos, apps }) = Received::read(Unpacker::new(&body, format))
        else {
            panic!("a spawn")
        };
        let all: Vec<App<'_>> = apps.each(Type::APP, App::read).collect();
        assert!(infos.is_empty() && all.len() == 2);
        let App { command, words, variables, directory, processes, infos } = &all[0];
        assert_eq!((*command, *directory, *processes), (&b"./kids"[..], Some(&b"/tmp"[..]), 3));
        assert!(words.iter().eq([&b"./kids"[..], b"a b", b""]));
        assert!(variables.iter().eq([b"A=1"]) && infos.is_empty());
        let App { command, words, variables, directory, processes, .. } = &all[1];
        assert_eq!((*command, *directory, *processes), (&b"b"[..], None, 1));
        assert!(words.iter().eq([b"b"]) && variables.iter().next().is_none());
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
        let (tag, body) = asked(&mut client, &PmixRequest::Register { code: Some(Status(-101)) });
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
        let (_, body) = asked(&mut client, &PmixRequest::Notify { code, range: range::NAMESPACE });
        let Ok(Received::Notify { code: -7, range: range::NAMESPACE, infos }) =
            Received::read(Unpacker::new(&body, format))
        else {
            panic!("an event")
        };
        assert!(List::is_empty(&infos));
        let bad = message(TAG_EVENT, &[1, 2, 3]);
        assert!(matches!(client.handle_input(NOW, &bad), Err(PeerError::Malformed(_))));
    }
}

#[test]
fn everything_that_happens_can_be_asked_for() {
    let mut client = open(Format::PLAIN);
    let (_, body) = asked(&mut client, &PmixRequest::Register { code: None });
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
    let program =
        |words, processes| [PmixProgram { words, variables: &[], directory: None, processes }];
    let [none, empty, nul, many, wide] = [
        program(&[], 1),
        program(&[b""], 1),
        program(&[b"a", b"a\0b"], 1),
        program(&[b"a"], u32::MAX),
        program(&[b"a", &[b'x'; 1024]], 1),
    ];
    for request in [
        PmixRequest::Publish { key: b"", text: b"x" },
        PmixRequest::Publish { key: &long, text: b"x" },
        PmixRequest::Publish { key: b"pmix.range", text: b"x" },
        PmixRequest::Publish { key: b"k", text: b"a\0b" },
        PmixRequest::Publish { key: b"k", text: &[b'x'; 1024] },
        PmixRequest::Lookup { key: b"a\0b", wait: false, timeout_s: None },
        PmixRequest::Unpublish { key: b"" },
        PmixRequest::Spawn { programs: &[] },
        PmixRequest::Spawn { programs: &none },
        PmixRequest::Spawn { programs: &empty },
        PmixRequest::Spawn { programs: &nul },
        PmixRequest::Spawn { programs: &many },
        PmixRequest::Spawn { programs: &wide },
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
