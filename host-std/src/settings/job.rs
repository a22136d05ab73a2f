//! The job itself: its size, its working directory, its attributes, and its listeners.

use std::path::PathBuf;

/// Description of a job, besides its programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// Number of ranks of a program without a number of its own (`--ranks`).
    pub ranks: Option<u32>,
    /// Working directory of the programs, if not that of the launcher (`--wdir`, `-wdir`).
    pub folder: Option<PathBuf>,
    /// Number of processes that all jobs together may have (`--universe`, `-usize`).
    pub universe: Universe,
    /// Attributes that ranks may ask for, as key and value (`--attribute`).
    pub attributes: Vec<(String, String)>,
    /// Address of the listener for further ranks (`--listen`).
    pub listen: Option<String>,
    /// Address of the listener for pages, which are further ranks or watch (`--websocket`).
    pub websocket: Option<String>,
    /// Pages that may, besides those of this machine (`--origin`).
    pub origins: Vec<String>,
    /// Number of further ranks that connect (`--expect`).
    pub expected: Option<u32>,
    /// The file with what they must know (`--secret-file`).
    pub secret_file: Option<PathBuf>,
    /// They prove by the challenge of PMI-2 that they know it; `PMI_ID` is not enough
    /// (`--require-challenge`).
    pub requires_challenge: bool,
    /// `PMI_ID` fits an `int`, as clients of other libraries read it (`--short-ids`).
    pub has_short_ids: bool,
    /// They speak TLS (`--tls`), with a certificate that is made for the job.
    pub is_secured: bool,
    /// Limits of all key-value spaces of the run together.
    pub kvs: KvsLimits,
}

/// Limits of all key-value spaces of a run together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvsLimits {
    /// Number of pairs (`--kvs-pairs`).
    pub pairs: u64,
    /// Number of bytes of keys and values (`--kvs-bytes`); the same amount again holds the data that PMIx
    /// clients commit, publish and wait for.
    pub bytes: u64,
}

impl Default for KvsLimits {
    fn default() -> Self {
        // Four for each rank of the largest job, and 256 each for its key and value: some ten times what MPI
        // libraries put.
        Self { pairs: 1 << 22, bytes: 1 << 30 }
    }
}

/// Number of processes that all jobs together may have, as the server reports it to ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Universe {
    /// As many as there are in the first job.
    #[default]
    Job,
    /// So many.
    Of(u32),
    /// No limit: the server reports no number.
    Endless,
}
