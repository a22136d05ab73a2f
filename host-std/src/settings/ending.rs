//! The end of a run.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// End of a run, and the reports about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ending {
    /// Effect of the failure of one rank on the others (`--on-exit-error`, `-disable-auto-cleanup`).
    pub(crate) on_exit_error: OnExitError,
    /// Effect of ranks that all run without this launcher, each as rank 0 of 1 (`--on-singletons`).
    pub(crate) on_singletons: OnSingletons,
    /// Time for which ranks may run on after the first one has exited without an error
    /// (`--exit-timeout`); unlimited by default.
    pub(crate) exit_timeout: Option<Duration>,
    /// Time limit of the whole run (`--timeout`, `MPIEXEC_TIMEOUT`); the exit code is 124 then.
    pub(crate) timeout: Option<Duration>,
    /// True if the exit code of every rank is printed (`--print-all-exitcodes`).
    pub(crate) print_all_codes: bool,
    /// True if the run is summed up in one line at the end (`--summary`).
    pub(crate) has_summary: bool,
    /// Path of the report for programs, as JSON, or as JUnit's XML by its ending (`--result`).
    pub(crate) result: Option<PathBuf>,
    /// Further signals that are passed on to ranks (`--forward-signals`), by number; the launcher handles
    /// all others as usual. None by default: `SIGUSR1` requests a report from the launcher itself, and so
    /// reaches ranks only on request.
    pub(crate) forward_signals: Vec<i32>,
}

/// Effect of the failure of one rank on the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum OnExitError {
    /// They are terminated.
    #[default]
    Kill,
    /// They continue, and can read the exited ranks in `PMI_dead_processes`.
    Ignore,
}

impl OnExitError {
    /// True if ranks continue after failures of others.
    pub(crate) const fn continues(self) -> bool {
        matches!(self, Self::Ignore)
    }
}

/// Effect of ranks that all call `MPI_Init` as singletons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum OnSingletons {
    /// They are reported as soon as they are seen, and the run ends with exit code 1.
    #[default]
    Fail,
    /// None: they are not looked for.
    Ignore,
}
