//! Server of the ranks of all jobs: the protocol server ([`service`]) with connections that ranks open
//! ([`callers`]), its events ([`news`]), byte transfer ([`flush`]), listen configuration ([`gate`]),
//! listener ([`listen`]), TLS ([`secure`]), connections to singletons ([`singleton`]), and storage
//! ([`storage`], [`map_kvs`]).

pub mod callers;
pub mod flush;
pub mod gate;
pub mod kvs_budget;
pub mod listen;
pub mod map_kvs;
pub mod news;
pub mod pmix;
pub mod secure;
pub mod service;
pub mod singleton;
pub mod storage;
pub mod waiting;
