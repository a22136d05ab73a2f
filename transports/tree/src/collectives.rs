//! Collective operations of all nodes: contributions up, results down.
//!
//! A result passes each edge once, in chunks that are forwarded while they arrive; all results have one
//! order, in which every node receives them.

use crate::edge::TreeEdge;
use crate::event::{CollectiveId, Contribution, TreeEvent};
use crate::gather::{Assembly, ContributionChunk, Gathering};
use crate::node::TreeNode;
use crate::{Class, NodeId, TreeError};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::rc::Rc;
use alloc::vec::Vec;
use pmi_core::wire::nodes::{CHUNK_BYTES, ContributionPart, ListItems, NodeBytes, NodeFrame};

/// Longest contribution of one node.
pub const CONTRIBUTION_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Bytes of a result: as they arrive, or all of them, shared with the owner.
#[derive(Debug)]
pub(crate) enum ResultData {
    Partial(Vec<u8>),
    Whole(Rc<[u8]>),
}

/// A result that some node below has not received yet.
#[derive(Debug)]
pub(crate) struct ResultItem {
    pub(crate) id: CollectiveId,
    pub(crate) members: u64,
    pub(crate) total: u64,
    pub(crate) data: ResultData,
}

/// Operations of one node.
#[derive(Debug, Default)]
pub(crate) struct Collectives {
    pub(crate) gatherings: BTreeMap<CollectiveId, Gathering>,
    /// At the head.
    assemblies: BTreeMap<CollectiveId, Assembly>,
    /// Frames for the parent.
    pub(crate) chunks: VecDeque<ContributionChunk>,
    results: VecDeque<ResultItem>,
    /// Number of the first one.
    first: u64,
    /// Number of the last one that has arrived as a whole, or that the head has made.
    pub(crate) last: u64,
    /// As `ended` in the last frame up.
    pub(crate) announced: u64,
    recent: VecDeque<CollectiveId>,
    recent_set: BTreeSet<CollectiveId>,
}

impl ResultItem {
    fn bytes(&self) -> &[u8] {
        match &self.data {
            ResultData::Partial(data) => data,
            ResultData::Whole(data) => data,
        }
    }
}

impl Collectives {
    /// Bytes of the result behind the last whole one.
    pub(crate) fn partial_bytes(&self) -> u64 {
        let partial =
            self.results.back().filter(|item| matches!(item.data, ResultData::Partial(_)));
        partial.map_or(0, |item| item.bytes().len() as u64)
    }

    /// Begins behind the result with this number.
    pub(crate) fn begin_after(&mut self, ended: u64) {
        (self.last, self.announced) = (ended, ended);
    }

    /// True if results from number `sequence` on are here, or have not arrived yet.
    pub(crate) fn has_from(&self, sequence: u64) -> bool {
        sequence > self.last || (!self.results.is_empty() && sequence >= self.first)
    }

    fn item(&self, sequence: u64) -> Option<&ResultItem> {
        let at = sequence.checked_sub(self.first)?;
        self.results.get(usize::try_from(at).ok()?)
    }

    /// The next piece of a result for a child.
    pub(crate) fn result_piece(&self, edge: &TreeEdge) -> Option<NodeFrame<'_>> {
        // No result passes a message that was sent before it: a node that receives one knows all nodes that
        // there were when the operation ended.
        if !edge.is_open_child() || edge.lanes[Class::Control.index()].send.has_unsent() {
            return None;
        }
        let item = self.item(edge.cursor.sequence)?;
        let rest = item.bytes().get(usize::try_from(edge.cursor.offset).ok()?..)?;
        let is_whole = matches!(item.data, ResultData::Whole(_));
        if rest.len() < CHUNK_BYTES && !is_whole {
            return None;
        }
        Some(NodeFrame::Ended {
            sequence: edge.cursor.sequence,
            id: item.id,
            members: item.members,
            total: item.total,
            offset: edge.cursor.offset,
            data: NodeBytes(rest.get(..CHUNK_BYTES).unwrap_or(rest)),
        })
    }

    fn push(&mut self, item: ResultItem) {
        if self.results.is_empty() {
            self.first = self.last + 1;
        }
        self.results.push_back(item);
    }

    fn remember(&mut self, id: CollectiveId) {
        self.gatherings.remove(&id);
        self.chunks.retain(|chunk| chunk.id != id);
        self.recent.push_back(id);
        self.recent_set.insert(id);
        if self.recent.len() > RECENT_MAX
            && let Some(oldest) = self.recent.pop_front()
        {
            self.recent_set.remove(&oldest);
        }
    }
}

impl TreeNode {
    /// Contributes the part of this node to an operation of all nodes.
    ///
    /// The operation ends when all nodes but the head and the excluded ones have contributed, also those
    /// without members. What the head contributes before that is included. A node that has joined after
    /// the begin of the job takes no part: its contribution is dropped, and it receives the result.
    ///
    /// # Errors
    ///
    /// [`TreeError::Contributed`] for the second time, [`TreeError::TooLong`], [`TreeError::TooMany`] for
    /// open operations, or [`TreeError::Over`]; nothing changes.
    pub fn contribute(&mut self, id: CollectiveId, own: Contribution) -> Result<(), TreeError> {
        if self.is_over {
            return Err(TreeError::Over);
        }
        if own.data.len() > CONTRIBUTION_BYTES_MAX {
            let (len, limit_bytes) = (own.data.len(), CONTRIBUTION_BYTES_MAX);
            return Err(TreeError::TooLong { len, limit_bytes });
        }
        if self.config.node.0 >= self.nodes_of(id.job) {
            return Ok(());
        }
        if self.collectives.recent_set.contains(&id) {
            return Err(TreeError::Contributed);
        }
        let (node, is_head) = (self.config.node, self.head.is_some());
        let gathering = self.gathering(id)?;
        if gathering.own.is_some() {
            return Err(TreeError::Contributed);
        }
        gathering.own = Some(own);
        if is_head {
            let mut chunks = VecDeque::new();
            gathering.add_own(node, id, &mut chunks);
            gathering.flush(id, &mut chunks);
            for chunk in chunks {
                self.add_parts(id, NodeId::HEAD, &chunk.list, &chunk.data)?;
            }
        } else {
            self.add_own(id);
        }
        self.check_complete(id);
        Ok(())
    }

    /// Number of the last operation that has ended: 1, 2, ... in the order in which they end, the same on all
    /// nodes.
    pub const fn ended(&self) -> u64 {
        self.collectives.last
    }

    /// At the head: nodes that an open operation waits for.
    pub fn missing(&self, id: CollectiveId) -> impl Iterator<Item = NodeId> {
        let assembly = self.collectives.assemblies.get(&id);
        assembly
            .into_iter()
            .flat_map(|assembly| assembly.missing())
            .filter(|node| self.awaits(*node))
    }

    /// Drops the unfinished collective operations of a job that has ended: contributions of nodes that had
    /// entered an operation which none of its ranks will.
    pub fn end_job(&mut self, job: u32) {
        let Collectives { gatherings, assemblies, chunks, .. } = &mut self.collectives;
        gatherings.retain(|id, _| id.job != job);
        assemblies.retain(|id, _| id.job != job);
        chunks.retain(|chunk| chunk.id.job != job);
    }

    fn awaits(&self, node: NodeId) -> bool {
        let head = self.head.as_ref();
        node != NodeId::HEAD && head.is_some_and(|head| !head.excluded.contains(&node))
    }

    fn gathering(&mut self, id: CollectiveId) -> Result<&mut Gathering, TreeError> {
        let open = &mut self.collectives.gatherings;
        if open.len() >= OPEN_MAX && !open.contains_key(&id) {
            return Err(TreeError::TooMany { limit: OPEN_MAX });
        }
        Ok(open.entry(id).or_default())
    }

    fn add_own(&mut self, id: CollectiveId) {
        let Collectives { gatherings, chunks, .. } = &mut self.collectives;
        if let Some(gathering) = gatherings.get_mut(&id) {
            gathering.add_own(self.config.node, id, chunks);
        }
    }

    /// Contributions of a subtree.
    pub(crate) fn handle_contribution(
        &mut self,
        peer: NodeId,
        id: CollectiveId,
        is_complete: bool,
        (list, data): (&[u8], &[u8]),
    ) -> Result<(), TreeError> {
        // Repeated after a change of parents, and too late.
        if self.collectives.recent_set.contains(&id) {
            return Ok(());
        }
        self.add_parts(id, peer, list, data)?;
        if is_complete {
            self.gathering(id)?.complete.insert(peer);
        }
        self.check_complete(id);
        Ok(())
    }

    fn add_parts(
        &mut self,
        id: CollectiveId,
        peer: NodeId,
        list: &[u8],
        mut data: &[u8],
    ) -> Result<(), TreeError> {
        let invalid = TreeError::OutOfRange("a part of a contribution");
        self.gathering(id)?;
        let (is_head, nodes, radix) =
            (self.head.is_some(), self.nodes_of(id.job), self.config.radix);
        for part in ListItems::<ContributionPart>::new(list) {
            let part = part?;
            let is_below = |node: u32| NodeId(node) == peer || NodeId(node).is_below(peer, radix);
            let end = part.node.checked_add(part.count).filter(|end| *end <= nodes);
            let is_piece = part.offset.checked_add(part.len).is_some_and(|end| end <= part.total);
            let is_valid = part.count > 0
                && (part.total == 0 || (part.count == 1 && part.len > 0))
                && part.total as usize <= CONTRIBUTION_BYTES_MAX
                && end.is_some_and(|end| (part.node..end).all(is_below));
            let Some((piece, rest)) = data.split_at_checked(part.len as usize) else {
                return Err(invalid);
            };
            if !is_valid || !is_piece {
                return Err(invalid);
            }
            data = rest;
            let Collectives { gatherings, chunks, assemblies, .. } = &mut self.collectives;
            if is_head {
                let assembly = assemblies.entry(id).or_insert_with(|| Assembly::new(nodes));
                if !assembly.add(part, piece) {
                    return Err(invalid);
                }
            } else if let Some(gathering) = gatherings.get_mut(&id) {
                gathering.add(part, piece, id, chunks);
            }
        }
        if data.is_empty() { Ok(()) } else { Err(invalid) }
    }

    /// Sends what has been gathered if nothing more is to come, and ends the operation at the head.
    pub(crate) fn check_complete(&mut self, id: CollectiveId) {
        if self.head.is_some() {
            return self.check_end(id);
        }
        let nodes = self.nodes_of(id.job);
        let children: Vec<NodeId> = self.children().filter(|child| child.0 < nodes).collect();
        let Collectives { gatherings, chunks, .. } = &mut self.collectives;
        let Some(gathering) = gatherings.get_mut(&id) else { return };
        let is_complete = gathering.own.is_some()
            && children.iter().all(|child| gathering.complete.contains(child));
        if is_complete && (!gathering.is_complete || !gathering.is_empty()) {
            gathering.is_complete = true;
            gathering.flush(id, chunks);
        }
    }

    pub(crate) fn check_all_complete(&mut self) {
        let open: Vec<CollectiveId> = self.collectives.gatherings.keys().copied().collect();
        for id in open {
            self.check_complete(id);
        }
    }

    fn check_end(&mut self, id: CollectiveId) {
        if self.missing(id).next().is_some() {
            return;
        }
        let Some(assembly) = self.collectives.assemblies.remove(&id) else { return };
        let (members, data) = assembly.finish();
        let data: Rc<[u8]> = Rc::from(data);
        self.collectives.remember(id);
        let item = ResultItem {
            id,
            members,
            total: data.len() as u64,
            data: ResultData::Whole(data.clone()),
        };
        self.collectives.push(item);
        self.collectives.last += 1;
        self.events.push_back(TreeEvent::CollectiveEnded { id, data, members });
        self.prune_results();
    }

    /// Sends all contributions of this node again, and has those below do the same.
    pub(crate) fn resend_contributions(&mut self) {
        self.collectives.chunks.clear();
        let open: Vec<CollectiveId> = self.collectives.gatherings.keys().copied().collect();
        for id in open {
            if let Some(gathering) = self.collectives.gatherings.get_mut(&id) {
                gathering.restart();
            }
            self.add_own(id);
            self.check_complete(id);
        }
        for edge in self.edges.values_mut().filter(|edge| edge.is_open_child()) {
            edge.due.resend = true;
        }
    }

    /// A piece of a result.
    pub(crate) fn handle_ended(&mut self, frame: &EndedPiece<'_>) -> Result<(), TreeError> {
        let state = &mut self.collectives;
        if frame.sequence <= state.last {
            return Ok(());
        }
        if frame.sequence != state.last + 1 {
            return Err(TreeError::Gap);
        }
        let is_begun =
            state.results.back().is_some_and(|item| matches!(item.data, ResultData::Partial(_)));
        if !is_begun {
            if state.results.len() >= OPEN_MAX {
                return Err(TreeError::TooMany { limit: OPEN_MAX });
            }
            // Room for most results at once, and no more than arrives for those of a false length.
            let room = usize::try_from(frame.total).unwrap_or(usize::MAX).min(ROOM_BYTES);
            let data = ResultData::Partial(Vec::with_capacity(room));
            let (id, members, total) = (frame.id, frame.members, frame.total);
            state.push(ResultItem { id, members, total, data });
        }
        let Some(item) = state.results.back_mut() else { return Ok(()) };
        let ResultData::Partial(data) = &mut item.data else { return Ok(()) };
        let have = data.len() as u64;
        if frame.offset > have {
            return Err(TreeError::Gap);
        }
        let known = usize::try_from(have - frame.offset).unwrap_or(usize::MAX);
        data.extend_from_slice(frame.data.get(known..).unwrap_or_default());
        let is_same = (item.id, item.members, item.total) == (frame.id, frame.members, frame.total);
        if !is_same || data.len() as u64 > item.total || (frame.data.is_empty() && item.total > 0) {
            return Err(TreeError::OutOfRange("a piece of a result"));
        }
        if (data.len() as u64) < item.total {
            return Ok(());
        }
        let whole: Rc<[u8]> = Rc::from(core::mem::take(data));
        item.data = ResultData::Whole(whole.clone());
        let (id, members) = (item.id, item.members);
        state.last = frame.sequence;
        state.remember(id);
        self.events.push_back(TreeEvent::CollectiveEnded { id, data: whole, members });
        self.prune_results();
        Ok(())
    }

    /// Records that the subtree of a child has received all results up to `ended`.
    pub(crate) fn acknowledge(&mut self, peer: NodeId, ended: u64) -> Result<(), TreeError> {
        let last = self.collectives.last;
        if let Some(edge) = self.edges.get_mut(&peer) {
            if ended > last.max(edge.cursor.acked) {
                return Err(TreeError::OutOfRange("the number of a result"));
            }
            edge.cursor.acked = edge.cursor.acked.max(ended);
        }
        self.prune_results();
        Ok(())
    }

    /// Last result that this node and all nodes below have received.
    pub(crate) fn acknowledged(&self) -> u64 {
        let children = self.open_children().map(|(_, edge)| edge.cursor.acked);
        let absent = self.absences.iter().map(|absence| absence.acked);
        children.chain(absent).chain([self.collectives.last]).min().unwrap_or(0)
    }

    pub(crate) fn prune_results(&mut self) {
        let acknowledged = self.acknowledged();
        let state = &mut self.collectives;
        while state.first <= acknowledged && !state.results.is_empty() {
            state.results.pop_front();
            state.first += 1;
        }
    }
}

/// Fields of `NodeFrame::Ended`.
pub(crate) struct EndedPiece<'a> {
    pub(crate) sequence: u64,
    pub(crate) id: CollectiveId,
    pub(crate) members: u64,
    pub(crate) total: u64,
    pub(crate) offset: u64,
    pub(crate) data: &'a [u8],
}

/// Operations that may be open at once, and results that may wait for a child.
const OPEN_MAX: usize = 1024;

/// Ended operations whose late contributions are known as such.
const RECENT_MAX: usize = 1024;

/// Memory that is taken for a result before its bytes arrive. One result arrives at a time, and most systems
/// give memory when it is written.
const ROOM_BYTES: usize = 16 << 20;
