//! When a standstill is told, and when it ends the run. No system calls here, only the rules.
//!
//! It is a standstill if somebody waits for others and nobody does anything that could end that. Ranks
//! that compute while nobody waits are none of our business, however long that takes. So there is no
//! clock that ticks: a look is due some time after a rank has said something, and if nobody waits
//! then, none is due until a rank speaks again.

use crate::settings::Watching;
use std::time::{Duration, Instant};

/// What the clock says about a run in which somebody may wait.
#[derive(Clone, Debug)]
pub struct Stall {
    report: Option<Duration>,
    abort: Option<Duration>,
    /// When to look whether somebody waits.
    look_at: Option<Instant>,
    /// The standstill that was told last began then, and is told again when it is so long.
    told: Option<(Instant, Duration)>,
    /// Nothing before this moment counts.
    floor: Option<Instant>,
}

/// What is to be done about a standstill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Tell people.
    Report {
        /// How long it has lasted.
        lasts: Duration,
    },
    /// End the run.
    Abort {
        /// How long it has lasted.
        lasts: Duration,
    },
}

impl Stall {
    /// Nothing is due.
    pub fn new(settings: &Watching) -> Self {
        let Watching { stall_report: report, stall_abort: abort, .. } = *settings;
        Self { report, abort, look_at: None, told: None, floor: None }
    }

    /// A rank has said something, so somebody may wait from now on.
    pub fn heard(&mut self, now: Instant) {
        let first = [self.report, self.abort].into_iter().flatten().min();
        if self.look_at.is_none() {
            self.look_at = first.and_then(|first| now.checked_add(first));
        }
    }

    /// Forgives all standstill so far: ranks are still being started, or all of us were stopped.
    pub fn forgive(&mut self, now: Instant) {
        self.floor = Some(now);
    }

    /// When to [`look`](Self::look).
    pub fn deadline(&self) -> Option<Instant> {
        self.look_at
    }

    /// Judges a standstill that began at `since`, or that there is none since nobody waits.
    pub fn look(&mut self, now: Instant, since: Option<Instant>) -> Option<Verdict> {
        let Some(since) = since.map(|since| self.floor.map_or(since, |floor| floor.max(since)))
        else {
            self.look_at = None;
            return None;
        };
        let lasts = now.saturating_duration_since(since);
        if let Some(abort) = self.abort.filter(|abort| lasts >= *abort) {
            self.look_at = None;
            return Some(Verdict::Abort { lasts: abort });
        }
        let mut step = match self.told {
            Some((begun, step)) if begun == since => Some(step),
            _ => self.report,
        };
        let verdict = step.filter(|step| lasts >= *step).map(|_| Verdict::Report { lasts });
        if verdict.is_some() {
            let next = lasts.saturating_mul(2);
            (self.told, step) = (Some((since, next)), Some(next));
        }
        let next = [step, self.abort].into_iter().flatten().min();
        self.look_at = next.and_then(|next| since.checked_add(next));
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEC: Duration = Duration::from_secs(1);

    fn settled(report: Option<u32>, abort: Option<u32>) -> (Stall, Instant) {
        let secs = |secs: u32| SEC * secs;
        let settings = Watching {
            stall_report: report.map(secs),
            stall_abort: abort.map(secs),
            ..Watching::default()
        };
        (Stall::new(&settings), Instant::now())
    }

    #[test]
    fn nothing_is_due_while_nobody_speaks_or_waits() {
        let (mut stall, start) = settled(Some(10), None);
        assert_eq!(stall.deadline(), None);
        stall.heard(start);
        stall.heard(start + 5 * SEC);
        assert_eq!(stall.deadline(), Some(start + 10 * SEC));
        assert_eq!(stall.look(start + 10 * SEC, None), None);
        assert_eq!(stall.deadline(), None);
    }

    #[test]
    fn a_standstill_is_told_and_again_after_twice_the_time() {
        let (mut stall, start) = settled(Some(10), None);
        stall.heard(start);
        let report = |secs| Some(Verdict::Report { lasts: secs * SEC });
        // Something had moved in between.
        let since = start + 4 * SEC;
        assert_eq!(stall.look(start + 10 * SEC, Some(since)), None);
        assert_eq!(stall.deadline(), Some(since + 10 * SEC));
        assert_eq!(stall.look(since + 10 * SEC, Some(since)), report(10));
        assert_eq!(stall.deadline(), Some(since + 20 * SEC));
        assert_eq!(stall.look(since + 19 * SEC, Some(since)), None);
        assert_eq!(stall.look(since + 21 * SEC, Some(since)), report(21));
        assert_eq!(stall.deadline(), Some(since + 42 * SEC));
        // Another one is told from the beginning.
        let other = since + 30 * SEC;
        assert_eq!(stall.look(other + 10 * SEC, Some(other)), report(10));
    }

    #[test]
    fn time_in_which_nobody_could_go_on_is_forgiven() {
        let (mut stall, start) = settled(Some(10), None);
        stall.heard(start);
        stall.forgive(start + 60 * SEC);
        assert_eq!(stall.look(start + 60 * SEC, Some(start)), None);
        assert_eq!(stall.deadline(), Some(start + 70 * SEC));
    }

    #[test]
    fn a_run_is_ended_only_if_that_was_asked_for() {
        let (mut stall, start) = settled(Some(10), Some(15));
        stall.heard(start);
        let report = Some(Verdict::Report { lasts: 10 * SEC });
        assert_eq!(stall.look(start + 10 * SEC, Some(start)), report);
        assert_eq!(stall.deadline(), Some(start + 15 * SEC));
        let abort = Some(Verdict::Abort { lasts: 15 * SEC });
        assert_eq!(stall.look(start + 15 * SEC, Some(start)), abort);
        let (mut stall, start) = settled(None, Some(15));
        stall.heard(start);
        assert_eq!(stall.look(start + 15 * SEC, Some(start)), abort);
    }

    #[test]
    fn who_wants_neither_is_never_looked_at() {
        let (mut stall, start) = settled(None, None);
        stall.heard(start);
        assert_eq!(stall.deadline(), None);
    }
}
