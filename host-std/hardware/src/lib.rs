#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod device;
pub mod hwloc;
pub mod model;
pub mod processor_set;
