//! Errors of a client and an acceptor when the other end misbehaves, and a check that both can be used
//! again.

mod net;

use net::{Faults, Net, Office, PORT, server_at};
use pmi_core::client::{BUFFER_BYTES, FixedBuffer};
use pmi_core::command::{Place, Request, Version};
use pmi_core::error::{Code, Malformed, PeerError};
use pmi_core::ids::Rank;
use pmi_core::machine::Machine;
use pmi_core::server::{Member, Phase};
use pmi_core::time::Duration;
use pmi_link::{LinkError, PumpError};
use pmi_smoltcp::{AcceptorEvent, ConnBuffer, ConnectionError, DialState, TcpClient, close_socket};
use smoltcp::iface::SocketHandle;

type Client = TcpClient<FixedBuffer, ConnBuffer<64>, ConnBuffer<2048>>;

/// A client with its socket, and a server's socket that the test writes to.
struct Scene {
    net: Net,
    client: Client,
    own: SocketHandle,
    server: SocketHandle,
}

impl Scene {
    fn new() -> Self {
        let mut net = Net::new(5, Faults::default());
        let [own, server] = [(); 2].map(|()| net.add_socket(8192));
        Self { net, client: Client::new(), own, server }
    }

    fn connect(&mut self) {
        let port = self.net.fresh_port();
        let socket = self.net.sockets.get_mut(self.own);
        self.client.connect(socket, self.net.iface.context(), server_at(), port).unwrap();
    }

    fn turn(&mut self) -> Result<DialState, ConnectionError> {
        self.net.step();
        let (now, socket) = (self.net.now(), self.net.sockets.get_mut(self.own));
        self.client.poll(now, socket, &mut [0; 4096])
    }

    /// Opens a session and lets the server send `answers`, one to each request.
    fn talk(&mut self, answers: &[&[u8]]) -> Result<(), ConnectionError> {
        self.net.socket(self.server).listen(PORT).unwrap();
        self.connect();
        while self.turn()? != DialState::Connected {}
        let get =
            Request::Get { place: Place::Job(Some("kvs_1".into())), key: "k".into(), wait: false };
        for (request, answer) in [Request::Init { version: Version::V1_1 }, get].iter().zip(answers)
        {
            self.client.client().start(request).unwrap();
            while !self.net.socket(self.server).can_recv() {
                self.turn()?;
            }
            self.net.socket(self.server).recv(|bytes| (bytes.len(), ())).unwrap();
            self.net.socket(self.server).send_slice(answer).unwrap();
            while self.client.poll_event().is_none() {
                self.turn()?;
            }
        }
        Ok(())
    }

    /// Ends both sides, and shows that the same client can have a whole session afterwards.
    fn can_be_used_again(mut self) {
        for _ in 0..100_000 {
            let _still_hanging_up = self.turn();
            if close_socket(self.net.socket(self.server))
                && self.client.state() == DialState::Closed
            {
                break;
            }
        }
        self.talk(&[INIT, b"cmd=get_result rc=0 value=v\n"]).unwrap();
    }
}

const INIT: &[u8] = b"cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n";

fn peer(error: PeerError) -> impl Fn(&ConnectionError) -> bool {
    move |found| matches!(found, ConnectionError::Pump(PumpError::Peer { error: e, .. }) if *e == error)
}

#[test]
fn port_without_listener_is_unreachable() {
    let mut scene = Scene::new();
    scene.connect();
    let error = loop {
        if let Err(error) = scene.turn() {
            break error;
        }
    };
    assert_eq!((error, scene.client.state()), (ConnectionError::Unreachable, DialState::Closed));
    scene.can_be_used_again();
}

#[test]
fn malformed_line_ends_the_call() {
    for answer in [&b"hello\n"[..], b"\0\0\0\0", b"cmd=\n"] {
        let mut scene = Scene::new();
        let error = scene.talk(&[INIT, answer]).unwrap_err();
        assert!(peer(PeerError::Malformed(Malformed::new(0, "cmd=")))(&error), "{error:?}");
        scene.can_be_used_again();
    }
}

#[test]
fn reply_longer_than_the_buffer_ends_the_call() {
    let mut scene = Scene::new();
    let long = [b"cmd=get_result rc=0 value=", &[b'v'; BUFFER_BYTES][..], b"\n"].concat();
    let error = scene.talk(&[INIT, &long]).unwrap_err();
    assert!(peer(PeerError::MessageTooLong { limit_bytes: BUFFER_BYTES })(&error), "{error:?}");
    scene.can_be_used_again();
}

#[test]
fn server_that_goes_in_the_middle_is_noticed() {
    let mut scene = Scene::new();
    scene.talk(&[INIT]).unwrap();
    scene.net.socket(scene.server).close();
    let error = std::iter::from_fn(|| Some(scene.turn())).find_map(Result::err).unwrap();
    assert!(peer(PeerError::LeftEarly)(&error), "{error:?}");
    scene.can_be_used_again();

    let mut scene = Scene::new();
    scene.talk(&[INIT]).unwrap();
    scene.net.socket(scene.server).abort();
    let error = std::iter::from_fn(|| Some(scene.turn())).find_map(Result::err).unwrap();
    assert_eq!(error, ConnectionError::Pump(PumpError::Link(LinkError::Reset)));
    scene.can_be_used_again();
}

#[test]
fn aborted_client_can_connect_again() {
    let mut scene = Scene::new();
    scene.talk(&[INIT]).unwrap();
    scene.client.abort(scene.net.sockets.get_mut(scene.own));
    while scene.turn() != Ok(DialState::Closed) {}
    scene.net.step();
    assert!(!scene.net.socket(scene.server).is_open(), "the server was told by a reset");
    scene.can_be_used_again();
}

/// A rank that has identified itself and opened its session with an office.
fn joined(
    net: &mut Net,
    office: &mut Office,
    id: u64,
) -> (Client, SocketHandle, Result<(), ConnectionError>) {
    let (mut client, own) = (Client::new(), net.add_socket(512));
    let port = net.fresh_port();
    client.connect(net.sockets.get_mut(own), net.iface.context(), server_at(), port).unwrap();
    let mut turn = |client: &mut Client| {
        net.step();
        office.turn(net);
        client.poll(net.now(), net.sockets.get_mut(own), &mut [0; 4096])
    };
    let mut request = |request| {
        client.client().start(&request).unwrap();
        while client.poll_event().is_none() {
            turn(&mut client)?;
        }
        Ok(())
    };
    let told = request(Request::InitAck { id })
        .and_then(|()| request(Request::Init { version: Version::V1_1 }));
    (client, own, told)
}

#[test]
fn wrong_token_is_refused_and_the_right_one_still_gets_in() {
    let mut net = Net::new(6, Faults::default());
    let mut office = Office::new(&mut net, vec![Member::new(0, 0).with_token(0xdead_beef)]);
    for wrong in [0, 1, 0xdead_beee] {
        let (_, _, told) = joined(&mut net, &mut office, wrong);
        let refused = PeerError::Refused(Code::INIT);
        assert!(told.as_ref().is_err_and(peer(refused)), "{told:?}");
    }
    let (_, _, told) = joined(&mut net, &mut office, 0xdead_beef);
    assert_eq!(told, Ok(()));
}

#[test]
fn node_that_vanishes_is_a_lost_rank() {
    let mut net = Net::new(7, Faults::default());
    let mut office = Office::new(&mut net, vec![Member::new(0, 0); 2]);
    for handle in office.handles {
        net.socket(handle).set_keep_alive(Some(smoltcp::time::Duration::from_secs(5)));
    }
    let (_, own, told) = joined(&mut net, &mut office, 1);
    assert_eq!(told, Ok(()));
    // Without a last segment only the stack detects that the peer is gone.
    net.sockets.remove(own);
    let limit = net.now().plus(Duration::from_secs(10));
    while office.notices.is_empty() {
        assert!(net.now() < limit, "the failure was not noticed");
        net.step();
        office.turn(&mut net);
    }
    let error = PumpError::Link(LinkError::Reset);
    assert_eq!(
        office.notices,
        [AcceptorEvent::Disconnected { job: office.job, rank: Some(Rank(1)), error }]
    );
    let job = office.server.job(office.job).unwrap();
    assert_eq!(job.member(Rank(1)).unwrap().phase(), Phase::Lost);
}

#[test]
fn caller_too_many_is_refused_and_a_place_that_is_free_again_is_given_away() {
    let mut net = Net::new(8, Faults::default());
    let mut office = Office::new(&mut net, vec![Member::new(0, 0); 6]);
    let mut calls: Vec<_> = (0..4).map(|id| joined(&mut net, &mut office, id)).collect();
    assert!(calls.iter().all(|(_, _, told)| told.is_ok()));
    let (mut late, own) = (Client::new(), net.add_socket(512));
    let port = net.fresh_port();
    late.connect(net.sockets.get_mut(own), net.iface.context(), server_at(), port).unwrap();
    // As with every stack: the port has no listener left.
    let refused = std::iter::from_fn(|| {
        net.step();
        Some(late.poll(net.now(), net.sockets.get_mut(own), &mut [0; 4096]))
    });
    assert_eq!({ refused }.find_map(Result::err), Some(ConnectionError::Unreachable));
    let (client, handle, _) = &mut calls[0];
    client.client().start(&Request::Finalize).unwrap();
    while !client.client().is_finished() || client.state() != DialState::Closed {
        net.step();
        office.turn(&mut net);
        client.poll(net.now(), net.sockets.get_mut(*handle), &mut [0; 4096]).unwrap();
    }
    let (_, _, told) = joined(&mut net, &mut office, 5);
    assert_eq!(told, Ok(()));
}
