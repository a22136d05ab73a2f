//! The rules, with models of their own.

use super::plan::TreePlan;
use crate::check::Violation;
use pmi_core::wire::nodes::CHUNK_BYTES;
use pmi_tree::{Class, CollectiveId, Destination, NodeId};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Frames and bytes of a node, sent and received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Frames of collective operations.
    pub frames: u64,
    /// Bytes that were sent.
    pub sent: u64,
    /// Bytes that were received.
    pub received: u64,
}

/// Messages with one order: sender, class, and the kind of the receiver.
type Stream = (NodeId, Class, Option<NodeId>);

/// What is known about the run, and the broken rules.
#[derive(Clone, Debug, Default)]
pub struct TreeChecks {
    contributed: BTreeSet<(NodeId, u32)>,
    /// Bytes of all contributions to each operation.
    totals: BTreeMap<u32, usize>,
    excluded: BTreeSet<NodeId>,
    lost: BTreeSet<NodeId>,
    results: Vec<(u32, Rc<[u8]>)>,
    ended: BTreeMap<NodeId, usize>,
    sent: BTreeMap<Stream, u32>,
    arrived: BTreeMap<(NodeId, Stream), u32>,
    /// By node that has joined later: messages to all nodes that were sent before.
    joined: BTreeMap<NodeId, BTreeMap<Stream, u32>>,
    /// Number of growths, and of all nodes.
    growths: usize,
    pub(super) traffic: Vec<Traffic>,
    violations: Vec<Violation>,
    /// Time and step of the observation.
    now: (u64, u64),
}

/// State of a node in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Alive {
        is_attached: bool,
    },
    /// Killed or isolated by a fault.
    Hit,
    /// It has left: the head was lost, or has excluded it.
    Left {
        has_lost_head: bool,
    },
}

impl TreeChecks {
    pub(super) fn new(nodes: u32) -> Self {
        let traffic = vec![Traffic::default(); nodes as usize];
        Self { traffic, ..Self::default() }
    }

    pub(super) fn at(&mut self, time: u64, step: u64) {
        self.now = (time, step);
    }

    /// Rules that were broken.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Frames and bytes, by node.
    pub fn traffic(&self) -> &[Traffic] {
        &self.traffic
    }

    /// Bytes of the result of an operation.
    pub fn total(&self, number: u32) -> usize {
        self.totals.get(&number).copied().unwrap_or(0)
    }

    /// True if a node has received all results, or joined after them.
    pub fn has_all(&self, node: NodeId) -> bool {
        self.ended(node) >= self.results.len()
    }

    /// An operation without a result, of a job of which a node lives.
    fn unfinished(&self, lives: impl Fn(NodeId) -> bool, plan: &TreePlan) -> Option<u32> {
        let is_kept = |job: &usize| (1..plan.nodes_after(*job)).map(NodeId).any(&lives);
        let jobs = (0..=self.growths).filter(is_kept);
        let first = |job| u32::try_from(job).unwrap_or(u32::MAX) * plan.operations;
        let mut operations = jobs.flat_map(|job| first(job) + 1..=first(job) + plan.operations);
        operations.find(|number| self.results.iter().all(|(ended, _)| ended != number))
    }

    /// Records a growth; returns the number of its job.
    pub(super) fn grow(&mut self, count: u32) -> u32 {
        self.growths += 1;
        self.traffic.extend((0..count).map(|_| Traffic::default()));
        u32::try_from(self.growths + 1).unwrap_or(u32::MAX)
    }

    /// The growth does not take place.
    pub(super) fn ungrow(&mut self, count: u32) {
        self.growths -= 1;
        self.traffic.truncate(self.traffic.len() - count as usize);
    }

    /// Records a node that joins after this many results.
    pub(super) fn on_joined(&mut self, node: NodeId, ended: u64) {
        self.ended.insert(node, usize::try_from(ended).unwrap_or(usize::MAX));
        let to_all = self.sent.iter().filter(|((_, _, to), _)| to.is_none());
        self.joined.insert(node, to_all.map(|(stream, sent)| (*stream, *sent)).collect());
    }

    /// Messages of a stream that a node need not receive.
    fn sent_before(&self, node: NodeId, stream: Stream) -> u32 {
        self.joined.get(&node).and_then(|sent| sent.get(&stream)).copied().unwrap_or(0)
    }

    /// Number of results that a node has received.
    pub fn ended(&self, node: NodeId) -> usize {
        self.ended.get(&node).copied().unwrap_or(0)
    }

    pub(super) fn found(&mut self, rule: &'static str, what: String) {
        let (at, step) = self.now;
        self.violations.push(Violation { at, step, rule, what });
    }

    pub(super) fn on_contribution(&mut self, node: NodeId, number: u32, len: usize) {
        self.contributed.insert((node, number));
        *self.totals.entry(number).or_default() += len;
    }

    pub(super) fn on_excluded(&mut self, node: NodeId) {
        self.excluded.insert(node);
    }

    pub(super) fn on_lost(&mut self, node: NodeId, is_expected: bool) {
        self.lost.insert(node);
        if !is_expected {
            self.found("blamed", format!("node {} is reported as lost and lives", node.0));
        }
    }

    pub(super) fn is_named(&self, node: NodeId) -> bool {
        self.lost.contains(&node) || self.excluded.contains(&node)
    }

    pub(super) fn on_ended(
        &mut self,
        node: NodeId,
        id: CollectiveId,
        (data, members): (&Rc<[u8]>, u64),
        plan: &TreePlan,
    ) {
        let number = number(id.job, id.number, plan);
        let place = *self.ended.entry(node).and_modify(|count| *count += 1).or_insert(1) - 1;
        if node == NodeId::HEAD {
            self.check_result(number, data, members, plan);
            return self.results.push((number, data.clone()));
        }
        match self.results.get(place) {
            None => {
                self.found("early", format!("operation {number} ends first at node {}", node.0))
            }
            Some((other, result)) if *other != number || result != data => {
                let what = format!(
                    "result {place} of node {} is operation {number} with {} bytes, at the head {other} \
                     with {}",
                    node.0,
                    data.len(),
                    result.len()
                );
                self.found("same", what);
            }
            Some(_) => {}
        }
    }

    fn check_result(&mut self, number: u32, data: &[u8], members: u64, plan: &TreePlan) {
        let nodes = plan.nodes_after((number as usize - 1) / plan.operations.max(1) as usize);
        let waiting = (1..nodes).map(NodeId).filter(|node| {
            !self.excluded.contains(node) && !self.contributed.contains(&(*node, number))
        });
        if let Some(node) = waiting.min() {
            let what = format!("operation {number} ends, and node {} has not contributed", node.0);
            self.found("early", what);
        }
        let mut rest = data;
        let mut counted = 0;
        for node in (1..nodes).map(NodeId) {
            let own = contribution(node, number, plan);
            if own.is_empty() {
                continue;
            }
            match rest.strip_prefix(own.as_slice()) {
                Some(behind) => (rest, counted) = (behind, counted + u64::from(plan.members)),
                None if self.excluded.contains(&node) => {}
                None => {
                    let what =
                        format!("operation {number} lacks the contribution of node {}", node.0);
                    return self.found("data", what);
                }
            }
        }
        if !rest.is_empty() {
            self.found("data", format!("operation {number} has {} bytes of no node", rest.len()));
        }
        let most = u64::from(nodes - 1) * u64::from(plan.members);
        if members < counted || members > most {
            self.found("data", format!("operation {number} has {members} members"));
        }
    }

    pub(super) fn on_sent(&mut self, from: NodeId, to: Destination, class: Class) -> u32 {
        let count = self.sent.entry(stream(from, to, class)).or_default();
        *count += 1;
        *count
    }

    pub(super) fn on_message(&mut self, node: NodeId, from: NodeId, class: Class, body: &[u8]) {
        let (is_directed, number) = header(body);
        let stream = (from, class, is_directed.then_some(node));
        let before = self.sent_before(node, stream);
        let expected = match self.arrived.insert((node, stream), number) {
            Some(last) => last + 1,
            // What was sent before it joined may be under way.
            None => number.clamp(1, before + 1),
        };
        if number != expected {
            let what = format!(
                "node {} receives message {number} of node {} instead of {expected}",
                node.0, from.0
            );
            self.found("once", what);
        }
    }

    /// Rules for the end of a run.
    pub(super) fn finish(&mut self, fates: &[Fate], plan: &TreePlan) {
        let nodes = || (0..plan.nodes_after(self.growths)).map(NodeId);
        let fate = |node: NodeId| fates[node.0 as usize];
        let lives = |node: NodeId| matches!(fate(node), Fate::Alive { .. });
        let has_head = lives(NodeId::HEAD);
        let mut found: Vec<(&'static str, String)> = Vec::new();
        if has_head && let Some(number) = self.unfinished(lives, plan) {
            found.push(("waits", format!("operation {number} does not end")));
        }
        for node in nodes() {
            match fate(node) {
                Fate::Alive { .. } if !has_head && node != NodeId::HEAD => {
                    found.push((
                        "orphan",
                        format!("node {} does not know that the head is lost", node.0),
                    ));
                }
                Fate::Alive { is_attached } => {
                    if !is_attached {
                        found.push(("orphan", format!("node {} is not attached", node.0)));
                    }
                    let is_alone = !nodes().any(|other| other != NodeId::HEAD && lives(other));
                    if !is_alone && !self.has_all(node) {
                        let count = self.ended(node);
                        let of = self.results.len();
                        found.push((
                            "waits",
                            format!("node {} has {count} of {of} results", node.0),
                        ));
                    }
                }
                Fate::Left { has_lost_head: true } if has_head && !self.is_named(node) => {
                    found.push(("orphan", format!("node {} takes the head for lost", node.0)));
                }
                Fate::Left { has_lost_head: false } if !self.is_named(node) => {
                    found.push(("blamed", format!("node {} is excluded without reason", node.0)));
                }
                Fate::Hit if has_head && !self.is_named(node) => {
                    found.push(("named", format!("the loss of node {} is not reported", node.0)));
                }
                _ => {}
            }
        }
        for ((from, class, to), sent) in &self.sent {
            let receivers = nodes().filter(|node| match to {
                Some(to) => to == node,
                None => node != from,
            });
            for node in receivers.filter(|node| has_head && lives(*node) && lives(*from)) {
                let stream = (*from, *class, *to);
                let arrived = self.arrived.get(&(node, stream)).copied();
                let arrived = arrived.unwrap_or_else(|| self.sent_before(node, stream));
                if arrived != *sent {
                    let what = format!(
                        "{arrived} of {sent} messages of node {} arrive at node {}",
                        from.0, node.0
                    );
                    found.push(("once", what));
                }
            }
        }
        if plan.faults.is_empty() && plan.talks.is_empty() && self.growths == 0 {
            self.check_traffic(plan, &mut found);
        }
        for (rule, what) in found {
            self.found(rule, what);
        }
    }

    /// A frame in each direction of each edge, and as many more as the bytes fill.
    fn check_traffic(&self, plan: &TreePlan, found: &mut Vec<(&'static str, String)>) {
        let edges = u64::from(plan.radix) + 1;
        let chunks: u64 = self.totals.values().map(|total| (total / CHUNK_BYTES) as u64).sum();
        let frames_max = u64::from(plan.operations) * edges * 2 + chunks * edges * 3;
        let bytes: u64 = self.totals.values().map(|total| *total as u64).sum();
        // Numbers of nodes, and frames without data: attachment, signs of life.
        let lists = u64::from(plan.nodes) * 16 * u64::from(plan.operations);
        let bytes_max = bytes * edges + lists + frames_max * 64 + 2_000;
        for (node, traffic) in self.traffic.iter().enumerate() {
            let Traffic { frames, sent, received } = *traffic;
            if frames > frames_max || sent > bytes_max || received > bytes_max {
                let what = format!(
                    "node {node} has {frames} frames of {frames_max}, sends {sent} and receives {received} \
                     bytes of {bytes_max}"
                );
                found.push(("traffic", what));
            }
        }
    }
}

/// Number of an operation among those of all jobs.
pub(super) fn number(job: u32, number: u32, plan: &TreePlan) -> u32 {
    job.saturating_sub(1) * plan.operations + number
}

fn stream(from: NodeId, to: Destination, class: Class) -> Stream {
    match to {
        Destination::All => (from, class, None),
        // Trees of the simulator send no message to a parent.
        Destination::Head | Destination::Parent => (from, class, Some(NodeId::HEAD)),
        Destination::Node(node) => (from, class, Some(node)),
    }
}

/// Body of a message: its number in its stream, and bytes.
pub(super) fn body(to: Destination, number: u32, len: usize) -> Vec<u8> {
    let mut body = vec![u8::from(to != Destination::All)];
    body.extend(number.to_le_bytes());
    body.resize(len.max(body.len()), 0x5a);
    body
}

fn header(body: &[u8]) -> (bool, u32) {
    let number = body.get(1..5).and_then(|bytes| bytes.try_into().ok());
    (body.first() == Some(&1), number.map_or(0, u32::from_le_bytes))
}

/// Bytes that a node contributes to an operation: they name both.
pub(super) fn contribution(node: NodeId, number: u32, plan: &TreePlan) -> Vec<u8> {
    let mut rng = crate::rng::Rng::new(u64::from(node.0), u64::from(number));
    let len = usize::try_from(rng.within(plan.bytes)).unwrap_or(0);
    let mut data = Vec::with_capacity(len);
    data.extend(node.0.to_le_bytes());
    data.extend(number.to_le_bytes());
    let fill = rng.byte();
    data.resize(len, fill);
    data
}
