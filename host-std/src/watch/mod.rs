//! Observation of a run in progress: running ranks, waiting ranks, and the ranks they wait for.
//!
//! ```text
//! process   state of one process from /proc: state, wait channel, processor time
//! activity  what a rank does that others wait for, from /proc: system call, file, child, lock
//! cause     that as a sentence
//! graph     who waits for whom, and where the waits end
//! ranges    many ranks in few characters: 0-2,5
//! table     all of it as data, also the format for programs
//! text      the same for users
//! progress  a line on a terminal while a start or an end takes long
//! stall     decides when a run without progress is reported, and when it is aborted
//! ```

pub(crate) mod activity;
mod cause;
pub(crate) mod graph;
pub(crate) mod process;
pub(crate) mod progress;
pub(crate) mod stall;
pub mod table;
pub(crate) mod text;
