//! Contributions to a collective operation on their way up: collected into frames, and at the head by node.

use crate::NodeId;
use crate::edge::{ITEM_BYTES_MAX, encode_item};
use crate::event::{CollectiveId, Contribution};
use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use pmi_core::wire::nodes::{CHUNK_BYTES, ContributionPart, LIST_BYTES_MAX};

/// A frame of contributions that waits to be sent.
#[derive(Debug)]
pub(crate) struct ContributionChunk {
    pub(crate) id: CollectiveId,
    pub(crate) is_complete: bool,
    pub(crate) list: Vec<u8>,
    pub(crate) data: Vec<u8>,
}

/// One open operation at one node.
#[derive(Debug, Default)]
pub(crate) struct Gathering {
    pub(crate) own: Option<Contribution>,
    /// Children whose whole subtrees have contributed.
    pub(crate) complete: BTreeSet<NodeId>,
    /// True once this node has sent that of its own subtree.
    pub(crate) is_complete: bool,
    /// Nodes with empty contributions, and their members.
    empty: Vec<(u32, u32, u32)>,
    list: Vec<u8>,
    data: Vec<u8>,
}

impl Gathering {
    /// Adds the contribution of this node.
    pub(crate) fn add_own(
        &mut self,
        node: NodeId,
        id: CollectiveId,
        chunks: &mut VecDeque<ContributionChunk>,
    ) {
        let Some(own) = self.own.take() else { return };
        for (part, data) in pieces(node, &own) {
            self.add(part, data, id, chunks);
        }
        self.own = Some(own);
    }

    /// Adds a piece; what fills a frame is moved to `chunks`.
    pub(crate) fn add(
        &mut self,
        part: ContributionPart,
        data: &[u8],
        id: CollectiveId,
        chunks: &mut VecDeque<ContributionChunk>,
    ) {
        if part.total == 0 {
            self.empty.push((part.node, part.count, part.members));
            return;
        }
        let is_full = self.data.len() + data.len() > CHUNK_BYTES
            || self.list.len() + ITEM_BYTES_MAX > LIST_BYTES_MAX;
        if is_full {
            let (list, data) = (core::mem::take(&mut self.list), core::mem::take(&mut self.data));
            chunks.push_back(ContributionChunk { id, is_complete: false, list, data });
        }
        self.list.extend(encode_item(&part));
        self.data.extend_from_slice(data);
    }

    /// Moves everything to `chunks`; the last one may state that the subtree is complete.
    pub(crate) fn flush(&mut self, id: CollectiveId, chunks: &mut VecDeque<ContributionChunk>) {
        let mut empty = core::mem::take(&mut self.empty);
        empty.sort_unstable();
        empty.dedup_by(|next, kept| {
            let is_next = kept.0 + kept.1 == next.0 && kept.2 == next.2;
            if is_next {
                kept.1 += next.1;
            }
            is_next
        });
        for (node, count, members) in empty {
            if self.list.len() + ITEM_BYTES_MAX > LIST_BYTES_MAX {
                let (list, data) =
                    (core::mem::take(&mut self.list), core::mem::take(&mut self.data));
                chunks.push_back(ContributionChunk { id, is_complete: false, list, data });
            }
            let part = ContributionPart { node, count, members, total: 0, offset: 0, len: 0 };
            self.list.extend(encode_item(&part));
        }
        let (list, data) = (core::mem::take(&mut self.list), core::mem::take(&mut self.data));
        chunks.push_back(ContributionChunk { id, is_complete: self.is_complete, list, data });
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.empty.is_empty() && self.list.is_empty()
    }

    /// Forgets what was not sent; every node below sends its contribution again.
    pub(crate) fn restart(&mut self) {
        *self = Self { own: self.own.take(), ..Self::default() };
    }
}

/// Pieces of a contribution that fit a frame each.
fn pieces(node: NodeId, own: &Contribution) -> Vec<(ContributionPart, &[u8])> {
    let number = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
    let (total, members) = (number(own.data.len()), own.members);
    let part = ContributionPart { node: node.0, count: 1, members, total, offset: 0, len: 0 };
    if total == 0 {
        return vec![(part, &[])];
    }
    let chunks = own.data.chunks(CHUNK_BYTES).enumerate();
    let piece = |(at, data): (usize, _)| {
        let data: &[u8] = data;
        (
            ContributionPart { offset: number(at * CHUNK_BYTES), len: number(data.len()), ..part },
            data,
        )
    };
    chunks.map(piece).collect()
}

/// Contribution of one node at the head.
#[derive(Clone, Debug, Default)]
struct Share {
    is_known: bool,
    is_complete: bool,
    members: u32,
    total: u32,
    data: Vec<u8>,
}

/// Contributions of all nodes at the head.
#[derive(Debug)]
pub(crate) struct Assembly {
    shares: Vec<Share>,
}

impl Assembly {
    pub(crate) fn new(nodes: u32) -> Self {
        Self { shares: vec![Share::default(); nodes as usize] }
    }

    /// Adds a piece; pieces that are there already change nothing. False if it contradicts them.
    pub(crate) fn add(&mut self, part: ContributionPart, data: &[u8]) -> bool {
        let first = part.node as usize;
        let Some(shares) = self.shares.get_mut(first..first + part.count as usize) else {
            return false;
        };
        for share in shares {
            let is_new = !share.is_known;
            if !is_new && (share.members, share.total) != (part.members, part.total) {
                return false;
            }
            (share.is_known, share.members, share.total) = (true, part.members, part.total);
            // A piece behind a gap comes again, behind those that are missing.
            if !share.is_complete && share.data.len() == part.offset as usize {
                share.data.extend_from_slice(data);
                share.is_complete = share.data.len() == part.total as usize;
            }
        }
        true
    }

    /// Nodes without a complete contribution.
    pub(crate) fn missing(&self) -> impl Iterator<Item = NodeId> {
        let known = (0..).zip(&self.shares);
        known.filter(|(_, share)| !share.is_complete).map(|(node, _)| NodeId(node))
    }

    /// The members, and the data in the order of the nodes.
    pub(crate) fn finish(self) -> (u64, Vec<u8>) {
        let complete = self.shares.into_iter().filter(|share| share.is_complete);
        let (mut members, mut data) = (0, Vec::new());
        for share in complete {
            members += u64::from(share.members);
            data.extend_from_slice(&share.data);
        }
        (members, data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(node: u32, total: u32, offset: u32, len: u32) -> ContributionPart {
        ContributionPart { node, count: 1, members: 2, total, offset, len }
    }

    #[test]
    fn repeated_pieces_change_nothing_and_contradictions_are_refused() {
        let mut assembly = Assembly::new(4);
        assert!(assembly.add(part(2, 4, 0, 2), b"ab"));
        assert!(assembly.add(part(2, 4, 0, 2), b"ab"));
        assert!(assembly.add(part(1, 1, 0, 1), b"x"));
        // A gap: comes again later.
        assert!(assembly.add(part(3, 4, 2, 2), b"YY"));
        assert_eq!(assembly.missing().collect::<Vec<_>>(), [0, 2, 3].map(NodeId));
        assert!(assembly.add(part(2, 4, 2, 2), b"cd"));
        assert!(!assembly.add(part(2, 5, 4, 1), b"e"));
        assert!(!assembly.add(part(4, 1, 0, 1), b"e"));
        assert!(!assembly.add(part(3, 0, 0, 0), b""));
        assert_eq!(assembly.finish(), (4, b"xabcd".to_vec()));
    }

    #[test]
    fn empty_contributions_of_a_row_take_one_part() {
        let id = CollectiveId { job: 0, kind: 0, number: 1 };
        let (mut gathering, mut chunks) = (Gathering::default(), VecDeque::new());
        for node in [7, 5, 8, 6] {
            gathering.add(part(node, 0, 0, 0), b"", id, &mut chunks);
        }
        gathering.is_complete = true;
        gathering.flush(id, &mut chunks);
        let chunk = chunks.pop_front().unwrap();
        assert_eq!(chunk.list, encode_item(&ContributionPart { count: 4, ..part(5, 0, 0, 0) }));
        assert!(chunk.is_complete && chunks.is_empty() && gathering.is_empty());
    }

    #[test]
    fn contribution_of_several_chunks_is_cut_at_them() {
        let id = CollectiveId { job: 0, kind: 0, number: 1 };
        let data = vec![7; CHUNK_BYTES * 2 + 1];
        let mut gathering =
            Gathering { own: Some(Contribution { members: 2, data }), ..Gathering::default() };
        let mut chunks = VecDeque::new();
        gathering.add_own(NodeId(3), id, &mut chunks);
        gathering.flush(id, &mut chunks);
        let lens: Vec<usize> = chunks.iter().map(|chunk| chunk.data.len()).collect();
        assert_eq!(lens, [CHUNK_BYTES, CHUNK_BYTES, 1]);
    }
}
