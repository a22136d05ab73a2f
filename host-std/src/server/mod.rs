//! Serving the ranks of a job: what is ready ([`ready`]), the protocol server and what it wants done
//! ([`service`]), bytes between it and the ranks ([`flush`]), and what it is made of ([`storage`],
//! [`map_kvs`]).

pub mod flush;
pub mod map_kvs;
pub mod ready;
pub mod service;
pub mod storage;
