//! The job itself: its size, its working directory, its attributes, and its listeners.

use crate::placement::ExpectedRanks;
use pmi_host_base::kvs_budget::KvsLimits;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::PathBuf;
use std::thread::available_parallelism;

/// Description of a job, besides its programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct JobSettings {
    /// Number of ranks of a program without a number of its own (`--ranks`).
    pub(crate) ranks: Option<u32>,
    /// Numbers of ranks of a program that will do, up to that number (`--soft`, `-soft`).
    pub(crate) soft: Option<String>,
    /// Working directory of the programs, if not that of the launcher (`--wdir`, `-wdir`).
    pub(crate) directory: Option<PathBuf>,
    /// Mask of permissions of new files, if not that of the launcher (`--umask`).
    pub(crate) umask: Option<u32>,
    /// Directories where programs are searched (`--path`), if not those of `PATH`.
    pub(crate) search: Option<OsString>,
    /// Number of processes that all jobs together may have (`--universe`, `-usize`).
    pub(crate) universe: Universe,
    /// Job attributes that ranks may read, as key and value (`--attribute`).
    pub(crate) attributes: Vec<(String, String)>,
    /// Address of the listener for further ranks (`--listen`).
    pub(crate) listen: Option<String>,
    /// Address of the listener for pages, which are further ranks or watch (`--websocket`).
    pub(crate) websocket: Option<String>,
    /// Origins of pages that may connect, besides those of this machine (`--origin`).
    pub(crate) origins: Vec<String>,
    /// Further ranks that connect (`--expect`).
    pub(crate) expected: Option<ExpectedRanks>,
    /// Proof that connecting ranks and pages give.
    pub(crate) proof: ProofSettings,
    /// True if the listener requires TLS (`--tls`), with a certificate that is generated for the job.
    pub(crate) is_secured: bool,
    /// Limits of all key-value spaces of the run together.
    pub(crate) kvs: KvsLimits,
    /// Way of committed data to other nodes (`--fence`).
    pub(crate) fence: FenceData,
}

/// Proof that connecting ranks and pages give.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProofSettings {
    /// Path of the secret that connecting ranks and pages must know (`--secret-file`).
    pub(crate) secret_file: Option<PathBuf>,
    /// True if connecting ranks must prove by the challenge of PMI-2 that they know the secret; `PMI_ID`
    /// is not enough (`--require-challenge`).
    pub(crate) requires_challenge: bool,
    /// True if `PMI_ID` fits an `int`, as clients of other libraries read it (`--short-ids`).
    pub(crate) has_short_ids: bool,
    /// Path of the socket of munged, by which connecting ranks may prove their user (`--munge`).
    pub(crate) munge: Option<PathBuf>,
}

/// Way of the data that PMIx clients commit before a fence to the nodes of other ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FenceData {
    /// It goes to all nodes with the fence.
    Push,
    /// It stays, and a get fetches it.
    Pull,
    /// The first for data that clients request with the fence, and for little of it; else the second.
    #[default]
    Auto,
}

/// Number of processes that all jobs together may have, as it was requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Universe {
    /// Slots of the hosts, if they are named or allocated.
    #[default]
    Slots,
    /// A fixed number.
    Of(u32),
    /// Number of ranks that all hosts take.
    Hosts,
    /// No limit: the server reports no number where the protocol allows that.
    Endless,
}

/// Number of processes that all jobs together may have, as the server reports it to ranks. A program that
/// spawns subtracts the number of its ranks, so the size of the job would forbid each spawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UniverseSize {
    /// For clients of PMI-1 and PMI-2; `None` if it is unlimited or unknown.
    pub(crate) pmi: Option<u32>,
    /// For clients of PMIx, whose libraries require a number.
    pub(crate) pmix: u32,
}

impl UniverseSize {
    /// The same number for all protocols.
    pub(crate) const fn of(universe: u32) -> Self {
        Self { pmi: Some(universe), pmix: universe }
    }

    /// Size of an unlimited universe on this machine, for a job with this number of `ranks`: clients of PMIx
    /// read the number of its processors.
    pub(crate) fn of_machine(ranks: u32) -> Self {
        // It is read from files of the control group.
        let processors = available_parallelism().map_or(1, usize::from);
        let pmix = u32::try_from(processors).unwrap_or(u32::MAX).max(ranks);
        Self { pmi: None, pmix }
    }
}

/// Tool that starts the programs of some ranks (`-gtool`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RankTool {
    /// The tool and its arguments, to which the program is added.
    pub(crate) words: Vec<OsString>,
    /// The ranks; `None` for all.
    pub(crate) ranks: Option<Vec<u32>>,
}
