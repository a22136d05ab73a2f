//! What processes leave behind: files ([`files`]), and descendants, which the launcher finds while it runs
//! ([`orphans`], `cgroup`), and its guard when it was killed ([`guard`], [`guard_protocol`],
//! [`survivors`]).

mod cgroup;
pub mod files;
pub mod guard;
pub mod guard_protocol;
pub mod orphans;
pub mod survivors;
