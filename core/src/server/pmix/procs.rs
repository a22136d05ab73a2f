//! Lists of processes, as collectives, groups and events keep them: packed, and as a digest by which two
//! lists are compared.

use super::shared_bytes::SharedBytes;
use crate::ids::{JobId, ProcId, Rank};
use crate::wire::pmix::WILDCARD;
use core::ops::Range;

/// An entry of a list of processes: a process, or all processes of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ListedProc {
    pub(super) job: JobId,
    /// The rank, or [`WILDCARD`].
    pub(super) rank: u32,
}

/// A set of processes, as a number that does not depend on their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MembershipDigest {
    sum: u64,
    pub(super) count: u32,
}

impl ListedProc {
    /// One process.
    pub(super) const fn one(self) -> ProcId {
        ProcId { job: self.job, rank: Rank(self.rank) }
    }

    /// True if both stand for a common process.
    pub(super) fn matches_digest(self, other: Self) -> bool {
        let is_any = self.rank == WILDCARD || other.rank == WILDCARD;
        self.job == other.job && (is_any || self.rank == other.rank)
    }

    /// The processes that the entry stands for, in a job of this size.
    pub(super) fn expand(self, all: Range<u32>) -> impl Iterator<Item = ProcId> {
        let ranks = match self.rank {
            WILDCARD => all,
            rank => rank..rank.saturating_add(1),
        };
        ranks.map(move |rank| ProcId { job: self.job, rank: Rank(rank) })
    }

    const fn pack(self) -> [u8; PROC_BYTES] {
        ((self.job.0 as u64) << 32 | self.rank as u64).to_be_bytes()
    }
}

impl From<ProcId> for ListedProc {
    fn from(proc: ProcId) -> Self {
        Self { job: proc.job, rank: proc.rank.0 }
    }
}

/// Entries of a packed list.
pub(super) fn unpack_procs(bytes: &[u8]) -> impl Iterator<Item = ListedProc> + Clone {
    let (entries, _) = bytes.as_chunks::<PROC_BYTES>();
    entries.iter().map(|entry| {
        let [a, b, c, d, e, f, g, h] = *entry;
        let job = JobId(u32::from_be_bytes([a, b, c, d]));
        ListedProc { job, rank: u32::from_be_bytes([e, f, g, h]) }
    })
}

/// Packs a list of processes. `procs` is called twice: to count, and to write.
pub(super) fn pack_procs<B: SharedBytes, I: Iterator<Item = ListedProc>>(
    procs: impl Fn() -> I,
) -> Option<B> {
    B::make(procs().count() * PROC_BYTES, |bytes| {
        let (places, _) = bytes.as_chunks_mut::<PROC_BYTES>();
        places.iter_mut().zip(procs()).for_each(|(place, proc)| *place = proc.pack());
    })
}

/// Packs processes in ascending order, without duplicates.
pub(super) fn pack_sorted<B: SharedBytes, I: Iterator<Item = ListedProc>>(
    procs: impl Fn() -> I,
) -> Option<B> {
    let all = B::make(procs().count() * PROC_BYTES, |bytes| {
        let (places, _) = bytes.as_chunks_mut::<PROC_BYTES>();
        places.iter_mut().zip(procs()).for_each(|(place, proc)| *place = proc.pack());
        places.sort_unstable();
    })?;
    pack_procs(|| {
        let before = core::iter::once(None).chain(unpack_procs(all.as_ref()).map(Some));
        let procs = unpack_procs(all.as_ref()).zip(before);
        procs.filter(|(proc, before)| Some(*proc) != *before).map(|(proc, _)| proc)
    })
}

/// Number of processes in a packed list.
pub(super) const fn count_procs(bytes: &[u8]) -> usize {
    bytes.len() / PROC_BYTES
}

impl MembershipDigest {
    pub(super) const fn and(self, other: Self) -> Self {
        Self {
            sum: self.sum.wrapping_add(other.sum),
            count: self.count.saturating_add(other.count),
        }
    }
}

impl FromIterator<ProcId> for MembershipDigest {
    fn from_iter<I: IntoIterator<Item = ProcId>>(procs: I) -> Self {
        procs.into_iter().fold(Self::default(), |sum, proc| sum.and(one(proc)))
    }
}

/// One process over 64 bits, so that sums of different sets differ.
const fn one(ProcId { job, rank }: ProcId) -> MembershipDigest {
    let number = (job.0 as u64) << 32 | rank.0 as u64;
    let spread = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    MembershipDigest { sum: (spread ^ spread >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9), count: 1 }
}

/// Packed size of one process.
const PROC_BYTES: usize = 8;
