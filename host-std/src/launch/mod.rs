//! Starting ranks and everything that ties a running rank to this process. Each chapter uses those below it:
//!
//! ```text
//! start         from a plan to running processes
//! environment   variables of ranks
//! plan          what is to run: jobs, spawn requests, offers to programs
//! cleanup       the end of ranks
//! topology      processors and memory of the machine
//! ```
//!
//! Beside them are the [`preview`] of a job for users and [`signal`]s to this process.

pub(crate) mod cleanup;
pub(crate) mod environment;
pub(crate) mod plan;
pub(crate) mod preview;
pub(crate) mod signal;
pub(crate) mod start;
pub(crate) mod topology;
