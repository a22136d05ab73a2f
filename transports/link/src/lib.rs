#![no_std]
#![forbid(unsafe_code)]
//! Moves the bytes of PMI machines.
//!
//! - [`blocking`] and [`task`] are the calls of a client, over the `embedded-io` traits.

pub mod blocking;
mod error;
pub mod task;

pub use error::CallError;

#[cfg(test)]
extern crate std;
