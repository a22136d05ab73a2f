//! Events of a run: one list for the trace, the checkers and the page.

use crate::net::LinkFault;
use crate::scenario::{FaultKind, RankRequest};
use pmi_core::command::{Answer, Reply, Version};
use pmi_core::error::{Misuse, PeerError};
use pmi_link::LinkError;
use std::fmt;

/// An event of a run, with its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Time, in microseconds of the world.
    pub at: u64,
    /// Step of the world.
    pub step: u64,
    /// Its kind.
    pub event: SimEvent,
}

/// An event of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SimEvent {
    /// A process has started.
    Started {
        /// The rank.
        rank: u32,
    },
    /// A rank starts a request; the bytes follow when there is room for them.
    Asked {
        /// The rank.
        rank: u32,
        /// Number of the request at its rank.
        number: u32,
        /// The request.
        ask: RankRequest,
    },
    /// A request is answered.
    Answered {
        /// The rank.
        rank: u32,
        /// Number of the request.
        number: u32,
        /// The request.
        ask: RankRequest,
        /// The answer.
        got: Received,
    },
    /// A rank received an event of PMIx for which it has registered.
    Notified {
        /// The rank.
        rank: u32,
        /// Code of the event.
        code: i32,
        /// The rank that it concerns, in its own job.
        source: u32,
    },
    /// The client refused a request before anything was sent.
    Refused {
        /// The rank of the client.
        rank: u32,
        /// The request.
        ask: RankRequest,
        /// Cause of the refusal.
        misuse: Misuse,
    },
    /// The client detected an error of the peer.
    Broke {
        /// The rank of the client.
        rank: u32,
        /// The error.
        error: PeerError,
    },
    /// A rank wrote bytes to its link.
    Sent {
        /// The rank.
        rank: u32,
        /// The bytes.
        bytes: Vec<u8>,
        /// True if the script made them, and not the client.
        is_raw: bool,
    },
    /// A rank took bytes from its link.
    Received {
        /// The rank.
        rank: u32,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// A rank has closed its end of the link.
    Left {
        /// The rank.
        rank: u32,
    },
    /// A process changed its state.
    Process {
        /// The rank.
        rank: u32,
        /// The change.
        turn: Turn,
    },
    /// The server took bytes from a link.
    ServerReceived {
        /// The rank of the link.
        rank: u32,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The server sent a message.
    ServerSent {
        /// The rank of the link.
        rank: u32,
        /// The whole message.
        bytes: Vec<u8>,
    },
    /// The server has closed its end of a link.
    ServerLeft {
        /// The rank of the link.
        rank: u32,
    },
    /// Bytes of a link that the host holds.
    HostHolds {
        /// The rank of the link.
        rank: u32,
        /// Number of bytes read from the link and not yet taken by the server.
        untaken: usize,
        /// Number of bytes sent by the server and not yet written to the link.
        unsent: usize,
    },
    /// The server reported a failure to its owner.
    Reported {
        /// The rank that it names.
        rank: Option<u32>,
        /// The failure, with its rank.
        failure: ReportedFailure,
    },
    /// A new connection has identified itself.
    Joined {
        /// The rank.
        rank: u32,
    },
    /// The host has begun to start a job that a rank spawned.
    Spawned {
        /// The requesting rank.
        rank: u32,
        /// The job.
        job: String,
    },
    /// The host has removed a job, since the last of its processes has exited.
    Forgotten {
        /// The job.
        job: String,
    },
    /// Two ranks put the same key between two fences.
    PutTwice {
        /// The key.
        key: Vec<u8>,
        /// The first one.
        first: u32,
        /// The second one.
        second: u32,
    },
    /// A fault of the scenario, or an injection.
    Fault {
        /// The affected rank.
        rank: u32,
        /// The fault.
        what: FaultKind,
    },
    /// A random fault of a link.
    LinkFault {
        /// The rank of the link.
        rank: u32,
        /// The fault.
        what: LinkFault,
    },
    /// The host kills all remaining processes.
    KillAll,
    /// Nothing more will happen by itself.
    Quiet,
    /// A rule does not hold.
    Violation {
        /// The rule.
        rule: &'static str,
        /// The observation.
        what: String,
    },
}

/// A change of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It is stopped.
    Stopped,
    /// It continues.
    Continued,
    /// It makes no further steps, but is not terminated.
    Hung,
    /// It stops reading.
    Deaf,
    /// It reads again.
    ReadsAgain,
    /// It exited by itself.
    Exited(i32),
    /// It was killed.
    Killed,
}

/// A failure that the server reports to its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReportedFailure {
    /// Protocol error of the peer.
    Peer(PeerError),
    /// Abort by the rank.
    Aborted(Option<i32>),
    /// Other ranks wait for the rank, which is gone.
    Stuck,
    /// Its link broke before it finalized.
    Link(LinkError),
}

/// An answer, copied out of its buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The return code.
    pub code: i32,
    /// The rest of the reply.
    pub said: ReplyBody,
}

/// Contents of a reply, besides its code.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the answer of the same name")]
pub enum ReplyBody {
    Nothing,
    Version(Version),
    Number(i64),
    Text(Vec<u8>),
    Missing,
    Refused(Vec<u8>),
    Spawned { job: Option<Vec<u8>>, codes: Option<Vec<u8>> },
    Ring { place: u32, left: Vec<u8>, right: Vec<u8> },
    Other(String),
}

impl Received {
    /// Copies the contents of `reply`.
    pub fn new(reply: &Reply<'_>) -> Self {
        let said = match reply.answer {
            Answer::Nothing | Answer::Released { tag: None } => ReplyBody::Nothing,
            Answer::Released { tag: Some(tag) } => ReplyBody::Number(tag.into()),
            Answer::Version(version) => ReplyBody::Version(version),
            Answer::Number(number) => ReplyBody::Number(number.into()),
            Answer::Name(text) | Answer::Value(text) => ReplyBody::Text(text.bytes().collect()),
            Answer::Missing => ReplyBody::Missing,
            Answer::Message(text) => ReplyBody::Refused(text.bytes().collect()),
            Answer::Spawned { job, codes } => ReplyBody::Spawned {
                job: job.map(|job| job.bytes().collect()),
                codes: codes.map(|codes| codes.bytes().collect()),
            },
            Answer::Ring { count, left, right } => ReplyBody::Ring {
                place: count,
                left: left.bytes().collect(),
                right: right.bytes().collect(),
            },
            Answer::Identity(who) => ReplyBody::Other(format!("rank {} of {}", who.rank, who.size)),
            Answer::Maxes(maxes) => {
                ReplyBody::Other(format!("{} {} {}", maxes.kvsname, maxes.key, maxes.value))
            }
            // No request of a script has such an answer.
            _ => ReplyBody::Other("another answer".into()),
        };
        Self { code: reply.code.0, said }
    }

    /// True if the request succeeded.
    pub const fn is_success(&self) -> bool {
        self.code == 0
    }

    /// The value, if there is one: PMI-1 reports its absence with the code, PMI-2 with a word.
    pub fn value(&self) -> Option<&[u8]> {
        match &self.said {
            ReplyBody::Text(text) if self.is_success() => Some(text),
            _ => None,
        }
    }
}

impl SimEvent {
    /// The rank it is about, if it is about one.
    pub const fn rank(&self) -> Option<u32> {
        match *self {
            Self::Started { rank }
            | Self::Asked { rank, .. }
            | Self::Answered { rank, .. }
            | Self::Notified { rank, .. }
            | Self::Refused { rank, .. }
            | Self::Broke { rank, .. }
            | Self::Sent { rank, .. }
            | Self::Received { rank, .. }
            | Self::Left { rank }
            | Self::Process { rank, .. }
            | Self::ServerReceived { rank, .. }
            | Self::ServerSent { rank, .. }
            | Self::ServerLeft { rank }
            | Self::HostHolds { rank, .. }
            | Self::Joined { rank }
            | Self::Spawned { rank, .. }
            | Self::Fault { rank, .. }
            | Self::LinkFault { rank, .. } => Some(rank),
            Self::Reported { rank, .. } => rank,
            Self::PutTwice { .. }
            | Self::Forgotten { .. }
            | Self::KillAll
            | Self::Quiet
            | Self::Violation { .. } => None,
        }
    }
}

/// The line of the trace, without its time.
impl fmt::Display for SimEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
        match self {
            Self::Started { rank } => write!(f, "rank {rank} start"),
            Self::Asked { rank, number, ask } => write!(f, "rank {rank} ask {number} {ask}"),
            Self::Answered { rank, number, got, .. } => {
                write!(f, "rank {rank} got {number} {got}")
            }
            Self::Notified { rank, code, source } => {
                write!(f, "rank {rank} event {code} from {source}")
            }
            Self::Refused { rank, ask, misuse } => write!(f, "rank {rank} cannot {ask}: {misuse}"),
            Self::Broke { rank, error } => write!(f, "rank {rank} broke {error}"),
            Self::Sent { rank, bytes, is_raw } => {
                let word = if *is_raw { "raw" } else { "say" };
                write!(f, "rank {rank} {word} {}", text(bytes))
            }
            Self::Received { rank, bytes } => {
                write!(f, "rank {rank} hear {}", text(bytes))
            }
            Self::Left { rank } => write!(f, "rank {rank} leave"),
            Self::Process { rank, turn } => write!(f, "rank {rank} {turn}"),
            Self::ServerReceived { rank, bytes } => {
                write!(f, "host {rank} hear {}", text(bytes))
            }
            Self::ServerSent { rank, bytes } => {
                write!(f, "host {rank} say {}", text(bytes))
            }
            Self::ServerLeft { rank } => write!(f, "host {rank} leave"),
            Self::HostHolds { rank, untaken, unsent } => {
                write!(f, "host {rank} hold {untaken} {unsent}")
            }
            Self::Reported { rank: Some(rank), failure } => {
                write!(f, "host {rank} report {failure}")
            }
            Self::Reported { rank: None, failure } => write!(f, "host - report {failure}"),
            Self::Joined { rank } => write!(f, "host {rank} joined"),
            Self::Spawned { rank, job } => write!(f, "host {rank} spawned {job}"),
            Self::Forgotten { job } => write!(f, "host - forgot {job}"),
            Self::PutTwice { key, first, second } => {
                write!(f, "host {second} put-twice {} after {first}", text(key))
            }
            Self::Fault { rank, what } => {
                write!(f, "link {rank} fault {}", what.word())?;
                match what {
                    FaultKind::Send(bytes) => write!(f, " {}", text(bytes)),
                    FaultKind::Flip(direction) | FaultKind::Shatter(direction) => {
                        write!(f, " {direction}")
                    }
                    _ => Ok(()),
                }
            }
            Self::LinkFault { rank, what } => match what {
                LinkFault::Flipped(direction) => write!(f, "link {rank} flip {direction}"),
                LinkFault::Stalled(until) => write!(f, "link {rank} stall {until}"),
                LinkFault::Reset => write!(f, "link {rank} reset"),
            },
            Self::KillAll => f.write_str("host - kill-all"),
            Self::Quiet => f.write_str("world - quiet"),
            Self::Violation { rule, what } => write!(f, "check - {rule} {what}"),
        }
    }
}

impl Turn {
    /// True if the process has terminated.
    pub const fn is_end(self) -> bool {
        matches!(self, Self::Exited(_) | Self::Killed)
    }
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str("stopped"),
            Self::Continued => f.write_str("continued"),
            Self::Hung => f.write_str("hung"),
            Self::Deaf => f.write_str("deaf"),
            Self::ReadsAgain => f.write_str("hears"),
            Self::Exited(code) => write!(f, "exit {code}"),
            Self::Killed => f.write_str("killed"),
        }
    }
}

impl fmt::Display for ReportedFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Peer(error) => error.fmt(f),
            Self::Aborted(Some(code)) => write!(f, "it aborted with code {code}"),
            Self::Aborted(None) => f.write_str("it aborted without a code"),
            Self::Link(error) => error.fmt(f),
            Self::Stuck => f.write_str("it is gone, and others wait for it"),
        }
    }
}

impl fmt::Display for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code)?;
        match &self.said {
            ReplyBody::Nothing => Ok(()),
            ReplyBody::Version(version) => write!(f, " {}.{}", version.major, version.minor),
            ReplyBody::Number(number) => write!(f, " {number}"),
            ReplyBody::Text(text) | ReplyBody::Refused(text) => {
                write!(f, " {}", text.escape_ascii())
            }
            ReplyBody::Missing => f.write_str(" missing"),
            ReplyBody::Spawned { job, codes } => {
                let text = |text: &Option<Vec<u8>>| {
                    text.as_ref().map_or("-".into(), |text| text.escape_ascii().to_string())
                };
                write!(f, " {} {}", text(job), text(codes))
            }
            ReplyBody::Ring { place, left, right } => {
                write!(f, " {place} {} {}", left.escape_ascii(), right.escape_ascii())
            }
            ReplyBody::Other(text) => f.write_str(&format!(" {text}")),
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.at, self.event)
    }
}
