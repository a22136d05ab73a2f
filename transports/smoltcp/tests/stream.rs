//! The calls of a client over a stream that polls the stack while it waits.

mod net;

use net::{Faults, Net, Office, server_at};
use pmi_core::command::{Verb, Version};
use pmi_core::error::Code;
use pmi_core::server::Member;
use pmi_link::CallError;
use pmi_link::blocking::Pmi1;
use pmi_smoltcp::{Stack, StreamError, TcpStream};
use smoltcp::iface::{Context, SocketHandle};
use smoltcp::socket::tcp::Socket;

/// A stack on which a server runs too, with a limit of polls.
struct Node<'n> {
    net: &'n mut Net,
    office: Option<&'n mut Office>,
    polls_left: u32,
}

impl Stack for Node<'_> {
    fn poll(&mut self) -> Result<(), StreamError> {
        self.polls_left = self.polls_left.checked_sub(1).ok_or(StreamError::TimedOut)?;
        self.net.step();
        if let Some(office) = &mut self.office {
            office.turn(self.net);
        }
        Ok(())
    }

    fn with_socket<T>(
        &mut self,
        handle: SocketHandle,
        run: impl FnOnce(&mut Context, &mut Socket<'_>) -> T,
    ) -> T {
        run(self.net.iface.context(), self.net.sockets.get_mut(handle))
    }
}

const POLLS: u32 = 100_000;

#[test]
fn calls_over_a_stream_wait_for_their_replies_on_a_lossy_wire() {
    for seed in 0..10 {
        let mut net = Net::new(seed, Faults { lost: 5, spoilt: 5, swapped: 5, doubled: 5 });
        let mut office = Office::new(&mut net, vec![Member::new(0, 0)]);
        let handle = net.add_socket(512);
        // The same socket is used again, from another port.
        for round in 0..2 {
            let port = net.fresh_port();
            if round == 1 {
                office = Office::new(&mut net, vec![Member::new(0, 0)]);
            }
            let node = Node { net: &mut net, office: Some(&mut office), polls_left: POLLS };
            let mut stream = TcpStream::new(node, handle);
            stream.connect(server_at(), port).unwrap();
            let mut pmi = Pmi1::new(stream);
            assert_eq!(pmi.greet(0).unwrap().size, 1);
            pmi.init(Version::V1_1).unwrap();
            pmi.kvsname().unwrap();
            let value = [b'v'; 1000];
            pmi.put(b"card", &value).unwrap();
            pmi.fence().unwrap();
            let mut card = [0; 1024];
            assert_eq!(pmi.get(b"card", &mut card), Ok(Some(1000)));
            assert_eq!(card[..1000], value);
            let refused = CallError::Refused { verb: Verb::Unpublish, code: Code(1) };
            assert_eq!(pmi.unpublish(b"none"), Err(refused));
            pmi.finalize().unwrap();
            pmi.into_inner().close().unwrap();
            if round == 0 {
                for handle in office.handles {
                    net.socket(handle).abort();
                }
            }
        }
    }
}

#[test]
fn stream_reports_an_unreachable_server_and_the_end_of_its_time() {
    let mut net = Net::new(1, Faults::default());
    let handle = net.add_socket(512);
    let node = Node { net: &mut net, office: None, polls_left: POLLS };
    let mut stream = TcpStream::new(node, handle);
    assert_eq!(stream.connect(server_at(), 50_000), Err(StreamError::Unreachable));

    let server = net.add_socket(512);
    net.socket(server).listen(server_at().port).unwrap();
    let node = Node { net: &mut net, office: None, polls_left: 1_000 };
    let mut stream = TcpStream::new(node, handle);
    stream.connect(server_at(), 50_001).unwrap();
    let mut pmi = Pmi1::new(stream);
    assert_eq!(pmi.init(Version::V1_1), Err(CallError::Io(StreamError::TimedOut)));

    // Ended while connecting, the socket is closed.
    let mut stream = pmi.into_inner();
    stream.stack().net.socket(handle).abort();
    stream.stack().net.step();
    assert_eq!(stream.connect(server_at(), 50_002), Err(StreamError::TimedOut));
    assert!(!net.socket(handle).is_open());
}

#[test]
fn stream_reports_a_reset() {
    let mut net = Net::new(2, Faults::default());
    let (handle, server) = (net.add_socket(512), net.add_socket(512));
    net.socket(server).listen(server_at().port).unwrap();
    let node = Resetting { net: &mut net, server };
    let mut stream = TcpStream::new(node, handle);
    stream.connect(server_at(), 50_000).unwrap();
    let mut pmi = Pmi1::new(stream);
    assert_eq!(pmi.init(Version::V1_1), Err(CallError::Io(StreamError::Reset)));
}

/// A server that resets the connection as soon as it has received bytes.
struct Resetting<'n> {
    net: &'n mut Net,
    server: SocketHandle,
}

impl Stack for Resetting<'_> {
    fn poll(&mut self) -> Result<(), StreamError> {
        self.net.step();
        let socket = self.net.socket(self.server);
        if socket.can_recv() {
            socket.abort();
        }
        Ok(())
    }

    fn with_socket<T>(
        &mut self,
        handle: SocketHandle,
        run: impl FnOnce(&mut Context, &mut Socket<'_>) -> T,
    ) -> T {
        run(self.net.iface.context(), self.net.sockets.get_mut(handle))
    }
}
