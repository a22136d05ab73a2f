#![no_std]
#![forbid(unsafe_code)]
//! placeholder page, written with the rest of the crate
pub mod command;
pub mod error;
pub mod ids;
pub mod limits;
pub mod machine;
pub mod storage;
pub mod time;
pub mod wire;

#[cfg(test)]
extern crate std;
