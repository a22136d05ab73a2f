//! From an environment to a session, with a real server behind real sockets.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use pmi_core::auth::{Challenge, Secret};
use pmi_core::command::Version;
use pmi_core::error::PeerError;
use pmi_core::ids::Rank;
use pmi_core::server::Peer;
use pmi_link::{CallError, Link};
use pmi_std::env::{Environment, RequestedVersions, Sockets, Transport};
use pmi_std::{ConnectError, ConnectOptions, NonBlocking, Stream, connect_by};
use pmi_testkit::server::{JOB_NAME, job_spec, members};
use pmi_testkit::{LinkedServer, TestServer};

/// Serves one peer until it has finalized, with a job of one, or of four if it connects by TCP.
fn serve(stream: Stream, dials: bool) {
    serve_over(NonBlocking::stream(stream).unwrap(), dials, None);
}

fn serve_over(link: impl Link, dials: bool, challenge: Option<Challenge>) {
    let size = if dials { 4 } else { 1 };
    let server = TestServer::of(job_spec(JOB_NAME), members(size, size));
    let job = server.job;
    let member = Peer::Member { job, rank: Rank(0) };
    let peer = if dials { Peer::Unidentified { job, deadline: None, challenge } } else { member };
    let mut server = LinkedServer::new(server);
    server.connect(peer, link);
    server.serve_until_closed();
}

/// The environment of a spawned rank that requests PMI-1.1.
fn environment(transport: Transport) -> Environment {
    let versions = RequestedVersions::Only(Version::V1_1);
    Environment { spawned: true, versions, ..Environment::new(transport, 0, 1) }
}

fn dial(port: u16, id: u64) -> Transport {
    Transport::Tcp { host: "127.0.0.1".into(), port, id }
}

// Coverage: W2-10
#[test]
fn inherited_descriptor_leads_to_a_conversation() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let server = thread::spawn(|| serve(theirs.into(), false));
    let transport = Transport::Inherited { fd: ours.as_raw_fd() };
    let mut member = connect_by(environment(transport)).unwrap().unwrap();
    assert_eq!((member.rank, member.size, member.spawned), (0, 1, true));
    assert_eq!(member.pmi.client().version(), Some(Version::V1_1));
    member.pmi.put(b"card", b"here").unwrap();
    member.pmi.fence().unwrap();
    assert_eq!(member.pmi.get(b"card").unwrap().as_deref(), Some(&b"here"[..]));
    assert_eq!(member.pmi.get(b"none").unwrap(), None);
    member.pmi.finalize().unwrap();
    server.join().unwrap();
}

// Coverage: W2-11, A2-4
#[test]
fn server_reached_by_tcp_sends_the_identity() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        serve(stream.into(), true);
    });
    let transport = dial(port, 3);
    let mut member = connect_by(environment(transport)).unwrap().unwrap();
    assert_eq!((member.rank, member.size), (3, 4));
    assert_eq!(member.pmi.kvsname().unwrap().as_bytes(), b"kvs_1");
    member.pmi.finalize().unwrap();
    server.join().unwrap();
}

#[test]
fn caller_that_is_not_expected_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        serve(stream.into(), true);
    });
    let transport = dial(port, 4);
    let error = connect_by(environment(transport)).unwrap_err();
    assert!(matches!(error, ConnectError::Open(CallError::Peer(_))), "{error}");
    server.join().unwrap();
}

#[test]
fn frames_are_spoken_where_they_are_asked_for_and_dialling_needs_no_greeting() {
    for versions in [RequestedVersions::Only(Version::V2_0), RequestedVersions::Newest] {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let server = thread::spawn(|| serve(theirs.into(), false));
        let transport = Transport::Inherited { fd: ours.as_raw_fd() };
        let asked = Environment { versions, ..environment(transport) };
        let mut member = connect_by(asked).unwrap().unwrap();
        assert_eq!(member.pmi.client().version(), Some(Version::V2_0));
        assert_eq!(member.pmi.job_id().unwrap().as_bytes(), b"kvs_1");
        member.pmi.put(b"card", b"a;b").unwrap();
        member.pmi.fence().unwrap();
        assert_eq!(member.pmi.get(b"card").unwrap().as_deref(), Some(&b"a;b"[..]));
        member.pmi.finalize().unwrap();
        server.join().unwrap();

        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            serve(stream.into(), true);
        });
        // The identity is a number that only this rank received; it joins with its rank.
        let asked = Environment { versions, rank: 3, ..environment(dial(port, 77)) };
        let mut member =
            ConnectOptions::new().environment(asked).connect_shared().unwrap().unwrap();
        assert_eq!((member.rank, member.size), (3, 4));
        assert_eq!(member.pmi.version(), Some(Version::V2_0));
        member.pmi = member.pmi.clone();
        member.pmi.finalize().unwrap();
        server.join().unwrap();
    }
}

// Coverage: W2-3, A2-17
#[test]
fn server_of_the_first_generation_is_spoken_to_in_lines_if_anything_will_do() {
    let refuses = |mut theirs: UnixStream, again: bool| {
        thread::spawn(move || {
            let mut line = [0; 40];
            theirs.read_exact(&mut line).unwrap();
            assert_eq!(&line, b"cmd=init pmi_version=2 pmi_subversion=0\n");
            let no = b"cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1\n";
            theirs.write_all(no).unwrap();
            if again {
                serve(theirs.into(), false);
            }
        })
    };
    let (ours, theirs) = UnixStream::pair().unwrap();
    let server = refuses(theirs, true);
    let transport = Transport::Inherited { fd: ours.as_raw_fd() };
    let asked = Environment { versions: RequestedVersions::Newest, ..environment(transport) };
    let mut member = connect_by(asked).unwrap().unwrap();
    assert_eq!(member.pmi.client().version(), Some(Version::V1_1));
    member.pmi.finalize().unwrap();
    server.join().unwrap();

    let (ours, theirs) = UnixStream::pair().unwrap();
    let server = refuses(theirs, false);
    let transport = Transport::Inherited { fd: ours.as_raw_fd() };
    let asked =
        Environment { versions: RequestedVersions::Only(Version::V2_0), ..environment(transport) };
    let text = connect_by(asked).unwrap_err().to_string();
    assert_eq!(text, "the server speaks PMI 1.1, which is not the requested version");
    server.join().unwrap();

    // Over TCP such a server waits for a greeting, and closes the connection on anything else.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 5]).unwrap();
        drop(stream);
        let (stream, _) = listener.accept().unwrap();
        serve(stream.into(), true);
    });
    let asked = Environment { versions: RequestedVersions::Newest, ..environment(dial(port, 2)) };
    let mut member = connect_by(asked).unwrap().unwrap();
    assert_eq!((member.rank, member.pmi.client().version()), (2, Some(Version::V1_1)));
    member.pmi.finalize().unwrap();
    server.join().unwrap();
}

#[test]
fn singleton_has_no_conversation() {
    assert!(connect_by(environment(Transport::Singleton)).unwrap().is_none());
}

#[test]
fn unreachable_address_is_reported_in_words() {
    let error = connect_by(environment(Transport::Inherited { fd: i32::MAX })).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("PMI_FD names descriptor 2147483647, which is not"), "{text}");

    // A port without a listener.
    let text = connect_by(environment(dial(1, 0))).unwrap_err().to_string();
    assert!(text.starts_with("PMI_PORT names 127.0.0.1:1, which cannot be reached: "), "{text}");

    // A protocol that is not built in is reported before any connection is attempted.
    let secured = Environment { sockets: Sockets::Ssl, ..environment(dial(1, 0)) };
    let text = connect_by(secured).unwrap_err().to_string();
    let expected = if cfg!(feature = "tls") {
        "PMI_PORT names 127.0.0.1:1, which cannot be reached: "
    } else {
        "PMI_SOCKTYPE requests Ssl, which is not built in"
    };
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn server_that_does_not_reply_is_reported_after_the_time_limit() {
    let limit = Duration::from_millis(50);
    let (ours, theirs) = UnixStream::pair().unwrap();
    let inherited = Transport::Inherited { fd: ours.as_raw_fd() };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let dialled = dial(listener.local_addr().unwrap().port(), 3);
    for transport in [inherited, dialled] {
        let versions = RequestedVersions::Newest;
        let options =
            ConnectOptions::new().environment(Environment { versions, ..environment(transport) });
        let error = options.clone().timeout(limit).connect().unwrap_err();
        assert!(matches!(error, ConnectError::Timeout { after } if after == limit), "{error}");
        let error = options.timeout(limit).connect_shared().unwrap_err();
        assert_eq!(error.to_string(), "the server did not open the session within 50ms");
    }
    drop(theirs);
}

#[test]
fn time_limit_ends_with_the_handshake() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let limit = Duration::from_secs(5);
    let server = thread::spawn(|| serve(theirs.into(), false));
    let transport = Transport::Inherited { fd: ours.as_raw_fd() };
    let options = ConnectOptions::new().environment(environment(transport)).timeout(limit);
    let member = options.clone().connect().unwrap().unwrap();
    // The limit belongs to the socket, which both descriptors have.
    assert_eq!((ours.read_timeout().unwrap(), ours.write_timeout().unwrap()), (None, None));
    drop(member);
    let _ = ours.shutdown(std::net::Shutdown::Both);
    let _ = server.join();
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let transport = Transport::Inherited { fd: ours.as_raw_fd() };
    options.environment(environment(transport)).connect_stream().unwrap();
    assert_eq!((ours.read_timeout().unwrap(), ours.write_timeout().unwrap()), (None, None));
}

#[test]
fn peer_that_is_no_server_is_reported_in_words() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let server = thread::spawn(move || {
        let mut line = [0; 40];
        theirs.read_exact(&mut line).unwrap();
        assert_eq!(&line, b"cmd=init pmi_version=1 pmi_subversion=1\n");
        theirs.write_all(b"HTTP/1.1 400 Bad Request\r\n").unwrap();
    });
    let transport = Transport::Inherited { fd: ours.as_raw_fd() };
    let text = connect_by(environment(transport)).unwrap_err().to_string();
    assert!(text.starts_with("the server did not open the session: malformed"), "{text}");
    server.join().unwrap();
}

// Coverage: W2-26
#[test]
fn demand_for_a_proof_of_the_server_is_never_dropped() {
    let secret = Secret::new(b"a secret of the job").unwrap();
    for (versions, secret) in
        [(RequestedVersions::Only(Version::V1_1), Some(&secret)), (RequestedVersions::Newest, None)]
    {
        // Nothing listens there, and nothing is asked.
        let environment = Environment { versions, ..Environment::new(dial(1, 2), 2, 4) };
        let mut options = ConnectOptions::new().environment(environment).mutual();
        if let Some(secret) = secret {
            options = options.secret(secret.clone());
        }
        let error = options.connect().map(drop).unwrap_err();
        let expected = ConnectError::Open(CallError::Peer(PeerError::Unproven));
        assert_eq!(error.to_string(), expected.to_string());
    }
    // A server that asks for no proof, and one of PMI-1, which is not asked in PMI-1.
    for has_frames in [true, false] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let serving = thread::spawn(move || {
            let stream = listener.accept().unwrap().0;
            stream.set_nonblocking(true).unwrap();
            if has_frames {
                serve_over(NonBlocking::of(stream), true, None);
            }
        });
        let versions = RequestedVersions::Newest;
        let environment = Environment { versions, ..Environment::new(dial(port, 2), 2, 4) };
        let options = ConnectOptions::new().environment(environment).mutual();
        assert!(options.secret(secret.clone()).connect().is_err());
        serving.join().unwrap();
    }
}

#[cfg(feature = "tls")]
mod under_tls {
    use super::*;
    use pmi_core::auth::Nonce;
    use pmi_std::tls::Identity;

    /// A server for one client under TLS: its port, and the pin that a client needs.
    fn listen(challenge: Option<Challenge>) -> (u16, String, thread::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let identity = Identity::for_job().unwrap();
        let pin = identity.pin().to_string();
        let serving = thread::spawn(move || {
            let stream = listener.accept().unwrap().0;
            let mut server = identity.accept(stream).unwrap();
            if server.handshake().is_err() {
                return;
            }
            server.get_ref().set_nonblocking(true).unwrap();
            serve_over(NonBlocking::of(server), true, challenge);
        });
        (port, pin, serving)
    }

    fn told(port: u16, pin: &str, version: Version) -> Environment {
        Environment {
            sockets: Sockets::Ssl,
            pin: Some(pin.into()),
            versions: RequestedVersions::Only(version),
            ..Environment::new(dial(port, 2), 2, 4)
        }
    }

    #[test]
    fn both_generations_are_spoken_under_tls_and_the_newer_proves_its_secret() {
        let secret = Secret::new(b"a secret of the job").unwrap();
        let challenge = Challenge::new(&secret, Nonce::new([7; 18]));
        let mutual = Challenge::with_mutual(&secret, Nonce::new([7; 18]));
        for (version, challenge, is_mutual) in [
            (Version::V1_1, None, false),
            (Version::V2_0, Some(challenge), false),
            (Version::V2_0, Some(mutual), true),
        ] {
            let (port, pin, serving) = listen(challenge);
            let environment = Environment {
                versions: RequestedVersions::Only(version),
                ..Environment::new(dial(port, 2), 2, 4)
            };
            let mut options = ConnectOptions::new().environment(environment).secret(secret.clone());
            if is_mutual {
                options = options.mutual();
            }
            let member = options.tls(pin.parse().unwrap()).connect().unwrap();
            let mut pmi = member.unwrap().pmi;
            pmi.put(b"card", b"here").unwrap();
            assert_eq!(pmi.get(b"card").unwrap().as_deref(), Some(&b"here"[..]));
            pmi.finalize().unwrap();
            serving.join().unwrap();
        }
    }

    #[test]
    fn another_certificate_than_the_pinned_one_is_rejected() {
        let (port, pin, serving) = listen(None);
        let other = pin.chars().rev().collect::<String>();
        let refused = connect_by(told(port, &other, Version::V1_1)).unwrap_err();
        assert!(matches!(refused, ConnectError::Tls { .. }), "{refused}");
        assert!(
            refused.to_string().starts_with("no secure connection to the server: "),
            "{refused}"
        );
        serving.join().unwrap();
    }

    // Coverage: W2-56
    #[test]
    fn threads_share_a_connection_under_tls() {
        let (port, pin, serving) = listen(None);
        let options = ConnectOptions::new().environment(told(port, &pin, Version::V2_0));
        // With a limit for the opening, which later waits do not have.
        let member = options.timeout(Duration::from_secs(60)).connect_shared().unwrap().unwrap();
        // One thread waits for an attribute, while others write and read through the same connection.
        let waits = thread::spawn({
            let pmi = member.pmi.clone();
            move || pmi.get_node(b"leader", true).unwrap()
        });
        let others = [b'a', b'b', b'c'].map(|name| {
            let pmi = member.pmi.clone();
            thread::spawn(move || {
                for round in b'0'..=b'9' {
                    let (key, value) = ([name, round], [name; 900]);
                    pmi.put(&key, &value).unwrap();
                    assert_eq!(pmi.get(&key).unwrap().as_deref(), Some(&value[..]));
                }
            })
        });
        others.into_iter().for_each(|other| other.join().unwrap());
        member.pmi.put_node(b"leader", b"here").unwrap();
        assert_eq!(waits.join().unwrap().as_deref(), Some(&b"here"[..]));
        member.pmi.finalize().unwrap();
        serving.join().unwrap();
    }
}
