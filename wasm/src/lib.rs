#![forbid(unsafe_code)]
//! The page on which jobs are played, as far as it is no drawing: runs, what happened in them, how they
//! stand at a moment, and what somebody does to them.
//!
//! The page asks in small words and is told in JSON. Nothing here knows the page, and nothing is kept
//! but what a link holds: a scenario, a seed, and what was done to the run.
//!
//! ```text
//!   played     runs of the simulator (feature `played`)
//!      └── view     how everything stands at one moment
//!   recorded   runs that were recorded elsewhere (feature `recorded`)
//!      └──── story    what happened: messages, fences, events
//!               ├── fields   a message, field by field
//!               └── json     what the page is told
//! ```

mod fields;
mod json;
#[cfg(feature = "played")]
mod links;
#[cfg(feature = "runs")]
mod played;
#[cfg(feature = "recorded")]
mod recorded;
mod story;
#[cfg(feature = "runs")]
mod view;

#[cfg(feature = "played")]
pub use links::{read_link, write_link};
#[cfg(feature = "runs")]
pub use played::Play;
#[cfg(feature = "pmix")]
pub use played::in_pmix;
#[cfg(feature = "recorded")]
pub use recorded::{Recording, prove};
