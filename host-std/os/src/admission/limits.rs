//! Limits of what unauthenticated peers can make the launcher do.

use std::time::{Duration, Instant};

/// Rate limit for reports of rejected connections: a number in each second, and the count of the others.
/// A flood fills neither a log nor the time of the launcher.
#[derive(Debug, Default)]
pub struct RejectionLog {
    since: Option<Instant>,
    reported: u32,
    /// Number of rejections since the last one that was reported.
    unreported: u64,
}

/// A pause after each wrong guess at an identity, for all connections without a proof together.
#[derive(Debug, Default)]
pub struct GuessLimit {
    until: Option<Instant>,
}

impl RejectionLog {
    /// Decides whether a rejection may be reported; if so, returns the number of earlier ones that were
    /// not.
    pub fn next(&mut self, now: Instant) -> Option<u64> {
        if self.since.is_none_or(|since| now.saturating_duration_since(since) >= SPAN) {
            (self.since, self.reported) = (Some(now), 0);
        }
        if self.reported >= REPORTED_MAX {
            self.unreported += 1;
            return None;
        }
        self.reported += 1;
        Some(std::mem::take(&mut self.unreported))
    }

    /// Time of the next [`take_unreported`](Self::take_unreported).
    pub fn deadline(&self) -> Option<Instant> {
        self.since.filter(|_| self.unreported > 0).map(|since| since + SPAN)
    }

    /// Number of rejections that no later report will include, once the second is over.
    pub fn take_unreported(&mut self, now: Instant) -> Option<u64> {
        self.deadline().filter(|at| now >= *at)?;
        self.next(now)
    }

    /// Number of rejections that were never reported, at the end of the run.
    pub fn finish(&mut self) -> Option<u64> {
        Some(std::mem::take(&mut self.unreported)).filter(|count| *count > 0)
    }
}

impl GuessLimit {
    /// Records a wrong guess.
    pub fn note_wrong(&mut self, now: Instant) {
        self.until = Some(now + PAUSE);
    }

    /// True if no identity may be checked yet.
    pub fn is_paused(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    /// End of the pause.
    pub const fn until(&self) -> Option<Instant> {
        self.until
    }
}

/// Number of reports in each span.
const REPORTED_MAX: u32 = 8;
const SPAN: Duration = Duration::from_secs(1);

/// Pause after a wrong guess. Ten guesses in a second: a user who has mistyped does not notice it, and
/// 2^31 identities, the fewest there are, last for years.
const PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn few_rejections_are_reported_at_once_and_the_others_are_counted() {
        let (mut log, now) = (RejectionLog::default(), clock::now());
        let reported = (0..20).filter_map(|_| log.next(now)).collect::<Vec<_>>();
        assert_eq!(reported, [0; 8]);
        assert_eq!(log.next(now + SPAN), Some(12));
        assert_eq!((log.next(now + SPAN), log.deadline()), (Some(0), None));
    }

    #[test]
    fn rejections_that_nothing_follows_are_reported_after_a_second() {
        let (mut log, now) = (RejectionLog::default(), clock::now());
        assert_eq!((0..20).filter_map(|_| log.next(now)).count(), 8);
        assert_eq!((log.deadline(), log.take_unreported(now)), (Some(now + SPAN), None));
        assert_eq!(log.take_unreported(now + SPAN), Some(12));
        assert_eq!((log.take_unreported(now + SPAN * 2), log.finish()), (None, None));
        assert_eq!((0..20).filter_map(|_| log.next(now + SPAN * 3)).count(), 8);
        assert_eq!((log.finish(), log.finish()), (Some(12), None));
    }

    #[test]
    fn wrong_guess_holds_all_others_up() {
        let (mut limit, now) = (GuessLimit::default(), clock::now());
        assert!(!limit.is_paused(now));
        limit.note_wrong(now);
        assert!(limit.is_paused(now) && !limit.is_paused(now + PAUSE));
        assert_eq!(limit.until(), Some(now + PAUSE));
    }
}
