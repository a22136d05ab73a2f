//! Clock of a process that may be stopped for a while: by a signal, a debugger, or a batch system that
//! suspends its job. What others have sent meanwhile is not late, so that time does not count.

use pmi_core::time::Instant as TreeInstant;
use pmi_host_os::clock;
use pmi_std::Clock;
use std::time::{Duration, Instant};

/// A monotonic clock that stands still while its process is stopped.
///
/// The owner looks at it at least once in [`LOOK`]. Where two looks are much farther apart, the process did
/// not run in between.
#[derive(Debug)]
pub(super) struct AwakeClock {
    clock: Clock,
    looked_at: Instant,
    /// Time that does not count, all together.
    stopped: Duration,
    /// The part of it that [`take_stopped`](Self::take_stopped) has not returned.
    unreported: Duration,
}

impl AwakeClock {
    /// Starts at [`TreeInstant::ZERO`].
    pub(super) fn start() -> Self {
        let (stopped, unreported) = (Duration::ZERO, Duration::ZERO);
        Self { clock: Clock::start(), looked_at: clock::now(), stopped, unreported }
    }

    /// Looks at the clock.
    pub(super) fn now(&mut self) -> TreeInstant {
        let now = clock::now();
        self.look(now);
        self.at(now)
    }

    /// Looks at the clock at the moment `now`.
    pub(super) fn look(&mut self, now: Instant) {
        let gap = now.saturating_duration_since(self.looked_at);
        self.looked_at = self.looked_at.max(now);
        if gap > STOPPED {
            self.stopped += gap - LOOK;
            self.unreported += gap - LOOK;
        }
    }

    /// Time of this clock at a moment after the last time that the process was stopped.
    pub(super) fn at(&self, moment: Instant) -> TreeInstant {
        self.clock.at(moment.checked_sub(self.stopped).unwrap_or(moment))
    }

    /// Moment of a time of this clock that lies ahead.
    pub(super) fn moment_of(&self, time: TreeInstant) -> Instant {
        let now = clock::now();
        now + Clock::until(self.at(now), time)
    }

    /// Time in which the process was stopped since the last call, by which deadlines move.
    pub(super) fn take_stopped(&mut self) -> Option<Duration> {
        let stopped = std::mem::take(&mut self.unreported);
        (!stopped.is_zero()).then_some(stopped)
    }

    /// Latest time of the next look.
    pub(super) fn next_look(&self) -> Instant {
        self.looked_at + LOOK
    }
}

/// Longest time between two looks of a process that runs.
const LOOK: Duration = Duration::from_secs(1);

/// Time between two looks from which on the process was stopped.
const STOPPED: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_a_stop_does_not_count() {
        let mut clock = AwakeClock::start();
        let zero = clock.looked_at;
        let second = Duration::from_secs(1);
        for step in 1..4 {
            clock.look(zero + step * second);
        }
        assert_eq!(clock.take_stopped(), None);
        let before = clock.at(zero + 3 * second);
        clock.look(zero + 11 * second);
        assert_eq!(clock.take_stopped(), Some(7 * second));
        assert_eq!(clock.take_stopped(), None);
        let after = clock.at(zero + 11 * second);
        assert_eq!(after.since(before).as_micros(), 1_000_000);
        assert_eq!(clock.next_look(), zero + 12 * second);
        // A look at an earlier moment is none.
        clock.look(zero + 10 * second);
        assert_eq!(clock.next_look(), zero + 12 * second);
    }

    #[test]
    fn time_ahead_is_a_moment_ahead() {
        let mut clock = AwakeClock::start();
        let now = clock.now();
        let later = now.plus(pmi_core::time::Duration::from_secs(5));
        let moment = clock.moment_of(later);
        assert!(moment > clock::now() && moment <= clock::now() + Duration::from_secs(5));
    }
}
