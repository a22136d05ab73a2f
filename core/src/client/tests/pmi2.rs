//! The client in frames, against a scripted server.

use std::format;
use std::string::String;

mod refusals;

use super::*;
use crate::auth::Secret;
use crate::command::{Pair, ProcessCodes};
use crate::error::Code;
use crate::limits::PMI2_FRAME;

type Framed<const SLOTS: usize> = Client<Pmi2Buffer, SLOTS>;

const INIT_2: Request<'_> = Request::Init { version: Version::V2_0 };
const INIT_LINE: &str = "cmd=init pmi_version=2 pmi_subversion=0\n";
const AGREED: &str = "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n";
const JOIN: Request<'_> =
    Request::FullInit { rank: Some(3), job: None, threaded: false, method: None };
const IDENTITY: &str = "cmd=fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;rank=3;size=8;\
    appnum=1;debugged=FALSE;pmiverbose=FALSE;";

/// A frame in the codec's own form.
fn left(body: &str) -> String {
    format!("{:<6}{body}", body.len())
}

/// A frame as hydra writes it.
fn right(body: &str) -> String {
    format!("{:>6}{body}", body.len())
}

fn said<const N: usize>(client: &mut Framed<N>) -> String {
    let mut out = [0; 2 * PMI2_FRAME];
    let len = client.poll_transmit(&mut out).unwrap().expect("something is owed");
    assert_eq!(client.poll_transmit(&mut []), Ok(None));
    String::from_utf8(out[..len].to_vec()).unwrap()
}

/// Hands in a whole reply; returns the ticket and the code.
fn receives<const N: usize>(client: &mut Framed<N>, answer: &str) -> (Ticket, Code) {
    assert_eq!(client.handle_input(NOW, answer.as_bytes()), Ok(answer.len()), "{answer}");
    let Some(ClientEvent::Reply { ticket, reply }) = client.poll_event() else {
        panic!("{answer}")
    };
    (ticket, reply.code)
}

/// A client that has sent `fullinit`.
fn joining<const N: usize>() -> Framed<N> {
    let mut client = Client::new(Pmi2Buffer::new());
    client.start(&INIT_2).unwrap();
    assert_eq!(said(&mut client), INIT_LINE);
    receives(&mut client, AGREED);
    client.start(&JOIN).unwrap();
    assert_eq!(said(&mut client), left("cmd=fullinit;pmijobid=0;pmirank=3;threaded=FALSE;"));
    client
}

fn joined<const N: usize>() -> Framed<N> {
    let mut client = joining();
    receives(&mut client, &right(IDENTITY));
    client
}

fn ready<const N: usize>() -> Framed<N> {
    let mut client = joined();
    client.start(&Request::KvsName).unwrap();
    said(&mut client);
    receives(&mut client, &right("cmd=job-getid-response;rc=0;jobid=kvs_1;"));
    client
}

fn node_get(wait: bool) -> Request<'static> {
    Request::Get { place: Place::Node, key: "k".into(), wait }
}

/// Every request, its frame, and the observed replies with their meanings.
#[rustfmt::skip]
fn exchanges() -> Vec<(Request<'static>, &'static str, &'static str, Answer<'static>)> {
    let value = Answer::Value("a b=c".into());
    let attribute = Request::Get { place: Place::Attributes, key: "k".into(), wait: false };
    let other = Request::Get { place: Place::Job(Some("j".into())), key: "k".into(), wait: false };
    let own = "cmd=kvs-get;jobid=kvs_1;srcid=-1;key=k;";
    let info = "cmd=info-getnodeattr;key=k;wait=TRUE;";
    let lookup = Request::Lookup { service: service() };
    let find = "cmd=name-lookup;name=s;infokeycount=0;";
    let connect = Request::Connect { job: "j".into() };
    std::vec![
        (Request::KvsName, "cmd=job-getid;", "cmd=job-getid-response;jobid=j;rc=0;", Answer::Name("j".into())),
        (put(b"k", b"a;b"), "cmd=kvs-put;key=k;value=a;;b;", "cmd=kvs-put-response;rc=0;", Answer::Nothing),
        (put(b"k", b"v"), "cmd=kvs-put;key=k;value=v;", "cmd=kvs-put-response;", Answer::Nothing),
        (put(b"k", b"v"), "cmd=kvs-put;key=k;value=v;", "cmd=kvs-put-response;rc=7;errmsg=too long;", Answer::Message("too long".into())),
        (get(b"k"), own, "cmd=kvs-get-response;found=TRUE;value=a b=c;rc=0;", value),
        (get(b"k"), own, "cmd=kvs-get-response;rc=0;value=a b=c;found=TRUE;", value),
        (get(b"k"), own, "cmd=kvs-get-response;value=a b=c;", value),
        (get(b"k"), own, "cmd=kvs-get-response;found=FALSE;rc=0;", Answer::Missing),
        (get(b"k"), own, "cmd=kvs-get-response;rc=1;", Answer::Missing),
        (other, "cmd=kvs-get;jobid=j;srcid=-1;key=k;", "cmd=kvs-get-response;rc=0;found=TRUE;value=x;;y;", Answer::Value("x;y".into())),
        (fence(None), "cmd=kvs-fence;", "cmd=kvs-fence-response;rc=0;", Answer::Released { tag: None }),
        (Request::Put { place: Place::Node, key: "k".into(), value: "v".into() }, "cmd=info-putnodeattr;key=k;value=v;", "cmd=info-putnodeattr-response;rc=0;", Answer::Nothing),
        (node_get(true), info, "cmd=info-getnodeattr-response;rc=0;found=TRUE;value=a b=c;", value),
        (node_get(true), info, "cmd=info-getnodeattr-response;rc=1;", Answer::Missing),
        (attribute, "cmd=info-getjobattr;key=k;", "cmd=info-getjobattr-response;rc=0;found=TRUE;value=;", Answer::Value("".into())),
        (attribute, "cmd=info-getjobattr;key=k;", "cmd=info-getjobattr-response;rc=1;", Answer::Missing),
        (Request::Publish { service: service(), port: "h:1".into() }, "cmd=name-publish;name=s;port=h:1;infokeycount=0;", "cmd=name-publish-response;rc=0;", Answer::Nothing),
        (lookup, find, "cmd=name-lookup-response;port=h:1;found=TRUE;rc=0;", Answer::Value("h:1".into())),
        (lookup, find, "cmd=name-lookup-response;rc=0;value=h:1;", Answer::Value("h:1".into())),
        (lookup, find, "cmd=name-lookup-response;rc=1;found=FALSE;", Answer::Nothing),
        (Request::Unpublish { service: service() }, "cmd=name-unpublish;name=s;infokeycount=0;", "cmd=name-unpublish-response;rc=0;", Answer::Nothing),
        (connect, "cmd=job-connect;jobid=j;", "cmd=job-connect-response;rc=0;kvscopy=FALSE;", Answer::Nothing),
        (connect, "cmd=job-connect;jobid=j;", "cmd=ballet-response;rc=-1;errmsg=not supported;", Answer::Nothing),
        (Request::Disconnect { job: "j".into() }, "cmd=job-disconnect;jobid=j;", "cmd=job-disconnect-response;rc=0;", Answer::Nothing),
        (Request::Ring { left: "l".into(), right: "".into() }, "cmd=ring;ring-count=1;ring-left=l;ring-right=;", "cmd=ring-response;rc=0;ring-count=2;ring-left=;ring-right=r;", Answer::Ring { count: 2, left: "".into(), right: "r".into() }),
        (Request::PutAll { job: "j".into(), pairs: 0 }, "cmd=kvs-putall;jobid=j;npair=0;", "cmd=kvs-putall-response;rc=0;", Answer::Nothing),
        (Request::Finalize, "cmd=finalize;", "cmd=finalize-response;rc=0;", Answer::Nothing),
    ]
}

#[test]
fn answers_in_frames_are_understood_at_every_split() {
    for (request, says, answer, meant) in exchanges() {
        for answer in [left(answer), right(answer)] {
            for cut in 0..answer.len() {
                let mut client = ready::<1>();
                let ticket = client.start(&request).unwrap();
                assert_eq!(said(&mut client), left(says));
                let (first, second) = answer.as_bytes().split_at(cut);
                assert_eq!(client.handle_input(NOW, first), Ok(first.len()));
                assert!(client.poll_event().is_none());
                // The bytes behind do not belong to this reply.
                let behind = [second, b"     9cmd=more;"].concat();
                assert_eq!(client.handle_input(NOW, &behind), Ok(second.len()));
                let Some(ClientEvent::Reply { ticket: back, reply }) = client.poll_event() else {
                    panic!("{answer} cut at {cut}");
                };
                assert_eq!((back, reply.to), (ticket, request.verb()), "{answer}");
                let told = if matches!(reply.answer, Answer::Message(_)) && meant == Answer::Nothing
                {
                    Answer::Nothing
                } else {
                    reply.answer
                };
                assert_eq!(told, meant, "{answer}");
                assert_eq!(client.is_finished(), request == Request::Finalize);
            }
        }
    }
}

#[test]
fn opening_in_lines_goes_on_in_frames_at_every_split() {
    let bytes = [AGREED, &right(IDENTITY)].concat();
    for cut in 0..=AGREED.len() {
        let mut client: Framed<1> = Client::new(Pmi2Buffer::new());
        client.start(&INIT_2).unwrap();
        said(&mut client);
        let (first, second) = bytes.as_bytes().split_at(cut);
        let taken = client.handle_input(NOW, first).unwrap();
        assert_eq!(taken, cut);
        if cut < AGREED.len() {
            // Nothing behind the line is taken before the line was read.
            assert_eq!(client.handle_input(NOW, second), Ok(AGREED.len() - cut));
        }
        let Some(ClientEvent::Reply { reply, .. }) = client.poll_event() else { panic!() };
        assert_eq!(reply.answer, Answer::Version(Version::V2_0));
        assert_eq!(client.version(), Some(Version::V2_0));
        assert_eq!(client.state(), State::Agreed { version: Version::V2_0 });
        let needed = Misuse::WrongState { needed: "fullinit was answered" };
        assert_eq!(client.start(&Request::KvsName), Err(needed));
        client.start(&JOIN).unwrap();
        said(&mut client);
        receives(&mut client, &bytes[AGREED.len()..]);
        let who = client.identity().unwrap();
        assert_eq!((who.rank, who.size, who.appnum, who.spawner), (3, 8, 1, None));
        assert!(!client.is_spawned());
        assert_eq!(client.state(), State::Open { version: Version::V2_0 });
        assert!(matches!(client.start(&JOIN), Err(Misuse::WrongState { .. })));
        assert!(matches!(client.start(&Request::Maxes), Err(Misuse::NotRepresentable { .. })));
    }
}

// Coverage: W2-3
#[test]
fn server_that_does_not_agree_is_told_apart_from_one_that_refuses() {
    for (answer, error) in [
        ("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n", (1, 1)),
        ("cmd=response_to_init rc=-1 pmi_version=1 pmi_subversion=1\n", (1, 1)),
        ("cmd=response_to_init rc=0 pmi_version=3 pmi_subversion=0\n", (3, 0)),
    ] {
        let mut client: Framed<1> = Client::new(Pmi2Buffer::new());
        client.start(&INIT_2).unwrap();
        said(&mut client);
        let expected = PeerError::Version { major: error.0, minor: error.1 };
        assert_eq!(client.handle_input(NOW, answer.as_bytes()), Err(expected), "{answer}");
    }
    let mut client: Framed<1> = Client::new(Pmi2Buffer::new());
    client.start(&INIT_2).unwrap();
    said(&mut client);
    let refused = client.handle_input(NOW, b"cmd=response_to_init rc=-1\n");
    assert_eq!(refused, Err(PeerError::Refused(Code::FAIL)));

    let mut client: Framed<1> = joining();
    let answer = right("cmd=fullinit-response;rc=3;pmi-version=2;pmi-subversion=0;rank=3;size=8;");
    let refused = client.handle_input(NOW, answer.as_bytes());
    assert_eq!(refused, Err(PeerError::Refused(Code(3))));
}

// Coverage: W2-29
#[test]
fn spawned_client_knows_it_and_its_owner_sees_the_spawner() {
    let mut client: Framed<1> = Client::new(Pmi2Buffer::new());
    client.start(&INIT_2).unwrap();
    said(&mut client);
    receives(&mut client, AGREED);
    client
        .start(&Request::FullInit {
            rank: Some(0),
            job: Some("7.1-1".into()),
            threaded: true,
            method: None,
        })
        .unwrap();
    assert_eq!(said(&mut client), left("cmd=fullinit;pmijobid=7.1-1;pmirank=0;threaded=TRUE;"));
    let answer = right("cmd=fullinit-response;rc=0;rank=0;size=1;appnum=-1;spawner-jobid=7.1;");
    assert_eq!(client.handle_input(NOW, answer.as_bytes()), Ok(answer.len()));
    let Some(ClientEvent::Reply { reply: Reply { answer: Answer::Identity(who), .. }, .. }) =
        client.poll_event()
    else {
        panic!()
    };
    assert_eq!(who.spawner, Some("7.1".into()));
    assert!(client.is_spawned());
}

// Coverage: W2-28
#[test]
fn client_knows_whether_a_debugger_controls_its_job() {
    for (field, is_debugged) in [
        ("debugged=TRUE;", true),
        ("debugged=true;", true),
        ("debugged=FALSE;", false),
        ("", false),
    ] {
        let mut client: Framed<1> = joining();
        let identity = right(&format!("cmd=fullinit-response;rc=0;rank=3;size=8;appnum=1;{field}"));
        receives(&mut client, &identity);
        assert_eq!(client.identity().map(|who| who.is_debugged), Some(is_debugged), "{field}");
    }
}

// Coverage: W2-58
#[test]
fn client_knows_whether_it_shall_print_debug_messages() {
    for (field, is_verbose) in [("pmiverbose=TRUE;", true), ("pmiverbose=0;", false), ("", false)] {
        let mut client: Framed<1> = joining();
        let identity = right(&format!("cmd=fullinit-response;rc=0;rank=3;size=8;appnum=1;{field}"));
        receives(&mut client, &identity);
        assert_eq!(client.identity().map(|who| who.is_verbose), Some(is_verbose), "{field}");
    }
}

// Coverage: W2-25
#[test]
fn challenge_is_answered_with_the_proof_of_the_secret() {
    let secret = Secret::new(b"correct horse battery staple").unwrap();
    let challenge = right("cmd=auth-response;authinfo=100000000000000000;");
    let challenged = || {
        let mut client: Framed<2> = Client::new(Pmi2Buffer::new());
        client.start(&INIT_2).unwrap();
        said(&mut client);
        receives(&mut client, AGREED);
        let method = Some(Text::plain(crate::auth::METHOD));
        client
            .start(&Request::FullInit { rank: Some(3), job: None, threaded: false, method })
            .unwrap();
        let asked =
            "cmd=fullinit;pmijobid=0;pmirank=3;threaded=FALSE;authtype=challenge-hmac-sha256;";
        assert_eq!(said(&mut client), left(asked));
        assert_eq!(client.handle_input(NOW, challenge.as_bytes()), Ok(challenge.len()));
        let Some(ClientEvent::Reply { reply, .. }) = client.poll_event() else { panic!() };
        let proof = prove(&secret, &reply).unwrap();
        assert_eq!(client.state(), State::Challenged { version: Version::V2_0 });
        assert!(client.start(&JOIN).is_err());
        assert!(client.start(&Request::KvsName).is_err());
        client.start(&Request::Proof { digits: proof.as_bytes().into(), is_last: true }).unwrap();
        // printf 'pmi-challenge\000100000000000000000' | openssl dgst -sha256 -hmac 'correct horse
        // battery staple'
        let digits = "861649bd28d9005c353ac82fa788665d8388764a10a4dbd97fa795bda62f2d19";
        let asked = left(&format!("cmd=auth-response-complete;authinfo={digits};"));
        assert_eq!(said(&mut client), asked);
        client
    };
    let mut client = challenged();
    receives(&mut client, &right(IDENTITY));
    assert_eq!(client.state(), State::Open { version: Version::V2_0 });

    let no = right("cmd=auth-response-complete-response;rc=-1;errmsg=the proof is wrong;");
    let refused = challenged().handle_input(NOW, no.as_bytes());
    assert_eq!(refused, Err(PeerError::Refused(Code::FAIL)));
    assert_eq!(challenged().handle_end(NOW), Err(PeerError::LeftEarly));

    let none = Reply { to: Verb::FullInit, tag: b"", code: Code::SUCCESS, answer: Answer::Nothing };
    assert_eq!(prove(&secret, &none), None);
    for (len, is_nonce) in [(20, true), (21, false), (64, false), (65, false)] {
        let nonce = [b'7'; 65];
        let reply = Reply { answer: Answer::Challenge(Text::plain(&nonce[..len])), ..none };
        assert_eq!(prove(&secret, &reply).is_some(), is_nonce);
    }
}

// Coverage: W2-6
#[test]
fn exchanges_of_several_threads_are_named_and_answered_in_any_order() {
    let mut client = ready::<4>();
    let tickets = [node_get(true), put(b"k", b"v"), fence(None), get(b"k")].map(|request| {
        let ticket = client.start(&request).unwrap();
        let asked = said(&mut client);
        assert!(asked.contains(&format!(";thrid={};", ticket.0)), "{asked}");
        ticket
    });
    assert_eq!(client.start(&Request::KvsName), Err(Misuse::Busy));
    assert_eq!(client.start(&Request::Finalize), Err(Misuse::Busy));
    for (at, answer) in [
        (3, "kvs-get-response;thrid=#;rc=0;found=TRUE;value=v;"),
        (1, "kvs-put-response;rc=0;thrid=#;"),
        // The server does not support fences, and chooses any name for its reply.
        (2, "what-response;thrid=#;rc=-1;"),
        (0, "info-getnodeattr-response;thrid=#;rc=0;found=TRUE;value=v;"),
    ] {
        let answer = format!("cmd={answer}").replace('#', &format!("{}", tickets[at].0));
        assert_eq!(receives(&mut client, &right(&answer)).0, tickets[at], "{answer}");
    }
    assert_eq!(client.outstanding(), 0);
    let ticket = client.start(&Request::Finalize).unwrap();
    assert_eq!(said(&mut client), left(&format!("cmd=finalize;thrid={};", ticket.0)));
}

#[test]
fn server_that_gives_no_names_back_answers_each_kind_in_order() {
    let mut client = ready::<3>();
    let first = client.start(&get(b"a")).unwrap();
    said(&mut client);
    let wait = client.start(&node_get(true)).unwrap();
    said(&mut client);
    let second = client.start(&get(b"b")).unwrap();
    said(&mut client);
    let found = right("cmd=kvs-get-response;rc=0;found=TRUE;value=1;");
    assert_eq!(receives(&mut client, &found).0, first);
    assert_eq!(receives(&mut client, &found).0, second);
    let found = right("cmd=info-getnodeattr-response;rc=0;found=TRUE;value=1;");
    assert_eq!(receives(&mut client, &found).0, wait);
}

#[test]
fn answer_by_a_name_that_was_not_given_ends_the_session() {
    let mut client = ready::<2>();
    let ticket = client.start(&get(b"a")).unwrap();
    said(&mut client);
    let wrong = right(&format!("cmd=kvs-get-response;thrid={};rc=1;", ticket.0 + 1));
    let fault = client.handle_input(NOW, wrong.as_bytes());
    assert_eq!(fault, Err(PeerError::OutOfOrder { got: "get_result", expected: "get_result" }));

    let mut client = ready::<2>();
    client.start(&node_get(false)).unwrap();
    said(&mut client);
    let answer = right("cmd=info-getjobattr-response;rc=0;found=FALSE;");
    let fault = PeerError::OutOfOrder { got: "info-getjobattr", expected: "info-getnodeattr" };
    assert_eq!(client.handle_input(NOW, answer.as_bytes()), Err(fault));
}

// Coverage: W2-40
#[test]
fn whole_space_comes_pair_by_pair_for_one_ticket() {
    for slots_named in [false, true] {
        let (mut one, mut many) = (ready::<1>(), ready::<2>());
        let request = Request::GetAll { job: "j".into() };
        let (ticket, name) = if slots_named {
            let ticket = many.start(&request).unwrap();
            said(&mut many);
            (ticket, format!("thrid={};", ticket.0))
        } else {
            let ticket = one.start(&request).unwrap();
            assert_eq!(said(&mut one), left("cmd=kvs-getall;jobid=j;"));
            (ticket, String::new())
        };
        let answers = [
            format!("cmd=kvs-getall-paircount-response;{name}npair=2;"),
            format!("cmd=kvs-getall-pair-response;{name}key=a;val=1;;2;"),
            format!("cmd=kvs-getall-pair-response;{name}key=b;val=3;"),
            format!("cmd=kvs-getall-response;{name}rc=0;"),
        ];
        let bytes: String = answers.iter().map(|answer| right(answer)).collect();
        let meant = [
            Answer::Count(2),
            Answer::Pair(Pair { key: "a".into(), value: "1;2".into() }),
            Answer::Pair(Pair { key: "b".into(), value: "3".into() }),
            Answer::Nothing,
        ];
        let mut rest = bytes.as_bytes();
        for meant in meant {
            let client: &mut dyn FnMut(&[u8]) -> usize = if slots_named {
                &mut |bytes| many.handle_input(NOW, bytes).unwrap()
            } else {
                &mut |bytes| one.handle_input(NOW, bytes).unwrap()
            };
            rest = &rest[client(rest)..];
            let event = if slots_named { many.poll_event() } else { one.poll_event() };
            let Some(ClientEvent::Reply { ticket: back, reply }) = event else {
                panic!("{meant:?}")
            };
            assert_eq!((back, reply.answer), (ticket, meant));
        }
        assert!(rest.is_empty());
        assert_eq!((one.outstanding(), many.outstanding()), (0, 0));
    }
}

#[test]
fn announced_pairs_are_said_one_by_one_and_answered_once() {
    let pair = |key: &'static str| Request::PutPair { key: key.into(), value: "v".into() };
    let mut client = ready::<2>();
    assert!(matches!(client.start(&pair("a")), Err(Misuse::WrongState { .. })));
    let all = Request::PutAll { job: "j".into(), pairs: 2 };
    let ticket = client.start(&all).unwrap();
    assert!(said(&mut client).ends_with("jobid=j;npair=2;"));
    assert_eq!(client.start(&all), Err(Misuse::Busy));
    for key in ["a", "b"] {
        assert_eq!(client.start(&pair(key)), Ok(ticket));
        let asked = format!("cmd=kvs-putall-pair;thrid={};key={key};val=v;", ticket.0);
        assert_eq!(said(&mut client), left(&asked));
    }
    assert!(matches!(client.start(&pair("c")), Err(Misuse::WrongState { .. })));
    let answer = right(&format!("cmd=kvs-putall-response;thrid={};rc=0;", ticket.0));
    assert_eq!(receives(&mut client, &answer).0, ticket);

    // Refused before all pairs were sent: the server refuses the sent ones one by one, and the client
    // discards those replies.
    let mut client = ready::<1>();
    client.start(&all).unwrap();
    said(&mut client);
    client.start(&pair("a")).unwrap();
    said(&mut client);
    let (_, code) =
        receives(&mut client, &right("cmd=kvs-putall-response;rc=1;errmsg=no such job;"));
    assert_eq!(code, Code(1));
    assert!(matches!(client.start(&pair("b")), Err(Misuse::WrongState { .. })));
    client.start(&get(b"k")).unwrap();
    said(&mut client);
    let late = right("cmd=kvs-putall-pair-response;rc=-1;errmsg=expected kvs-putall;");
    let both = [late.as_str(), &right("cmd=kvs-get-response;rc=1;")].concat();
    assert_eq!(receives(&mut client, &both).1, Code(1));
}

// Coverage: W2-34
#[test]
fn spawn_in_a_frame_leaves_other_exchanges_their_way() {
    let program = crate::command::Program {
        executable: "./child".into(),
        processes: 2,
        arguments: crate::command::Argument::Given(&["a b".into()]),
        info: crate::command::InfoList::Given(&[]),
    };
    let spawn = Spawn::Given { programs: &[program], preputs: &[] };
    let mut client = ready::<2>();
    let mut out = [0; 300];
    let (ticket, len) = client.send(&Request::Spawn(spawn), &mut out).unwrap();
    let body = format!(
        "cmd=spawn;thrid={};ncmds=1;preputcount=0;subcmd=./child;maxprocs=2;argc=1;argv0=a b;\
         infokeycount=0;",
        ticket.0
    );
    assert_eq!(&out[..len], left(&body).as_bytes());
    let full = client.send(&Request::Spawn(spawn), &mut out[..len - 1]);
    assert_eq!(full, Err(WriteError::Full(Full { needed: len })));
    let put = client.start(&put(b"k", b"v")).unwrap();
    said(&mut client);
    let answer = right(&format!("cmd=kvs-put-response;thrid={};rc=0;", put.0));
    assert_eq!(receives(&mut client, &answer).0, put);
    let body = format!("cmd=spawn-response;thrid={};rc=0;jobid=j;errcodes=0,0;", ticket.0);
    let answer = right(&body);
    assert_eq!(client.handle_input(NOW, answer.as_bytes()), Ok(answer.len()));
    let Some(ClientEvent::Reply { ticket: back, reply }) = client.poll_event() else { panic!() };
    let spawned =
        Answer::Spawned { job: Some("j".into()), codes: Some(ProcessCodes::List("0,0".into())) };
    assert_eq!((back, reply.answer), (ticket, spawned));
}

#[test]
fn last_words_are_frames_too() {
    let mut client = joined::<1>();
    client.start(&abort(b"a;b")).unwrap();
    assert_eq!(said(&mut client), left("cmd=abort;isworld=TRUE;exitcode=7;msg=a;;b;"));
    assert!(client.is_finished());
    // Before a version is agreed on they are a line.
    let mut client: Framed<1> = Client::new(Pmi2Buffer::new());
    client.start(&INIT_2).unwrap();
    client.start(&abort(b"")).unwrap();
    assert_eq!(said(&mut client), "cmd=abort exitcode=7\n");

    // A reply that arrived whole is read, regardless of the bytes behind it.
    let mut client = ready::<1>();
    client.start(&get(b"k")).unwrap();
    said(&mut client);
    let answer = right("cmd=kvs-get-response;rc=0;found=TRUE;value=v;");
    assert_eq!(client.handle_input(NOW, answer.as_bytes()), Ok(answer.len()));
    assert_eq!(client.handle_end(NOW), Err(PeerError::LeftEarly));
    assert!(matches!(
        client.poll_event(),
        Some(ClientEvent::Reply { reply: Reply { answer: Answer::Value(_), .. }, .. })
    ));
}
