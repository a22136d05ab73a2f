//! The embedded server, with clients in threads of this process.
#![cfg(feature = "server")]

use pmi_std::server::{JobDescription, JobId, PmiServer, ServerEvent};
use pmi_std::{Pmi, Stream};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;

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
