//! Ranks of a spawned job on the nodes of a run.

use super::NodeMap;

/// A node of a run, and the ranks that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeLoad {
    /// Number of ranks that the node takes before the next one has its turn; at least one.
    pub(crate) slots: u32,
    /// Number of ranks of all jobs that it has.
    pub(crate) used: u32,
}

/// Ranks of one program of a spawned job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpawnedPart {
    /// Number of ranks.
    pub(crate) ranks: u32,
    /// Nodes that were requested, as often as each takes a rank before the next one; none for all nodes of
    /// the run.
    pub(crate) nodes: Vec<u32>,
}

/// Places the ranks of a spawned job. Without requested nodes, the turns of the run continue: first the
/// nodes with free slots, then all of them again, each with as many ranks as it has slots. On requested
/// nodes, turns begin with the first one.
///
/// Returns `None` without nodes, or for a node that does not exist.
pub(crate) fn place_spawned(parts: &[SpawnedPart], loads: &mut [NodeLoad]) -> Option<NodeMap> {
    let mut blocks: Vec<(u32, u32)> = Vec::new();
    for SpawnedPart { ranks, nodes } in parts {
        let mut rest = *ranks;
        while rest > 0 {
            let turns = if nodes.is_empty() { free_turns(loads) } else { requested_turns(nodes) };
            if turns.is_empty() {
                return None;
            }
            for (node, count) in turns {
                let count = count.min(rest);
                let load = loads.get_mut(usize::try_from(node).ok()?)?;
                load.used = load.used.saturating_add(count);
                rest -= count;
                match blocks.last_mut().filter(|(last, _)| *last == node) {
                    Some((_, ranks)) => *ranks += count,
                    None if count > 0 => blocks.push((node, count)),
                    None => {}
                }
            }
        }
    }
    NodeMap::of_blocks(&blocks, u32::try_from(loads.len()).ok()?)
}

/// The nodes that have taken part in the fewest turns, with the ranks that they lack for the next one.
fn free_turns(loads: &[NodeLoad]) -> Vec<(u32, u32)> {
    let turn = |load: &NodeLoad| load.used / load.slots.max(1);
    let Some(least) = loads.iter().map(turn).min() else { return Vec::new() };
    let lack = |load: &NodeLoad| {
        let slots = load.slots.max(1);
        (least + 1).saturating_mul(slots).saturating_sub(load.used).max(1)
    };
    let free = (0..).zip(loads).filter(|(_, load)| turn(load) == least);
    free.map(|(node, load)| (node, lack(load))).collect()
}

fn requested_turns(nodes: &[u32]) -> Vec<(u32, u32)> {
    nodes.iter().map(|node| (*node, 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(loads: &mut [(u32, u32)], parts: &[(u32, &[u32])]) -> Vec<u32> {
        let part =
            |(ranks, nodes): &(u32, &[u32])| SpawnedPart { ranks: *ranks, nodes: nodes.to_vec() };
        let parts: Vec<SpawnedPart> = parts.iter().map(part).collect();
        let of = |(slots, used): &(u32, u32)| NodeLoad { slots: *slots, used: *used };
        let mut all: Vec<NodeLoad> = loads.iter().map(of).collect();
        let map = place_spawned(&parts, &mut all).unwrap();
        for (load, after) in loads.iter_mut().zip(all) {
            load.1 = after.used;
        }
        map.nodes_by_rank().collect()
    }

    #[test]
    fn turns_of_the_run_continue() {
        let mut loads = [(2, 2), (2, 1), (2, 2)];
        assert_eq!(placed(&mut loads, &[(1, &[])]), [1], "a slot is free");
        assert_eq!(placed(&mut loads, &[(3, &[])]), [0, 0, 1]);
        assert_eq!(placed(&mut loads, &[(4, &[])]), [1, 2, 2, 0]);
        assert_eq!(loads, [(2, 5), (2, 4), (2, 4)]);
    }

    #[test]
    fn requested_nodes_take_ranks_in_turn() {
        let mut loads = [(1, 1), (1, 1), (1, 1)];
        assert_eq!(placed(&mut loads, &[(3, &[2, 1]), (2, &[0])]), [2, 1, 2, 0, 0]);
        assert_eq!(placed(&mut loads, &[(1, &[1, 1, 2])]), [1]);
        let part = SpawnedPart { ranks: 1, nodes: vec![9] };
        assert_eq!(place_spawned(&[part], &mut [NodeLoad { slots: 1, used: 0 }]), None);
        assert_eq!(place_spawned(&[SpawnedPart { ranks: 1, nodes: vec![] }], &mut []), None);
    }
}
