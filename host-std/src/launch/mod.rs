//! Starting ranks and everything that ties a running rank to this process: its place in the job ([`plan`],
//! [`preview`]) and among the processors of the machine ([`topology`]), its environment ([`mod@env`],
//! [`user_environment`]), the process itself ([`process`], [`process_handle`], [`starts`], [`trampoline`],
//! [`script`]), signals to this one ([`signal`]), the end of ranks and what they may leave behind ([`cleanup`]),
//! and MPI processes that cannot find this one ([`singletons`]).

pub(crate) mod apps;
mod child_start;
pub(crate) mod cleanup;
pub(crate) mod codes;
pub(crate) mod daemons;
pub(crate) mod descriptors;
pub(crate) mod directives;
pub(crate) mod env;
mod exec_stop;
pub(crate) mod gdb;
pub(crate) mod local_ranks;
pub(crate) mod null;
pub(crate) mod plan;
pub(crate) mod pmix;
pub(crate) mod pmix_store;
pub(crate) mod preload;
pub(crate) mod preview;
pub(crate) mod process;
pub(crate) mod process_handle;
pub(crate) mod processes;
pub(crate) mod protocol_offer;
pub(crate) mod run_hosts;
pub(crate) mod scheduling;
pub(crate) mod script;
mod session;
mod sharing;
pub(crate) mod signal;
pub(crate) mod singletons;
mod slurm_tasks;
mod soft;
mod spawn_error;
pub(crate) mod spawn_request;
pub(crate) mod start_error;
pub(crate) mod starts;
pub(crate) mod topology;
pub(crate) mod torch;
pub(crate) mod trampoline;
pub(crate) mod user_environment;
