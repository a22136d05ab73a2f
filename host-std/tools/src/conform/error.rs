//! Errors that prevent a check.

use std::io;
use std::path::PathBuf;

/// Error that prevents a check. The message ends with the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ConformError {
    /// The arguments are invalid.
    #[error("{0}; 'pmi-host conform --help' shows how")]
    Usage(String),
    /// The command line of the launcher lacks this placeholder.
    #[error(
        "the command line of the launcher has no {0}; write it as in 'mpiexec.hydra -n {{n}} {{prog}}'"
    )]
    NoPlace(&'static str),
    /// No case has such a name.
    #[error(
        "no case has {} in its name; 'pmi-host conform --list' names them all",
        .0.join(" or ")
    )]
    NoCase(Vec<String>),
    /// The program could not be started.
    #[error("'{name}' cannot be started ({error}); check its name and path")]
    Start {
        /// Name of the program.
        name: String,
        /// Error of the system.
        error: io::Error,
    },
    /// A recorded matrix could not be read.
    #[error(
        "{} is not a recorded matrix: {why}; specify the plain output of a check",
        .file.display()
    )]
    Record {
        /// Path of the matrix.
        file: PathBuf,
        /// Defect of the file.
        why: String,
    },
    /// Another error of the system.
    #[error("the check cannot go on: {0}; try again when the system has room")]
    System(#[from] io::Error),
}
