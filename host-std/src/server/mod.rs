//! Serving the ranks of all jobs: the protocol server ([`service`], with
//! [`callers`] who dial in) and what it wants done ([`news`]), bytes between it and the ranks ([`flush`]),
//! who may dial in ([`gate`]), where ([`listen`]) and what lies over it ([`secure`]), whom we dial
//! ([`singleton`]), and what the server is made of ([`storage`], [`map_kvs`]).

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
