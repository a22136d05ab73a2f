//! All state transitions of the client's side of a session.
//!
//! | state | start `initack` | start `init` | start `fullinit` | start others | start `finalize` | start `abort` | reply | sent | end of stream |
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
//! A reply that belongs to no request, or to another one, leads to Failed from every state. A refusal
//! of an ordinary request leaves the session open; a refusal of an opening fails it, because the
//! session cannot continue. A caller that accepts an older version then opens again, with a new client.
//!
//! The client stores the stage in one byte, and the version and the fault beside it. So a transition
//! does not move a value, which costs a small board more than deciding on it.

use crate::command::{Answer, Reply, Verb, Version};
use crate::error::{Misuse, PeerError};
use crate::parts;

/// State of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// Nothing was agreed yet.
    Fresh {
        /// True if the server knows which process has connected.
        greeted: bool,
    },
    /// `initack` is sent; the identity of this client is awaited.
    Greeting,
    /// `init` is sent; the agreed version is awaited.
    Opening {
        /// Requested version.
        asked: Version,
    },
    /// PMI-2 is agreed on; the server does not know the identity of this client yet.
    Agreed {
        /// Agreed version.
        version: Version,
    },
    /// `fullinit` is sent; the identity of this client or a challenge is awaited.
    Joining {
        /// Agreed version.
        version: Version,
    },
    /// A challenge has been received; the proof is not sent yet.
    Challenged {
        /// Agreed version.
        version: Version,
    },
    /// Requests and replies are exchanged.
    Open {
        /// Agreed version.
        version: Version,
    },
    /// `finalize` is sent and its reply awaited.
    Finalizing {
        /// Agreed version.
        version: Version,
    },
    /// `abort` is due; no reply is awaited any more.
    Aborting,
    /// The session has ended regularly.
    Ended,
    /// The session has ended by a fault of the peer; the first fault is kept.
    Failed(PeerError),
}

/// Progress of a session, without version and fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the variant of `State` of the same name")]
pub(super) enum Stage {
    Fresh,
    /// Fresh, and the server knows which process has connected.
    Greeted,
    Greeting,
    Opening,
    Agreed,
    Joining,
    Challenged,
    Open,
    Finalizing,
    Aborting,
    Ended,
}

/// State of a session in the form that the client stores.
#[derive(Debug)]
pub(super) struct Lifecycle {
    pub(super) stage: Stage,
    /// Requested version, later the agreed one.
    version: Version,
    /// First fault of the peer; it ends the session.
    pub(super) fault: Option<PeerError>,
}

impl Lifecycle {
    pub(super) const fn new() -> Self {
        Self { stage: Stage::Fresh, version: Version::V1_1, fault: None }
    }

    /// Public form of the state.
    pub(super) const fn state(&self) -> State {
        let version = self.version;
        match (self.fault, self.stage) {
            (Some(error), _) => State::Failed(error),
            (_, Stage::Fresh) => State::Fresh { greeted: false },
            (_, Stage::Greeted) => State::Fresh { greeted: true },
            (_, Stage::Greeting) => State::Greeting,
            (_, Stage::Opening) => State::Opening { asked: version },
            (_, Stage::Agreed) => State::Agreed { version },
            (_, Stage::Joining) => State::Joining { version },
            (_, Stage::Challenged) => State::Challenged { version },
            (_, Stage::Open) => State::Open { version },
            (_, Stage::Finalizing) => State::Finalizing { version },
            (_, Stage::Aborting) => State::Aborting,
            (_, Stage::Ended) => State::Ended,
        }
    }

    /// Agreed version.
    pub(super) const fn version(&self) -> Option<Version> {
        match self.stage {
            _ if self.fault.is_some() => None,
            Stage::Agreed
            | Stage::Joining
            | Stage::Challenged
            | Stage::Open
            | Stage::Finalizing => Some(self.version),
            _ => None,
        }
    }

    /// True if exchanges have names. Openings have none, since nothing else is in flight.
    pub(super) const fn is_open(&self) -> bool {
        self.fault.is_none() && matches!(self.stage, Stage::Open | Stage::Finalizing)
    }

    /// True if further input is irrelevant.
    pub(super) const fn is_over(&self) -> bool {
        self.fault.is_some() || matches!(self.stage, Stage::Aborting | Stage::Ended)
    }

    /// Checks that the caller may start an exchange; `alone` if no other is open.
    pub(super) fn may_start(&self, verb: Verb, alone: bool) -> Result<(), Misuse> {
        let is_fine = match self.stage {
            _ if self.is_over() || self.stage == Stage::Finalizing => false,
            _ if verb == Verb::Abort => true,
            Stage::Fresh | Stage::Greeted => match verb {
                Verb::Init => true,
                Verb::InitAck if !parts::LISTEN => {
                    return Err(Misuse::NotRepresentable {
                        what: "`initack`, which this build leaves out (feature `listen`)",
                    });
                }
                Verb::InitAck => self.stage == Stage::Fresh,
                _ => false,
            },
            Stage::Agreed => verb == Verb::FullInit,
            Stage::Challenged => matches!(verb, Verb::Proof | Verb::AuthResponse),
            Stage::Open => match verb {
                Verb::Init | Verb::InitAck => false,
                Verb::FullInit | Verb::Proof | Verb::AuthResponse if parts::PMI2 => {
                    self.version.major != 2
                }
                Verb::Finalize if !alone => return Err(Misuse::Busy),
                _ => true,
            },
            _ => false,
        };
        if is_fine { Ok(()) } else { Err(Misuse::WrongState { needed: self.needed(verb) }) }
    }

    /// Condition under which `verb` may be started.
    const fn needed(&self, verb: Verb) -> &'static str {
        match self.stage {
            _ if self.fault.is_some() => OVER,
            Stage::Fresh | Stage::Greeted => "init was answered",
            Stage::Greeting | Stage::Opening | Stage::Joining => "the opening was answered",
            Stage::Agreed => "fullinit was answered",
            Stage::Challenged => "the challenge was answered",
            Stage::Open if matches!(verb, Verb::Init | Verb::InitAck) => "the session is new",
            Stage::Open => "fullinit was not answered",
            Stage::Finalizing | Stage::Aborting | Stage::Ended => OVER,
        }
    }

    /// Records that the caller has started an exchange.
    pub(super) const fn started(&mut self, verb: Verb) {
        self.stage = match verb {
            Verb::InitAck if parts::LISTEN => Stage::Greeting,
            Verb::Init => Stage::Opening,
            Verb::FullInit | Verb::Proof | Verb::AuthResponse if parts::PMI2 => Stage::Joining,
            Verb::Finalize => Stage::Finalizing,
            Verb::Abort => Stage::Aborting,
            _ => return,
        };
    }

    /// Records the requested version.
    pub(super) const fn asked_for(&mut self, version: Version) {
        self.version = version;
    }

    /// Records the reply to the oldest matching request.
    pub(super) fn answered(&mut self, reply: &Reply<'_>) {
        let code = reply.code;
        match self.stage {
            Stage::Opening => match agree(self.version, reply) {
                Ok(version) => {
                    self.version = version;
                    let is_two = parts::PMI2 && version.major == 2;
                    self.stage = if is_two { Stage::Agreed } else { Stage::Open };
                }
                Err(error) => self.fault = Some(error),
            },
            Stage::Greeting | Stage::Joining
                if (parts::LISTEN || parts::PMI2) && !code.is_success() =>
            {
                self.fault = Some(PeerError::Refused(code));
            }
            Stage::Greeting => self.stage = Stage::Greeted,
            Stage::Joining => {
                let is_challenge = matches!(reply.answer, Answer::Challenge(_));
                self.stage = if is_challenge { Stage::Challenged } else { Stage::Open };
            }
            Stage::Finalizing => self.stage = Stage::Ended,
            _ => {}
        }
    }

    /// Records that the due message has been sent.
    pub(super) const fn sent(&mut self) {
        if matches!(self.stage, Stage::Aborting) {
            self.stage = Stage::Ended;
        }
    }

    /// Records the end of the peer's stream.
    pub(super) const fn ended(&mut self) {
        match self.stage {
            _ if self.fault.is_some() => {}
            Stage::Aborting | Stage::Ended => self.stage = Stage::Ended,
            _ => self.fault = Some(PeerError::LeftEarly),
        }
    }
}

const OVER: &str = "the session is open";

/// Agreed version: the lower of the requested one and the one that the server answers.
///
/// Servers were seen that answer 1.2 to 1.1 and use nothing of 1.2 unless asked, and some that
/// answer without a version; both are fine. A reply without a return code is a refusal, since its
/// readers disagree on its meaning.
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
