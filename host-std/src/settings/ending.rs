//! The end of a run.

use std::path::PathBuf;
use std::time::Duration;

/// How a run ends, and what is told of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// What the failure of one rank does to the others (`--on-exit-error`, `-disable-auto-cleanup`).
    pub on_exit_error: OnExitError,
    /// How long ranks may run on after the first one has ended well (`--exit-timeout`); for ever by default.
    pub exit_timeout: Option<Duration>,
    /// How long the whole run may take (`--timeout`, `MPIEXEC_TIMEOUT`); the exit code is 124 then.
    pub timeout: Option<Duration>,
    /// How every rank ended is told (`--print-all-exitcodes`).
    pub print_all_codes: bool,
    /// Where a report for programs goes, as JSON (`--result`).
    pub result: Option<PathBuf>,
    /// Signals that are passed on to ranks (`--forward-signals`), by number; ours stay what they are.
    /// None by default: SIGUSR1 is how a person asks the launcher itself, and who wants it in the ranks
    /// says so.
    pub forward_signals: Vec<i32>,
}

/// What the failure of one rank does to the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnExitError {
    /// They are ended.
    #[default]
    Kill,
    /// They go on, and can read in `PMI_dead_processes` who is gone.
    Ignore,
}
