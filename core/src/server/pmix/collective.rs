//! What several processes do together, of one job or of several.
//!
//! Two requests belong together if they are of the same kind, for the same group if it is about one, and
//! name the same processes, in whatever order and whether one by one or as a whole job. The processes
//! are kept as the first one has listed them, and as a sum over all of them by which lists are compared.

use super::block::{Block, copied, packed};
use super::connection::{Connection, Owed, Talk};
use super::info;
use super::state::{Reach, Told};
use super::{ConnectionId, Memory, Pmix};
use crate::ids::{JobId, Rank};
use crate::server::member::Member;
use crate::server::{Job, Server, Storage};
use crate::storage::Slots;
use crate::time::Instant;
use crate::wire::pmix::names::Status;
use crate::wire::pmix::{List, Proc, Type, WILDCARD};

/// Something that several processes do together, and who has come to it.
#[derive(Clone, Debug)]
pub struct Collective<B> {
    pub(super) purpose: Purpose,
    /// The group that it is about.
    pub(super) name: Option<B>,
    /// Who takes part: numbers of jobs and ranks, eight bytes each; a rank may stand for all.
    who: B,
    sum: Sum,
    /// How many have come, by their connections.
    inside: u32,
}

/// What several processes do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A fence of some processes.
    Fence,
    /// A fence, after which the processes know each other's jobs.
    Connect,
    /// A fence, after which they do not.
    Disconnect,
    /// A group that all its processes list is made.
    Construct,
    /// A group is made of leaders and those that they add.
    Bootstrap,
    /// A group ends.
    Destruct,
}

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
struct Sum {
    sum: u64,
    count: u32,
}

impl<P: Memory, S: Storage> Reach<'_, P, S> {
    /// Whether these are all processes of one job.
    pub(super) fn is_world(&self, job: JobId, procs: &List<'_>) -> bool {
        let Some((name, size)) = self.server.job(job).map(|job| (job.name(), job.size())) else {
            return false;
        };
        if procs.procs().any(|proc| proc.nspace != name.as_bytes()) {
            return false;
        }
        let is_all = |proc: Proc<'_>| proc.rank == WILDCARD;
        procs.procs().any(is_all) || self.sum(Who::Listed(procs)) == Some(whole(job, size))
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
                let each = pairs(members).map(|(job, rank)| one(job, rank));
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

impl<P: Memory> Pmix<P> {
    /// Ends what all have come to, or all but those that are gone.
    pub(super) fn look_at_collective<S: Storage>(&mut self, at: usize, server: &Server<S>) {
        let Some(open) = self.collectives.get(at) else { return };
        if open.purpose == Purpose::Bootstrap {
            return self.look_at_bootstrap(at, server);
        }
        let mut missing = open.sum.count.saturating_sub(open.inside);
        let mut gone = 0;
        if missing > 0 {
            gone = self.gone_from(open, at, server);
            missing = missing.saturating_sub(gone);
        }
        if missing > 0 {
            return;
        }
        if self.has_twins(at) {
            let absent = open.members(server).filter(|member| !self.is_in(at, *member)).count();
            gone = self.gone_from(open, at, server);
            if u32::try_from(absent).unwrap_or(u32::MAX) > gone {
                return;
            }
        }
        let status = if gone > 0 { Status::PARTIAL_SUCCESS } else { Status::SUCCESS };
        self.end(at, status, server);
    }

    /// Looks at all of them, because somebody is gone.
    pub(super) fn look_at_collectives<S: Storage>(&mut self, server: &Server<S>) {
        for at in 0..self.collectives.end() {
            self.look_at_collective(at, server);
        }
    }

    /// Ends all in which processes of a job take part that is no more; the next job may get its number.
    pub(super) fn end_meetings_with<S: Storage>(&mut self, job: JobId, server: &Server<S>) {
        for at in 0..self.collectives.end() {
            if self.collectives.get(at).is_some_and(|open| open.listed().any(|(of, _)| of == job)) {
                self.end(at, Status::NOT_FOUND, server);
            }
        }
    }

    /// Answers all who are in it, and forgets it.
    pub(super) fn end<S: Storage>(&mut self, at: usize, status: Status, server: &Server<S>) {
        let Some(ended) = self.collectives.remove(at) else { return };
        let made = match ended.purpose {
            Purpose::Construct | Purpose::Bootstrap => {
                Some(self.make_group(at, &ended, status, server))
            }
            _ => None,
        };
        if ended.purpose == Purpose::Destruct && status != Status::TIMEOUT {
            self.forget_group(&ended);
        }
        for number in 0..self.connections.end() {
            let Some(connection) = self.connections.get(number) else { continue };
            let Some(place) = connection.talk.in_collective(at) else { continue };
            let id = ConnectionId(u32::try_from(number).unwrap_or(u32::MAX));
            let owed = match (ended.purpose, connection.talk.peer, &made) {
                (Purpose::Connect, Some((own, _)), _) if status == Status::SUCCESS => {
                    self.introduce(&ended, own, &connection.talk, server)
                }
                (_, _, Some(Ok(made))) => Self::welcome(made, &connection.talk, server),
                (_, _, Some(Err(status))) => Owed::Status(*status),
                _ => Owed::Status(status),
            };
            self.settle(id, place, owed);
        }
    }

    /// Tells a process of job `own` about the other jobs that it is connected with.
    fn introduce<S: Storage>(
        &self,
        ended: &Collective<P::Block>,
        own: JobId,
        talk: &Talk<P::Block, P::Pendings>,
        server: &Server<S>,
    ) -> Owed<P::Block> {
        let answer = packed(talk.format, |to| {
            to.one(Type::STATUS).i32(Status::SUCCESS.0);
            for (at, (id, _)) in ended.listed().enumerate() {
                let is_new = ended.listed().take(at).all(|(before, _)| before != id);
                let view = info::view(&self.jobs, id).zip(server.job(id));
                if let Some((view, job)) = view.filter(|_| is_new && id != own) {
                    to.one(Type::BYTE_OBJECT).nested(|to| {
                        view.write_description(job.name().as_bytes(), talk.release, to);
                    });
                }
            }
        });
        answer.map_or(Owed::Status(Status::NOMEM), Owed::Body)
    }

    /// Somebody who was in it is not any more.
    pub(super) fn left(&mut self, at: usize) {
        let Some(open) = self.collectives.get_mut(at) else { return };
        open.inside = open.inside.saturating_sub(1);
        if open.inside == 0 {
            self.collectives.remove(at);
        }
    }

    /// How many of those that have not come are gone.
    fn gone_from<S: Storage>(
        &self,
        open: &Collective<P::Block>,
        at: usize,
        server: &Server<S>,
    ) -> u32 {
        // Looked at whenever somebody comes, when nearly always nobody is gone.
        if open.listed().all(|(id, _)| server.job(id).is_none_or(|job| job.gone == 0)) {
            return 0;
        }
        let gone = open.members(server).filter(|(job, rank)| {
            let job = server.job(*job).filter(|job| job.gone > 0);
            job.and_then(|job| job.member(*rank)).is_some_and(Member::is_gone)
        });
        let count = gone.filter(|member| !self.is_in(at, *member)).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// Whether a rank with several connections has come, which may then be counted more than once.
    fn has_twins(&self, at: usize) -> bool {
        let all = (0..self.connections.end()).filter_map(|number| self.connections.get(number));
        { all }.filter(|connection| connection.talk.in_collective(at).is_some()).any(|connection| {
            let peer = connection.talk.peer;
            let post = peer.and_then(|(job, rank)| info::view(&self.jobs, job)?.post(rank));
            post.is_some_and(|post| post.links > 1)
        })
    }

    /// Whether a process has come to what several do together.
    pub(super) fn is_in(&self, at: usize, member: (JobId, Rank)) -> bool {
        let all = (0..self.connections.end()).filter_map(|number| self.connections.get(number));
        { all }.any(|Connection { talk, .. }| {
            talk.peer == Some(member) && talk.in_collective(at).is_some()
        })
    }
}

impl<'a, B> Meeting<'a, B> {
    /// Something that is about no group.
    pub(super) const fn of(purpose: Purpose, procs: &'a List<'a>, until: Option<Instant>) -> Self {
        Self { purpose, name: None, who: Who::Listed(procs), until, brought: None }
    }
}

impl<B: Block> Collective<B> {
    fn is(&self, purpose: Purpose, name: Option<&[u8]>) -> bool {
        self.purpose == purpose && self.name.as_ref().map(AsRef::as_ref) == name
    }

    /// What the processes do.
    pub(super) const fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// Who takes part, one by one.
    pub(super) fn members<S: Storage>(
        &self,
        server: &Server<S>,
    ) -> impl Iterator<Item = (JobId, Rank)> {
        self.listed().flat_map(|(id, rank)| {
            let ranks = match rank {
                WILDCARD => 0..server.job(id).map_or(0, Job::size),
                rank => rank..rank.saturating_add(1),
            };
            ranks.map(move |rank| (id, Rank(rank)))
        })
    }

    /// Whether a process takes part.
    fn has(&self, job: JobId, rank: Rank) -> bool {
        self.listed().any(|(of, ranks)| of == job && (ranks == rank.0 || ranks == WILDCARD))
    }

    /// Whether a process is listed twice, so that all of them could never come. All who join list the same.
    fn names_twice(&self) -> bool {
        let meets = |(one, other): ((JobId, u32), (JobId, u32))| {
            one.0 == other.0 && (one.1 == other.1 || [one.1, other.1].contains(&WILDCARD))
        };
        // Nearly always they are in order, where two of a kind are neighbours.
        let next = || self.listed().zip(self.listed().skip(1));
        if next().all(|(one, other)| one < other) {
            return next().any(meets);
        }
        let mut all = self.listed().enumerate();
        all.any(|(at, one)| self.listed().take(at).any(|before| meets((before, one))))
    }

    /// Jobs and ranks, as they were listed.
    pub(super) fn listed(&self) -> impl Iterator<Item = (JobId, u32)> {
        pairs(self.who.as_ref())
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

/// Jobs and ranks that are kept in a block.
pub(super) fn pairs(block: &[u8]) -> impl Iterator<Item = (JobId, u32)> + Clone {
    let (pairs, _) = block.as_chunks::<PROC_BYTES>();
    pairs.iter().map(|pair| {
        let [a, b, c, d, e, f, g, h] = *pair;
        (JobId(u32::from_be_bytes([a, b, c, d])), u32::from_be_bytes([e, f, g, h]))
    })
}

/// Keeps a job and a rank in a block.
pub(super) fn write_pair(place: &mut [u8; PROC_BYTES], (job, rank): (JobId, u32)) {
    *place = (u64::from(job.0) << 32 | u64::from(rank)).to_be_bytes();
}

/// What a process takes in a block.
pub(super) const PROC_BYTES: usize = 8;
