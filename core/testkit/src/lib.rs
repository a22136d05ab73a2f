//! Shared parts of the tests of several crates. Only `dev-dependencies` may name this crate; `cargo xtask
//! layers` rejects any other edge, and it is not published.
//!
//! | module | content |
//! |---|---|
//! | [`server`] | storage in vectors, job descriptions, and [`TestServer`]: a server with one job and a session for each rank |
//! | [`kvs`] | tests that every key-value space passes |
//! | [`pipe`] | [`Pipe`], a link in memory with the properties of a bad network |
//! | [`linked`] | [`LinkedServer`]: a test server behind links, and the loop that serves them |
//! | `pmix` | bytes of PMIx messages, with the feature `pmix` |
//!
//! ```
//! use pmi_testkit::TestServer;
//!
//! let mut server = TestServer::new(2);
//! let reply = server.request(0, "cmd=init pmi_version=1 pmi_subversion=1\n");
//! assert_eq!(reply, "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n");
//! ```
//!
//! # Unit tests of pmi-core
//!
//! Unit tests of `pmi-core` cannot link this crate, since it links another build of `pmi-core`, whose types
//! differ. They include the same files instead: `kvs.rs`, `server.rs` and `pmix.rs` use nothing but
//! `pmi_core` and the standard library, and `pmi-core` names itself `pmi_core` while it is tested. These
//! files therefore import what the prelude of the standard library would bring.
#![no_std]

extern crate std;

pub mod kvs;
pub mod linked;
pub mod pipe;
#[cfg(feature = "pmix")]
pub mod pmix;
pub mod server;

pub use linked::LinkedServer;
pub use pipe::{Pipe, PipeRules};
pub use server::TestServer;
