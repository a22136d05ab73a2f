//! Names and data that processes of several launchers have published. The server of the protocols holds them;
//! each job whose processes publish something, or look it up, is a job there.

use super::{NameServerRequest, Publisher};
use crate::operation::NameAnswerMessage;
use crate::server::name_lookups::{self, ClientRequest, NameLookups, NamesHolder};
use crate::server::pmix::heap::limit_blocks;
use crate::server::pmix::service::new_server;
use pmi_core::ids::{JobId, KvsName, ProcId, Rank};
use pmi_core::limits::{SERVICE_BYTES, VALUE_BYTES};
use pmi_core::server::pmix::{EndedPublisher, ForwardedRequest};
use pmi_core::server::{JobSpec, NameRequest};
use pmi_core::wire::pmix::Request;
use pmi_core::wire::pmix::names::Status;
use pmi_host_base::kvs_budget::{KvsBudget, KvsLimits};
use pmi_host_base::map_kvs::MapKvs;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Instant;

/// Published names.
pub(super) struct NameStore {
    server: NamesHolder,
    budget: Rc<KvsBudget>,
    lookups: NameLookups<QueryId>,
    /// Jobs of the connected launchers, by connection and namespace. Launchers on two hosts may give theirs
    /// the same name.
    jobs: BTreeMap<(u32, Vec<u8>), PublishingJob>,
    /// Jobs of launchers that are gone, whose data stays until it is unpublished.
    left: Vec<PublishingJob>,
    /// Numbers of the nodes of launchers, each by connection and number there.
    nodes: BTreeMap<(u32, u32), u32>,
    next_node: u32,
}

/// A query: the connection, and its number there.
pub(super) type QueryId = (u32, u64);

/// Answer to a query; `None` without any.
pub(super) type StoreAnswer = (QueryId, Option<NameAnswerMessage>);

/// A job, as the server of the protocols knows it.
#[derive(Debug)]
struct PublishingJob {
    id: JobId,
    user: u32,
    /// Ranks that have made requests.
    ranks: BTreeSet<u32>,
    /// Names that clients of PMI-1 and PMI-2 have published.
    names: BTreeSet<Vec<u8>>,
}

impl NameStore {
    /// Creates a store without names.
    pub(super) fn new() -> Self {
        limit_blocks(LIMITS.bytes);
        let budget = Rc::new(KvsBudget::new(LIMITS));
        Self {
            server: new_server(MapKvs::new(&budget, "of published names")),
            budget,
            lookups: NameLookups::default(),
            jobs: BTreeMap::new(),
            left: Vec::new(),
            nodes: BTreeMap::new(),
            next_node: 0,
        }
    }

    /// Executes a request of a connection. Returns the answers that are due, of this query and of others.
    pub(super) fn handle(&mut self, from: QueryId, request: NameServerRequest) -> Vec<StoreAnswer> {
        let answer = match request {
            NameServerRequest::Publish { by, service, port } => {
                self.publish(from.0, &by, (service, port))
            }
            NameServerRequest::Unpublish { service } => self.unpublish(from.0, &service),
            NameServerRequest::Lookup { service } => {
                let request = NameRequest::Lookup { service: &service };
                name_lookups::serve_pmi(&mut self.server, NO_PROC, request)
            }
            NameServerRequest::Pmix { by, format, body } => {
                return self.serve_pmix(from, &by, (format, body));
            }
            NameServerRequest::RankEnded { nspace, rank } => {
                return self.end_rank(from, nspace, rank);
            }
            NameServerRequest::JobEnded { nspace } => return self.end_job(from, nspace),
            // They concern no names.
            NameServerRequest::JobStarted { .. }
            | NameServerRequest::Connect(_)
            | NameServerRequest::Withdraw { .. } => return Vec::new(),
        };
        let mut answers = vec![(from, answer)];
        self.lookups.answer(&mut self.server, &mut answers);
        all(answers)
    }

    fn publish(
        &mut self,
        link: u32,
        by: &Publisher,
        (service, port): (Vec<u8>, Vec<u8>),
    ) -> NameAnswerMessage {
        let fits = service.len() <= SERVICE_BYTES && port.len() <= VALUE_BYTES;
        let proc = self.proc(link, by).filter(|_| fits);
        let Some(proc) = proc else { return NameAnswerMessage::NoRoom };
        let request = NameRequest::Publish { service: &service, port: &port };
        let answer = name_lookups::serve_pmi(&mut self.server, proc, request);
        if answer == NameAnswerMessage::Done
            && let Some(job) = self.jobs.get_mut(&(link, by.nspace.clone()))
        {
            job.names.insert(service);
        }
        answer
    }

    /// Unpublishes a name of this connection.
    fn unpublish(&mut self, link: u32, service: &[u8]) -> NameAnswerMessage {
        let owner = self.server.name_owner(service).map(|owner| owner.job);
        let mut own = self.jobs.iter_mut().filter(|((of, _), _)| *of == link);
        let Some((_, job)) = own.find(|(_, job)| Some(job.id) == owner) else {
            return NameAnswerMessage::Unknown;
        };
        job.names.remove(service);
        name_lookups::serve_pmi(&mut self.server, NO_PROC, NameRequest::Unpublish { service })
    }

    fn serve_pmix(
        &mut self,
        from: QueryId,
        by: &Publisher,
        (format, body): (u8, Vec<u8>),
    ) -> Vec<StoreAnswer> {
        let peer = self.proc(from.0, by).filter(|_| self.lookups.len() < WAITING_MAX);
        let Some(peer) = peer else {
            let refused = NameAnswerMessage::Status(Status::OUT_OF_RESOURCE.0);
            return vec![(from, Some(refused))];
        };
        self.unpublish_left(by.user, ForwardedRequest { peer, format, body: &body });
        let node = *self.nodes.entry((from.0, by.node)).or_insert(self.next_node);
        self.next_node = self.next_node.max(node.wrapping_add(1));
        let mut answers = Vec::new();
        let request = ClientRequest { peer, node, format, body };
        self.lookups.serve(&mut self.server, (from, request), &mut answers);
        all(answers)
    }

    /// Unpublishes data that launchers of the same user have left, if the request names it.
    fn unpublish_left(&mut self, user: u32, request: ForwardedRequest<'_>) {
        match request.read() {
            Ok(Request::Unpublish(target)) if target.count > 0 => {}
            _ => return,
        }
        let Self { left, server, .. } = self;
        for job in left.iter().filter(|job| job.user == user) {
            for rank in &job.ranks {
                let peer = ProcId { job: job.id, rank: Rank(*rank) };
                server.pmix().serve_names(ForwardedRequest { peer, ..request }, 0);
            }
        }
        left.retain(|job| server.pmix_ref().has_published(job.id) || !remove(server, job.id));
    }

    fn end_rank(&mut self, from: QueryId, nspace: Vec<u8>, rank: u32) -> Vec<StoreAnswer> {
        let mut answers = vec![(from, None)];
        if let Some(PublishingJob { id: job, .. }) = self.jobs.get(&(from.0, nspace)) {
            let ended = ProcId { job: *job, rank: Rank(rank) };
            self.server.pmix().names_owner_gone(EndedPublisher::Process(ended));
            answers.extend(none(self.lookups.take_of(|of| of == ended)));
        }
        answers
    }

    fn end_job(&mut self, from: QueryId, nspace: Vec<u8>) -> Vec<StoreAnswer> {
        let mut answers = vec![(from, None)];
        let place = (from.0, nspace);
        if let Some(job) = self.jobs.get_mut(&place) {
            let id = job.id;
            self.server.pmix().names_owner_gone(EndedPublisher::Job(id));
            unpublish_names(&mut self.server, job);
            answers.extend(none(self.lookups.take_of(|of| of.job == id)));
            if !self.server.pmix_ref().has_published(id) && remove(&mut self.server, id) {
                self.jobs.remove(&place);
            }
        }
        answers
    }

    /// Removes the names of a launcher that has ended, or whose connection is lost, except those that are to
    /// be kept until they are unpublished.
    pub(super) fn end_session(&mut self, link: u32) {
        for (_, mut job) in self.jobs.extract_if(.., |(of, _), _| *of == link) {
            self.server.pmix().names_owner_gone(EndedPublisher::Session(job.id));
            unpublish_names(&mut self.server, &mut job);
            self.lookups.take_of(|of| of.job == job.id);
            if self.server.pmix_ref().has_published(job.id) || !remove(&mut self.server, job.id) {
                self.left.push(job);
            }
        }
        self.nodes.retain(|(of, _), _| *of != link);
    }

    /// Time at which the first lookup has waited long enough.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.lookups.deadline()
    }

    /// Removes the lookups that have waited long enough. Their clients have been answered.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<StoreAnswer> {
        none(self.lookups.take_expired(now)).collect()
    }

    /// The process of a connection; `None` for an invalid namespace, or too many of them.
    fn proc(&mut self, link: u32, by: &Publisher) -> Option<ProcId> {
        let place = (link, by.nspace.clone());
        if !self.jobs.contains_key(&place) {
            let name = KvsName::new(&by.nspace).ok()?;
            if self.jobs.len() + self.left.len() >= JOBS_MAX {
                return None;
            }
            let spec =
                JobSpec { name, spawner: None, universe_size: None, size: None, has_uplink: false };
            let kvs = MapKvs::new(&self.budget, "of a job");
            let id = self.server.add_job(spec, Vec::new(), kvs).ok()?;
            let (ranks, names) = (BTreeSet::new(), BTreeSet::new());
            self.jobs.insert(place.clone(), PublishingJob { id, user: by.user, ranks, names });
        }
        let job = self.jobs.get_mut(&place)?;
        job.ranks.insert(by.rank);
        Some(ProcId { job: job.id, rank: Rank(by.rank) })
    }
}

/// Unpublishes the names that clients of PMI-1 and PMI-2 of a job have published.
fn unpublish_names(server: &mut NamesHolder, job: &mut PublishingJob) {
    for service in std::mem::take(&mut job.names) {
        if server.name_owner(&service).is_some_and(|owner| owner.job == job.id) {
            name_lookups::serve_pmi(server, NO_PROC, NameRequest::Unpublish { service: &service });
        }
    }
}

/// Removes a job; true if that is done.
fn remove(server: &mut NamesHolder, job: JobId) -> bool {
    server.remove_job(job).is_ok()
}

fn all(answers: Vec<(QueryId, NameAnswerMessage)>) -> Vec<StoreAnswer> {
    answers.into_iter().map(|(query, answer)| (query, Some(answer))).collect()
}

fn none(queries: Vec<QueryId>) -> impl Iterator<Item = StoreAnswer> {
    queries.into_iter().map(|query| (query, None))
}

/// PMI does not record the process that looks up or unpublishes a name.
const NO_PROC: ProcId = ProcId { job: JobId(u32::MAX), rank: Rank(0) };

/// Limits of names, and of data of PMIx clients, of which the server of the protocols has as many.
const LIMITS: KvsLimits = KvsLimits { pairs: 1 << 16, bytes: 256 << 20 };

/// Number of jobs whose processes have made requests.
const JOBS_MAX: usize = 1 << 16;

/// Number of lookups that wait at once.
const WAITING_MAX: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use pmi_core::wire::pmix::names::{Command, keys, persistence};
    use pmi_core::wire::pmix::{Family, Format, Packer, Type, Unpacker};

    fn by(nspace: &str, rank: u32) -> Publisher {
        Publisher { nspace: nspace.into(), rank, node: 1, user: 1000 }
    }

    fn publish(service: &[u8], port: &[u8]) -> NameServerRequest {
        let (service, port) = (service.to_vec(), port.to_vec());
        NameServerRequest::Publish { by: by("kvs", 0), service, port }
    }

    impl NameStore {
        /// The answer to a request of a connection, the only one that is due.
        #[track_caller]
        fn answer(&mut self, link: u32, request: NameServerRequest) -> NameAnswerMessage {
            let mut answers = self.handle((link, 7), request);
            assert_eq!((answers.len(), answers[0].0), (1, (link, 7)));
            answers.remove(0).1.unwrap()
        }

        /// Status of the answer to a request of PMIx.
        #[track_caller]
        fn status(&mut self, link: u32, request: NameServerRequest) -> Status {
            let NameAnswerMessage::Pmix(body) = self.answer(link, request) else {
                panic!("no answer for a client of PMIx");
            };
            Status(Unpacker::new(&body, Format::PLAIN).one(Type::STATUS).unwrap().i32().unwrap())
        }
    }

    fn pmix(by: Publisher, fill: impl Fn(&mut Packer<'_>)) -> NameServerRequest {
        let mut body = [0; 512];
        let mut to = Packer::new(&mut body, Format::PLAIN);
        fill(&mut to);
        let len = to.len();
        let Format { family, is_described } = Format::PLAIN;
        let format = u8::from(family == Family::Flex) | u8::from(is_described) << 1;
        NameServerRequest::Pmix { by, format, body: body[..len].to_vec() }
    }

    fn publish_data(by: Publisher, key: &[u8], how: u8) -> NameServerRequest {
        pmix(by, |to| {
            to.one(Type::COMMAND).u8(Command::PUBLISH.0).one(Type::UINT32).u32(1000);
            to.one(Type::SIZE).size(2).op(Type::INFO, 2);
            to.text(Some(key)).u32(0).of(Type::STRING).text(Some(b"port"));
            to.text(Some(keys::PERSIST)).u32(0).of(Type::PERSIST).u8(how);
        })
    }

    fn of_key(by: Publisher, command: Command, key: &[u8], waits: bool) -> NameServerRequest {
        pmix(by, |to| {
            to.one(Type::COMMAND).u8(command.0).one(Type::UINT32).u32(1000);
            to.one(Type::SIZE).size(1).one(Type::STRING).text(Some(key));
            if waits {
                to.one(Type::SIZE).size(1).op(Type::INFO, 1);
                to.text(Some(keys::WAIT)).u32(0).of(Type::BOOL).u8(1);
            } else {
                to.one(Type::SIZE).size(0);
            }
        })
    }

    fn lookup_data(by: Publisher, key: &[u8]) -> NameServerRequest {
        of_key(by, Command::LOOKUP, key, false)
    }

    #[test]
    fn name_belongs_to_the_connection_that_has_published_it() {
        let mut store = NameStore::new();
        let lookup = || NameServerRequest::Lookup { service: b"s".to_vec() };
        let unpublish = || NameServerRequest::Unpublish { service: b"s".to_vec() };
        assert_eq!(store.answer(2, lookup()), NameAnswerMessage::Unknown);
        assert_eq!(store.answer(1, publish(b"s", b"p")), NameAnswerMessage::Done);
        assert_eq!(store.answer(2, publish(b"s", b"q")), NameAnswerMessage::Exists);
        assert_eq!(store.answer(2, lookup()), NameAnswerMessage::Port(b"p".to_vec()));
        assert_eq!(store.answer(2, unpublish()), NameAnswerMessage::Unknown);
        assert_eq!(store.answer(1, unpublish()), NameAnswerMessage::Done);
        assert_eq!(store.answer(1, publish(b"s", b"p")), NameAnswerMessage::Done);
        store.end_session(2);
        assert_eq!(store.answer(2, lookup()), NameAnswerMessage::Port(b"p".to_vec()));
        store.end_session(1);
        assert_eq!(store.answer(2, lookup()), NameAnswerMessage::Unknown);
        assert!(store.jobs.keys().all(|(link, _)| *link == 2) && store.left.is_empty());
    }

    #[test]
    fn names_are_bounded() {
        let mut store = NameStore::new();
        let longest = (vec![b'x'; SERVICE_BYTES], vec![b'p'; VALUE_BYTES]);
        assert_eq!(store.answer(1, publish(&longest.0, &longest.1)), NameAnswerMessage::Done);
        for (name, port) in [(SERVICE_BYTES + 1, 1), (1, VALUE_BYTES + 1)] {
            let request = publish(&vec![b'y'; name], &vec![b'p'; port]);
            assert_eq!(store.answer(1, request), NameAnswerMessage::NoRoom);
        }
        for number in 1..LIMITS.pairs {
            store.handle((1, 7), publish(number.to_string().as_bytes(), b"p"));
        }
        assert_eq!(store.answer(1, publish(b"s", b"p")), NameAnswerMessage::NoRoom);
    }

    #[test]
    fn data_of_a_spawned_job_ends_with_it_or_with_its_run() {
        let mut store = NameStore::new();
        let (spawned, other) = (|| by("kvs_1", 0), || by("kvs", 3));
        for (key, how) in [(&b"app"[..], persistence::APP), (b"session", persistence::SESSION)] {
            assert_eq!(store.status(1, publish_data(spawned(), key, how)), Status::SUCCESS);
        }
        // Another launcher gives its job the same name.
        assert_eq!(
            store.handle((2, 1), NameServerRequest::JobEnded { nspace: b"kvs_1".to_vec() }),
            [((2, 1), None)]
        );
        assert_eq!(store.status(2, lookup_data(other(), b"app")), Status::SUCCESS);
        assert_eq!(
            store.handle((1, 1), NameServerRequest::JobEnded { nspace: b"kvs_1".to_vec() }),
            [((1, 1), None)]
        );
        assert_eq!(store.status(2, lookup_data(other(), b"app")), Status::NOT_FOUND);
        assert_eq!(store.status(2, lookup_data(other(), b"session")), Status::SUCCESS);
        store.end_session(1);
        assert_eq!(store.status(2, lookup_data(other(), b"session")), Status::NOT_FOUND);
    }

    #[test]
    fn data_that_a_run_has_left_is_unpublished_by_processes_of_its_user() {
        let mut store = NameStore::new();
        let publish = || publish_data(by("kvs", 2), b"k", persistence::INDEFINITE);
        assert_eq!(store.status(1, publish()), Status::SUCCESS);
        let unpublish =
            |user| of_key(Publisher { user, ..by("kvs", 0) }, Command::UNPUBLISH, b"k", false);
        // Its run has not ended.
        assert_eq!(store.status(2, unpublish(1000)), Status::SUCCESS);
        assert_eq!(store.status(2, publish()), Status::DUPLICATE_KEY);
        store.end_session(1);
        assert_eq!(store.status(2, unpublish(1001)), Status::SUCCESS);
        assert_eq!(store.status(2, publish()), Status::DUPLICATE_KEY);
        assert_eq!(store.left.len(), 1);
        assert_eq!(store.status(2, unpublish(1000)), Status::SUCCESS);
        assert_eq!(store.status(2, publish()), Status::SUCCESS);
        assert!(store.left.is_empty());
    }

    #[test]
    fn lookup_that_waits_is_answered_once() {
        let mut store = NameStore::new();
        let wait = |rank| of_key(by("kvs", rank), Command::LOOKUP, b"k", true);
        for (link, number) in [(1, 1), (2, 1), (2, 2), (3, 1)] {
            assert_eq!(store.handle((link, number), wait(u32::try_from(number).unwrap())), []);
        }
        // A process has ended, and a launcher is lost.
        let ended = NameServerRequest::RankEnded { nspace: b"kvs".to_vec(), rank: 1 };
        assert_eq!(store.handle((2, 3), ended), [((2, 3), None), ((2, 1), None)]);
        store.end_session(3);
        let answers = store.handle((4, 1), publish(b"k", b"port"));
        let answered: Vec<(u32, u64)> = answers.iter().map(|(query, _)| *query).collect();
        assert_eq!(answered, [(4, 1), (1, 1), (2, 2)]);
        assert_eq!(store.lookups.len(), 0);
        // Other bytes are an answer, too.
        let malformed = NameServerRequest::Pmix { by: by("kvs", 0), format: 9, body: vec![1, 2] };
        assert_eq!(store.status(1, malformed), Status::BAD_PARAM);
    }
}
