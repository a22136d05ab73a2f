//! Job-level information on request: realms (node, application, session), refreshed data of a process, the
//! processes of a job on a node, and the nodes of a job.

use super::namespace::Namespace;
use super::rank_data::RankData;
use super::session::PmixResponse;
use super::shared_bytes::{SharedBytes, pack};
use super::tables::{BytesOf, NamespaceOf, PmixSessionStateOf};
use crate::ids::{ProcId, Rank};
use crate::server::Storage;
use crate::server::shared::Shared;
use crate::wire::pmix::names::{Status, keys};
use crate::wire::pmix::request::Get;
use crate::wire::pmix::{Info, List, Packer, Proc, Type, Value, WILDCARD};

impl<S: Storage> Shared<S> {
    /// Answers REQ.
    pub(super) fn describe(
        &mut self,
        state: &PmixSessionStateOf<S::Pmix>,
        peer: ProcId,
    ) -> PmixResponse<BytesOf<S>> {
        let Some((job, namespace)) = self.job_and_namespace(peer.job) else {
            return PmixResponse::Status(Status::NOT_FOUND);
        };
        let format = (state.protocol.format, state.protocol.release);
        let response = namespace.describe(
            job.name().as_bytes(),
            peer.rank,
            format,
            state.protocol.reads_store,
        );
        response.unwrap_or(PmixResponse::Status(Status::NOMEM))
    }
}

impl<S: Storage> Shared<S> {
    /// Answers a get about this namespace that asks about a realm; `None` if it asks about processes or jobs.
    ///
    /// The realm is the one that the get names, else that of the process it asks about, else that
    /// of the requester.
    pub(super) fn get_realm(
        &self,
        state: &PmixSessionStateOf<S::Pmix>,
        requester: ProcId,
        namespace: Option<&NamespaceOf<S::Pmix>>,
        get: &Get<'_>,
    ) -> Option<PmixResponse<BytesOf<S>>> {
        let realms = [
            (keys::NODE_INFO, keys::NODE_ARRAY),
            (keys::APP_INFO, keys::APP_ARRAY),
            (keys::SESSION_INFO, keys::SESSION_ARRAY),
        ];
        let (_, realm) = realms.into_iter().find(|(asked, _)| get.infos.is_set(asked))?;
        let not_found = Some(PmixResponse::Status(Status::NOT_FOUND));
        let Some(namespace) = namespace else { return not_found };
        let own = match get.rank < WILDCARD {
            true => Some((namespace, get.rank)),
            false => self.pmix.namespace(requester.job).map(|own| (own, requester.rank.0)),
        };
        let is_it = |array: &List<'_>| is_realm(array, realm, &get.infos, own);
        let has_key = |array: &List<'_>| get.key.is_none_or(|key| array.find(key).is_some());
        // The hardware of a node is in an array of its own.
        let mut arrays = namespace.kvals().filter(|kval| kval.key == realm);
        let found = arrays
            .find(|kval| kval.value.array().is_some_and(|array| is_it(&array) && has_key(&array)));
        let Some(kval) = found else { return not_found };
        let answer = pack(state.protocol.format, |to| {
            to.one(Type::STATUS).i32(Status::SUCCESS.0).one(Type::BYTE_OBJECT).nested(|to| {
                Proc { nspace: get.nspace, rank: WILDCARD }.write(to.one(Type::PROC));
                // The server packed the description, so no value has an unknown type.
                let _ = kval.write(to);
            });
        });
        Some(PmixResponse::body(answer))
    }

    /// Answers with the current data of a process or of a job.
    pub(super) fn refresh(
        &self,
        state: &PmixSessionStateOf<S::Pmix>,
        requester: ProcId,
        nspace: &[u8],
        rank: u32,
    ) -> PmixResponse<BytesOf<S>> {
        let job = self.named(nspace);
        let Some(namespace) = job.and_then(|job| self.pmix.namespace(job)) else {
            return PmixResponse::Status(Status::NOT_FOUND);
        };
        let of = ProcId { job: namespace.job, rank: Rank(rank) };
        let is_local = self.node(of) == self.node(requester);
        let rank_data = namespace.rank_data(of.rank);
        let remote = self.remote_blob(of);
        if rank_data.is_none() && remote.is_none() && rank != WILDCARD {
            return PmixResponse::Status(Status::NOT_FOUND);
        }
        let answer = pack(state.protocol.format, |to| {
            to.one(Type::STATUS).i32(Status::SUCCESS.0);
            if rank == WILDCARD {
                namespace.write_kvals(to);
            }
            let blob = rank_data.and_then(|rank_data| rank_data.seen(is_local));
            blob.into_iter().for_each(|blob| blob.write_kvals(to));
            remote.iter().for_each(|blob| blob.write_kvals(to));
        });
        PmixResponse::body(answer)
    }
}

impl<S: Storage> Shared<S> {
    /// The processes on a node, by default that of the requester; of one job, or of all.
    pub(super) fn resolve_peers(
        &self,
        state: &PmixSessionStateOf<S::Pmix>,
        requester: ProcId,
        node: Option<&[u8]>,
        nspace: Option<&[u8]>,
    ) -> PmixResponse<BytesOf<S>> {
        if nspace.is_some_and(|name| self.named(name).is_none()) {
            return PmixResponse::Status(Status::NOT_FOUND);
        }
        let each = |with: &mut dyn FnMut(Proc<'_>)| match node {
            Some(node) => self.each_on(node, nspace, with),
            None => self.each_beside(requester, nspace, with),
        };
        let mut count = 0_u32;
        each(&mut |_| count = count.saturating_add(1));
        let is_known =
            node.is_none_or(|node| self.arrays(None).any(|(_, array)| is_named(&array, node)));
        if !is_known {
            return PmixResponse::Status(Status::NOT_FOUND);
        }
        let answer = pack(state.protocol.format, |to| {
            to.one(Type::STATUS).i32(Status::SUCCESS.0).one(Type::SIZE).size(u64::from(count));
            if count > 0 {
                to.op(Type::PROC, count);
                each(&mut |proc| proc.write(to));
            }
        });
        PmixResponse::body(answer)
    }

    /// The names of the nodes of a job, or of all jobs.
    pub(super) fn resolve_nodes(
        &self,
        state: &PmixSessionStateOf<S::Pmix>,
        nspace: Option<&[u8]>,
    ) -> PmixResponse<BytesOf<S>> {
        if nspace.is_some_and(|name| self.named(name).is_none()) {
            return PmixResponse::Status(Status::NOT_FOUND);
        }
        let names = || {
            let arrays = self.arrays(nspace);
            arrays.filter_map(|(_, array)| array.find(keys::HOSTNAME)?.text())
        };
        // Jobs share nodes, and each is named once.
        let once = names().enumerate();
        let once = once.filter(|(at, name)| names().take(*at).all(|before| before != *name));
        let answer = pack(state.protocol.format, |to: &mut Packer<'_>| {
            to.one(Type::STATUS).i32(Status::SUCCESS.0);
            to.one(Type::STRING).list(once.clone().map(|(_, name)| name));
        });
        PmixResponse::body(answer)
    }

    /// The nodes of a job, or of all jobs, as their descriptions have them.
    fn arrays(&self, nspace: Option<&[u8]>) -> impl Iterator<Item = (&[u8], List<'_>)> + Clone {
        let namespaces = self.namespaces().filter_map(move |namespace| {
            let name = self.job(namespace.job)?.name().as_bytes();
            nspace.is_none_or(|target| target == name).then_some((name, namespace))
        });
        namespaces.flat_map(|(name, namespace)| {
            let arrays = namespace.kvals().filter(|kval| kval.key == keys::NODE_ARRAY);
            arrays.filter_map(move |kval| Some((name, kval.value.array()?)))
        })
    }

    /// Calls `with` for each process on the node of this name.
    fn each_on(&self, node: &[u8], nspace: Option<&[u8]>, with: &mut dyn FnMut(Proc<'_>)) {
        for (_, array) in self.arrays(nspace).filter(|(_, array)| is_named(array, node)) {
            let procs = array.find(keys::LOCAL_PROCS).and_then(|value| value.array());
            procs.iter().flat_map(|procs| procs.procs()).for_each(&mut *with);
        }
    }

    /// Calls `with` for each process on the node of the requester.
    fn each_beside(
        &self,
        requester: ProcId,
        nspace: Option<&[u8]>,
        with: &mut dyn FnMut(Proc<'_>),
    ) {
        let node = self.node(requester);
        for job in self.namespaces().filter_map(|namespace| self.job(namespace.job)) {
            let name = job.name().as_bytes();
            if nspace.is_some_and(|target| target != name) {
                continue;
            }
            for (rank, member) in job.ranked() {
                if Some(member.node) == node {
                    with(Proc { nspace: name, rank: rank.0 });
                }
            }
        }
    }
}

/// True if the array describes the requested realm. `own` is the process whose realm applies if
/// none is named.
fn is_realm<B, M>(
    array: &List<'_>,
    realm: &[u8],
    infos: &List<'_>,
    own: Option<(&Namespace<B, M>, u32)>,
) -> bool
where
    B: SharedBytes,
    M: AsRef<[RankData<B>]>,
{
    let names = match realm {
        keys::NODE_ARRAY => &[keys::HOSTNAME, keys::NODEID][..],
        keys::APP_ARRAY => &[keys::APPNUM],
        _ => &[keys::SESSION_ID],
    };
    // A null pointer for the name of a node is no name.
    let is_name = |key: &[u8]| names.contains(&key);
    let named = infos.infos().find(|info| {
        is_name(info.key) && (info.value.number().is_some() || info.value.text().is_some())
    });
    if let Some(name) = named {
        if realm == keys::NODE_ARRAY {
            return is_node(array, &name);
        }
        let number = array.find(name.key).and_then(|value| value.number());
        return number.is_some() && number == name.value.number();
    }
    let same = |key: &&[u8]| {
        let of_own = own.and_then(|(namespace, rank)| namespace.find(rank, key));
        of_own.is_some_and(|value| array.find(key) == Some(value))
    };
    names.iter().any(same)
}

/// True if the array describes the node that an info names or numbers.
pub(super) fn is_node(array: &List<'_>, node: &Info<'_>) -> bool {
    if node.key == keys::NODEID {
        let number = |value: Value<'_>| value.number();
        return node.value.number().is_some()
            && array.find(keys::NODEID).and_then(number) == node.value.number();
    }
    node.value.text().is_some_and(|name| is_named(array, name))
}

/// True if the array describes the node with this name or alias.
pub(super) fn is_named(array: &List<'_>, name: &[u8]) -> bool {
    let aliases = array.find(keys::HOSTNAME_ALIASES).and_then(|value| value.text());
    let mut aliases = aliases.into_iter().flat_map(|list| list.split(|byte| *byte == b','));
    array.find(keys::HOSTNAME).and_then(|value| value.text()) == Some(name)
        || aliases.any(|alias| alias == name)
}
