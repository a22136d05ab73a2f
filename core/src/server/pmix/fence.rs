//! The fence of a whole job, which is that of its PMI-1 and PMI-2 ranks as well.
//!
//! What is different for PMIx: a process may enter several fences without waiting for their ends;
//! nobody waits longer than was asked for; and a fence ends without those that are gone, and says so.

use super::collective::Purpose;
use super::connection::{Connection, Owed, Talk};
use super::get::until;
use super::meeting::{Meeting, Who};
use super::state::{Reach, Told};
use super::{ConnectionId, Memory, Pmix, info};
use crate::command::{Group, Request};
use crate::ids::{JobId, Rank};
use crate::server::job::{Effect, Turn};
use crate::server::member::Member;
use crate::server::{Server, Storage};
use crate::storage::Slots;
use crate::time::Instant;
use crate::wire::pmix::names::Status;
use crate::wire::pmix::request::Collective;

impl<P: Memory, S: Storage> Reach<'_, P, S> {
    /// A process enters a fence.
    pub(super) fn fence(
        &mut self,
        talk: &mut Talk<P::Block, P::Pendings>,
        tag: u32,
        (job, rank): (JobId, Rank),
        fence: &Collective<'_>,
    ) -> Told {
        let until = until(&fence.infos, self.now, None);
        let members = self.by_groups((job, rank), &fence.procs);
        let who = match &members {
            Some(members) => Who::Members(members.as_ref()),
            None => Who::Listed(&fence.procs),
        };
        if !self.is_world(job, who) {
            let meeting = Meeting { who, ..Meeting::of(Purpose::Fence, &fence.procs, until) };
            return self.join(talk, tag, (job, rank), meeting);
        }
        let entered = enter(self.server, (job, rank), self.now);
        talk.owe(
            tag,
            match entered {
                Some(generation) => Owed::Fence { generation, until },
                None => Owed::LaterFence { until },
            },
        );
        Told::Fenced
    }
}

impl<P: Memory> Pmix<P> {
    /// Looks whether the fence of a job has ended, or can end without those that are gone, and tells
    /// those that wait for it.
    pub(super) fn look_at_fence<S: Storage>(&mut self, job: JobId, server: &mut Server<S>) {
        loop {
            let Some(of) = server.job(job) else { return };
            let generation = of.fence().generation();
            let Some(view) = info::view_mut(&mut self.jobs, job) else { return };
            if view.generation != generation {
                view.generation = generation;
                let status =
                    if view.is_partial { Status::PARTIAL_SUCCESS } else { Status::SUCCESS };
                view.is_partial = false;
                self.release(job, generation, status);
                self.enter_later(job, server);
                continue;
            }
            view.is_partial = of.gone > 0;
            let is_inside = |member: &Member| member.fences != generation;
            let ends_without = of.gone > 0
                && of.fence().inside() > 0
                && of.members().iter().all(|member| match is_inside(member) {
                    true => member.is_forgiving,
                    false => member.is_gone(),
                });
            if !ends_without {
                return;
            }
            server.release(job);
        }
    }

    /// The same for every job whose fence has ended without us.
    pub(super) fn look_at_ended_fences<S: Storage>(&mut self, server: &mut Server<S>) {
        for at in 0..self.jobs.end() {
            let Some(view) = self.jobs.get(at) else { continue };
            let (job, seen) = (view.job, view.generation);
            if server.job(job).is_some_and(|job| job.fence().generation() != seen) {
                self.look_at_fence(job, server);
            }
        }
    }

    /// Somebody has waited for the current fence as long as it was to: all who have come are told so,
    /// and are outside again.
    pub(super) fn expire_fence<S: Storage>(&mut self, job: JobId, server: &mut Server<S>) {
        let Some(current) = server.job(job).map(|job| job.fence().generation()) else { return };
        for at in 0..self.connections.end() {
            let id = ConnectionId(u32::try_from(at).unwrap_or(u32::MAX));
            let Some((place, rank)) = self.in_fence(id, job, current) else { continue };
            if let Some(job) = server.jobs.get_mut(job.0 as usize) {
                job.withdraw(rank);
            }
            self.settle(id, place, Owed::Status(Status::TIMEOUT));
        }
    }

    fn release(&mut self, job: JobId, generation: u32, status: Status) {
        let ended = generation.wrapping_sub(1);
        for at in 0..self.connections.end() {
            let id = ConnectionId(u32::try_from(at).unwrap_or(u32::MAX));
            if let Some((place, _)) = self.in_fence(id, job, ended) {
                self.settle(id, place, Owed::Status(status));
            }
        }
    }

    /// Those that have asked for the next fence already enter it, each for the first time it asked.
    fn enter_later<S: Storage>(&mut self, job: JobId, server: &mut Server<S>) {
        for at in 0..self.connections.end() {
            let Some(Connection { talk, .. }) = self.connections.get_mut(at) else { continue };
            let Some((of, rank)) = talk.peer.filter(|(of, _)| *of == job) else { continue };
            let Some((place, until)) = talk.first_later_fence() else { continue };
            let now = server.job(of).and_then(|job| job.fence().since()).unwrap_or_default();
            if let Some(generation) = enter(server, (of, rank), now)
                && let Some(pending) = talk.pendings.get_mut(place)
            {
                pending.owed = Owed::Fence { generation, until };
            }
        }
    }

    /// Where a connection waits for the fence of a job with this number, and as whom.
    fn in_fence(&self, id: ConnectionId, job: JobId, generation: u32) -> Option<(usize, Rank)> {
        let talk = &self.connections.get(id.0 as usize)?.talk;
        let (_, rank) = talk.peer.filter(|(of, _)| *of == job)?;
        let mut waiting = talk.pendings().filter(|(_, pending)| {
            matches!(pending.owed, Owed::Fence { generation: of, .. } if of == generation)
        });
        waiting.next().map(|(place, _)| (place, rank))
    }
}

/// Enters the fence of the job and gives its number; `None` if the member is in it already.
fn enter<S: Storage>(
    server: &mut Server<S>,
    (id, rank): (JobId, Rank),
    now: Instant,
) -> Option<u32> {
    let job = server.jobs.get_mut(id.0 as usize)?;
    let generation = job.fence().generation();
    job.member(rank).filter(|member| member.fences == generation)?;
    let fence = Request::Fence { group: Group::World, tag: None };
    // A connection remembers what it is owed in its own words.
    let (mut owed, mut note) = (crate::server::Owed::Done, None);
    let turn = Turn { job: id, rank, now, owed: &mut owed, note: &mut note };
    if job.request(turn, &fence) == Effect::FenceEnded {
        server.release(id);
    }
    Some(generation)
}
