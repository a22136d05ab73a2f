//! Modex over several nodes: what ranks here have committed for others, and what others have.

use super::context::PmixView;
use super::modex::{ModexBlob, is_about};
use super::server::{PmixServer, PmixServerRef};
use super::shared_bytes::{SharedBytes, pack};
use super::storage::PmixStorage;
use crate::error::{Malformed, Misuse};
use crate::ids::{JobId, ProcId, Rank};
use crate::server::roster::ranked;
use crate::server::{NO_JOB, RemoteError, Storage};
use crate::storage::copy;
use crate::store::{BlockError, BlockReader, BlockRecord};
use crate::wire::pmix::{Family, Format, Kval, Packer, Unpacker};

/// Committed data of ranks on other nodes: one block of records, and an index by rank. Ranks without data
/// take no memory.
#[derive(Debug)]
pub(super) struct RemoteModex<B> {
    /// One [`BlockRecord::Modex`] for each rank.
    block: Option<B>,
    /// Entries of eight bytes, in the order of ranks: the rank, and the offset of its record.
    index: Option<B>,
    /// Group contributions: the rank and a KVAL of each, in [`Format::PLAIN`], the latest last.
    contributed: Option<B>,
}

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixServerRef<'_, P, S> {
    /// The contribution of PMIx clients to a fence that was handed up, beside
    /// [`Server::fence_puts`](crate::server::Server::fence_puts): all data for other nodes of each rank that
    /// has committed since the fence before, without that which
    /// [`keep_fence_modex`](PmixServer::keep_fence_modex) has left out.
    ///
    /// Changes after: [`end_fence`](crate::server::Server::end_fence), and a commit.
    pub fn fence_modex(&self, job: JobId) -> impl Iterator<Item = BlockRecord<'_>> {
        let view = self.view;
        let both = view.pmix.namespace(job).zip(view.job(job));
        both.into_iter().flat_map(|(namespace, job)| {
            ranked(namespace.ranks.as_ref()).filter_map(|(writer, data)| {
                let blob = data.remote.as_ref().filter(|_| job.is_due(data.fence))?;
                Some(record_of(writer, data.version, blob))
            })
        })
    }

    /// Committed data of ranks on other nodes that is here: records one after the other.
    ///
    /// Changes after: [`PmixServer::add_remote`], [`PmixServer::add_fetched`].
    pub fn carried_modex(&self, job: JobId) -> &[u8] {
        let namespace = self.view.pmix.namespace(job);
        let block = namespace.and_then(|namespace| namespace.remote.block.as_ref());
        block.map_or(&b""[..], AsRef::as_ref)
    }

    /// True if a client of this node in the current fence of a job has requested the data of all others with
    /// it (`PMIX_COLLECT_DATA`).
    ///
    /// Changes after: input of a client, and [`end_fence`](crate::server::Server::end_fence).
    pub fn collects_fence_data(&self, job: JobId) -> bool {
        self.view.pmix.namespace(job).is_some_and(|namespace| namespace.collects_data)
    }
}

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixServer<'_, P, S> {
    /// Adds the committed data of other nodes of a block, beside
    /// [`Server::add_remote`](crate::server::Server::add_remote) and before the fence ends. Pairs are
    /// skipped, and so is the data of ranks here.
    ///
    /// # Errors
    ///
    /// [`RemoteError`]; nothing was added.
    pub fn add_remote(&mut self, job: JobId, block: &[u8]) -> Result<(), RemoteError> {
        let of = self.context.common.job(job).ok_or(RemoteError::Misuse(NO_JOB))?;
        if !of.fence().is_handed_up() {
            let needed = "the fence was handed up";
            return Err(RemoteError::Misuse(Misuse::WrongState { needed }));
        }
        self.add_modex(job, block)
    }

    /// Keeps the data of a fence that was handed up on this node, where gets of other nodes fetch it
    /// ([`committed`](Self::committed)). Of [`fence_modex`](PmixServerRef::fence_modex) only that data is
    /// left of which other nodes may have an earlier version.
    pub fn keep_fence_modex(&mut self, job: JobId) {
        let of = self.context.common.job(job);
        let both = self.context.pmix.namespace_mut(job).zip(of);
        let Some((namespace, of)) = both else { return };
        for data in namespace.ranks.as_mut() {
            if of.is_due(data.fence) && !data.is_elsewhere {
                data.fence = 0;
            }
        }
    }

    /// Adds the committed data of other nodes of a block, at any time.
    pub(super) fn add_modex(&mut self, job: JobId, block: &[u8]) -> Result<(), RemoteError> {
        let of = self.context.common.job(job).ok_or(RemoteError::Misuse(NO_JOB))?;
        // A job without PMIx clients keeps nothing for them.
        let Some(namespace) = self.context.pmix.namespace_mut(job) else { return Ok(()) };
        namespace.remote.add(block, |rank| of.is_remote(rank)).map_err(RemoteError::Block)?;
        self.answer_remote_gets(job);
        Ok(())
    }
}

impl<'a, P: PmixStorage, S: Storage<Pmix = P>> PmixView<'a, P, S> {
    /// Data of a process of another node; `None` if it has committed nothing, or is here.
    pub(super) fn remote_blob(self, proc: ProcId) -> Option<ModexBlob<&'a [u8]>> {
        self.pmix.namespace(proc.job)?.remote.find(proc.rank)
    }
}

impl<B: SharedBytes> RemoteModex<B> {
    pub(super) const fn new() -> Self {
        Self { block: None, index: None, contributed: None }
    }

    /// Data of a rank.
    pub(super) fn find(&self, rank: Rank) -> Option<ModexBlob<&[u8]>> {
        match self.record(rank)? {
            BlockRecord::Modex { format: of, data, .. } => {
                Some(ModexBlob { answer: data, format: format(of)? })
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
        let room = CONTRIBUTED_BYTES.saturating_sub(fresh.as_ref().len());
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
                && format(of).is_none()
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
    BlockRecord::Modex { writer, version, format: number(blob.format), data: blob.answer.as_ref() }
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
pub(super) const fn number(format: Format) -> u8 {
    let family = match format.family {
        Family::Fixed => 0,
        Family::Flex => FLEX,
    };
    family | if format.is_described { DESCRIBED } else { 0 }
}

/// The format with this number.
pub(super) const fn format(number: u8) -> Option<Format> {
    if number > FLEX | DESCRIBED {
        return None;
    }
    let family = if number & FLEX == 0 { Family::Fixed } else { Family::Flex };
    Some(Format { family, is_described: number & DESCRIBED != 0 })
}

/// Versions ahead of the present one that count as later; the others are earlier ones, before the numbers
/// begin again.
const LATER_MAX: u32 = u32::MAX / 2;

/// Size of an entry of an index.
const ENTRY_BYTES: usize = 8;

/// Upper bound of the stored group contributions of all ranks on other nodes.
const CONTRIBUTED_BYTES: usize = 4 << 20;

const FLEX: u8 = 1;
const DESCRIBED: u8 = 2;
