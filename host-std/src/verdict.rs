//! Outcome of a job, judged from its ranks. No system calls, only the rules.

use crate::launch::start::process::{ProcessEnd, shell_code};
use pmi_host_base::exit::USAGE;
use pmi_host_base::ranges::Ranks;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::time::Duration;

/// PMI phase of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum PmiPhase {
    /// No PMI message yet.
    Silent,
    /// Between init and finalize.
    Open,
    /// Finalized.
    Finalized,
}

/// Cause of the failure of a job. The first cause counts; its consequences are not reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub(crate) enum Failure {
    /// A rank could not be started.
    Start {
        /// Rank that did not start.
        rank: u32,
        /// Exit code by the convention of shells.
        code: u8,
        /// Error of the system.
        why: String,
    },
    /// A rank exited with a code, or a signal terminated it.
    Ended {
        /// Rank that exited.
        rank: u32,
        /// Exit code or signal of the rank.
        ending: ProcessEnd,
        /// PMI phase of the rank at its exit.
        phase: PmiPhase,
    },
    /// A rank exited with 0 between init and finalize.
    LeftEarly {
        /// Rank that exited.
        rank: u32,
    },
    /// A rank closed its connection between init and finalize and continues to run.
    Disconnected {
        /// Rank that closed its connection.
        rank: u32,
    },
    /// A rank that connected by itself is gone, between init and finalize.
    Vanished {
        /// Rank that is gone.
        rank: u32,
        /// Remote address of its connection.
        from: SocketAddr,
    },
    /// A protocol error of a rank ended its session.
    Nonsense {
        /// Rank that violated the protocol.
        rank: u32,
        /// Cause, as the predicate of a sentence about the rank.
        why: String,
    },
    /// A rank requested an abort of the job.
    Abort {
        /// Rank that requested it.
        rank: u32,
        /// Requested exit code.
        code: i32,
        /// Message of the rank.
        message: String,
    },
    /// Ranks wait for others that have terminated or finalized.
    Missing {
        /// Ranks that have left without taking part; the first few of them.
        gone: Vec<u32>,
        /// Number of ranks that have left.
        gone_count: usize,
        /// Number of ranks that wait.
        waiting_count: usize,
    },
    /// A signal to the launcher ended the job.
    Interrupted {
        /// Signal that arrived.
        signal: i32,
    },
    /// A signal to the node server ended the job.
    AgentInterrupted {
        /// Name of the host.
        host: String,
        /// Signal that arrived.
        signal: i32,
    },
    /// The run has exceeded its time limit.
    TimedOut {
        /// Limit of the run.
        limit: Duration,
    },
    /// Ranks have waited for others beyond the time limit.
    Stalled {
        /// Limit of a wait without progress.
        limit: Duration,
    },
    /// Ranks have run beyond the time limit after the first one ended well.
    Overdue {
        /// Limit after the first good exit.
        limit: Duration,
    },
    /// Every rank called `MPI_Init` without this launcher.
    Singletons,
    /// A node of the job is lost, with all its ranks.
    NodeLost(NodeLoss),
    /// The options of the run are impossible on a host.
    Impossible {
        /// Sentence with the host and the remedy.
        what: String,
    },
    /// The launcher itself has failed.
    Launcher {
        /// Failed action, and its cause.
        what: String,
    },
}

/// Loss of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeLoss {
    /// Name of its host.
    pub(crate) host: String,
    /// Its ranks.
    pub(crate) ranks: Ranks,
    /// Time since its last message.
    pub(crate) silent_for: Duration,
    /// Symptom, as a part of a sentence.
    pub(crate) why: String,
    /// Last output of its starter; empty if there is none.
    pub(crate) output: String,
}

/// Node that is silent, or was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SilentNode {
    /// Name of its host.
    pub(crate) host: String,
    /// Its ranks of the first job.
    pub(crate) ranks: Ranks,
    /// Duration of the silence so far, or of the whole one.
    pub(crate) lasts: Duration,
}

/// Judges the end of one rank that the launcher had not requested. `None` is a good end.
pub(crate) fn judge(rank: u32, ending: ProcessEnd, phase: PmiPhase) -> Option<Failure> {
    match (ending, phase) {
        (ProcessEnd::Exited(0) | ProcessEnd::Unseen, PmiPhase::Silent | PmiPhase::Finalized) => {
            None
        }
        (ProcessEnd::Exited(0), PmiPhase::Open) => Some(Failure::LeftEarly { rank }),
        _ => Some(Failure::Ended { rank, ending, phase }),
    }
}

impl Failure {
    /// Exit code of a job that failed for this reason.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Start { code, .. } => *code,
            Self::Ended { ending, .. } => ending.exit_code(),
            Self::Abort { code, .. } => abort_code(*code),
            Self::Interrupted { signal } | Self::AgentInterrupted { signal, .. } => {
                shell_code(*signal)
            }
            Self::TimedOut { .. } | Self::Stalled { .. } | Self::Overdue { .. } => TIMED_OUT,
            Self::LeftEarly { .. }
            | Self::Disconnected { .. }
            | Self::Vanished { .. }
            | Self::Nonsense { .. }
            | Self::Missing { .. }
            | Self::Singletons
            | Self::NodeLost(_)
            | Self::Launcher { .. } => 1,
            Self::Impossible { .. } => USAGE,
        }
    }

    /// True for the failure of one rank, which others may outlive.
    pub(crate) const fn concerns_one_rank(&self) -> bool {
        matches!(self, Self::Ended { .. } | Self::LeftEarly { .. } | Self::Abort { .. })
    }

    /// True if a signal has requested the end.
    pub(crate) const fn is_interrupt(&self) -> bool {
        matches!(self, Self::Interrupted { .. } | Self::AgentInterrupted { .. })
    }

    /// True if a rank was terminated by a write to a pipe without a reader.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        let Self::Ended { ending: ProcessEnd::Killed { signal, .. }, .. } = self else {
            return false;
        };
        *signal == Signal::PIPE.as_raw()
    }
}

/// An exit code has eight bits. A code other than 0 must not become 0, which means success.
fn abort_code(code: i32) -> u8 {
    match code.to_le_bytes()[0] {
        0 if code != 0 => 1,
        low => low,
    }
}

/// Exit code of `timeout(1)`.
const TIMED_OUT: u8 = 124;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_ends_well_only_with_0_and_outside_of_a_session() {
        assert_eq!(judge(0, ProcessEnd::Exited(0), PmiPhase::Silent), None);
        assert_eq!(judge(0, ProcessEnd::Exited(0), PmiPhase::Finalized), None);
        assert_eq!(
            judge(3, ProcessEnd::Exited(0), PmiPhase::Open),
            Some(Failure::LeftEarly { rank: 3 })
        );
        for phase in [PmiPhase::Silent, PmiPhase::Open, PmiPhase::Finalized] {
            assert_eq!(judge(3, ProcessEnd::Exited(7), phase).map(|f| f.exit_code()), Some(7));
            let killed = ProcessEnd::Killed { signal: 9, dumped: false };
            assert_eq!(judge(3, killed, phase).map(|f| f.exit_code()), Some(137));
        }
    }

    #[test]
    fn abort_passes_on_the_low_eight_bits_but_no_false_success() {
        for (code, exit) in [(42, 42), (300, 44), (-1, 255), (0, 0), (256, 1), (1, 1)] {
            assert_eq!(
                Failure::Abort { rank: 0, code, message: String::new() }.exit_code(),
                exit,
                "{code}"
            );
        }
    }

    #[test]
    fn no_other_failure_exits_with_0() {
        let failures = [
            Failure::LeftEarly { rank: 0 },
            Failure::Disconnected { rank: 0 },
            Failure::Vanished { rank: 0, from: ([127, 0, 0, 1], 4000).into() },
            Failure::Nonsense { rank: 0, why: String::new() },
            Failure::Missing { gone: vec![1], gone_count: 1, waiting_count: 1 },
            Failure::Interrupted { signal: 2 },
            Failure::AgentInterrupted { host: String::new(), signal: 15 },
            Failure::TimedOut { limit: Duration::ZERO },
            Failure::Stalled { limit: Duration::ZERO },
            Failure::Overdue { limit: Duration::ZERO },
            Failure::Launcher { what: String::new() },
            Failure::Impossible { what: String::new() },
        ];
        assert_eq!(
            failures.map(|failure| failure.exit_code()),
            [1, 1, 1, 1, 1, 130, 143, 124, 124, 124, 1, 2]
        );
    }
}
