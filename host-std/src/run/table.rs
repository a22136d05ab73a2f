//! Nodes of a run and the ranks of its jobs, as the head knows them.

use crate::launch::plan::local_ranks::LocalRanks;
use crate::numbers::index;
use crate::placement::{NodeLoad, PlacedHosts};
use pmi_host_base::ranges::Ranks;
use pmi_host_os::clock;
use pmi_host_os::stream::Stream;
use pmi_tree::NodeId;
use std::collections::BTreeSet;
use std::time::Instant;

/// All nodes with ranks, and the processes of all ranks.
#[derive(Debug)]
pub(super) struct NodeTable {
    /// In the order of the hosts; the first one is node 1 of the tree.
    nodes: Vec<NodeState>,
    /// By number of the job.
    jobs: Vec<JobRanks>,
    /// Processes of ranks that were started, by process number.
    processes: Vec<StartedProcess>,
    running_count: usize,
}

/// One node.
#[derive(Debug)]
pub(super) struct NodeState {
    /// Name of its host.
    pub(super) host: String,
    /// Number of output messages that have arrived.
    outputs_count: u64,
    /// Number of batches of output that have arrived in messages of nodes above it, or its own.
    batches_count: u64,
    /// Number of lines of the node that have arrived in such messages.
    messages_count: u64,
    /// Number of output messages that the node had sent when its last rank had ended.
    outputs_total: Option<u64>,
    pub(super) is_lost: bool,
    /// True if it has joined the run later, and no rank has started on it.
    pub(super) is_new: bool,
    /// Time of its last message.
    pub(super) heard_at: Instant,
}

/// Ranks of one job.
#[derive(Debug)]
struct JobRanks {
    /// By node, in the order of the hosts.
    nodes: Vec<JobNodeRanks>,
    /// Process numbers of ranks that were started, by rank.
    numbers: Vec<Option<u32>>,
    /// Bytes of output that have arrived, by stream and rank, in a run in which equal lines are written once.
    received: [Vec<u64>; 2],
    started_count: u32,
    running_count: u32,
    /// Ranks that have failed in a run that continues.
    failed: BTreeSet<u32>,
    /// True if it was not started completely; its ranks are killed, which is no failure.
    is_undone: bool,
}

/// Ranks of one job on one node.
#[derive(Debug)]
struct JobNodeRanks {
    ranks: LocalRanks,
    /// Number of ranks that were started.
    started_count: u32,
}

/// Process of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RemoteProcess {
    /// Its job and rank.
    pub(super) owner: (u32, u32),
    pub(super) pid: i32,
}

/// Process that was started, and whether it runs.
type StartedProcess = (RemoteProcess, bool);

impl NodeTable {
    /// Creates the table of a run whose first job has these places, of which those of the first `started_max`
    /// ranks have processes.
    pub(super) fn new(placed: &PlacedHosts, started_max: u32) -> Self {
        let nodes = placed.hosts.iter().map(|host| NodeState::new(host)).collect();
        let mut table = Self { nodes, jobs: Vec::new(), processes: Vec::new(), running_count: 0 };
        table.add_ranks(placed, started_max);
        table
    }

    /// Adds a node, which has no rank of the jobs so far.
    pub(super) fn add_node(&mut self, host: &str) {
        self.nodes.push(NodeState { is_new: true, ..NodeState::new(host) });
    }

    /// Adds the next job.
    pub(super) fn add_job(&mut self, placed: &PlacedHosts) {
        self.add_ranks(placed, placed.map.ranks());
    }

    fn add_ranks(&mut self, placed: &PlacedHosts, started_max: u32) {
        let of_node = |node: u32| {
            let ranks = placed.map.ranks_of(node).filter(|rank| *rank < started_max);
            let mut ranks: Vec<u32> = ranks.collect();
            ranks.sort_unstable();
            JobNodeRanks { ranks: LocalRanks::of(ranks.into_iter()), started_count: 0 }
        };
        self.jobs.push(JobRanks {
            nodes: (0..).zip(&self.nodes).map(|(node, _)| of_node(node)).collect(),
            numbers: vec![None; index(placed.map.ranks().min(started_max))],
            received: [const { Vec::new() }; 2],
            started_count: 0,
            running_count: 0,
            failed: BTreeSet::new(),
            is_undone: false,
        });
        // They have something to do again, or hear of it.
        self.nodes.iter_mut().for_each(|node| node.outputs_total = None);
    }

    /// True for nodes that are lost, in the order of the hosts.
    pub(super) fn lost(&self) -> Vec<bool> {
        self.nodes.iter().map(|node| node.is_lost).collect()
    }

    /// Number of jobs.
    pub(super) fn job_count(&self) -> u32 {
        u32::try_from(self.jobs.len()).unwrap_or(u32::MAX)
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

    /// Ranks of a job on a node.
    pub(super) fn ranks(&self, node: NodeId, job: u32) -> Ranks {
        self.on(node, job).map(|of| of.ranks.iter().collect()).unwrap_or_default()
    }

    /// Slots and ranks of each node, of which a lost one is full.
    pub(super) fn loads(&self, slots: &[u32]) -> Vec<NodeLoad> {
        let is_there = |job: &&JobRanks| !job.has_ended();
        let load = |node: usize| {
            let count = |job: &JobRanks| job.nodes.get(node).map_or(0, |of| of.ranks.count());
            let slots = slots.get(node).copied().unwrap_or(1).max(1);
            let used = self.jobs.iter().filter(is_there).map(count).fold(0, u32::saturating_add);
            let is_lost = self.nodes.get(node).is_some_and(|node| node.is_lost);
            NodeLoad { slots, used: if is_lost { u32::MAX } else { used } }
        };
        (0..self.nodes.len()).map(load).collect()
    }

    /// Number of ranks that have not ended, or not started.
    pub(super) fn rank_count(&self) -> u32 {
        let there = self.jobs.iter().filter(|job| !job.has_ended());
        there.map(|job| job.numbers.len()).sum::<usize>().try_into().unwrap_or(u32::MAX)
    }

    /// Jobs that are not started completely and have ranks on a node.
    pub(super) fn starting_on(&self, node: NodeId) -> Vec<u32> {
        let is_starting =
            |job: &u32| !self.has_started_all(*job) && !self.ranks(node, *job).is_empty();
        (0..self.job_count()).filter(is_starting).collect()
    }

    fn on(&self, node: NodeId, job: u32) -> Option<&JobNodeRanks> {
        self.jobs.get(index(job))?.nodes.get(index(node.0.checked_sub(1)?))
    }

    /// Records the start of the next rank of a job on a node. Returns its process number and rank; `None` if
    /// the node has no further one.
    pub(super) fn note_start(&mut self, node: NodeId, job: u32, pid: i32) -> Option<(u32, u32)> {
        let number_of_job = job;
        let job = self.jobs.get_mut(index(job))?;
        let of = job.nodes.get_mut(index(node.0.checked_sub(1)?))?;
        let rank = of.ranks.at(of.started_count)?;
        of.started_count += 1;
        let number = u32::try_from(self.processes.len()).ok()?;
        *job.numbers.get_mut(index(rank))? = Some(number);
        job.started_count += 1;
        job.running_count += 1;
        self.processes.push((RemoteProcess { owner: (number_of_job, rank), pid }, true));
        self.running_count += 1;
        Some((number, rank))
    }

    /// Records the end of a rank of a node. Returns its process number; `None` if it does not run there.
    pub(super) fn note_end(&mut self, node: NodeId, (job, rank): (u32, u32)) -> Option<u32> {
        let number = self.number_on(node, (job, rank))?;
        let (_, is_running) = self.processes.get_mut(index(number)).filter(|(_, runs)| *runs)?;
        *is_running = false;
        self.running_count -= 1;
        if let Some(job) = self.jobs.get_mut(index(job)) {
            job.running_count -= 1;
        }
        Some(number)
    }

    /// Process numbers of all ranks that were started on a node, those that have ended included.
    pub(super) fn numbers_of_node(&self, node: NodeId) -> Vec<u32> {
        let ranks = |job| {
            let ranks = self.on(node, job).map(|of| of.ranks.clone()).unwrap_or_default();
            ranks.iter().filter_map(|rank| self.number_on(node, (job, rank))).collect::<Vec<_>>()
        };
        (0..self.job_count()).flat_map(ranks).collect()
    }

    /// Records the loss of a node: its ranks do not run any more. Returns those that did.
    pub(super) fn note_loss(&mut self, node: NodeId) -> Vec<(u32, u32)> {
        let Some(state) = self.get_mut(node) else { return Vec::new() };
        state.is_lost = true;
        let mut lost = Vec::new();
        for job in 0..self.job_count() {
            let ranks = self.on(node, job).map(|of| of.ranks.clone()).unwrap_or_default();
            lost.extend(ranks.iter().filter_map(|rank| {
                self.note_end(node, (job, rank))?;
                Some((job, rank))
            }));
        }
        lost
    }

    /// Process number of a rank of a node, if it was started there.
    pub(super) fn number_on(&self, node: NodeId, (job, rank): (u32, u32)) -> Option<u32> {
        self.on(node, job)?.ranks.local_rank(rank)?;
        *self.jobs.get(index(job))?.numbers.get(index(rank))?
    }

    /// Process number of a rank of any node, if it was started.
    pub(super) fn number_of(&self, (job, rank): (u32, u32)) -> Option<u32> {
        *self.jobs.get(index(job))?.numbers.get(index(rank))?
    }

    /// Records text of `len` bytes behind the first `at` bytes of a stream. Returns the number of the
    /// process, and how many of the bytes have come before by another path; `None` for an unknown rank.
    pub(super) fn note_text(
        &mut self,
        (job, rank, stream): (u32, u32, Stream),
        (at, len): (u64, usize),
    ) -> Option<(u32, usize)> {
        let number = self.number_of((job, rank))?;
        let received = &mut self.jobs.get_mut(index(job))?.received[stream.index()];
        if received.len() <= index(rank) {
            received.resize(index(rank) + 1, 0);
        }
        let received = received.get_mut(index(rank))?;
        let known = usize::try_from(received.saturating_sub(at)).unwrap_or(len).min(len);
        *received = at.saturating_add(len as u64).max(*received);
        Some((number, known))
    }

    /// True if a rank was started and does not run any more.
    pub(super) fn has_ended(&self, (job, rank): (u32, u32)) -> bool {
        let numbers = self.jobs.get(index(job)).map(|job| &job.numbers);
        let number = numbers.and_then(|all| all.get(index(rank)).copied().flatten());
        let process = number.and_then(|number| self.processes.get(index(number)));
        process.is_some_and(|(_, is_running)| !is_running)
    }

    /// Records ranks of a job that have failed, and returns all of them.
    pub(super) fn note_failed(&mut self, job: u32, ranks: impl Iterator<Item = u32>) -> Vec<u32> {
        let Some(job) = self.jobs.get_mut(index(job)) else { return Vec::new() };
        job.failed.extend(ranks);
        job.failed.iter().copied().collect()
    }

    /// True if all ranks of a job on a node have ended.
    pub(super) fn is_empty(&self, node: NodeId, job: u32) -> bool {
        self.on(node, job).is_some_and(|of| of.ranks.iter().all(|rank| self.has_ended((job, rank))))
    }

    /// Process of a rank, if it was started.
    pub(super) fn pid(&self, (job, rank): (u32, u32)) -> Option<i32> {
        let number = (*self.jobs.get(index(job))?.numbers.get(index(rank))?)?;
        self.processes.get(index(number)).map(|(process, _)| process.pid)
    }

    /// True if all ranks of a job were started.
    pub(super) fn has_started_all(&self, job: u32) -> bool {
        self.jobs.get(index(job)).is_some_and(JobRanks::has_started)
    }

    /// True if the ranks of all jobs were started.
    pub(super) fn have_started(&self) -> bool {
        self.jobs.iter().all(JobRanks::has_started)
    }

    /// True if all ranks of the first job on a node were started.
    pub(super) fn has_started_on(&self, node: NodeId) -> bool {
        self.on(node, 0).is_none_or(|of| of.started_count == of.ranks.count())
    }

    /// True if all ranks of a job were started and have ended.
    pub(super) fn has_job_ended(&self, job: u32) -> bool {
        self.jobs.get(index(job)).is_some_and(JobRanks::has_ended)
    }

    /// Records that a job is not started completely; false if that was done before, or there is no such job.
    pub(super) fn set_undone(&mut self, job: u32) -> bool {
        let job = self.jobs.get_mut(index(job));
        job.is_some_and(|job| !std::mem::replace(&mut job.is_undone, true))
    }

    /// True if a job was not started completely.
    pub(super) fn is_undone(&self, job: u32) -> bool {
        self.jobs.get(index(job)).is_some_and(|job| job.is_undone)
    }

    /// Number of ranks that run.
    pub(super) const fn running_count(&self) -> usize {
        self.running_count
    }

    /// Number of ranks that run or are about to start: nodes report starts independently of each other.
    pub(super) fn remaining_count(&self) -> usize {
        self.jobs.iter().map(JobRanks::remaining_count).sum()
    }

    /// Ranks of a job that run.
    pub(super) fn all_running(&self, job: u32) -> Ranks {
        self.with_state(job, |is_running| is_running)
    }

    /// Ranks of a job that have ended, and those of lost nodes.
    pub(super) fn all_ended(&self, job: u32) -> Ranks {
        self.with_state(job, |is_running| !is_running)
    }

    /// The process with this number, and whether it runs.
    pub(super) fn process(&self, number: u32) -> Option<(RemoteProcess, bool)> {
        self.processes.get(index(number)).copied()
    }

    /// All processes that were started, each with whether it runs.
    pub(super) fn processes(&self) -> impl Iterator<Item = (RemoteProcess, bool)> {
        self.processes.iter().copied()
    }

    fn with_state(&self, job: u32, is_wanted: impl Fn(bool) -> bool) -> Ranks {
        let numbers = self.jobs.get(index(job)).map_or(&[][..], |job| &job.numbers);
        let process = |number: &Option<u32>| self.processes.get(index((*number)?));
        let of_rank = (0..).zip(numbers).filter_map(|(rank, number)| {
            process(number).filter(|(_, is_running)| is_wanted(*is_running)).map(|_| rank)
        });
        of_rank.collect()
    }

    /// True if no node has anything left to do or to send.
    pub(super) fn are_quiet(&self) -> bool {
        self.busy().next().is_none()
    }

    /// Nodes that have something left to do or to send.
    pub(super) fn busy(&self) -> impl Iterator<Item = NodeId> {
        let busy = self.iter().filter(|(_, node)| !node.is_lost && !node.is_quiet());
        busy.map(|(node, _)| node)
    }
}

impl JobRanks {
    fn has_started(&self) -> bool {
        self.is_undone || index(self.started_count) == self.numbers.len()
    }

    fn has_ended(&self) -> bool {
        self.running_count == 0 && self.has_started()
    }

    fn remaining_count(&self) -> usize {
        let starting = self.numbers.len() - index(self.started_count);
        index(self.running_count) + if self.is_undone { 0 } else { starting }
    }
}

impl NodeState {
    fn new(host: &str) -> Self {
        Self {
            host: host.to_owned(),
            outputs_count: 0,
            batches_count: 0,
            messages_count: 0,
            outputs_total: None,
            is_lost: false,
            is_new: false,
            heard_at: clock::now(),
        }
    }

    /// Counts an output message.
    pub(super) fn note_output(&mut self) {
        self.outputs_count += 1;
    }

    /// Records that this many batches have arrived, in a message of any node.
    pub(super) fn note_batches(&mut self, count: u64) {
        self.batches_count = self.batches_count.max(count);
        self.heard_at = clock::now();
    }

    /// Records the line of the node with this number; false if it has arrived before.
    pub(super) const fn note_message(&mut self, number: u64) -> bool {
        let is_new = number > self.messages_count;
        if is_new {
            self.messages_count = number;
        }
        is_new
    }

    /// Records that all ranks of the node have ended.
    pub(super) fn set_quiet(&mut self, outputs: u64) {
        self.outputs_total = Some(outputs);
    }

    /// True if this many output messages have arrived.
    pub(super) fn has_sent(&self, outputs: u64) -> bool {
        self.is_lost || self.outputs_count.saturating_add(self.batches_count) >= outputs
    }

    fn is_quiet(&self) -> bool {
        let count = self.outputs_count.saturating_add(self.batches_count);
        self.outputs_total.is_some_and(|total| count >= total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::tests::placed;

    /// Ranks 0 and 2 on `n1`, rank 1 on `n2`.
    fn table() -> NodeTable {
        NodeTable::new(&placed("n1,n2", 3), 3)
    }

    #[test]
    fn starts_and_ends_are_those_of_the_node() {
        let mut table = table();
        let (first, second) = (NodeId(1), NodeId(2));
        assert_eq!(table.note_start(second, 0, 21), Some((0, 1)));
        assert_eq!((table.running_count(), table.remaining_count()), (1, 3));
        assert_eq!(table.note_start(first, 0, 10), Some((1, 0)));
        assert_eq!(table.note_start(first, 0, 12), Some((2, 2)));
        assert_eq!(table.note_start(first, 0, 13), None);
        assert_eq!(table.note_start(NodeId(0), 0, 1), None);
        assert_eq!(
            (table.pid((0, 1)), table.pid((0, 2)), table.pid((0, 3))),
            (Some(21), Some(12), None)
        );
        assert_eq!(table.note_end(second, (0, 0)), None, "the rank of another node");
        assert_eq!(table.note_end(first, (0, 0)), Some(1));
        assert_eq!(table.note_end(first, (0, 0)), None, "it has ended");
        let ranks = |all: &[u32]| all.iter().copied().collect::<Ranks>();
        assert_eq!((table.all_running(0), table.all_ended(0)), (ranks(&[1, 2]), ranks(&[0])));
        // What the node has not sent of the output of either is lost.
        assert_eq!(table.numbers_of_node(first), [1, 2]);
        assert_eq!(table.note_loss(first), [(0, 2)]);
        assert_eq!((table.all_running(0), table.all_ended(0)), (ranks(&[1]), ranks(&[0, 2])));
        assert_eq!(table.running_count(), 1);
    }

    #[test]
    fn jobs_have_ranks_of_their_own() {
        let mut table = table();
        let first = NodeId(1);
        assert_eq!(table.note_start(first, 0, 10), Some((0, 0)));
        table.get_mut(first).unwrap().set_quiet(0);
        table.add_job(&placed("n1:2,n2", 3));
        assert!(!table.are_quiet() && table.job_count() == 2);
        assert_eq!(table.loads(&[1, 1]).iter().map(|load| load.used).collect::<Vec<_>>(), [4, 2]);
        assert_eq!(table.note_start(first, 1, 11), Some((1, 0)));
        assert_eq!((table.pid((0, 0)), table.pid((1, 0))), (Some(10), Some(11)));
        assert_eq!(table.note_end(first, (1, 0)), Some(1));
        assert_eq!((table.has_ended((1, 0)), table.has_ended((0, 0))), (true, false));
        assert!(!table.has_job_ended(1) && table.set_undone(1) && !table.set_undone(1));
        assert!(table.has_job_ended(1) && !table.have_started());
        assert_eq!(table.remaining_count(), 3, "those of the first job");
        assert_eq!(table.note_loss(first), [(0, 0)]);
    }

    #[test]
    fn text_of_a_rank_is_taken_once_by_any_path() {
        let mut table = table();
        let at = |table: &mut NodeTable, at, len| table.note_text((0, 1, Stream::Out), (at, len));
        assert_eq!(at(&mut table, 0, 5), None, "it was not started");
        table.note_start(NodeId(2), 0, 21);
        assert_eq!(at(&mut table, 0, 5), Some((0, 0)));
        assert_eq!(at(&mut table, 0, 5), Some((0, 5)));
        assert_eq!(at(&mut table, 3, 6), Some((0, 2)));
        assert_eq!(at(&mut table, 1, 2), Some((0, 2)));
        assert_eq!(at(&mut table, 9, 1), Some((0, 0)));
        assert_eq!(table.note_text((0, 1, Stream::Err), (0, 1)), Some((0, 0)));
        let node = table.get_mut(NodeId(2)).unwrap();
        assert!(node.note_message(1) && !node.note_message(1) && node.note_message(3));
    }

    #[test]
    fn node_is_quiet_once_its_output_has_arrived() {
        let mut table = table();
        table.note_loss(NodeId(1));
        let node = table.get_mut(NodeId(2)).unwrap();
        node.note_output();
        node.set_quiet(2);
        assert!(node.has_sent(1) && !table.are_quiet());
        // A batch in a message of another node counts as well, once.
        table.get_mut(NodeId(2)).unwrap().note_batches(1);
        assert!(table.are_quiet());
        table.get_mut(NodeId(2)).unwrap().set_quiet(3);
        table.get_mut(NodeId(2)).unwrap().note_batches(1);
        assert!(!table.are_quiet());
    }
}
