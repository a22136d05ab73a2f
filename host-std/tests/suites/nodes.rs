//! Runs over several hosts.

#[path = "../common/mod.rs"]
mod common;

#[path = "../nodes.rs"]
mod nodes;
#[path = "../nodes_added.rs"]
mod nodes_added;
#[path = "../nodes_allocations.rs"]
mod nodes_allocations;
#[path = "../nodes_dial.rs"]
mod nodes_dial;
#[path = "../nodes_early.rs"]
mod nodes_early;
#[path = "../nodes_encryption.rs"]
mod nodes_encryption;
#[path = "../nodes_failures.rs"]
mod nodes_failures;
#[path = "../nodes_fanout.rs"]
mod nodes_fanout;
#[path = "../nodes_gridengine.rs"]
mod nodes_gridengine;
#[path = "../nodes_growth.rs"]
mod nodes_growth;
#[path = "../nodes_late.rs"]
mod nodes_late;
#[path = "../nodes_min.rs"]
mod nodes_min;
#[path = "../nodes_names.rs"]
mod nodes_names;
#[path = "../nodes_paused.rs"]
mod nodes_paused;
#[path = "../nodes_pmix.rs"]
mod nodes_pmix;
#[path = "../nodes_preempted.rs"]
mod nodes_preempted;
#[path = "../nodes_relay.rs"]
mod nodes_relay;
#[path = "../nodes_reports.rs"]
mod nodes_reports;
#[path = "../nodes_slurm.rs"]
mod nodes_slurm;
#[path = "../nodes_spawn.rs"]
mod nodes_spawn;
#[path = "../nodes_ssh.rs"]
mod nodes_ssh;
#[path = "../nodes_stage.rs"]
mod nodes_stage;
#[path = "../nodes_start.rs"]
mod nodes_start;
#[path = "../nodes_tools.rs"]
mod nodes_tools;
