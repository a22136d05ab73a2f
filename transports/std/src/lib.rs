#![doc = include_str!("../README.md")]
//!
//! # Parts
//!
//! Options of a connection are in [`ConnectOptions`]. A server, or a program that drives a machine itself,
//! uses these parts:
//!
//! | part | what it is |
//! |---|---|
//! | [`SharedPmi`] | the calls of a client that several threads use at once |
//! | [`mod@env`] | the environment of a rank, read without side effects |
//! | [`Stream`] | an inherited descriptor, a Unix socket or a TCP connection, that waits |
//! | [`NonBlocking`] | the same as a [`Link`](pmi_link::Link) for [`pmi_link::pump()`] |
//! | [`BoundedBuf`] | a [`Buffer`](pmi_core::storage::Buffer) on the heap |
//! | `pmix` | the calls of a client of PMIx, with the feature of that name |
//! | `server` | a server for ranks that its owner has started, with the feature of that name |
//! | `snapshot` | values in memory that is shared with the server, with the feature of that name |
//! | `tls` | connections under TLS, with the feature of that name |
//! | [`Notices`] | a second connection, on which the server announces checkpoints and the end of the job |
//! | [`singleton`] | a launcher for a process that was started by itself |
//! | [`Clock`] | the system's clock as [`Instant`](pmi_core::time::Instant)s |
//!
//! Processes, and waiting for many links, belong to the host.

mod clock;
mod connect;
pub mod env;
mod inherit;
mod munge;
mod nonblocking;
mod notices;
mod owned;
mod pmi;
#[cfg(feature = "pmix")]
pub mod pmix;
#[cfg(feature = "server")]
pub mod server;
pub mod shared;
pub mod singleton;
#[cfg(feature = "snapshot")]
pub mod snapshot;
mod stream;
#[cfg(feature = "tls")]
pub mod tls;

pub use clock::Clock;
pub use connect::{
    ConnectError, ConnectOptions, Member, connect, connect_by, connect_shared, reach,
};
#[cfg(feature = "snapshot")]
pub use inherit::close_on_exec;
pub use nonblocking::NonBlocking;
pub use notices::Notices;
pub use owned::{Neighbours, OwnedPair, Spawned};
pub use pmi::Pmi;
pub use pmi_link::heap::BoundedBuf;
pub use shared::SharedPmi;
pub use stream::Stream;
