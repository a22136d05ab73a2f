//! Signs of life.

use std::path::PathBuf;
use std::time::Duration;

/// Signs of life of a run, and reports of no progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Watching {
    /// Time without progress after which waiting ranks are reported (`--stall-report`); never if `None`.
    /// The report is repeated after twice the time, and so on.
    pub(crate) stall_report: Option<Duration>,
    /// Time without progress after which the run is terminated (`--stall-abort`); never by default.
    pub(crate) stall_abort: Option<Duration>,
    /// True if the stacks of the ranks follow a report of no progress (`--stall-stacks`).
    pub(crate) stall_stacks: bool,
    /// True if long starts and ends print a line on a terminal (`--progress`).
    pub(crate) progress: bool,
    /// True if other programs may request the state of the run (`pmi-host ps`; `--no-control` switches it
    /// off).
    pub(crate) control: bool,
    /// Place of the launcher's process id (`--report-pid`): `-`, `+` or a file.
    pub(crate) report_pid: Option<PathBuf>,
    /// Place of the address at which PMIx tools connect (`--report-uri`), likewise.
    pub(crate) report_uri: Option<PathBuf>,
    /// True if PMIx tools may connect to the run (`--no-tools` switches it off).
    pub(crate) tools: bool,
    /// True if the run is the system server of its host (`--system-server`), which tools find first.
    pub(crate) is_system_server: bool,
    /// Ranks that start in gdb (`--gdb`).
    pub(crate) gdb: Option<DebuggedRanks>,
    /// Time for which a node may be paused before it is lost (`--pause-timeout`); unlimited by default.
    pub(crate) pause_timeout: Option<Duration>,
}

/// Ranks that start in a debugger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DebuggedRanks {
    /// All.
    All,
    /// These, in ascending order.
    Listed(Vec<u32>),
}

impl Watching {
    /// Time without progress after which the run has to know of it.
    pub(crate) fn standstill(&self) -> Option<Duration> {
        [self.stall_report, self.stall_abort].into_iter().flatten().min()
    }

    /// Checks that the ranks with a debugger are among `ranks` ranks.
    ///
    /// # Errors
    ///
    /// A message for the user.
    pub(crate) fn check_debugged(&self, ranks: u32) -> Result<(), String> {
        let Some(DebuggedRanks::Listed(list)) = &self.gdb else { return Ok(()) };
        let Some(rank) = list.last().filter(|rank| **rank >= ranks) else { return Ok(()) };
        Err(format!(
            "rank {rank} cannot start in gdb, because {ranks} ranks are started, from rank 0; \
             specify others with --gdb"
        ))
    }
}

impl DebuggedRanks {
    /// True if this rank is among them.
    pub(crate) fn has(&self, rank: u32) -> bool {
        match self {
            Self::All => true,
            Self::Listed(list) => list.binary_search(&rank).is_ok(),
        }
    }
}

impl Default for Watching {
    fn default() -> Self {
        Self {
            stall_report: Some(Duration::from_secs(10)),
            stall_abort: None,
            stall_stacks: false,
            progress: true,
            control: true,
            report_pid: None,
            report_uri: None,
            tools: true,
            is_system_server: false,
            gdb: None,
            pause_timeout: None,
        }
    }
}
