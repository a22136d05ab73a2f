//! Processors of a machine, which take tasks in the order of their arrival.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The processors of one machine.
#[derive(Clone, Debug)]
pub(super) struct Processors {
    /// Times at which each is free.
    free: BinaryHeap<Reverse<u64>>,
}

impl Processors {
    /// This many processors, one at least, which are all free.
    pub(super) fn new(count: u32) -> Self {
        Self { free: (0..count.max(1)).map(|_| Reverse(0)).collect() }
    }

    /// Executes a task that arrives at `now`, not before any earlier one, on the processor that is free
    /// first. Returns the time of its end.
    pub(super) fn run(&mut self, now: u64, cost: u64) -> u64 {
        let free = self.free.pop().map_or(0, |Reverse(free)| free);
        let end = now.max(free).saturating_add(cost);
        self.free.push(Reverse(end));
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_take_the_processor_that_is_free_first() {
        let mut two = Processors::new(2);
        let ends = [(0, 10), (0, 4), (1, 5), (2, 1), (20, 3)].map(|(at, cost)| two.run(at, cost));
        assert_eq!(ends, [10, 4, 9, 10, 23]);
        assert_eq!(Processors::new(0).run(3, 4), 7);
    }
}
