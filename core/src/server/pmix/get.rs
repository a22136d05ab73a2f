//! What a process asks to know of another, or of a job: at once, or when it is there.

use super::block::{Block, copied, packed};
use super::connection::{Connection, Owed, Talk};
use super::info::{self, JobView};
use super::post::Post;
use super::state::Reach;
use super::{ConnectionId, Memory, Pmix};
use crate::ids::{JobId, Rank};
use crate::server::{Server, Storage};
use crate::storage::Slots;
use crate::time::{Duration, Instant};
use crate::wire::pmix::names::{Status, keys, scope};
use crate::wire::pmix::request::Get;
use crate::wire::pmix::{Format, Kval, List, Proc, Type, ranks};

/// Who wants to know, and how it is written.
#[derive(Clone, Copy)]
pub(super) struct Asker {
    job: JobId,
    rank: Rank,
    format: Format,
}

/// What is wanted of whom.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    job: JobId,
    rank: u32,
    key: Option<&'a [u8]>,
    /// Only what was put in this scope.
    scope: Option<u8>,
}

impl<P: Memory, S: Storage> Reach<'_, P, S> {
    /// Answers a get, or notes what it waits for.
    pub(super) fn get(
        &mut self,
        talk: &Talk<P::Block, P::Pendings>,
        (own, rank): (JobId, Rank),
        get: &Get<'_>,
    ) -> Owed<P::Block> {
        let not_found = Owed::Status(Status::NOT_FOUND);
        let Some(job) = info::named(self.jobs, self.server, get.nspace) else { return not_found };
        if let Some(owed) = self.find_brought(talk.format, job, get) {
            return owed;
        }
        if let Some(owed) = self.get_realm(talk, (own, rank), job, get) {
            return owed;
        }
        let scope = get.infos.find(keys::SCOPE).and_then(|value| value.number());
        let scope = scope.and_then(|scope| u8::try_from(scope).ok());
        let wanted = Wanted { job, rank: get.rank, key: get.key, scope };
        let asker = Asker { job: own, rank, format: talk.format };
        let is_late = get.infos.is_set(keys::IMMEDIATE) || get.infos.is_set(keys::GET_REFRESH);
        match find(self.jobs, self.server, asker, wanted) {
            Some(owed) => owed,
            None if is_late => not_found,
            None => {
                let key = match get.key.map(copied) {
                    Some(None) => return Owed::Status(Status::NOMEM),
                    Some(key) => key,
                    None => None,
                };
                let until = until(&get.infos, self.now, Some(GET_WITHIN));
                Owed::Get { job, rank: get.rank, key, scope, until }
            }
        }
    }
}

impl<P: Memory> Pmix<P> {
    /// A process has posted something: whoever waits for it may have it.
    pub(super) fn look_at_gets<S: Storage>(
        &mut self,
        (job, rank): (JobId, Rank),
        server: &Server<S>,
    ) {
        self.each_get(job, rank, |jobs, asker, wanted| find(jobs, server, asker, wanted));
    }

    /// A process is gone: whoever waits for it waits in vain.
    pub(super) fn give_up_gets(&mut self, job: JobId, rank: Rank) {
        self.each_get(job, rank, |_, _, wanted| {
            (wanted.rank == rank.0).then_some(Owed::Status(Status::NOT_FOUND))
        });
    }

    fn each_get(
        &mut self,
        job: JobId,
        rank: Rank,
        answer: impl Fn(&P::Jobs, Asker, Wanted<'_>) -> Option<Owed<P::Block>>,
    ) {
        for at in 0..self.connections.end() {
            let mut next = 0;
            // What is answered is no get any more, so that the next one is looked for behind it.
            while let Some((place, owed)) = self.connections.get(at).and_then(|connection| {
                let Connection { talk, .. } = connection;
                let (own, own_rank) = talk.peer?;
                let asker = Asker { job: own, rank: own_rank, format: talk.format };
                let mut pendings = talk.pendings().filter(|(place, _)| *place >= next);
                pendings.find_map(|(place, pending)| match &pending.owed {
                    Owed::Get { job: of, rank: wanted, key, scope, .. }
                        if *of == job && (*wanted == rank.0 || *wanted == ranks::UNDEF) =>
                    {
                        let key = key.as_ref().map(AsRef::as_ref);
                        let wanted = Wanted { job, rank: *wanted, key, scope: *scope };
                        Some((place, answer(&self.jobs, asker, wanted)?))
                    }
                    _ => None,
                })
            }) {
                next = place + 1;
                let id = ConnectionId(u32::try_from(at).unwrap_or(u32::MAX));
                self.settle(id, place, owed);
            }
        }
    }
}

/// The answer, if there is one now.
fn find<B, M, S>(
    jobs: &impl Slots<JobView<B, M>>,
    server: &Server<S>,
    asker: Asker,
    wanted: Wanted<'_>,
) -> Option<Owed<B>>
where
    B: Block,
    M: AsRef<[Post<B>]>,
    S: Storage,
{
    let not_found = Some(Owed::Status(Status::NOT_FOUND));
    let Some((view, job)) = info::view(jobs, wanted.job).zip(server.job(wanted.job)) else {
        return not_found;
    };
    let nspace = job.name().as_bytes();
    let reserved = wanted.key.filter(|key| keys::is_reserved(key));
    if wanted.rank == ranks::WILDCARD {
        let is_known = reserved.is_none_or(|key| view.find(wanted.rank, key).is_some());
        return Some(if is_known {
            let answer = packed(asker.format, |to| {
                to.one(Type::STATUS).i32(Status::SUCCESS.0);
                view.write_object(nspace, to);
            });
            body(answer)
        } else {
            Owed::Status(Status::NOT_FOUND)
        });
    }
    if let Some(key) = reserved {
        let known = (wanted.rank < job.size()).then(|| view.find(wanted.rank, key)).flatten();
        let Some(value) = known else { return not_found };
        let owner = Proc { nspace, rank: wanted.rank };
        // All that is known of the process, so that it is asked about once.
        let of_rank = view.of_rank(wanted.rank).filter(|kvals| kvals.clone().find(key).is_some());
        let answer = packed(asker.format, |to| {
            to.one(Type::STATUS).i32(Status::SUCCESS.0).one(Type::BYTE_OBJECT).nested(|to| {
                owner.write(to.one(Type::PROC));
                // Every value of a description is ours, so none is of an unknown type.
                match &of_rank {
                    Some(kvals) => kvals.clone().map_while(Result::ok).for_each(|kval| {
                        let _ = kval.write(to);
                    }),
                    None => {
                        let _ = Kval { key, value }.write(to);
                    }
                }
            });
        });
        return Some(body(answer));
    }
    let ranks = match wanted.rank {
        ranks::UNDEF => 0..job.size(),
        rank if rank < job.size() => rank..rank + 1,
        _ => return not_found,
    };
    let own_node = server.job(asker.job).and_then(|job| job.member(asker.rank)).map(|m| m.node);
    let mut is_hidden = false;
    for rank in ranks.map(Rank) {
        let (Some(post), Some(member)) = (view.post(rank), job.member(rank)) else { continue };
        let is_local = match wanted.scope {
            Some(scope::LOCAL) => true,
            Some(scope::REMOTE) => false,
            _ => Some(member.node) == own_node,
        };
        if let Some(posted) = post.seen(is_local).filter(|posted| posted.has(wanted.key)) {
            let owner = Proc { nspace, rank: rank.0 };
            let answer = match asker.job == wanted.job {
                true => posted.answer_in(asker.format, owner),
                // Whoever is of another job has to be told about the job as well.
                false => packed(asker.format, |to| {
                    to.one(Type::STATUS).i32(Status::SUCCESS.0);
                    view.write_object(nspace, to);
                    posted.write_object(owner, to);
                })
                .ok_or(Status::NOMEM),
            };
            return Some(answer.map_or_else(Owed::Status, Owed::Body));
        }
        let hidden = post.seen(!is_local).is_some_and(|posted| posted.has(wanted.key));
        is_hidden |= hidden && wanted.key.is_some();
        is_hidden |= wanted.rank == rank.0 && member.is_gone();
    }
    if is_hidden { not_found } else { None }
}

fn body<B>(answer: Option<B>) -> Owed<B> {
    answer.map_or(Owed::Status(Status::NOMEM), Owed::Body)
}

/// When nobody waits any more: after as many seconds as a directive says, where 0 means never.
pub(super) fn until(infos: &List<'_>, now: Instant, usual: Option<Duration>) -> Option<Instant> {
    let said = infos.find(keys::TIMEOUT).and_then(|value| value.number());
    match said {
        Some(seconds) if seconds > 0 => Some(now.plus(Duration::from_secs(seconds.unsigned_abs()))),
        Some(_) => None,
        None => usual.map(|usual| now.plus(usual)),
    }
}

/// How long a get waits when it says nothing about that.
const GET_WITHIN: Duration = Duration::from_secs(2);
