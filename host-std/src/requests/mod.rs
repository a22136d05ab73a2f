//! Requests of PMIx clients, as far as the run, which serves tools, and the nodes, which serve ranks, answer
//! them alike.

pub(crate) mod clients;
pub(crate) mod forwarding;
pub(crate) mod log;
pub(crate) mod query;
pub(crate) mod tools;

/// Cause of a start that took too long.
pub(crate) const LATE: &str = "the time of the hint 'timeout' is over";
