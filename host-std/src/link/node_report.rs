//! State of the ranks of a node, which the head requests for reports on the run.

use crate::watch::table::{Elsewhere, Rank, Wait, WaitCondition};
use pmi_host_base::ranges::Ranks;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::time::Duration;

/// Request of the head for the state of ranks, or for variables of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReportRequest {
    /// Number of the request, which the answer repeats.
    pub(crate) number: u32,
    /// Ranks to be described one by one.
    pub(crate) rows: RowsWanted,
}

/// Ranks of a node that are described one by one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RowsWanted {
    /// None: only waits.
    NoRank,
    /// None, and no waits, but the variables that the node decides.
    Variables,
    /// The first ranks of each job, at most this many.
    All {
        /// The number.
        most: u32,
    },
    /// The first ranks of each job that run, at most this many.
    Running {
        /// The number.
        most: u32,
    },
    /// These ranks of the jobs with these names.
    Listed(Vec<(String, Ranks)>),
}

/// State of the ranks of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct NodeReport {
    /// Number of the request.
    pub(crate) number: u32,
    /// Jobs with ranks on the node.
    pub(crate) jobs: Vec<JobReport>,
    /// Variables that ranks of the first job have there in place of those of the head.
    pub(crate) variables: Vec<(OsString, OsString)>,
}

/// State of the ranks of one job on a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct JobReport {
    /// Name of the job's key-value space.
    pub(crate) name: String,
    /// Number of completed fences of the whole job.
    pub(crate) fences: u32,
    /// Number of messages that its ranks on the node have sent.
    pub(crate) messages: u64,
    /// Time since the first of its ranks began to wait, of those that wait.
    pub(crate) waits_for: Option<Duration>,
    /// Ranks before the first fence of the job.
    pub(crate) in_init: Option<InitRanks>,
    /// Time since the last message of a rank that could end a wait.
    pub(crate) progress_ago: Option<Duration>,
    /// Waits of its ranks.
    pub(crate) waits: Vec<NodeWait>,
    /// Number of further waits.
    pub(crate) more_waits: u64,
    /// The requested ranks.
    pub(crate) ranks: Vec<Rank>,
    /// Number of further ranks of the requested kind.
    pub(crate) more_ranks: u64,
}

/// Ranks of a node before the first fence of their job. The node does not see which of them wait for which.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InitRanks {
    /// Ranks that have called init, share memory as far as known, and are in no operation.
    pub(crate) inside: Ranks,
    /// Ranks that have not called init: those that run, and those that have ended.
    pub(crate) before: Ranks,
    /// True if the system hides whether those inside share memory.
    pub(crate) is_memory_hidden: bool,
    /// Time since the last message of those inside.
    pub(crate) waits_for: Duration,
    /// Time for which those before init have been seen to use no processor time and to write nothing.
    pub(crate) idle_for: Duration,
}

impl InitRanks {
    /// True if some of the ranks wait for others of the same node.
    pub(crate) fn is_wait(&self) -> bool {
        !self.inside.is_empty() && !self.before.is_empty()
    }
}

/// Ranks of a node that wait in the same operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct NodeWait {
    /// The operation.
    pub(crate) what: WaitCondition,
    /// The waiting ranks.
    pub(crate) inside: Ranks,
    /// Ranks that they wait for, as far as the node knows.
    pub(crate) missing: Ranks,
    /// Ranks of other jobs that they wait for: names of jobs with their ranks.
    pub(crate) elsewhere: Vec<(String, Ranks)>,
    /// Time since the first of them began to wait, in seconds.
    pub(crate) seconds: Option<f64>,
}

impl From<Wait> for NodeWait {
    fn from(Wait { what, inside, missing, elsewhere, seconds }: Wait) -> Self {
        let elsewhere = elsewhere.into_iter().map(|Elsewhere { job, ranks }| (job, ranks));
        Self { what, inside, missing, elsewhere: elsewhere.collect(), seconds }
    }
}
