//! Published data: its access range and persistence.
//!
//! A published text is a name of the server as well, so that PMI-1 and PMI-2 clients find it, and
//! their names are found here as texts. A name that a PMI client unpublishes is unpublished here
//! too.

use super::connection::{Connection, PmixResponse};
use super::get::deadline;
use super::shared_bytes::{SharedBytes, copy_bytes, pack};
use super::state::PmixContext;
use super::storage::{ConnStateOf, NamesOf};
use super::{ConnectionId, Pmix, PmixStorage};
use crate::ids::{JobId, Key, ProcId, Rank};
use crate::limits::VALUE_BYTES;
use crate::server::{Server, Storage};
use crate::storage::Slots;
use crate::store::{EntryId, Keyspace, Kvs, Visibility};
use crate::wire::pmix::names::{Status, keys, persistence, range};
use crate::wire::pmix::request::Names;
use crate::wire::pmix::{Format, List, Packer, Proc, Request, Type, Unpacker, Value};

/// A published value.
#[derive(Clone, Debug)]
pub struct PublishedValue<B> {
    key: B,
    of: Type,
    /// The value without its type, as its publisher writes.
    value: B,
    format: Format,
    /// The name space of its publisher, which may be gone when the data is not.
    nspace: B,
    owner: ProcId,
    range: u8,
    persistence: u8,
    /// True if it is a name of the server as well.
    is_name: bool,
}

/// Process that sends a lookup, and its wire format.
#[derive(Clone, Copy)]
struct LookupRequester {
    job: JobId,
    rank: Rank,
    format: Format,
}

impl<P: PmixStorage, S: Storage> PmixContext<'_, P, S> {
    /// Publishes all of a request, or nothing.
    pub(super) fn publish(
        &mut self,
        state: &ConnStateOf<P>,
        owner: ProcId,
        user: u32,
        infos: &List<'_>,
    ) -> Status {
        if state.user.is_some_and(|claimed| claimed != user) {
            return Status::NO_PERMISSIONS;
        }
        let Some(name) = self.server.job(owner.job).map(|job| job.name().clone()) else {
            return Status::NOT_FOUND;
        };
        let range = directive(infos, keys::RANGE).unwrap_or(range::SESSION);
        let persistence = directive(infos, keys::PERSIST).unwrap_or(persistence::APP);
        let data = || infos.infos().filter(|info| !DIRECTIVES.contains(&info.key));
        self.remove_unpublished();
        for info in data() {
            let is_here =
                self.published().any(|(_, own)| own.key.as_ref() == info.key && own.range == range);
            if is_here || self.server.names.find(Keyspace::Names, info.key).is_some() {
                return Status::DUPLICATE_KEY;
            }
        }
        let free = self.names.capacity().saturating_sub(self.published().count());
        if data().count() > free {
            return Status::OUT_OF_RESOURCE;
        }
        for info in data() {
            let parts =
                (copy_bytes(info.key), copy_bytes(info.value.bytes), copy_bytes(name.as_bytes()));
            let (Some(key), Some(value), Some(nspace)) = parts else { return Status::NOMEM };
            let is_name =
                is_for_all(range) && publish_name(self.server, info.key, &info.value, owner);
            let published = PublishedValue {
                key,
                of: info.value.of,
                value,
                format: state.format,
                nspace,
                owner,
                range,
                persistence,
                is_name,
            };
            if self.names.insert(published).is_none() {
                return Status::OUT_OF_RESOURCE;
            }
        }
        Status::SUCCESS
    }

    /// Answers a lookup, or keeps it pending until enough is published.
    pub(super) fn look_up(
        &mut self,
        state: &ConnStateOf<P>,
        ProcId { job, rank }: ProcId,
        body: &[u8],
        target: &Names<'_>,
    ) -> PmixResponse<P::Bytes> {
        let requester = LookupRequester { job, rank, format: state.format };
        match find::<P, S>(self.names, self.server, requester, target) {
            Some(response) => response,
            None => match copy_bytes(body) {
                Some(body) => {
                    PmixResponse::Lookup { body, deadline: deadline(&target.infos, self.now, None) }
                }
                None => PmixResponse::Status(Status::NOMEM),
            },
        }
    }

    /// Unpublishes data of the requesting process.
    pub(super) fn unpublish(&mut self, owner: ProcId, target: &Names<'_>) -> Status {
        let range = directive(&target.infos, keys::RANGE);
        let persistence = directive(&target.infos, keys::PERSIST);
        for at in 0..self.names.end() {
            let is_meant = self.names.get(at).is_some_and(|own| {
                let mut keys = target.keys();
                own.owner == owner
                    && (target.count == 0 || keys.any(|key| key == own.key.as_ref()))
                    && range.is_none_or(|range| range == own.range)
                    && persistence.is_none_or(|persistence| persistence == own.persistence)
            });
            if is_meant {
                remove(self.names, self.server, at);
            }
        }
        Status::SUCCESS
    }

    /// Removes data that PMI clients have unpublished as names.
    fn remove_unpublished(&mut self) {
        for at in 0..self.names.end() {
            if self.names.get(at).is_some_and(|own| own.is_name && own.name(self.server).is_none())
            {
                self.names.remove(at);
            }
        }
    }

    fn published(&self) -> impl Iterator<Item = (usize, &PublishedValue<P::Bytes>)> {
        (0..self.names.end()).filter_map(|at| Some((at, self.names.get(at)?)))
    }
}

impl<P: PmixStorage> Pmix<P> {
    /// Answers the pending lookups that published data now satisfies.
    pub(super) fn answer_lookups<S: Storage>(&mut self, server: &mut Server<S>) {
        for at in 0..self.connections.end() {
            let id = ConnectionId(u32::try_from(at).unwrap_or(u32::MAX));
            let mut next = 0;
            while let Some((place, body, requester)) = self.waiting_lookup(id, next) {
                next = place + 1;
                let request = Request::read(Unpacker::new(body.as_ref(), requester.format));
                let Ok(Request::Lookup(target)) = request else { continue };
                if let Some(response) = find::<P, S>(&mut self.names, server, requester, &target) {
                    self.resolve(id, place, response);
                }
            }
        }
    }

    /// Removes data that does not outlive a terminated process, or a removed job.
    pub(super) fn remove_published<S: Storage>(
        &mut self,
        job: JobId,
        rank: Option<Rank>,
        server: &mut Server<S>,
    ) {
        for at in 0..self.names.end() {
            let has_gone = self.names.get(at).is_some_and(|own| match rank {
                Some(rank) => {
                    own.owner == ProcId { job, rank } && own.persistence == persistence::PROC
                }
                None => own.owner.job == job && !OUTLIVES_JOB.contains(&own.persistence),
            });
            if has_gone {
                remove(&mut self.names, server, at);
            }
        }
    }

    fn waiting_lookup(
        &self,
        id: ConnectionId,
        from: usize,
    ) -> Option<(usize, P::Bytes, LookupRequester)> {
        let Connection { state, .. } = self.connections.get(id.0 as usize)?;
        let ProcId { job, rank } = state.peer?;
        let requester = LookupRequester { job, rank, format: state.format };
        let mut later = state.pending_requests().filter(|(place, _)| *place >= from);
        later.find_map(|(place, pending)| match &pending.response {
            PmixResponse::Lookup { body, .. } => Some((place, body.clone(), requester)),
            _ => None,
        })
    }
}

/// Place of published data.
#[derive(Clone, Copy)]
enum FoundName {
    Published(usize),
    /// Published by a PMI client.
    Name(EntryId),
}

/// Answers a lookup if enough is found, and removes data that is read once.
fn find<P: PmixStorage, S: Storage>(
    names: &mut NamesOf<P>,
    server: &mut Server<S>,
    requester: LookupRequester,
    target: &Names<'_>,
) -> Option<PmixResponse<P::Bytes>> {
    let found =
        || target.keys().filter_map(|key| Some((key, known(names, server, requester, key)?)));
    let count = u32::try_from(found().count()).unwrap_or(u32::MAX);
    let needed = target.infos.find(keys::WAIT).and_then(|wait| match (wait.of, wait.number()) {
        (Type::BOOL, _) => wait.is_true().then_some(target.count),
        (_, Some(number)) if number > 0 => u32::try_from(number).ok(),
        _ => Some(target.count),
    });
    if needed.is_some_and(|needed| count < needed) {
        return None;
    }
    let status = match count {
        0 => return Some(PmixResponse::Status(Status::NOT_FOUND)),
        count if count < target.count => Status::PARTIAL_SUCCESS,
        _ => Status::SUCCESS,
    };
    let answer = pack(requester.format, |to| {
        to.one(Type::STATUS).i32(status.0).one(Type::SIZE).size(u64::from(count));
        to.op(Type::PDATA, count);
        found().for_each(|(key, known)| write(names, server, (key, known), to));
    });
    for key in target.keys() {
        if let Some(FoundName::Published(at)) = known(names, server, requester, key)
            && names.get(at).is_some_and(|own| own.persistence == persistence::FIRST_READ)
        {
            remove(names, server, at);
        }
    }
    Some(answer.map_or(PmixResponse::Status(Status::NOMEM), PmixResponse::Body))
}

/// Place of a key that the requester may read.
fn known<B: SharedBytes, S: Storage>(
    names: &impl Slots<PublishedValue<B>>,
    server: &Server<S>,
    requester: LookupRequester,
    key: &[u8],
) -> Option<FoundName> {
    let is_name = || server.names.find(Keyspace::Names, key);
    let mut own = (0..names.end()).filter_map(|at| Some((at, names.get(at)?)));
    let own = own.find(|(_, own)| {
        own.key.as_ref() == key
            && is_in_range(own, requester, server)
            && (!own.is_name || own.name(server).is_some())
    });
    own.map(|(at, _)| FoundName::Published(at)).or_else(|| is_name().map(FoundName::Name))
}

fn is_in_range<B, S: Storage>(
    own: &PublishedValue<B>,
    requester: LookupRequester,
    server: &Server<S>,
) -> bool {
    let node = |ProcId { job, rank }: ProcId| Some(server.job(job)?.member(rank)?.node);
    match own.range {
        range::RM => false,
        range::LOCAL => {
            node(own.owner) == node(ProcId { job: requester.job, rank: requester.rank })
        }
        // No processes are named for `CUSTOM`.
        range::NAMESPACE | range::CUSTOM => own.owner.job == requester.job,
        range::PROC_LOCAL => own.owner == ProcId { job: requester.job, rank: requester.rank },
        _ => true,
    }
}

fn write<B: SharedBytes, S: Storage>(
    names: &impl Slots<PublishedValue<B>>,
    server: &Server<S>,
    (key, known): (&[u8], FoundName),
    to: &mut Packer<'_>,
) {
    match known {
        FoundName::Published(at) => {
            let Some(own) = names.get(at) else { return };
            Proc { nspace: own.nspace.as_ref(), rank: own.owner.rank.0 }.write(to);
            let value = Value { of: own.of, bytes: own.value.as_ref(), format: own.format };
            to.text(Some(key)).of(own.of);
            // It was read as such a value when it was published.
            let _ = value.write(to);
        }
        FoundName::Name(id) => {
            let Some(entry) = server.names.entry(id) else { return };
            let job = server.job(JobId(entry.visibility.fence));
            let nspace = job.map_or(&b""[..], |job| job.name().as_bytes());
            Proc { nspace, rank: entry.visibility.writer.0 }.write(to);
            to.text(Some(key)).of(Type::STRING).text(Some(entry.value));
        }
    }
}

/// Publishes a text as a name of the server, if its key and length allow.
fn publish_name<S: Storage>(
    server: &mut Server<S>,
    key: &[u8],
    value: &Value<'_>,
    ProcId { job, rank: by }: ProcId,
) -> bool {
    let text = value.text().filter(|text| text.len() <= VALUE_BYTES);
    let Some(text) = text.filter(|_| Key::check(key).is_ok()) else { return false };
    // The epoch of a name is the job that published it, so that it can go with its job.
    server.names.put(Keyspace::Names, key, text, Visibility { writer: by, fence: job.0 }).is_ok()
}

fn remove<B: SharedBytes, S: Storage>(
    names: &mut impl Slots<PublishedValue<B>>,
    server: &mut Server<S>,
    at: usize,
) {
    let name = names.remove(at).filter(|own| own.is_name).and_then(|own| own.name(server));
    if let Some(id) = name {
        server.names.remove(id);
    }
}

impl<B: SharedBytes> PublishedValue<B> {
    /// Entry of the data among the names of the server; `None` once it was unpublished there, even
    /// if the name was published again.
    fn name<S: Storage>(&self, server: &Server<S>) -> Option<EntryId> {
        let id = server.names.find(Keyspace::Names, self.key.as_ref())?;
        let Visibility { writer: by, fence: epoch } = server.names.entry(id)?.visibility;
        (self.owner == ProcId { job: JobId(epoch), rank: by }).then_some(id)
    }
}

/// True if PMI clients may find the data: PMI has no ranges, so its names are visible to all jobs.
const fn is_for_all(range: u8) -> bool {
    matches!(range, range::SESSION | range::GLOBAL)
}

/// A small number among the directives.
fn directive(infos: &List<'_>, key: &[u8]) -> Option<u8> {
    u8::try_from(infos.find(key)?.number()?).ok()
}

/// Keys of a request that are directives, and not data.
const DIRECTIVES: &[&[u8]] = &[
    keys::RANGE,
    keys::PERSIST,
    keys::TIMEOUT,
    keys::ACCESS_PERMISSIONS,
    keys::ACCESS_USERS,
    keys::ACCESS_GROUPS,
];

/// Persistence of data that outlives the job of its publisher.
const OUTLIVES_JOB: &[u8] = &[persistence::INDEFINITE, persistence::SESSION];
