//! Due actions of the world, in the order of their times.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// When an action is due: its time, and its order among those of one time.
pub(super) type Due = (u64, u64);

/// Actions that are due in the future.
#[derive(Debug)]
pub(super) struct DueQueue<A> {
    heap: BinaryHeap<Reverse<DueEntry<A>>>,
    /// Order of the last action.
    order: u64,
}

#[derive(Debug)]
struct DueEntry<A> {
    due: Due,
    action: A,
}

impl<A> DueQueue<A> {
    pub(super) const fn new() -> Self {
        Self { heap: BinaryHeap::new(), order: 0 }
    }

    /// The place of an action at `time`, behind all that were placed before.
    pub(super) fn place(&mut self, time: u64) -> Due {
        self.order += 1;
        (time, self.order)
    }

    /// Adds an action at its place.
    pub(super) fn push(&mut self, due: Due, action: A) {
        self.heap.push(Reverse(DueEntry { due, action }));
    }

    /// Time of the next action.
    pub(super) fn next_time(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse(entry)| entry.due.0)
    }

    /// Takes the next action.
    pub(super) fn pop(&mut self) -> Option<A> {
        self.heap.pop().map(|Reverse(entry)| entry.action)
    }

    /// Drops the actions for which `is_kept` is false.
    pub(super) fn retain(&mut self, is_kept: impl Fn(&A) -> bool) {
        self.heap.retain(|Reverse(entry)| is_kept(&entry.action));
    }
}

impl<A> PartialEq for DueEntry<A> {
    fn eq(&self, other: &Self) -> bool {
        self.due == other.due
    }
}

impl<A> Eq for DueEntry<A> {}

impl<A> PartialOrd for DueEntry<A> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<A> Ord for DueEntry<A> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.due.cmp(&other.due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_taken_by_time_and_then_in_the_order_of_their_places() {
        let mut queue = DueQueue::new();
        let late = queue.place(7);
        let first = queue.place(5);
        let second = queue.place(5);
        for (due, action) in [(second, 'c'), (late, 'd'), (first, 'b')] {
            queue.push(due, action);
        }
        let earliest = queue.place(1);
        queue.push(earliest, 'a');
        assert_eq!(queue.next_time(), Some(1));
        queue.retain(|action| *action != 'c');
        let taken: Vec<char> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(taken, ['a', 'b', 'd']);
        assert_eq!(queue.next_time(), None);
    }
}
