//! A process of a job, as the server knows it.

use crate::command::Version;
use crate::ids::{SessionId, Word};
use crate::time::Instant;

/// One process of a job.
#[derive(Clone, Debug)]
pub struct Member {
    /// Which program of the launch it belongs to; -1 if unknown.
    pub appnum: i32,
    /// The node it runs on; a label.
    pub node: u32,
    pub(super) phase: Phase,
    pub(super) session: Option<SessionId>,
    pub(super) fences: u32,
    pub(super) rings: u32,
    pub(super) last_message_at: Option<Instant>,
    pub(super) request_count: u32,
    pub(super) token: Option<u64>,
    pub(super) listener: Option<MemberListener>,
    /// Its session ended before it had said `init`.
    pub(super) is_disconnected: bool,
    /// It may begin anew after `finalize`, and its fences end without those that are gone.
    pub(super) tolerates_failures: bool,
    /// Its process has ended.
    pub(super) has_exited: bool,
    /// It speaks a newer version than it requests.
    pub(super) accepts_newer: bool,
}

/// The second connection of a process, on which the server speaks.
#[derive(Clone, Debug)]
pub(super) struct MemberListener {
    pub(super) session: SessionId,
    pub(super) version: Version,
    /// The signal that shall follow every message.
    pub(super) signal: Option<Word>,
}

/// How far a member has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// It has not said anything.
    Absent,
    /// It has a session but has not said `init`.
    Connected,
    /// It has said `init`.
    Open,
    /// It has said `finalize`.
    Finalized,
    /// Its session ended early, or its process did.
    Lost,
}

impl Member {
    /// A process that has not said anything.
    pub const fn new(appnum: i32, node: u32) -> Self {
        Self {
            appnum,
            node,
            phase: Phase::Absent,
            session: None,
            fences: 0,
            rings: 0,
            last_message_at: None,
            request_count: 0,
            token: None,
            listener: None,
            is_disconnected: false,
            tolerates_failures: false,
            has_exited: false,
            accepts_newer: false,
        }
    }

    /// Gives the process the identity that it has to dial in with. It is its rank otherwise; a
    /// random number that only it was told keeps others from taking its place.
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

    /// How far it has come.
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// The session it speaks over.
    pub const fn session(&self) -> Option<SessionId> {
        self.session
    }

    /// When it was last heard.
    pub const fn last_message_at(&self) -> Option<Instant> {
        self.last_message_at
    }

    /// How many messages came from it; the number stays at its end and does not wrap.
    pub const fn request_count(&self) -> u32 {
        self.request_count
    }

    /// Whether it will enter no fence any more, as far as anybody knows.
    pub(super) const fn is_gone(&self) -> bool {
        match self.phase {
            Phase::Lost => true,
            Phase::Finalized => !self.tolerates_failures || self.has_exited,
            Phase::Absent | Phase::Connected | Phase::Open => self.is_disconnected,
        }
    }
}
