//! The embedded server, with clients in threads of this process.
#![cfg(feature = "server")]

use pmi_std::server::{
    JobDescription, JobId, NameAnswer, NameOperation, NameServiceId, PmiServer, ServerEvent,
};
use pmi_std::{Pmi, SharedPmi, Stream};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// A server with one job, and the far ends of its ranks.
fn job_of(ranks: u32) -> (PmiServer, JobId, Vec<UnixStream>) {
    let pairs = (0..ranks).map(|_| UnixStream::pair().unwrap());
    let (ours, theirs) = pairs.unzip();
    let mut server = PmiServer::new().unwrap();
    let job = server.add_job(&JobDescription::new(b"kvs_0"), ours).unwrap();
    (server, job, theirs)
}

/// The events of a whole run.
fn events(server: &mut PmiServer) -> Vec<ServerEvent> {
    let mut events = Vec::new();
    server.run(|_, event| events.push(event)).unwrap();
    events
}

/// One rank: puts a value, and reads that of the next rank.
fn rank(stream: UnixStream, rank: u32, size: u32) {
    let mut pmi = Pmi::new(Stream::from(stream));
    pmi.init(pmi_core::command::Version::V1_1).unwrap();
    pmi.kvsname().unwrap();
    pmi.put(format!("key-{rank}").as_bytes(), b"value").unwrap();
    pmi.fence().unwrap();
    let found = pmi.get(format!("key-{}", (rank + 1) % size).as_bytes()).unwrap();
    assert_eq!(found.as_deref(), Some(&b"value"[..]));
    pmi.finalize().unwrap();
}

#[test]
fn ranks_exchange_values_and_their_ends_are_events() {
    let (mut server, job, streams) = job_of(4);
    let ranks =
        (0..).zip(streams).map(|(number, stream)| thread::spawn(move || rank(stream, number, 4)));
    let ranks: Vec<_> = ranks.collect();
    let events = events(&mut server);
    ranks.into_iter().for_each(|rank| rank.join().unwrap());
    for rank in 0..4 {
        let ended = ServerEvent::Disconnected { job, rank, is_finalized: true };
        assert!(events.contains(&ended), "{events:?}");
    }
    assert_eq!(events.len(), 4, "{events:?}");
    server.remove_job(job).unwrap();
    // The name is free again.
    server.add_job(&JobDescription::new(b"kvs_0"), Vec::new()).unwrap();
}

#[test]
fn rank_that_sends_nonsense_ends_alone_and_its_fence_is_reported() {
    let (mut server, job, mut streams) = job_of(2);
    let mut waiting = streams.remove(0);
    waiting.write_all(b"cmd=init pmi_version=1 pmi_subversion=1\n").unwrap();
    streams[0].write_all(&[0xff; 100_000]).unwrap();
    server.handle_ready().unwrap();
    let lost = ServerEvent::Disconnected { job, rank: 1, is_finalized: false };
    assert_eq!(server.poll_event(), Some(lost));
    assert_eq!(server.poll_event(), None);
    server.rank_exited(job, 1).unwrap();
    waiting.write_all(b"cmd=barrier_in\n").unwrap();
    server.handle_ready().unwrap();
    assert_eq!(server.poll_event(), Some(ServerEvent::FenceStuck { job, gone: 1 }));
    assert_eq!(server.connected(), 1);
    let mut answer = [0; 20];
    waiting.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"cmd=response_to_init");
}

#[test]
fn names_are_served_by_the_owner_if_it_wants_them() {
    let mut server = PmiServer::new().unwrap();
    server.serve_names_by_owner();
    let (ours, theirs) = UnixStream::pair().unwrap();
    let job = server.add_job(&JobDescription::new(b"kvs_0"), vec![ours]).unwrap();
    let rank = thread::spawn(move || {
        let mut pmi = Pmi::new(Stream::from(theirs));
        pmi.init(pmi_core::command::Version::V1_1).unwrap();
        assert_eq!(pmi.lookup(b"ocean").unwrap(), None);
        pmi.publish(b"ocean", b"port-7").unwrap();
        assert_eq!(pmi.lookup(b"ocean").unwrap().as_deref(), Some(&b"port-8"[..]));
        assert!(pmi.publish(b"ocean", b"port-9").is_err());
        pmi.unpublish(b"ocean").unwrap();
        pmi.finalize().unwrap();
    });
    let answers = [
        NameAnswer::Unknown,
        NameAnswer::Done,
        NameAnswer::Port(b"port-8"),
        NameAnswer::Exists,
        NameAnswer::Done,
    ];
    let (mut answers, mut asked) = (answers.into_iter(), Vec::new());
    server
        .run(|server, event| {
            let ServerEvent::NameRequested(request) = event else { return };
            assert_eq!((request.job, request.rank, &request.service[..]), (job, 0, &b"ocean"[..]));
            let id = NameServiceId::from_bits(request.id.to_bits());
            asked.push(request.operation);
            server.answer_name(id, answers.next().unwrap()).unwrap();
            assert!(server.answer_name(id, NameAnswer::Done).is_err(), "answered twice");
        })
        .unwrap();
    rank.join().unwrap();
    let (lookup, unpublish) = (NameOperation::Lookup, NameOperation::Unpublish);
    let publish = |port: &[u8]| NameOperation::Publish(port.to_vec());
    let expected = [lookup.clone(), publish(b"port-7"), lookup, publish(b"port-9"), unpublish];
    assert_eq!(asked, expected);
}

/// A rank that offers a segment: in each round it puts a value, enters a fence, and reads the values of all;
/// `before` and `after` are called around that.
fn sharing_rank(
    stream: UnixStream,
    (rank, size): (u32, u32),
    mut before: impl FnMut(),
    mut after: impl FnMut(),
) {
    // The read of a get that is sent as a message times out, so that the test fails.
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let pmi = SharedPmi::with_snapshot(Stream::from(stream)).unwrap();
    pmi.init(pmi_core::command::Version::V1_1).unwrap();
    pmi.kvsname().unwrap();
    for round in 0..ROUNDS {
        let key = |rank| format!("key-{round}-{rank}");
        pmi.put(key(rank).as_bytes(), format!("value-{rank}").as_bytes()).unwrap();
        pmi.fence().unwrap();
        before();
        for peer in 0..size {
            let found = pmi.get(key(peer).as_bytes()).unwrap();
            assert_eq!(found, Some(format!("value-{peer}").into_bytes()));
        }
        assert_eq!(pmi.get(b"PMI_process_mapping").unwrap().as_deref(), Some(MAPPING));
        after();
    }
    pmi.finalize().unwrap();
}

const ROUNDS: u32 = 3;
const MAPPING: &[u8] = b"(vector,(0,1,4))";

#[test]
fn ranks_read_the_values_of_a_fence_while_the_server_does_nothing() {
    let (mut server, _, streams) = job_of(4);
    let ((fenced, all_fenced), (read, all_read)) = (mpsc::channel(), mpsc::channel());
    let (idle, is_idle): (Vec<_>, Vec<_>) = streams.iter().map(|_| mpsc::channel::<()>()).unzip();
    let ranks = (0..).zip(streams).zip(is_idle).map(|((rank, stream), is_idle)| {
        let (fenced, read) = (fenced.clone(), read.clone());
        thread::spawn(move || {
            let before = || {
                fenced.send(()).unwrap();
                is_idle.recv().unwrap();
            };
            sharing_rank(stream, (rank, 4), before, || read.send(()).unwrap());
        })
    });
    let ranks: Vec<_> = ranks.collect();
    for _ in 0..ROUNDS {
        let mut count = 0;
        while count < 4 {
            server.handle_ready().unwrap();
            count += all_fenced.try_iter().count();
            thread::yield_now();
        }
        // Nothing serves the ranks until all have read.
        idle.iter().for_each(|idle| idle.send(()).unwrap());
        all_read.iter().take(4).for_each(drop);
    }
    assert_eq!(events(&mut server).len(), 4);
    ranks.into_iter().for_each(|rank| rank.join().unwrap());
}

#[test]
fn ranks_read_by_messages_if_no_segment_may_be_taken() {
    let (mut server, _, streams) = job_of(4);
    server.set_segments_max(0);
    let ranks = (0..).zip(streams);
    let ranks: Vec<_> = ranks
        .map(|(rank, stream)| thread::spawn(move || sharing_rank(stream, (rank, 4), || (), || ())))
        .collect();
    assert_eq!(events(&mut server).len(), 4);
    ranks.into_iter().for_each(|rank| rank.join().unwrap());
}

#[test]
fn descriptor_is_readable_when_a_rank_has_sent_something() {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let (mut server, job, mut streams) = job_of(1);
    let is_readable = |server: &PmiServer| {
        let mut watched = [PollFd::new(server, PollFlags::IN)];
        poll(&mut watched, Some(&Timespec::default())).unwrap() == 1
    };
    assert!(!is_readable(&server));
    streams[0].write_all(b"cmd=init pmi_version=1 pmi_subversion=1\n").unwrap();
    assert!(is_readable(&server));
    server.handle_ready().unwrap();
    assert!(!is_readable(&server));
    drop(streams);
    let ended = ServerEvent::Disconnected { job, rank: 0, is_finalized: false };
    assert_eq!(events(&mut server), [ended]);
}

#[test]
fn job_that_cannot_be_added_leaves_nothing_behind() {
    let mut server = PmiServer::new().unwrap();
    assert!(server.add_job(&JobDescription::new(b"not a name"), Vec::new()).is_err());
    let long = [b'k'; 5000];
    let preputs = [(&long[..], &b"value"[..])];
    let job = JobDescription { preputs: &preputs, ..JobDescription::new(b"kvs_0") };
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    assert!(server.add_job(&job, vec![ours]).is_err());
    assert_eq!(server.connected(), 0);
    // Its stream is closed.
    assert_eq!(theirs.read(&mut [0]).unwrap(), 0);
}
