//! The fence of a whole job, shared with its PMI-1 and PMI-2 ranks.
//!
//! In PMIx a process may request several fences without waiting for their ends; a fence may have a
//! deadline; and it completes without ranks that are gone, with `PARTIAL_SUCCESS`.

use super::collective::CollectiveKind;
use super::collective_request::{CollectiveRequest, Participants};
use super::connection::{Connection, PmixResponse};
use super::get::deadline;
use super::state::{PmixContext, PmixEffect};
use super::storage::ConnStateOf;
use super::{ConnectionId, Pmix, PmixStorage, namespace};
use crate::ids::{JobId, ProcId, Rank};
use crate::server::job::FenceEntry;
use crate::server::member::Member;
use crate::server::{Server, Storage};
use crate::storage::Slots;
use crate::time::Instant;
use crate::wire::pmix::names::Status;
use crate::wire::pmix::request::Collective;

impl<P: PmixStorage, S: Storage> PmixContext<'_, P, S> {
    /// Handles a fence request.
    pub(super) fn fence(
        &mut self,
        state: &mut ConnStateOf<P>,
        tag: u32,
        ProcId { job, rank }: ProcId,
        fence: &Collective<'_>,
    ) -> PmixEffect {
        let deadline = deadline(&fence.infos, self.now, None);
        let members = self.by_groups(ProcId { job, rank }, &fence.procs);
        let participants = match &members {
            Some(members) => Participants::Members(members.as_ref()),
            None => Participants::Listed(&fence.procs),
        };
        if !self.is_world(job, participants) {
            let request = CollectiveRequest {
                participants,
                ..CollectiveRequest::of(CollectiveKind::Fence, &fence.procs, deadline)
            };
            return self.join(state, tag, ProcId { job, rank }, request);
        }
        let entered = enter(self.server, ProcId { job, rank }, self.now);
        state.push_response(
            tag,
            match entered {
                Some(generation) => PmixResponse::Fence { generation, deadline },
                None => PmixResponse::QueuedFence { deadline },
            },
        );
        PmixEffect::Fenced
    }
}

impl<P: PmixStorage> Pmix<P> {
    /// Answers the ranks whose fence has completed, and completes a fence that waits only for ranks
    /// that are gone.
    pub(super) fn check_fence<S: Storage>(&mut self, job: JobId, server: &mut Server<S>) {
        loop {
            let Some(of) = server.job(job) else { return };
            let generation = of.fence().generation();
            let Some(namespace) = namespace::get_mut(&mut self.jobs, job) else { return };
            if namespace.generation != generation {
                namespace.generation = generation;
                let status =
                    if namespace.is_partial { Status::PARTIAL_SUCCESS } else { Status::SUCCESS };
                namespace.is_partial = false;
                self.release(job, generation, status);
                self.enter_queued(job, server);
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
            if !ends_without {
                return;
            }
            server.release(job);
        }
    }

    /// Does the same for each job whose fence was completed by its PMI-1 or PMI-2 ranks.
    pub(super) fn check_ended_fences<S: Storage>(&mut self, server: &mut Server<S>) {
        for at in 0..self.jobs.end() {
            let Some(namespace) = self.jobs.get(at) else { continue };
            let (job, seen) = (namespace.job, namespace.generation);
            if server.job(job).is_some_and(|job| job.fence().generation() != seen) {
                self.check_fence(job, server);
            }
        }
    }

    /// Times out the current fence: all ranks inside are answered and leave it.
    pub(super) fn expire_fence<S: Storage>(&mut self, job: JobId, server: &mut Server<S>) {
        let Some(current) = server.job(job).map(|job| job.fence().generation()) else { return };
        for at in 0..self.connections.end() {
            let id = ConnectionId(u32::try_from(at).unwrap_or(u32::MAX));
            let Some((place, rank)) = self.in_fence(id, job, current) else { continue };
            if let Some(job) = server.jobs.get_mut(job.0 as usize) {
                job.withdraw(rank);
            }
            self.resolve(id, place, PmixResponse::Status(Status::TIMEOUT));
        }
    }

    fn release(&mut self, job: JobId, generation: u32, status: Status) {
        let ended = generation.wrapping_sub(1);
        for at in 0..self.connections.end() {
            let id = ConnectionId(u32::try_from(at).unwrap_or(u32::MAX));
            if let Some((place, _)) = self.in_fence(id, job, ended) {
                self.resolve(id, place, PmixResponse::Status(status));
            }
        }
    }

    /// Enters the first queued fence of each connection of a job that is outside.
    pub(super) fn enter_queued<S: Storage>(&mut self, job: JobId, server: &mut Server<S>) {
        let now = server.now;
        for at in 0..self.connections.end() {
            let Some(Connection { state, .. }) = self.connections.get_mut(at) else { continue };
            let Some(ProcId { job: of, rank }) = state.peer.filter(|of| of.job == job) else {
                continue;
            };
            let Some((place, deadline)) = state.first_queued_fence() else { continue };
            // One that is late is about to be answered.
            if deadline.is_some_and(|deadline| deadline <= now) {
                continue;
            }
            if let Some(generation) = enter(server, ProcId { job: of, rank }, now)
                && let Some(pending) = state.pending.get_mut(place)
            {
                pending.response = PmixResponse::Fence { generation, deadline };
            }
        }
    }

    /// Place and rank of a connection that waits for this fence of a job.
    fn in_fence(&self, id: ConnectionId, job: JobId, generation: u32) -> Option<(usize, Rank)> {
        let state = &self.connections.get(id.0 as usize)?.state;
        let ProcId { rank, .. } = state.peer.filter(|of| of.job == job)?;
        let mut waiting = state.pending_requests().filter(|(_, pending)| {
            matches!(pending.response, PmixResponse::Fence { generation: of, .. } if of == generation)
        });
        waiting.next().map(|(place, _)| (place, rank))
    }
}

/// Enters the fence of the job and returns its number; `None` for a member that is inside already.
fn enter<S: Storage>(
    server: &mut Server<S>,
    ProcId { job: id, rank }: ProcId,
    now: Instant,
) -> Option<u32> {
    let job = server.jobs.get_mut(id.0 as usize)?;
    let FenceEntry { generation, is_complete } = job.enter_fence(rank, now).ok()?;
    if is_complete {
        server.release(id);
    }
    Some(generation)
}
