//! One fence after the other, counted.

use crate::time::Instant;

/// The fence of a whole job: its counters. Each member knows whether it has entered.
///
/// Fences are numbered from 0. A member that has entered `n` fences is inside the current one
/// exactly if `n` is more than the number of completed fences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fence {
    generation: u32,
    inside: u32,
    since: Option<Instant>,
    handed_up: bool,
    hand_up_reported: bool,
}

impl Fence {
    /// Number of completed fences; also the number of the current one.
    pub const fn generation(&self) -> u32 {
        self.generation
    }

    /// Number of members inside the current one.
    pub const fn inside(&self) -> u32 {
        self.inside
    }

    /// When the first member entered the current one.
    pub const fn since(&self) -> Option<Instant> {
        self.since
    }

    /// True if all local members are inside, and the other nodes are pending.
    pub const fn is_handed_up(&self) -> bool {
        self.handed_up
    }

    /// Lets one more member in; true if that makes `all` of them.
    pub fn enter(&mut self, now: Instant, all: u32) -> bool {
        if self.inside == 0 {
            self.since = Some(now);
        }
        self.inside += 1;
        self.inside >= all
    }

    /// Lets a member out that does not want to wait any longer.
    #[cfg(feature = "pmix")]
    pub const fn leave(&mut self) {
        debug_assert!(self.inside > 0, "only a member that is inside leaves");
        self.inside = self.inside.saturating_sub(1);
        if self.inside == 0 {
            self.since = None;
        }
    }

    /// Marks the local members as complete and the fence as pending at other nodes.
    pub const fn hand_up(&mut self) {
        self.handed_up = true;
    }

    /// Whether the fence was handed up and its owner has not been notified; true once for each fence.
    pub const fn take_hand_up(&mut self) -> bool {
        let is_new = self.handed_up && !self.hand_up_reported;
        self.hand_up_reported = self.handed_up;
        is_new
    }

    /// Ends the current fence and begins the next.
    pub fn end(&mut self) {
        *self = Self { generation: self.generation.wrapping_add(1), ..Self::default() };
    }

    /// True if the fence with number `generation` has completed.
    pub const fn has_ended(&self, generation: u32) -> bool {
        // Numbers wrap after four thousand million fences; the difference does not.
        self.generation.wrapping_sub(generation) as i32 > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_one_in_completes_it() {
        let mut fence = Fence::default();
        assert!(!fence.enter(Instant::from_micros(5), 2));
        assert!(fence.enter(Instant::from_micros(9), 2));
        assert_eq!((fence.inside(), fence.since()), (2, Some(Instant::from_micros(5))));
        assert!(!fence.has_ended(0));
        fence.end();
        assert!(fence.has_ended(0) && !fence.has_ended(1));
        assert_eq!((fence.inside(), fence.since()), (0, None));
    }

    #[test]
    fn numbers_may_wrap() {
        let mut fence = Fence { generation: u32::MAX, ..Fence::default() };
        fence.end();
        assert!(fence.has_ended(u32::MAX) && !fence.has_ended(0));
    }
}
