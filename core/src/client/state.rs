//! All transitions of the client's side of a conversation.
//!
//! | state | start `initack` | start `init` | start `fullinit` | start others | start `finalize` | start `abort` | answer | sent | end of stream |
//! |---|---|---|---|---|---|---|---|---|---|
//! | Fresh | → Greeting, once | → Opening | refused | refused | refused | → Aborting | – | – | → Failed |
//! | Greeting | refused | refused | refused | refused | refused | → Aborting | → Fresh, or Failed | – | → Failed |
//! | Opening | refused | refused | refused | refused | refused | → Aborting | → Open, in PMI-2 Agreed, or Failed | – | → Failed |
//! | Agreed | refused | refused | → Joining | refused | refused | → Aborting | – | – | → Failed |
//! | Joining | refused | refused | refused | refused | refused | → Aborting | → Open, Challenged, or Failed | – | → Failed |
//! | Challenged | refused | refused | refused | proof: → Joining | refused | → Aborting | – | – | → Failed |
//! | Open | refused | refused | refused | stays | → Finalizing | → Aborting | stays | – | → Failed |
//! | Finalizing | refused | refused | refused | refused | refused | refused | → Ended | – | → Failed |
//! | Aborting | refused | refused | refused | refused | refused | refused | not read | → Ended | → Ended |
//! | Ended | refused | refused | refused | refused | refused | refused | not read | – | stays |
//! | Failed | refused | refused | refused | refused | refused | refused | the first error again | – | the first error again |
//!
//! An answer that belongs to no question, or to another one, leads to Failed from everywhere. The
//! answer to an ordinary question may say no; only the openings fail with it, because there is no
//! way on. A caller who wants an older version then opens again, with a client that is new.

use crate::command::{Answer, Reply, Request, Version};
use crate::error::{Misuse, PeerError};

/// Where a conversation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// Nothing was agreed yet.
    Fresh {
        /// Whether the server has been told who dialled in.
        greeted: bool,
    },
    /// Waits to hear who this client is.
    Greeting,
    /// Waits for the version that will be spoken.
    Opening {
        /// The version that was asked for.
        asked: Version,
    },
    /// PMI-2 is agreed on; the server has not heard who this client is.
    Agreed {
        /// What is spoken.
        version: Version,
    },
    /// Waits to hear who this client is, or what it must prove.
    Joining {
        /// What is spoken.
        version: Version,
    },
    /// Has heard what it must prove.
    Challenged {
        /// What is spoken.
        version: Version,
    },
    /// Asks and hears answers.
    Open {
        /// What is spoken.
        version: Version,
    },
    /// Has said goodbye and waits for the answer.
    Finalizing {
        /// What is spoken.
        version: Version,
    },
    /// Will say that the job shall end; nothing is awaited any more.
    Aborting,
    /// Over, as it should be.
    Ended,
    /// Over by a fault of the peer; the first one stays.
    Failed(PeerError),
}

impl State {
    /// The version that is spoken.
    pub const fn version(&self) -> Option<Version> {
        match *self {
            Self::Agreed { version }
            | Self::Joining { version }
            | Self::Challenged { version }
            | Self::Open { version }
            | Self::Finalizing { version } => Some(version),
            _ => None,
        }
    }

    /// The caller starts an exchange; `alone` if no other is open.
    pub(super) fn start(self, request: &Request<'_>, alone: bool) -> Result<Self, Misuse> {
        let needs = |needed| Err(Misuse::WrongState { needed });
        match (self, request) {
            (Self::Finalizing { .. } | Self::Aborting | Self::Ended | Self::Failed(_), _) => {
                needs("the conversation is not over")
            }
            (_, Request::Abort { .. }) => Ok(Self::Aborting),
            (Self::Fresh { greeted: false }, Request::InitAck { .. }) => Ok(Self::Greeting),
            (Self::Fresh { .. }, Request::Init { version }) => {
                if !SPOKEN.contains(version) {
                    return Err(Misuse::NotSayable { what: "a version that is not spoken here" });
                }
                Ok(Self::Opening { asked: *version })
            }
            (Self::Fresh { .. }, _) => needs("init was answered"),
            (Self::Agreed { version }, Request::FullInit { .. })
            | (Self::Challenged { version }, Request::Proof { .. }) => {
                Ok(Self::Joining { version })
            }
            (Self::Agreed { .. }, _) => needs("fullinit was answered"),
            (Self::Challenged { .. }, _) => needs("the challenge was answered"),
            (Self::Greeting | Self::Opening { .. } | Self::Joining { .. }, _) => {
                needs("the opening was answered")
            }
            (Self::Open { .. }, Request::Init { .. } | Request::InitAck { .. }) => {
                needs("the conversation is fresh")
            }
            (
                Self::Open { version: Version { major: 2, .. } },
                Request::FullInit { .. } | Request::Proof { .. },
            ) => needs("fullinit was not answered"),
            (Self::Open { .. }, Request::Finalize) if !alone => Err(Misuse::Busy),
            (Self::Open { version }, Request::Finalize) => Ok(Self::Finalizing { version }),
            (Self::Open { .. }, _) => Ok(self),
        }
    }

    /// The oldest fitting question is answered.
    pub(super) fn answered(self, reply: &Reply<'_>) -> Result<Self, PeerError> {
        match self {
            Self::Greeting if !reply.code.is_success() => Err(PeerError::Refused(reply.code)),
            Self::Greeting => Ok(Self::Fresh { greeted: true }),
            Self::Opening { asked } => agree(asked, reply).map(|version| match version.major {
                2 => Self::Agreed { version },
                _ => Self::Open { version },
            }),
            Self::Joining { .. } if !reply.code.is_success() => Err(PeerError::Refused(reply.code)),
            Self::Joining { version } => Ok(match reply.answer {
                Answer::Challenge(_) => Self::Challenged { version },
                _ => Self::Open { version },
            }),
            Self::Finalizing { .. } => Ok(Self::Ended),
            _ => Ok(self),
        }
    }

    /// What was owed is on its way.
    pub(super) const fn sent(self) -> Self {
        match self {
            Self::Aborting => Self::Ended,
            other => other,
        }
    }

    /// The peer sends no more.
    pub(super) const fn ended(self) -> Result<Self, PeerError> {
        match self {
            Self::Aborting | Self::Ended => Ok(Self::Ended),
            Self::Failed(error) => Err(error),
            _ => Err(PeerError::LeftEarly),
        }
    }
}

/// What will be spoken: the lower of what was asked for and what the server answers.
///
/// Servers were seen that answer 1.2 to 1.1 and use nothing of 1.2 unless asked, and some that
/// answer without a version; both are fine. An answer without a return code is not: its readers
/// disagree on what it means, so it is a refusal.
pub(super) fn agree(asked: Version, reply: &Reply<'_>) -> Result<Version, PeerError> {
    let answered = match reply.answer {
        Answer::Version(version) => version,
        _ => asked,
    };
    let Version { major, minor } = answered;
    if major != asked.major || (!reply.code.is_success() && answered != asked) {
        return Err(PeerError::Version { major, minor });
    }
    if !reply.code.is_success() {
        return Err(PeerError::Refused(reply.code));
    }
    Ok(asked.min(answered))
}

/// The versions that a client can ask for.
const SPOKEN: [Version; 5] =
    [Version { major: 1, minor: 0 }, Version::V1_1, Version::V1_2, Version::V2_0, Version::OWN];
