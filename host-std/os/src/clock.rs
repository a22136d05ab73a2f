//! The time by which run and node are measured.
//!
//! All deadlines are times of this clock. It is that of the system; a test may stop it, and then what is due
//! in an hour is due when the test says so.

use std::time::{Duration, Instant};

/// The present time.
#[cfg(not(any(test, feature = "testing")))]
pub fn now() -> Instant {
    Instant::now()
}

/// Time that has passed since then.
pub fn since(then: Instant) -> Duration {
    now().saturating_duration_since(then)
}

/// True if the timers of the system do not follow this clock.
#[cfg(not(any(test, feature = "testing")))]
pub const fn is_stopped() -> bool {
    false
}

#[cfg(any(test, feature = "testing"))]
pub use stopped::{go_on, is_stopped, now, stop};

#[cfg(any(test, feature = "testing"))]
mod stopped {
    use std::cell::Cell;
    use std::time::{Duration, Instant};

    thread_local! {
        static STOPPED_AT: Cell<Option<Instant>> = const { Cell::new(None) };
    }

    /// The present time, or the time at which the clock stands.
    pub fn now() -> Instant {
        STOPPED_AT.get().unwrap_or_else(Instant::now)
    }

    /// True if the timers of the system do not follow this clock.
    pub fn is_stopped() -> bool {
        STOPPED_AT.get().is_some()
    }

    /// Stops the clock of this thread.
    pub fn stop() {
        STOPPED_AT.set(Some(now()));
    }

    /// Lets the stopped clock of this thread go on by `time`.
    pub fn go_on(time: Duration) {
        STOPPED_AT.set(Some(now() + time));
    }
}
