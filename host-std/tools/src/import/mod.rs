//! Traces from the logs of other launchers, and from both forms of a trace.
//!
//! A log is no trace: it may omit the client of a message, its time, and its spelling.
//! [`Imported::notes`] lists the guesses of an importer. Where a log has no times, all times are 0.

mod flux;
mod hydra;
mod log;

use pmi_trace::Trace;
use pmi_trace::open::{self, OpenError, OpenedTrace, TraceForm};

/// Origin of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A trace file.
    Trace,
    /// The same as JSON lines.
    JsonLines,
    /// The output of `mpiexec -verbose` of MPICH, 4.x or 5.x.
    Hydra,
    /// The output of Flux with `-o verbose=2`, or of its clients with `FLUX_PMI_DEBUG`.
    Flux,
}

/// The result of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// As much as could be read.
    pub trace: Trace,
    /// The format of the source.
    pub format: Format,
    /// Notes for the user, one sentence each: unreadable parts, and guesses.
    pub notes: Vec<String>,
}

/// Reason for a failed import.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum ImportError {
    /// A trace that cannot be opened.
    #[error(transparent)]
    Trace(OpenError),
    /// None of the known formats.
    #[error(
        "there is no PMI in it: it is neither a trace nor JSON lines of one, nor a log of \
         'mpiexec -verbose' or of Flux with '-o verbose=2'"
    )]
    Unknown,
}

/// Detects the format of `bytes`, and reads them.
///
/// # Errors
///
/// [`ImportError`] if nothing can be read. Later damage is among the notes.
pub fn read(bytes: &[u8]) -> Result<Imported, ImportError> {
    match open::read(bytes) {
        Ok(OpenedTrace { trace, form, notes }) => {
            let format = match form {
                TraceForm::File => Format::Trace,
                TraceForm::JsonLines => Format::JsonLines,
            };
            Ok(Imported { trace, format, notes })
        }
        Err(OpenError::Unknown) => read_log(bytes).ok_or(ImportError::Unknown),
        Err(other) => Err(ImportError::Trace(other)),
    }
}

fn read_log(bytes: &[u8]) -> Option<Imported> {
    let found = hydra::read(bytes).map(|log| (Format::Hydra, log));
    let found = found.or_else(|| flux::read(bytes).map(|log| (Format::Flux, log)));
    let (format, (trace, notes)) = found?;
    Some(Imported { trace, format, notes })
}
