//! The command line.
//!
//! [`args`] says what was typed and touches nothing; [`mpiexec`] reads the command line of Hydra instead.
//! [`options`] is the table of what can be said; [`layers`] adds what variables and a file say; [`config`]
//! looks up what was named and may touch the system. [`usage`] says what is wrong, [`help`] explains,
//! [`pages`] writes completions and man pages. [`commands`] knows everything that stands behind `pmi-host`.

pub mod args;
pub mod commands;
pub mod config;
pub mod help;
pub mod layers;
pub mod mpiexec;
pub mod options;
pub mod pages;
pub mod usage;
pub mod words;

pub use commands::main;
