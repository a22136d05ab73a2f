//! Collectives: operations of several processes, of one job or of several.
//!
//! Two requests belong to the same collective if kind, group name and processes match, regardless
//! of the order of the processes and of wildcards for whole jobs. The processes are stored as the
//! first participant listed them, and as a digest that lists are compared by.

use super::shared_bytes::SharedBytes;
use crate::ids::{JobId, ProcId, Rank};
use crate::wire::pmix::WILDCARD;
use core::ops::Range;

/// An open collective, and the number of its participants that have joined.
#[derive(Clone, Debug)]
pub struct OpenCollective<B> {
    pub(super) kind: CollectiveKind,
    /// The group that it is about; of a fence, a connect or a disconnect, the processes of other runs.
    pub(super) name: Option<B>,
    /// Participants, packed by [`pack_procs`].
    pub(super) participants: B,
    pub(super) digest: MembershipDigest,
    /// The number of participants that have joined, by connections.
    pub(super) inside: u32,
    /// Number of participants on this node; of a bootstrap, those that were handed up.
    pub(super) local_count: u32,
    pub(super) uplink: CollectiveUplink,
}

/// Progress of a collective beyond this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CollectiveUplink {
    /// Other nodes take no part.
    None,
    /// Participants of this node are missing.
    Open,
    /// Its part on this node is complete, and the owner has to hand it up.
    Due(HandedUp),
    /// The owner has handed it up.
    Sent(HandedUp),
    /// It has timed out here, and the owner has to withdraw it. There are no participants any more.
    Withdrawn(HandedUp),
}

/// A collective whose part on this node is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HandedUp {
    /// Its number among those of this node.
    pub(super) number: u32,
    /// True if participants of this node are gone without having joined.
    pub(super) is_partial: bool,
}

/// Kind of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectiveKind {
    /// A fence of some processes.
    Fence,
    /// A fence, after which the processes know each other's jobs.
    Connect,
    /// A fence, after which they do not.
    Disconnect,
    /// Construction of a group that all its processes list.
    Construct,
    /// Construction of a group from leaders and the members they add.
    Bootstrap,
    /// Destruction of a group.
    Destruct,
}

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

impl CollectiveKind {
    /// True if it carries committed data.
    pub const fn has_data(self) -> bool {
        matches!(self, Self::Fence | Self::Connect | Self::Disconnect)
    }
}

impl<B: SharedBytes> OpenCollective<B> {
    pub(super) fn is(&self, purpose: CollectiveKind, name: Option<&[u8]>) -> bool {
        self.kind == purpose && self.name.as_ref().map(AsRef::as_ref) == name
    }

    /// Its part on this node, if that is complete and the collective goes on beyond the node.
    pub(super) const fn handed_up(&self) -> Option<HandedUp> {
        match self.uplink {
            CollectiveUplink::Due(part) | CollectiveUplink::Sent(part) => Some(part),
            _ => None,
        }
    }

    /// Processes of other runs that take part, packed; `None` without any.
    pub(super) fn others(&self) -> Option<&[u8]> {
        let name = self.name.as_ref().map(AsRef::as_ref);
        name.filter(|_| self.kind.has_data())
    }

    /// Kind of the collective.
    pub(super) const fn kind(&self) -> CollectiveKind {
        self.kind
    }

    /// True if a process participates.
    pub(super) fn has(&self, proc: ProcId) -> bool {
        self.listed().any(|listed| listed.matches_digest(proc.into()))
    }

    /// True if a process is listed twice, so that the collective could never complete. All
    /// participants list the same.
    pub(super) fn names_twice(&self) -> bool {
        // The list is mostly in order, where duplicates are neighbours.
        let next = || self.listed().zip(self.listed().skip(1));
        if next().all(|(one, other)| one < other) {
            return next().any(|(one, other)| one.matches_digest(other));
        }
        let mut all = self.listed().enumerate();
        all.any(|(at, one)| self.listed().take(at).any(|before| before.matches_digest(one)))
    }

    /// The participants, as they were listed.
    pub(super) fn listed(&self) -> impl Iterator<Item = ListedProc> {
        unpack_procs(self.participants.as_ref())
    }
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
