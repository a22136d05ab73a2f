//! How a job ended, judged from what its ranks did. No system calls here, only the rules.

use crate::launch::process::{Ending, shell_code};
use rustix::process::Signal;
use std::net::SocketAddr;
use std::time::Duration;

/// How far a rank came with PMI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It has said nothing.
    Silent,
    /// It is between init and finalize.
    Open,
    /// It has finalized.
    Finalized,
}

/// Why a job failed. The first reason counts; what follows from it is not reported.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// A rank could not be started.
    Start {
        /// Which rank.
        rank: u32,
        /// The code a shell would give.
        code: u8,
        /// What the system said.
        why: String,
    },
    /// A rank exited with a code, or a signal ended it.
    Ended {
        /// Which rank.
        rank: u32,
        /// How it ended.
        ending: Ending,
        /// How far it had come.
        phase: Phase,
    },
    /// A rank exited with 0 between init and finalize.
    LeftEarly {
        /// Which rank.
        rank: u32,
    },
    /// A rank closed its connection between init and finalize and goes on running.
    Disconnected {
        /// Which rank.
        rank: u32,
    },
    /// A rank that had dialled in is gone, between init and finalize.
    Vanished {
        /// Which rank.
        rank: u32,
        /// Where it had dialled in from.
        from: SocketAddr,
    },
    /// A rank sent what ends its session.
    Nonsense {
        /// Which rank.
        rank: u32,
        /// What it did, as the rest of a sentence about it.
        why: String,
    },
    /// A rank asked for the end of the job.
    Abort {
        /// Which rank.
        rank: u32,
        /// The code it gave.
        code: i32,
        /// What it had to say.
        message: String,
    },
    /// Ranks wait for others that have left.
    Missing {
        /// Those that have left without taking part; the first few of them.
        gone: Vec<u32>,
        /// How many have.
        gone_count: usize,
        /// How many wait.
        waiting_count: usize,
    },
    /// A signal to the launcher ended the job.
    Interrupted {
        /// Which signal.
        signal: i32,
    },
    /// The run has taken as long as it may.
    TimedOut {
        /// How long that is.
        limit: Duration,
    },
    /// Ranks have waited for others as long as they may.
    Stalled {
        /// How long that is.
        limit: Duration,
    },
    /// Ranks have run on as long as they may after the first one ended well.
    Overdue {
        /// How long that is.
        limit: Duration,
    },
    /// The launcher itself could not go on.
    Launcher {
        /// What it could not do, and why.
        what: String,
    },
}

/// Judges the end of one rank that nobody had asked to end. `None` is a good end.
pub fn judge(rank: u32, ending: Ending, phase: Phase) -> Option<Failure> {
    match (ending, phase) {
        (Ending::Exited(0) | Ending::Unseen, Phase::Silent | Phase::Finalized) => None,
        (Ending::Exited(0), Phase::Open) => Some(Failure::LeftEarly { rank }),
        _ => Some(Failure::Ended { rank, ending, phase }),
    }
}

impl Failure {
    /// The exit code of a job that failed for this reason.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Start { code, .. } => *code,
            Self::Ended { ending, .. } => ending.exit_code(),
            Self::Abort { code, .. } => abort_code(*code),
            Self::Interrupted { signal } => shell_code(*signal),
            Self::TimedOut { .. } | Self::Stalled { .. } | Self::Overdue { .. } => TIMED_OUT,
            Self::LeftEarly { .. }
            | Self::Disconnected { .. }
            | Self::Vanished { .. }
            | Self::Nonsense { .. }
            | Self::Missing { .. }
            | Self::Launcher { .. } => 1,
        }
    }

    /// True when a rank was ended by writing to a pipe that nobody reads.
    pub fn is_closed_pipe(&self) -> bool {
        let Self::Ended { ending: Ending::Killed { signal, .. }, .. } = self else { return false };
        *signal == Signal::PIPE.as_raw()
    }
}

/// The low eight bits are all that a process can exit with. A code that is not 0 but would become 0
/// there must still not look like success.
fn abort_code(code: i32) -> u8 {
    match code.to_le_bytes()[0] {
        0 if code != 0 => 1,
        low => low,
    }
}

/// What `timeout` of the shell exits with.
const TIMED_OUT: u8 = 124;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_ends_well_only_with_0_and_outside_of_a_session() {
        assert_eq!(judge(0, Ending::Exited(0), Phase::Silent), None);
        assert_eq!(judge(0, Ending::Exited(0), Phase::Finalized), None);
        assert_eq!(judge(3, Ending::Exited(0), Phase::Open), Some(Failure::LeftEarly { rank: 3 }));
        for phase in [Phase::Silent, Phase::Open, Phase::Finalized] {
            assert_eq!(judge(3, Ending::Exited(7), phase).map(|f| f.exit_code()), Some(7));
            let killed = Ending::Killed { signal: 9, dumped: false };
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
            Failure::TimedOut { limit: Duration::ZERO },
            Failure::Stalled { limit: Duration::ZERO },
            Failure::Overdue { limit: Duration::ZERO },
            Failure::Launcher { what: String::new() },
        ];
        assert_eq!(
            failures.map(|failure| failure.exit_code()),
            [1, 1, 1, 1, 1, 130, 124, 124, 124, 1]
        );
    }
}
