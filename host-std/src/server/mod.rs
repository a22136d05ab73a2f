//! Serving the ranks of all jobs: what is ready ([`ready`]), the protocol server ([`service`]) and what
//! it wants done ([`news`]), bytes between it and the ranks ([`flush`]), and what it is made of
//! ([`storage`], [`map_kvs`]).

pub mod flush;
pub mod map_kvs;
pub mod news;
pub mod ready;
pub mod service;
pub mod storage;
