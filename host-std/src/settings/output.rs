//! Standard streams of ranks.

use std::time::Duration;

/// What becomes of what ranks write, and who reads our standard input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// What stands in front of every line, as a pattern (`--label-format`; `-l` is `[%r] `); none by default.
    ///
    /// [`Pattern`](crate::stdio::pattern::Pattern) says which letters there are.
    pub label: Option<String>,
    /// The time since the start stands in front of every line (`--timestamps`).
    pub timestamps: bool,
    /// Lines that several ranks write alike are written once, as `[0-63] text` (`--collapse`).
    pub collapse: bool,
    /// How long a line waits for ranks that may write it too (`--collapse-wait`); as long as it takes if
    /// none.
    pub collapse_wait: Option<Duration>,
    /// A file for each rank's standard output, as a pattern like that of the label (`--stdout-to`).
    pub out_files: Option<String>,
    /// The same for standard error (`--stderr-to`).
    pub error_files: Option<String>,
    /// Who reads our standard input (`--stdin`).
    pub stdin: StdinTo,
    /// The rank that gets a terminal of its own (`--pty`).
    pub pty: Option<u32>,
}

impl Default for Output {
    fn default() -> Self {
        Self {
            label: None,
            timestamps: false,
            collapse: false,
            // Ranks that do the same are seldom further apart, and a person hardly notices.
            collapse_wait: Some(Duration::from_millis(500)),
            out_files: None,
            error_files: None,
            stdin: StdinTo::default(),
            pty: None,
        }
    }
}

impl Output {
    /// How many open files its streams cost a rank, besides what they always cost.
    pub fn files_per_rank(&self) -> u64 {
        let feeds = match &self.stdin {
            StdinTo::First | StdinTo::Nobody => false,
            StdinTo::All => true,
            StdinTo::Ranks(ranks) => ranks.len() > 1,
        };
        let files = [self.out_files.is_some(), self.error_files.is_some(), feeds];
        files.into_iter().map(u64::from).sum()
    }
}

/// Who reads our standard input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StdinTo {
    /// Rank 0, as with every known launcher.
    #[default]
    First,
    /// Every rank reads all of it.
    All,
    /// Nobody.
    Nobody,
    /// These ranks, in ascending order.
    Ranks(Vec<u32>),
}
