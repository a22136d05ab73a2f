//! Starting ranks and everything that ties a running rank to this process: its job ([`plan`], [`preview`]) and
//! the processors of the machine ([`topology`]), its environment ([`mod@env`]), its start ([`start`]), its
//! process ([`processes`], [`process_handle`]), signals to this one ([`signal`]), the end of ranks and what they
//! may leave behind ([`cleanup`]), and MPI processes that cannot find this one ([`singletons`]).

pub(crate) mod cleanup;
pub(crate) mod env;
pub(crate) mod null_device;
pub(crate) mod plan;
pub(crate) mod pmix;
pub(crate) mod preview;
pub(crate) mod process_handle;
pub(crate) mod processes;
mod sharing;
pub(crate) mod signal;
pub(crate) mod singletons;
mod slurm_tasks;
pub(crate) mod start;
pub(crate) mod topology;
pub(crate) mod torch;
