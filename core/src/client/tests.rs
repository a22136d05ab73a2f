//! The client against a scripted server, with every cut and deviation.

mod listener;
mod pmi2;
mod refusals;

use std::vec::Vec;

use super::*;
use crate::command::{Answer, FenceGroup, Place, Spawn};
use crate::error::{Full, PeerError};
use crate::limits::PMI1_LINE;
use crate::machine::Machine;
use crate::storage::ArrayBuffer;
use crate::time::Instant;

const NOW: Instant = Instant::ZERO;

type Small = ArrayBuffer<BUFFER_BYTES>;

fn fresh() -> Client<Small> {
    Client::new(Small::new())
}

/// The next transmitted message.
fn sent<const N: usize>(client: &mut Client<Small, N>) -> Vec<u8> {
    let mut out = [0; PMI1_LINE];
    let len = client.poll_transmit(&mut out).unwrap().expect("something is owed");
    out[..len].to_vec()
}

/// Starts `request`, checks its bytes, and answers it.
fn ask<const N: usize>(
    client: &mut Client<Small, N>,
    request: &Request<'_>,
    says: &str,
    answer: &str,
) {
    client.start(request).unwrap();
    assert_eq!(std::str::from_utf8(&sent(client)).unwrap(), says);
    assert_eq!(client.handle_input(NOW, answer.as_bytes()), Ok(answer.len()));
    assert!(client.poll_event().is_some());
    assert!(client.poll_event().is_none());
}

const INIT: Request<'_> = Request::Init { version: Version::V1_1 };

fn put<'a>(key: &'a [u8], value: &'a [u8]) -> Request<'a> {
    Request::Put { place: Place::Job(None), key: key.into(), value: value.into() }
}

fn get(key: &[u8]) -> Request<'_> {
    Request::Get { place: Place::Job(None), key: key.into(), wait: false }
}

fn fence(tag: Option<u32>) -> Request<'static> {
    Request::Fence { group: FenceGroup::World, tag }
}

fn abort(message: &[u8]) -> Request<'_> {
    Request::Abort { code: Some(7), world: true, message: message.into() }
}

fn service() -> Text<'static> {
    Text::from("s")
}

fn open() -> Client<Small> {
    let mut client = fresh();
    let says = "cmd=init pmi_version=1 pmi_subversion=1\n";
    ask(&mut client, &INIT, says, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
    ask(
        &mut client,
        &Request::KvsName,
        "cmd=get_my_kvsname\n",
        "cmd=my_kvsname rc=0 kvsname=kvs_1_0\n",
    );
    client
}

fn open_many() -> Client<Small, 3> {
    let mut client = Client::new(Small::new());
    let request = Request::Init { version: Version::V1_2 };
    let says = "cmd=init pmi_version=1 pmi_subversion=2\n";
    let answer = "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=2\n";
    ask(&mut client, &request, says, answer);
    client
}

/// Every request, its bytes, and a reply with its meaning.
fn exchanges() -> Vec<(Request<'static>, &'static str, &'static str, Answer<'static>)> {
    let name = "cmd=my_kvsname rc=0 kvsname=kvs_1_0\n";
    std::vec![
        (Request::KvsName, "cmd=get_my_kvsname\n", name, Answer::Name("kvs_1_0".into())),
        (
            Request::Maxes,
            "cmd=get_maxes\n",
            "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024\n",
            Answer::Maxes(Maxes { kvsname: 256, key: 64, value: 1024 }),
        ),
        (Request::AppNum, "cmd=get_appnum\n", "cmd=appnum appnum=-1\n", Answer::Number(-1)),
        (
            Request::UniverseSize,
            "cmd=get_universe_size\n",
            "cmd=universe_size rc=0 size=4\n",
            Answer::Number(4),
        ),
        (
            put(b"k", b"v=1"),
            "cmd=put kvsname=kvs_1_0 key=k value=v=1\n",
            "cmd=put_result rc=0 msg=success\n",
            Answer::Nothing,
        ),
        (
            get(b"k"),
            "cmd=get kvsname=kvs_1_0 key=k\n",
            "cmd=get_result rc=0 value=a b found=TRUE\n",
            Answer::Value("a b".into()),
        ),
        (
            get(b"x"),
            "cmd=get kvsname=kvs_1_0 key=x\n",
            "cmd=get_result rc=-1 msg=key_x_not_found value=unknown\n",
            Answer::Missing,
        ),
        (
            Request::Get { place: Place::Job(Some("kvs_2".into())), key: "x".into(), wait: false },
            "cmd=get kvsname=kvs_2 key=x\n",
            "cmd=get_result rc=1\n",
            Answer::Missing,
        ),
        (
            fence(None),
            "cmd=barrier_in\n",
            "cmd=barrier_out tag=3\n",
            Answer::Released { tag: Some(3) },
        ),
        (
            Request::Publish { service: service(), port: "h:1".into() },
            "cmd=publish_name service=s port=h:1\n",
            "cmd=publish_result info=ok rc=0 msg=success\n",
            Answer::Nothing,
        ),
        (
            Request::Lookup { service: service() },
            "cmd=lookup_name service=s\n",
            "cmd=lookup_result port=h:1 info=ok rc=0 msg=success\n",
            Answer::Value("h:1".into()),
        ),
        (
            Request::Unpublish { service: service() },
            "cmd=unpublish_name service=s\n",
            "cmd=unpublish_name_result rc=-1 msg=not_supported\n",
            Answer::Message("not_supported".into()),
        ),
        (Request::Finalize, "cmd=finalize\n", "cmd=finalize_ack\n", Answer::Nothing),
    ]
}

#[test]
fn answers_are_understood_at_every_split() {
    for (request, says, answer, meant) in exchanges() {
        for cut in 0..=answer.len() {
            let mut client = open();
            let ticket = client.start(&request).unwrap();
            assert_eq!(std::str::from_utf8(&sent(&mut client)).unwrap(), says);
            let (first, second) = answer.as_bytes().split_at(cut);
            assert_eq!(client.handle_input(NOW, first), Ok(first.len()));
            assert_eq!(client.poll_event().is_some(), second.is_empty());
            if second.is_empty() {
                continue;
            }
            assert_eq!(client.handle_input(NOW, b""), Ok(0));
            assert_eq!(client.handle_input(NOW, second), Ok(second.len()));
            let Some(ClientEvent::Reply { ticket: back, reply }) = client.poll_event() else {
                panic!("{answer} cut at {cut}");
            };
            assert_eq!((back, reply.to, reply.answer), (ticket, request.verb(), meant));
            assert_eq!(client.is_finished(), request == Request::Finalize);
        }
    }
}

#[test]
fn answer_is_understood_byte_by_byte() {
    for (request, _, answer, meant) in exchanges() {
        let mut client = open();
        client.start(&request).unwrap();
        sent(&mut client);
        for byte in answer.as_bytes() {
            assert!(client.poll_event().is_none());
            assert_eq!(client.handle_input(NOW, &[*byte]), Ok(1));
        }
        let Some(ClientEvent::Reply { reply, .. }) = client.poll_event() else {
            panic!("{answer}")
        };
        assert_eq!(reply.answer, meant);
    }
}

#[test]
fn caller_learns_who_it_is_before_it_opens() {
    let answer = "cmd=initack rc=0 rank=3 size=8 appnum=1 debug=0\n\
        cmd=set size=8\ncmd=set rank=3\ncmd=set debug=0\n";
    for cut in 0..answer.len() {
        let mut client = fresh();
        client.start(&Request::InitAck { id: 3 }).unwrap();
        assert_eq!(sent(&mut client), b"cmd=initack pmiid=3\n");
        assert_eq!(client.state(), State::Greeting);
        let needed = Misuse::WrongState { needed: "the opening was answered" };
        assert_eq!(client.start(&INIT), Err(needed));
        let (first, second) = answer.as_bytes().split_at(cut);
        assert_eq!(client.handle_input(NOW, first), Ok(first.len()));
        assert_eq!(client.handle_input(NOW, second), Ok(second.len()));
        assert!(matches!(
            client.poll_event(),
            Some(ClientEvent::Reply { reply: Reply { to: Verb::InitAck, .. }, .. })
        ));
        assert_eq!(client.identity().map(|who| (who.rank, who.size, who.appnum)), Some((3, 8, 1)));
        assert_eq!(client.state(), State::Fresh { greeted: true });
        assert!(client.start(&Request::InitAck { id: 3 }).is_err());
        assert!(client.start(&INIT).is_ok());
    }
}

#[test]
fn bytes_that_are_not_taken_belong_to_the_next_answer() {
    let mut client = open_many();
    client.start(&fence(Some(1))).unwrap();
    sent(&mut client);
    let maxes = client.start(&Request::Maxes).unwrap();
    sent(&mut client);
    let first = b"cmd=barrier_out rc=0 tag=1\n";
    let both = [&first[..], b"cmd=maxes rc=0 kvsname_max=9 keylen_max=9 vallen_max=9\n"].concat();
    assert_eq!(client.handle_input(NOW, &both), Ok(first.len()));
    let rest = &both[first.len()..];
    assert_eq!(client.handle_input(NOW, rest), Ok(0), "the first answer was not polled");
    assert_eq!(client.start(&Request::AppNum), Err(Misuse::Busy));
    assert!(client.poll_event().is_some());
    assert_eq!(client.handle_input(NOW, rest), Ok(rest.len()));
    assert!(
        matches!(client.poll_event(), Some(ClientEvent::Reply { ticket, .. }) if ticket == maxes)
    );
    assert_eq!(client.outstanding(), 0);
}

#[test]
fn answers_may_overtake_each_other_where_the_version_allows_it() {
    let mut client = open_many();
    let group = FenceGroup::Ranks(b"0,2,5");
    let tickets = [
        client.start(&Request::Fence { group, tag: Some(4) }).map(|t| (t, sent(&mut client))),
        client.start(&fence(Some(9))).map(|t| (t, sent(&mut client))),
        client.start(&Request::KvsName).map(|t| (t, sent(&mut client))),
    ]
    .map(Result::unwrap);
    assert_eq!(tickets[0].1, b"cmd=barrier_in group=0,2,5:4\n");
    assert_eq!(tickets[1].1, b"cmd=barrier_in group=WORLD:9\n");
    assert_eq!(client.start(&Request::Maxes), Err(Misuse::Busy));
    assert_eq!(client.start(&Request::Finalize), Err(Misuse::Busy));
    for (answer, at) in [
        ("cmd=barrier_out tag=9\n", 1),
        ("cmd=my_kvsname kvsname=k\n", 2),
        ("cmd=barrier_out tag=4\n", 0),
    ] {
        assert_eq!(client.handle_input(NOW, answer.as_bytes()), Ok(answer.len()));
        let Some(ClientEvent::Reply { ticket, .. }) = client.poll_event() else {
            panic!("{answer}")
        };
        assert_eq!(ticket, tickets[at].0);
    }
}

#[test]
fn lock_step_session_has_one_question_however_many_slots_there_are() {
    let mut client: Client<Small, 3> = Client::new(Small::new());
    let says = "cmd=init pmi_version=1 pmi_subversion=1\n";
    ask(&mut client, &INIT, says, "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=2\n");
    // The requested version counts, since a server was seen that always answers with its newest.
    assert_eq!(client.version(), Some(Version::V1_1));
    let unsayable = client.start(&fence(Some(1)));
    assert!(matches!(unsayable, Err(Misuse::NotRepresentable { .. })));
    client.start(&fence(None)).unwrap();
    sent(&mut client);
    assert_eq!(client.start(&Request::Maxes), Err(Misuse::Busy));
}

#[test]
fn request_in_the_buffer_holds_input_back() {
    let mut client = open();
    client.start(&put(b"k", b"v")).unwrap();
    assert_eq!(client.handle_input(NOW, b"cmd=put_result rc=0\n"), Ok(0));
    assert_eq!(client.start(&Request::Maxes), Err(Misuse::Busy));
    let needed = "cmd=put kvsname=kvs_1_0 key=k value=v\n".len();
    for room in [0, needed - 1] {
        let mut out = std::vec![0; room];
        assert_eq!(client.poll_transmit(&mut out), Err(Full { needed }));
    }
    assert_eq!(sent(&mut client).len(), needed);
    assert_eq!(client.poll_transmit(&mut []), Ok(None));
}

#[test]
fn half_an_answer_keeps_a_request_with_texts_out() {
    let mut client = open_many();
    ask(&mut client, &Request::KvsName, "cmd=get_my_kvsname\n", "cmd=my_kvsname kvsname=n\n");
    client.start(&fence(Some(1))).unwrap();
    sent(&mut client);
    assert_eq!(client.handle_input(NOW, b"cmd=barrier"), Ok(11));
    assert_eq!(client.start(&put(b"k", b"v")), Err(Misuse::Busy));
    // A request without texts needs no room and may be sent.
    client.start(&Request::AppNum).unwrap();
    assert_eq!(sent(&mut client), b"cmd=get_appnum\n");
    assert_eq!(client.handle_input(NOW, b"_out tag=1\n"), Ok(11));
    assert!(client.poll_event().is_some());
    client.start(&put(b"k", b"v")).unwrap();
    assert_eq!(sent(&mut client), b"cmd=put kvsname=n key=k value=v\n");
}

#[test]
fn abort_goes_before_everything_and_has_no_answer() {
    let mut client = open();
    client.start(&put(b"k", b"v")).unwrap();
    client.start(&abort(b"no way\non")).unwrap();
    assert_eq!(client.state(), State::Aborting);
    assert!(!client.is_finished());
    assert_eq!(sent(&mut client), b"cmd=abort exitcode=7 message=no way on\n");
    assert!(client.is_finished());
    assert_eq!(client.poll_transmit(&mut []), Ok(None));
    assert_eq!(client.handle_input(NOW, b"whatever"), Ok(8));
    assert!(client.start(&abort(b"")).is_err());
    assert_eq!(client.handle_end(NOW), Ok(()));

    // In the middle of a reply, and with a text that is too long for the buffer.
    let mut client = open();
    client.start(&Request::Maxes).unwrap();
    sent(&mut client);
    assert_eq!(client.handle_input(NOW, b"cmd=max"), Ok(7));
    client.start(&abort(&[b'm'; 5000])).unwrap();
    let line = [&b"cmd=abort exitcode=7 message="[..], &[b'm'; BUFFER_BYTES], b"\n"].concat();
    assert_eq!(sent(&mut client), line);
}

#[test]
fn spawn_is_rendered_by_its_caller() {
    let arguments = ["-x".into(), "a b".into()];
    let program = crate::command::Program {
        executable: "./child".into(),
        processes: 2,
        arguments: crate::command::Argument::Given(&arguments),
        info: crate::command::InfoList::Given(&[]),
    };
    let spawn = Spawn::Given { programs: &[program], preputs: &[] };
    let mut client = open();
    let request = Request::Spawn(spawn);
    let refused = client.start(&request);
    assert!(matches!(refused, Err(Misuse::NotRepresentable { .. })));
    let mut out = [0; 200];
    assert!(matches!(client.send(&request, &mut out[..20]), Err(WriteError::Full(_))));
    let (ticket, len) = client.send(&request, &mut out).unwrap();
    assert!(out[..len].starts_with(b"mcmd=spawn\nnprocs=2\n") && out[..len].ends_with(b"endcmd\n"));
    assert!(client.send(&request, &mut out).is_err());
    assert_eq!(client.handle_input(NOW, b"cmd=spawn_result rc=0 jobid=7.1\n"), Ok(32));
    let Some(ClientEvent::Reply { ticket: back, reply }) = client.poll_event() else { panic!() };
    assert_eq!(back, ticket);
    assert_eq!(reply.answer, Answer::Spawned { job: Some("7.1".into()), codes: None });
}
