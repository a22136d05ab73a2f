#![no_std]
#![forbid(unsafe_code)]
#![warn(clippy::host_endian_bytes)]
#![doc = include_str!("../README.md")]
//!
//! # Layers
//!
//! This crate deliberately does not know how bytes travel: no socket, no clock, no file, no environment, no
//! random number, no allocator, no thread.
//!
//! ```text
//!   server   sessions, jobs, name service         client   one session, requests in flight
//!      │                                             │
//!      ├──────────── store   keys, values, fences    │
//!      └──────────── wire    bytes ⇄ messages ───────┘
//!                      └──── command   messages
//!                              ├──── parts   protocol parts of this build
//!                              └──── ids, limits, time, error, storage, pool, machine
//! ```
//!
//! A module uses only the modules below it.
//!
//! # Run loop
//!
//! Both roles are [`Machine`](machine::Machine)s, and every driver is this loop:
//!
//! 1. Transmit: call `poll_transmit` until it returns `None`; write each message.
//! 2. Read without waiting and pass the bytes to `handle_input`; keep those that it does not consume.
//!    With nothing to read, pass an empty slice once: deferred input may continue now.
//! 3. If there is something to transmit, start again at 1.
//! 4. Act on `poll_event`.
//! 5. If `is_finished`, close the link.
//! 6. Wait for the link, for another session of the same server
//!    ([`next_ready`](server::Server::next_ready)), or for `poll_timeout`; then start again.
//!
//! # Sizes
//!
//! The owner of a machine lends its memory: arrays on a board and vectors on a host implement the traits in
//! [`storage`]. All sizes are derived in [`limits`]. The features that [`parts`] lists leave unused parts
//! of the protocols out of an image.

pub mod auth;
pub mod client;
pub mod command;
pub mod error;
#[cfg(feature = "defmt")]
mod format;
pub mod ids;
pub mod limits;
pub mod machine;
pub mod parts;
pub mod pool;
pub mod server;
pub mod storage;
pub mod store;
pub mod time;
pub mod wire;

#[cfg(test)]
extern crate std;

// Files of the test kit, which name this crate as other crates do; its page states the reason.
#[cfg(test)]
extern crate self as pmi_core;
#[cfg(test)]
#[path = "../testkit/src"]
#[allow(dead_code, unreachable_pub, reason = "it is written for other crates, too")]
mod testkit {
    pub(crate) mod kvs;
    #[cfg(feature = "pmix")]
    pub(crate) mod pmix;
    pub(crate) mod server;
}
