//! The PMIx client of one thread and of several, against a server that a test scripts.
#![cfg(feature = "pmix")]

use pmi_core::error::PeerError;
use pmi_core::wire::Framed;
use pmi_core::wire::pmix::greeting::{Greeting, write_welcome};
use pmi_core::wire::pmix::header::Header;
use pmi_core::wire::pmix::names::Command;
use pmi_core::wire::pmix::request::Request;
use pmi_core::wire::pmix::{Format, Packer, Unpacker};
use pmi_std::pmix::{
    self, CallError, DataRealm, PmixEnvironment, Proc, Security, SharedPmix, Status, Type, Value,
    Within, keys,
};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

const NSPACE: &[u8] = b"job";
const FORMAT: Format = Format::PLAIN;
/// A value of the launcher.
const PROVIDED: &[u8] = b"pmix.cpuset";

/// A connection of one client, whose requests are read and answered one by one.
struct Peer {
    stream: TcpStream,
    unread: Vec<u8>,
}

/// A get: its tag, the rank, and the key.
type Get = (u32, u32, Option<Vec<u8>>);

/// A response: its tag, and the fields behind it.
type Response<'a> = (u32, &'a dyn Fn(&mut Packer<'_>));

/// Starts a server of one client: rank 0 of a job of four on one node, whose ranks 2 and 3 run another
/// program. `script` has the rest of the session.
fn serve<T: Send + 'static>(
    script: impl FnOnce(&mut Peer) -> T + Send + 'static,
) -> (PmixEnvironment, JoinHandle<T>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut peer = Peer { stream, unread: Vec::new() };
        peer.admit();
        script(&mut peer)
    });
    let nspace = String::from_utf8(NSPACE.to_vec()).unwrap();
    let security = Security::None;
    (PmixEnvironment { nspace, rank: 0, address, security, format: FORMAT }, server)
}

impl Peer {
    fn message(&mut self, frame: impl Fn(&[u8]) -> Framed) -> Vec<u8> {
        loop {
            if let Framed::Whole(len) = frame(&self.unread) {
                return self.unread.drain(..len).collect();
            }
            let mut piece = [0; 4096];
            let len = self.stream.read(&mut piece).unwrap();
            assert!(len > 0, "the client has left");
            self.unread.extend_from_slice(&piece[..len]);
        }
    }

    fn admit(&mut self) {
        self.message(|bytes| Greeting::frame(bytes).unwrap());
        let mut welcome = [0; 8];
        write_welcome(7, &mut welcome).unwrap();
        self.stream.write_all(&welcome).unwrap();
        let (tag, body) = self.request();
        assert_eq!(Request::command_of(&body).unwrap().0, Command::REQ);
        self.answer(&[(tag, &|to| {
            to.one(Type::STRING).text(Some(NSPACE));
            to.one(Type::KVAL).text(Some(keys::JOB_SIZE)).of(Type::UINT32).u32(4);
            for rank in 0..4 {
                to.one(Type::KVAL).text(Some(keys::PROC_BLOB)).of(Type::BYTE_OBJECT);
                to.nested(|to| {
                    to.one(Type::PROC_RANK).u32(rank);
                    for (key, number) in [(keys::NODEID, 0), (keys::APPNUM, rank / 2)] {
                        to.one(Type::KVAL).text(Some(key)).of(Type::UINT32).u32(number);
                    }
                });
            }
        })]);
    }

    /// The next request: its tag, and its body.
    fn request(&mut self) -> (u32, Vec<u8>) {
        let message = self.message(Header::frame);
        let (header, body) = message.split_at(Header::BYTES);
        (Header::read(header).unwrap().tag, body.to_vec())
    }

    /// The next get; `None` at a finalize, which is answered.
    fn get(&mut self) -> Option<Get> {
        let (tag, body) = self.request();
        match Request::read(Unpacker::new(&body, FORMAT)).unwrap() {
            Request::Get(get) => Some((tag, get.rank, get.key.map(<[u8]>::to_vec))),
            Request::Finalize => {
                self.answer(&[(tag, &|to| {
                    to.one(Type::STATUS).i32(Status::SUCCESS.0);
                })]);
                None
            }
            request => panic!("{request:?}"),
        }
    }

    /// Sends several responses at once.
    fn answer(&mut self, responses: &[Response<'_>]) {
        let mut all = Vec::new();
        for (tag, write) in responses {
            let mut body = vec![0; 4096];
            let mut to = Packer::new(&mut body, FORMAT);
            write(&mut to);
            let len = to.finish().unwrap();
            let header = Header { index: 0, tag: *tag, body_bytes: u32::try_from(len).unwrap() };
            all.extend_from_slice(&header.bytes());
            all.extend_from_slice(&body[..len]);
        }
        self.stream.write_all(&all).unwrap();
    }

    /// Answers gets; a number is the value of `key`, and without one the process has committed nothing.
    fn answer_gets(&mut self, gets: &[(u32, u32, &[u8], Option<u32>)]) {
        let responses = gets.iter().map(|&(tag, rank, key, value)| {
            let write = move |to: &mut Packer<'_>| {
                let Some(value) = value else {
                    to.one(Type::STATUS).i32(Status::NOT_FOUND.0);
                    return;
                };
                to.one(Type::STATUS).i32(Status::SUCCESS.0).one(Type::BYTE_OBJECT).nested(|to| {
                    Proc { nspace: NSPACE, rank }.write(to.one(Type::PROC));
                    to.one(Type::KVAL).text(Some(key)).of(Type::UINT32).u32(value);
                });
            };
            (tag, write)
        });
        let responses: Vec<_> = responses.collect();
        let lent: Vec<Response<'_>> =
            responses.iter().map(|(tag, write)| (*tag, write as _)).collect();
        self.answer(&lent);
    }
}

const fn of(rank: u32) -> Proc<'static> {
    Proc { nspace: b"", rank }
}

fn number(value: Value<'_>) -> Option<i64> {
    value.number()
}

// Coverage: X1-8
#[test]
fn data_of_a_realm_is_requested_once_and_ahead_of_the_gets() {
    for (realm, ranks) in [
        (DataRealm::Process, &[1][..]),
        (DataRealm::Application, &[1, 0]),
        (DataRealm::Node, &[1, 0, 2, 3]),
        (DataRealm::Job, &[1, 0, 2, 3]),
    ] {
        let (environment, server) = serve(move |peer| {
            // All are under way before the first one is answered.
            let gets: Vec<Get> = ranks.iter().map(|_| peer.get().unwrap()).collect();
            for (tag, rank, _) in &gets {
                peer.answer_gets(&[(*tag, *rank, b"key", Some(10 + rank))]);
            }
            assert_eq!(peer.get(), None, "another request than that for the end");
            gets.into_iter().map(|(_, rank, key)| (rank, key)).collect::<Vec<_>>()
        });
        let mut pmix = pmix::connect_by(&environment).unwrap();
        pmix.prefetch(of(1), realm).unwrap();
        for rank in ranks {
            let value = pmix.get(*rank, b"key").unwrap().and_then(number);
            assert_eq!(value, Some(i64::from(10 + rank)), "{realm:?}");
        }
        pmix.finalize().unwrap();
        let expected: Vec<_> = ranks.iter().map(|rank| (*rank, None)).collect();
        assert_eq!(server.join().unwrap(), expected, "{realm:?}");
    }
}

// Coverage: X1-8
#[test]
fn get_of_a_process_whose_hint_has_found_nothing_requests_it_again() {
    let (environment, server) = serve(|peer| {
        let (tag, rank, _) = peer.get().unwrap();
        peer.answer_gets(&[(tag, rank, b"key", None)]);
        let (tag, rank, key) = peer.get().unwrap();
        peer.answer_gets(&[(tag, rank, b"key", Some(5))]);
        assert_eq!(peer.get(), None);
        (rank, key)
    });
    let mut pmix = pmix::connect_by(&environment).unwrap();
    pmix.prefetch(of(3), DataRealm::Process).unwrap();
    assert_eq!(pmix.get(3, b"key").unwrap().and_then(number), Some(5));
    pmix.finalize().unwrap();
    assert_eq!(server.join().unwrap(), (3, Some(b"key".to_vec())));
}

// Coverage: X1-8
#[test]
fn end_of_a_session_waits_for_what_was_requested_ahead() {
    let (environment, server) = serve(|peer| {
        let gets: Vec<Get> = (0..4).map(|_| peer.get().unwrap()).collect();
        let gets = gets.iter().map(|(tag, rank, _)| (*tag, *rank, &b"key"[..], Some(1)));
        peer.answer_gets(&gets.collect::<Vec<_>>());
        assert_eq!(peer.get(), None);
    });
    let pmix = SharedPmix::new(pmix::connect_by(&environment).unwrap()).unwrap();
    pmix.prefetch(of(0), DataRealm::Job).unwrap();
    pmix.finalize().unwrap();
    server.join().unwrap();
}

#[test]
fn value_of_the_launcher_stays_readable_when_committed_data_arrives_with_it() {
    let (environment, server) = serve(|peer| {
        let gets = [peer.get().unwrap(), peer.get().unwrap()];
        let [provided, committed] = match gets {
            [one, other] if one.2.as_deref() == Some(b"key") => [other, one],
            gets => gets,
        };
        peer.answer_gets(&[(provided.0, 1, PROVIDED, Some(8)), (committed.0, 1, b"key", Some(9))]);
        assert_eq!(peer.get(), None);
    });
    let pmix = SharedPmix::new(pmix::connect_by(&environment).unwrap()).unwrap();
    let (done, both) = mpsc::channel();
    for key in [PROVIDED, b"key"] {
        let (pmix, done) = (pmix.clone(), done.clone());
        thread::spawn(move || {
            let value = pmix.get(of(1), key, Within::Usual, number).unwrap();
            done.send((key, value)).unwrap();
        });
    }
    let mut found = [both.recv().unwrap(), both.recv().unwrap()];
    found.sort_unstable();
    assert_eq!(found, [(&b"key"[..], Some(Some(9))), (PROVIDED, Some(Some(8)))]);
    pmix.finalize().unwrap();
    server.join().unwrap();
}

/// A server that ends right after it has answered, such as one whose job the request terminates, closes the
/// connection before the client has read the answer.
#[test]
fn answer_in_front_of_the_end_of_the_connection_is_returned() {
    let (environment, server) = serve(|peer| {
        let (tag, rank, _) = peer.get().unwrap();
        peer.answer_gets(&[(tag, rank, b"key", Some(6))]);
    });
    let mut pmix = pmix::connect_by(&environment).unwrap();
    let pending = pmix.start_get(of(1), b"key", Within::Usual).unwrap();
    server.join().unwrap();
    assert_eq!(pmix.wait_get(pending).unwrap().and_then(number), Some(6));
    let after = pmix.get(2, b"key").map(|value| value.and_then(number));
    assert!(matches!(after, Err(CallError::Peer(PeerError::LeftEarly))), "{after:?}");
}
