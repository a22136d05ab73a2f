//! A process of a job, as the server knows it.

use super::roster::Ranked;
use crate::command::Version;
use crate::ids::{Rank, SessionId, Word};
use crate::parts::ListenOption;
use crate::time::Instant;

/// One process of a job.
#[derive(Clone, Debug)]
pub struct Member {
    /// Number of its application in the launch; -1 if unknown.
    pub appnum: i32,
    /// The node it runs on; a label.
    pub node: u32,
    /// Its rank; `None` if it is its index among the members.
    rank: Option<Rank>,
    pub(super) phase: Phase,
    pub(super) session: Option<SessionId>,
    pub(super) fences: u32,
    pub(super) rings: u32,
    pub(super) last_message_at: Option<Instant>,
    pub(super) request_count: u32,
    pub(super) token: Option<u64>,
    pub(super) listener: ListenOption<MemberListener>,
    /// True if its session ended before `init`.
    pub(super) is_disconnected: bool,
    /// True if it may initialize again after `finalize`, and its fences complete without gone members.
    pub(super) tolerates_failures: bool,
    /// True if its process has terminated.
    pub(super) has_exited: bool,
    /// True if it supports a newer version than it requests.
    pub(super) accepts_newer: bool,
}

/// Second connection of a process, for notices of the server.
#[derive(Clone, Debug)]
pub(super) struct MemberListener {
    pub(super) session: SessionId,
    pub(super) version: Version,
    /// Signal to send after each message.
    pub(super) signal: Option<Word>,
}

/// State of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Phase {
    /// No message has arrived.
    Absent,
    /// A session exists; `init` has not arrived.
    Connected,
    /// `init` has arrived.
    Open,
    /// `finalize` has arrived.
    Finalized,
    /// The session or the process ended early.
    Lost,
}

impl Member {
    /// A process without a session.
    pub const fn new(appnum: i32, node: u32) -> Self {
        Self {
            appnum,
            node,
            rank: None,
            phase: Phase::Absent,
            session: None,
            fences: 0,
            rings: 0,
            last_message_at: None,
            request_count: 0,
            token: None,
            listener: NO_LISTENER,
            is_disconnected: false,
            tolerates_failures: false,
            has_exited: false,
            accepts_newer: false,
        }
    }

    /// Sets the rank of a member of a job that has ranks on several nodes. All members of the job have one
    /// then.
    pub fn with_rank(self, rank: Rank) -> Self {
        Self { rank: Some(rank), ..self }
    }

    /// Sets the identity that the process connects with, which is its rank otherwise. A random
    /// number that only the process receives keeps other processes from taking its place.
    pub fn with_token(self, token: u64) -> Self {
        Self { token: Some(token), ..self }
    }

    /// Answers the process's `init` of version 1.1 with the newest version 1 of the server: it is known to
    /// speak that, although it requests less. The default is the version requested, as Flux's client
    /// rejects any other.
    ///
    /// Wire: `cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=2`.
    pub fn accepting_newer(self) -> Self {
        Self { accepts_newer: true, ..self }
    }

    /// State of the member.
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// Its session.
    pub const fn session(&self) -> Option<SessionId> {
        self.session
    }

    /// Time of its last message.
    pub const fn last_message_at(&self) -> Option<Instant> {
        self.last_message_at
    }

    /// Number of fences of the whole job that it has entered.
    pub const fn fence_count(&self) -> u32 {
        self.fences
    }

    /// Number of messages received from it; saturates at its maximum.
    pub const fn request_count(&self) -> u32 {
        self.request_count
    }

    /// True if the member will enter no further fence, as far as the server knows.
    pub(super) const fn is_gone(&self) -> bool {
        match self.phase {
            Phase::Lost => true,
            Phase::Finalized => !self.tolerates_failures || self.has_exited,
            Phase::Absent | Phase::Connected | Phase::Open => self.is_disconnected,
        }
    }
}

/// A constant, since [`Member::new`] is evaluated at compile time.
#[cfg(feature = "listen")]
const NO_LISTENER: ListenOption<MemberListener> = None;
#[cfg(not(feature = "listen"))]
const NO_LISTENER: ListenOption<MemberListener> = ListenOption::NONE;

impl Ranked for Member {
    fn rank(&self) -> Option<Rank> {
        self.rank
    }
}
