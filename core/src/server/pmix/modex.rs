//! Modex: data committed by ranks, and its visibility by scope.

use super::shared_bytes::{SharedBytes, pack};
use crate::ids::{Rank, SessionId};
use crate::server::roster::Ranked;
use crate::wire::pmix::names::Status;
use crate::wire::pmix::{Format, Kval, Kvals, Packer, Proc, Type, Unpacker};

/// Data of a rank of this node by scope, and the number of its sessions.
///
/// Values of scope `GLOBAL` are in both blobs.
#[derive(Clone, Debug)]
pub struct RankData<B> {
    /// The rank; `None` if it is the index among the ranks of the job.
    rank: Option<Rank>,
    pub(super) local: Option<ModexBlob<B>>,
    pub(super) remote: Option<ModexBlob<B>>,
    /// Number of the fence that carries `remote` to the other nodes, from 1; 0 before the first commit.
    pub(super) fence: u32,
    /// Number of commits into `remote`.
    pub(super) version: u32,
    /// Number of commits into `local`.
    pub(super) local_version: u32,
    /// True if other nodes may have an earlier version of `remote`.
    pub(super) is_elsewhere: bool,
    /// Requests of other nodes for data that the rank has not committed.
    pub(super) fetches: PendingFetches,
    /// Group contributions of the rank: KVALs in [`Format::PLAIN`], the latest last.
    pub(super) contributed: Option<B>,
    /// The first session admitted as this rank, which links the others.
    pub(super) first_session: Option<SessionId>,
    /// True if a get may wait for data of this rank.
    pub(super) is_awaited: bool,
    /// Number of sessions admitted as this rank and not finalized.
    pub(super) sessions: u32,
    /// True if a session was ever admitted as this rank.
    pub(super) was_admitted: bool,
}

/// Requests of other nodes for data that a rank has not committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PendingFetches {
    None,
    Waiting,
    /// The rank has committed data since, or is gone, and the owner has not been told.
    Due,
}

/// Values that were posted, as one answer to a get: a status, and one object of the process and its
/// KVALs.
#[derive(Clone, Debug)]
pub struct ModexBlob<B> {
    pub(super) answer: B,
    /// Wire format of the blob: that of its process.
    pub(super) format: Format,
}

impl<B> Default for RankData<B> {
    fn default() -> Self {
        Self {
            rank: None,
            local: None,
            remote: None,
            fence: 0,
            version: 0,
            local_version: 0,
            is_elsewhere: false,
            fetches: PendingFetches::None,
            contributed: None,
            first_session: None,
            is_awaited: false,
            sessions: 0,
            was_admitted: false,
        }
    }
}

impl<B> RankData<B> {
    /// Data of a rank of a job that has ranks on several nodes, like
    /// [`Member::with_rank`](crate::server::Member::with_rank).
    pub fn of(rank: Rank) -> Self {
        Self { rank: Some(rank), ..Self::default() }
    }
}

impl<B> Ranked for RankData<B> {
    fn rank(&self) -> Option<Rank> {
        self.rank
    }
}

impl<B: SharedBytes> RankData<B> {
    /// Blob that is visible on the node of the rank, or on other nodes.
    pub(super) const fn seen(&self, is_local: bool) -> Option<&ModexBlob<B>> {
        if is_local { self.local.as_ref() } else { self.remote.as_ref() }
    }

    /// Stores a group contribution, and drops the oldest ones beyond the limit.
    pub(super) fn contribute(&mut self, write: impl Fn(&mut Packer<'_>)) {
        let Some(fresh) = pack::<B>(Format::PLAIN, write) else { return };
        let room = CONTRIBUTED_BYTES.saturating_sub(fresh.as_ref().len());
        let mut old =
            Kvals::new(self.contributed.as_ref().map_or(b"", AsRef::as_ref), Format::PLAIN);
        while old.rest().len() > room && old.next().is_some() {}
        let both = pack(Format::PLAIN, |to| {
            to.raw(old.rest()).raw(fresh.as_ref());
        });
        self.contributed = both.or(Some(fresh));
    }

    /// Group contributions of the rank under a key.
    pub(super) fn contributed(&self, key: &[u8]) -> impl Iterator<Item = Kval<'_>> {
        let all = Kvals::new(self.contributed.as_ref().map_or(b"", AsRef::as_ref), Format::PLAIN);
        all.map_while(Result::ok).filter(move |kval| is_about(kval, key))
    }
}

impl<B: AsRef<[u8]>> ModexBlob<B> {
    /// The values.
    pub(super) fn kvals(&self) -> Kvals<'_> {
        let nothing = Kvals::new(b"", self.format);
        let mut from = Unpacker::new(self.answer.as_ref(), self.format);
        let object = (|| {
            from.one(Type::STATUS)?.i32()?;
            from.one(Type::BYTE_OBJECT)?.blob()
        })();
        let Ok(object) = object else { return nothing };
        let mut from = Unpacker::new(object, self.format);
        match from.one(Type::PROC).and_then(Proc::read) {
            Ok(_) => Kvals::after(from),
            Err(_) => nothing,
        }
    }

    /// True if the blob has a value under this key, or if no key is given.
    pub(super) fn has(&self, key: Option<&[u8]>) -> bool {
        match key {
            None => true,
            Some(key) => self.kvals().find(key).is_some(),
        }
    }

    /// The answer in a format; `share` makes it of the blob if that is in the same one.
    ///
    /// # Errors
    ///
    /// Status without room for it, or for a value that cannot be written so.
    pub(super) fn answer_in<A: SharedBytes>(
        &self,
        format: Format,
        owner: Proc<'_>,
        share: impl Fn(&B) -> Option<A>,
    ) -> Result<A, Status> {
        if format == self.format {
            return share(&self.answer).ok_or(Status::NOMEM);
        }
        let mut kvals = self.kvals();
        let is_known = kvals.by_ref().all(|kval| kval.is_ok());
        if !is_known {
            return Err(Status::NOT_SUPPORTED);
        }
        pack(format, |to| {
            to.one(Type::STATUS).i32(Status::SUCCESS.0);
            self.write_object(owner, to);
        })
        .ok_or(Status::NOMEM)
    }

    /// Writes the object of an answer.
    pub(super) fn write_object(&self, owner: Proc<'_>, to: &mut Packer<'_>) {
        to.one(Type::BYTE_OBJECT).nested(|to| {
            owner.write(to.one(Type::PROC));
            self.write_kvals(to);
        });
    }

    /// Writes the values.
    pub(super) fn write_kvals(&self, to: &mut Packer<'_>) {
        for kval in self.kvals().map_while(Result::ok) {
            // It was read, so it can be written.
            let _ = kval.write(to);
        }
    }
}

/// True for a group contribution under this key.
pub(super) fn is_about(kval: &Kval<'_>, key: &[u8]) -> bool {
    let first = kval.value.array().and_then(|array| array.infos().next());
    first.is_some_and(|first| first.key == key)
}

/// Merges the previous blob, without replaced values, with the new values.
pub(super) fn merge<B: SharedBytes>(
    old: Option<&ModexBlob<B>>,
    owner: Proc<'_>,
    fresh: &[u8],
    format: Format,
) -> Option<ModexBlob<B>> {
    // Readers take the last value of a key, so that what is replaced may stay; it goes where looking
    // for it takes no long time.
    let old_count = old.map_or(0, |old| old.kvals().take(REPLACED_MAX).count());
    let fresh_count = Kvals::new(fresh, format).take(REPLACED_MAX).count();
    let drops_replaced = old_count.saturating_mul(fresh_count) < REPLACED_MAX;
    let is_replaced =
        |kval: &Kval<'_>| drops_replaced && Kvals::new(fresh, format).find(kval.key).is_some();
    // Mostly nothing is replaced, and all of it can be read: then it stays byte for byte.
    let untouched = old.filter(|old| old.format == format).and_then(|old| {
        let mut kvals = old.kvals();
        let all = kvals.rest();
        let is_touched = kvals.by_ref().map_while(Result::ok).any(|kval| is_replaced(&kval));
        (!is_touched && kvals.rest().is_empty()).then_some(all)
    });
    let answer = pack(format, |to| {
        to.one(Type::STATUS).i32(Status::SUCCESS.0).one(Type::BYTE_OBJECT).nested(|to| {
            owner.write(to.one(Type::PROC));
            if let Some(old) = untouched {
                to.raw(old).raw(fresh);
            } else if let Some(old) = old {
                let mut kvals = old.kvals();
                for kval in kvals.by_ref().map_while(Result::ok) {
                    if !is_replaced(&kval) {
                        let _ = kval.write(to);
                    }
                }
                to.raw(fresh);
                // A value of unknown type, and all bytes after it.
                if old.format == format {
                    to.raw(kvals.rest());
                }
            } else {
                to.raw(fresh);
            }
        });
    })?;
    Some(ModexBlob { answer, format })
}

/// Upper bound of the stored group contributions of a rank: enough for more than a thousand groups.
const CONTRIBUTED_BYTES: usize = 64 << 10;

/// Upper bound of the number of key pairs that are compared.
const REPLACED_MAX: usize = 1 << 16;
