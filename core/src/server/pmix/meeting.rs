//! How a process comes to something that several do together: which processes that are, and whether others
//! wait for it already.

use super::Memory;
use super::block::{Block, copied};
use super::collective::{Collective, PROC_BYTES, Purpose, pairs, write_pair};
use super::connection::{Owed, Talk};
use super::info;
use super::state::{Reach, Told};
use crate::ids::{JobId, Rank};
use crate::server::{Job, Storage};
use crate::storage::Slots;
use crate::time::Instant;
use crate::wire::pmix::names::Status;
use crate::wire::pmix::{List, Proc, WILDCARD};

/// What a process asks to take part in.
pub(super) struct Meeting<'a, B> {
    pub(super) purpose: Purpose,
    /// The group that it is about.
    pub(super) name: Option<&'a [u8]>,
    pub(super) who: Who<'a>,
    /// Until when it waits.
    pub(super) until: Option<Instant>,
    /// What it has asked, if that matters to the others.
    pub(super) brought: Option<B>,
}

/// Who takes part.
#[derive(Clone, Copy)]
pub(super) enum Who<'a> {
    Listed(&'a List<'a>),
    /// The members of a group.
    Members(&'a [u8]),
    /// That is found out when they have come.
    Anybody,
}

/// A set of processes, as a number that does not depend on their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    sum: u64,
    pub(super) count: u32,
}

impl<P: Memory, S: Storage> Reach<'_, P, S> {
    /// Whether these are all processes of one job.
    pub(super) fn is_world(&self, job: JobId, who: Who<'_>) -> bool {
        let Some((name, size)) = self.server.job(job).map(|job| (job.name(), job.size())) else {
            return false;
        };
        let Who::Listed(procs) = who else { return self.sum(who) == Some(whole(job, size)) };
        if procs.procs().any(|proc| proc.nspace != name.as_bytes()) {
            return false;
        }
        let is_all = |proc: Proc<'_>| proc.rank == WILDCARD;
        procs.procs().any(is_all) || self.sum(who) == Some(whole(job, size))
    }

    /// A process takes part in something with others.
    pub(super) fn join(
        &mut self,
        talk: &mut Talk<P::Block, P::Pendings>,
        tag: u32,
        (job, rank): (JobId, Rank),
        meeting: Meeting<'_, P::Block>,
    ) -> Told {
        let Meeting { purpose, name, who, until, brought } = meeting;
        let Some(sum) = self.sum(who) else {
            talk.owe(tag, Owed::Status(Status::NOT_FOUND));
            return Told::Nothing;
        };
        let is_in = |at: usize| {
            talk.pendings()
                .any(|(_, p)| matches!(p.owed, Owed::Collective { at: of, .. } if of == at))
        };
        // Whoever is in one of them already begins, or joins, the next.
        let open = (0..self.collectives.end()).find(|at| {
            let open = self.collectives.get(*at);
            open.is_some_and(|open| open.is(purpose, name) && open.sum == sum) && !is_in(*at)
        });
        let at = match open {
            Some(at) => at,
            None => {
                let name = match name.map(copied) {
                    Some(None) => None,
                    known => Some(known.flatten()),
                };
                let Some((name, who)) = name.zip(self.listed(who)) else {
                    talk.owe(tag, Owed::Status(Status::NOMEM));
                    return Told::Nothing;
                };
                match self.collectives.insert(Collective { purpose, name, who, sum, inside: 0 }) {
                    Some(at) => at,
                    None => {
                        talk.owe(tag, Owed::Status(Status::OUT_OF_RESOURCE));
                        return Told::Nothing;
                    }
                }
            }
        };
        let Some(open) = self.collectives.get_mut(at) else { return Told::Nothing };
        let is_wrong = !open.has(job, rank) || open.inside == 0 && open.names_twice();
        if purpose != Purpose::Bootstrap && is_wrong {
            talk.owe(tag, Owed::Status(Status::BAD_PARAM));
            if open.inside == 0 {
                self.collectives.remove(at);
            }
            return Told::Nothing;
        }
        open.inside = open.inside.saturating_add(1);
        talk.owe(tag, Owed::Collective { at, until, brought });
        Told::Entered(at)
    }

    /// Somebody has left a group of these `members`: those that end it do not wait for it.
    pub(super) fn shrink_meetings(&mut self, name: &[u8], members: &P::Block, rest: &P::Block) {
        let sum = self.sum(Who::Members(rest.as_ref())).unwrap_or_default();
        for at in 0..self.collectives.end() {
            let Some(open) = self.collectives.get_mut(at) else { continue };
            if open.is(Purpose::Destruct, Some(name)) && open.who.as_ref() == members.as_ref() {
                (open.who, open.sum) = (rest.clone(), sum);
            }
        }
    }

    /// The sum over all processes that a list names; `None` if there is one that does not exist.
    fn sum(&self, who: Who<'_>) -> Option<Sum> {
        let procs = match who {
            Who::Listed(procs) => procs,
            Who::Members(members) => {
                let each = pairs(members).map(|(job, rank)| match rank {
                    WILDCARD => whole(job, self.server.job(job).map_or(0, Job::size)),
                    rank => one(job, rank),
                });
                return Some(each.fold(Sum::default(), Sum::and));
            }
            Who::Anybody => return Some(Sum::default()),
        };
        procs.procs().try_fold(Sum::default(), |sum, proc| {
            let job = info::named(self.jobs, self.server, proc.nspace)?;
            let size = self.server.job(job).map_or(0, Job::size);
            match proc.rank {
                WILDCARD => Some(sum.and(whole(job, size))),
                rank if rank < size => Some(sum.and(one(job, rank))),
                _ => None,
            }
        })
    }

    fn listed(&self, who: Who<'_>) -> Option<P::Block> {
        let procs = match who {
            Who::Listed(procs) => procs,
            Who::Members(members) => return copied(members),
            Who::Anybody => return copied(b""),
        };
        P::Block::make(procs.count as usize * PROC_BYTES, |bytes| {
            let (places, _) = bytes.as_chunks_mut::<PROC_BYTES>();
            for (place, proc) in places.iter_mut().zip(procs.procs()) {
                let job = info::named(self.jobs, self.server, proc.nspace);
                write_pair(place, (job.unwrap_or(JobId(u32::MAX)), proc.rank));
            }
        })
    }
}

impl<'a, B> Meeting<'a, B> {
    /// Something that is about no group.
    pub(super) const fn of(purpose: Purpose, procs: &'a List<'a>, until: Option<Instant>) -> Self {
        Self { purpose, name: None, who: Who::Listed(procs), until, brought: None }
    }
}

impl Sum {
    const fn and(self, other: Self) -> Self {
        Self {
            sum: self.sum.wrapping_add(other.sum),
            count: self.count.saturating_add(other.count),
        }
    }
}

fn whole(job: JobId, size: u32) -> Sum {
    (0..size).fold(Sum::default(), |sum, rank| sum.and(one(job, rank)))
}

/// One process over 64 bits, so that sums of different sets differ.
const fn one(job: JobId, rank: u32) -> Sum {
    let number = (job.0 as u64) << 32 | rank as u64;
    let spread = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Sum { sum: (spread ^ spread >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9), count: 1 }
}
