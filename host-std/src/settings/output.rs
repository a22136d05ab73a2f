//! Standard streams of ranks.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
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
    /// Directory for files of all ranks, as under Open MPI (`--output-dir`).
    pub(crate) directory: Option<PathBuf>,
    /// True if output that goes to files is written to the launcher's own streams, too (`--copy-output`).
    pub(crate) copies: bool,
    /// True if the standard error of a rank is written where its standard output is (`--merge-stderr`).
    pub(crate) merges_errors: bool,
    /// True if the bytes of ranks are passed on as soon as they are read (`--unbuffered`).
    pub(crate) unbuffered: bool,
    /// Readers of the launcher's standard input (`--stdin`).
    pub(crate) stdin: StdinTo,
    /// File that is read in place of the launcher's standard input (`--stdin-file`).
    pub(crate) stdin_file: Option<PathBuf>,
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
            directory: None,
            copies: false,
            merges_errors: false,
            unbuffered: false,
            stdin: StdinTo::default(),
            stdin_file: None,
            pty: None,
        }
    }
}

impl Output {
    /// Patterns of the files of standard output and standard error; `None` for the launcher's own stream.
    pub(crate) fn patterns(&self) -> [Option<String>; 2] {
        let below = |name: &str| {
            let directory = self.directory.as_ref()?.display().to_string().replace('%', "%%");
            Some(format!("{directory}/%j/rank.%R/{name}"))
        };
        let out = self.out_files.clone().or_else(|| below("stdout"));
        let errors = match self.merges_errors {
            true => out.clone(),
            false => self.error_files.clone().or_else(|| below("stderr")),
        };
        [out, errors]
    }

    /// Checks that the readers of standard input, and the rank with a terminal, are among `ranks` ranks.
    ///
    /// # Errors
    ///
    /// A message for the user.
    pub(crate) fn check_readers(&self, ranks: u32) -> Result<(), String> {
        if let Some(rank) = self.pty {
            return self.check_terminal(rank, ranks);
        }
        let StdinTo::Ranks(list) = &self.stdin else { return Ok(()) };
        let Some(rank) = list.iter().find(|rank| **rank >= ranks) else { return Ok(()) };
        Err(format!(
            "rank {rank} cannot read standard input, because {ranks} ranks are started, from rank 0; \
             specify others with --stdin"
        ))
    }

    fn check_terminal(&self, rank: u32, ranks: u32) -> Result<(), String> {
        if rank >= ranks {
            return Err(format!(
                "rank {rank} cannot have a terminal, because {ranks} ranks are started, from rank 0; \
                 specify another with --pty"
            ));
        }
        match &self.stdin {
            StdinTo::First | StdinTo::NoRank => Ok(()),
            StdinTo::Ranks(list) if *list == [rank] => Ok(()),
            StdinTo::Ranks(_) | StdinTo::All => Err(format!(
                "standard input is forwarded to the terminal of rank {rank}, so no other rank can \
                 read it; leave --stdin out"
            )),
        }
    }

    /// Number of open files per rank that its streams need, besides those of every rank.
    pub(crate) fn files_per_rank(&self) -> u64 {
        let feeds = match &self.stdin {
            StdinTo::First | StdinTo::NoRank => false,
            StdinTo::All => true,
            StdinTo::Ranks(ranks) => ranks.len() > 1,
        };
        let [out, errors] = self.patterns().map(|pattern| pattern.is_some());
        let files = [out, errors && !self.merges_errors, feeds];
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
