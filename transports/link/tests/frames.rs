//! The client calls in PMI-2, against the server of this project, cut in every way.

mod stream;

use futures_lite::future::{block_on, yield_now, zip};
use pmi_core::auth::{Challenge, Nonce, Secret};
use pmi_core::client::{FixedBuffer, MutualProver, PMI2_BUFFER_BYTES, prove};
use pmi_core::command::{Argument, CodeRun, InfoList, Pair, Program, Spawn, Text, Verb, Version};
use pmi_core::error::{Code, Full, Misuse, PeerError};
use pmi_core::ids::JobId;
use pmi_core::server::{Event, Peer};
use pmi_link::task::{AsyncPmi, AsyncPmi1, AsyncStreamClient, Opening};
use pmi_link::{CallError, SpawnError};
use pmi_testkit::server::{job_spec, kvsname, members};
use stream::{Shared, Stream, server};

/// Adds a job of one rank.
fn add_job(server: &Shared, name: &str, spawner: Option<&str>) -> JobId {
    let mut spec = job_spec(name);
    spec.spawner = spawner.map(kvsname);
    server.borrow_mut().add_job(spec, members(1, 1))
}

const PIECES: [usize; 4] = [1, 3, 100, usize::MAX];

async fn open(server: &Shared, job: JobId, rank: u32, piece: usize) -> AsyncPmi<Stream> {
    let mut pmi = AsyncPmi::new(Stream::member(server, job, rank, piece));
    let mut opening = Opening::new(Version::V2_0);
    opening.rank = Some(rank);
    let opened = pmi.open(&opening, &mut []).await.unwrap();
    assert_eq!(opened.version, Version::V2_0);
    pmi.job_id().await.unwrap();
    pmi
}

#[test]
fn two_ranks_exchange_what_they_put_in_either_size_of_client() {
    for piece in PIECES {
        let (server, job) = server(2);
        let long = "v".repeat(1023);
        let roomy = async {
            let mut pmi = open(&server, job, 0, piece).await;
            assert_eq!(pmi.identity().map(|who| (who.rank, who.size)), Some((0, 2)));
            assert_eq!(pmi.maxes().await.unwrap().value, 1024);
            assert_eq!(pmi.appnum().await, Ok(Some(0)));
            assert_eq!(pmi.universe_size().await, Ok(None));
            pmi.put(b"card-0", b"a;b=c d\n;").await.unwrap();
            pmi.fence().await.unwrap();
            let mut card = [0; 2000];
            assert_eq!(pmi.get(b"card-1", &mut card).await, Ok(Some(1023)));
            assert_eq!(&card[..1023], long.as_bytes());
            let needed = CallError::Full(Full { needed: 1023 });
            assert_eq!(pmi.get(b"card-1", &mut card[..1022]).await, Err(needed));
            assert_eq!(pmi.get_from(b"kvs_1", b"card-1", &mut card).await, Ok(Some(1023)));
            assert_eq!(pmi.get(b"none", &mut card).await, Ok(None));
            pmi.finalize().await.unwrap();
        };
        let small = async {
            let mut pmi = small(Stream::member(&server, job, 1, piece));
            assert_eq!(pmi.init(Version::V2_0).await, Ok(Version::V2_0));
            assert_eq!(pmi.kvsname().await.unwrap().as_bytes(), b"kvs_1");
            pmi.put(b"card-1", long.as_bytes()).await.unwrap();
            pmi.fence().await.unwrap();
            let mut card = [0; 9];
            assert_eq!(pmi.get(b"card-0", &mut card).await, Ok(Some(9)));
            assert_eq!(&card, b"a;b=c d\n;");
            assert_eq!(
                pmi.fence_group(pmi_core::command::FenceGroup::Node, 0).await.unwrap_err(),
                unsayable()
            );
            pmi.finalize().await.unwrap();
        };
        block_on(zip(roomy, small));
    }
}

/// A client for a board that knows the size of its values.
type SmallPmi = AsyncStreamClient<Stream, FixedBuffer, 2>;

fn small(stream: Stream) -> SmallPmi {
    SmallPmi::with_buffer(stream, FixedBuffer::new())
}

#[test]
fn client_without_frames_asks_for_none() {
    let (server, job) = server(1);
    block_on(async {
        let mut pmi = AsyncPmi1::new(Stream::member(&server, job, 0, 100));
        let what = "an unsupported version";
        let unsayable = CallError::Misuse(Misuse::NotRepresentable { what });
        assert_eq!(pmi.init(Version::V2_0).await, Err(unsayable));
        assert_eq!(pmi.init(Version::V1_2).await, Ok(Version::V1_2));
        assert_eq!(pmi.maxes().await.map(|maxes| maxes.key), Ok(64));
        pmi.finalize().await.unwrap();
    });
}

fn unsayable() -> CallError<core::convert::Infallible> {
    CallError::Misuse(Misuse::NotRepresentable { what: "a fence of a group in PMI-2" })
}

// Coverage: W2-43
#[test]
fn attributes_are_waited_for_and_read_as_numbers() {
    for piece in PIECES {
        let (server, job) = server(2);
        server.borrow_mut().server.preset(job, b"universeSize", b"16").unwrap();
        server.borrow_mut().server.preset(job, b"cartDims", b"2, 3,-4").unwrap();
        server.borrow_mut().server.preset(job, b"empty", b"").unwrap();
        server.borrow_mut().server.preset(job, b"odd", b"1,,2").unwrap();
        let waits = async {
            let mut pmi = open(&server, job, 0, piece).await;
            let mut out = [0; 16];
            assert_eq!(pmi.get_node(b"leader", false, &mut out).await, Ok(None));
            assert_eq!(pmi.get_node(b"leader", true, &mut out).await, Ok(Some(5)));
            assert_eq!(&out[..5], b"7,8,9");
            let mut numbers = [0; 2];
            assert_eq!(pmi.node_numbers(b"leader", true, &mut numbers).await, Ok(Some(3)));
            assert_eq!(numbers, [7, 8]);
            assert_eq!(pmi.universe_size().await, Ok(Some(16)));
            assert_eq!(pmi.job_attribute(b"cartDims", &mut out).await, Ok(Some(7)));
            assert_eq!(pmi.job_attribute(b"none", &mut out).await, Ok(None));
            let mut dims = [0; 4];
            assert_eq!(pmi.job_numbers(b"cartDims", &mut dims).await, Ok(Some(3)));
            assert_eq!(dims, [2, 3, -4, 0]);
            assert_eq!(pmi.job_numbers(b"none", &mut dims).await, Ok(None));
            assert_eq!(pmi.job_numbers(b"empty", &mut dims).await, Ok(Some(0)));
            let unreadable = CallError::Unreadable { verb: Verb::JobGet };
            assert_eq!(pmi.job_numbers(b"odd", &mut dims).await, Err(unreadable));
            let words = "the answer to info-getjobattr is not a list of numbers";
            assert_eq!(unreadable.to_string(), words);
        };
        let puts = async {
            let mut pmi = open(&server, job, 1, piece).await;
            for _ in 0..20 {
                yield_now().await;
            }
            pmi.put_node(b"leader", b"7,8,9").await.unwrap();
        };
        block_on(zip(waits, puts));
    }
}

#[test]
fn ring_gives_each_rank_the_values_of_both_neighbours() {
    for piece in PIECES {
        let (server, job) = server(2);
        let member = |rank: u32| {
            let server = &server;
            async move {
                let mut pmi = open(server, job, rank, piece).await;
                let (left, right) = (format!("left of {rank}"), format!("right;{rank}"));
                let mut out = [[0; 16]; 2];
                let [from_left, from_right] = &mut out;
                let ring = pmi.ring(left.as_bytes(), right.as_bytes(), [from_left, from_right]);
                let ring = ring.await.unwrap();
                assert_eq!(ring.place, rank);
                let other = 1 - rank;
                assert_eq!(&out[0][..ring.left_bytes], format!("right;{other}").as_bytes());
                assert_eq!(&out[1][..ring.right_bytes], format!("left of {other}").as_bytes());
                let full = pmi.ring(b"", b"12345", [&mut [0; 4], &mut []]).await;
                assert_eq!(full, Err(CallError::Full(Full { needed: 5 })));
            }
        };
        block_on(zip(member(0), member(1)));
    }
}

// Coverage: W2-38
#[test]
fn connected_jobs_read_and_copy_each_others_spaces() {
    for piece in PIECES {
        let (server, job) = server(1);
        let other = add_job(&server, "kvs_2", None);
        block_on(async {
            let mut theirs = open(&server, other, 0, piece).await;
            theirs.put(b"a", b"1;1").await.unwrap();
            theirs.put(b"b", b"2").await.unwrap();
            theirs.fence().await.unwrap();
            let mut pmi = open(&server, job, 0, piece).await;
            let mut out = [0; 16];
            assert_eq!(pmi.get_from(b"kvs_2", b"a", &mut out).await, Ok(None));
            let no = |verb| CallError::Refused { verb, code: Code::INIT };
            let all = pmi.get_all(b"kvs_2", &mut |_| panic!("not connected")).await;
            assert_eq!(all, Err(no(Verb::GetAll)));
            let pair = |key: &'static str, value: &'static str| Pair {
                key: key.into(),
                value: value.into(),
            };
            let pairs = [pair("c", ";;"), pair("d", "4"), pair("e", "5")];
            assert_eq!(pmi.put_all(b"kvs_2", &pairs).await, Err(no(Verb::PutAll)));
            assert_eq!(pmi.connect_job(b"moon").await, Err(no(Verb::Connect)));
            assert_eq!(pmi.connect_job(b"kvs_2").await, Ok(false));
            assert_eq!(pmi.get_from(b"kvs_2", b"a", &mut out).await, Ok(Some(3)));
            assert_eq!(&out[..3], b"1;1");
            pmi.put_all(b"kvs_2", &pairs).await.unwrap();
            pmi.put_all(b"kvs_2", &[]).await.unwrap();
            let mut found = Vec::new();
            let each = &mut |Pair { key, value }: Pair<'_>| {
                found.push((key.bytes().collect::<Vec<_>>(), value.bytes().collect::<Vec<_>>()));
            };
            assert_eq!(pmi.get_all(b"kvs_2", each).await, Ok(5));
            found.sort();
            let meant = [("a", "1;1"), ("b", "2"), ("c", ";;"), ("d", "4"), ("e", "5")];
            assert_eq!(found, meant.map(|(key, value)| (key.into(), value.into())));
            let long = [b'v'; 1024];
            let pairs = [pair("f", "6"), Pair { key: "g".into(), value: Text::plain(&long) }];
            let refused = pmi.put_all(b"kvs_2", &pairs).await;
            assert!(
                matches!(refused, Err(CallError::Misuse(Misuse::Length { .. }))),
                "{refused:?}"
            );
            pmi.disconnect_job(b"kvs_2").await.unwrap();
            assert_eq!(pmi.disconnect_job(b"kvs_2").await, Err(no(Verb::Disconnect)));
            assert_eq!(pmi.get_from(b"kvs_2", b"a", &mut out).await, Ok(None));
            assert_eq!(pmi.get_all(b"kvs_1", &mut |_| ()).await, Ok(0));
            pmi.finalize().await.unwrap();
        });
    }
}

#[test]
fn services_are_published_with_ports_at_their_longest() {
    for piece in PIECES {
        let (server, job) = server(1);
        block_on(async {
            let mut pmi = open(&server, job, 0, piece).await;
            let port = "p".repeat(1024);
            pmi.publish(b"s", port.as_bytes()).await.unwrap();
            let mut out = [0; 1024];
            assert_eq!(pmi.lookup(b"s", &mut out).await, Ok(Some(1024)));
            assert_eq!(out, port.as_bytes());
            assert_eq!(pmi.lookup(b"t", &mut out).await, Ok(None));
            let taken = CallError::Refused { verb: Verb::Publish, code: Code::INIT };
            assert_eq!(pmi.publish(b"s", b"p").await, Err(taken));
            pmi.unpublish(b"s").await.unwrap();
            assert_eq!(pmi.lookup(b"s", &mut out).await, Ok(None));
        });
    }
}

#[test]
fn message_that_a_small_client_has_no_room_for_is_not_sent() {
    let (server, job) = server(1);
    block_on(async {
        let mut pmi = small(Stream::member(&server, job, 0, 100));
        pmi.init(Version::V2_0).await.unwrap();
        pmi.kvsname().await.unwrap();
        let long = [b';'; 1023];
        let needed = "123456cmd=kvs-put;key=k;value=;".len() + 2 * 1023;
        assert_eq!(pmi.put(b"k", &long).await, Err(CallError::Full(Full { needed })));
        assert_eq!(pmi.put(b"k", &long[..500]).await, Ok(()));
        // An abort is sent, regardless of its message.
        pmi.abort(3, &[b';'; 3000]).await.unwrap();
        while let Some(event) = server.borrow_mut().server.poll_event() {
            if let Event::Aborted { code, message, .. } = event {
                assert_eq!((code, message.as_bytes()), (Some(3), &[b';'; 120][..]));
                return;
            }
        }
        panic!("no abort");
    });
    let roomy = "123456cmd=kvs-put;key=;value=;".len() + 2 * (63 + 1023);
    assert!(roomy <= PMI2_BUFFER_BYTES);
}

// Coverage: W2-33
#[test]
fn spawn_gives_the_new_job_and_what_it_has_been_given() {
    for piece in PIECES {
        let (server, job) = server(1);
        let arguments = ["a b".into(), "c=d;e".into()];
        let program = Program {
            executable: "./child".into(),
            processes: 2,
            arguments: Argument::Given(&arguments),
            info: InfoList::Given(&[Pair { key: "wdir".into(), value: "/tmp".into() }]),
        };
        let spawn = Spawn::Given { programs: &[program], preputs: &[] };
        let asks = async {
            let mut pmi = open(&server, job, 0, piece).await;
            let mut scratch = [0; 512];
            let spawned = pmi.spawn(spawn, &mut scratch).await.unwrap();
            assert_eq!(spawned.job, Some(&b"kvs_2"[..]));
            assert_eq!(spawned.codes().count(), 0);
            let error = pmi.spawn(spawn, &mut scratch).await.unwrap_err();
            let SpawnError::Refused { code, codes } = error else { panic!("{error:?}") };
            assert_eq!((code, codes.iter().next()), (Code(10), None));
            let error = pmi.spawn(spawn, &mut scratch).await.unwrap_err();
            let SpawnError::Refused { code, codes } = error else { panic!("{error:?}") };
            assert!(code == Code(14) && codes.iter().eq([Code(0), Code(14)]), "{codes:?}");
        };
        let host = async {
            let run = |code| CodeRun { count: 1, code: Code(code) };
            for (answer, codes) in
                [(Ok(()), &[][..]), (Err(Code(10)), &[]), (Err(Code(14)), &[run(0), run(14)])]
            {
                let (session, exchange) = loop {
                    let event = server.borrow_mut().server.poll_event();
                    if let Some(Event::Spawn { session, exchange }) = event {
                        break (session, exchange);
                    }
                    yield_now().await;
                };
                let asked = server.borrow().server.spawn_request(session) == Some(spawn);
                assert!(asked);
                let made = answer.map(|()| add_job(&server, "kvs_2", Some("kvs_1")));
                server.borrow_mut().server.spawn_read(session);
                server.borrow_mut().server.answer_spawn(session, exchange, made, codes).unwrap();
                if let Ok(child) = made {
                    let mut pmi = AsyncPmi::new(Stream::member(&server, child, 0, piece));
                    let mut spawner = [0; 5];
                    let opening = Opening::new(Version::V2_0);
                    let opened = pmi.open(&opening, &mut spawner).await.unwrap();
                    assert_eq!(opened.spawner_bytes, Some(5));
                    assert_eq!(&spawner, b"kvs_1");
                    assert!(pmi.client().is_spawned());
                }
            }
        };
        block_on(zip(asks, host));
    }
}

// Coverage: W2-26
#[test]
fn server_proves_the_secret_as_well_where_the_client_demands_it() {
    let secret = Secret::new(b"correct horse battery staple").unwrap();
    let wrong = Secret::new(b"0123456789abcdef").unwrap();
    let nonce = Nonce::new([7; 18]);
    for piece in PIECES {
        let refused = Err(CallError::Peer(PeerError::Refused(Code::OTHER)));
        for (challenge, expected) in [
            (Some(Challenge::with_mutual(&secret, nonce)), Ok(3)),
            (Some(Challenge::with_mutual(&wrong, nonce)), refused),
            // This server offers the other method alone.
            (Some(Challenge::new(&secret, nonce)), refused),
            // This one takes any client, and proves nothing.
            (None, Err(CallError::Peer(PeerError::Unproven))),
        ] {
            let (server, job) = server(4);
            let peer = Peer::Unidentified { job, deadline: None, challenge };
            let mut pmi = AsyncPmi::new(Stream::open(&server, peer, piece));
            let prover = MutualProver::new(secret.clone(), Nonce::new([1; 18]));
            let mut opening = Opening::new(Version::V2_0);
            opening.rank = Some(3);
            opening.prover = Some(&prover);
            let opened = block_on(pmi.open(&opening, &mut []));
            assert_eq!(opened.map(|_| pmi.identity().unwrap().rank), expected);
        }
    }
}

#[test]
fn client_proves_its_secret_or_is_rejected() {
    let secret = Secret::new(b"correct horse battery staple").unwrap();
    let wrong = Secret::new(b"0123456789abcdef").unwrap();
    for piece in PIECES {
        let refused = Err(CallError::Peer(PeerError::Refused(Code::OTHER)));
        for (proves_with, expected) in [
            (Some(&secret), Ok(3)),
            (Some(&wrong), refused),
            // Without a method nothing is requested.
            (None, refused),
        ] {
            let (server, job) = server(4);
            let challenge = Some(Challenge::new(&secret, Nonce::new([7; 18])));
            let peer = Peer::Unidentified { job, deadline: None, challenge };
            let mut pmi = AsyncPmi::new(Stream::open(&server, peer, piece));
            let mut opening = Opening::new(Version::V2_0);
            opening.rank = Some(3);
            let prover = |reply: &pmi_core::command::Reply<'_>| prove(proves_with?, reply);
            opening.prover = proves_with.is_some().then_some(&prover);
            let opened = block_on(pmi.open(&opening, &mut []));
            let rank = opened.map(|_| pmi.identity().unwrap().rank);
            assert_eq!(rank, expected);
        }
        // A prover without a proof.
        let (server, job) = server(4);
        let challenge = Some(Challenge::new(&secret, Nonce::new([7; 18])));
        let peer = Peer::Unidentified { job, deadline: None, challenge };
        let mut pmi = AsyncPmi::new(Stream::open(&server, peer, piece));
        let mut opening = Opening::new(Version::V2_0);
        opening.rank = Some(3);
        opening.prover = Some(&|_: &pmi_core::command::Reply<'_>| None);
        let unproven = Err(CallError::Peer(PeerError::Unproven));
        assert_eq!(block_on(pmi.open(&opening, &mut [])), unproven);
    }
}
