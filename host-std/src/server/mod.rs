//! Server of the ranks of all jobs: the protocol server ([`service`]) with connections that ranks open
//! ([`callers`]), its events ([`news`]), byte transfer ([`flush`]), listen configuration ([`gate`]),
//! listener ([`listen`]), TLS ([`secure`]), connections to singletons ([`singleton`]), and storage
//! ([`storage`], [`map_kvs`]).

pub(crate) mod callers;
pub(crate) mod flush;
pub(crate) mod gate;
pub(crate) mod kvs_budget;
pub(crate) mod listen;
pub(crate) mod map_kvs;
pub(crate) mod news;
pub(crate) mod pmix;
pub(crate) mod secure;
pub(crate) mod service;
pub(crate) mod singleton;
pub(crate) mod storage;
pub(crate) mod waiting;
