//! What is to run, complete before it starts. A job ([`job`], [`local_ranks`]) is that of the command line or
//! of a spawn request, in PMI ([`spawn_request`]) or in PMIx ([`pmix_spawn`], [`directives`],
//! [`debugger_daemons`]), for hosts by their names ([`hosts`]), with an outcome for the requester
//! ([`spawn_outcome`]). Each of its programs has an environment ([`program_environment`],
//! [`preload`]), which decides with the libraries that it links what it is offered ([`protocol_offer`],
//! [`pmix_store`]).

pub(crate) mod debugger_daemons;
pub(crate) mod directives;
pub(crate) mod hosts;
pub(crate) mod job;
pub(crate) mod local_ranks;
pub(crate) mod pmix_spawn;
pub(crate) mod pmix_store;
pub(crate) mod preload;
pub(crate) mod program_environment;
pub(crate) mod protocol_offer;
pub(crate) mod spawn_outcome;
pub(crate) mod spawn_request;
