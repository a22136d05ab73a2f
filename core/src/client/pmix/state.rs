//! All state transitions of the client's side of a PMIx session.
//!
//! | state | start `init` | start others | start `finalize` | start `abort` | reply | end of stream |
//! |---|---|---|---|---|---|---|
//! | Fresh | → Greeting | refused | refused | refused | – | → Failed |
//! | Greeting | refused | refused | refused | refused | admitted: → Joining; rejected: → Failed | → Failed |
//! | Joining | refused | refused | refused | → Aborting | → Open, or Failed | → Failed |
//! | Open | refused | stays | → Finalizing | → Aborting | stays | → Failed |
//! | Finalizing | refused | refused | refused | refused | → Ended | → Failed |
//! | Aborting | refused | refused | refused | refused | of the abort: → Ended; others are not read | → Ended |
//! | Ended | refused | refused | refused | refused | not read | stays |
//! | Failed | refused | refused | refused | refused | the first error again | the first error again |
//!
//! A reply that belongs to no request leads to Failed. A refusal of an ordinary request leaves the
//! session open; only the refusal of an opening fails it.

use super::PmixRequest;
use crate::error::{Misuse, PeerError};
use crate::wire::pmix::names::Command;

/// State of a PMIx session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PmixState {
    /// Nothing was sent yet.
    Fresh,
    /// The greeting is sent; the admission is awaited.
    Greeting,
    /// The client is admitted; the job-level information is awaited.
    Joining {
        /// Index that the server assigned to the connection.
        index: u32,
    },
    /// Requests and replies are exchanged.
    Open {
        /// Index that the server assigned to the connection.
        index: u32,
    },
    /// `finalize` is sent and its reply awaited.
    Finalizing {
        /// Index that the server assigned to the connection.
        index: u32,
    },
    /// `abort` is sent.
    Aborting {
        /// Index that the server assigned to the connection.
        index: u32,
    },
    /// The session has ended regularly.
    Ended,
    /// The session has ended by a fault of the peer; the first fault is kept.
    Failed(PeerError),
}

impl PmixState {
    /// Index for the headers of messages.
    pub(super) const fn index(self) -> u32 {
        match self {
            Self::Joining { index }
            | Self::Open { index }
            | Self::Finalizing { index }
            | Self::Aborting { index } => index,
            _ => 0,
        }
    }

    /// State after the caller has started an exchange; `alone` if no other is open.
    pub(super) fn start(self, request: &PmixRequest<'_>, alone: bool) -> Result<Self, Misuse> {
        let needs = |needed| Err(Misuse::WrongState { needed });
        match (self, request) {
            (
                Self::Finalizing { .. } | Self::Aborting { .. } | Self::Ended | Self::Failed(_),
                _,
            ) => needs("the session is open"),
            (Self::Fresh, PmixRequest::Init) => Ok(Self::Greeting),
            (Self::Joining { index } | Self::Open { index }, PmixRequest::Abort { .. }) => {
                Ok(Self::Aborting { index })
            }
            (Self::Fresh | Self::Greeting | Self::Joining { .. }, _) => needs("init was answered"),
            (Self::Open { .. }, PmixRequest::Init) => needs("the session is new"),
            (Self::Open { .. }, PmixRequest::Finalize) if !alone => Err(Misuse::Busy),
            (Self::Open { index }, PmixRequest::Finalize) => Ok(Self::Finalizing { index }),
            (Self::Open { .. }, _) => Ok(self),
        }
    }

    /// Checks that values may still be put.
    pub(super) const fn can_put(self) -> Result<(), Misuse> {
        match self {
            Self::Fresh | Self::Greeting | Self::Joining { .. } | Self::Open { .. } => Ok(()),
            _ => Err(Misuse::WrongState { needed: "the session is open" }),
        }
    }

    /// State after a reply.
    pub(super) fn answered(self, command: Command) -> Self {
        match (self, command) {
            (Self::Joining { index }, Command::REQ) => Self::Open { index },
            (Self::Finalizing { .. }, Command::FINALIZE)
            | (Self::Aborting { .. }, Command::ABORT) => Self::Ended,
            _ => self,
        }
    }

    /// State after the end of the peer's stream.
    pub(super) const fn ended(self) -> Result<Self, PeerError> {
        match self {
            Self::Aborting { .. } | Self::Ended => Ok(Self::Ended),
            Self::Failed(error) => Err(error),
            _ => Err(PeerError::LeftEarly),
        }
    }
}
