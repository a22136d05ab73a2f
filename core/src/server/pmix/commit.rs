//! Commits: data of ranks for others.

use super::context::{PmixContext, PmixView};
use super::rank_data::{ModexBlob, merge};
use super::session::PmixResponse;
use super::shared_bytes::{SharedBytes, pack};
use super::tables::PmixStorage;
use crate::ids::{JobId, ProcId, Rank};
use crate::server::Storage;
use crate::wire::pmix::names::{Status, flags, scope};
use crate::wire::pmix::request::Get;
use crate::wire::pmix::{Format, Proc, Scopes, Type};

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixView<'_, P, S> {
    /// Finds group contributions of a process for a get; a qualifier of the get restricts them to
    /// one group. `None` if there are none.
    pub(super) fn find_contributed(
        self,
        format: Format,
        job: JobId,
        get: &Get<'_>,
    ) -> Option<PmixResponse<P::Bytes>> {
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

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixContext<'_, P, S> {
    /// Merges the values of a commit into the data of the rank.
    pub(super) fn commit(&mut self, peer: ProcId, format: Format, scopes: Scopes<'_>) -> Status {
        let Some(job) = self.common.job(peer.job) else { return Status::NOT_FOUND };
        let owner = Proc { nspace: job.name().as_bytes(), rank: peer.rank.0 };
        let fence = job.next_fence();
        // Nothing is stored of a commit that cannot be read to its end.
        if scopes.clone().any(|scope| scope.is_err()) {
            return Status::BAD_PARAM;
        }
        // Data of scope `GLOBAL` goes into both blobs, and is merged once.
        let mut constructed: Option<MergedScope<'_, P::Bytes>> = None;
        for (scope, fresh) in scopes.map_while(Result::ok) {
            let Some(rank_data) = self.pmix.rank_data_mut(peer) else { return Status::NOT_FOUND };
            if matches!(scope, scope::REMOTE | scope::GLOBAL) {
                // A fence that has ended or was handed up has the former version, unless that was kept here.
                rank_data.is_elsewhere |= rank_data.fence != 0 && rank_data.fence != fence;
                rank_data.fence = fence;
                rank_data.version = rank_data.version.wrapping_add(1);
            }
            if matches!(scope, scope::LOCAL | scope::GLOBAL) {
                rank_data.local_version = rank_data.local_version.wrapping_add(1);
            }
            let places: &mut [&mut Option<ModexBlob<P::Bytes>>] = match scope {
                scope::LOCAL => &mut [&mut rank_data.local],
                scope::REMOTE => &mut [&mut rank_data.remote],
                scope::GLOBAL => &mut [&mut rank_data.local, &mut rank_data.remote],
                _ => continue,
            };
            for place in places {
                let again = constructed
                    .as_ref()
                    .filter(|constructed| constructed.is_of(place.as_ref(), fresh));
                let blob = match again {
                    Some(constructed) => Some(constructed.blob.clone()),
                    None => merge(place.as_ref(), owner, fresh, format),
                };
                let Some(blob) = blob else { return Status::NOMEM };
                let old = place.replace(blob.clone());
                constructed = Some(MergedScope { old, fresh, blob });
            }
        }
        Status::SUCCESS
    }
}

/// Result of merging one scope, which is reused if the other scope has equal input.
struct MergedScope<'a, B> {
    old: Option<ModexBlob<B>>,
    fresh: &'a [u8],
    blob: ModexBlob<B>,
}

impl<B: SharedBytes> MergedScope<'_, B> {
    /// True if these inputs give the same blob.
    fn is_of(&self, old: Option<&ModexBlob<B>>, fresh: &[u8]) -> bool {
        let same_old = match (&self.old, old) {
            (None, None) => true,
            (Some(one), Some(other)) => {
                one.format == other.format && one.answer.as_ref() == other.answer.as_ref()
            }
            _ => false,
        };
        same_old && self.fresh == fresh
    }
}
