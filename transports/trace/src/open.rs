//! A trace in either form, which its first bytes tell.

use crate::record::Trace;
use crate::{file, json};

/// Form of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceForm {
    /// A trace file.
    File,
    /// JSON lines.
    JsonLines,
}

/// A trace that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenedTrace {
    /// As much as could be read.
    pub trace: Trace,
    /// Its form.
    pub form: TraceForm,
    /// Notes for the user on what is missing or unknown, one sentence each.
    pub notes: Vec<String>,
}

/// Reason that bytes are no trace.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum OpenError {
    /// A trace file that cannot be read.
    #[error(transparent)]
    Trace(file::NotATrace),
    /// JSON lines with an unreadable first line.
    #[error("it is not a trace in JSON lines: {0}")]
    Json(json::JsonError),
    /// Neither of them.
    #[error(
        "there is no PMI in it: it is neither a trace nor JSON lines of one; 'pmi-host trace export' makes \
         a trace of a log of 'mpiexec -verbose' or of Flux"
    )]
    Unknown,
}

/// Detects the form of `bytes`, and reads them.
///
/// # Errors
///
/// [`OpenError`] if nothing can be read. Later damage is among the notes.
pub fn read(bytes: &[u8]) -> Result<OpenedTrace, OpenError> {
    if is_file(bytes) {
        let file::ReadTrace { trace, damage, unknown_count } =
            file::read(bytes).map_err(OpenError::Trace)?;
        let mut notes: Vec<String> = damage.iter().map(ToString::to_string).collect();
        if damage.is_none() && trace.exit_code().is_none() {
            notes.push("it has no end: its launcher was killed, or the disk was full".into());
        }
        if unknown_count > 0 {
            notes.push(format!("{unknown_count} records of a later version were skipped"));
        }
        return Ok(OpenedTrace { trace, form: TraceForm::File, notes });
    }
    let front = bytes.trim_ascii_start();
    if !front.starts_with(b"{") {
        return Err(OpenError::Unknown);
    }
    let text = String::from_utf8_lossy(front);
    let (trace, error) = json::read(&text).map_err(OpenError::Json)?;
    let notes = error.iter().map(|error| format!("it was read up to {error}")).collect();
    Ok(OpenedTrace { trace, form: TraceForm::JsonLines, notes })
}

/// True if they begin as a trace file, or are cut off in that beginning.
fn is_file(bytes: &[u8]) -> bool {
    let len = bytes.len().min(file::MAGIC.len());
    len > 0 && bytes.get(..len) == file::MAGIC.get(..len)
}
