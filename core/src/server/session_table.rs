//! The sessions of a server, and those of them that the owner has to serve.

#[cfg(feature = "pmix")]
use super::pmix::session::UnfinishedLimits;
#[cfg(feature = "pmix")]
use super::pmix::tables::{PmixSessionOf, PmixSessionsOf, PmixStorage};
use super::queue::{Queue, QueueLink};
use super::session::{QUEUES, SessionLifecycle};
use super::shared::Shared;
use super::storage::{SessionOf, SessionsOf};
use super::{Event, Job, Member, Storage};
use crate::ids::{JobId, SessionId};
use crate::storage::Slots;

/// The sessions, and those of them that the owner has to serve.
pub(super) struct SessionTable<S: Storage> {
    slots: SessionSlots<S>,
    /// Sessions that are [`READY`], [`HAS_EVENT`] and [`AWAITS_BUFFER`].
    queues: [Queue; QUEUES],
    #[cfg(feature = "pmix")]
    pub(super) unfinished: UnfinishedLimits,
}

/// Places of the sessions. Those of PMIx clients are larger, and have places of their own.
struct SessionSlots<S: Storage> {
    pmi: SessionsOf<S>,
    #[cfg(feature = "pmix")]
    pmix: PmixSessionsOf<S::Pmix>,
}

impl<S: Storage> SessionTable<S> {
    pub(super) const fn new(
        pmi: SessionsOf<S>,
        #[cfg(feature = "pmix")] pmix: PmixSessionsOf<S::Pmix>,
    ) -> Self {
        let slots = SessionSlots {
            pmi,
            #[cfg(feature = "pmix")]
            pmix,
        };
        Self {
            slots,
            queues: [Queue::new(); QUEUES],
            #[cfg(feature = "pmix")]
            unfinished: UnfinishedLimits::NONE,
        }
    }

    pub(super) fn insert(&mut self, session: SessionOf<S>) -> Option<SessionId> {
        u32::try_from(self.slots.pmi.insert(session)?).ok().map(SessionId)
    }

    #[cfg_attr(not(feature = "pmix"), inline(never))]
    pub(super) fn get(&self, id: SessionId) -> Option<&SessionOf<S>> {
        self.slots.pmi.get(id.0 as usize)
    }

    #[cfg_attr(not(feature = "pmix"), inline(never))]
    pub(super) fn get_mut(&mut self, id: SessionId) -> Option<&mut SessionOf<S>> {
        self.slots.pmi.get_mut(id.0 as usize)
    }

    /// Numbers that sessions have or had.
    pub(super) fn ids(&self) -> impl Iterator<Item = SessionId> + use<S> {
        (0..u32::try_from(self.slots.pmi.end()).unwrap_or(u32::MAX)).map(SessionId)
    }

    /// Removes a session, from its queues too.
    pub(super) fn remove(&mut self, id: SessionId) -> Option<SessionOf<S>> {
        self.dequeue_all(id);
        self.slots.pmi.remove(id.0 as usize)
    }

    /// State of a session that does not depend on its protocol.
    pub(super) fn lifecycle(&self, id: SessionId) -> Option<&SessionLifecycle> {
        #[cfg(feature = "pmix")]
        if S::Pmix::ENABLED && id.is_pmix() {
            return Some(&self.pmix(id)?.state.lifecycle);
        }
        Some(&self.get(id)?.state.lifecycle)
    }

    /// Puts a session into a queue.
    #[inline(never)]
    pub(super) fn push(&mut self, which: usize, id: SessionId) {
        if let Some(queue) = self.queues.get_mut(which) {
            queue.push(&mut self.slots, id.0, |slots, id| slots.link(which, id));
        }
    }

    /// Takes the first session out of a queue.
    #[inline(never)]
    pub(super) fn pop(&mut self, which: usize) -> Option<SessionId> {
        let queue = self.queues.get_mut(which)?;
        queue.pop(&mut self.slots, |slots, id| slots.link(which, id)).map(SessionId)
    }

    /// Takes a session out of a queue.
    pub(super) fn dequeue(&mut self, which: usize, id: SessionId) {
        if let Some(queue) = self.queues.get_mut(which) {
            queue.remove(&mut self.slots, id.0, |slots, id| slots.link(which, id));
        }
    }

    fn dequeue_all(&mut self, id: SessionId) {
        self.dequeue(READY, id);
        self.dequeue(HAS_EVENT, id);
        self.dequeue(AWAITS_BUFFER, id);
    }

    /// Takes the event of a session, which has paused its input until now.
    pub(super) fn take_event(&mut self, id: SessionId) -> Option<Event> {
        let event = self.slots.lifecycle_mut(id)?.event.take();
        if event.is_some() {
            self.push(READY, id);
        }
        event
    }

    /// Queues the first session whose input waits for a buffer, after one has become free. When it has
    /// returned the buffer, the next one follows.
    pub(super) fn wake_awaiting_buffer(&mut self) {
        if let Some(id) = self.pop(AWAITS_BUFFER) {
            self.push(READY, id);
        }
    }

    /// Queues the sessions of a job for output.
    pub(super) fn wake_all<K, M: AsRef<[Member]>>(&mut self, job: &Job<K, M>) {
        for session in job.members().iter().filter_map(Member::session) {
            self.push(READY, session);
        }
    }

    /// Ends the fence of a job, and wakes its sessions. PMIx clients are answered separately.
    pub(super) fn end_fence(&mut self, shared: &mut Shared<S>, id: JobId) {
        let Some(job) = shared.job_mut(id) else { return };
        job.end_fence();
        self.wake_all(job);
    }
}

#[cfg(feature = "pmix")]
impl<S: Storage> SessionTable<S> {
    pub(super) fn insert_pmix(&mut self, session: PmixSessionOf<S::Pmix>) -> Option<SessionId> {
        u32::try_from(self.slots.pmix.insert(session)?).ok().and_then(SessionId::pmix)
    }

    /// The session of a PMIx client.
    pub(super) fn pmix(&self, id: SessionId) -> Option<&PmixSessionOf<S::Pmix>> {
        self.slots.pmix.get(id.pmix_place()?)
    }

    pub(super) fn pmix_mut(&mut self, id: SessionId) -> Option<&mut PmixSessionOf<S::Pmix>> {
        self.slots.pmix.get_mut(id.pmix_place()?)
    }

    /// Numbers that sessions of PMIx clients have or had.
    pub(super) fn pmix_ids(&self) -> impl Iterator<Item = SessionId> + use<S> {
        let end = u32::try_from(self.slots.pmix.end()).unwrap_or(u32::MAX);
        (0..end).map_while(SessionId::pmix)
    }

    /// Removes the session of a PMIx client, from its queues too.
    pub(super) fn remove_pmix(&mut self, id: SessionId) -> Option<PmixSessionOf<S::Pmix>> {
        self.dequeue_all(id);
        self.slots.pmix.remove(id.pmix_place()?)
    }

    /// Reports an event to the owner. The session pauses its input until the owner has it.
    pub(super) fn push_event(&mut self, id: SessionId, event: Event) {
        if let Some(lifecycle) = self.slots.lifecycle_mut(id) {
            lifecycle.event = Some(event);
        }
        self.push(HAS_EVENT, id);
    }
}

impl<S: Storage> SessionSlots<S> {
    fn lifecycle_mut(&mut self, id: SessionId) -> Option<&mut SessionLifecycle> {
        #[cfg(feature = "pmix")]
        if S::Pmix::ENABLED && id.is_pmix() {
            return Some(&mut self.pmix.get_mut(id.pmix_place()?)?.state.lifecycle);
        }
        Some(&mut self.pmi.get_mut(id.0 as usize)?.state.lifecycle)
    }

    #[inline(never)]
    fn link(&mut self, which: usize, id: u32) -> Option<&mut QueueLink> {
        self.lifecycle_mut(SessionId(id))?.links.get_mut(which)
    }
}

/// Index of the queue of sessions with output, or with held input to handle.
pub(super) const READY: usize = 0;
/// Index of the queue of sessions with an event for the owner.
pub(super) const HAS_EVENT: usize = 1;
/// Index of the queue of sessions with input in their link and without a buffer for it.
pub(super) const AWAITS_BUFFER: usize = 2;
