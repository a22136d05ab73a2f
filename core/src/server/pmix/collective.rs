//! Collectives: operations of several processes, of one job or of several.
//!
//! Two requests belong to the same collective if kind, group name and processes match, regardless
//! of the order of the processes and of wildcards for whole jobs. The processes are stored as the
//! first participant listed them, and as a digest that lists are compared by.

use super::collective_request::MembershipDigest;
use super::connection::{Connection, PmixResponse};
use super::shared_bytes::{SharedBytes, pack};
use super::storage::ConnStateOf;
use super::{ConnectionId, Pmix, PmixStorage, namespace};
use crate::ids::{JobId, ProcId, Rank};
use crate::server::member::Member;
use crate::server::{Job, Server, Storage};
use crate::storage::Slots;
use crate::wire::pmix::names::Status;
use crate::wire::pmix::{Type, WILDCARD};

/// An open collective, and the number of its participants that have joined.
#[derive(Clone, Debug)]
pub struct OpenCollective<B> {
    pub(super) kind: CollectiveKind,
    /// The group that it is about.
    pub(super) name: Option<B>,
    /// Participants: numbers of jobs and ranks, eight bytes each; a rank may be the wildcard.
    pub(super) participants: B,
    pub(super) digest: MembershipDigest,
    /// The number of participants that have joined, by connections.
    pub(super) inside: u32,
}

/// Kind of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectiveKind {
    /// A fence of some processes.
    Fence,
    /// A fence, after which the processes know each other's jobs.
    Connect,
    /// A fence, after which they do not.
    Disconnect,
    /// Construction of a group that all its processes list.
    Construct,
    /// Construction of a group from leaders and the members they add.
    Bootstrap,
    /// Destruction of a group.
    Destruct,
}

impl<P: PmixStorage> Pmix<P> {
    /// Completes a collective if all participants have joined or are gone.
    pub(super) fn check_collective<S: Storage>(&mut self, at: usize, server: &Server<S>) {
        let Some(open) = self.collectives.get(at) else { return };
        if open.kind == CollectiveKind::Bootstrap {
            return self.check_bootstrap(at, server);
        }
        let mut missing = open.digest.count.saturating_sub(open.inside);
        let mut gone = 0;
        if missing > 0 {
            gone = self.gone_from(open, at, server);
            missing = missing.saturating_sub(gone);
        }
        if missing > 0 {
            return;
        }
        if self.has_multiple_connections(at) {
            let absent = open.members(server).filter(|member| !self.is_in(at, *member)).count();
            gone = self.gone_from(open, at, server);
            if u32::try_from(absent).unwrap_or(u32::MAX) > gone {
                return;
            }
        }
        let status = if gone > 0 { Status::PARTIAL_SUCCESS } else { Status::SUCCESS };
        self.end_collective(at, status, server);
    }

    /// Checks all collectives, because a process is gone.
    pub(super) fn check_collectives<S: Storage>(&mut self, server: &Server<S>) {
        for at in 0..self.collectives.end() {
            self.check_collective(at, server);
        }
    }

    /// Aborts the collectives with participants of a removed job, whose number may be reused.
    pub(super) fn abort_collectives_of<S: Storage>(&mut self, job: JobId, server: &Server<S>) {
        for at in 0..self.collectives.end() {
            if self.collectives.get(at).is_some_and(|open| open.listed().any(|(of, _)| of == job)) {
                self.end_collective(at, Status::NOT_FOUND, server);
            }
        }
    }

    /// Answers the participants that have joined, and removes the collective.
    pub(super) fn end_collective<S: Storage>(
        &mut self,
        at: usize,
        status: Status,
        server: &Server<S>,
    ) {
        let Some(ended) = self.collectives.remove(at) else { return };
        let constructed = match ended.kind {
            CollectiveKind::Construct | CollectiveKind::Bootstrap => {
                Some(self.make_group(at, &ended, status, server))
            }
            _ => None,
        };
        if ended.kind == CollectiveKind::Destruct && status != Status::TIMEOUT {
            self.remove_group(&ended);
        }
        for number in 0..self.connections.end() {
            let Some(connection) = self.connections.get(number) else { continue };
            let Some(place) = connection.state.in_collective(at) else { continue };
            let id = ConnectionId(u32::try_from(number).unwrap_or(u32::MAX));
            let response = match (ended.kind, connection.state.peer, &constructed) {
                (CollectiveKind::Connect, Some(ProcId { job: own, .. }), _)
                    if status == Status::SUCCESS =>
                {
                    self.connect_response(&ended, own, &connection.state, server)
                }
                (_, _, Some(Ok(constructed))) => {
                    Self::construct_response(constructed, &connection.state, server)
                }
                (_, _, Some(Err(status))) => PmixResponse::Status(*status),
                _ => PmixResponse::Status(status),
            };
            self.resolve(id, place, response);
        }
    }

    /// The response to a process of job `own`: descriptions of the jobs that it is connected with.
    fn connect_response<S: Storage>(
        &self,
        ended: &OpenCollective<P::Bytes>,
        own: JobId,
        state: &ConnStateOf<P>,
        server: &Server<S>,
    ) -> PmixResponse<P::Bytes> {
        let answer = pack(state.format, |to| {
            to.one(Type::STATUS).i32(Status::SUCCESS.0);
            for (at, (id, _)) in ended.listed().enumerate() {
                let is_new = ended.listed().take(at).all(|(before, _)| before != id);
                let namespace = namespace::get(&self.jobs, id).zip(server.job(id));
                if let Some((namespace, job)) = namespace.filter(|_| is_new && id != own) {
                    to.one(Type::BYTE_OBJECT).nested(|to| {
                        namespace.write_description(job.name().as_bytes(), state.release, to);
                    });
                }
            }
        });
        answer.map_or(PmixResponse::Status(Status::NOMEM), PmixResponse::Body)
    }

    /// Removes a participant that has joined.
    pub(super) fn leave_collective(&mut self, at: usize) {
        let Some(open) = self.collectives.get_mut(at) else { return };
        open.inside = open.inside.saturating_sub(1);
        if open.inside == 0 {
            self.collectives.remove(at);
        }
    }

    /// The number of participants that are gone without having joined.
    fn gone_from<S: Storage>(
        &self,
        open: &OpenCollective<P::Bytes>,
        at: usize,
        server: &Server<S>,
    ) -> u32 {
        // Checked at each join, when nearly always no process is gone.
        if open.listed().all(|(id, _)| server.job(id).is_none_or(|job| job.gone == 0)) {
            return 0;
        }
        let gone = open.members(server).filter(|ProcId { job, rank }| {
            let job = server.job(*job).filter(|job| job.gone > 0);
            job.and_then(|job| job.member(*rank)).is_some_and(Member::is_gone)
        });
        let count = gone.filter(|member| !self.is_in(at, *member)).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// True if a rank with several connections has joined, which may be counted more than once.
    fn has_multiple_connections(&self, at: usize) -> bool {
        let all = (0..self.connections.end()).filter_map(|number| self.connections.get(number));
        { all }.filter(|connection| connection.state.in_collective(at).is_some()).any(
            |connection| {
                let peer = connection.state.peer;
                let rank_data = peer.and_then(|ProcId { job, rank }| {
                    namespace::get(&self.jobs, job)?.rank_data(rank)
                });
                rank_data.is_some_and(|rank_data| rank_data.connections > 1)
            },
        )
    }

    /// True if a process has joined.
    pub(super) fn is_in(&self, at: usize, member: ProcId) -> bool {
        let all = (0..self.connections.end()).filter_map(|number| self.connections.get(number));
        { all }.any(|Connection { state, .. }| {
            state.peer == Some(member) && state.in_collective(at).is_some()
        })
    }
}

impl<B: SharedBytes> OpenCollective<B> {
    pub(super) fn is(&self, purpose: CollectiveKind, name: Option<&[u8]>) -> bool {
        self.kind == purpose && self.name.as_ref().map(AsRef::as_ref) == name
    }

    /// Kind of the collective.
    pub(super) const fn kind(&self) -> CollectiveKind {
        self.kind
    }

    /// The participants one by one.
    pub(super) fn members<S: Storage>(&self, server: &Server<S>) -> impl Iterator<Item = ProcId> {
        self.listed().flat_map(|(id, rank)| {
            let ranks = match rank {
                WILDCARD => 0..server.job(id).map_or(0, Job::size),
                rank => rank..rank.saturating_add(1),
            };
            ranks.map(move |rank| ProcId { job: id, rank: Rank(rank) })
        })
    }

    /// True if a process participates.
    pub(super) fn has(&self, job: JobId, rank: Rank) -> bool {
        self.listed().any(|(of, ranks)| of == job && (ranks == rank.0 || ranks == WILDCARD))
    }

    /// True if a process is listed twice, so that the collective could never complete. All
    /// participants list the same.
    pub(super) fn names_twice(&self) -> bool {
        let meets = |(one, other): ((JobId, u32), (JobId, u32))| {
            one.0 == other.0 && (one.1 == other.1 || [one.1, other.1].contains(&WILDCARD))
        };
        // The list is mostly in order, where duplicates are neighbours.
        let next = || self.listed().zip(self.listed().skip(1));
        if next().all(|(one, other)| one < other) {
            return next().any(meets);
        }
        let mut all = self.listed().enumerate();
        all.any(|(at, one)| self.listed().take(at).any(|before| meets((before, one))))
    }

    /// Jobs and ranks, as they were listed.
    pub(super) fn listed(&self) -> impl Iterator<Item = (JobId, u32)> {
        pairs(self.participants.as_ref())
    }
}

/// Jobs and ranks in packed form.
pub(super) fn pairs(block: &[u8]) -> impl Iterator<Item = (JobId, u32)> + Clone {
    let (pairs, _) = block.as_chunks::<PROC_BYTES>();
    pairs.iter().map(|pair| {
        let [a, b, c, d, e, f, g, h] = *pair;
        (JobId(u32::from_be_bytes([a, b, c, d])), u32::from_be_bytes([e, f, g, h]))
    })
}

/// Packs a job and a rank.
pub(super) fn write_pair(place: &mut [u8; PROC_BYTES], (job, rank): (JobId, u32)) {
    *place = (u64::from(job.0) << 32 | u64::from(rank)).to_be_bytes();
}

/// Packed size of one process.
pub(super) const PROC_BYTES: usize = 8;
