//! Messages about jobs that ranks of a run on several nodes spawn. The head decides about each of them, and
//! gives it the next number; all nodes add the jobs in the order of these numbers.

use super::job_message::AppMessage;
use crate::launch::plan::directives::JobDirectives;
use crate::launch::plan::spawn_request::SpawnRequest;
use crate::operation::Asker;
use serde::{Deserialize, Serialize};

/// Request of a rank to spawn a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SpawnMessage {
    /// Request to answer.
    pub(crate) asker: Asker,
    /// Job and rank of the requesting process.
    pub(crate) by: (u32, u32),
    /// The request.
    pub(crate) request: SpawnRequest,
}

/// A spawned job, for all nodes: those without a rank of it serve reads of its data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SpawnedJob {
    /// Number of the job.
    pub(crate) job: u32,
    /// Job and rank of the process that has requested it.
    pub(crate) by: (u32, u32),
    /// True if a tool has requested it: its ranks are like those of this job, and have no parent.
    pub(crate) is_of_tool: bool,
    /// Programs, in the order of the ranks.
    pub(crate) apps: Vec<AppMessage>,
    /// Nodes with numbers of ranks, in the order of the ranks.
    pub(crate) blocks: Vec<(u32, u32)>,
    /// Number of hosts at the start of the run, and those that were added since, which follow them.
    pub(crate) added: (u32, Vec<String>),
    /// Initial pairs of its key-value space.
    pub(crate) preputs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Directives for the whole job.
    pub(crate) directives: JobDirectives,
}

/// Message of the head about a spawned job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum SpawnNotice {
    /// A new job.
    New(Box<SpawnedJob>),
    /// All its ranks were started.
    Started {
        /// The job.
        job: u32,
    },
    /// A rank could not be started: the others are killed, which is no failure.
    Undone {
        /// The job.
        job: u32,
    },
    /// All its ranks have ended.
    Ended {
        /// The job.
        job: u32,
    },
    /// Answer to a request of a rank of the receiving node.
    Answer(SpawnAnswer),
}

/// Answer to a spawn request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SpawnAnswer {
    /// The request.
    pub(crate) asker: Asker,
    /// Number of the job, or the code of the failure.
    pub(crate) made: Result<u32, i32>,
    /// Runs of codes of the processes: numbers of processes, and their codes.
    pub(crate) codes: Vec<(u32, i32)>,
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::job_message::tests::job;
    use super::*;
    use crate::launch::plan::directives::RankChoice;

    const ASKER: Asker = Asker { session: 3, exchange: 7 };

    pub(in crate::link) fn request() -> SpawnMessage {
        SpawnMessage { asker: ASKER, by: (1, u32::MAX), request: SpawnRequest::default() }
    }

    pub(in crate::link) fn notices() -> [SpawnNotice; 5] {
        let spawned = SpawnedJob {
            job: 2,
            by: (1, 0),
            is_of_tool: false,
            apps: job().apps,
            blocks: vec![(1, 3), (0, 2)],
            added: (2, vec!["n3".to_owned()]),
            preputs: vec![(b"k".to_vec(), b"\xff".to_vec())],
            directives: JobDirectives {
                stop_on_exec: Some(RankChoice::One(1)),
                target: Some(("kvs".to_owned(), RankChoice::All)),
                ..JobDirectives::default()
            },
        };
        let answer = SpawnAnswer { asker: ASKER, made: Err(-1), codes: vec![(2, 0), (1, 13)] };
        [
            SpawnNotice::New(Box::new(spawned)),
            SpawnNotice::Started { job: 2 },
            SpawnNotice::Undone { job: 3 },
            SpawnNotice::Ended { job: u32::MAX },
            SpawnNotice::Answer(answer),
        ]
    }
}
