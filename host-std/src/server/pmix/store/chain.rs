//! Chain of the records of one rank, and the order of the writes that extend it.
//!
//! Readers take no lock that a writer waits for, so each write leaves a store that they can read: a record
//! is written before the link to it, the link before the number of records that counts it, and a record is
//! marked as replaced after the one that replaces it is counted. A reader may see any byte of a write before
//! the others, so what it acts upon changes by one byte at a time.

use super::layout::{self, LINK, MARK_AT, SKIPPED, TARGET_AT};
use std::collections::BTreeMap;

/// A write into one of the segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SegmentWrite {
    pub(super) segment: Segment,
    /// Offset in the segment.
    pub(super) at: u64,
    pub(super) bytes: Vec<u8>,
}

/// Segment of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Segment {
    /// Entries of ranks.
    Meta,
    /// Records.
    Data,
}

/// Records of one rank.
#[derive(Debug)]
pub(super) struct RankChain {
    /// Number of records that hold.
    count: u64,
    /// Number of records that the launcher has written, the first of the chain.
    described: u64,
    /// Offset of the end of the chain.
    end: u64,
    /// Committed records by key, with their offsets.
    committed: BTreeMap<Box<[u8]>, u64>,
}

impl RankChain {
    /// A chain of `count` records that ends at `end`.
    pub(super) const fn new(count: u64, end: u64) -> Self {
        Self { count, described: count, end, committed: BTreeMap::new() }
    }

    /// Number of bytes that [`append`](Self::append) writes at the free end of the data segment, for these
    /// records.
    pub(super) fn append_bytes(records: &[u8]) -> u64 {
        let mut end = Vec::new();
        layout::push_end(&mut end);
        u64::try_from(records.len() + end.len()).unwrap_or(u64::MAX)
    }

    /// Appends records, each with its key and its offset in `records`, at the free end `at` of the data
    /// segment. Returns the writes in their order.
    pub(super) fn append(
        &mut self,
        rank: u32,
        at: u64,
        mut records: Vec<u8>,
        keys: &[(&[u8], usize)],
    ) -> Vec<SegmentWrite> {
        let end = at + u64::try_from(records.len()).unwrap_or(0);
        layout::push_end(&mut records);
        let mut writes = vec![data(at, records)];
        writes.push(data(self.end + TARGET_AT, at.to_ne_bytes().into()));
        writes.push(data(self.end + MARK_AT, vec![LINK]));
        let mut replaced = Vec::new();
        for (key, offset) in keys {
            let offset = at + u64::try_from(*offset).unwrap_or(0);
            replaced.extend(self.committed.insert((*key).into(), offset));
        }
        let added = keys.len().saturating_sub(replaced.len());
        let count = self.count + u64::try_from(added).unwrap_or(0);
        // Bytes of lower value first: what a reader sees in between is a smaller number.
        writes.extend(changed_bytes(rank, self.count, count));
        let skip = |offset: u64| data(offset + MARK_AT, vec![SKIPPED]);
        writes.extend(replaced.into_iter().map(skip));
        (self.count, self.end) = (count, end);
        writes
    }

    /// Withdraws all committed records: their values are sent on request from now on.
    pub(super) fn withdraw(&mut self, rank: u32) -> Vec<SegmentWrite> {
        // Bytes of higher value first, likewise.
        let writes = changed_bytes(rank, self.count, self.described).rev().collect();
        self.count = self.described;
        self.committed.clear();
        writes
    }
}

fn data(at: u64, bytes: Vec<u8>) -> SegmentWrite {
    SegmentWrite { segment: Segment::Data, at, bytes }
}

/// The bytes that change the number of records of a rank, those of lower value first.
fn changed_bytes(rank: u32, old: u64, new: u64) -> impl DoubleEndedIterator<Item = SegmentWrite> {
    let at = layout::count_at(Some(rank));
    let bytes = old.to_le_bytes().into_iter().zip(new.to_le_bytes());
    let bytes: Vec<_> = (at..).zip(bytes).collect();
    bytes.into_iter().filter(|(_, (old, new))| old != new).map(|(at, (_, new))| SegmentWrite {
        segment: Segment::Meta,
        at,
        bytes: vec![new],
    })
}
