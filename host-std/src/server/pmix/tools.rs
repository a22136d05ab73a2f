//! Tools: PMIx clients that no server started. Each is a job of one process, which ends with its
//! connection.

use pmi_core::ids::{JobId, SessionId};
use std::collections::BTreeSet;

/// Jobs of connected tools.
#[derive(Debug, Default)]
pub(crate) struct Tools {
    jobs: BTreeSet<JobId>,
    /// Jobs of daemons of debuggers, which may do the same.
    daemons: BTreeSet<JobId>,
    /// Number of tools so far; the namespaces of new ones continue from it.
    named_count: u32,
    /// Sessions that were closed: their numbers are reused.
    closed: Vec<SessionId>,
    /// True if the launcher does not hold the published names.
    hands_names_up: bool,
}

impl Tools {
    /// True for the job of a tool.
    pub(crate) fn has(&self, job: JobId) -> bool {
        self.jobs.contains(&job)
    }

    /// True for the job of a tool, and for one of daemons of a debugger.
    pub(super) fn controls_all(&self, job: JobId) -> bool {
        self.has(job) || self.daemons.contains(&job)
    }

    /// Adds a job of daemons of a debugger, or removes one that is gone.
    pub(in crate::server) fn set_daemons(&mut self, job: JobId, are_daemons: bool) {
        match are_daemons {
            true => self.daemons.insert(job),
            false => self.daemons.remove(&job),
        };
    }

    /// Hands requests of tools about published names up from now on.
    pub(super) const fn hand_names_up(&mut self) {
        self.hands_names_up = true;
    }

    /// True if requests about published names are handed up.
    pub(super) const fn hands_names_up(&self) -> bool {
        self.hands_names_up
    }

    /// Records that a session of such a job was closed.
    pub(super) fn note_closed(&mut self, session: SessionId) {
        self.closed.push(session);
    }

    /// True if a tool is connected, or there are daemons of a debugger.
    pub(super) fn is_any(&self) -> bool {
        !self.jobs.is_empty() || !self.daemons.is_empty()
    }

    /// Name of the next tool that brings none.
    pub(super) fn next_name(&mut self, pid: u32) -> Vec<u8> {
        self.named_count += 1;
        format!("tool_{pid}_{}", self.named_count).into_bytes()
    }

    /// Adds the job of a tool.
    pub(super) fn insert(&mut self, job: JobId) {
        self.jobs.insert(job);
    }

    /// Removes the job of a tool; false if it is none.
    pub(super) fn remove(&mut self, job: JobId) -> bool {
        self.jobs.remove(&job)
    }

    /// Sessions that were closed since the last call.
    pub(super) fn take_closed(&mut self) -> Vec<SessionId> {
        std::mem::take(&mut self.closed)
    }
}
