//! The file of the report (`--result`).

use super::{RunOutcome, json, junit};
use pmi_host_base::user_file;
use pmi_host_os::target::Target;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Destination of the report.
#[derive(Debug)]
pub(crate) struct ResultFile {
    name: PathBuf,
    file: File,
}

impl ResultFile {
    /// Creates the file, before any process is started.
    ///
    /// # Errors
    ///
    /// A message for the user.
    pub(crate) fn create(name: &Path) -> Result<Self, String> {
        let shown = name.display();
        let opened = user_file::open_to_write(name, OFlags::empty(), Mode::from_raw_mode(0o666));
        let emptied = opened.and_then(|file| {
            user_file::empty(&file)?;
            Ok(File::from(file))
        });
        let file = emptied.map_err(|error| {
            let why = match Errno::from_io_error(&error) {
                Some(Errno::NXIO) => "the pipe has no reader".to_owned(),
                _ => error.to_string(),
            };
            format!(
                "the report cannot be written to '{shown}' ({why}); specify another file (--result)"
            )
        })?;
        Ok(Self { name: name.to_owned(), file })
    }

    /// Writes the report: as JUnit if the name of the file ends in `.xml`, else as JSON.
    ///
    /// # Errors
    ///
    /// A message for the user.
    pub(crate) fn write(self, outcome: &RunOutcome<'_>) -> Result<(), String> {
        let Self { name, file } = self;
        let is_xml = name.extension().is_some_and(|end| end.eq_ignore_ascii_case("xml"));
        let text = if is_xml { junit::report(outcome) } else { json::report(outcome) };
        text.and_then(|text| write_all(file, text.as_bytes()))
            .map_err(|error| format!("the report in '{}' is incomplete ({error})", name.display()))
    }
}

/// Writes `bytes`; waits for the reader of a slow pipe up to a time limit.
fn write_all(file: File, bytes: &[u8]) -> io::Result<()> {
    Target::file(file.into()).write_within(bytes, READER_TIMEOUT).map_err(|error| match error {
        Errno::TIMEDOUT => {
            let why = format!("its reader has not accepted it within {READER_TIMEOUT:?}");
            io::Error::new(io::ErrorKind::TimedOut, why)
        }
        error => error.into(),
    })
}

/// Time limit for the reader of a pipe to read the whole report.
const READER_TIMEOUT: Duration = Duration::from_secs(5);
