//! Causes of refused spawn requests.

use pmi_core::error::Code;
use pmi_host_base::program::ProgramError;
use std::ffi::OsString;
use std::path::PathBuf;

/// Cause of a refused order. The text ends with the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum SpawnError {
    /// A program cannot be started.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// A program is requested on another host.
    #[error(
        "program '{}' is to run on '{wanted}', and this launcher starts programs on '{host}' only; leave the \
         hint 'host' out",
        .name.display()
    )]
    Elsewhere {
        /// The program.
        name: OsString,
        /// Requested host.
        wanted: String,
        /// The name of this host.
        host: String,
    },
    /// A host is to be added to a run on one host.
    #[error(
        "program '{}' is to run on '{wanted}', and '{wanted}' cannot be added to a run on one host without \
         node servers; start the run with '--all-hosts', or name the host with '--hosts'",
        .name.display()
    )]
    Alone {
        /// The program.
        name: OsString,
        /// Requested host.
        wanted: String,
    },
    /// A program is requested on a host that is none of the run.
    #[error(
        "program '{}' is to run on '{wanted}', which is no host of this run; name one of its hosts, or leave \
         the hint 'host' out",
        .name.display()
    )]
    Unknown {
        /// The program.
        name: OsString,
        /// Requested host.
        wanted: String,
    },
    /// The file of hosts for a program cannot be read.
    #[error(
        "program '{}' is to run on the hosts in '{}', which cannot be read ({why}); leave the hint \
         'hostfile' out",
        .name.display(),
        .file.display()
    )]
    HostFile {
        /// The program.
        name: OsString,
        /// The file.
        file: PathBuf,
        /// The error.
        why: String,
    },
    /// A hint cannot be followed.
    #[error(
        "program '{}' has the hint '{key}={value}', {reason}; leave the hint '{key}' out",
        .name.display()
    )]
    Hint {
        /// The program.
        name: OsString,
        /// Its key.
        key: String,
        /// Its value.
        value: String,
        /// The reason, behind a comma.
        reason: &'static str,
    },
    /// None of the acceptable numbers is possible.
    #[error(
        "program '{}' is to run as many times as 'soft={soft}' specifies, and no number from 0 to {most} is \
         in that set; add a smaller one, as in 'soft=1:{most}'",
        .name.display()
    )]
    Soft {
        /// The program.
        name: OsString,
        /// The set of numbers.
        soft: String,
        /// Maximum possible number.
        most: u32,
    },
    /// The processes need more open files than this launcher may have.
    #[error(
        "program '{}' is to run {processes} times and there are open files for {most} more; request fewer, \
         or raise the hard limit ('ulimit -Hn')",
        .name.display()
    )]
    TooMany {
        /// The program.
        name: OsString,
        /// Number of its processes.
        processes: u32,
        /// Maximum possible number.
        most: u32,
    },
    /// The order is empty.
    #[error("it requests 0 processes; request at least one ('maxprocs', 'soft')")]
    Nothing,
}

impl SpawnError {
    /// Code for the client.
    pub(crate) const fn code(&self) -> Code {
        match self {
            Self::TooMany { .. } => Code::NOMEM,
            Self::Program(_)
            | Self::Elsewhere { .. }
            | Self::Alone { .. }
            | Self::Unknown { .. }
            | Self::HostFile { .. }
            | Self::Hint { .. }
            | Self::Soft { .. }
            | Self::Nothing => Code::INVALID_ARG,
        }
    }
}
