//! The command line, in two steps: [`args`] says what was typed and touches nothing, [`config`] looks
//! the program up and may touch the system. [`usage`] says what is wrong, [`help`] prints what [`args`]
//! knows.

pub mod args;
pub mod config;
pub mod help;
pub mod usage;
