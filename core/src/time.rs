//! Time as the machines see it: whole microseconds on a clock that only the owner reads.

/// A point in time, in microseconds since a moment the owner chose.
///
/// Machines compare instants and add durations to them; they never ask for one.
/// Units: microseconds. A `u64` of them lasts 584 000 years.
// Boards have 32 bits: aligned to them, one word instead of two distinguishes "no instant".
#[repr(Rust, packed(4))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

/// A length of time, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(u64);

impl Instant {
    /// The owner's moment zero.
    pub const ZERO: Self = Self(0);

    /// Makes an instant from microseconds since the owner's zero.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since the owner's zero.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Time since `earlier`; zero if it lies in the future.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }

    /// The instant `by` later; stops at the end of time instead of wrapping.
    pub const fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(by.0))
    }
}

impl Duration {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// Makes a duration from microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Makes a duration from milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    /// Makes a duration from seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000))
    }

    /// Length in microseconds.
    pub const fn as_micros(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_saturates_instead_of_wrapping() {
        let end = Instant::from_micros(u64::MAX);
        assert_eq!(end.plus(Duration::from_secs(u64::MAX)), end);
        assert_eq!(Instant::ZERO.since(end), Duration::ZERO);
        assert_eq!(end.since(Instant::ZERO).as_micros(), u64::MAX);
        assert_eq!(Duration::from_millis(2), Duration::from_micros(2_000));
    }
}
