//! The PMIx client against a scripted server, with every cut and deviation.

mod services;

use std::vec::Vec;

use super::*;
use crate::error::{Code, Full, PeerError};
use crate::machine::Machine;
use crate::storage::ArrayBuffer;
use crate::testkit;
use crate::testkit::pmix::packed;
use crate::time::Instant;
use crate::wire::pmix::greeting::{Greeting, write_refusal, write_welcome};
use crate::wire::pmix::header::{Header, TAG_EVENT};
use crate::wire::pmix::names::{Command, Status, keys, scope};
use crate::wire::pmix::request::Request as Received;
use crate::wire::pmix::{Family, Packer, Proc, Type, Unpacker, WILDCARD, ranks};

const NOW: Instant = Instant::ZERO;
const NSPACE: &[u8] = b"18153473";
const FORMATS: [Format; 4] = [
    Format::PLAIN,
    Format { family: Family::Flex, is_described: true },
    Format { family: Family::Fixed, is_described: false },
    Format { family: Family::Fixed, is_described: true },
];

type Lent = ArrayBuffer<1024>;

/// The rank of each process, with its keys.
type Found = Vec<(u32, Vec<Vec<u8>>)>;

/// The keys that a scope holds, by its number.
type Scoped<'a> = (u8, &'a [&'a [u8]]);

fn fresh(format: Format) -> PmixClient<Lent> {
    let identity = ProcIdentity {
        nspace: KvsName::new(NSPACE).unwrap(),
        rank: 0,
        credential: Some(Credential { user: 0, group: 0 }),
        format,
    };
    let lent = Lent::new;
    PmixClient::new(
        identity,
        PmixBuffers { request: lent(), response: lent(), puts: lent(), job: lent() },
    )
}

/// An admitted client with job-level information.
fn open(format: Format) -> PmixClient<Lent> {
    let mut client = fresh(format);
    client.start(&PmixRequest::Init).unwrap();
    sent(&mut client);
    let mut welcome = [0; 8];
    write_welcome(7, &mut welcome).unwrap();
    recv(&mut client, &welcome);
    sent(&mut client);
    recv(&mut client, &message(101, &described(format)));
    assert_eq!(reply(&mut client), (PmixTicket(101), Status::SUCCESS, Vec::new()));
    client
}

/// The next transmitted message.
fn sent(client: &mut PmixClient<Lent>) -> Vec<u8> {
    let mut out = [0; 2048];
    let Err(Full { needed }) = client.poll_transmit(&mut []) else { panic!("nothing is owed") };
    assert_eq!(client.poll_transmit(&mut out[..needed - 1]), Err(Full { needed }));
    assert_eq!(client.poll_transmit(&mut out[..needed]), Ok(Some(needed)));
    out[..needed].to_vec()
}

fn recv(client: &mut PmixClient<Lent>, bytes: &[u8]) {
    assert_eq!(client.handle_input(NOW, bytes), Ok(bytes.len()));
}

/// The reply that the owner polls.
fn reply(client: &mut PmixClient<Lent>) -> (PmixTicket, Status, Found) {
    let Some(PmixClientEvent::Reply { ticket, status, answer, .. }) = client.poll_event() else {
        panic!("nothing to tell")
    };
    let keys = |kvals: crate::wire::pmix::Kvals<'_>| {
        kvals.map(|kval| kval.unwrap().key.to_vec()).collect::<Vec<_>>()
    };
    let objects = answer.objects().map(|object| (object.of.rank, keys(object.kvals))).collect();
    assert!(client.poll_event().is_none());
    (ticket, status, objects)
}

/// A message of the server, whose header has no index.
fn message(tag: u32, body: &[u8]) -> Vec<u8> {
    testkit::pmix::message(0, tag, body)
}

fn status(format: Format, tag: u32, status: Status) -> Vec<u8> {
    message(
        tag,
        &packed(format, &|to| {
            to.one(Type::STATUS).i32(status.0);
        }),
    )
}

/// A job of four ranks on two nodes, each with two.
fn described(format: Format) -> Vec<u8> {
    packed(format, &|to| {
        to.one(Type::STRING).text(Some(NSPACE));
        to.one(Type::KVAL).text(Some(keys::JOB_SIZE)).of(Type::UINT32).u32(4);
        to.one(Type::KVAL).text(Some(keys::SESSION_ARRAY)).of(Type::DATA_ARRAY).of(Type::INFO);
        to.size(1).text(Some(keys::UNIV_SIZE)).u32(0).of(Type::UINT32).u32(16);
        for (number, name) in [(0, b"left"), (1, b"rght")] {
            to.one(Type::KVAL).text(Some(keys::NODE_ARRAY)).of(Type::DATA_ARRAY).of(Type::INFO);
            to.size(2).text(Some(keys::HOSTNAME)).u32(0).of(Type::STRING).text(Some(name));
            to.text(Some(keys::LOCAL_SIZE)).u32(0).of(Type::UINT32).u32(10 + number);
        }
        for rank in 0..4 {
            to.one(Type::KVAL).text(Some(keys::PROC_BLOB)).of(Type::BYTE_OBJECT).nested(|to| {
                let name = if rank < 2 { b"left" } else { b"rght" };
                to.one(Type::PROC_RANK).u32(rank);
                to.one(Type::KVAL).text(Some(keys::HOSTNAME)).of(Type::STRING).text(Some(name));
                to.one(Type::KVAL).text(Some(keys::GLOBAL_RANK)).of(Type::PROC_RANK).u32(rank);
            });
        }
    })
}

/// Messages of a recorded session; true for those of the client.
fn recorded() -> Vec<(bool, Vec<u8>)> {
    let text = include_str!("../../../vectors/pmix/conversation.txt");
    let mut messages: Vec<(bool, Vec<u8>)> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        match (line, messages.last_mut()) {
            ("C>S" | "S>C", _) => messages.push((line == "C>S", Vec::new())),
            (hex, Some((_, bytes))) => {
                let byte = |digits| u8::from_str_radix(digits, 16).unwrap();
                bytes.extend(hex.split_whitespace().map(byte));
            }
            _ => panic!("{line}"),
        }
    }
    messages
}

/// Replays the recorded session; `cut` divides each message of the server into pieces.
fn converse(cut: impl Fn(usize, &[u8]) -> Vec<Vec<u8>>) {
    let mut client = fresh(Format::PLAIN);
    let fence = PmixRequest::Fence { procs: &[], collect: true, timeout_s: None };
    let of = Proc { nspace: b"", rank: 1 };
    let get = PmixRequest::Get { of, key: Some(b"k-1"), immediate: false, timeout_s: None };
    let requests = [PmixRequest::Init, PmixRequest::Commit, fence, get, PmixRequest::Finalize];
    let mut requests = requests.into_iter();
    for (at, (is_ours, bytes)) in recorded().into_iter().enumerate() {
        if is_ours {
            if client.outstanding() == 0 {
                let request = requests.next().unwrap();
                if request == PmixRequest::Commit {
                    client.put(Scope::Global, b"k-0", Datum::U64(1000)).unwrap();
                }
                client.start(&request).unwrap();
            }
            let said = sent(&mut client);
            if at > 0 {
                assert_eq!(said, bytes, "message {at}");
                continue;
            }
            // The library writes its own version, and a byte more than it has fields.
            let recorded = Greeting::read(&bytes).unwrap();
            let expected = Greeting { version: VERSION, ..recorded };
            assert_eq!(Greeting::read(&said).unwrap(), expected);
            continue;
        }
        cut(at, &bytes).iter().for_each(|piece| recv(&mut client, piece));
        let found: Found = match at {
            1 => continue,
            9 => std::vec![(1, std::vec![b"k-1".to_vec()])],
            _ => Vec::new(),
        };
        let (_, status, objects) = reply(&mut client);
        assert_eq!((status, objects), (Status::SUCCESS, found), "message {at}");
    }
    assert!(client.is_finished() && client.state() == PmixState::Ended);
    assert_eq!(client.job_info().size(), Some(2));
    assert_eq!(client.known(1, b"pmix.cpuset").unwrap().text(), Some(&b"1"[..]));
    assert_eq!(client.known(WILDCARD, b"pmix.lpeers").unwrap().text(), Some(&b"0,1"[..]));
}

#[test]
fn recorded_conversation_is_had_byte_for_byte_however_it_is_cut() {
    let mut longest = 0;
    for (_, bytes) in recorded() {
        longest = bytes.len().max(longest);
    }
    for at in 0..longest {
        converse(|_, bytes| {
            let (front, back) = bytes.split_at(at.min(bytes.len()));
            std::vec![front.to_vec(), back.to_vec()]
        });
    }
    converse(|_, bytes| bytes.iter().map(|byte| std::vec![*byte]).collect());
}

#[test]
fn job_information_is_known_of_every_rank_without_a_request() {
    for format in FORMATS {
        let client = open(format);
        let number = |rank, key| client.known(rank, key).and_then(|value| value.number());
        let name = |rank| client.known(rank, keys::HOSTNAME).and_then(|value| value.text());
        assert_eq!(client.job_info().nspace(), Some(NSPACE));
        assert_eq!(client.job_info().size(), Some(4));
        assert_eq!(number(3, keys::GLOBAL_RANK), Some(3));
        assert_eq!(number(WILDCARD, keys::UNIV_SIZE), Some(16));
        // The node is that of the rank, and for the job the own one.
        assert_eq!((name(1), name(2)), (Some(&b"left"[..]), Some(&b"rght"[..])));
        assert_eq!(
            (number(2, keys::LOCAL_SIZE), number(0, keys::LOCAL_SIZE)),
            (Some(11), Some(10))
        );
        assert_eq!(number(WILDCARD, keys::LOCAL_SIZE), Some(10));
        assert_eq!(number(0, keys::APP_SIZE), None);
        assert_eq!(number(4, keys::GLOBAL_RANK), None);
    }
}

// Coverage: X1-8
#[test]
fn ranks_of_a_node_are_known_from_the_description_of_the_job() {
    for format in FORMATS {
        let job = open(format);
        let ranks = |realm, rank| job.job_info().ranks_in(realm, rank).collect::<Vec<u32>>();
        assert_eq!(ranks(DataRealm::Process, 2), [2]);
        assert_eq!(ranks(DataRealm::Node, 1), [1, 0]);
        assert_eq!(ranks(DataRealm::Node, 2), [2, 3]);
        assert_eq!(ranks(DataRealm::Job, 1), [1, 0, 2, 3]);
        // Nothing tells the programs of the ranks, and a rank outside the job shares nothing.
        assert_eq!(ranks(DataRealm::Application, 1), [1]);
        assert_eq!(ranks(DataRealm::Node, 4), [4]);
    }
}

#[test]
fn rejected_client_receives_the_status() {
    for at in 0..4 {
        let mut client = fresh(Format::PLAIN);
        client.start(&PmixRequest::Init).unwrap();
        sent(&mut client);
        let mut refusal = [0; 4];
        write_refusal(Status::NOT_FOUND.0, &mut refusal).unwrap();
        let error = PeerError::Refused(Code(Status::NOT_FOUND.0));
        let (front, back) = refusal.split_at(at);
        recv(&mut client, front);
        assert_eq!(client.handle_input(NOW, back), Err(error));
        assert_eq!((client.state(), client.is_finished()), (PmixState::Failed(error), true));
        assert_eq!(client.handle_input(NOW, b"x"), Err(error), "the first error stays");
        assert_eq!(client.handle_end(NOW), Err(error));
        assert_eq!(client.poll_transmit(&mut [0; 64]), Ok(None));
    }
    // The job-level information may be refused as well, or be that of another job.
    for format in FORMATS {
        let other = packed(format, &|to| {
            to.one(Type::STRING).text(Some(b"other"));
        });
        let malformed = crate::error::Malformed::new(0, "the description of the own job");
        for (answer, error) in [
            (status(format, 101, Status(-23)), PeerError::Refused(Code(-23))),
            (message(101, &other), PeerError::Malformed(malformed)),
        ] {
            let mut client = fresh(format);
            client.start(&PmixRequest::Init).unwrap();
            sent(&mut client);
            recv(&mut client, &[0, 0, 0, 0, 0, 0, 0, 7]);
            sent(&mut client);
            assert_eq!(client.handle_input(NOW, &answer), Err(error));
        }
    }
}

#[test]
fn refused_request_is_answered_with_its_status_and_the_next_one_can_be_asked() {
    for format in FORMATS {
        let mut client = open(format);
        let of = Proc { nspace: b"other", rank: ranks::UNDEF };
        for (request, code) in [
            (PmixRequest::Commit, Status::BAD_PARAM),
            (
                PmixRequest::Fence { procs: &[of], collect: false, timeout_s: Some(3) },
                Status::TIMEOUT,
            ),
            (
                PmixRequest::Get { of, key: None, immediate: true, timeout_s: None },
                Status::NOT_FOUND,
            ),
            (PmixRequest::Commit, Status(-12345)),
        ] {
            let ticket = client.start(&request).unwrap();
            let asked = sent(&mut client);
            let header = Header::read(&asked).unwrap();
            assert_eq!((header.index, header.tag), (7, ticket.0));
            let received = Received::read(Unpacker::new(&asked[Header::BYTES..], format)).unwrap();
            match received {
                Received::Fence(fence) => {
                    assert!(fence.procs.procs().eq([of]));
                    assert!(!fence.infos.is_set(keys::COLLECT));
                    assert_eq!(fence.infos.find(keys::TIMEOUT).unwrap().number(), Some(3));
                }
                Received::Get(get) => {
                    assert_eq!((get.nspace, get.rank, get.key), (of.nspace, of.rank, None));
                    assert!(get.infos.is_set(keys::IMMEDIATE));
                }
                other => assert_eq!(other.command(), Command::COMMIT),
            }
            recv(&mut client, &status(format, ticket.0, code));
            assert_eq!(reply(&mut client), (ticket, code, Vec::new()));
        }
        assert_eq!(client.state(), PmixState::Open { index: 7 });
    }
}

// Coverage: X1-10
#[test]
fn several_questions_are_out_at_once_and_answered_in_any_order() {
    let mut client = open(Format::PLAIN);
    let ask = |client: &mut PmixClient<Lent>, rank| {
        let of = Proc { nspace: b"", rank };
        client.start(&PmixRequest::Get { of, key: Some(b"k"), immediate: false, timeout_s: None })
    };
    let tickets: Vec<PmixTicket> = (0..4)
        .map(|rank| {
            let ticket = ask(&mut client, rank).unwrap();
            assert_eq!(ask(&mut client, rank), Err(Misuse::Busy), "it is not sent yet");
            sent(&mut client);
            ticket
        })
        .collect();
    assert_eq!(ask(&mut client, 0), Err(Misuse::Busy), "every slot is taken");
    assert_eq!(client.start(&PmixRequest::Finalize), Err(Misuse::Busy));
    let answer = |ticket: &PmixTicket| status(Format::PLAIN, ticket.0, Status::NOT_FOUND);
    let all: Vec<u8> = tickets.iter().rev().flat_map(answer).collect();
    let mut rest = &all[..];
    for ticket in tickets.iter().rev() {
        let taken = client.handle_input(NOW, rest).unwrap();
        assert_eq!(taken, 18, "nothing is taken beyond an answer that was not seen");
        rest = &rest[taken..];
        assert_eq!(client.handle_input(NOW, rest), Ok(0));
        assert_eq!(reply(&mut client), (*ticket, Status::NOT_FOUND, Vec::new()));
    }
    assert_eq!((rest.len(), client.outstanding()), (0, 0));
}

// Coverage: X1-6
#[test]
fn commit_sends_what_was_put_before_it_once_and_to_its_scope_only() {
    for format in FORMATS {
        let mut client = open(format);
        let array = packed(format, &|to| {
            to.of(Type::PROC_RANK).size(2).u32(0).u32(1);
        });
        client.put(Scope::Global, b"twice", Datum::Text(b"first")).unwrap();
        client.put(Scope::Local, b"near", Datum::Bytes(b"\0\xff")).unwrap();
        client.put(Scope::Remote, b"far", Datum::Bool(true)).unwrap();
        client.put(Scope::Local, b"twice", Datum::Text(b"second")).unwrap();
        client.put(Scope::Global, b"array", Datum::Packed(Type::DATA_ARRAY, &array)).unwrap();
        assert_eq!(client.known(0, b"twice").unwrap().text(), Some(&b"second"[..]));
        assert_eq!(client.known(1, b"twice"), None);
        let ticket = client.start(&PmixRequest::Commit).unwrap();
        client.put(Scope::Global, b"late", Datum::I64(-1)).unwrap();
        let expected: [&[Scoped<'_>]; 3] = [
            &[(scope::LOCAL, &[b"near", b"twice", b"array"]), (scope::REMOTE, &[b"far", b"array"])],
            &[(scope::LOCAL, &[b"late"]), (scope::REMOTE, &[b"late"])],
            &[],
        ];
        let mut tickets = std::vec![ticket];
        for expected in expected {
            let asked = sent(&mut client);
            let body = Unpacker::new(&asked[Header::BYTES..], format);
            let Ok(Received::Commit(scopes)) = Received::read(body) else { panic!("{asked:?}") };
            let scopes: Vec<(u8, &[u8])> = scopes.map(Result::unwrap).collect();
            let keys = |bytes| crate::wire::pmix::Kvals::new(bytes, format).map(|k| k.unwrap().key);
            assert_eq!(scopes.len(), expected.len());
            for ((number, bytes), (scope, names)) in scopes.iter().zip(expected) {
                assert_eq!(number, scope);
                assert!(keys(bytes).eq(names.iter().copied()), "{names:?}");
            }
            recv(&mut client, &status(format, tickets.pop().unwrap().0, Status::SUCCESS));
            reply(&mut client);
            tickets.push(client.start(&PmixRequest::Commit).unwrap());
        }
    }
}

#[test]
fn invalid_puts_change_nothing() {
    let mut client = open(Format::PLAIN);
    let put =
        |client: &mut PmixClient<Lent>, key: &[u8], value| client.put(Scope::Global, key, value);
    for len in [1, KEY_BYTES_MAX] {
        put(&mut client, &[b'k'; 600][..len], Datum::U16(1)).unwrap();
    }
    let (length, unsayable) = (
        |what, len_bytes, limit_bytes| Err(Misuse::Length { what, len_bytes, limit_bytes }),
        |what| Err(Misuse::NotRepresentable { what }),
    );
    let one = Datum::U16(1);
    assert_eq!(put(&mut client, b"", one), length("key", 0, KEY_BYTES_MAX));
    assert_eq!(put(&mut client, &[b'k'; 512], one), length("key", 512, KEY_BYTES_MAX));
    assert_eq!(put(&mut client, b"pmix.rank", one), unsayable("a key of the launcher's"));
    assert_eq!(put(&mut client, b"k\0", one), unsayable("a text with NUL"));
    assert_eq!(put(&mut client, b"k", Datum::Text(b"\0")), unsayable("a text with NUL"));
    let wrong = unsayable("bytes that are no value of their type");
    assert_eq!(put(&mut client, b"k", Datum::Packed(Type::UINT32, b"\x01\x02")), wrong);
    assert_eq!(put(&mut client, b"k", Datum::Packed(Type(9999), b"")), wrong);
    // A full buffer stays unchanged, to the last byte.
    let before = client.puts.len();
    let room = 1024 - before;
    let front = packed(Format::PLAIN, &|to| {
        to.u8(0).one(Type::KVAL).text(Some(b"k"));
    });
    let overhead = front.len() + 1 + 2;
    let long = [7; 1024];
    let fits = Datum::Bytes(&long[..room - overhead]);
    assert_eq!(
        put(&mut client, b"k", Datum::Bytes(&long[..room - overhead + 1])),
        length("value", room + 1, room)
    );
    assert_eq!(client.puts.len(), before);
    put(&mut client, b"k", fits).unwrap();
    assert_eq!(put(&mut client, b"j", one).is_err(), room > 0);
}

#[test]
fn unrequested_messages_are_skipped_or_end_the_conversation() {
    let event = message(TAG_EVENT, &[9; 3000]);
    for piece in [1, 7, 3000] {
        let mut client = open(Format::PLAIN);
        let ticket = client.start(&PmixRequest::Commit).unwrap();
        event.chunks(piece).for_each(|piece| recv(&mut client, piece));
        assert!(client.poll_event().is_none());
        sent(&mut client);
        recv(&mut client, &status(Format::PLAIN, ticket.0, Status::SUCCESS));
        assert_eq!(reply(&mut client), (ticket, Status::SUCCESS, Vec::new()));
    }
    let unasked = |expected| Err(PeerError::OutOfOrder { got: "an answer", expected });
    let mut client = fresh(Format::PLAIN);
    assert_eq!(client.handle_input(NOW, b"x"), unasked("nothing"));
    let mut client = fresh(Format::PLAIN);
    client.start(&PmixRequest::Init).unwrap();
    assert_eq!(client.handle_input(NOW, &[0; 8]), unasked("the greeting to be sent"));
    for tag in [100, 102, 103, u32::MAX] {
        let mut client = open(Format::PLAIN);
        // It is queued and not sent, so that it cannot have a reply.
        client.start(&PmixRequest::Commit).unwrap();
        let answer = status(Format::PLAIN, tag, Status::SUCCESS);
        assert_eq!(client.handle_input(NOW, &answer), unasked("the reply to a request"));
    }
}

#[test]
fn answer_that_is_none_or_has_no_room_ends_the_conversation() {
    let get = PmixRequest::Get {
        of: Proc { nspace: b"", rank: 1 },
        key: Some(b"k"),
        immediate: false,
        timeout_s: None,
    };
    for body in [&b""[..], b"\x02", b"\x04\x00\x00", b"\x02\x00\x02", b"\x02\x00\x02\x05\x02"] {
        let mut client = open(Format::PLAIN);
        let ticket = client.start(&get).unwrap();
        sent(&mut client);
        let received = client.handle_input(NOW, &message(ticket.0, body));
        assert!(matches!(received, Err(PeerError::Malformed(_))), "{body:?}: {received:?}");
    }
    for (len, fits) in [(1024 - Header::BYTES, true), (1025 - Header::BYTES, false)] {
        let mut client = open(Format::PLAIN);
        let ticket = client.start(&PmixRequest::Commit).unwrap();
        sent(&mut client);
        // As soon as the length is known, not after the whole message.
        let mut long = message(ticket.0, &std::vec![0; len]);
        long[Header::BYTES] = 2;
        let received = client.handle_input(NOW, if fits { &long } else { &long[..Header::BYTES] });
        let limit_bytes = 1024;
        let too_long = Err(PeerError::MessageTooLong { limit_bytes });
        assert_eq!(received, if fits { Ok(1024) } else { too_long });
    }
}

#[test]
fn abort_forgets_everything_else() {
    let mut client = open(Format::PLAIN);
    let ticket = client.start(&PmixRequest::Commit).unwrap();
    sent(&mut client);
    let late = status(Format::PLAIN, ticket.0, Status::SUCCESS);
    recv(&mut client, &late[..17]);
    let message = [b'm'; 2000];
    let abort = client.start(&PmixRequest::Abort { code: 42, message: &message }).unwrap();
    let asked = sent(&mut client);
    let body = Unpacker::new(&asked[Header::BYTES..], Format::PLAIN);
    let Ok(Received::Abort { code: 42, message: Some(said), targets }) = Received::read(body)
    else {
        panic!("{asked:?}")
    };
    assert_eq!((said, targets.count), (&message[..1024], 0), "cut to what there is room for");
    recv(&mut client, &late[17..]);
    assert!(client.poll_event().is_none() && !client.is_finished());
    recv(&mut client, &status(Format::PLAIN, abort.0, Status::SUCCESS));
    assert_eq!(reply(&mut client), (abort, Status::SUCCESS, Vec::new()));
    assert!(client.is_finished());
    // The server may terminate the process before it answers.
    let mut client = open(Format::PLAIN);
    client.start(&PmixRequest::Abort { code: 1, message: b"" }).unwrap();
    sent(&mut client);
    assert_eq!(client.handle_end(NOW), Ok(()));
    assert_eq!(client.state(), PmixState::Ended);
}

#[test]
fn calls_out_of_order_are_misuse_and_a_stream_that_ends_early_is_a_fault() {
    let needs = |needed| Err(Misuse::WrongState { needed });
    let abort = PmixRequest::Abort { code: 1, message: b"" };
    let mut client = fresh(Format::PLAIN);
    for request in [PmixRequest::Commit, PmixRequest::Finalize, abort] {
        assert_eq!(client.start(&request), needs("init was answered"));
    }
    client.start(&PmixRequest::Init).unwrap();
    assert_eq!(client.start(&PmixRequest::Init), needs("init was answered"));
    sent(&mut client);
    assert_eq!(client.poll_transmit(&mut [0; 64]), Ok(None), "the question waits for the welcome");
    assert_eq!(client.handle_end(NOW), Err(PeerError::LeftEarly));

    let mut client = open(Format::PLAIN);
    assert_eq!(client.start(&PmixRequest::Init), needs("the session is new"));
    let far = Proc { nspace: b"a\0b", rank: 0 };
    let get = PmixRequest::Get { of: far, key: None, immediate: false, timeout_s: None };
    let what = "a name space with NUL";
    assert_eq!(client.start(&get), Err(Misuse::NotRepresentable { what }));
    let procs = [Proc { nspace: &[b'n'; 200], rank: 0 }; 6];
    let fence = PmixRequest::Fence { procs: &procs, collect: false, timeout_s: None };
    assert!(matches!(client.start(&fence), Err(Misuse::Length { .. })));
    assert_eq!(client.outstanding(), 0, "what was refused holds no slot");
    client.start(&PmixRequest::Finalize).unwrap();
    assert_eq!(client.start(&abort), needs("the session is open"));
    let put = client.put(Scope::Global, b"k", Datum::U32(1));
    assert_eq!(put, Err(Misuse::WrongState { needed: "the session is open" }));
    sent(&mut client);
    recv(&mut client, &status(Format::PLAIN, 102, Status::SUCCESS));
    assert_eq!((client.handle_end(NOW), client.state()), (Ok(()), PmixState::Ended));
    recv(&mut client, b"whatever");
}
