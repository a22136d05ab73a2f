//! Server of the ranks of all jobs: the protocol server ([`service`]) with connections that ranks open
//! ([`dial_in_peer`]), its events ([`event`]), byte transfer ([`flush`]), listen configuration
//! ([`listen_config`]), TLS ([`secure`]), connections to singletons ([`singleton`]),
//! values in shared memory ([`snapshot`]). The head of a run on several nodes has one as well
//! ([`head_server`]).

pub(crate) mod changes;
mod connections;
pub(crate) mod dial_in_peer;
pub(crate) mod event;
pub(crate) mod fetches;
pub(crate) mod flush;
pub(crate) mod head_server;
mod job_setup;
pub(crate) mod listen_config;
mod loaded;
pub(crate) mod name_lookups;
pub(crate) mod nodes;
pub(crate) mod operations;
pub(crate) mod others;
pub(crate) mod pmix;
mod rank_conn;
pub(crate) mod secure;
pub(crate) mod service;
pub(crate) mod singleton;
pub(crate) mod waiting;
