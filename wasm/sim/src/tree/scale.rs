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

/// Links of a tree, all alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeLinks {
    /// Latency, in microseconds.
    pub latency_micros: u64,
    /// Picoseconds of a byte at an interface.
    pub byte_picos: u64,
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

/// Time of one operation in which every node contributes `bytes` bytes, in microseconds. Where that does not
/// fit into 512 MiB of memory, as much data as does is simulated, and the rest takes as long for a byte as
/// the second half of that.
///
/// # Errors
///
/// The first broken rule.
pub fn fence_micros(nodes: u32, bytes: u64, links: TreeLinks) -> Result<u64, Violation> {
    let micros = |bytes| cost_at(nodes, bytes, links).map(|cost| cost.micros);
    if memory_bytes(nodes, bytes) <= FENCE_MEMORY {
        return micros(bytes);
    }
    let empty = memory_bytes(nodes, 0);
    let each = memory_bytes(nodes, 1).saturating_sub(empty).max(1);
    let half = FENCE_MEMORY.saturating_sub(empty) / each / 2;
    let whole = micros(2 * half)?;
    Ok(whole + beyond((half, micros(half)?), (2 * half, whole), bytes))
}

/// Time of `bytes` beyond those of a sample, whose time is known, as that of half of them.
fn beyond((half, of_half): (u64, u64), (whole, of_whole): (u64, u64), bytes: u64) -> u64 {
    let rest = bytes.saturating_sub(whole);
    of_whole.saturating_sub(of_half).saturating_mul(rest) / (whole - half).max(1)
}

/// Memory for the results of all nodes of a fence.
const FENCE_MEMORY: u64 = 512 << 20;

fn cost_at(nodes: u32, bytes: u64, links: TreeLinks) -> Result<TreeCost, Violation> {
    let TreeLinks { latency_micros, byte_picos } = links;
    let latency = Span::just(latency_micros);
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

#[cfg(test)]
mod tests {
    use super::*;

    const LINKS: TreeLinks = TreeLinks { latency_micros: 30, byte_picos: 800 };

    #[test]
    fn data_that_does_not_fit_into_memory_is_estimated_from_a_part() {
        let cost = |bytes| cost_at(301, bytes, LINKS).unwrap().micros;
        let (half, whole, bytes) = (250, 500, 2000);
        let estimate = cost(whole) + beyond((half, cost(half)), (whole, cost(whole)), bytes);
        let direct = fence_micros(301, bytes, LINKS).unwrap();
        assert_eq!(direct, cost(bytes));
        // The first frames of a small result fill the tree, so the estimate is above.
        assert!((direct..direct * 3 / 2).contains(&estimate), "{estimate} {direct}");
        // 1,024 nodes with 19,200 bytes each take 25 GB.
        let large = fence_micros(1025, 19_200, LINKS).unwrap();
        let floor = 1024 * 19_200 * 800 / 1_000_000;
        assert!((5 * floor..7 * floor).contains(&large), "{large} {floor}");
    }

    #[test]
    fn fence_of_more_nodes_is_never_earlier() {
        let times = [1, 8, 64, 100, 200].map(|hosts| fence_micros(hosts + 1, 600, LINKS).unwrap());
        assert!(times.is_sorted(), "{times:?}");
    }
}
