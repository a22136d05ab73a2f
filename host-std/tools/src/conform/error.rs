//! Errors that prevent a check.

use std::path::PathBuf;
use std::{fmt, io};

/// Error that prevents a check. The message ends with the remedy.
#[derive(Debug)]
#[non_exhaustive]
pub(crate) enum ConformError {
    /// The arguments are invalid.
    Usage(String),
    /// The command line of the launcher lacks this placeholder.
    NoPlace(&'static str),
    /// No case has such a name.
    NoCase(Vec<String>),
    /// The program could not be started.
    Start {
        /// Name of the program.
        name: String,
        /// Error of the system.
        error: io::Error,
    },
    /// A recorded matrix could not be read.
    Record {
        /// Path of the matrix.
        file: PathBuf,
        /// Defect of the file.
        why: String,
    },
    /// Another error of the system.
    System(io::Error),
}

impl From<io::Error> for ConformError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl fmt::Display for ConformError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(what) => write!(f, "{what}; 'pmi-host conform --help' shows how"),
            Self::NoPlace(what) => write!(
                f,
                "the command line of the launcher has no {what}; write it as in 'mpiexec.hydra -n \
                 {{n}} {{prog}}'"
            ),
            Self::NoCase(parts) => write!(
                f,
                "no case has {} in its name; 'pmi-host conform --list' names them all",
                parts.join(" or ")
            ),
            Self::Start { name, error } => {
                write!(f, "'{name}' cannot be started ({error}); check its name and path")
            }
            Self::Record { file, why } => write!(
                f,
                "{} is not a recorded matrix: {why}; specify the plain output of a check",
                file.display()
            ),
            Self::System(error) => {
                write!(f, "the check cannot go on: {error}; try again when the system has room")
            }
        }
    }
}

impl std::error::Error for ConformError {}
