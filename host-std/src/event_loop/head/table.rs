//! Nodes of a run and their ranks, as the head knows them.

use crate::launch::local_ranks::LocalRanks;
use crate::numbers::index;
use crate::placement::PlacedHosts;
use pmi_host_base::ranges::Ranks;
use pmi_tree::NodeId;
use std::collections::BTreeSet;
use std::time::Instant;

/// All nodes with ranks, and the processes of all ranks.
#[derive(Debug)]
pub(super) struct NodeTable {
    /// In the order of the hosts; the first one is node 1 of the tree.
    nodes: Vec<NodeState>,
    /// Process numbers of ranks that were started, by rank.
    numbers: Vec<Option<u32>>,
    /// Processes of ranks that were started, by process number.
    processes: Vec<RemoteProcess>,
    running_count: usize,
    /// Ranks that have failed in a run that continues.
    failed: BTreeSet<u32>,
}

/// One node.
#[derive(Debug)]
pub(super) struct NodeState {
    /// Name of its host.
    pub(super) host: String,
    ranks: LocalRanks,
    /// Number of ranks that were started.
    started_count: u32,
    /// Number of output messages that have arrived.
    outputs_count: u64,
    /// Number of output messages that the agent had sent when its last rank had ended.
    outputs_total: Option<u64>,
    pub(super) is_lost: bool,
    /// Time of its last message.
    pub(super) heard_at: Instant,
}

/// Process of a rank.
#[derive(Clone, Copy, Debug)]
struct RemoteProcess {
    pid: i32,
    is_running: bool,
}

impl NodeTable {
    /// Creates the table without processes.
    pub(super) fn new(placed: &PlacedHosts) -> Self {
        let now = Instant::now();
        let node = |(host, node): (&String, u32)| NodeState {
            host: host.clone(),
            ranks: LocalRanks::of(placed.map.ranks_of(node)),
            started_count: 0,
            outputs_count: 0,
            outputs_total: None,
            is_lost: false,
            heard_at: now,
        };
        Self {
            nodes: placed.hosts.iter().zip(0..).map(node).collect(),
            numbers: vec![None; index(placed.map.ranks())],
            processes: Vec::new(),
            running_count: 0,
            failed: BTreeSet::new(),
        }
    }

    /// The node with this number in the tree.
    pub(super) fn get(&self, node: NodeId) -> Option<&NodeState> {
        self.nodes.get(index(node.0.checked_sub(1)?))
    }

    pub(super) fn get_mut(&mut self, node: NodeId) -> Option<&mut NodeState> {
        self.nodes.get_mut(index(node.0.checked_sub(1)?))
    }

    /// All nodes, with their numbers in the tree.
    pub(super) fn iter(&self) -> impl Iterator<Item = (NodeId, &NodeState)> {
        (1..).map(NodeId).zip(&self.nodes)
    }

    /// Records the start of the next rank of a node. Returns its process number and rank; `None` if the
    /// node has no further one.
    pub(super) fn note_start(&mut self, node: NodeId, pid: i32) -> Option<(u32, u32)> {
        let state = self.get_mut(node)?;
        let rank = state.ranks.at(state.started_count)?;
        state.started_count += 1;
        let number = u32::try_from(self.processes.len()).ok()?;
        *self.numbers.get_mut(index(rank))? = Some(number);
        self.processes.push(RemoteProcess { pid, is_running: true });
        self.running_count += 1;
        Some((number, rank))
    }

    /// Records the end of a rank of a node. Returns its process number; `None` if it does not run there.
    pub(super) fn note_end(&mut self, node: NodeId, rank: u32) -> Option<u32> {
        let number = self.number_on(node, rank)?;
        let process = self.processes.get_mut(index(number)).filter(|one| one.is_running)?;
        process.is_running = false;
        self.running_count -= 1;
        Some(number)
    }

    /// Records the loss of a node: its ranks do not run any more. Returns their process numbers.
    pub(super) fn note_loss(&mut self, node: NodeId) -> Vec<u32> {
        let Some(state) = self.get_mut(node) else { return Vec::new() };
        state.is_lost = true;
        let ranks = state.ranks.clone();
        let numbers = ranks.iter().filter_map(|rank| self.note_end(node, rank));
        numbers.collect()
    }

    /// Process number of a rank of a node, if it was started there.
    pub(super) fn number_on(&self, node: NodeId, rank: u32) -> Option<u32> {
        self.get(node)?.ranks.local_rank(rank)?;
        *self.numbers.get(index(rank))?
    }

    /// True if a rank was started and does not run any more.
    pub(super) fn has_ended(&self, rank: u32) -> bool {
        let number = self.numbers.get(index(rank)).copied().flatten();
        let process = number.and_then(|number| self.processes.get(index(number)));
        process.is_some_and(|process| !process.is_running)
    }

    /// Records ranks that have failed, and returns all of them.
    pub(super) fn note_failed(&mut self, ranks: impl Iterator<Item = u32>) -> &BTreeSet<u32> {
        self.failed.extend(ranks);
        &self.failed
    }

    /// True if all ranks of a node have ended.
    pub(super) fn is_empty(&self, node: NodeId) -> bool {
        self.get(node).is_some_and(|state| state.ranks.iter().all(|rank| self.has_ended(rank)))
    }

    /// Process of a rank, if it was started.
    pub(super) fn pid(&self, rank: u32) -> Option<i32> {
        let number = (*self.numbers.get(index(rank))?)?;
        self.processes.get(index(number)).map(|process| process.pid)
    }

    /// Number of ranks that were started.
    pub(super) fn started_count(&self) -> usize {
        self.processes.len()
    }

    /// Number of ranks that run.
    pub(super) const fn running_count(&self) -> usize {
        self.running_count
    }

    /// Ranks that run.
    pub(super) fn all_running(&self) -> Ranks {
        self.with_state(|process| process.is_running)
    }

    /// Ranks that have ended, and ranks of lost nodes.
    pub(super) fn all_ended(&self) -> Ranks {
        self.with_state(|process| !process.is_running)
    }

    fn with_state(&self, is_wanted: impl Fn(&RemoteProcess) -> bool) -> Ranks {
        let process = |number: &Option<u32>| self.processes.get(index((*number)?));
        let of_rank = (0..).zip(&self.numbers).filter_map(|(rank, number)| {
            process(number).filter(|process| is_wanted(process)).map(|_| rank)
        });
        of_rank.collect()
    }

    /// True if no node has anything left to do or to send.
    pub(super) fn are_quiet(&self) -> bool {
        self.nodes.iter().all(|node| node.is_lost || node.is_quiet())
    }
}

impl NodeState {
    /// All its ranks.
    pub(super) fn ranks(&self) -> Ranks {
        self.ranks.iter().collect()
    }

    /// True if all its ranks were started.
    pub(super) fn has_started_all(&self) -> bool {
        self.started_count == self.ranks.count()
    }

    /// Counts an output message.
    pub(super) fn note_output(&mut self) {
        self.outputs_count += 1;
    }

    /// Records that all ranks of the node have ended.
    pub(super) fn set_quiet(&mut self, outputs: u64) {
        self.outputs_total = Some(outputs);
    }

    /// True if this many output messages have arrived.
    pub(super) fn has_sent(&self, outputs: u64) -> bool {
        self.is_lost || self.outputs_count >= outputs
    }

    fn is_quiet(&self) -> bool {
        self.outputs_total.is_some_and(|total| self.outputs_count >= total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::tests::placed;

    /// Ranks 0 and 2 on `n1`, rank 1 on `n2`.
    fn table() -> NodeTable {
        NodeTable::new(&placed("n1,n2", 3))
    }

    #[test]
    fn starts_and_ends_are_those_of_the_node() {
        let mut table = table();
        let (first, second) = (NodeId(1), NodeId(2));
        assert_eq!(table.note_start(second, 21), Some((0, 1)));
        assert_eq!(table.note_start(first, 10), Some((1, 0)));
        assert_eq!(table.note_start(first, 12), Some((2, 2)));
        assert_eq!((table.note_start(first, 13), table.note_start(NodeId(0), 1)), (None, None));
        assert_eq!((table.pid(1), table.pid(2), table.pid(3)), (Some(21), Some(12), None));
        assert_eq!(table.note_end(second, 0), None, "the rank of another node");
        assert_eq!(table.note_end(first, 0), Some(1));
        assert_eq!(table.note_end(first, 0), None, "it has ended");
        let ranks = |all: &[u32]| all.iter().copied().collect::<Ranks>();
        assert_eq!((table.all_running(), table.all_ended()), (ranks(&[1, 2]), ranks(&[0])));
        assert_eq!(table.note_loss(first), [2]);
        assert_eq!((table.all_running(), table.all_ended()), (ranks(&[1]), ranks(&[0, 2])));
        assert_eq!(table.running_count(), 1);
    }

    #[test]
    fn node_is_quiet_once_its_output_has_arrived() {
        let mut table = table();
        table.note_loss(NodeId(1));
        let node = table.get_mut(NodeId(2)).unwrap();
        node.note_output();
        node.set_quiet(2);
        assert!(node.has_sent(1) && !table.are_quiet());
        table.get_mut(NodeId(2)).unwrap().note_output();
        assert!(table.are_quiet());
    }
}
