#![no_std]
#![forbid(unsafe_code)]
//! PMI over the TCP sockets of smoltcp: polled, without heap, threads or environment.
//!
//! | type | what it is |
//! |---|---|
//! | [`Call`] | a client that dials, talks and hangs up |
//! | [`Desk`] | sockets that take calls for a [`Server`](pmi_core::server::Server): the node is a process manager |
//! | [`SocketLink`] | a socket as a [`Link`](pmi_link::Link), for [`pump`](pmi_link::pump()) |
//!
//! The owner polls the stack, then the call or the desk, and again. Nothing here waits, reads a
//! clock, draws a random number or decides how long is too long: `smoltcp` has time-outs and
//! keep-alive for each socket, a call can be [abandoned](Call::abandon) and
//! [dialled](Call::dial) again at any time.
//!
//! # A client
//!
//! ```
//! use pmi_core::client::FixedBuffer;
//! use pmi_core::command::{Answer, Group, Place, Request, Version};
//! use pmi_smoltcp::{Call, CallError, Line, core_time};
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
//! ) -> Result<(), CallError> {
//!     let mut call = Call::<FixedBuffer, Line<64>, Line<512>>::new();
//!     call.dial(sockets.get_mut::<tcp::Socket>(handle), iface.context(), server, 49152)?;
//!     let mut turn = |call: &mut Call<_, _, _>| {
//!         iface.poll(clock(), device, sockets);
//!         let socket = sockets.get_mut::<tcp::Socket>(handle);
//!         call.turn(core_time(clock()), socket, &mut [0; 1024])
//!     };
//!     let own = Place::Job(None);
//!     call.ask(&Request::InitAck { id }, &mut turn, |_| ())?;
//!     call.ask(&Request::Init { version: Version::V1_1 }, &mut turn, |_| ())?;
//!     call.ask(&Request::KvsName, &mut turn, |_| ())?;
//!     let put = Request::Put { place: own, key: "card-0".into(), value: "10.0.0.1:4000".into() };
//!     call.ask(&put, &mut turn, |_| ())?;
//!     call.ask(&Request::Fence { group: Group::World, tag: None }, &mut turn, |_| ())?;
//!     let get = Request::Get { place: own, key: "card-1".into(), wait: false };
//!     let found = call.ask(&get, &mut turn, |reply| matches!(reply.answer, Answer::Value(_)))?;
//!     call.ask(&Request::Finalize, &mut turn, |_| ())?;
//!     while !turn(&mut call)?.is_over() {}
//!     assert!(found);
//!     Ok(())
//! }
//! ```

mod call;
mod clock;
mod desk;
mod socket;

pub use call::{Call, CallError, Stage};
pub use clock::{core_time, smoltcp_time};
pub use desk::{Desk, Notice};
pub use socket::{SocketLink, hang_up};

/// Memory for the bytes of one direction of one connection.
pub type Line<const BYTES: usize> = heapless::Vec<u8, BYTES>;
