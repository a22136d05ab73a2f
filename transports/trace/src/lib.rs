#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]
//!
//! # Parts
//!
//! A trace holds every message between ranks and their server, byte for byte, with the time it was
//! seen, and the events of processes and connections. Bytes of a trace are not trusted.
//!
//! ```text
//!   view         views of a trace: text, statistics, differences, pictures, other viewers
//!   describe     messages in words; exchange   pairs of requests and replies
//!   open         a trace in either form: file, the format, or json, the same as JSON lines
//!   stream       whole messages out of bytes as they arrive
//!   message      meaning of a message
//!      └──── record   parts of a trace
//! ```

mod bytes;
pub mod describe;
pub mod exchange;
pub mod file;
pub mod json;
pub mod message;
pub mod open;
mod pmix;
pub mod record;
pub mod stream;
pub mod view;

pub use record::{Content, Direction, Head, JobFacts, Record, Trace};
