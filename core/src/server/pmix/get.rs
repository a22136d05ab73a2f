//! Gets: data of a process or of a job, answered at once or when it is committed.

use super::context::PmixServer;
use super::namespace::Namespace;
use super::procs::ListedProc;
use super::rank_data::{ModexBlob, RankData};
use super::session::PmixResponse;
use super::shared_bytes::{SharedBytes, copy_bytes, pack};
use super::tables::{BytesOf, PmixSessionStateOf, PmixShared, PmixStorage};
use crate::ids::{JobId, ProcId, Rank};
use crate::server::Storage;
use crate::server::shared::Shared;
use crate::time::Duration;
use crate::wire::pmix::names::{Status, flags, keys, scope};
use crate::wire::pmix::request::Get;
use crate::wire::pmix::{Format, Proc, Type, ranks};

/// Process that sends a get, and its wire format.
#[derive(Clone, Copy)]
pub(super) struct Requester {
    peer: ProcId,
    format: Format,
}

/// Gets that still wait after a search.
#[derive(Clone, Copy, Default)]
pub(super) struct WaitingGets {
    /// True if one waits for data of a certain rank.
    for_rank: bool,
    /// True if one waits for data of any rank.
    for_any: bool,
}

/// Data that a get asks for.
#[derive(Clone, Copy)]
pub(super) struct GetTarget<'a> {
    job: JobId,
    rank: u32,
    pub(super) key: Option<&'a [u8]>,
    /// Only what was put in this scope.
    scope: Option<u8>,
}

impl<S: Storage> Shared<S> {
    /// Marks the process that a response waits for, if it is that of a waiting get.
    pub(super) fn mark_awaited(&mut self, response: &PmixResponse<BytesOf<S>>) {
        if let PmixResponse::Get { job, rank, .. } = response {
            self.pmix.set_awaited(*job, *rank);
        }
    }
}

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixServer<'_, P, S> {
    /// Answers the gets that wait for data which a process has committed.
    pub(super) fn answer_gets(&mut self, proc: ProcId) {
        self.each_get(proc, |shared, requester, target| shared.find(requester, target));
    }

    /// Fails the gets that wait for a process that is gone.
    pub(super) fn fail_gets(&mut self, gone: ProcId) {
        self.each_get(gone, |_, _, target| {
            (target.rank == gone.rank.0).then_some(PmixResponse::Status(Status::NOT_FOUND))
        });
    }

    fn each_get(
        &mut self,
        proc: ProcId,
        answer: impl Fn(&Shared<S>, Requester, GetTarget<'_>) -> Option<PmixResponse<P::Bytes>>,
    ) {
        if !self.shared.pmix.take_awaited(proc) {
            return;
        }
        let is_its = |rank: u32| rank == proc.rank.0 || rank == ranks::UNDEF;
        let waiting = self.answer_each_get(proc.job, is_its, answer);
        if waiting.for_rank {
            self.shared.pmix.set_awaited(proc.job, proc.rank.0);
        }
        if waiting.for_any {
            self.shared.pmix.set_awaited(proc.job, ranks::UNDEF);
        }
    }

    /// Answers the gets that wait for data which ranks on other nodes have committed.
    pub(super) fn answer_remote_gets(&mut self, job: JobId) {
        let Some(namespace) = self.shared.pmix.namespace_mut(job) else { return };
        let of_remote = core::mem::take(&mut namespace.is_remote_awaited);
        let of_any = core::mem::take(&mut namespace.is_awaited);
        if !of_remote && !of_any {
            return;
        }
        // Gets that wait for ranks here are left as they are: each such rank has its own mark.
        let waiting = self.answer_each_get(
            job,
            |_| true,
            |shared, requester, target| {
                let is_any = target.rank == ranks::UNDEF;
                let is_remote = is_any || shared.has_remote(ListedProc { job, rank: target.rank });
                if is_remote { shared.find(requester, target) } else { None }
            },
        );
        if let Some(namespace) = self.shared.pmix.namespace_mut(job) {
            (namespace.is_remote_awaited, namespace.is_awaited) =
                (waiting.for_rank, waiting.for_any);
        }
    }

    /// Answers the gets that wait for data of these ranks of a job, as far as `answer` has one.
    pub(super) fn answer_each_get(
        &mut self,
        job: JobId,
        is_its: impl Fn(u32) -> bool,
        answer: impl Fn(&Shared<S>, Requester, GetTarget<'_>) -> Option<PmixResponse<P::Bytes>>,
    ) -> WaitingGets {
        let shared = &*self.shared;
        let mut waiting = WaitingGets::default();
        // In the order of connections, which is that of their output.
        for id in self.sessions.pmix_ids() {
            let mut next = 0;
            // An answered get is no longer pending, so the search continues behind it.
            while let Some((place, response)) = self.sessions.state(id).and_then(|state| {
                let requester =
                    Requester { peer: state.protocol.peer?, format: state.protocol.format };
                let mut pendings = state.pending_requests().filter(|(place, _)| *place >= next);
                pendings.find_map(|(place, pending)| match &pending.response {
                    PmixResponse::Get { job: of, rank, key, scope, .. }
                        if *of == job && is_its(*rank) =>
                    {
                        let key = key.as_ref().map(AsRef::as_ref);
                        let target = GetTarget { job, rank: *rank, key, scope: *scope };
                        let response = answer(shared, requester, target);
                        match (&response, *rank) {
                            (None, ranks::UNDEF) => waiting.for_any = true,
                            (None, _) => waiting.for_rank = true,
                            (Some(_), _) => {}
                        }
                        Some((place, response?))
                    }
                    _ => None,
                })
            }) {
                next = place + 1;
                self.sessions.resolve(id, place, response);
            }
        }
        waiting
    }
}

impl<P: PmixStorage> PmixShared<P> {
    /// Marks the process whose data a get waits for, so that other commits look for no gets.
    fn set_awaited(&mut self, job: JobId, rank: u32) {
        if rank == ranks::UNDEF {
            if let Some(namespace) = self.namespace_mut(job) {
                namespace.is_awaited = true;
            }
        } else if let Some(data) = self.rank_data_mut(ProcId { job, rank: Rank(rank) }) {
            data.is_awaited = true;
        } else if let Some(namespace) = self.namespace_mut(job) {
            // A get waits for processes that exist, so this one is on another node.
            namespace.is_remote_awaited = true;
        }
    }

    /// Removes the marks of a process; true if there was one.
    fn take_awaited(&mut self, proc: ProcId) -> bool {
        let of_rank = self.rank_data_mut(proc).map(|data| &mut data.is_awaited);
        let of_rank = of_rank.is_some_and(core::mem::take);
        let of_any = self.namespace_mut(proc.job).map(|namespace| &mut namespace.is_awaited);
        of_any.is_some_and(core::mem::take) || of_rank
    }
}

impl<S: Storage> Shared<S> {
    /// Answers a get, or keeps it pending until its data is committed.
    pub(super) fn get(
        &self,
        state: &PmixSessionStateOf<S::Pmix>,
        peer: ProcId,
        get: &Get<'_>,
    ) -> PmixResponse<BytesOf<S>> {
        let not_found = PmixResponse::Status(Status::NOT_FOUND);
        let Some(job) = self.named(get.nspace) else {
            return self.get_foreign(state, peer, get);
        };
        if let Some(response) = self.find_contributed(state.protocol.format, job, get) {
            return response;
        }
        if let Some(response) = self.get_realm(state, peer, self.pmix.namespace(job), get) {
            return response;
        }
        let scope = get.infos.find(keys::SCOPE).and_then(|value| value.number());
        let scope = scope.and_then(|scope| u8::try_from(scope).ok());
        let target = GetTarget { job, rank: get.rank, key: get.key, scope };
        let requester = Requester { peer, format: state.protocol.format };
        let is_late = get.infos.is_set(keys::IMMEDIATE) || get.infos.is_set(keys::GET_REFRESH);
        match self.find(requester, target) {
            Some(response) => response,
            None if is_late => not_found,
            None => {
                let key = match get.key.map(copy_bytes) {
                    Some(None) => return PmixResponse::Status(Status::NOMEM),
                    Some(key) => key,
                    None => None,
                };
                let is_remote = self.job(job).is_some_and(|job| job.is_remote(Rank(get.rank)));
                let within = if is_remote { FETCH_WITHIN } else { GET_WITHIN };
                let deadline = self.deadline(&get.infos, Some(within));
                PmixResponse::Get { job, rank: get.rank, key, scope, deadline }
            }
        }
    }

    /// Answers a get from present data; `None` if the get has to wait.
    fn find(
        &self,
        requester: Requester,
        target: GetTarget<'_>,
    ) -> Option<PmixResponse<BytesOf<S>>> {
        let not_found = Some(PmixResponse::Status(Status::NOT_FOUND));
        let Some((namespace, job)) = self.pmix.namespace(target.job).zip(self.job(target.job))
        else {
            return not_found;
        };
        let nspace = job.name().as_bytes();
        // Only a requester of another job needs the job description beside committed data.
        let others = self.pmix.namespace(target.job).filter(|_| requester.peer.job != target.job);
        let reserved = target.key.filter(|key| keys::is_reserved(key));
        if target.rank == ranks::WILDCARD {
            return Some(namespace.answer_job(requester.format, nspace, reserved));
        }
        if let Some(key) = reserved {
            if !job.ranks().contains(&target.rank) {
                return not_found;
            }
            return Some(namespace.answer_rank(
                requester.format,
                Proc { nspace, rank: target.rank },
                key,
            ));
        }
        let ranks = match target.rank {
            ranks::UNDEF => job.ranks(),
            rank if job.ranks().contains(&rank) => rank..rank + 1,
            _ => return not_found,
        };
        let own_node = self.node(requester.peer);
        let mut is_hidden = false;
        for rank in ranks.map(Rank) {
            let owner = Proc { nspace, rank: rank.0 };
            let (Some(rank_data), Some(member)) = (namespace.rank_data(rank), job.member(rank))
            else {
                let blob = namespace.remote.find(rank).filter(|blob| blob.has(target.key));
                match blob {
                    Some(_) if target.scope == Some(scope::LOCAL) => is_hidden = true,
                    Some(blob) => {
                        let share = |bytes: &&[u8]| copy_bytes(bytes);
                        return Some(requester.answer_modex(others, owner, &blob, share));
                    }
                    None => {}
                }
                continue;
            };
            let is_local = match target.scope {
                Some(scope::LOCAL) => true,
                Some(scope::REMOTE) => false,
                _ => Some(member.node) == own_node,
            };
            if let Some(blob) = rank_data.seen(is_local).filter(|blob| blob.has(target.key)) {
                let share = |bytes: &BytesOf<S>| Some(bytes.clone());
                return Some(requester.answer_modex(others, owner, blob, share));
            }
            let hidden = rank_data.seen(!is_local).is_some_and(|blob| blob.has(target.key));
            is_hidden |= hidden && target.key.is_some();
            is_hidden |= target.rank == rank.0 && member.is_gone();
        }
        if is_hidden { not_found } else { None }
    }
}

impl<S: Storage> Shared<S> {
    /// Finds group contributions of a process for a get; a qualifier of the get restricts them to
    /// one group. `None` if there are none.
    pub(super) fn find_contributed(
        &self,
        format: Format,
        job: JobId,
        get: &Get<'_>,
    ) -> Option<PmixResponse<BytesOf<S>>> {
        let (namespace, rank) = (self.pmix.namespace(job)?, Rank(get.rank));
        let key = get.key?;
        let target = get.infos.infos().find(|info| info.flags & flags::QUALIFIER != 0);
        let found = || {
            let local = namespace.rank_data(rank).map(|data| data.contributed(key));
            let all = local.into_iter().flatten().chain(namespace.remote.contributed(rank, key));
            all.filter(|kval| {
                target.is_none_or(|target| {
                    let own = kval.value.array().and_then(|array| array.find(target.key));
                    let number = own.and_then(|value| value.number());
                    number.is_some() && number == target.value.number()
                })
            })
        };
        found().next()?;
        let owner = Proc { nspace: self.job(job)?.name().as_bytes(), rank: get.rank };
        let answer = pack(format, |to| {
            to.one(Type::STATUS).i32(Status::SUCCESS.0).one(Type::BYTE_OBJECT).nested(|to| {
                owner.write(to.one(Type::PROC));
                for kval in found() {
                    // The server packed it itself, so writing succeeds.
                    let _ = kval.write(to);
                }
            });
        });
        Some(PmixResponse::body(answer))
    }
}

impl Requester {
    pub(super) const fn new(peer: ProcId, format: Format) -> Self {
        Self { peer, format }
    }

    /// The answer with committed data of a process, and with the description of its job, if that is given.
    pub(super) fn answer_modex<B: AsRef<[u8]>, A: SharedBytes, M: AsRef<[RankData<A>]>>(
        self,
        namespace: Option<&Namespace<A, M>>,
        owner: Proc<'_>,
        blob: &ModexBlob<B>,
        share: impl Fn(&B) -> Option<A>,
    ) -> PmixResponse<A> {
        let answer = match namespace {
            None => blob.answer_in(self.format, owner, share),
            Some(namespace) => pack(self.format, |to| {
                to.one(Type::STATUS).i32(Status::SUCCESS.0);
                namespace.write_object(owner.nspace, false, to);
                blob.write_object(owner, to);
            })
            .ok_or(Status::NOMEM),
        };
        answer.map_or_else(PmixResponse::Status, PmixResponse::Body)
    }
}

/// Timeout of gets without a timeout directive.
const GET_WITHIN: Duration = Duration::from_secs(2);

/// The same for data of another node, which may have to be fetched over a network that is busy.
const FETCH_WITHIN: Duration = Duration::from_secs(20);
