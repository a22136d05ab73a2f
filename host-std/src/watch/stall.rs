//! Rules for runs without progress: when to report, and when to abort. No system calls.
//!
//! A run makes no progress if ranks wait for other ranks and no rank does anything that could end the
//! wait. Ranks that compute while none waits are irrelevant, for any length of time. So there is no
//! periodic timer: a check is due some time after a message of a rank; if no rank waits then, none is
//! due until the next message.

use crate::settings::Watching;
use std::time::{Duration, Instant};

/// Timer state of a run in which ranks may wait.
#[derive(Clone, Debug)]
pub(crate) struct Stall {
    report: Option<Duration>,
    abort: Option<Duration>,
    /// Time of the next check.
    check_at: Option<Instant>,
    /// Start of the stall that was reported last, and the duration at which it is reported again.
    reported: Option<(Instant, Duration)>,
    /// Start of the measurement; earlier waits do not count.
    floor: Option<Instant>,
}

/// A wait of ranks for others that make no progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standstill {
    /// Its start.
    pub(crate) since: Instant,
    /// Set if it is likely, not certain: ranks have called init and others have not. Time since which these
    /// have been seen to use no processor time and to write nothing.
    pub(crate) idle_since: Option<Instant>,
}

/// Action due to a stall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StallAction {
    /// Report it to the user.
    Report {
        /// Its duration so far.
        lasts: Duration,
    },
    /// Abort the run.
    Abort {
        /// Its duration so far.
        lasts: Duration,
    },
}

impl Stall {
    /// Creates a timer with nothing due.
    pub(crate) fn new(settings: &Watching) -> Self {
        let Watching { stall_report: report, stall_abort: abort, .. } = *settings;
        Self { report, abort, check_at: None, reported: None, floor: None }
    }

    /// A message of a rank arrived: from now on, ranks may wait.
    pub(crate) fn note_message(&mut self, now: Instant) {
        let first = [self.report, self.abort].into_iter().flatten().min();
        if self.check_at.is_none() {
            self.check_at = first.and_then(|first| now.checked_add(first));
        }
    }

    /// True if a further message changes nothing: a check is due at some time, or none ever.
    pub(crate) fn expects_messages(&self) -> bool {
        self.check_at.is_some() || (self.report.is_none() && self.abort.is_none())
    }

    /// Restarts the measurement: ranks are still being started, or all processes were stopped.
    pub(crate) fn excuse(&mut self, now: Instant) {
        self.floor = Some(now);
    }

    /// Stops the timer until the next [`check`](Self::check), whose answer is on its way.
    pub(crate) fn pause(&mut self) {
        self.check_at = None;
    }

    /// Time of the next [`check`](Self::check).
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.check_at
    }

    /// Judges a standstill; `None` if no rank waits.
    pub(crate) fn check(&mut self, now: Instant, found: Option<Standstill>) -> Option<StallAction> {
        let Some(Standstill { since, idle_since }) = found else {
            self.check_at = None;
            return None;
        };
        let since = self.floor.map_or(since, |floor| floor.max(since));
        let lasts = now.saturating_duration_since(since);
        // Ranks before init may prepare something for as long as they need.
        let abort_at = self.abort.and_then(|abort| {
            let idle_until = idle_since.and_then(|idle_since| idle_since.checked_add(abort / 2));
            Some(idle_until.into_iter().fold(since.checked_add(abort)?, Ord::max))
        });
        if let Some(abort) = self.abort.filter(|_| abort_at.is_some_and(|at| now >= at)) {
            self.check_at = None;
            return Some(StallAction::Abort { lasts: abort });
        }
        // Starts are computed from durations that other processes have measured, so the same one varies a
        // little. After a report, a new stall begins no earlier than that report.
        let is_known = |begun: Instant| {
            self.report.is_some_and(|report| since.saturating_duration_since(begun) < report / 2)
        };
        let mut step = match self.reported {
            Some((begun, step)) if is_known(begun) => Some(step),
            _ => self.report,
        };
        let verdict = step.filter(|step| lasts >= *step).map(|_| StallAction::Report { lasts });
        if verdict.is_some() {
            let next = lasts.saturating_mul(2);
            (self.reported, step) = (Some((since, next)), Some(next));
        }
        let report_at = step.and_then(|step| since.checked_add(step));
        self.check_at = [report_at, abort_at].into_iter().flatten().min();
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmi_host_os::clock;

    const SEC: Duration = Duration::from_secs(1);

    fn settled(report: Option<u32>, abort: Option<u32>) -> (Stall, Instant) {
        let secs = |secs: u32| SEC * secs;
        let settings = Watching {
            stall_report: report.map(secs),
            stall_abort: abort.map(secs),
            ..Watching::default()
        };
        (Stall::new(&settings), clock::now())
    }

    fn certain(since: Instant) -> Option<Standstill> {
        Some(Standstill { since, idle_since: None })
    }

    #[test]
    fn nothing_is_due_while_no_rank_sends_or_waits() {
        let (mut stall, start) = settled(Some(10), None);
        assert_eq!(stall.deadline(), None);
        stall.note_message(start);
        stall.note_message(start + 5 * SEC);
        assert_eq!(stall.deadline(), Some(start + 10 * SEC));
        assert_eq!(stall.check(start + 10 * SEC, None), None);
        assert_eq!(stall.deadline(), None);
    }

    #[test]
    fn standstill_is_told_and_again_after_twice_the_time() {
        let (mut stall, start) = settled(Some(10), None);
        stall.note_message(start);
        let report = |secs| Some(StallAction::Report { lasts: secs * SEC });
        // There was progress in between.
        let since = start + 4 * SEC;
        assert_eq!(stall.check(start + 10 * SEC, certain(since)), None);
        assert_eq!(stall.deadline(), Some(since + 10 * SEC));
        assert_eq!(stall.check(since + 10 * SEC, certain(since)), report(10));
        assert_eq!(stall.deadline(), Some(since + 20 * SEC));
        assert_eq!(stall.check(since + 19 * SEC, certain(since)), None);
        assert_eq!(stall.check(since + 21 * SEC, certain(since)), report(21));
        assert_eq!(stall.deadline(), Some(since + 42 * SEC));
        // The start varies with the clocks of those who have measured it.
        let varied = since + SEC / 10;
        assert_eq!(stall.check(since + 30 * SEC, certain(varied)), None);
        // A new stall is reported from the start.
        let other = since + 30 * SEC;
        assert_eq!(stall.check(other + 10 * SEC, certain(other)), report(10));
    }

    #[test]
    fn time_in_which_no_rank_could_go_on_is_forgiven() {
        let (mut stall, start) = settled(Some(10), None);
        stall.note_message(start);
        stall.excuse(start + 60 * SEC);
        assert_eq!(stall.check(start + 60 * SEC, certain(start)), None);
        assert_eq!(stall.deadline(), Some(start + 70 * SEC));
    }

    #[test]
    fn run_is_ended_only_if_that_was_asked_for() {
        let (mut stall, start) = settled(Some(10), Some(15));
        stall.note_message(start);
        let report = Some(StallAction::Report { lasts: 10 * SEC });
        assert_eq!(stall.check(start + 10 * SEC, certain(start)), report);
        assert_eq!(stall.deadline(), Some(start + 15 * SEC));
        let abort = Some(StallAction::Abort { lasts: 15 * SEC });
        assert_eq!(stall.check(start + 15 * SEC, certain(start)), abort);
        let (mut stall, start) = settled(None, Some(15));
        stall.note_message(start);
        assert_eq!(stall.check(start + 15 * SEC, certain(start)), abort);
    }

    #[test]
    fn run_is_ended_for_ranks_before_init_only_while_they_are_idle() {
        let (mut stall, start) = settled(Some(3), Some(6));
        stall.note_message(start);
        let likely = |idle_for| {
            let idle_since = Some(start + 20 * SEC - idle_for * SEC);
            Some(Standstill { since: start, idle_since })
        };
        let now = start + 20 * SEC;
        assert_eq!(stall.check(now, likely(0)), Some(StallAction::Report { lasts: 20 * SEC }));
        // The next look is at the time at which they may have been idle for long enough.
        assert_eq!(stall.deadline(), Some(now + 3 * SEC));
        assert_eq!(stall.check(now, likely(2)), None);
        assert_eq!(stall.deadline(), Some(now + SEC));
        assert_eq!(stall.check(now, likely(3)), Some(StallAction::Abort { lasts: 6 * SEC }));
        let (mut stall, _) = settled(None, Some(30));
        assert_eq!(stall.check(now, likely(19)), None);
        assert_eq!(stall.deadline(), Some(start + 30 * SEC));
    }

    #[test]
    fn job_without_limits_is_never_checked() {
        let (mut stall, start) = settled(None, None);
        stall.note_message(start);
        assert_eq!(stall.deadline(), None);
    }
}
