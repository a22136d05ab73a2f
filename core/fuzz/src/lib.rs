#![forbid(unsafe_code)]
//! What is done with bytes that somebody chose, and what must hold whatever they are.
//!
//! Each function here is one target: `fuzz_targets` hands it to libFuzzer, and `tests/corpus.rs` of
//! the core feeds it every file of `corpus` on every test run. They panic if something is wrong, and
//! are the only statement of what "wrong" is.
//!
//! * [`decode_pmi1`], [`decode_pmi2`] and [`decode_binary`]: framing, reading, and writing what was read.
//! * `decode_pmix`: greetings, requests and values of PMIx, in every format.
//! * [`session_bytes`]: a server with several sessions, of which one must stay unharmed.
//! * `session_pmix`: the same for PMIx, with two clients of our own.
//! * [`client_bytes`]: a client, and a server that says anything.

mod client;
mod decode;
#[cfg(feature = "pmix")]
mod pmix;
#[cfg(feature = "pmix")]
mod pmix_session;
mod script;
mod session;

pub use client::client_bytes;
pub use decode::{decode_binary, decode_pmi1, decode_pmi2};
#[cfg(feature = "pmix")]
pub use pmix::decode_pmix;
#[cfg(feature = "pmix")]
pub use pmix_session::session_pmix;
pub use script::{Step, write_step};
pub use session::session_bytes;

/// One function that bytes are fed to.
pub type Target = fn(&[u8]);

/// Every target, by the name of its binary and of its corpus.
pub const TARGETS: &[(&str, Target)] = &[
    ("decode_pmi1", decode_pmi1),
    ("decode_pmi2", decode_pmi2),
    ("decode_binary", decode_binary),
    ("session_bytes", session_bytes),
    ("client_bytes", client_bytes),
    #[cfg(feature = "pmix")]
    ("decode_pmix", decode_pmix),
    #[cfg(feature = "pmix")]
    ("session_pmix", session_pmix),
];
