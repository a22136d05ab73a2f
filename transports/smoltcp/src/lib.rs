#![no_std]
#![forbid(unsafe_code)]
//! PMI over the TCP sockets of smoltcp: polled, without heap, threads or environment.
//!
//! | type | what it is |
//! |---|---|
//! | [`TcpClient`] | a client with its connection: connects, exchanges messages, closes |
//! | [`Acceptor`] | listening sockets and their connections, for a [`Server`](pmi_core::server::Server): the node is a process manager |
//! | [`SocketLink`] | a socket as a [`Link`](pmi_link::Link), for [`pump`](pmi_link::pump()) |
//!
//! The owner polls the stack, then the client or the acceptor, and again. Nothing here waits, reads a
//! clock, draws a random number or chooses a time-out: `smoltcp` has time-outs and
//! keep-alive for each socket, a client can be [aborted](TcpClient::abort) and
//! [connected](TcpClient::connect) again at any time.
//!
//! # A client
//!
//! ```
//! use pmi_core::client::FixedBuffer;
//! use pmi_core::command::{Answer, FenceGroup, Place, Request, Version};
//! use pmi_smoltcp::{TcpClient, ConnectionError, ConnBuffer, core_time};
//! use smoltcp::iface::{Interface, SocketHandle, SocketSet};
//! use smoltcp::{phy::Device, socket::tcp, time::Instant, wire::IpEndpoint};
//!
//! fn exchange(
//!     iface: &mut Interface,
//!     device: &mut impl Device,
//!     sockets: &mut SocketSet<'_>,
//!     handle: SocketHandle,
//!     server: IpEndpoint,
//!     id: u64,
//!     clock: impl Fn() -> Instant,
//! ) -> Result<(), ConnectionError> {
//!     let mut client = TcpClient::<FixedBuffer, ConnBuffer<64>, ConnBuffer<512>>::new();
//!     client.connect(sockets.get_mut::<tcp::Socket>(handle), iface.context(), server, 49152)?;
//!     let mut poll = |client: &mut TcpClient<_, _, _>| {
//!         iface.poll(clock(), device, sockets);
//!         let socket = sockets.get_mut::<tcp::Socket>(handle);
//!         client.poll(core_time(clock()), socket, &mut [0; 1024])
//!     };
//!     let own = Place::Job(None);
//!     client.request(&Request::InitAck { id }, &mut poll, |_| ())?;
//!     client.request(&Request::Init { version: Version::V1_1 }, &mut poll, |_| ())?;
//!     client.request(&Request::KvsName, &mut poll, |_| ())?;
//!     let put = Request::Put { place: own, key: "card-0".into(), value: "10.0.0.1:4000".into() };
//!     client.request(&put, &mut poll, |_| ())?;
//!     client.request(&Request::Fence { group: FenceGroup::World, tag: None }, &mut poll, |_| ())?;
//!     let get = Request::Get { place: own, key: "card-1".into(), wait: false };
//!     let found = client.request(&get, &mut poll, |reply| matches!(reply.answer, Answer::Value(_)))?;
//!     client.request(&Request::Finalize, &mut poll, |_| ())?;
//!     while !poll(&mut client)?.is_closed() {}
//!     assert!(found);
//!     Ok(())
//! }
//! ```

mod acceptor;
mod clock;
mod socket;
mod tcp_client;

pub use acceptor::{Acceptor, AcceptorEvent};
pub use clock::{core_time, smoltcp_time};
pub use socket::{SocketLink, close_socket};
pub use tcp_client::{ConnectionError, DialState, TcpClient};

/// Memory for the bytes of one direction of one connection.
pub type ConnBuffer<const BYTES: usize> = heapless::Vec<u8, BYTES>;
