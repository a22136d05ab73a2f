//! Parts that `pmi-host` and its tools share: output and errors of commands, programs and their MPI
//! libraries, the environment of ranks, and the server's storage.
//!
//! ```text
//! exit        exit codes, and output of short commands; columns: tables of text
//! usage       errors of command lines; words: a line split as a shell does; ranges: `0-2,5`
//! image       what the file of a program or library needs, and its functions
//! loader      libraries of a program as the system's loader finds them, some in its loader_cache
//! library     MPI libraries of a program
//! user_file   opens files that users name, safely against other users; system_file: files of the kernel and
//!             of the administrator
//! limits      limits of the system for this process; host_name: name of this machine
//! program     path of a program, and the cause if it cannot be started
//! variables   variables that launchers set for ranks or remove; env: those of one rank
//! signals     signals by the names and numbers that ranks use
//! storage     the server's storage: map_kvs within kvs_budget, with keys in key_index and pairs of other
//!             nodes in sealed_blocks
//! ```
//!
//! This crate starts no process and opens no connection.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![deny(unsafe_code)]

#[cfg(not(target_os = "linux"))]
compile_error!(
    "pmi-host runs on Linux only; pmi-core, pmi-link, pmi-sim and the playground build on this system"
);

pub mod columns;
pub mod env;
pub mod executable;
pub mod exit;
pub mod host_name;
pub mod image;
mod key_index;
pub mod kvs_budget;
pub mod library;
pub mod limits;
pub mod loader;
mod loader_cache;
pub mod map_kvs;
pub mod program;
pub mod ranges;
mod sealed_blocks;
mod signals;
pub mod storage;
pub mod system_file;
pub mod usage;
pub mod user_file;
pub mod variables;
pub mod words;
