//! Intrusive queue, first in, first out.

use core::num::NonZeroU32;

/// A queue of numbered elements, each of which is in it at most once.
///
/// The links are fields of the elements, so queueing ten thousand of them needs no memory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Queue {
    first: QueueLink,
    /// Valid while there is a first one.
    last: QueueLink,
}

/// Link to an element. That inside an element leads to the next one while it is in the queue, and from
/// the last one to itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct QueueLink(Option<NonZeroU32>);

impl QueueLink {
    /// The link of an element outside the queue.
    pub(super) const OUTSIDE: Self = Self(None);

    /// A link to this element. Numbers are stored from 1, so that a link is as large as a number; the number
    /// that this excludes is above all that a table gives.
    const fn to(id: u32) -> Self {
        debug_assert!(id < u32::MAX);
        Self(NonZeroU32::new(id.wrapping_add(1)))
    }

    fn element(self) -> Option<u32> {
        self.0.map(|number| number.get() - 1)
    }
}

impl Queue {
    pub(super) const fn new() -> Self {
        Self { first: QueueLink::OUTSIDE, last: QueueLink::OUTSIDE }
    }

    /// Appends `id` unless it is in the queue; `link` borrows the link of an element.
    pub(super) fn push<T>(
        &mut self,
        things: &mut T,
        id: u32,
        link: impl Fn(&mut T, u32) -> Option<&mut QueueLink>,
    ) {
        let new = QueueLink::to(id);
        match link(things, id) {
            Some(own) if *own == QueueLink::OUTSIDE => *own = new,
            _ => return,
        }
        if self.first == QueueLink::OUTSIDE {
            self.first = new;
        } else if let Some(last) = self.last.element().and_then(|last| link(things, last)) {
            *last = new;
        }
        self.last = new;
    }

    /// Removes the first element.
    pub(super) fn pop<T>(
        &mut self,
        things: &mut T,
        link: impl Fn(&mut T, u32) -> Option<&mut QueueLink>,
    ) -> Option<u32> {
        let id = self.first.element()?;
        let next = core::mem::take(link(things, id)?);
        self.first = if next == self.first { QueueLink::OUTSIDE } else { next };
        Some(id)
    }

    /// Removes `id` from any position.
    pub(super) fn remove<T>(
        &mut self,
        things: &mut T,
        id: u32,
        link: impl Fn(&mut T, u32) -> Option<&mut QueueLink>,
    ) {
        if !link(things, id).is_some_and(|own| *own != QueueLink::OUTSIDE) {
            return;
        }
        // Rare: only for a session that is closed while in the queue.
        let mut rest = core::mem::take(self);
        while let Some(other) = rest.pop(things, &link) {
            if other != id {
                self.push(things, other, &link);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn link(things: &mut [QueueLink; 4], id: u32) -> Option<&mut QueueLink> {
        things.get_mut(id as usize)
    }

    fn drained(mut queue: Queue, things: &mut [QueueLink; 4]) -> Vec<u32> {
        core::iter::from_fn(|| queue.pop(things, link)).collect()
    }

    #[test]
    fn sessions_are_queued_once_and_in_order() {
        let (mut queue, mut things) = (Queue::default(), [QueueLink::default(); 4]);
        for id in [2, 0, 2, 3, 0, 9] {
            queue.push(&mut things, id, link);
        }
        assert_eq!(drained(queue, &mut things), [2, 0, 3]);
    }

    #[test]
    fn sessions_can_leave_the_queue_from_anywhere() {
        for gone in 0..3 {
            let (mut queue, mut things) = (Queue::default(), [QueueLink::default(); 4]);
            (0..3).for_each(|id| queue.push(&mut things, id, link));
            queue.remove(&mut things, gone, link);
            queue.remove(&mut things, 3, link);
            queue.push(&mut things, 3, link);
            let left: Vec<u32> = (0..4).filter(|id| *id != gone).collect();
            assert_eq!(drained(queue, &mut things), left);
        }
    }
}
