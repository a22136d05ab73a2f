//! The clock of the tree by that of the system.

use pmi_core::time::Instant as TreeInstant;
use pmi_host_os::clock;
use pmi_std::Clock;
use std::time::{Duration, Instant};

/// A monotonic clock that stands still while its process is stopped ([`pmi_tree::AwakeClock`]).
#[derive(Debug)]
pub(super) struct AwakeClock {
    clock: Clock,
    awake: pmi_tree::AwakeClock,
}

impl AwakeClock {
    /// Starts at [`TreeInstant::ZERO`].
    pub(super) fn start() -> Self {
        Self { clock: Clock::start(), awake: pmi_tree::AwakeClock::start(TreeInstant::ZERO) }
    }

    /// Looks at the clock.
    pub(super) fn now(&mut self) -> TreeInstant {
        let now = clock::now();
        self.look(now);
        self.at(now)
    }

    /// Looks at the clock at the moment `now`.
    pub(super) fn look(&mut self, now: Instant) {
        self.awake.look(self.clock.at(now));
    }

    /// Time of this clock at a moment after the last time that the process was stopped.
    pub(super) fn at(&self, moment: Instant) -> TreeInstant {
        self.awake.at(self.clock.at(moment))
    }

    /// Moment of a time of this clock that lies ahead.
    pub(super) fn moment_of(&self, time: TreeInstant) -> Instant {
        let now = clock::now();
        now + Clock::until(self.at(now), time)
    }

    /// Time in which the process was stopped since the last call, by which deadlines move.
    pub(super) fn take_stopped(&mut self) -> Option<Duration> {
        self.awake.take_stopped().map(|stopped| Duration::from_micros(stopped.as_micros()))
    }

    /// Latest time of the next look.
    pub(super) fn next_look(&self) -> Instant {
        self.moment_of(self.awake.at(self.awake.next_look()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_ahead_is_a_moment_ahead() {
        let mut clock = AwakeClock::start();
        let now = clock.now();
        let later = now.plus(pmi_core::time::Duration::from_secs(5));
        let moment = clock.moment_of(later);
        assert!(moment > clock::now() && moment <= clock::now() + Duration::from_secs(5));
        assert!(clock.next_look() <= clock::now() + Duration::from_secs(1));
    }
}
