//! Signs of life.

use std::time::Duration;

/// Signs of life of a run, and reports of no progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watching {
    /// Time without progress after which waiting ranks are reported (`--stall-report`); never if `None`.
    /// The report is repeated after twice the time, and so on.
    pub stall_report: Option<Duration>,
    /// After how long without progress the run is ended (`--stall-abort`); never by default.
    pub stall_abort: Option<Duration>,
    /// Long starts and ends show a line on a terminal (`--progress`).
    pub progress: bool,
    /// Other programs may ask how the run goes (`pmi-host ps`; `--no-control` switches it off).
    pub control: bool,
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
