//! The system's clock as the machines see time.

use pmi_core::time::Instant;

/// A monotonic clock that starts at zero.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    zero: std::time::Instant,
}

impl Clock {
    /// Starts at [`Instant::ZERO`].
    pub fn start() -> Self {
        Self { zero: std::time::Instant::now() }
    }

    /// The current time.
    ///
    /// Units: microseconds since the start.
    pub fn now(&self) -> Instant {
        self.at(std::time::Instant::now())
    }

    /// The time of this clock at a moment of the system's clock; zero before the start.
    pub fn at(&self, moment: std::time::Instant) -> Instant {
        let micros = moment.saturating_duration_since(self.zero).as_micros();
        Instant::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }

    /// Time from `now` until `later`; zero if that has passed.
    pub fn until(now: Instant, later: Instant) -> std::time::Duration {
        std::time::Duration::from_micros(later.since(now).as_micros())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn clock_counts_microseconds_from_its_start() {
        let clock = Clock::start();
        assert_eq!(clock.at(clock.zero), Instant::ZERO);
        let later = clock.zero + Duration::from_millis(5);
        assert_eq!(clock.at(later), Instant::from_micros(5_000));
        let earlier = Clock { zero: later }.at(clock.zero);
        assert_eq!(earlier, Instant::ZERO);
        assert!(clock.now() <= clock.now());
    }

    #[test]
    fn moment_that_has_passed_is_not_waited_for() {
        let (early, late) = (Instant::from_micros(10), Instant::from_micros(25));
        assert_eq!(Clock::until(early, late), Duration::from_micros(15));
        assert_eq!(Clock::until(late, early), Duration::ZERO);
    }
}
