//! The clock of the page.

use pmi_core::time::Instant;

use crate::js;

/// A monotonic clock that starts at zero.
///
/// Units: browsers round to between 5 and 100 microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    zero_ms: f64,
}

impl Clock {
    /// Starts at [`Instant::ZERO`].
    pub fn start() -> Self {
        Self { zero_ms: js::milliseconds() }
    }

    /// The current time.
    pub fn now(&self) -> Instant {
        let micros = (js::milliseconds() - self.zero_ms) * 1000.0;
        // A saturating cast: below zero is zero.
        #[expect(clippy::cast_possible_truncation, reason = "the clock of a page is a float")]
        Instant::from_micros(micros as u64)
    }
}
