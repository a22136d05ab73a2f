//! Orphans of ranks in the event loop: see [`Orphans`](crate::launch::orphans).

use super::EventLoop;
use rustix::process::Signal;
use std::time::{Duration, Instant};

impl EventLoop {
    /// True if any descendant of a rank is left. To be called only when no rank runs any more.
    pub(super) fn any_orphan_left(&self) -> bool {
        self.launcher.orphans.any_left(|session| self.was_rank(session))
    }

    /// Sends `signal` to all processes that are left and descend from ranks.
    pub(super) fn signal_orphans(&self, signal: Signal) {
        self.launcher.orphans.signal(signal, |session| self.was_rank(session));
    }

    /// Schedules reaping after SIGCHLD. The child may be an adopted orphan that nothing else waits for; the
    /// list is not scanned at every exit of a rank.
    pub(super) fn note_child_end(&mut self, now: Instant) {
        self.reap_at.get_or_insert(now + REAP_AFTER);
    }

    /// Reaps adopted children that have exited, when it is due.
    pub(super) fn reap(&mut self, now: Instant) {
        if self.reap_at.is_some_and(|at| now >= at) {
            self.reap_at = None;
            let is_rank =
                |pid| self.processes.iter().any(|one| one.pid == pid && one.process.is_some());
            self.launcher.orphans.reap(is_rank);
        }
    }

    fn was_rank(&self, pid: i32) -> bool {
        self.processes.iter().any(|one| one.pid == pid)
    }
}

/// Longest time that an adopted process which has exited stays in the process table.
const REAP_AFTER: Duration = Duration::from_secs(1);
