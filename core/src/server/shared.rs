//! Parts of a server that are borrowed apart: the state of the jobs, and the sessions.

use super::connected_jobs;
use super::queue::{Queue, QueueLink};
use super::storage::{JobOf, JobsOf, SessionOf, SessionsOf};
use super::{Job, Member, NO_JOB, Storage};
use crate::error::Misuse;
use crate::ids::{JobId, SessionId};
use crate::storage::Slots;
use crate::store::Kvs;
#[cfg(feature = "pmix")]
use crate::time::Instant;

/// State that requests of all clients share, whatever their protocol.
pub(super) struct Shared<S: Storage> {
    pub(super) jobs: JobsOf<S>,
    /// Published names.
    pub(super) names: S::Kvs,
    /// Latest time that a call passed in, for fences that PMIx clients enter ahead.
    #[cfg(feature = "pmix")]
    pub(super) now: Instant,
    /// Jobs whose fence has ended, for their PMIx clients.
    #[cfg(feature = "pmix")]
    ended_fences: Queue,
    /// True if a name was published that lookups of PMIx clients may wait for.
    #[cfg(feature = "pmix")]
    pub(super) has_new_names: bool,
}

/// The sessions, and those of them that the owner has to serve.
pub(super) struct SessionTable<S: Storage> {
    slots: SessionsOf<S>,
    /// Sessions that are [`READY`] and [`HAS_EVENT`].
    queues: [Queue; 2],
}

impl<S: Storage> Shared<S> {
    pub(super) const fn new(jobs: JobsOf<S>, names: S::Kvs) -> Self {
        Self {
            jobs,
            names,
            #[cfg(feature = "pmix")]
            now: Instant::from_micros(0),
            #[cfg(feature = "pmix")]
            ended_fences: Queue::new(),
            #[cfg(feature = "pmix")]
            has_new_names: false,
        }
    }

    pub(super) fn job(&self, id: JobId) -> Option<&JobOf<S>> {
        self.jobs.get(id.0 as usize)
    }

    pub(super) fn job_mut(&mut self, id: JobId) -> Option<&mut JobOf<S>> {
        self.jobs.get_mut(id.0 as usize)
    }

    /// Removes a job and the names it published; see [`Server::remove_job`](super::Server::remove_job).
    pub(super) fn remove_job(&mut self, job: JobId) -> Result<(), Misuse> {
        let members = self.job(job).ok_or(NO_JOB)?.members();
        if members.iter().any(|member| member.session().is_some()) {
            return Err(Misuse::WrongState { needed: "no session of the job is open" });
        }
        let Self { names, jobs, .. } = self;
        let mut next = names.next(None);
        while let Some(id) = next {
            next = names.next(Some(id));
            if names.entry(id).is_some_and(|entry| entry.visibility.fence == job.0) {
                names.remove(id);
            }
        }
        connected_jobs::leave(jobs, job);
        #[cfg(feature = "pmix")]
        self.ended_fences.remove(jobs, job.0, fence_link::<S>);
        jobs.remove(job.0 as usize);
        Ok(())
    }

    /// The next job whose fence has ended since its PMIx clients were last answered.
    #[cfg(feature = "pmix")]
    pub(super) fn next_ended_fence(&mut self) -> Option<JobId> {
        self.ended_fences.pop(&mut self.jobs, fence_link::<S>).map(JobId)
    }

    /// Numbers that jobs have or had.
    pub(super) fn ids(&self) -> impl Iterator<Item = JobId> + use<S> {
        (0..u32::try_from(self.jobs.end()).unwrap_or(u32::MAX)).map(JobId)
    }
}

impl<S: Storage> SessionTable<S> {
    pub(super) const fn new(slots: SessionsOf<S>) -> Self {
        Self { slots, queues: [Queue::new(); 2] }
    }

    pub(super) fn insert(&mut self, session: SessionOf<S>) -> Option<SessionId> {
        u32::try_from(self.slots.insert(session)?).ok().map(SessionId)
    }

    pub(super) fn get(&self, id: SessionId) -> Option<&SessionOf<S>> {
        self.slots.get(id.0 as usize)
    }

    pub(super) fn get_mut(&mut self, id: SessionId) -> Option<&mut SessionOf<S>> {
        self.slots.get_mut(id.0 as usize)
    }

    /// Numbers that sessions have or had.
    pub(super) fn ids(&self) -> impl Iterator<Item = SessionId> + use<S> {
        (0..u32::try_from(self.slots.end()).unwrap_or(u32::MAX)).map(SessionId)
    }

    /// Removes a session, from its queues too.
    pub(super) fn remove(&mut self, id: SessionId) -> Option<SessionOf<S>> {
        self.dequeue(READY, id);
        self.dequeue(HAS_EVENT, id);
        self.slots.remove(id.0 as usize)
    }

    /// Puts a session into a queue.
    #[inline(never)]
    pub(super) fn push(&mut self, which: usize, id: SessionId) {
        if let Some(queue) = self.queues.get_mut(which) {
            queue.push(&mut self.slots, id.0, |slots, id| link::<S>(slots, which, id));
        }
    }

    /// Takes the first session out of a queue.
    #[inline(never)]
    pub(super) fn pop(&mut self, which: usize) -> Option<SessionId> {
        let queue = self.queues.get_mut(which)?;
        queue.pop(&mut self.slots, |slots, id| link::<S>(slots, which, id)).map(SessionId)
    }

    /// Takes a session out of a queue.
    pub(super) fn dequeue(&mut self, which: usize, id: SessionId) {
        if let Some(queue) = self.queues.get_mut(which) {
            queue.remove(&mut self.slots, id.0, |slots, id| link::<S>(slots, which, id));
        }
    }

    /// Queues the sessions of a job for output.
    pub(super) fn wake_all<K, M: AsRef<[Member]>>(&mut self, job: &Job<K, M>) {
        for session in job.members().iter().filter_map(Member::session) {
            self.push(READY, session);
        }
    }

    /// Ends the fence of a job, and wakes its sessions and its PMIx clients.
    pub(super) fn end_fence(&mut self, shared: &mut Shared<S>, id: JobId) {
        let Some(job) = shared.job_mut(id) else { return };
        job.end_fence();
        self.wake_all(job);
        #[cfg(feature = "pmix")]
        shared.ended_fences.push(&mut shared.jobs, id.0, fence_link::<S>);
    }
}

#[cfg(feature = "pmix")]
fn fence_link<S: Storage>(jobs: &mut JobsOf<S>, id: u32) -> Option<&mut QueueLink> {
    Some(&mut jobs.get_mut(id as usize)?.fence_link)
}

fn link<S: Storage>(slots: &mut SessionsOf<S>, which: usize, id: u32) -> Option<&mut QueueLink> {
    slots.get_mut(id as usize)?.state.links.get_mut(which)
}

/// Index of the queue of sessions with output, or with held input to handle.
pub(super) const READY: usize = 0;
/// Index of the queue of sessions with an event for the owner.
pub(super) const HAS_EVENT: usize = 1;
