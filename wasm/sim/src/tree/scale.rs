//! Operations of very many nodes, and their cost.

use super::check::Traffic;
use super::plan::TreePlan;
use super::world::TreeWorld;
use crate::check::Violation;
use crate::rng::Span;
use pmi_tree::NodeId;

/// Cost of one operation at links of 10 Gbit/s with 30 microseconds of latency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeCost {
    /// Number of nodes, with the head.
    pub nodes: u32,
    /// Bytes of the result.
    pub total: u64,
    /// Simulated time, in microseconds.
    pub micros: u64,
    /// Time in which an interface receives the result alone, in microseconds.
    pub floor_micros: u64,
    /// Most frames of a node, sent and received.
    pub frames: u64,
    /// Most bytes of a node, the larger of both directions.
    pub bytes: u64,
    /// Steps of the world.
    pub steps: u64,
}

/// Memory that [`cost`] takes: each node keeps the result, and a quarter of it besides is under way.
pub const fn memory_bytes(nodes: u32, bytes: u64) -> u64 {
    let results = (nodes as u64).saturating_mul(nodes as u64).saturating_mul(bytes);
    results.saturating_add(results / 4).saturating_add((nodes as u64).saturating_mul(NODE_BYTES))
}

/// Memory of a node without data.
const NODE_BYTES: u64 = 16 << 10;

/// Simulates one operation in which every node contributes `bytes` bytes.
///
/// # Errors
///
/// The first broken rule.
pub fn cost(nodes: u32, bytes: u64) -> Result<TreeCost, Violation> {
    cost_of(TreePlan::quiet(nodes, 1, bytes))
}

/// The same at links with this latency, in microseconds, and these picoseconds for a byte.
///
/// # Errors
///
/// As [`cost`].
pub(super) fn cost_at(
    nodes: u32,
    bytes: u64,
    (latency, byte_picos): (u64, u64),
) -> Result<TreeCost, Violation> {
    let latency = Span::just(latency);
    cost_of(TreePlan { latency, byte_picos, ..TreePlan::quiet(nodes, 1, bytes) })
}

fn cost_of(plan: TreePlan) -> Result<TreeCost, Violation> {
    let (nodes, byte_picos) = (plan.nodes, plan.byte_picos);
    let mut world = TreeWorld::new(plan, 1, None);
    world.run();
    if let Some(violation) = world.checks().violations().first() {
        return Err(violation.clone());
    }
    let total = world.checks().total(1) as u64;
    let traffic = world.checks().traffic();
    Ok(TreeCost {
        nodes,
        total,
        micros: world.last_result().saturating_sub(world.first_contribution()),
        floor_micros: total * byte_picos / 1_000_000,
        frames: traffic.iter().map(|node| node.frames).max().unwrap_or(0),
        bytes: traffic
            .iter()
            .map(|Traffic { sent, received, .. }| *sent.max(received))
            .max()
            .unwrap_or(0),
        steps: world.steps(),
    })
}

impl TreeCost {
    /// Simulated time over the time that the bandwidth alone takes, in hundredths.
    pub fn percent_of_floor(&self) -> u64 {
        self.micros * 100 / self.floor_micros.max(1)
    }

    /// Time of the bytes of the busiest node over that of the result, in hundredths.
    pub fn percent_of_bytes(&self) -> u64 {
        // What a node receives before it can send the last byte, and what it sends.
        (self.bytes + self.total) * 100 / self.total.max(1)
    }

    /// Depth of the tree.
    pub fn depth(&self) -> usize {
        NodeId(self.nodes.saturating_sub(1)).ancestors(4).count()
    }
}
