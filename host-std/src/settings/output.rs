//! Standard streams of ranks.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Forwarding of the ranks' output, and of the launcher's standard input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Output {
    /// Label in front of every line, as a pattern (`--label-format`; `-l` is `[%r] `); none by default.
    ///
    /// [`Pattern`](crate::stdio::pattern::Pattern) lists the letters.
    pub(crate) label: Option<String>,
    /// True if the time since the start precedes every line (`--timestamps`).
    pub(crate) timestamps: bool,
    /// True if equal lines of several ranks are written once, as `[0-63] text` (`--collapse`).
    pub(crate) collapse: bool,
    /// Time for which a line waits for ranks that may write it too (`--collapse-wait`); unlimited if `None`.
    pub(crate) collapse_wait: Option<Duration>,
    /// A file for each rank's standard output, as a pattern like that of the label (`--stdout-to`).
    pub(crate) out_files: Option<String>,
    /// The same for standard error (`--stderr-to`).
    pub(crate) error_files: Option<String>,
    /// True if the standard error of a rank is written where its standard output is (`--merge-stderr`).
    pub(crate) merges_errors: bool,
    /// Readers of the launcher's standard input (`--stdin`).
    pub(crate) stdin: StdinTo,
    /// Rank with a terminal of its own (`--pty`).
    pub(crate) pty: Option<u32>,
}

impl Default for Output {
    fn default() -> Self {
        Self {
            label: None,
            timestamps: false,
            collapse: false,
            // Ranks that do the same are seldom further apart, and the delay is hardly noticeable.
            collapse_wait: Some(Duration::from_millis(500)),
            out_files: None,
            error_files: None,
            merges_errors: false,
            stdin: StdinTo::default(),
            pty: None,
        }
    }
}

impl Output {
    /// Number of open files per rank that its streams need, besides those of every rank.
    pub(crate) fn files_per_rank(&self) -> u64 {
        let feeds = match &self.stdin {
            StdinTo::First | StdinTo::NoRank => false,
            StdinTo::All => true,
            StdinTo::Ranks(ranks) => ranks.len() > 1,
        };
        let has_error_files = self.error_files.is_some() && !self.merges_errors;
        let files = [self.out_files.is_some(), has_error_files, feeds];
        files.into_iter().map(u64::from).sum()
    }
}

/// Readers of the launcher's standard input.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum StdinTo {
    /// Rank 0, as with every known launcher.
    #[default]
    First,
    /// Every rank; each reads all of it.
    All,
    /// No rank.
    NoRank,
    /// These ranks, in ascending order.
    Ranks(Vec<u32>),
}
