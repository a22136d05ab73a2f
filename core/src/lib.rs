#![no_std]
#![forbid(unsafe_code)]
//! The PMI protocols as machines without I/O: a key-value space, a fence, and both roles.
//!
//! A parallel program starts by asking its process manager: who am I, how many are we, here is my
//! address, tell me the others'. That conversation is PMI. This crate holds it whole, for client
//! and server, and deliberately does not know how bytes travel: no socket, no clock, no file, no
//! environment, no random number, no allocator, no thread.
//!
//! ```text
//!   server   sessions, jobs, name service         client   one conversation, exchanges in flight
//!      │                                             │
//!      ├──────────── store   keys, values, fences    │
//!      └──────────── wire    bytes ⇄ meaning ────────┘
//!                      └──── command   meaning
//!                              ├──── parts   what this build has of it
//!                              └──── ids, limits, time, error, storage, machine
//! ```
//!
//! A module uses only what is drawn below it.
//!
//! # Run loop
//!
//! Both roles are [`Machine`](machine::Machine)s, and every driver is this loop:
//!
//! 1. Transmit: call `poll_transmit` until it says `None`; write what it gave.
//! 2. Read what is there without waiting and hand it to `handle_input`; keep what it does not take.
//!    With nothing to read, hand in an empty slice once: what was held back may go on now.
//! 3. If that let something out, start again at 1.
//! 4. Act on `poll_event`.
//! 5. If `is_finished`, close the link.
//! 6. Wait for the link, for another session of the same server
//!    ([`next_ready`](server::Server::next_ready)), or for `poll_timeout`; then start again.
//!
//! # Sizes
//!
//! Whoever owns a machine lends its memory: the traits in [`storage`] are met by arrays on a board
//! and by vectors on a host. All sizes are derived in [`limits`]. What a board never says it leaves
//! out of its image, by the features that [`parts`] lists.

pub mod auth;
pub mod client;
pub mod command;
pub mod error;
pub mod ids;
pub mod limits;
pub mod machine;
pub mod parts;
pub mod server;
pub mod storage;
pub mod store;
pub mod time;
pub mod wire;

#[cfg(test)]
extern crate std;
