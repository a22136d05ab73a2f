//! Gets about a realm (node, application, session), and refreshed data of a process.

use super::context::PmixView;
use super::namespace::Namespace;
use super::query::is_node;
use super::rank_data::RankData;
use super::session::PmixResponse;
use super::shared_bytes::{SharedBytes, pack};
use super::tables::{NamespaceOf, PmixSessionStateOf, PmixStorage};
use crate::ids::{ProcId, Rank};
use crate::server::Storage;
use crate::wire::pmix::names::{Status, keys};
use crate::wire::pmix::request::Get;
use crate::wire::pmix::{Kval, List, Proc, Type, WILDCARD};

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixView<'_, P, S> {
    /// Answers a get about this namespace that asks about a realm; `None` if it asks about processes or jobs.
    ///
    /// The realm is the one that the get names, else that of the process it asks about, else that
    /// of the requester.
    pub(super) fn get_realm(
        self,
        state: &PmixSessionStateOf<P>,
        requester: ProcId,
        namespace: Option<&NamespaceOf<P>>,
        get: &Get<'_>,
    ) -> Option<PmixResponse<P::Bytes>> {
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
        let mut arrays = namespace.kvals().filter(|kval| kval.key == realm);
        let found = arrays.find(|kval| kval.value.array().is_some_and(|array| is_it(&array)));
        let has_key = |kval: &Kval<'_>| {
            let array = kval.value.array();
            get.key.is_none_or(|key| array.is_some_and(|array| array.find(key).is_some()))
        };
        let Some(kval) = found.filter(has_key) else { return not_found };
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
        self,
        state: &PmixSessionStateOf<P>,
        requester: ProcId,
        nspace: &[u8],
        rank: u32,
    ) -> PmixResponse<P::Bytes> {
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
