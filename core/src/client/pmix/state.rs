//! All transitions of the client's side of a conversation in PMIx.
//!
//! | state | start `init` | start others | start `finalize` | start `abort` | answer | end of stream |
//! |---|---|---|---|---|---|---|
//! | Fresh | → Greeting | refused | refused | refused | – | → Failed |
//! | Greeting | refused | refused | refused | refused | let in: → Joining; sent away: → Failed | → Failed |
//! | Joining | refused | refused | refused | → Aborting | → Open, or Failed | → Failed |
//! | Open | refused | stays | → Finalizing | → Aborting | stays | → Failed |
//! | Finalizing | refused | refused | refused | refused | → Ended | → Failed |
//! | Aborting | refused | refused | refused | refused | of the abort: → Ended; others are not read | → Ended |
//! | Ended | refused | refused | refused | refused | not read | stays |
//! | Failed | refused | refused | refused | refused | the first error again | the first error again |
//!
//! An answer that belongs to no question leads to Failed. The answer to an ordinary question may say no;
//! only the opening fails with it.

use super::PmixRequest;
use crate::error::{Misuse, PeerError};
use crate::wire::pmix::names::Command;

/// Where a conversation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PmixState {
    /// Nothing was said yet.
    Fresh,
    /// Waits to be let in.
    Greeting,
    /// Is let in, and waits for the description of the job.
    Joining {
        /// The number that the server gave the connection.
        index: u32,
    },
    /// Asks and hears answers.
    Open {
        /// The number that the server gave the connection.
        index: u32,
    },
    /// Has said goodbye and waits for the answer.
    Finalizing {
        /// The number that the server gave the connection.
        index: u32,
    },
    /// Has asked for the end of the job.
    Aborting {
        /// The number that the server gave the connection.
        index: u32,
    },
    /// Over, as it should be.
    Ended,
    /// Over by a fault of the peer; the first one stays.
    Failed(PeerError),
}

impl PmixState {
    /// The number that goes into the headers of messages.
    pub(super) const fn index(self) -> u32 {
        match self {
            Self::Joining { index }
            | Self::Open { index }
            | Self::Finalizing { index }
            | Self::Aborting { index } => index,
            _ => 0,
        }
    }

    /// The caller starts an exchange; `alone` if no other is open.
    pub(super) fn start(self, request: &PmixRequest<'_>, alone: bool) -> Result<Self, Misuse> {
        let needs = |needed| Err(Misuse::WrongState { needed });
        match (self, request) {
            (
                Self::Finalizing { .. } | Self::Aborting { .. } | Self::Ended | Self::Failed(_),
                _,
            ) => needs("the conversation is not over"),
            (Self::Fresh, PmixRequest::Init) => Ok(Self::Greeting),
            (Self::Joining { index } | Self::Open { index }, PmixRequest::Abort { .. }) => {
                Ok(Self::Aborting { index })
            }
            (Self::Fresh | Self::Greeting | Self::Joining { .. }, _) => needs("init was answered"),
            (Self::Open { .. }, PmixRequest::Init) => needs("the conversation is fresh"),
            (Self::Open { .. }, PmixRequest::Finalize) if !alone => Err(Misuse::Busy),
            (Self::Open { index }, PmixRequest::Finalize) => Ok(Self::Finalizing { index }),
            (Self::Open { .. }, _) => Ok(self),
        }
    }

    /// True if values may still be put.
    pub(super) const fn can_put(self) -> Result<(), Misuse> {
        match self {
            Self::Fresh | Self::Greeting | Self::Joining { .. } | Self::Open { .. } => Ok(()),
            _ => Err(Misuse::WrongState { needed: "the conversation is not over" }),
        }
    }

    /// A question is answered.
    pub(super) fn answered(self, command: Command) -> Self {
        match (self, command) {
            (Self::Joining { index }, Command::REQ) => Self::Open { index },
            (Self::Finalizing { .. }, Command::FINALIZE)
            | (Self::Aborting { .. }, Command::ABORT) => Self::Ended,
            _ => self,
        }
    }

    /// The peer sends no more.
    pub(super) const fn ended(self) -> Result<Self, PeerError> {
        match self {
            Self::Aborting { .. } | Self::Ended => Ok(Self::Ended),
            Self::Failed(error) => Err(error),
            _ => Err(PeerError::LeftEarly),
        }
    }
}
