//! Starting ranks and everything that ties a running rank to this process: its place in the job ([`plan`],
//! [`preview`]) and among the processors of the machine ([`topology`]), its environment ([`mod@env`],
//! [`user_environment`]), its start ([`start`]), its process ([`processes`], [`process_handle`]), signals to this
//! one ([`signal`]), the end of ranks and what they may leave behind ([`cleanup`]), and MPI processes that
//! cannot find this one ([`singletons`]).

pub(crate) mod apps;
pub(crate) mod cleanup;
pub(crate) mod codes;
pub(crate) mod daemons;
pub(crate) mod directives;
pub(crate) mod env;
pub(crate) mod local_ranks;
pub(crate) mod null_device;
pub(crate) mod plan;
pub(crate) mod pmix;
pub(crate) mod pmix_store;
pub(crate) mod preload;
pub(crate) mod preview;
pub(crate) mod process_handle;
pub(crate) mod processes;
pub(crate) mod protocol_offer;
pub(crate) mod run_hosts;
mod sharing;
pub(crate) mod signal;
pub(crate) mod singletons;
mod slurm_tasks;
mod soft;
mod spawn_error;
pub(crate) mod spawn_request;
pub(crate) mod start;
pub(crate) mod topology;
pub(crate) mod torch;
pub(crate) mod user_environment;
