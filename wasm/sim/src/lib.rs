#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]

pub mod check;
pub mod event;
pub mod host;
pub mod link;
pub mod mutant;
pub mod net;
pub mod pipe;
pub mod random;
mod ranks;
pub mod rng;
pub mod scale;
pub mod scenario;
pub mod shipped;
pub mod shrink;
pub mod sim_rank;
pub mod snapshot;
pub mod storage;
pub mod sweep;
pub mod trace;
#[cfg(feature = "tree")]
pub mod tree;
mod watch;
pub mod world;

pub use check::Violation;
pub use event::{Entry, SimEvent};
pub use scenario::Scenario;
pub use world::{Injection, Options, World};
