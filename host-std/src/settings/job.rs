//! The job itself: how many, where they start, what they may ask for, and who dials in.

use std::path::PathBuf;

/// What a job is, besides its programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// How many ranks run a program that does not say so itself (`--ranks`).
    pub ranks: Option<u32>,
    /// The folder that programs start in, if not ours (`--wdir`, `-wdir`).
    pub folder: Option<PathBuf>,
    /// How many processes there may be in all jobs together (`--universe`, `-usize`).
    pub universe: Universe,
    /// Attributes that ranks may ask for, as key and value (`--attribute`).
    pub attributes: Vec<(String, String)>,
    /// The address where further ranks dial in (`--listen`).
    pub listen: Option<String>,
    /// The address where pages dial in, to be further ranks or to watch (`--websocket`).
    pub websocket: Option<String>,
    /// Pages that may, besides those of this machine (`--origin`).
    pub origins: Vec<String>,
    /// How many further ranks dial in (`--expect`).
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
    /// How much all key-value spaces of the run together may hold.
    pub kvs: KvsLimits,
}

/// How much all key-value spaces of a run together may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvsLimits {
    /// How many pairs (`--kvs-pairs`).
    pub pairs: u64,
    /// How many bytes of keys and values (`--kvs-bytes`); the same again for what PMIx clients post,
    /// publish and
    /// wait for.
    pub bytes: u64,
}

impl Default for KvsLimits {
    fn default() -> Self {
        // Four for each rank of the largest job, and 256 each for its key and value: some ten times what MPI
        // libraries put.
        Self { pairs: 1 << 22, bytes: 1 << 30 }
    }
}

/// How many processes there may be in all jobs together, as ranks are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Universe {
    /// As many as there are in the first job.
    #[default]
    Job,
    /// So many.
    Of(u32),
    /// Nobody counts them.
    Endless,
}
