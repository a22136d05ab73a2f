//! Clock of a process that may be stopped for a while: by a signal, a debugger, or a batch system that
//! suspends its job. What others have sent meanwhile is not late, so that time does not count.

use pmi_core::time::{Duration, Instant};

/// A clock that stands still while its process is stopped.
///
/// The owner looks at it at least once in [`LOOK`](Self::LOOK). Where two looks are much farther apart, the
/// process did not run in between, or the clock of the system has jumped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AwakeClock {
    looked_at: Instant,
    /// Microseconds that do not count, all together.
    stopped: u64,
    /// The part of them that [`take_stopped`](Self::take_stopped) has not returned.
    unreported: u64,
}

impl AwakeClock {
    /// Longest time between two looks of a process that runs.
    pub const LOOK: Duration = Duration::from_secs(1);

    /// A clock that runs since `now`.
    pub const fn start(now: Instant) -> Self {
        Self { looked_at: now, stopped: 0, unreported: 0 }
    }

    /// Looks at the clock at the moment `now`.
    pub fn look(&mut self, now: Instant) {
        let gap = now.since(self.looked_at).as_micros();
        self.looked_at = self.looked_at.max(now);
        if gap > STOPPED.as_micros() {
            let stopped = gap - Self::LOOK.as_micros();
            self.stopped += stopped;
            self.unreported += stopped;
        }
    }

    /// Time of this clock at a moment after the last time that the process was stopped.
    pub const fn at(&self, moment: Instant) -> Instant {
        Instant::from_micros(moment.as_micros().saturating_sub(self.stopped))
    }

    /// Moment of a time of this clock, if the process is not stopped before.
    pub const fn moment_of(&self, time: Instant) -> Instant {
        time.plus(Duration::from_micros(self.stopped))
    }

    /// Time in which the process was stopped since the last call, by which deadlines move.
    pub fn take_stopped(&mut self) -> Option<Duration> {
        let stopped = core::mem::take(&mut self.unreported);
        (stopped > 0).then(|| Duration::from_micros(stopped))
    }

    /// Latest moment of the next look.
    pub const fn next_look(&self) -> Instant {
        self.looked_at.plus(Self::LOOK)
    }
}

/// Time between two looks from which on the process was stopped.
const STOPPED: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    const fn second(number: u64) -> Instant {
        Instant::from_micros(1_000_000 * number)
    }

    #[test]
    fn time_of_a_stop_does_not_count() {
        let mut clock = AwakeClock::start(second(100));
        (101..104).for_each(|at| clock.look(second(at)));
        assert_eq!(clock.take_stopped(), None);
        let before = clock.at(second(103));
        clock.look(second(111));
        assert_eq!(clock.take_stopped(), Some(Duration::from_secs(7)));
        assert_eq!(clock.take_stopped(), None);
        let after = clock.at(second(111));
        assert_eq!(after.since(before), Duration::from_secs(1));
        assert_eq!(clock.moment_of(after), second(111));
        assert_eq!(clock.next_look(), second(112));
        // A look at an earlier moment is none.
        clock.look(second(110));
        assert_eq!(clock.next_look(), second(112));
    }
}
