#![no_std]
#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]
//!
//! # Parts
//!
//! | you have | you use |
//! |---|---|
//! | a stream that waits (`embedded-io`) | [`blocking::Pmi`]: the calls of a client |
//! | a stream that is awaited (`embedded-io-async`) | [`task::AsyncPmi`]: the same calls as futures |
//! | a stream that never waits | [`Link`]: two calls; [`pump()`] drives any machine over it |
//!
//! `pump` is the only driver loop there is: a host calls it for thousands of sessions out of one
//! readiness loop and with one scratch, a board calls it between two turns of its network stack, a
//! simulator calls it when a delivery is due. What a kind of link must promise is written at
//! [`Link`], and [`conformance`] holds it to that.
//!
//! With the feature `alloc`, [`heap`] has memory for machines that grows with what they hold.
//!
//! Foreign traits stop here: the machines know none of them.

pub mod blocking;
pub mod calls;
pub mod conformance;
mod error;
#[cfg(feature = "alloc")]
pub mod heap;
mod link;
mod pump;
mod session;
pub mod task;

pub use error::{CallError, LinkError, PumpError, SpawnError};
pub use link::{Link, Read, Wrote};
pub use pump::{Progress, PumpState, flush, pump};

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(test)]
extern crate std;
