//! The links of this crate pass the suite, over real sockets.

use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use pmi_link::conformance;
use pmi_std::{NonBlocking, Stream};

/// Lets the system deliver; no check depends on the time this takes.
fn pause() {
    std::thread::sleep(Duration::from_micros(200));
}

#[test]
fn socket_pair_conforms() {
    let connect = || {
        let (near, far) = UnixStream::pair().unwrap();
        (NonBlocking::unix(near).unwrap(), NonBlocking::unix(far).unwrap())
    };
    conformance::all(connect, pause);
}

#[test]
fn unix_socket_with_a_name_conforms() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let connect = || {
        let near = Stream::from(UnixStream::connect(&path).unwrap());
        let (far, _) = listener.accept().unwrap();
        (NonBlocking::stream(near).unwrap(), NonBlocking::unix(far).unwrap())
    };
    conformance::all(connect, pause);
}

#[test]
fn tcp_connection_conforms_from_both_ends() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    conformance::all(
        || {
            let near = TcpStream::connect(address).unwrap();
            let (far, _) = listener.accept().unwrap();
            (NonBlocking::tcp(near).unwrap(), NonBlocking::tcp(far).unwrap())
        },
        pause,
    );
    conformance::all(
        || {
            let far = Stream::dial("127.0.0.1", address.port()).unwrap();
            let (near, _) = listener.accept().unwrap();
            (NonBlocking::tcp(near).unwrap(), NonBlocking::stream(far).unwrap())
        },
        pause,
    );
}
