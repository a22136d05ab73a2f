#![forbid(unsafe_code)]
//! Targets of the fuzzers: handling of arbitrary bytes, and the checks that must hold for all of them.
//!
//! Each function here is one target: `fuzz_targets` hands it to libFuzzer, and `tests/corpus.rs` of
//! the core feeds it every file of `corpus` on every test run. They panic on a violation, and
//! are the only definition of a violation.
//!
//! * [`decode_pmi1`], [`decode_pmi2`] and [`decode_binary`]: framing, reading, and writing the read
//!   message.
//! * `decode_pmix`: greetings, requests and values of PMIx, in every format.
//! * [`decode_nodes`]: the same for frames between the nodes of a job.
//! * [`decode_snapshot`]: generations and batches in shared memory.
//! * [`session_bytes`]: a server with several sessions, of which one must stay unharmed.
//! * `session_pmix`: the same for PMIx, with two clients of this crate.
//! * [`client_bytes`]: a client, and a server that sends arbitrary bytes.

mod client;
mod decode;
mod nodes;
mod pmix;
mod pmix_session;
mod script;
mod session;
mod snapshot;

pub use client::client_bytes;
pub use decode::{decode_binary, decode_pmi1, decode_pmi2};
pub use nodes::decode_nodes;
pub use pmix::decode_pmix;
pub use pmix_session::session_pmix;
pub use script::{Step, write_step};
pub use session::session_bytes;
pub use snapshot::decode_snapshot;

/// A target: a function of bytes.
pub type Target = fn(&[u8]);

/// All targets, by the name of their binary and of their corpus.
pub const TARGETS: &[(&str, Target)] = &[
    ("decode_pmi1", decode_pmi1),
    ("decode_pmi2", decode_pmi2),
    ("decode_binary", decode_binary),
    ("decode_nodes", decode_nodes),
    ("session_bytes", session_bytes),
    ("client_bytes", client_bytes),
    ("decode_pmix", decode_pmix),
    ("session_pmix", session_pmix),
    ("decode_snapshot", decode_snapshot),
];
