#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(clippy::disallowed_methods)]

pub mod device;
pub mod memory_first;
pub mod model;
pub mod processor_set;
