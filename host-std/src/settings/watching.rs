//! Signs of life.

use std::time::Duration;

/// Signs of life of a run, and reports of no progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Watching {
    /// Time without progress after which waiting ranks are reported (`--stall-report`); never if `None`.
    /// The report is repeated after twice the time, and so on.
    pub(crate) stall_report: Option<Duration>,
    /// Time without progress after which the run is terminated (`--stall-abort`); never by default.
    pub(crate) stall_abort: Option<Duration>,
    /// True if long starts and ends print a line on a terminal (`--progress`).
    pub(crate) progress: bool,
    /// True if other programs may request the state of the run (`pmi-host ps`; `--no-control` switches it
    /// off).
    pub(crate) control: bool,
}

impl Default for Watching {
    fn default() -> Self {
        Self {
            stall_report: Some(Duration::from_secs(10)),
            stall_abort: None,
            progress: true,
            control: true,
        }
    }
}
