//! Data that ranks have committed for others: of ranks here by scope, and of ranks on other nodes.

use super::shared_bytes::{SharedBytes, pack};
use crate::error::Malformed;
use crate::ids::{Rank, SessionId};
use crate::server::roster::Ranked;
use crate::storage::copy;
use crate::store::{BlockError, BlockReader, BlockRecord};
use crate::wire::pmix::names::Status;
use crate::wire::pmix::{Family, Format, Kval, Kvals, Packer, Proc, Type, Unpacker};

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

/// Committed data of ranks on other nodes: one block of records, and an index by rank. Ranks without data
/// take no memory.
#[derive(Debug)]
pub(super) struct RemoteModex<B> {
    /// One [`BlockRecord::Modex`] for each rank.
    pub(super) block: Option<B>,
    /// Entries of eight bytes, in the order of ranks: the rank, and the offset of its record.
    index: Option<B>,
    /// Group contributions: the rank and a KVAL of each, in [`Format::PLAIN`], the latest last.
    contributed: Option<B>,
}

impl<B: SharedBytes> RemoteModex<B> {
    pub(super) const fn new() -> Self {
        Self { block: None, index: None, contributed: None }
    }

    /// Data of a rank.
    pub(super) fn find(&self, rank: Rank) -> Option<ModexBlob<&[u8]>> {
        match self.record(rank)? {
            BlockRecord::Modex { format: of, data, .. } => {
                Some(ModexBlob { answer: data, format: numbered_format(of)? })
            }
            BlockRecord::Pair { .. } => None,
        }
    }

    fn record(&self, rank: Rank) -> Option<BlockRecord<'_>> {
        let (block, index) = self.block.as_ref().zip(self.index.as_ref())?;
        let (entries, _) = index.as_ref().as_chunks::<ENTRY_BYTES>();
        let place = entries.binary_search_by_key(&rank, |entry| unpack(*entry).0).ok()?;
        let (_, at) = unpack(*entries.get(place)?);
        Some(BlockRecord::read(block.as_ref(), at as usize).ok()?.0)
    }

    /// True if this version of the data of a rank is later than the present one. Data that was fetched may
    /// be later than that of the fence which ends next.
    fn is_later(&self, rank: Rank, version: u32) -> bool {
        match self.record(rank) {
            Some(BlockRecord::Modex { version: present, .. }) => {
                matches!(version.wrapping_sub(present), 1..=LATER_MAX)
            }
            _ => true,
        }
    }

    /// Stores the group contributions that `write` packs as a rank and a nested KVAL each, and drops the
    /// oldest ones beyond the limit.
    pub(super) fn contribute(&mut self, write: impl Fn(&mut Packer<'_>)) {
        let Some(fresh) = pack::<B>(Format::PLAIN, write) else { return };
        let room = REMOTE_CONTRIBUTED_BYTES.saturating_sub(fresh.as_ref().len());
        let old = self.contributed.as_ref().map_or(&b""[..], AsRef::as_ref);
        let mut from = Unpacker::new(old, Format::PLAIN);
        while from.rest().len() > room && next_contribution(&mut from).is_some() {}
        let both = pack(Format::PLAIN, |to| {
            to.raw(from.rest()).raw(fresh.as_ref());
        });
        self.contributed = both.or(Some(fresh));
    }

    /// Group contributions of a rank under a key.
    pub(super) fn contributed(&self, rank: Rank, key: &[u8]) -> impl Iterator<Item = Kval<'_>> {
        let all = self.contributed.as_ref().map_or(&b""[..], AsRef::as_ref);
        let mut from = Unpacker::new(all, Format::PLAIN);
        let all = core::iter::from_fn(move || next_contribution(&mut from));
        all.filter(move |(of, kval)| *of == rank && is_about(kval, key)).map(|(_, kval)| kval)
    }

    /// Adds the data of ranks that `is_remote` holds for, in place of earlier versions of it.
    pub(super) fn add(
        &mut self,
        block: &[u8],
        is_remote: impl Fn(Rank) -> bool,
    ) -> Result<(), BlockError> {
        let mut reader = BlockReader::new(block);
        while let Some((at, record)) = next(&mut reader) {
            if let BlockRecord::Modex { format: of, .. } = record?
                && numbered_format(of).is_none()
            {
                let expected = "the number of a format of committed data";
                return Err(BlockError::Malformed(Malformed::new(at, expected)));
            }
        }
        let is_fresh =
            |one: &ModexRecord<'_>| is_remote(one.writer) && self.is_later(one.writer, one.version);
        let fresh = || modex(block).filter(is_fresh);
        if fresh().next().is_none() {
            return Ok(());
        }
        let fresh_index: B = index(fresh).ok_or(BlockError::NoRoom)?;
        let is_replaced = |rank: Rank| {
            let (entries, _) = fresh_index.as_ref().as_chunks::<ENTRY_BYTES>();
            entries.binary_search_by_key(&rank, |entry| unpack(*entry).0).is_ok()
        };
        // The last record of a rank holds; a node contributes one for each.
        let is_last = |at: usize, rank: Rank| {
            let (entries, _) = fresh_index.as_ref().as_chunks::<ENTRY_BYTES>();
            let behind = entries.partition_point(|entry| unpack(*entry).0 <= rank);
            let last = behind.checked_sub(1).and_then(|last| entries.get(last));
            last.is_some_and(|last| unpack(*last).1 as usize == at)
        };
        let old = self.block.as_ref().map_or(&b""[..], AsRef::as_ref);
        let kept = || modex(old).filter(|one| !is_replaced(one.writer));
        let all = || {
            let fresh = fresh().filter(|one| is_last(one.at, one.writer));
            kept().chain(fresh).map(|one| one.bytes)
        };
        let merged: B = B::make(all().map(<[u8]>::len).sum(), |bytes| {
            let mut at = 0;
            for record in all() {
                copy(bytes.get_mut(at..).unwrap_or_default(), record);
                at += record.len();
            }
        })
        .ok_or(BlockError::NoRoom)?;
        let merged_index = index(|| modex(merged.as_ref())).ok_or(BlockError::NoRoom)?;
        (self.block, self.index) = (Some(merged), Some(merged_index));
        Ok(())
    }
}

/// The next group contribution.
fn next_contribution<'a>(from: &mut Unpacker<'a>) -> Option<(Rank, Kval<'a>)> {
    if from.is_empty() {
        return None;
    }
    let rank = Rank(from.u32().ok()?);
    Some((rank, Kval::read(&mut Unpacker::new(from.blob().ok()?, Format::PLAIN)).ok()?))
}

/// The record of data of a rank.
pub(super) fn record_of<B: AsRef<[u8]>>(
    writer: Rank,
    version: u32,
    blob: &ModexBlob<B>,
) -> BlockRecord<'_> {
    BlockRecord::Modex {
        writer,
        version,
        format: format_number(blob.format),
        data: blob.answer.as_ref(),
    }
}

/// Packs the ranks and offsets of records, in their order.
fn index<'a, B: SharedBytes, I: Iterator<Item = ModexRecord<'a>>>(
    records: impl Fn() -> I,
) -> Option<B> {
    B::make(records().count() * ENTRY_BYTES, |bytes| {
        let (entries, _) = bytes.as_chunks_mut::<ENTRY_BYTES>();
        for (entry, ModexRecord { at, writer, .. }) in entries.iter_mut().zip(records()) {
            // Offsets of the blocks that arrive have 32 bits, as their lengths do.
            let at = u32::try_from(at).unwrap_or(u32::MAX);
            *entry = (u64::from(writer.0) << 32 | u64::from(at)).to_be_bytes();
        }
        entries.sort_unstable();
    })
}

/// A record of committed data in a block.
struct ModexRecord<'a> {
    /// Offset of the record.
    at: usize,
    writer: Rank,
    version: u32,
    /// The whole record.
    bytes: &'a [u8],
}

/// Committed data in a block, which has been checked.
fn modex(block: &[u8]) -> impl Iterator<Item = ModexRecord<'_>> {
    let mut reader = BlockReader::new(block);
    let records = core::iter::from_fn(move || {
        let (at, record) = next(&mut reader)?;
        Some((at, record.ok()?, block.get(at..reader.offset())?))
    });
    records.filter_map(|(at, record, bytes)| match record {
        BlockRecord::Modex { writer, version, .. } => {
            Some(ModexRecord { at, writer, version, bytes })
        }
        BlockRecord::Pair { .. } => None,
    })
}

/// The next record of a reader, with its offset.
fn next<'a>(reader: &mut BlockReader<'a>) -> Option<(usize, Result<BlockRecord<'a>, Malformed>)> {
    let at = reader.offset();
    Some((at, reader.next()?))
}

const fn unpack(entry: [u8; ENTRY_BYTES]) -> (Rank, u32) {
    let [a, b, c, d, e, f, g, h] = entry;
    (Rank(u32::from_be_bytes([a, b, c, d])), u32::from_be_bytes([e, f, g, h]))
}

/// Number of a format in a record.
pub(super) const fn format_number(format: Format) -> u8 {
    let family = match format.family {
        Family::Fixed => 0,
        Family::Flex => FLEX,
    };
    family | if format.is_described { DESCRIBED } else { 0 }
}

/// The format with this number.
pub(super) const fn numbered_format(number: u8) -> Option<Format> {
    if number > FLEX | DESCRIBED {
        return None;
    }
    let family = if number & FLEX == 0 { Family::Fixed } else { Family::Flex };
    Some(Format { family, is_described: number & DESCRIBED != 0 })
}

/// Upper bound of the stored group contributions of a rank: enough for more than a thousand groups.
const CONTRIBUTED_BYTES: usize = 64 << 10;

/// Upper bound of the number of key pairs that are compared.
const REPLACED_MAX: usize = 1 << 16;

/// Versions ahead of the present one that count as later; the others are earlier ones, before the numbers
/// begin again.
const LATER_MAX: u32 = u32::MAX / 2;

/// Size of an entry of an index.
const ENTRY_BYTES: usize = 8;

/// Upper bound of the stored group contributions of all ranks on other nodes.
const REMOTE_CONTRIBUTED_BYTES: usize = 4 << 20;

const FLEX: u8 = 1;
const DESCRIBED: u8 = 2;
