//! Callers that are no ranks: what is said of them, and how often.

use super::Run;
use crate::report;
use crate::server::pmix::who::{self, Socket};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// How many were told of lately. Whoever floods us shall fill neither a log nor our time.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    since: Option<Instant>,
    told: u32,
    /// How many were not told of since the last one that was.
    untold: u64,
}

impl Refusals {
    /// Whether the next one may be told of, and how many before it were not.
    fn next(&mut self, now: Instant) -> Option<u64> {
        if self.since.is_none_or(|since| now.saturating_duration_since(since) >= SPAN) {
            (self.since, self.told) = (Some(now), 0);
        }
        if self.told >= TOLD_MAX {
            self.untold += 1;
            return None;
        }
        self.told += 1;
        Some(std::mem::take(&mut self.untold))
    }
}

impl Run {
    /// Says that a caller was sent away, and which process it was.
    pub(super) fn say_refused(&mut self, from: SocketAddr, socket: Option<Socket>, why: &str) {
        let Some(untold) = self.refusals.next(Instant::now()) else { return };
        let holder = socket.map(|socket| (who::holder(socket), socket.user));
        self.outputs.say(report::refused_caller(from, holder, why, untold));
    }
}

/// So many in so long are told of.
const TOLD_MAX: u32 = 8;
const SPAN: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_are_told_of_at_once_and_the_others_are_counted() {
        let (mut refusals, now) = (Refusals::default(), Instant::now());
        let told = (0..20).filter_map(|_| refusals.next(now)).collect::<Vec<_>>();
        assert_eq!(told, [0; 8]);
        assert_eq!(refusals.next(now + SPAN), Some(12));
        assert_eq!(refusals.next(now + SPAN), Some(0));
    }
}
