//! Processes that ranks leave behind, as the loop deals with them: see [`Orphans`](crate::launch::orphans).

use super::Run;
use rustix::process::Signal;
use std::time::{Duration, Instant};

impl Run {
    /// Whether any process is left that came from a rank. To be asked only when no rank runs any more.
    pub(super) fn any_orphan_left(&self) -> bool {
        self.launcher.orphans.any_left(|session| self.was_rank(session))
    }

    /// Sends `signal` to all processes that are left and came from ranks.
    pub(super) fn signal_orphans(&self, signal: Signal) {
        self.launcher.orphans.signal(signal, |session| self.was_rank(session));
    }

    /// A child has ended. It may be one that we took in and nothing else waits for; ranks are not looked at
    /// for every one of their ends.
    pub(super) fn note_child_end(&mut self, now: Instant) {
        self.reap_at.get_or_insert(now + REAP_AFTER);
    }

    /// Forgets children that were taken in and have ended, when it is time to.
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

/// How long a process that was taken in and has ended may stay in the tables of the system.
const REAP_AFTER: Duration = Duration::from_secs(1);
