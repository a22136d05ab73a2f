//! Traces from the logs of other launchers, and from all formats of this crate.
//!
//! A log is no trace: it may omit the client of a message, its time, and its spelling.
//! [`Imported::notes`] lists the guesses of an importer. Where a log has no times, all times are 0.

mod flux;
mod hydra;
mod log;

use crate::record::Trace;
use crate::{file, json};

/// Origin of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A trace file of this crate.
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
    /// A trace file of this crate that cannot be opened.
    #[error(transparent)]
    Trace(file::NotATrace),
    /// JSON lines with an unreadable first line.
    #[error("it is not a trace in JSON lines: {0}")]
    Json(json::JsonError),
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
    if is_ours(bytes) {
        let file::ReadTrace { trace, damage, unknown_count } =
            file::read(bytes).map_err(ImportError::Trace)?;
        let mut notes: Vec<String> = damage.iter().map(ToString::to_string).collect();
        if damage.is_none() && trace.exit_code().is_none() {
            notes.push("it has no end: its launcher was killed, or the disk was full".into());
        }
        if unknown_count > 0 {
            notes.push(format!("{unknown_count} records of a later version were skipped"));
        }
        return Ok(Imported { trace, format: Format::Trace, notes });
    }
    let front = bytes.trim_ascii_start();
    if front.starts_with(b"{") {
        let text = String::from_utf8_lossy(front);
        let (trace, error) = json::read(&text).map_err(ImportError::Json)?;
        let notes = error.iter().map(|error| format!("it was read up to {error}")).collect();
        return Ok(Imported { trace, format: Format::JsonLines, notes });
    }
    let found = hydra::read(bytes).map(|log| (Format::Hydra, log));
    let found = found.or_else(|| flux::read(bytes).map(|log| (Format::Flux, log)));
    let (format, (trace, notes)) = found.ok_or(ImportError::Unknown)?;
    Ok(Imported { trace, format, notes })
}

/// True if they begin as a trace file, or are cut off in that beginning.
fn is_ours(bytes: &[u8]) -> bool {
    let len = bytes.len().min(file::MAGIC.len());
    len > 0 && bytes.get(..len) == file::MAGIC.get(..len)
}
