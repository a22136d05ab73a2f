//! The command line of `run` and `mpiexec`, from words to settings.
//!
//! [`args`] parses the words of `run` and touches nothing; [`mpiexec`] parses the command line of Hydra.
//! [`options`] is the table of options; [`layers`] adds variables and the configuration file, [`system`]
//! that of the administrator; [`config`] resolves programs, addresses and processors, [`hosts`] the hosts;
//! both may touch the system. [`explain`] turns errors of the parser into errors with a remedy,
//! [`foreign`] has that for options of other launchers.

pub(crate) mod args;
pub(crate) mod config;
pub(crate) mod explain;
pub(crate) mod foreign;
pub(crate) mod hosts;
pub(crate) mod layers;
pub(crate) mod mpiexec;
pub(crate) mod nearest;
pub(crate) mod options;
pub(crate) mod system;
