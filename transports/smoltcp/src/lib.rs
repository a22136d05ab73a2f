#![no_std]
#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]
//!
//! # Parts
//!
//! | type | meaning |
//! |---|---|
//! | [`TcpStream`] | a connection that waits, for the calls of [`pmi_link::blocking`] |
//! | [`TcpClient`] | a client that never waits: connects, exchanges, closes |
//! | [`Acceptor`] | listening sockets and their connections, for a [`Server`](pmi_core::server::Server) |
//! | [`SocketLink`] | a socket as a [`Link`](pmi_link::Link), for [`pump`](pmi_link::pump()) |
//!
//! The owner polls the stack, then the client or the acceptor, and again; a stream does so itself. Nothing
//! here reads a clock, draws a random number or chooses a time-out: `smoltcp` has time-outs and
//! keep-alive for each socket, a client can be [aborted](TcpClient::abort) and
//! [connected](TcpClient::connect) again at any time.

mod acceptor;
mod clock;
mod socket;
mod tcp_client;
mod tcp_stream;

pub use acceptor::{Acceptor, AcceptorEvent};
pub use clock::{core_time, smoltcp_time};
pub use socket::{SocketLink, close_socket};
pub use tcp_client::{ConnectionError, DialState, TcpClient};
pub use tcp_stream::{NetStack, Stack, StreamError, TcpStream};

/// Memory for the bytes of one direction of one connection.
pub type ConnBuffer<const BYTES: usize> = pmi_core::storage::ArrayBuffer<BYTES>;
