#![forbid(unsafe_code)]
//! The page on which jobs are played, without its drawing: runs, their messages and events, their
//! state at a moment, and injected faults.
//!
//! The page calls with plain values and receives JSON. Nothing here depends on the page, and
//! nothing is kept but the contents of a link: a scenario, a seed, and the injections of the run.
//!
//! ```text
//!   played     runs of the simulator (feature `played`)
//!      ├── states   states of all ranks, at every moment
//!      └── view     state of a run at one moment
//!   tree       runs of the tree of nodes (feature `tree`)
//!   recorded   runs that were recorded elsewhere (feature `recorded`)
//!      └──── story    messages, fences, events
//!               ├── fields   a message, field by field
//!               └── json     results for the page
//! ```

#[cfg_attr(
    not(any(feature = "played", feature = "pmix", feature = "recorded")),
    allow(dead_code, reason = "a tree has frames between nodes, and no other messages")
)]
mod fields;
mod json;
#[cfg(feature = "played")]
mod links;
#[cfg(any(feature = "played", feature = "pmix"))]
mod played;
#[cfg(feature = "recorded")]
mod recorded;
#[cfg(any(feature = "played", feature = "pmix"))]
mod states;
#[cfg_attr(
    not(any(feature = "played", feature = "pmix", feature = "recorded")),
    allow(dead_code, reason = "a tree has frames between nodes, and no other messages")
)]
mod story;
#[cfg(feature = "tree")]
mod tree;
#[cfg(any(feature = "played", feature = "pmix"))]
mod view;

#[cfg(feature = "played")]
pub use links::{read_link, write_link};
#[cfg(any(feature = "played", feature = "pmix"))]
pub use played::Play;
#[cfg(feature = "pmix")]
pub use played::in_pmix;
#[cfg(feature = "recorded")]
pub use recorded::{Recording, fields_of_last, prove};
#[cfg(feature = "tree")]
pub use tree::TreePlay;
