#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod console;
#[cfg(any(test, feature = "testing"))]
pub mod described;
pub mod device;
pub mod display;
pub mod distances;
pub mod hwloc;
pub mod linux;
pub mod masks;
pub mod memory_first;
pub mod model;
pub mod nvidia_smi;
pub mod processor_set;
mod tree;
pub mod visible;
