//! The end of ranks, by request and by force ([`control_action`], [`shutdown`], [`out_of_memory`]), and
//! what they may leave behind: files ([`files`]), and processes, which the launcher finds while it runs
//! ([`orphans`], [`cgroup`]), and its guard when it was killed ([`guard`], [`guard_protocol`],
//! [`survivors`]).

mod cgroup;
pub(crate) mod control_action;
pub(crate) mod files;
pub(crate) mod guard;
pub(crate) mod guard_protocol;
pub(crate) mod orphans;
pub(crate) mod out_of_memory;
pub(crate) mod shutdown;
pub(crate) mod survivors;
