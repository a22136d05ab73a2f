//! Queries: jobs, their descriptions, committed data.
//!
//! Each key of a query has one entry in the answer, or none. The server answers from job
//! descriptions and committed data; the owner adds the rest (process ids, process states) when it
//! answers.

use super::context::PmixServer;
use super::job_info::is_node;
use super::procs::count_procs;
use super::rank_data::ModexBlob;
use super::session::PmixResponse;
use super::shared_bytes::pack;
use super::tables::{BytesOf, NamespaceOf, PmixSessionStateOf, PmixStorage};
use crate::error::Misuse;
use crate::ids::{JobId, ProcId, Rank, SessionId};
use crate::server::Storage;
use crate::server::session::Session;
use crate::server::shared::Shared;
use crate::storage::Slots;
use crate::wire::pmix::names::{Status, flags, keys};
use crate::wire::pmix::{
    Format, Info, List, Packer, Query, Request, Type, Unpacker, Value, WILDCARD,
};

/// One thing that is asked.
#[derive(Clone, Copy, Debug)]
pub struct QueryItem<'a> {
    /// Key of the query.
    pub key: &'a [u8],
    /// Job that the query is about; that of the requester if no qualifier names one.
    pub job: JobId,
    /// Of which rank of it; of no certain one if this is [`WILDCARD`].
    pub rank: u32,
    /// Qualifiers of the query.
    pub qualifiers: List<'a>,
    /// Process that sent the query.
    requester: ProcId,
}

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixServer<'_, P, S> {
    /// Answers a query that was handed to the owner ([`HostRequest`](crate::server::Event::HostRequest)).
    ///
    /// `own` is called for every item that is not answered here: it writes the type of a value and the
    /// value, the same at each call, or returns the status of a refusal.
    ///
    /// # Errors
    ///
    /// [`Misuse::NoSuch`] if the session does not wait for the answer to a query there, or if
    /// its [`request`](super::PmixServerRef::request) was read already.
    pub fn answer_query(
        &mut self,
        id: SessionId,
        pending: usize,
        own: impl Fn(&QueryItem<'_>, &mut Packer<'_>) -> Result<(), Status>,
    ) -> Result<(), Misuse> {
        let missing = Misuse::NoSuch { what: "query" };
        let session = self.sessions.pmix(id).ok_or(missing)?;
        let Session { state, .. } = session;
        let (place, requester) =
            state.host_request(pending).zip(state.protocol.peer).ok_or(missing)?;
        let Some(Request::Query(queries)) = session.request() else { return Err(missing) };
        let response = self.shared.query_response(&queries, requester, state.protocol.format, own);
        self.sessions.resolve(id, place, response);
        Ok(())
    }
}

impl<S: Storage> Shared<S> {
    /// Answers a query; `None` if the owner has to be asked for a part of it.
    pub(super) fn query(
        &self,
        state: &PmixSessionStateOf<S::Pmix>,
        requester: ProcId,
        queries: &List<'_>,
    ) -> Option<PmixResponse<BytesOf<S>>> {
        if let Err(status) = check(queries) {
            return Some(PmixResponse::Status(status));
        }
        let mut is_all_known = true;
        self.each(queries, requester, |question| {
            let mut counted = Packer::new(&mut [], state.protocol.format);
            let answered = question.and_then(|question| self.answer(&question, &mut counted));
            is_all_known &= answered != Err(Status::NOT_SUPPORTED);
        });
        is_all_known.then(|| {
            self.query_response(queries, requester, state.protocol.format, |_, _| unknown())
        })
    }

    /// The whole answer.
    fn query_response(
        &self,
        queries: &List<'_>,
        requester: ProcId,
        format: Format,
        own: impl Fn(&QueryItem<'_>, &mut Packer<'_>) -> Result<(), Status>,
    ) -> PmixResponse<BytesOf<S>> {
        let entry = |question: &QueryItem<'_>, to: &mut Packer<'_>| {
            to.text(Some(question.key)).u32(0);
            match self.answer(question, to) {
                Err(Status::NOT_SUPPORTED) => own(question, to),
                answered => answered,
            }
        };
        let (mut asked, mut answered, mut refusal) = (0_u32, 0_u32, Status::NOT_SUPPORTED);
        self.each(queries, requester, |question| {
            asked = asked.saturating_add(1);
            let mut counted = Packer::new(&mut [], format);
            match question.and_then(|question| entry(&question, &mut counted)) {
                Ok(()) => answered = answered.saturating_add(1),
                Err(Status::NOT_SUPPORTED) => {}
                Err(other) => refusal = other,
            }
        });
        let status = match answered {
            0 => refusal,
            all if all == asked => Status::SUCCESS,
            _ => Status::QUERY_PARTIAL_SUCCESS,
        };
        let answer = pack(format, |to| {
            to.one(Type::STATUS).i32(status.0).one(Type::SIZE).size(u64::from(answered));
            if answered > 0 {
                to.op(Type::INFO, answered);
            }
            self.each(queries, requester, |question| {
                let Ok(question) = question else { return };
                let mut counted = Packer::new(&mut [], format);
                if entry(&question, &mut counted).is_ok() {
                    // It went well a moment ago.
                    let _ = entry(&question, to);
                }
            });
        });
        PmixResponse::body(answer)
    }

    /// Calls `with` for each item of a request, in order.
    fn each<'q>(
        &self,
        queries: &List<'q>,
        requester: ProcId,
        mut with: impl FnMut(Result<QueryItem<'q>, Status>),
    ) {
        for Query { keys, qualifiers } in queries.each(Type::QUERY, Query::read) {
            let about = self.about(&qualifiers, requester.job);
            for key in keys.iter() {
                with(about.map(|(job, rank)| QueryItem { key, job, rank, qualifiers, requester }));
            }
        }
    }

    /// The job and the rank that qualifiers name.
    fn about(&self, qualifiers: &List<'_>, own: JobId) -> Result<(JobId, u32), Status> {
        let is_strange =
            |info: &Info<'_>| info.flags & flags::REQUIRED != 0 && !QUALIFIERS.contains(&info.key);
        if qualifiers.infos().any(|info| is_strange(&info)) {
            return Err(Status::NOT_SUPPORTED);
        }
        let proc = qualifiers.find(keys::PROC_ID).and_then(|value| value.proc());
        let nspace = qualifiers.find(keys::NSPACE).and_then(|value| value.text());
        let nspace = nspace.or(proc.map(|proc| proc.nspace));
        let job = match nspace {
            Some(nspace) => self.named(nspace).ok_or(Status::NOT_FOUND)?,
            None => own,
        };
        let rank = qualifiers.find(keys::RANK).and_then(|value| value.number());
        let rank = rank.and_then(|rank| u32::try_from(rank).ok()).or(proc.map(|proc| proc.rank));
        let rank = rank.unwrap_or(WILDCARD);
        match rank == WILDCARD || self.ranks(job).contains(&rank) {
            true => Ok((job, rank)),
            false => Err(Status::NOT_FOUND),
        }
    }

    /// Writes the type of a value and the value, if it is known here.
    fn answer(&self, question: &QueryItem<'_>, to: &mut Packer<'_>) -> Result<(), Status> {
        match question.key {
            keys::QUERY_NAMESPACES => {
                to.of(Type::STRING).list(self.views().map(|(name, _)| name));
            }
            keys::QUERY_NAMESPACE_INFO => self.describe_all(to),
            // There are no sets of processes, which is no error.
            keys::QUERY_NUM_PSETS => {
                to.of(Type::SIZE).size(0);
            }
            keys::QUERY_PSET_NAMES => {
                to.of(Type::STRING).text(None);
            }
            keys::QUERY_PSET_MEMBERSHIP => return Err(Status::NOT_FOUND),
            keys::QUERY_NUM_GROUPS | keys::QUERY_GROUP_NAMES | keys::QUERY_GROUP_MEMBERSHIP => {
                return self.grouped(question, to);
            }
            key if keys::is_reserved(key) => return self.described(question, to),
            _ => return self.posted(question, to),
        }
        Ok(())
    }

    /// The jobs that PMIx clients know of, with their names.
    fn views(&self) -> impl Iterator<Item = (&[u8], &NamespaceOf<S::Pmix>)> + Clone {
        let name = move |of: &NamespaceOf<S::Pmix>| Some(self.job(of.job)?.name().as_bytes());
        self.namespaces().filter_map(move |namespace| Some((name(namespace)?, namespace)))
    }

    /// Every job with its processes.
    fn describe_all(&self, to: &mut Packer<'_>) {
        let count = self.views().count() as u64;
        to.of(Type::DATA_ARRAY).of(Type::INFO).size(count);
        for (nspace, namespace) in self.views() {
            let line = namespace.find(WILDCARD, keys::APP_ARGV).and_then(|line| line.text());
            let ranks = self.ranks(namespace.job);
            let size = ranks.end - ranks.start;
            to.text(Some(keys::JOB_ARRAY)).u32(0).of(Type::DATA_ARRAY).of(Type::INFO);
            to.size(3 + u64::from(size));
            to.text(Some(keys::NSPACE)).u32(0).of(Type::STRING).text(Some(nspace));
            to.text(Some(keys::COMMAND_LINE)).u32(0).of(Type::STRING).text(line);
            to.text(Some(keys::JOB_SIZE)).u32(0).of(Type::UINT32).u32(size);
            for rank in ranks {
                let known = [keys::HOSTNAME, keys::LOCAL_RANK];
                let known =
                    || known.iter().filter_map(|key| Some((key, namespace.find(rank, key)?)));
                to.text(Some(keys::PROC_DATA)).u32(0).of(Type::DATA_ARRAY).of(Type::INFO);
                to.size(1 + known().count() as u64);
                to.text(Some(keys::RANK)).u32(0).of(Type::PROC_RANK).u32(rank);
                for (key, value) in known() {
                    to.text(Some(key)).u32(0).of(value.of);
                    // The server packed the description, so no value has an unknown type.
                    let _ = value.write(to);
                }
            }
        }
    }

    /// Answers from the job description.
    fn described(&self, question: &QueryItem<'_>, to: &mut Packer<'_>) -> Result<(), Status> {
        let namespace = self.pmix.namespace(question.job).ok_or(Status::NOT_FOUND)?;
        let nodes = || question.nodes();
        if nodes().next().is_some() {
            // A tool that names no job means all of them: its own one has no processes on a node.
            let is_meant =
                |other: &&NamespaceOf<S::Pmix>| namespace.is_tool || other.job == question.job;
            let found = || {
                let kvals = self.namespaces().filter(is_meant).flat_map(|one| one.kvals());
                let arrays = kvals.filter(|kval| kval.key == keys::NODE_ARRAY);
                let arrays = arrays.filter_map(|kval| kval.value.array());
                let arrays = arrays.filter(|array| nodes().any(|node| is_node(array, &node)));
                arrays.filter_map(|array| array.find(question.key))
            };
            if let Some(first) = found().next() {
                return write_all(question.key, first, found, to);
            }
        }
        match namespace.find(question.rank, question.key) {
            Some(value) => {
                // As above: none is of an unknown type.
                let _ = value.write(to.of(value.of));
                Ok(())
            }
            None => Err(Status::NOT_SUPPORTED),
        }
    }

    /// Answers from the groups.
    fn grouped(&self, question: &QueryItem<'_>, to: &mut Packer<'_>) -> Result<(), Status> {
        let groups = &self.pmix.groups;
        let all = || {
            (0..groups.end()).filter_map(|at| groups.get(at).filter(|group| group.is_complete()))
        };
        let count = all().count() as u64;
        match question.key {
            keys::QUERY_NUM_GROUPS => {
                to.of(Type::SIZE).size(count);
            }
            keys::QUERY_GROUP_NAMES => {
                to.of(Type::DATA_ARRAY).of(Type::STRING).size(count);
                for group in all() {
                    to.text(Some(group.name.as_ref()));
                }
            }
            _ => {
                let name = question.qualifiers.find(keys::GROUP_NAME).and_then(|name| name.text());
                let name = name.ok_or(Status::BAD_PARAM)?;
                let group = all().find(|group| group.name.as_ref() == name);
                let members = group.ok_or(Status::NOT_FOUND)?.members.as_ref();
                to.of(Type::DATA_ARRAY).of(Type::PROC).size(count_procs(members) as u64);
                self.write_procs(members, to);
            }
        }
        Ok(())
    }

    /// Answers from the committed data of a process.
    fn posted(&self, question: &QueryItem<'_>, to: &mut Packer<'_>) -> Result<(), Status> {
        let namespace = self.pmix.namespace(question.job).ok_or(Status::NOT_FOUND)?;
        let of = ProcId { job: question.job, rank: Rank(question.rank) };
        let is_local = self.node(of) == self.node(question.requester);
        let blob = namespace.rank_data(of.rank).and_then(|data| data.seen(is_local));
        let remote = self.remote_blob(of);
        let kvals = blob.map(ModexBlob::kvals).or(remote.as_ref().map(ModexBlob::kvals));
        let value = kvals.and_then(|kvals| kvals.find(question.key));
        let value = value.ok_or(Status::NOT_FOUND)?;
        value.write(to.of(value.of)).map_err(|_| Status::NOT_SUPPORTED)
    }
}

impl<'a> QueryItem<'a> {
    /// Qualifiers that name nodes.
    pub fn nodes(&self) -> impl Iterator<Item = Info<'a>> + use<'a> {
        let is_node = |info: &Info<'_>| [keys::HOSTNAME, keys::NODEID].contains(&info.key);
        self.qualifiers.infos().filter(move |info| is_node(info))
    }
}

/// Writes the values of several nodes as one: lists are concatenated, numbers of processes are
/// added.
fn write_all<'a, F, I>(
    key: &[u8],
    first: Value<'a>,
    all: F,
    to: &mut Packer<'_>,
) -> Result<(), Status>
where
    F: Fn() -> I,
    I: Iterator<Item = Value<'a>> + Clone,
{
    let unreadable = |_| Status::NOT_SUPPORTED;
    match first.of {
        _ if all().nth(1).is_none() => first.write(to.of(first.of)).map_err(unreadable),
        Type::STRING => {
            to.of(Type::STRING).list(all().filter_map(|value| value.text()));
            Ok(())
        }
        Type::DATA_ARRAY => {
            let arrays = || all().filter_map(|value| value.array());
            let of = arrays().next().map_or(Type::UNDEF, |array| array.of);
            let arrays = || arrays().filter(|array| array.of == of);
            let count = arrays().map(|array| u64::from(array.count)).sum();
            to.of(Type::DATA_ARRAY).of(of).size(count);
            for array in arrays() {
                let mut from = Unpacker::new(array.bytes, array.format);
                for _ in 0..array.count {
                    from.copy(of, to).map_err(unreadable)?;
                }
            }
            Ok(())
        }
        Type::UINT32 if [keys::NODE_SIZE, keys::LOCAL_SIZE].contains(&key) => {
            let sum: i64 = all().filter_map(|value| value.number()).sum();
            to.of(Type::UINT32).u32(u32::try_from(sum).unwrap_or(u32::MAX));
            Ok(())
        }
        // Other values of several nodes have no common form.
        _ => Err(Status::NOT_SUPPORTED),
    }
}

/// Rejects requests without keys or with too many.
fn check(queries: &List<'_>) -> Result<(), Status> {
    let asked = queries.each(Type::QUERY, Query::read).map(|query| query.keys.iter().count());
    match asked.sum::<usize>() {
        0 => Err(Status::BAD_PARAM),
        KEYS_MORE.. => Err(Status::OUT_OF_RESOURCE),
        _ => Ok(()),
    }
}

const fn unknown() -> Result<(), Status> {
    Err(Status::NOT_SUPPORTED)
}

/// Supported qualifiers.
const QUALIFIERS: &[&[u8]] = &[
    keys::GROUP_NAME,
    keys::NSPACE,
    keys::RANK,
    keys::PROC_ID,
    keys::HOSTNAME,
    keys::NODEID,
    keys::APPNUM,
    keys::NODE_INFO,
    keys::APP_INFO,
    keys::SESSION_INFO,
    keys::JOB_INFO,
    keys::QUERY_REFRESH,
    keys::QUERY_LOCAL_ONLY,
    keys::QUERY_AVERAGE,
    keys::QUERY_MIN_MAX,
];

/// Exclusive upper bound of the keys of a request, whose answer is much longer than the request.
const KEYS_MORE: usize = 257;
