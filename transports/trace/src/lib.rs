#![forbid(unsafe_code)]
//! Recorded conversations of PMI.
//!
//! A trace holds every message between ranks and their server, byte for byte, with the time it was
//! seen, and what happened to processes and connections meanwhile. This crate knows its format, reads
//! it from hostile bytes, and makes it from what other launchers write about themselves. It deliberately
//! does no I/O and reads no clock: bytes and text go in, values and text come out, in a browser too.
//!
//! ```text
//!   view         what can be seen: text, figures, differences, pictures, other viewers
//!   describe     messages in words; exchange   which reply answers which request
//!   import       whatever has a conversation of PMI in it: our own forms, logs of Hydra and Flux
//!   file, json   the format, and the same as JSON lines
//!   stream       whole messages out of bytes as they arrive
//!   message      what a message says
//!      └──── record   what a trace is made of
//! ```

mod bytes;
pub mod describe;
pub mod exchange;
pub mod file;
pub mod import;
pub mod json;
pub mod message;
mod pmix;
pub mod record;
pub mod stream;
pub mod view;

pub use record::{Direction, Head, JobFacts, Record, Trace, What};
