//! TLS between real sockets: the suite for links, and the errors with a wrong peer.
#![cfg(feature = "tls")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use pmi_link::conformance;
use pmi_std::NonBlocking;
use pmi_std::tls::{Client, Identity, Server};

fn sockets() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    // A test that hangs fails with a timeout.
    near.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let far = listener.accept().unwrap().0;
    far.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    (near, far)
}

/// Both ends, with the handshake done.
fn pair(identity: &Identity) -> (Client, Server) {
    let (near, far) = sockets();
    let mut client = Client::new(near, identity.pin()).unwrap();
    let mut server = identity.accept(far).unwrap();
    let accepting = thread::spawn(move || {
        server.handshake().unwrap();
        server
    });
    client.handshake().unwrap();
    (client, accepting.join().unwrap())
}

#[test]
fn connection_under_tls_conforms_from_both_ends() {
    let identity = Identity::for_job().unwrap();
    let pause = || thread::sleep(Duration::from_micros(200));
    let links = || {
        let (client, server) = pair(&identity);
        client.get_ref().set_nonblocking(true).unwrap();
        server.get_ref().set_nonblocking(true).unwrap();
        (NonBlocking::of(client), NonBlocking::of(server))
    };
    conformance::all(links, pause);
    conformance::all(
        || {
            let (client, server) = links();
            (server, client)
        },
        pause,
    );
}

#[test]
fn much_goes_through_in_both_directions() {
    let (mut client, mut server) = pair(&Identity::for_job().unwrap());
    let sent: Vec<u8> = (0..1_000_000u32).map(|n| n.to_le_bytes()[0]).collect();
    let expected = sent.clone();
    let echo = thread::spawn(move || {
        let mut received = vec![0; expected.len()];
        server.read_exact(&mut received).unwrap();
        assert_eq!(received, expected);
        server.write_all(&received).unwrap();
        server.flush().unwrap();
    });
    client.write_all(&sent).unwrap();
    client.flush().unwrap();
    let mut back = vec![0; sent.len()];
    client.read_exact(&mut back).unwrap();
    echo.join().unwrap();
    assert_eq!(back, sent);
}

#[test]
fn certificate_of_another_job_is_refused_by_both_ends() {
    let (near, far) = sockets();
    let (identity, other) = (Identity::for_job().unwrap(), Identity::for_job().unwrap());
    let mut server = identity.accept(far).unwrap();
    let accepting = thread::spawn(move || server.handshake().unwrap_err().to_string());
    let mut client = Client::new(near, other.pin()).unwrap();
    let refused = client.handshake().unwrap_err().to_string();
    assert!(refused.contains("certificate"), "{refused}");
    drop(client);
    assert!(!accepting.join().unwrap().is_empty());
}

#[test]
fn peer_that_speaks_in_the_clear_is_refused() {
    let (mut near, far) = sockets();
    let mut server = Identity::for_job().unwrap().accept(far).unwrap();
    near.write_all(b"cmd=initack pmiid=0\n").unwrap();
    let refused = server.handshake().unwrap_err().to_string();
    assert!(refused.contains("corrupt message"), "{refused}");

    let (near, mut far) = sockets();
    let mut client = Client::new(near, Identity::for_job().unwrap().pin()).unwrap();
    far.write_all(b"cmd=initack rc=0\n").unwrap();
    assert!(client.handshake().is_err());
}

#[test]
fn handshake_that_is_cut_off_is_an_end() {
    let (near, far) = sockets();
    let mut server = Identity::for_job().unwrap().accept(far).unwrap();
    drop(near);
    assert_eq!(server.read(&mut [0; 8]).unwrap(), 0);
}
