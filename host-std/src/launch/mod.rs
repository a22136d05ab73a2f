//! Starting ranks and everything that ties a running rank to this process. Each chapter uses those below it:
//!
//! ```text
//! start         from a plan to running processes
//! environment   variables of ranks
//! plan          what is to run: jobs, spawn requests, offers to programs
//! cleanup       the end of ranks, and what they may leave behind
//! topology      processors and memory of the machine
//! ```
//!
//! Beside them are the [`preview`] of a job for users, [`signal`]s to this process, and what all share:
//! [`processes`] of the machine, a [`process_handle`] for one of them, and the [`null_device`].

pub(crate) mod cleanup;
pub(crate) mod environment;
pub(crate) mod null_device;
pub(crate) mod plan;
pub(crate) mod preview;
pub(crate) mod process_handle;
pub(crate) mod processes;
pub(crate) mod signal;
pub(crate) mod start;
pub(crate) mod topology;
