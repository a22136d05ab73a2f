//! The command line of `run` and `mpiexec`, from words to settings.
//!
//! [`args`] parses the words of `run` and touches nothing; [`mpiexec`] parses the command line of Hydra.
//! [`options`] is the table of options; [`layers`] adds variables and the configuration file, [`system`]
//! that of the administrator; [`config`] resolves programs, addresses and processors, and may touch the
//! system. [`explain`] turns errors of the parser into errors with a remedy.

pub mod args;
pub mod config;
pub mod explain;
pub mod layers;
pub mod mpiexec;
pub mod options;
pub mod system;
