//! Starting ranks and everything that ties a running rank to this process: its place in the job
//! ([`plan`], [`preview`]) and in the machine ([`binding`], [`topology`]), its environment ([`mod@env`],
//! [`variables`]), the process itself ([`process`], [`trampoline`], [`script`]), signals to and from it
//! ([`signal`]) and what it may leave behind ([`orphans`], [`guard`], [`survivors`], [`cgroup`]). What ranks
//! start themselves comes as an [`order`] of [`program`]s.

pub mod apps;
pub mod binding;
pub mod cgroup;
pub mod cleanup;
pub mod codes;
pub mod descriptors;
pub mod env;
pub mod families;
pub mod guard;
pub mod ladder;
pub mod library;
pub mod memory;
pub mod order;
pub mod orphans;
pub mod plan;
pub mod pmix;
pub mod preview;
pub mod process;
pub mod processes;
pub mod program;
pub mod script;
mod sharing;
pub mod signal;
mod soft;
pub mod survivors;
pub mod topology;
pub mod trampoline;
pub mod variables;
