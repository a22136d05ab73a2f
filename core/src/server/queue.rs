//! Intrusive queue, first in, first out.

/// A queue of numbered elements, each of which is in it at most once.
///
/// The links are fields of the elements, so queueing ten thousand of them needs no memory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Queue {
    first: Option<u32>,
    last: Option<u32>,
}

/// Link inside an element.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QueueLink {
    queued: bool,
    next: Option<u32>,
}

impl Queue {
    pub(super) const fn new() -> Self {
        Self { first: None, last: None }
    }

    /// Appends `id` unless it is in the queue; `link` borrows the link of an element.
    pub(super) fn push<T>(
        &mut self,
        things: &mut T,
        id: u32,
        link: impl Fn(&mut T, u32) -> Option<&mut QueueLink>,
    ) {
        match link(things, id) {
            Some(own) if !own.queued => *own = QueueLink { queued: true, next: None },
            _ => return,
        }
        match self.last.and_then(|last| link(things, last)) {
            Some(last) => last.next = Some(id),
            None => self.first = Some(id),
        }
        self.last = Some(id);
    }

    /// Removes the first element.
    pub(super) fn pop<T>(
        &mut self,
        things: &mut T,
        link: impl Fn(&mut T, u32) -> Option<&mut QueueLink>,
    ) -> Option<u32> {
        let id = self.first?;
        let own = link(things, id).map(core::mem::take).unwrap_or_default();
        self.first = own.next;
        if self.first.is_none() {
            self.last = None;
        }
        Some(id)
    }

    /// Removes `id` from any position.
    pub(super) fn remove<T>(
        &mut self,
        things: &mut T,
        id: u32,
        link: impl Fn(&mut T, u32) -> Option<&mut QueueLink>,
    ) {
        if !link(things, id).is_some_and(|own| own.queued) {
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
