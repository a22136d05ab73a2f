//! Events: who wants to be told of what, what has happened, and who was told.
//!
//! What has happened is kept, the last of it, for those that want to know of it later. From there it is
//! also told to a connection that takes no more just now, as soon as it does. So what waits for
//! connections that read slowly, or never, is bounded by what is kept and by what one connection may
//! be owed at once; what is too old by then is not told any more.

use super::block::{Block, copied, packed};
use super::connection::{Connection, Owed, Pending, Stage, Talk};
use super::happening::{Happening, KEPT_MAX, News, affected, keep, kept};
use super::info;
use super::state::Reach;
use super::{ConnectionId, Memory, Pmix, ready_link};
use crate::ids::{JobId, Rank};
use crate::server::{Server, Storage};
use crate::storage::Slots;
use crate::wire::pmix::header::TAG_EVENT;
use crate::wire::pmix::names::{Status, keys, range};
use crate::wire::pmix::request::Codes;
use crate::wire::pmix::{Format, List, Packer, WILDCARD};

/// What a connection wants to be told of, and what of it it was told.
#[derive(Debug)]
pub(super) struct Ear {
    interests: heapless::Vec<Interest, INTERESTS_MAX>,
    /// By place: it was told, or it is none of its business.
    told: [u64; KEPT_MAX.div_ceil(u64::BITS as usize)],
    /// There is more to tell than it takes just now.
    pub(super) is_behind: bool,
}

/// One code that a connection wants to be told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Interest {
    /// Any, if there is none.
    code: Option<i32>,
    /// Only when it affects this process, or all of this job.
    about: Option<(JobId, u32)>,
}

impl<P: Memory, S: Storage> Reach<'_, P, S> {
    /// A client wants to be told of these codes; of all, if there are none.
    pub(super) fn register(
        &mut self,
        talk: &mut Talk<P::Block, P::Pendings>,
        codes: &List<'_>,
        infos: &List<'_>,
    ) -> Status {
        let mut fresh: heapless::Vec<Interest, INTERESTS_MAX> = heapless::Vec::new();
        let all = codes.is_empty().then_some(None);
        for code in all.into_iter().chain(codes.codes().map(Some)) {
            let mut abouts = affected(infos).map(|proc| {
                // Nobody is told about jobs that there are not, and ids of jobs are smaller.
                let job = info::named(self.jobs, self.server, proc.nspace);
                Some((job.unwrap_or(JobId(u32::MAX)), proc.rank))
            });
            let first = abouts.next().unwrap_or(None);
            for about in core::iter::once(first).chain(abouts) {
                let interest = Interest { code, about };
                let is_known = talk.ear.interests.contains(&interest) || fresh.contains(&interest);
                let room = INTERESTS_MAX - talk.ear.interests.len();
                if !is_known && (fresh.len() >= room || fresh.push(interest).is_err()) {
                    return Status::OUT_OF_RESOURCE;
                }
            }
        }
        // What it has not wanted to know until now it may not be told of later.
        for at in 0..self.events.end() {
            let Some(event) = self.events.get(at) else { continue };
            let is_late = !talk.wants(event, self.server);
            if is_late && !event.reaches(event.later, talk.peer, self.server) {
                talk.ear.set_told(at, true);
            }
        }
        // There is room for all of them.
        let _ = talk.ear.interests.extend_from_slice(&fresh);
        Status::SUCCESS
    }

    /// A client says that something has happened. Gives where it is kept.
    pub(super) fn notify(
        &mut self,
        format: Format,
        (job, rank): (JobId, Rank),
        (code, range): (i32, u8),
        infos: &List<'_>,
    ) -> Result<usize, Status> {
        let has_targets = infos.find(keys::EVENT_CUSTOM_RANGE).is_some();
        if (range == range::CUSTOM) != has_targets {
            return Err(Status::BAD_PARAM);
        }
        if infos.bytes.len() > EVENT_BYTES_MAX {
            return Err(Status::OUT_OF_RESOURCE);
        }
        let name = self.server.job(job).map(|job| job.name().clone()).ok_or(Status::NOT_FOUND)?;
        let kept = copied(name.as_bytes()).zip(copied(infos.bytes));
        let (nspace, bytes) = kept.ok_or(Status::NOMEM)?;
        let happening = Happening {
            code,
            nspace,
            rank: rank.0,
            source: Some((job, rank)),
            range,
            later: (!infos.is_set(keys::EVENT_DO_NOT_CACHE)).then_some(range),
            is_special: infos.is_set(keys::EVENT_NON_DEFAULT),
            infos: bytes,
            count: infos.count,
            format,
            serial: 0,
        };
        keep::<P>(self.events, happening).ok_or(Status::OUT_OF_RESOURCE)
    }
}

impl<P: Memory> Pmix<P> {
    /// Tells clients of something that the owner knows. `write` packs the infos, each as it stands
    /// inside other values.
    pub fn tell<S: Storage>(
        &mut self,
        news: &News<'_>,
        server: &Server<S>,
        write: impl Fn(&mut Packer<'_>),
    ) {
        if let Some(at) = kept::<P, S>(&mut self.events, &self.jobs, server, news, write) {
            self.spread(at, None, server);
        }
    }

    /// Tells everybody of something that has just happened who wants to know of it, but for the one
    /// who has said so.
    pub(super) fn spread<S: Storage>(
        &mut self,
        at: usize,
        from: Option<ConnectionId>,
        server: &Server<S>,
    ) {
        let Some(event) = self.events.get(at) else { return };
        let mut made = heapless::Vec::new();
        let mut is_waited_for = false;
        for number in 0..self.connections.end() {
            let Some(Connection { talk, .. }) = self.connections.get_mut(number) else { continue };
            let id = u32::try_from(number).unwrap_or(u32::MAX);
            let is_own = from.is_some_and(|from| from.0 == id);
            let is_for_it = !is_own && talk.wants(event, server);
            talk.ear.set_told(at, is_own || (event.later.is_none() && !is_for_it));
            if !is_for_it {
                continue;
            }
            if talk.ear.is_behind || !talk.tell(at, event, &mut made) {
                talk.ear.is_behind = true;
                is_waited_for = true;
            } else {
                self.ready.push(&mut self.connections, id, ready_link::<P>);
            }
        }
        if event.later.is_none() && !is_waited_for {
            self.events.remove(at);
        }
    }

    /// Tells a connection what it wants to know and was not told, as far as it takes it.
    pub(super) fn catch_up<S: Storage>(&mut self, id: ConnectionId, server: &Server<S>) {
        let Some(Connection { talk, .. }) = self.connections.get_mut(id.0 as usize) else { return };
        let mut is_told_any = false;
        talk.ear.is_behind = loop {
            let kept = (0..self.events.end()).filter_map(|at| Some((at, self.events.get(at)?)));
            let mut untold =
                kept.filter(|(at, event)| !talk.ear.is_told(*at) && talk.wants(event, server));
            let first = untold.next();
            let next = untold.fold(first, |oldest, other| {
                oldest.map(|oldest| if other.1.serial < oldest.1.serial { other } else { oldest })
            });
            match next {
                None => break false,
                Some((at, event)) if talk.tell(at, event, &mut heapless::Vec::new()) => {
                    is_told_any = true;
                }
                Some(_) => break true,
            }
        };
        if is_told_any {
            self.ready.push(&mut self.connections, id.0, ready_link::<P>);
        }
    }

    /// Forgets what processes of a job have said, and who wants to know of them.
    pub(super) fn forget_events(&mut self, job: JobId) {
        for at in 0..self.events.end() {
            let is_its = |event: &Happening<_>| event.source.is_some_and(|(of, _)| of == job);
            if self.events.get(at).is_some_and(is_its) {
                self.events.remove(at);
            }
        }
        for number in 0..self.connections.end() {
            if let Some(Connection { talk, .. }) = self.connections.get_mut(number) {
                let is_about =
                    |interest: &Interest| interest.about.is_some_and(|(of, _)| of == job);
                talk.ear.interests.retain(|interest| !is_about(interest));
            }
        }
    }
}

impl<B: Block, X: Slots<Pending<B>>> Talk<B, X> {
    /// Whether it is to be told of this.
    fn wants<S: Storage>(&self, event: &Happening<B>, server: &Server<S>) -> bool {
        self.stage == Stage::Open
            && self.ear.interests.iter().any(|interest| interest.is_in(event, server))
            && event.reaches(Some(event.range), self.peer, server)
    }

    /// Tells it of what is kept `at` a place, if it takes more. What was `made` for others serves it too.
    fn tell(
        &mut self,
        at: usize,
        event: &Happening<B>,
        made: &mut heapless::Vec<(Format, B), FORMATS>,
    ) -> bool {
        let owed = self.pendings().count();
        let news = self.pendings().filter(|(_, pending)| pending.tag == TAG_EVENT).count();
        // A place is left for the answer to a request.
        if news >= TOLD_AT_ONCE || owed + 1 >= self.pendings.capacity() {
            return false;
        }
        self.ear.set_told(at, true);
        let known = made.iter().find(|(format, _)| *format == self.format);
        let body = match known {
            Some((_, body)) => Some(body.clone()),
            None => packed(self.format, |to| event.write(to)),
        };
        // With no memory left for it, it is not told.
        if let Some(body) = body {
            let _ = made.push((self.format, body.clone()));
            self.owe(TAG_EVENT, Owed::Body(body));
        }
        true
    }
}

impl Ear {
    pub(super) const fn new() -> Self {
        let told = [0; KEPT_MAX.div_ceil(u64::BITS as usize)];
        Self { interests: heapless::Vec::new(), told, is_behind: false }
    }

    /// Takes note of what the client wants to be told of no more.
    pub(super) fn deregister(&mut self, codes: Codes<'_>) {
        for code in codes {
            let code = (code != DEFAULT_HANDLER).then_some(code);
            self.interests.retain(|interest| interest.code != code);
        }
    }

    fn is_told(&self, at: usize) -> bool {
        let (word, bit) = place(at);
        self.told.get(word).is_none_or(|word| word & bit != 0)
    }

    fn set_told(&mut self, at: usize, is_told: bool) {
        let (word, bit) = place(at);
        if let Some(word) = self.told.get_mut(word) {
            *word = if is_told { *word | bit } else { *word & !bit };
        }
    }
}

impl Interest {
    fn is_in<B: Block, S: Storage>(&self, event: &Happening<B>, server: &Server<S>) -> bool {
        let is_code = match self.code {
            Some(code) => code == event.code,
            None => !event.is_special,
        };
        let is_about = |(job, rank): (JobId, u32)| {
            let list = event.list();
            let mut procs = affected(&list).peekable();
            // Where nothing is said about whom it affects, clients look for themselves.
            procs.peek().is_none()
                || procs.any(|proc| {
                    let name = server.job(job).map(|job| job.name().as_bytes());
                    let is_all = [rank, proc.rank].contains(&WILDCARD);
                    name == Some(proc.nspace) && (is_all || rank == proc.rank)
                })
        };
        is_code && self.about.is_none_or(is_about)
    }
}

const fn place(at: usize) -> (usize, u64) {
    (at / u64::BITS as usize, 1 << (at % u64::BITS as usize))
}

/// The code that stands for the handler of all codes.
const DEFAULT_HANDLER: i32 = i32::MIN;

/// How many codes one peer may register, counted for each process that it restricts them to.
const INTERESTS_MAX: usize = 64;

/// How long what stands in one event may be. All that is known is far shorter.
const EVENT_BYTES_MAX: usize = 64 << 10;

/// How many events one connection is owed at once. The rest waits where it is kept.
const TOLD_AT_ONCE: usize = 8;

/// Two families, described or not.
const FORMATS: usize = 4;
