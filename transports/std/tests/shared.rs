//! One session and several threads, with a real server behind a socket pair.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use pmi_core::auth::{Challenge, Nonce, Secret};
use pmi_core::client::prove;
use pmi_core::command::{
    Argument, CodeRun, InfoList, Pair, Program, Reply, Spawn, Text, Verb, Version,
};
use pmi_core::error::{Code, Misuse, PeerError};
use pmi_core::ids::Rank;
use pmi_core::server::{Event, Peer};
use pmi_link::blocking::Opening;
use pmi_link::{CallError, SpawnError};
use pmi_std::{NonBlocking, SharedPmi, Stream};
use pmi_testkit::server::{JOB_NAME, job_spec, members};
use pmi_testkit::{LinkedServer, TestServer};

/// Serves one rank for each stream until all have disconnected; spawns are answered once `may_spawn`, all
/// but the first with a refusal.
fn serve(streams: Vec<UnixStream>, asks: Option<Challenge>, may_spawn: Arc<AtomicBool>) {
    let size = u32::try_from(streams.len()).unwrap();
    let mut server = TestServer::of(job_spec(JOB_NAME), members(size, size));
    let job = server.job;
    server.server.preset(job, b"universeSize", b"16").unwrap();
    let mut made = Ok(server.add_job(job_spec("kvs_2"), members(1, 1)));
    let mut server = LinkedServer::new(server);
    for (rank, stream) in (0..).zip(streams) {
        let peer = match asks {
            Some(_) => Peer::Unidentified { job, deadline: None, challenge: asks },
            None => Peer::Member { job, rank: Rank(rank) },
        };
        server.connect(peer, NonBlocking::unix(stream).unwrap());
    }
    let mut spawns = Vec::new();
    let refused = [0, 12].map(|code| CodeRun { count: 1, code: Code(code) });
    while server.is_open() {
        server.serve_once();
        for event in server.events.drain(..) {
            if let Event::Spawn { session, exchange } = event {
                server.inner.server.spawn_read(session);
                spawns.push((session, exchange));
            }
        }
        if may_spawn.load(Ordering::SeqCst) {
            for (session, exchange) in spawns.drain(..) {
                let codes = if made.is_ok() { &[][..] } else { &refused };
                server.inner.server.answer_spawn(session, exchange, made, codes).unwrap();
                made = Err(Code(12));
            }
        }
        thread::yield_now();
    }
}

struct World {
    ranks: Vec<SharedPmi>,
    may_spawn: Arc<AtomicBool>,
    server: JoinHandle<()>,
}

impl World {
    fn closed(size: usize, asks: Option<Challenge>) -> Self {
        let pairs: Vec<_> = (0..size).map(|_| UnixStream::pair().unwrap()).collect();
        let (ours, theirs): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        let may_spawn = Arc::<AtomicBool>::default();
        let flag = may_spawn.clone();
        let server = thread::spawn(move || serve(theirs, asks, flag));
        let ranks = ours.into_iter().map(|stream| SharedPmi::new(stream.into()).unwrap()).collect();
        Self { ranks, may_spawn, server }
    }

    fn new(size: usize, version: Version) -> Self {
        let world = Self::closed(size, None);
        for (rank, pmi) in (0..).zip(&world.ranks) {
            let mut opening = Opening::new(version);
            opening.rank = Some(rank);
            assert_eq!(pmi.open(&opening).unwrap(), (version, None));
            assert_eq!(pmi.job_id().unwrap().as_bytes(), b"kvs_1");
            assert_eq!(pmi.maxes().unwrap().value, 1024);
        }
        world
    }

    fn end(self) {
        for pmi in self.ranks {
            pmi.finalize().unwrap();
            let over = pmi.fence();
            assert!(matches!(over, Err(CallError::Misuse(Misuse::WrongState { .. }))), "{over:?}");
        }
        self.server.join().unwrap();
    }
}

fn child<'a>(arguments: &'a [Text<'static>]) -> Program<'a> {
    Program {
        executable: "./child".into(),
        processes: 2,
        arguments: Argument::Given(arguments),
        info: InfoList::Given(&[]),
    }
}

// Coverage: W2-4, A2-9
#[test]
fn spawn_that_is_pending_keeps_no_other_thread_from_its_calls() {
    let world = World::new(1, Version::V2_0);
    let spawns = thread::spawn({
        let pmi = world.ranks[0].clone();
        // Longer than any message but a spawn.
        move || pmi.spawn(Spawn::Given { programs: &[child(&["long".into(); 90])], preputs: &[] })
    });
    let pmi = &world.ranks[0];
    for round in 0..50 {
        let (key, value) = (format!("k{round}"), format!("v;{round}"));
        pmi.put(key.as_bytes(), value.as_bytes()).unwrap();
        pmi.fence().unwrap();
        assert_eq!(pmi.get(key.as_bytes()).unwrap(), Some(value.into_bytes()));
    }
    assert_eq!(pmi.get(b"none").unwrap(), None);
    assert!(!spawns.is_finished());
    world.may_spawn.store(true, Ordering::SeqCst);
    let spawned = spawns.join().unwrap().unwrap();
    assert_eq!((spawned.job, spawned.codes), (Some(b"kvs_2".to_vec()), Vec::new()));
    // The next one is refused, with the code of each process.
    let spawn = Spawn::Given { programs: &[child(&[])], preputs: &[] };
    let Err(SpawnError::Refused { code, codes }) = pmi.spawn(spawn) else { panic!("spawned") };
    assert_eq!((code, codes), (Code(12), vec![Code(0), Code(12)]));
    world.end();
}

// Coverage: W2-55
#[test]
fn many_threads_hear_each_its_own_answers() {
    for version in [Version::V2_0, Version::V1_1] {
        let world = World::new(2, version);
        let threads: Vec<_> = (0..20)
            .map(|thread| {
                let pmi = world.ranks[thread % 2].clone();
                thread::spawn(move || {
                    for round in 0..20 {
                        let key = format!("k{thread}");
                        let value = format!("{thread}").repeat(1 + 25 * round);
                        pmi.put(key.as_bytes(), value.as_bytes()).unwrap();
                        let found = pmi.get(key.as_bytes()).unwrap();
                        assert_eq!(found, Some(value.into_bytes()));
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        world.end();
    }
}

#[test]
fn thread_waits_for_what_another_puts_over_the_same_connection() {
    let world = World::new(1, Version::V2_0);
    let waits: Vec<_> = (0..3)
        .map(|at| {
            let pmi = world.ranks[0].clone();
            thread::spawn(move || pmi.node_numbers(format!("n{at}").as_bytes(), true))
        })
        .collect();
    let pmi = &world.ranks[0];
    assert_eq!(pmi.get_node(b"n9", false).unwrap(), None);
    for at in [2, 0, 1] {
        pmi.put_node(format!("n{at}").as_bytes(), format!("{at}, -7").as_bytes()).unwrap();
    }
    for (at, waits) in (0..).zip(waits) {
        assert_eq!(waits.join().unwrap().unwrap(), Some(vec![at, -7]));
    }
    assert_eq!(pmi.universe_size().unwrap(), Some(16));
    assert_eq!(pmi.appnum().unwrap(), Some(0));
    assert_eq!(pmi.job_attribute(b"universeSize").unwrap(), Some(b"16".to_vec()));
    world.end();
}

// Coverage: W2-42
#[test]
fn whole_spaces_names_and_rings_work_between_threads() {
    let world = World::new(2, Version::V2_0);
    let other = thread::spawn({
        let pmi = world.ranks[1].clone();
        move || pmi.ring(b"l1", b"r1").unwrap()
    });
    let pmi = &world.ranks[0];
    let refused = |verb| -> Result<(), _> { Err((verb, Code::INIT)) };
    let code = |said: Result<(), CallError<std::io::Error>>| match said {
        Err(CallError::Refused { verb, code }) => Err((verb, code)),
        other => other.map_err(|error| panic!("{error}")),
    };
    let long = "v".repeat(900);
    let pair = |key: &'static str| Pair { key: key.into(), value: long.as_str().into() };
    // The refusal may come before all the pairs are out.
    let many = [pair("a"), pair("b"), pair("c"), pair("d"), pair("e"), pair("f")];
    assert_eq!(code(pmi.put_all(b"kvs_2", &many)), refused(Verb::PutAll));
    assert_eq!(code(pmi.connect_job(b"moon").map(drop)), refused(Verb::Connect));
    assert!(!pmi.connect_job(b"kvs_2").unwrap());
    pmi.put_all(b"kvs_2", &many).unwrap();
    let all = pmi.get_all(b"kvs_2").unwrap();
    assert_eq!(all.len(), 6);
    assert!(all.contains(&(b"f".to_vec(), long.clone().into_bytes())));
    assert_eq!(pmi.get_from(b"kvs_2", b"a").unwrap(), Some(long.into_bytes()));
    pmi.disconnect_job(b"kvs_2").unwrap();
    pmi.publish(b"s", b"port").unwrap();
    assert_eq!(pmi.lookup(b"s").unwrap(), Some(b"port".to_vec()));
    pmi.unpublish(b"s").unwrap();
    assert_eq!(pmi.lookup(b"s").unwrap(), None);
    let ring = pmi.ring(b"l0", b"r0").unwrap();
    assert_eq!((ring.place, ring.left, ring.right), (0, b"r1".to_vec(), b"l1".to_vec()));
    let ring = other.join().unwrap();
    assert_eq!((ring.place, ring.left, ring.right), (1, b"r0".to_vec(), b"l0".to_vec()));
    world.end();
}

#[test]
fn secret_is_proved_or_the_opening_fails() {
    let secret = Secret::new(b"correct horse battery staple").unwrap();
    let wrong = Secret::new(b"another one, just as long").unwrap();
    for (own, is_believed) in [(&secret, true), (&wrong, false)] {
        let challenge = Challenge::new(&secret, Nonce::new([5; 18]));
        let world = World::closed(1, Some(challenge));
        let prover = |reply: &Reply<'_>| prove(own, reply);
        let mut opening = Opening::new(Version::V2_0);
        opening.rank = Some(0);
        opening.prover = Some(&prover);
        let opened = world.ranks[0].open(&opening);
        assert_eq!(opened.is_ok(), is_believed, "{opened:?}");
        if is_believed {
            assert_eq!(world.ranks[0].identity().unwrap().rank, 0);
            world.end();
        } else {
            assert!(matches!(opened, Err(CallError::Peer(PeerError::Refused(_)))));
            world.server.join().unwrap();
        }
    }
}

#[test]
fn error_of_the_server_reaches_every_thread() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let pmi = SharedPmi::new(Stream::from(ours)).unwrap();
    let server = thread::spawn(move || {
        let line = "cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n";
        let identity = "cmd=fullinit-response;rc=0;rank=0;size=1;";
        let name = "cmd=job-getid-response;jobid=k;";
        for (asks, says) in [
            ("cmd=init pmi_version=2 pmi_subversion=0\n", line.to_owned()),
            ("cmd=fullinit;pmijobid=0;threaded=TRUE;", format!("{:6}{identity}", identity.len())),
            ("cmd=job-getid;thrid=3;", format!("{:>6}{name}", name.len())),
        ] {
            let len = asks.len() + if asks.ends_with(';') { 6 } else { 0 };
            let mut asked = vec![0; len];
            theirs.read_exact(&mut asked).unwrap();
            assert!(asked.ends_with(asks.as_bytes()), "{}", String::from_utf8_lossy(&asked));
            theirs.write_all(says.as_bytes()).unwrap();
        }
        let mut asked = Vec::new();
        // Disconnects once both threads have sent their requests.
        while asked.windows(10).filter(|window| window == b"wait=TRUE;").count() < 2 {
            let mut bytes = [0; 100];
            let len = theirs.read(&mut bytes).unwrap();
            asked.extend_from_slice(&bytes[..len]);
        }
    });
    pmi.open(&Opening::new(Version::V2_0)).unwrap();
    pmi.job_id().unwrap();
    let waits = ["a", "b"].map(|key| {
        let pmi = pmi.clone();
        thread::spawn(move || pmi.get_node(key.as_bytes(), true))
    });
    for waits in waits {
        let told = waits.join().unwrap();
        assert!(matches!(told, Err(CallError::Peer(PeerError::LeftEarly))), "{told:?}");
    }
    let told = pmi.fence();
    assert!(matches!(told, Err(CallError::Peer(PeerError::LeftEarly))), "{told:?}");
    server.join().unwrap();
}

#[test]
fn abort_ends_the_calls_of_all_threads() {
    let world = World::new(1, Version::V2_0);
    let waits = thread::spawn({
        let pmi = world.ranks[0].clone();
        move || pmi.get_node(b"never", true)
    });
    let pmi = &world.ranks[0];
    pmi.put(b"k", b"v").unwrap();
    pmi.abort(3, b"no; way").unwrap();
    assert!(waits.join().unwrap().is_err());
    assert!(pmi.abort(3, b"").is_err());
    world.server.join().unwrap();
}

/// Answers as Slurm does: in the order of arrival, without the names of exchanges. The value of a key is the
/// key.
fn answer_without_names(mut stream: UnixStream) {
    let mut line = Vec::new();
    while line.last() != Some(&b'\n') {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        line.push(byte[0]);
    }
    stream.write_all(b"cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n").unwrap();
    let mut length = [0; 6];
    while stream.read_exact(&mut length).is_ok() {
        let length: usize = str::from_utf8(&length).unwrap().trim().parse().unwrap();
        let mut frame = vec![0; length];
        stream.read_exact(&mut frame).unwrap();
        let frame = String::from_utf8(frame).unwrap();
        let field = |name: &str| frame.split(';').find_map(|field| field.strip_prefix(name));
        let command = field("cmd=").unwrap();
        let answer = match command {
            "fullinit" => "pmi-version=2;pmi-subversion=0;rank=0;size=1;appnum=0;".to_owned(),
            "job-getid" => "jobid=kvs_1;".to_owned(),
            _ => format!("found=TRUE;value={};", field("key=").unwrap()),
        };
        let answer = format!("cmd={command}-response;rc=0;{answer}");
        write!(stream, "{:<6}{answer}", answer.len()).unwrap();
    }
}

#[test]
fn replies_without_names_reach_the_threads_in_the_order_of_their_requests() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let server = thread::spawn(|| answer_without_names(theirs));
    let pmi = SharedPmi::new(ours.into()).unwrap();
    pmi.open(&Opening::new(Version::V2_0)).unwrap();
    pmi.job_id().unwrap();
    thread::scope(|scope| {
        for thread in 0..16 {
            let pmi = &pmi;
            scope.spawn(move || {
                for round in 0..200 {
                    let key = format!("{thread}-{round}").into_bytes();
                    assert_eq!(pmi.get(&key).unwrap(), Some(key));
                }
            });
        }
    });
    drop(pmi);
    server.join().unwrap();
}
