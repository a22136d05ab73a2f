//! Joining a collective: matching a request to an open one by kind, name and members.

use super::PmixStorage;
use super::collective::{CollectiveKind, OpenCollective, PROC_BYTES, pairs, write_pair};
use super::connection::PmixResponse;
use super::namespace;
use super::shared_bytes::{SharedBytes, copy_bytes};
use super::state::{PmixContext, PmixEffect};
use super::storage::ConnStateOf;
use crate::ids::{JobId, ProcId};
use crate::server::{Job, Storage};
use crate::storage::Slots;
use crate::time::Instant;
use crate::wire::pmix::names::Status;
use crate::wire::pmix::{List, Proc, WILDCARD};

/// Request of a process to join a collective.
pub(super) struct CollectiveRequest<'a, B> {
    pub(super) kind: CollectiveKind,
    /// The group that it is about.
    pub(super) name: Option<&'a [u8]>,
    pub(super) participants: Participants<'a>,
    /// Deadline of the request.
    pub(super) deadline: Option<Instant>,
    /// Body of the request, if the other participants need it.
    pub(super) contributed: Option<B>,
}

/// Participants of a collective.
#[derive(Clone, Copy)]
pub(super) enum Participants<'a> {
    Listed(&'a List<'a>),
    /// The members of a group.
    Members(&'a [u8]),
    /// Unknown until the leaders of a bootstrap have joined.
    Anybody,
}

/// A set of processes, as a number that does not depend on their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MembershipDigest {
    sum: u64,
    pub(super) count: u32,
}

impl<P: PmixStorage, S: Storage> PmixContext<'_, P, S> {
    /// True if these are all processes of one job.
    pub(super) fn is_world(&self, job: JobId, participants: Participants<'_>) -> bool {
        let Some((name, size)) = self.server.job(job).map(|job| (job.name(), job.size())) else {
            return false;
        };
        let Participants::Listed(procs) = participants else {
            return self.digest(participants) == Some(whole(job, size));
        };
        if procs.procs().any(|proc| proc.nspace != name.as_bytes()) {
            return false;
        }
        let is_all = |proc: Proc<'_>| proc.rank == WILDCARD;
        procs.procs().any(is_all) || self.digest(participants) == Some(whole(job, size))
    }

    /// Joins an open collective that matches, or opens one.
    pub(super) fn join(
        &mut self,
        state: &mut ConnStateOf<P>,
        tag: u32,
        ProcId { job, rank }: ProcId,
        request: CollectiveRequest<'_, P::Bytes>,
    ) -> PmixEffect {
        let CollectiveRequest { kind: purpose, name, participants, deadline, contributed } =
            request;
        let Some(sum) = self.digest(participants) else {
            state.push_response(tag, PmixResponse::Status(Status::NOT_FOUND));
            return PmixEffect::Nothing;
        };
        let is_in = |at: usize| {
            state.pending_requests().any(
                |(_, p)| matches!(p.response, PmixResponse::Collective { at: of, .. } if of == at),
            )
        };
        // A participant that has already joined a matching collective starts, or joins, the next
        // one.
        let open = (0..self.collectives.end()).find(|at| {
            let open = self.collectives.get(*at);
            open.is_some_and(|open| open.is(purpose, name) && open.digest == sum) && !is_in(*at)
        });
        let at = match open {
            Some(at) => at,
            None => {
                let name = match name.map(copy_bytes) {
                    Some(None) => None,
                    known => Some(known.flatten()),
                };
                let Some((name, participants)) = name.zip(self.listed(participants)) else {
                    state.push_response(tag, PmixResponse::Status(Status::NOMEM));
                    return PmixEffect::Nothing;
                };
                match self.collectives.insert(OpenCollective {
                    kind: purpose,
                    name,
                    participants,
                    digest: sum,
                    inside: 0,
                }) {
                    Some(at) => at,
                    None => {
                        state.push_response(tag, PmixResponse::Status(Status::OUT_OF_RESOURCE));
                        return PmixEffect::Nothing;
                    }
                }
            }
        };
        let Some(open) = self.collectives.get_mut(at) else { return PmixEffect::Nothing };
        let is_wrong = !open.has(job, rank) || open.inside == 0 && open.names_twice();
        if purpose != CollectiveKind::Bootstrap && is_wrong {
            state.push_response(tag, PmixResponse::Status(Status::BAD_PARAM));
            if open.inside == 0 {
                self.collectives.remove(at);
            }
            return PmixEffect::Nothing;
        }
        open.inside = open.inside.saturating_add(1);
        state.push_response(tag, PmixResponse::Collective { at, deadline, contributed });
        PmixEffect::Entered(at)
    }

    /// Removes a departed process from pending destructs of a group of these `members`, which do
    /// not wait for it.
    pub(super) fn shrink_collectives(&mut self, name: &[u8], members: &P::Bytes, rest: &P::Bytes) {
        let sum = self.digest(Participants::Members(rest.as_ref())).unwrap_or_default();
        for at in 0..self.collectives.end() {
            let Some(open) = self.collectives.get_mut(at) else { continue };
            if open.is(CollectiveKind::Destruct, Some(name))
                && open.participants.as_ref() == members.as_ref()
            {
                (open.participants, open.digest) = (rest.clone(), sum);
            }
        }
    }

    /// Digest of the participants; `None` if one does not exist.
    fn digest(&self, participants: Participants<'_>) -> Option<MembershipDigest> {
        let procs = match participants {
            Participants::Listed(procs) => procs,
            Participants::Members(members) => {
                let each = pairs(members).map(|(job, rank)| match rank {
                    WILDCARD => whole(job, self.server.job(job).map_or(0, Job::size)),
                    rank => one(job, rank),
                });
                return Some(each.fold(MembershipDigest::default(), MembershipDigest::and));
            }
            Participants::Anybody => return Some(MembershipDigest::default()),
        };
        procs.procs().try_fold(MembershipDigest::default(), |sum, proc| {
            let job = namespace::named(self.jobs, self.server, proc.nspace)?;
            let size = self.server.job(job).map_or(0, Job::size);
            match proc.rank {
                WILDCARD => Some(sum.and(whole(job, size))),
                rank if rank < size => Some(sum.and(one(job, rank))),
                _ => None,
            }
        })
    }

    fn listed(&self, participants: Participants<'_>) -> Option<P::Bytes> {
        let procs = match participants {
            Participants::Listed(procs) => procs,
            Participants::Members(members) => return copy_bytes(members),
            Participants::Anybody => return copy_bytes(b""),
        };
        P::Bytes::make(procs.count as usize * PROC_BYTES, |bytes| {
            let (places, _) = bytes.as_chunks_mut::<PROC_BYTES>();
            for (place, proc) in places.iter_mut().zip(procs.procs()) {
                let job = namespace::named(self.jobs, self.server, proc.nspace);
                write_pair(place, (job.unwrap_or(JobId(u32::MAX)), proc.rank));
            }
        })
    }
}

impl<'a, B> CollectiveRequest<'a, B> {
    /// Request for a collective without a group.
    pub(super) const fn of(
        purpose: CollectiveKind,
        procs: &'a List<'a>,
        deadline: Option<Instant>,
    ) -> Self {
        Self {
            kind: purpose,
            name: None,
            participants: Participants::Listed(procs),
            deadline,
            contributed: None,
        }
    }
}

impl MembershipDigest {
    const fn and(self, other: Self) -> Self {
        Self {
            sum: self.sum.wrapping_add(other.sum),
            count: self.count.saturating_add(other.count),
        }
    }
}

fn whole(job: JobId, size: u32) -> MembershipDigest {
    (0..size).fold(MembershipDigest::default(), |sum, rank| sum.and(one(job, rank)))
}

/// One process over 64 bits, so that sums of different sets differ.
const fn one(job: JobId, rank: u32) -> MembershipDigest {
    let number = (job.0 as u64) << 32 | rank as u64;
    let spread = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    MembershipDigest { sum: (spread ^ spread >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9), count: 1 }
}
