#![forbid(unsafe_code)]
//! PMI where JavaScript runs: in the page, in its workers, and in Node.
//!
//! | type | what it is |
//! |---|---|
//! | [`Port`] | a `MessagePort` as a [`Link`](pmi_link::Link): to a worker, a frame, another page |
//! | [`Socket`] | a `WebSocket` as a [`Link`](pmi_link::Link): to a launcher |
//! | [`LinkStream`] | either of them for the calls of a client, which are futures ([`pmi_link::task`]) |
//! | [`PortServer`] | links that speak for a [`Server`](pmi_core::server::Server): the page is a process manager |
//! | [`Clock`] | the clock of the page |
//!
//! Nothing here blocks, since an event loop must not. What waits is a future, and it is woken by
//! events of the browser: run it with `wasm-bindgen-futures`, or with any other executor.
//!
//! # A worker as a rank
//!
//! ```no_run
//! use pmi_core::command::Version;
//! use pmi_link::task::{Opening, AsyncPmi};
//! use pmi_wasm::{LinkStream, Port};
//! use wasm_bindgen::JsValue;
//!
//! /// The page has posted the port, the rank and the number of ranks.
//! async fn rank(port: JsValue, rank: u32, size: u32) -> Option<Vec<u8>> {
//!     let mut pmi = AsyncPmi::new(LinkStream::new(Port::new(port)));
//!     let opening = Opening::new(Version::V1_1);
//!     pmi.open(&opening, &mut []).await.ok()?;
//!     pmi.kvsname().await.ok()?;
//!     pmi.put(format!("card-{rank}").as_bytes(), b"a card").await.ok()?;
//!     pmi.fence().await.ok()?;
//!     let (next, mut card) = ((rank + 1) % size, [0; 64]);
//!     let len = pmi.get(format!("card-{next}").as_bytes(), &mut card).await.ok()??;
//!     pmi.finalize().await.ok()?;
//!     Some(card[..len].to_vec())
//! }
//! ```

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
