#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]
//!
//! # Parts
//!
//! | part | what it is |
//! |---|---|
//! | [`Port`] | a `MessagePort` as a [`Link`](pmi_link::Link): to a worker, a frame, another page |
//! | [`Socket`] | a `WebSocket` as a [`Link`](pmi_link::Link): to a launcher |
//! | [`LinkStream`] | either of them for the calls of a client, which are futures ([`pmi_link::task`]) |
//! | [`PortServer`] | links that speak for a [`Server`](pmi_core::server::Server): the page is a process manager |
//! | [`Clock`] | the clock of the page |
//!
//! Nothing here blocks, since an event loop must not. What waits is a future, and it is woken by
//! events of the browser: run it with `wasm-bindgen-futures`, or with any other executor.

mod clock;
mod js;
mod port;
mod port_server;
mod receive_queue;
mod socket;
mod stream;

pub use clock::Clock;
pub use port::Port;
pub use port_server::{HeapStorage, PortServer, PortServerEvent};
pub use receive_queue::AsyncLink;
pub use socket::Socket;
pub use stream::{LinkStream, StreamError};
