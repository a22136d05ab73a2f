//! Limits of what unauthenticated peers can make the launcher do.

use std::time::{Duration, Instant};

/// Reports of rejected connections: so many in a second, and the number of the others. A flood fills
/// neither a log nor the time of the launcher.
#[derive(Debug, Default)]
pub struct RejectionLog {
    since: Option<Instant>,
    reported: u32,
    /// Rejections since the last one that was reported.
    unreported: u64,
}

/// A pause after each wrong guess at an identity, for all connections without a proof together.
#[derive(Debug, Default)]
pub struct GuessLimit {
    until: Option<Instant>,
}

impl RejectionLog {
    /// Whether a rejection may be reported, and how many before it were not.
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

    /// When to call [`take_unreported`](Self::take_unreported).
    pub fn deadline(&self) -> Option<Instant> {
        self.since.filter(|_| self.unreported > 0).map(|since| since + SPAN)
    }

    /// The number of rejections that no later one will report, once the second is over.
    pub fn take_unreported(&mut self, now: Instant) -> Option<u64> {
        self.deadline().filter(|at| now >= *at)?;
        self.next(now)
    }

    /// The number of rejections that were never reported, at the end of the run.
    pub fn finish(&mut self) -> Option<u64> {
        Some(std::mem::take(&mut self.unreported)).filter(|count| *count > 0)
    }
}

impl GuessLimit {
    /// Notes a wrong guess.
    pub fn note_wrong(&mut self, now: Instant) {
        self.until = Some(now + PAUSE);
    }

    /// Whether nothing may be judged yet.
    pub fn is_paused(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    /// The end of the pause.
    pub const fn until(&self) -> Option<Instant> {
        self.until
    }
}

/// Reports in each span.
const REPORTED_MAX: u32 = 8;
const SPAN: Duration = Duration::from_secs(1);

/// Ten wrong guesses in a second: one who has mistyped does not notice it, and 2^31 numbers, the fewest
/// there are, last for years.
const PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_rejections_are_reported_at_once_and_the_others_are_counted() {
        let (mut log, now) = (RejectionLog::default(), Instant::now());
        let reported = (0..20).filter_map(|_| log.next(now)).collect::<Vec<_>>();
        assert_eq!(reported, [0; 8]);
        assert_eq!(log.next(now + SPAN), Some(12));
        assert_eq!((log.next(now + SPAN), log.deadline()), (Some(0), None));
    }

    #[test]
    fn rejections_that_nothing_follows_are_reported_after_a_second() {
        let (mut log, now) = (RejectionLog::default(), Instant::now());
        assert_eq!((0..20).filter_map(|_| log.next(now)).count(), 8);
        assert_eq!((log.deadline(), log.take_unreported(now)), (Some(now + SPAN), None));
        assert_eq!(log.take_unreported(now + SPAN), Some(12));
        assert_eq!((log.take_unreported(now + SPAN * 2), log.finish()), (None, None));
        assert_eq!((0..20).filter_map(|_| log.next(now + SPAN * 3)).count(), 8);
        assert_eq!((log.finish(), log.finish()), (Some(12), None));
    }

    #[test]
    fn a_wrong_guess_holds_all_others_up() {
        let (mut limit, now) = (GuessLimit::default(), Instant::now());
        assert!(!limit.is_paused(now));
        limit.note_wrong(now);
        assert!(limit.is_paused(now) && !limit.is_paused(now + PAUSE));
        assert_eq!(limit.until(), Some(now + PAUSE));
    }
}
