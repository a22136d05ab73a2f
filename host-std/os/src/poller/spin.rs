//! When the event loop looks for the next message for a moment before it sleeps.

use std::time::Duration;

/// Decides whether a wait begins by spinning, from how earlier ones have gone.
///
/// A rank that has its reply often sends the next request within microseconds, and waking a process that
/// sleeps takes longer than that. On a machine that is busy the rank does not get a processor so soon: then
/// each spin in vain halves the number of waits that begin with one, until hardly any does.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AdaptiveSpin {
    is_allowed: bool,
    /// Spins in vain, less those with success.
    failures: u32,
    /// Number of waits until the next spin.
    pause: u32,
}

impl AdaptiveSpin {
    /// Allows or forbids spinning.
    pub(super) fn allow(&mut self, is_allowed: bool) {
        self.is_allowed = is_allowed;
    }

    /// Whether this wait begins by spinning.
    pub(super) fn begins(&mut self) -> bool {
        if !self.is_allowed {
            return false;
        }
        let begins = self.pause == 0;
        self.pause = self.pause.saturating_sub(1);
        begins
    }

    /// Takes note of the end of a spin.
    pub(super) fn ended(&mut self, has_found: bool) {
        match has_found {
            true => self.failures = self.failures.saturating_sub(1),
            false => {
                self.failures = FAILURES_MAX.min(self.failures + 1);
                self.pause = (1 << self.failures) - 1;
            }
        }
    }
}

/// Duration of a spin: about what sleeping and waking take together.
pub(super) const SPIN: Duration = Duration::from_micros(30);

/// At most one of as many waits as two to this power begins with a spin in vain.
const FAILURES_MAX: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of spins at the start of 10,000 waits, each of which finds something if `finds` says so.
    fn spins(mut finds: impl FnMut(u32) -> bool) -> u32 {
        let mut spin = AdaptiveSpin::default();
        spin.allow(true);
        let mut count = 0;
        for wait in 0..10_000 {
            if spin.begins() {
                count += 1;
                spin.ended(finds(wait));
            }
        }
        count
    }

    #[test]
    fn spinning_ceases_while_it_is_in_vain() {
        assert_eq!(spins(|_| true), 10_000);
        assert!(spins(|_| false) < 25);
        assert!(spins(|wait| wait % 2 == 0) < 10_000 / 2);
        // It begins again once replies are answered quickly.
        assert!(spins(|wait| wait > 2_000) > 6_000);
        assert_eq!((0..5).filter(|_| AdaptiveSpin::default().begins()).count(), 0);
    }
}
