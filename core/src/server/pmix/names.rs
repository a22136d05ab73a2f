//! Published data: who may look up what, and until when.
//!
//! A text that is published here is a name of the server as well, so that PMI-1 and PMI-2 clients find
//! it, and theirs are found here as texts. Whoever takes it back there has taken it back here.

use super::block::{Block, copied, packed};
use super::connection::{Connection, Owed, Talk};
use super::get::until;
use super::state::Reach;
use super::{ConnectionId, Memory, Pmix};
use crate::ids::{JobId, Key, Rank};
use crate::limits::VALUE_BYTES;
use crate::server::{Server, Storage};
use crate::storage::Slots;
use crate::store::{EntryId, Kvs, Shelf, Stamp};
use crate::wire::pmix::names::{Status, keys, persistence, range};
use crate::wire::pmix::request::Names;
use crate::wire::pmix::{Format, List, Packer, Proc, Request, Type, Unpacker, Value};

/// Something that was published.
#[derive(Clone, Debug)]
pub struct Published<B> {
    key: B,
    of: Type,
    /// The value without its type, as its publisher writes.
    value: B,
    format: Format,
    /// The name space of its publisher, which may be gone when the data is not.
    nspace: B,
    owner: (JobId, Rank),
    range: u8,
    persistence: u8,
    /// It is a name of the server too.
    is_name: bool,
}

/// Who asks, and how it is written.
#[derive(Clone, Copy)]
struct Asker {
    job: JobId,
    rank: Rank,
    format: Format,
}

impl<P: Memory, S: Storage> Reach<'_, P, S> {
    /// Publishes all of a request, or nothing.
    pub(super) fn publish(
        &mut self,
        talk: &Talk<P::Block, P::Pendings>,
        owner: (JobId, Rank),
        user: u32,
        infos: &List<'_>,
    ) -> Status {
        if talk.user.is_some_and(|claimed| claimed != user) {
            return Status::NO_PERMISSIONS;
        }
        let Some(name) = self.server.job(owner.0).map(|job| job.name().clone()) else {
            return Status::NOT_FOUND;
        };
        let range = directive(infos, keys::RANGE).unwrap_or(range::SESSION);
        let persistence = directive(infos, keys::PERSIST).unwrap_or(persistence::APP);
        let data = || infos.infos().filter(|info| !DIRECTIVES.contains(&info.key));
        self.forget_taken_back();
        for info in data() {
            let is_here =
                self.published().any(|(_, own)| own.key.as_ref() == info.key && own.range == range);
            if is_here || self.server.names.find(Shelf::Names, info.key).is_some() {
                return Status::DUPLICATE_KEY;
            }
        }
        let free = self.names.capacity().saturating_sub(self.published().count());
        if data().count() > free {
            return Status::OUT_OF_RESOURCE;
        }
        for info in data() {
            let parts = (copied(info.key), copied(info.value.bytes), copied(name.as_bytes()));
            let (Some(key), Some(value), Some(nspace)) = parts else { return Status::NOMEM };
            let is_name = is_for_all(range) && name_too(self.server, info.key, &info.value, owner);
            let published = Published {
                key,
                of: info.value.of,
                value,
                format: talk.format,
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

    /// Answers a lookup, or notes what it waits for.
    pub(super) fn look_up(
        &mut self,
        talk: &Talk<P::Block, P::Pendings>,
        (job, rank): (JobId, Rank),
        body: &[u8],
        wanted: &Names<'_>,
    ) -> Owed<P::Block> {
        let asker = Asker { job, rank, format: talk.format };
        match find::<P, S>(self.names, self.server, asker, wanted) {
            Some(owed) => owed,
            None => match copied(body) {
                Some(body) => Owed::Lookup { body, until: until(&wanted.infos, self.now, None) },
                None => Owed::Status(Status::NOMEM),
            },
        }
    }

    /// Takes back what its publisher no longer offers.
    pub(super) fn unpublish(&mut self, owner: (JobId, Rank), wanted: &Names<'_>) -> Status {
        let range = directive(&wanted.infos, keys::RANGE);
        let persistence = directive(&wanted.infos, keys::PERSIST);
        for at in 0..self.names.end() {
            let is_meant = self.names.get(at).is_some_and(|own| {
                let mut keys = wanted.keys();
                own.owner == owner
                    && (wanted.count == 0 || keys.any(|key| key == own.key.as_ref()))
                    && range.is_none_or(|range| range == own.range)
                    && persistence.is_none_or(|persistence| persistence == own.persistence)
            });
            if is_meant {
                remove(self.names, self.server, at);
            }
        }
        Status::SUCCESS
    }

    /// Forgets what PMI clients have taken back.
    fn forget_taken_back(&mut self) {
        for at in 0..self.names.end() {
            if self.names.get(at).is_some_and(|own| own.is_name && own.name(self.server).is_none())
            {
                self.names.remove(at);
            }
        }
    }

    fn published(&self) -> impl Iterator<Item = (usize, &Published<P::Block>)> {
        (0..self.names.end()).filter_map(|at| Some((at, self.names.get(at)?)))
    }
}

impl<P: Memory> Pmix<P> {
    /// Something was published: whoever waits for it may have it.
    pub(super) fn look_at_lookups<S: Storage>(&mut self, server: &mut Server<S>) {
        for at in 0..self.connections.end() {
            let id = ConnectionId(u32::try_from(at).unwrap_or(u32::MAX));
            let mut next = 0;
            while let Some((place, body, asker)) = self.waiting_lookup(id, next) {
                next = place + 1;
                let request = Request::read(Unpacker::new(body.as_ref(), asker.format));
                let Ok(Request::Lookup(wanted)) = request else { continue };
                if let Some(owed) = find::<P, S>(&mut self.names, server, asker, &wanted) {
                    self.settle(id, place, owed);
                }
            }
        }
    }

    /// A process has ended, and with it what it has published for no longer.
    pub(super) fn forget_published<S: Storage>(
        &mut self,
        job: JobId,
        rank: Option<Rank>,
        server: &mut Server<S>,
    ) {
        for at in 0..self.names.end() {
            let has_gone = self.names.get(at).is_some_and(|own| match rank {
                Some(rank) => own.owner == (job, rank) && own.persistence == persistence::PROC,
                None => own.owner.0 == job && !OUTLIVES_JOB.contains(&own.persistence),
            });
            if has_gone {
                remove(&mut self.names, server, at);
            }
        }
    }

    fn waiting_lookup(&self, id: ConnectionId, from: usize) -> Option<(usize, P::Block, Asker)> {
        let Connection { talk, .. } = self.connections.get(id.0 as usize)?;
        let (job, rank) = talk.peer?;
        let asker = Asker { job, rank, format: talk.format };
        let mut later = talk.pendings().filter(|(place, _)| *place >= from);
        later.find_map(|(place, pending)| match &pending.owed {
            Owed::Lookup { body, .. } => Some((place, body.clone(), asker)),
            _ => None,
        })
    }
}

/// Where something that was published is.
#[derive(Clone, Copy)]
enum Known {
    Published(usize),
    /// A PMI client has published it.
    Name(EntryId),
}

/// What is found, if it is enough; what was to be read once is gone then.
fn find<P: Memory, S: Storage>(
    names: &mut P::Names,
    server: &mut Server<S>,
    asker: Asker,
    wanted: &Names<'_>,
) -> Option<Owed<P::Block>> {
    let found = || wanted.keys().filter_map(|key| Some((key, known(names, server, asker, key)?)));
    let count = u32::try_from(found().count()).unwrap_or(u32::MAX);
    let needed = wanted.infos.find(keys::WAIT).and_then(|wait| match (wait.of, wait.number()) {
        (Type::BOOL, _) => wait.is_true().then_some(wanted.count),
        (_, Some(number)) if number > 0 => u32::try_from(number).ok(),
        _ => Some(wanted.count),
    });
    if needed.is_some_and(|needed| count < needed) {
        return None;
    }
    let status = match count {
        0 => return Some(Owed::Status(Status::NOT_FOUND)),
        count if count < wanted.count => Status::PARTIAL_SUCCESS,
        _ => Status::SUCCESS,
    };
    let answer = packed(asker.format, |to| {
        to.one(Type::STATUS).i32(status.0).one(Type::SIZE).size(u64::from(count));
        to.op(Type::PDATA, count);
        found().for_each(|(key, known)| write(names, server, (key, known), to));
    });
    for key in wanted.keys() {
        if let Some(Known::Published(at)) = known(names, server, asker, key)
            && names.get(at).is_some_and(|own| own.persistence == persistence::FIRST_READ)
        {
            remove(names, server, at);
        }
    }
    Some(answer.map_or(Owed::Status(Status::NOMEM), Owed::Body))
}

/// Where a key is that `asker` may read.
fn known<B: Block, S: Storage>(
    names: &impl Slots<Published<B>>,
    server: &Server<S>,
    asker: Asker,
    key: &[u8],
) -> Option<Known> {
    let is_name = || server.names.find(Shelf::Names, key);
    let mut own = (0..names.end()).filter_map(|at| Some((at, names.get(at)?)));
    let own = own.find(|(_, own)| {
        own.key.as_ref() == key
            && is_in_range(own, asker, server)
            && (!own.is_name || own.name(server).is_some())
    });
    own.map(|(at, _)| Known::Published(at)).or_else(|| is_name().map(Known::Name))
}

fn is_in_range<B, S: Storage>(own: &Published<B>, asker: Asker, server: &Server<S>) -> bool {
    let node = |(job, rank): (JobId, Rank)| Some(server.job(job)?.member(rank)?.node);
    match own.range {
        range::RM => false,
        range::LOCAL => node(own.owner) == node((asker.job, asker.rank)),
        // Nobody says for whom it was chosen.
        range::NAMESPACE | range::CUSTOM => own.owner.0 == asker.job,
        range::PROC_LOCAL => own.owner == (asker.job, asker.rank),
        _ => true,
    }
}

fn write<B: Block, S: Storage>(
    names: &impl Slots<Published<B>>,
    server: &Server<S>,
    (key, known): (&[u8], Known),
    to: &mut Packer<'_>,
) {
    match known {
        Known::Published(at) => {
            let Some(own) = names.get(at) else { return };
            Proc { nspace: own.nspace.as_ref(), rank: own.owner.1.0 }.write(to);
            let value = Value { of: own.of, bytes: own.value.as_ref(), format: own.format };
            to.text(Some(key)).of(own.of);
            // It was read as such a value when it was published.
            let _ = value.write(to);
        }
        Known::Name(id) => {
            let Some(entry) = server.names.entry(id) else { return };
            let job = server.job(JobId(entry.stamp.epoch));
            let nspace = job.map_or(&b""[..], |job| job.name().as_bytes());
            Proc { nspace, rank: entry.stamp.by.0 }.write(to);
            to.text(Some(key)).of(Type::STRING).text(Some(entry.value));
        }
    }
}

/// Makes a text a name of the server, if it can be one.
fn name_too<S: Storage>(
    server: &mut Server<S>,
    key: &[u8],
    value: &Value<'_>,
    (job, by): (JobId, Rank),
) -> bool {
    let text = value.text().filter(|text| text.len() <= VALUE_BYTES);
    let Some(text) = text.filter(|_| Key::check(key).is_ok()) else { return false };
    // The epoch of a name is the job that published it, so that it can go with its job.
    server.names.put(Shelf::Names, key, text, Stamp { by, epoch: job.0 }).is_ok()
}

fn remove<B: Block, S: Storage>(
    names: &mut impl Slots<Published<B>>,
    server: &mut Server<S>,
    at: usize,
) {
    let name = names.remove(at).filter(|own| own.is_name).and_then(|own| own.name(server));
    if let Some(id) = name {
        server.names.remove(id);
    }
}

impl<B: Block> Published<B> {
    /// Where it is among the names of the server; nowhere once it was taken back there, whoever has taken
    /// the name since.
    fn name<S: Storage>(&self, server: &Server<S>) -> Option<EntryId> {
        let id = server.names.find(Shelf::Names, self.key.as_ref())?;
        let Stamp { by, epoch } = server.names.entry(id)?.stamp;
        (self.owner == (JobId(epoch), by)).then_some(id)
    }
}

/// PMI knows no ranges: what it finds everybody does.
const fn is_for_all(range: u8) -> bool {
    matches!(range, range::SESSION | range::GLOBAL)
}

/// A small number among the directives.
fn directive(infos: &List<'_>, key: &[u8]) -> Option<u8> {
    u8::try_from(infos.find(key)?.number()?).ok()
}

/// What of a request is no data.
const DIRECTIVES: &[&[u8]] = &[
    keys::RANGE,
    keys::PERSIST,
    keys::TIMEOUT,
    keys::ACCESS_PERMISSIONS,
    keys::ACCESS_USERS,
    keys::ACCESS_GROUPS,
];

/// What stays when the job of its publisher has gone.
const OUTLIVES_JOB: &[u8] = &[persistence::INDEFINITE, persistence::SESSION];
