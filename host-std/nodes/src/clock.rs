//! Difference between the clocks of a node and of the head, for the times of a trace.
//!
//! The node sends its time several times, and the head answers with its own. The answer was made between the
//! two times of the node, so each exchange bounds the difference on both sides.

/// Exchanges of a node with its head.
#[derive(Debug)]
pub struct ClockSync {
    state: SyncState,
    /// Number of exchanges that follow.
    left: u32,
    /// Bounds of the difference, by all exchanges.
    bounds: (i64, i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SyncState {
    /// The next request is due.
    Due,
    /// The request with this time has no answer yet.
    Sent(u64),
}

impl ClockSync {
    /// The clock of another process, before the first exchange.
    pub const fn other() -> Self {
        Self { state: SyncState::Due, left: EXCHANGES, bounds: (i64::MIN, i64::MAX) }
    }

    /// The clock of the same process.
    pub const fn same() -> Self {
        Self { state: SyncState::Due, left: 0, bounds: (0, 0) }
    }

    /// True if a request is to be sent, with the time `now_ns` of the node.
    pub fn poll_request(&mut self, now_ns: u64) -> bool {
        let is_due = self.left > 0 && self.state == SyncState::Due;
        if is_due {
            self.state = SyncState::Sent(now_ns);
        }
        is_due
    }

    /// Handles the answer to the request of `sent_ns`, which has arrived at `now_ns`. An answer to no request
    /// is ignored.
    pub fn handle_answer(&mut self, sent_ns: u64, head_ns: u64, now_ns: u64) {
        if self.state != SyncState::Sent(sent_ns) {
            return;
        }
        self.state = SyncState::Due;
        self.left -= 1;
        let (least, most) = self.bounds;
        let from = |own_ns: u64| head_ns.wrapping_sub(own_ns).cast_signed();
        self.bounds = (least.max(from(now_ns)), most.min(from(sent_ns)));
    }

    /// Difference to be added to times of the node, once all exchanges have ended.
    ///
    /// It is 0 if the exchanges allow that: then both may be processes of one machine, whose times need an
    /// exact order.
    ///
    /// Units: nanoseconds.
    pub fn offset_ns(&self) -> Option<i64> {
        let (least, most) = self.bounds;
        let is_shared = least <= 0 && 0 <= most;
        (self.left == 0).then(|| if is_shared { 0 } else { least.midpoint(most) })
    }
}

/// The first ones are delayed by the start of ranks.
const EXCHANGES: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_of_all_exchanges_count() {
        let mut sync = ClockSync::other();
        // The clock of the head is 1000 ahead; the ways there take `there`, the ways back `back`.
        let mut now = 0;
        for (there, back) in [(500, 10), (100, 300), (20, 30), (40, 40), (0, 900)] {
            assert_eq!(sync.offset_ns(), None);
            assert!(sync.poll_request(now) && !sync.poll_request(now));
            sync.handle_answer(now, now + there + 1000, now + there + back);
            now += 10_000;
        }
        assert_eq!(sync.offset_ns(), Some(1000 - 5));
        assert!(!sync.poll_request(now));
    }

    #[test]
    fn head_that_started_later_is_behind() {
        let mut sync = ClockSync::other();
        for now in [5000, 6000, 7000, 8000, 9000] {
            assert!(sync.poll_request(now));
            sync.handle_answer(now, now - 4000, now + 2);
        }
        assert_eq!(sync.offset_ns(), Some(-4001));
    }

    #[test]
    fn clock_of_the_same_machine_needs_no_difference() {
        let mut sync = ClockSync::other();
        // The middle of the fastest exchange is 400 off.
        for now in [1000, 4000, 7000, 10_000, 13_000] {
            assert!(sync.poll_request(now));
            sync.handle_answer(now, now + 900, now + 1000);
        }
        assert_eq!(sync.offset_ns(), Some(0));
    }

    #[test]
    fn answer_to_no_request_is_ignored() {
        let mut sync = ClockSync::other();
        sync.handle_answer(0, 7, 1);
        assert!(sync.poll_request(3));
        sync.handle_answer(2, 7, 4);
        assert_eq!((sync.left, sync.bounds), (EXCHANGES, (i64::MIN, i64::MAX)));
    }
}
