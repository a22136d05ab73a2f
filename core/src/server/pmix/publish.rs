//! Published data: its access range and persistence.
//!
//! A published text is a name of the server as well, so that PMI-1 and PMI-2 clients find it, and
//! their names are found here as texts. A name that a PMI client unpublishes is unpublished here
//! too.
//!
//! Published data of a job on several nodes is held by one server, that of the head
//! ([`PmixServer::serve_names`]).

use super::context::{PmixServer, PmixServerRef};
use super::forward::ForwardedRequest;
use super::rank_data::numbered_format;
use super::session::PmixResponse;
use super::shared_bytes::{copy_bytes, pack};
use super::tables::{BytesOf, PmixSessionStateOf, PmixStorage, PublishedValue};
use crate::ids::{JobId, ProcId, SessionId, check_service};
use crate::limits::VALUE_BYTES;
use crate::server::Storage;
use crate::server::shared::Shared;
use crate::storage::Slots;
use crate::store::{EntryId, Keyspace, Kvs, Visibility};
use crate::wire::pmix::names::{Status, keys, persistence, range};
use crate::wire::pmix::request::Names;
use crate::wire::pmix::{Format, List, Packer, Proc, Request, Type, Unpacker, Value};

/// Process that sends a request, its wire format, and the number of its node.
#[derive(Clone, Copy)]
pub(super) struct NamesRequester {
    pub(super) peer: ProcId,
    pub(super) format: Format,
    pub(super) node: Option<u32>,
}

/// Reply to a request about published data.
#[derive(Clone, Debug)]
pub enum NamesReply<B> {
    /// Body of the answer; `None` without memory for it.
    Answer(Option<B>),
    /// Too little is published for a lookup that waits: repeat the request after the next publication.
    Wait {
        /// The time that the client waits, if it is limited.
        seconds: Option<u64>,
    },
}

/// The end that published data outlives, or does not, by its persistence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndedPublisher {
    /// A process.
    Process(ProcId),
    /// All processes of a job.
    Job(JobId),
    /// The session of a job: the run that it belongs to.
    Session(JobId),
}

/// Place of published data.
#[derive(Clone, Copy)]
enum FoundName {
    Published(usize),
    /// Published by a PMI client.
    Name(EntryId),
}

impl<S: Storage> Shared<S> {
    /// Publishes all of a request, or nothing.
    pub(super) fn publish(&mut self, requester: NamesRequester, infos: &List<'_>) -> Status {
        let NamesRequester { peer: owner, format, node } = requester;
        let Some(name) = self.job(owner.job).map(|job| job.name().clone()) else {
            return Status::NOT_FOUND;
        };
        let range = directive(infos, keys::RANGE).unwrap_or(range::SESSION);
        let persistence = directive(infos, keys::PERSIST).unwrap_or(persistence::APP);
        let data = || infos.infos().filter(|info| !DIRECTIVES.contains(&info.key));
        self.remove_unpublished();
        for info in data() {
            let mut published = self.published();
            // Others may use the key in a range that excludes this process.
            let is_here = published.any(|(_, own)| {
                own.key.as_ref() == info.key && own.range == range && is_in_range(own, requester)
            });
            let is_name = || self.names.find(Keyspace::Names, info.key).is_some();
            if is_here || is_for_all(range) && is_name() {
                return Status::DUPLICATE_KEY;
            }
        }
        let free = self.pmix.names.capacity().saturating_sub(self.published().count());
        if data().count() > free {
            return Status::OUT_OF_RESOURCE;
        }
        for info in data() {
            let parts =
                (copy_bytes(info.key), copy_bytes(info.value.bytes), copy_bytes(name.as_bytes()));
            let (Some(key), Some(value), Some(nspace)) = parts else { return Status::NOMEM };
            let is_name = is_for_all(range) && self.publish_name(info.key, &info.value, owner);
            let published = PublishedValue {
                key,
                of: info.value.of,
                value,
                format,
                nspace,
                owner,
                node,
                range,
                persistence,
                is_name,
            };
            if self.pmix.names.insert(published).is_none() {
                return Status::OUT_OF_RESOURCE;
            }
        }
        Status::SUCCESS
    }

    /// Answers a lookup, or keeps it pending until enough is published.
    pub(super) fn look_up(
        &mut self,
        state: &PmixSessionStateOf<S::Pmix>,
        peer: ProcId,
        body: &[u8],
        target: &Names<'_>,
    ) -> PmixResponse<BytesOf<S>> {
        match self.find_published(self.requester(state, peer), target) {
            Some(response) => response,
            None => match copy_bytes(body) {
                Some(body) => {
                    let deadline = self.deadline(&target.infos, None);
                    self.pmix.has_waiting_lookup = true;
                    PmixResponse::Lookup { body, deadline }
                }
                None => PmixResponse::Status(Status::NOMEM),
            },
        }
    }

    /// Unpublishes data of the requesting process.
    pub(super) fn unpublish(&mut self, owner: ProcId, target: &Names<'_>) -> Status {
        let range = directive(&target.infos, keys::RANGE);
        let persistence = directive(&target.infos, keys::PERSIST);
        for at in 0..self.pmix.names.end() {
            let is_meant = self.pmix.names.get(at).is_some_and(|own| {
                let mut keys = target.keys();
                own.owner == owner
                    && (target.count == 0 || keys.any(|key| key == own.key.as_ref()))
                    && range.is_none_or(|range| range == own.range)
                    && persistence.is_none_or(|persistence| persistence == own.persistence)
            });
            if is_meant {
                self.remove_value(at);
            }
        }
        Status::SUCCESS
    }

    /// Removes data that PMI clients have unpublished as names.
    fn remove_unpublished(&mut self) {
        for at in 0..self.pmix.names.end() {
            let own = self.pmix.names.get(at);
            if own.is_some_and(|own| own.is_name && self.name_of(own).is_none()) {
                self.pmix.names.remove(at);
            }
        }
    }

    /// Removes data that does not outlive its terminated publisher.
    pub(super) fn remove_published(&mut self, ended: EndedPublisher) {
        for at in 0..self.pmix.names.end() {
            let has_gone = self.pmix.names.get(at).is_some_and(|own| match ended {
                EndedPublisher::Process(owner) => {
                    own.owner == owner && own.persistence == persistence::PROC
                }
                EndedPublisher::Job(job) => {
                    own.owner.job == job && !OUTLIVES_JOB.contains(&own.persistence)
                }
                EndedPublisher::Session(job) => {
                    own.owner.job == job && own.persistence != persistence::INDEFINITE
                }
            });
            if has_gone {
                self.remove_value(at);
            }
        }
    }

    /// Answers a lookup if enough is found, and removes data that is read once.
    pub(super) fn find_published(
        &mut self,
        requester: NamesRequester,
        target: &Names<'_>,
    ) -> Option<PmixResponse<BytesOf<S>>> {
        let found = || target.keys().filter_map(|key| Some((key, self.known(requester, key)?)));
        let count = u32::try_from(found().count()).unwrap_or(u32::MAX);
        let needed =
            target.infos.find(keys::WAIT).and_then(|wait| match (wait.of, wait.number()) {
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
            found().for_each(|(key, known)| self.write_published(key, known, to));
        });
        for key in target.keys() {
            if let Some(FoundName::Published(at)) = self.known(requester, key)
                && let Some(own) = self.pmix.names.get(at)
                && own.persistence == persistence::FIRST_READ
            {
                self.remove_value(at);
            }
        }
        Some(PmixResponse::body(answer))
    }

    /// Publishes a text as a name of the server, if its key and length allow.
    fn publish_name(&mut self, key: &[u8], value: &Value<'_>, owner: ProcId) -> bool {
        let text = value.text().filter(|text| text.len() <= VALUE_BYTES);
        let Some(text) = text.filter(|_| check_service(key).is_ok()) else { return false };
        self.names.put(Keyspace::Names, key, text, Visibility::Published(owner)).is_ok()
    }

    fn remove_value(&mut self, at: usize) {
        let Some(own) = self.pmix.names.remove(at) else { return };
        if own.is_name
            && let Some(id) = self.name_of(&own)
        {
            self.names.remove(id);
        }
    }
}

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixServer<'_, P, S> {
    /// Answers the pending lookups that published data now satisfies: at the head, after a name of another
    /// node was [published](crate::server::Server::serve_name).
    pub fn answer_lookups(&mut self) {
        if !core::mem::take(&mut self.shared.pmix.has_waiting_lookup) {
            return;
        }
        // In the order of connections, which is that of their output: data to be read once goes to the
        // first of them.
        for id in self.sessions.pmix_ids() {
            let mut next = 0;
            while let Some((place, body, requester)) = self.waiting_lookup(id, next) {
                next = place + 1;
                let request = Request::read(Unpacker::new(body.as_ref(), requester.format));
                let Ok(Request::Lookup(target)) = request else {
                    debug_assert!(false, "a pending lookup was read when it arrived");
                    continue;
                };
                match self.shared.find_published(requester, &target) {
                    Some(response) => self.sessions.resolve(id, place, response),
                    None => self.shared.pmix.has_waiting_lookup = true,
                }
            }
        }
    }

    fn waiting_lookup(
        &self,
        id: SessionId,
        from: usize,
    ) -> Option<(usize, P::Bytes, NamesRequester)> {
        let state = self.sessions.state(id)?;
        let requester = self.shared.requester(state, state.protocol.peer?);
        let mut later = state.pending_requests().filter(|(place, _)| *place >= from);
        later.find_map(|(place, pending)| match &pending.response {
            PmixResponse::Lookup { body, .. } => Some((place, body.clone(), requester)),
            _ => None,
        })
    }
}

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixServer<'_, P, S> {
    /// At the head: executes a request of a process of the node with this number about published data.
    pub fn serve_names(
        &mut self,
        request: ForwardedRequest<'_>,
        node: u32,
    ) -> NamesReply<P::Bytes> {
        let ForwardedRequest { peer, format, body } = request;
        let format = numbered_format(format).unwrap_or(Format::PLAIN);
        let requester = NamesRequester { peer, format, node: Some(node) };
        let response = match Request::read(Unpacker::new(body, format)) {
            Ok(Request::Publish { infos, .. }) => {
                let status = self.shared.publish(requester, &infos);
                // Tools are clients of the head itself.
                self.answer_lookups();
                PmixResponse::Status(status)
            }
            Ok(Request::Unpublish(target)) => {
                PmixResponse::Status(self.shared.unpublish(peer, &target))
            }
            Ok(Request::Lookup(target)) => match self.shared.find_published(requester, &target) {
                Some(response) => response,
                None => {
                    let timeout = target.infos.find(keys::TIMEOUT);
                    let seconds = timeout.and_then(|value| value.number());
                    let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
                    return NamesReply::Wait { seconds: seconds.filter(|seconds| *seconds > 0) };
                }
            },
            _ => PmixResponse::Status(Status::BAD_PARAM),
        };
        NamesReply::Answer(match response {
            PmixResponse::Body(body) => Some(body),
            PmixResponse::Status(status) => pack(format, |to| {
                to.one(Type::STATUS).i32(status.0);
            }),
            _ => None,
        })
    }

    /// At the head: removes published data that does not outlive what has ended.
    pub fn names_owner_gone(&mut self, ended: EndedPublisher) {
        self.shared.remove_published(ended);
    }
}

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixServerRef<'_, P, S> {
    /// True if processes of the job have published data that is still held.
    pub fn has_published(self, job: JobId) -> bool {
        self.shared.published().any(|(_, own)| own.owner.job == job)
    }
}

impl<S: Storage> Shared<S> {
    /// The process of a session as a requester.
    pub(super) fn requester(
        &self,
        state: &PmixSessionStateOf<S::Pmix>,
        peer: ProcId,
    ) -> NamesRequester {
        NamesRequester { peer, format: state.protocol.format, node: self.node(peer) }
    }

    pub(super) fn published(&self) -> impl Iterator<Item = (usize, &PublishedValue<BytesOf<S>>)> {
        let names = &self.pmix.names;
        (0..names.end()).filter_map(|at| Some((at, names.get(at)?)))
    }

    /// Place of a key that the requester may read.
    fn known(&self, requester: NamesRequester, key: &[u8]) -> Option<FoundName> {
        let own = self.published().find(|(_, own)| {
            own.key.as_ref() == key
                && is_in_range(own, requester)
                && (!own.is_name || self.name_of(own).is_some())
        });
        let name = || self.names.find(Keyspace::Names, key).map(FoundName::Name);
        own.map(|(at, _)| FoundName::Published(at)).or_else(name)
    }

    fn write_published(&self, key: &[u8], known: FoundName, to: &mut Packer<'_>) {
        match known {
            FoundName::Published(at) => {
                let Some(own) = self.pmix.names.get(at) else { return };
                Proc { nspace: own.nspace.as_ref(), rank: own.owner.rank.0 }.write(to);
                let value = Value { of: own.of, bytes: own.value.as_ref(), format: own.format };
                to.text(Some(key)).of(own.of);
                // It was read as such a value when it was published.
                let _ = value.write(to);
            }
            FoundName::Name(id) => {
                let Some(entry) = self.names.entry(id) else { return };
                let Visibility::Published(owner) = entry.visibility else { return };
                Proc { nspace: self.nspace(owner.job), rank: owner.rank.0 }.write(to);
                to.text(Some(key)).of(Type::STRING).text(Some(entry.value));
            }
        }
    }

    /// Entry of the data among the names of the server; `None` once it was unpublished there, even
    /// if the name was published again.
    fn name_of(&self, own: &PublishedValue<BytesOf<S>>) -> Option<EntryId> {
        let id = self.names.find(Keyspace::Names, own.key.as_ref())?;
        let is_own = self.names.entry(id)?.visibility == Visibility::Published(own.owner);
        is_own.then_some(id)
    }
}

fn is_in_range<B>(own: &PublishedValue<B>, requester: NamesRequester) -> bool {
    match own.range {
        range::RM => false,
        range::LOCAL => own.node == requester.node,
        // No processes are named for `CUSTOM`.
        range::NAMESPACE | range::CUSTOM => own.owner.job == requester.peer.job,
        range::PROC_LOCAL => own.owner == requester.peer,
        _ => true,
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
