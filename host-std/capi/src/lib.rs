#![doc = include_str!("../README.md")]
//!
//! # Parts
//!
//! | part | contents |
//! |---|---|
//! | [`pmi1`], [`pmi2`] | the exported functions: arguments, and one call of the session |
//! | [`server`] | the exported functions of the embeddable server |
//! | `code` | return codes, and the code of each error |
//! | `text` | strings, numbers and arrays of C callers: the only `unsafe` besides fork detection and descriptors |
//! | `boundary` | the end of every call: no panic passes it |
//! | `process` | the session of this process, and forked children |
//! | `session` | the way to a server: PMI wire protocols, or none |
#![allow(non_snake_case, reason = "the functions have the names of the specifications")]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod boundary;
mod code;
mod environment;
mod node;
pub mod pmi1;
pub mod pmi2;
mod process;
pub mod server;
mod session;
pub mod text;

pub use boundary::{pmi_capi_inject_panic, pmi_capi_version};
