//! The fence of a whole job, shared with its PMI-1 and PMI-2 ranks.
//!
//! In PMIx a process may request several fences without waiting for their ends; a fence may have a
//! deadline; and it completes without ranks that are gone, with `PARTIAL_SUCCESS`.

use super::collectives::{CollectiveRequest, Participants};
use super::context::{PmixEffect, PmixServer};
use super::session::{PmixResponse, QueuedFence};
use super::tables::{CollectiveKind, PmixSessionStateOf, PmixStorage};
use crate::ids::{JobId, ProcId, Rank, SessionId};
use crate::server::Storage;
use crate::server::job::{FenceEntry, Job};
use crate::server::member::Member;
use crate::server::shared::Shared;
use crate::storage::Slots;
use crate::wire::pmix::names::{Status, keys};
use crate::wire::pmix::request::Collective;

impl<S: Storage> Shared<S> {
    /// Handles a fence request.
    pub(super) fn fence(
        &mut self,
        state: &mut PmixSessionStateOf<S::Pmix>,
        tag: u32,
        peer: ProcId,
        fence: &Collective<'_>,
    ) -> PmixEffect {
        let deadline = self.deadline(&fence.infos, None);
        let members = self.by_groups(peer, &fence.procs);
        let participants = match &members {
            Some(members) => Participants::Members(members.as_ref()),
            None => Participants::Listed(&fence.procs),
        };
        if !self.is_world(peer.job, participants) {
            if members.is_none() {
                return self.join_listed(state, tag, peer, CollectiveKind::Fence, fence);
            }
            let request = CollectiveRequest {
                participants,
                ..CollectiveRequest::of(CollectiveKind::Fence, &fence.procs, deadline)
            };
            return self.join(state, tag, peer, request);
        }
        let collects_data = fence.infos.is_set(keys::COLLECT);
        let entry = self.enter(peer, collects_data);
        let response = match entry {
            Some(FenceEntry { generation, .. }) => PmixResponse::Fence { generation, deadline },
            None => PmixResponse::QueuedFence { deadline, collects_data },
        };
        state.push_response(tag, response);
        PmixEffect::Fenced { is_complete: entry.is_some_and(|entry| entry.is_complete) }
    }

    /// Enters the fence of the job; `None` for a member that is inside already.
    fn enter(&mut self, peer: ProcId, collects_data: bool) -> Option<FenceEntry> {
        let now = self.now;
        let entry = self.job_mut(peer.job)?.enter_fence(peer.rank, now).ok()?;
        if collects_data && let Some(namespace) = self.pmix.namespace_mut(peer.job) {
            namespace.collects_data = true;
        }
        Some(entry)
    }
}

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixServer<'_, P, S> {
    /// Answers the ranks whose fence has completed, and completes a fence that waits only for ranks
    /// that are gone.
    pub(in crate::server) fn check_fence(&mut self, job: JobId) {
        loop {
            let Some((of, namespace)) = self.shared.job_and_namespace(job) else { return };
            let generation = of.fence().generation();
            if namespace.generation != generation {
                namespace.generation = generation;
                let status =
                    if namespace.is_partial { Status::PARTIAL_SUCCESS } else { Status::SUCCESS };
                namespace.is_partial = false;
                namespace.collects_data = false;
                self.answer_fence(job, generation.wrapping_sub(1), status);
                self.enter_queued(job);
                continue;
            }
            namespace.is_partial = of.gone > 0;
            let is_inside = |member: &Member| member.fences != generation;
            let ends_without = of.gone > 0
                && of.fence().inside() > 0
                && of.members().iter().all(|member| match is_inside(member) {
                    true => member.tolerates_failures,
                    false => member.is_gone(),
                });
            let ends = ends_without && self.shared.job_mut(job).is_some_and(Job::complete_fence);
            if !ends {
                return;
            }
            self.end_fence(job);
        }
    }

    /// Marks the current fence of a job as one without some ranks, which its clients receive as
    /// `PARTIAL_SUCCESS`: ranks of other nodes are gone.
    pub fn set_partial_fence(&mut self, job: JobId) {
        if let Some(namespace) = self.shared.pmix.namespace_mut(job) {
            namespace.is_partial = true;
        }
    }

    /// Times out the current fence: all ranks inside are answered and leave it.
    pub(super) fn expire_fence(&mut self, job: JobId) {
        let Some(current) = self.shared.job(job).map(|job| job.fence().generation()) else {
            return;
        };
        for id in self.sessions.pmix_ids() {
            let Some((place, rank)) = self.in_fence(id, job, current) else { continue };
            if let Some(job) = self.shared.job_mut(job) {
                job.withdraw(rank);
            }
            self.sessions.resolve(id, place, PmixResponse::Status(Status::TIMEOUT));
        }
    }

    fn answer_fence(&mut self, job: JobId, generation: u32, status: Status) {
        for id in self.sessions.pmix_ids() {
            if let Some((place, _)) = self.in_fence(id, job, generation) {
                self.sessions.resolve(id, place, PmixResponse::Status(status));
            }
        }
    }

    /// Enters the first queued fence of each session of a job that is outside.
    pub(super) fn enter_queued(&mut self, job: JobId) {
        let now = self.shared.now;
        for id in self.sessions.pmix_ids() {
            let Some(state) = self.sessions.state_mut(id) else { continue };
            let Some(peer) = state.protocol.peer.filter(|of| of.job == job) else { continue };
            let Some(QueuedFence { place, deadline, collects_data }) = state.first_queued_fence()
            else {
                continue;
            };
            // One that is late is about to be answered.
            if deadline.is_some_and(|deadline| deadline <= now) {
                continue;
            }
            let entry = self.shared.enter(peer, collects_data);
            let Some(FenceEntry { generation, is_complete }) = entry else { continue };
            if let Some(pending) = state.pending.get_mut(place) {
                pending.response = PmixResponse::Fence { generation, deadline };
            }
            if is_complete {
                self.end_fence(job);
            }
        }
    }

    /// Place and rank of a session that waits for this fence of a job.
    fn in_fence(&self, id: SessionId, job: JobId, generation: u32) -> Option<(usize, Rank)> {
        let state = self.sessions.state(id)?;
        let peer = state.protocol.peer.filter(|of| of.job == job)?;
        let mut waiting = state.pending_requests().filter(|(_, pending)| {
            matches!(pending.response, PmixResponse::Fence { generation: of, .. } if of == generation)
        });
        waiting.next().map(|(place, _)| (place, peer.rank))
    }
}
