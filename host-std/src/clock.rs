//! The time by which run and node are measured.
//!
//! All deadlines are times of this clock. It is that of the system; a test may stop it, and then what is due
//! in an hour is due when the test says so.

use std::time::{Duration, Instant};

/// The present time.
#[cfg(not(test))]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Time that has passed since then.
pub(crate) fn since(then: Instant) -> Duration {
    now().saturating_duration_since(then)
}

/// True if the timers of the system do not follow this clock.
#[cfg(not(test))]
pub(crate) const fn is_stopped() -> bool {
    false
}

#[cfg(test)]
pub(crate) use stopped::{go_on, is_stopped, now, stop};

#[cfg(test)]
mod stopped {
    use std::cell::Cell;
    use std::time::{Duration, Instant};

    thread_local! {
        static STOPPED_AT: Cell<Option<Instant>> = const { Cell::new(None) };
    }

    pub(crate) fn now() -> Instant {
        STOPPED_AT.get().unwrap_or_else(Instant::now)
    }

    pub(crate) fn is_stopped() -> bool {
        STOPPED_AT.get().is_some()
    }

    /// Stops the clock of this thread.
    pub(crate) fn stop() {
        STOPPED_AT.set(Some(now()));
    }

    /// Lets the stopped clock of this thread go on by `time`.
    pub(crate) fn go_on(time: Duration) {
        STOPPED_AT.set(Some(now() + time));
    }
}
