//! Node of every rank, in memory that grows with the runs of the layout and not with the ranks.

use serde::{Deserialize, Serialize};

/// Node of every rank of a job. Nodes have numbers from 0; each has at least one rank, except for those of a
/// spawned job, and the last ones of a run that has more hosts. The serialized form has no nodes without
/// ranks.
///
/// The layout is a sequence of rounds, each of which is repeated: block, cyclic and ragged layouts of any
/// number of ranks take a few rounds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Vec<NodeRound>", try_from = "Vec<NodeRound>")]
pub(crate) struct NodeMap {
    rounds: Vec<PlacedRound>,
    ranks: u32,
    nodes: u32,
}

/// Runs of ranks on nodes, in the order of the ranks, and the number of their repetitions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NodeRound {
    /// Nodes in turn, with numbers of ranks.
    pub(super) blocks: Vec<NodeBlock>,
    /// Number of repetitions.
    pub(super) times: u32,
}

/// Consecutive nodes that take the same number of ranks each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NodeBlock {
    /// First node.
    pub(super) node: u32,
    /// Number of nodes.
    pub(super) nodes: u32,
    /// Number of ranks of each.
    pub(super) ranks: u32,
}

/// A round with its place among the ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PlacedRound {
    /// First rank of the first repetition.
    first: u32,
    /// Number of ranks of one repetition.
    ranks: u32,
    times: u32,
    blocks: Vec<PlacedBlock>,
}

/// A block with its place in the round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PlacedBlock {
    /// First rank, counted from the start of the repetition.
    first: u32,
    block: NodeBlock,
}

impl NodeMap {
    /// Map of one rank, on the only node.
    pub(crate) fn single() -> Self {
        let block = NodeBlock { node: 0, nodes: 1, ranks: 1 };
        let round = PlacedRound {
            first: 0,
            ranks: 1,
            times: 1,
            blocks: vec![PlacedBlock { first: 0, block }],
        };
        Self { rounds: vec![round], ranks: 1, nodes: 1 }
    }

    /// Map of a spawned job, from nodes with numbers of ranks, in the order of the ranks. Some of the `nodes`
    /// of its run may have none. `None` if there is no rank, or a number that cannot be.
    pub(crate) fn of_blocks(blocks: &[(u32, u32)], nodes: u32) -> Option<Self> {
        let (mut placed, mut first) = (Vec::with_capacity(blocks.len()), 0_u32);
        for (node, ranks) in blocks {
            if *node >= nodes || *ranks == 0 {
                return None;
            }
            let block = NodeBlock { node: *node, nodes: 1, ranks: *ranks };
            placed.push(PlacedBlock { first, block });
            first = first.checked_add(*ranks)?;
        }
        let round = PlacedRound { first: 0, ranks: first, times: 1, blocks: placed };
        (first > 0).then(|| Self { rounds: vec![round], ranks: first, nodes })
    }

    /// Nodes with numbers of ranks, in the order of the ranks: the form that
    /// [`of_blocks`](Self::of_blocks) reads.
    pub(crate) fn blocks(&self) -> Vec<(u32, u32)> {
        let mut blocks: Vec<(u32, u32)> = Vec::new();
        for node in self.nodes_by_rank() {
            match blocks.last_mut().filter(|(last, _)| *last == node) {
                Some((_, ranks)) => *ranks += 1,
                None => blocks.push((node, 1)),
            }
        }
        blocks
    }

    /// The same map of a run with this many nodes, if it has more.
    pub(crate) fn with_nodes(self, nodes: u32) -> Self {
        Self { nodes: self.nodes.max(nodes), ..self }
    }

    /// The same map with `ranks` more ranks on `node`, which follow the others. `None` if there are too
    /// many.
    pub(crate) fn with_block(mut self, node: u32, ranks: u32) -> Option<Self> {
        let all = self.ranks.checked_add(ranks)?;
        let block = NodeBlock { node, nodes: 1, ranks };
        let blocks = vec![PlacedBlock { first: 0, block }];
        self.rounds.push(PlacedRound { first: self.ranks, ranks, times: 1, blocks });
        Some(Self { ranks: all, nodes: self.nodes.max(node.checked_add(1)?), ..self })
    }

    /// Number of ranks.
    pub(crate) const fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Number of nodes.
    pub(crate) const fn nodes(&self) -> u32 {
        self.nodes
    }

    /// Node of `rank`; `None` if there is no such rank.
    pub(crate) fn node_of(&self, rank: u32) -> Option<u32> {
        if rank >= self.ranks {
            return None;
        }
        let at = self.rounds.partition_point(|round| round.first <= rank).checked_sub(1)?;
        let round = self.rounds.get(at)?;
        let within = (rank - round.first) % round.ranks;
        let at = round.blocks.partition_point(|block| block.first <= within).checked_sub(1)?;
        let PlacedBlock { first, block } = round.blocks.get(at)?;
        Some(block.node + (within - first) / block.ranks)
    }

    /// Ranks of a node, in ascending order.
    pub(crate) fn ranks_of(&self, node: u32) -> impl Iterator<Item = u32> {
        self.rounds.iter().flat_map(move |round| {
            let each = (0..round.times).map(|time| round.first + time * round.ranks);
            each.flat_map(move |start| {
                let own = round.blocks.iter().filter_map(move |block| block.of(node));
                own.flat_map(move |(first, ranks)| start + first..start + first + ranks)
            })
        })
    }

    /// Number of ranks of a node.
    pub(crate) fn count_on(&self, node: u32) -> u32 {
        let of_round = |round: &PlacedRound| {
            let own = round.blocks.iter().filter_map(|block| block.of(node));
            own.map(|(_, ranks)| ranks).sum::<u32>() * round.times
        };
        self.rounds.iter().map(of_round).sum()
    }

    /// Node of each rank, in the order of the ranks: the form in which the process mapping is written.
    pub(crate) fn nodes_by_rank(&self) -> impl Iterator<Item = u32> {
        self.rounds.iter().flat_map(|round| {
            (0..round.times).flat_map(|_| {
                round.blocks.iter().flat_map(|PlacedBlock { block, .. }| {
                    let nodes = block.node..block.node + block.nodes;
                    nodes.flat_map(|node| (0..block.ranks).map(move |_| node))
                })
            })
        })
    }
}

impl NodeBlock {
    /// Number of ranks.
    pub(super) fn count(&self) -> u64 {
        u64::from(self.nodes) * u64::from(self.ranks)
    }
}

impl PlacedBlock {
    /// First rank and number of ranks of `node` in the round, if it is in this block.
    fn of(&self, node: u32) -> Option<(u32, u32)> {
        let at = node.checked_sub(self.block.node).filter(|at| *at < self.block.nodes)?;
        Some((self.first + at * self.block.ranks, self.block.ranks))
    }
}

impl From<NodeMap> for Vec<NodeRound> {
    fn from(map: NodeMap) -> Self {
        let rounds = map.rounds.into_iter().map(|round| NodeRound {
            blocks: round.blocks.iter().map(|block| block.block).collect(),
            times: round.times,
        });
        rounds.collect()
    }
}

impl TryFrom<Vec<NodeRound>> for NodeMap {
    type Error = &'static str;

    /// Joins rounds. The nodes must be numbered from 0 without gaps.
    ///
    /// # Errors
    ///
    /// An empty round, a node without ranks, or more ranks than there are numbers.
    fn try_from(rounds: Vec<NodeRound>) -> Result<Self, &'static str> {
        let (mut placed, mut first, mut last_node) = (Vec::new(), 0_u32, 0_u32);
        let mut spans = Vec::new();
        for NodeRound { blocks, times } in rounds {
            let (mut within, mut placed_blocks) = (0_u32, Vec::with_capacity(blocks.len()));
            for block in blocks {
                let NodeBlock { node, nodes, ranks } = block;
                let count = nodes.checked_mul(ranks).filter(|count| *count > 0);
                let end = node.checked_add(nodes).ok_or(TOO_MANY)?;
                placed_blocks.push(PlacedBlock { first: within, block });
                within = within.checked_add(count.ok_or(EMPTY)?).ok_or(TOO_MANY)?;
                last_node = last_node.max(end - 1);
                spans.push((node, end));
            }
            let count = within.checked_mul(times).ok_or(TOO_MANY)?;
            if count == 0 {
                return Err(EMPTY);
            }
            placed.push(PlacedRound { first, ranks: within, times, blocks: placed_blocks });
            first = first.checked_add(count).ok_or(TOO_MANY)?;
        }
        spans.sort_unstable();
        let mut known = 0;
        for (node, end) in spans {
            if node > known {
                return Err("a node has no ranks");
            }
            known = known.max(end);
        }
        Ok(Self { rounds: placed, ranks: first, nodes: known })
    }
}

const EMPTY: &str = "a round has no ranks";
const TOO_MANY: &str = "there are more ranks or nodes than numbers";

#[cfg(test)]
mod tests {
    use super::*;
    use pmi_core::wire::mapping::{read_mapping, write_mapping};
    use std::iter;

    /// Blocks of a round, each as its node, its number of nodes and that of ranks.
    type Blocks<'a> = &'a [(u32, u32, u32)];

    fn map(rounds: &[(Blocks<'_>, u32)]) -> Result<NodeMap, &'static str> {
        let block = |(node, nodes, ranks): &(u32, u32, u32)| NodeBlock {
            node: *node,
            nodes: *nodes,
            ranks: *ranks,
        };
        let round = |(blocks, times): &(Blocks<'_>, u32)| NodeRound {
            blocks: blocks.iter().map(block).collect(),
            times: *times,
        };
        NodeMap::try_from(rounds.iter().map(round).collect::<Vec<_>>())
    }

    /// The node of each rank by each of the ways to ask for it.
    fn check(map: &NodeMap, nodes: &[u32]) {
        let size = u32::try_from(nodes.len()).unwrap();
        assert_eq!(map.ranks(), size);
        assert_eq!(map.nodes_by_rank().collect::<Vec<_>>(), nodes);
        let asked: Vec<u32> = (0..size).map(|rank| map.node_of(rank).unwrap()).collect();
        assert_eq!(asked, nodes);
        assert_eq!(map.node_of(size), None);
        for node in 0..=map.nodes() {
            let own: Vec<u32> = (0..size).filter(|rank| nodes[*rank as usize] == node).collect();
            assert_eq!(map.ranks_of(node).collect::<Vec<_>>(), own);
            assert_eq!(map.count_on(node) as usize, own.len());
            assert_eq!(own.is_empty(), node == map.nodes());
        }
        let mut text = vec![0; 1 << 16];
        let len = write_mapping(map.nodes_by_rank(), &mut text).unwrap();
        assert_eq!(read_mapping(&text[..len], size).unwrap().collect::<Vec<_>>(), nodes);
        let json = serde_json::to_string(map).unwrap();
        assert_eq!(&serde_json::from_str::<NodeMap>(&json).unwrap(), map);
    }

    #[test]
    fn block_cyclic_and_ragged_layouts_tell_the_node_of_each_rank() {
        check(&map(&[(&[(0, 2, 2)], 1)]).unwrap(), &[0, 0, 1, 1]);
        check(&map(&[(&[(0, 2, 1)], 3)]).unwrap(), &[0, 1, 0, 1, 0, 1]);
        check(
            &map(&[(&[(0, 1, 2), (1, 1, 1)], 2), (&[(0, 1, 1)], 1)]).unwrap(),
            &[0, 0, 1, 0, 0, 1, 0],
        );
        check(&map(&[(&[(1, 1, 1), (0, 1, 3)], 1)]).unwrap(), &[1, 0, 0, 0]);
        check(&map(&[(&[(0, 1, 3)], 2)]).unwrap(), &[0; 6]);
    }

    #[test]
    fn large_layouts_take_little_memory() {
        let cyclic = map(&[(&[(0, 10_000, 1)], 100)]).unwrap();
        assert_eq!((cyclic.ranks(), cyclic.nodes()), (1_000_000, 10_000));
        assert_eq!(cyclic.node_of(999_999), Some(9_999));
        assert_eq!(cyclic.ranks_of(7).nth(99), Some(990_007));
        assert_eq!((cyclic.rounds.len(), cyclic.rounds[0].blocks.len()), (1, 1));
    }

    #[test]
    fn random_layouts_agree_with_a_list() {
        // A linear congruential generator, as in the tests of other layouts.
        let mut state = 7_u64;
        let mut below = |bound: u32| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            u32::try_from(state >> 33).unwrap() % bound
        };
        for _ in 0..300 {
            // The first round has all nodes, so that none is without ranks.
            let nodes = 1 + below(5);
            let mut rounds = vec![NodeRound {
                blocks: vec![NodeBlock { node: 0, nodes, ranks: 1 + below(3) }],
                times: 1,
            }];
            for _ in 0..below(4) {
                let blocks = (0..=below(3)).map(|_| {
                    let node = below(nodes);
                    NodeBlock { node, nodes: 1 + below(nodes - node), ranks: 1 + below(3) }
                });
                rounds.push(NodeRound { blocks: blocks.collect(), times: 1 + below(3) });
            }
            let mut list = Vec::new();
            for NodeRound { blocks, times } in &rounds {
                for _ in 0..*times {
                    for block in blocks {
                        for node in block.node..block.node + block.nodes {
                            list.extend(iter::repeat_n(node, block.ranks as usize));
                        }
                    }
                }
            }
            check(&NodeMap::try_from(rounds).unwrap(), &list);
        }
    }

    #[test]
    fn layouts_that_cannot_be_are_refused() {
        for rounds in [
            &[(&[][..], 1)][..],
            &[(&[(0, 1, 1)], 0)],
            &[(&[(0, 0, 1)], 1)],
            &[(&[(0, 1, 0)], 1)],
            &[(&[(1, 1, 1)], 1)],
            &[(&[(0, 1, 1), (2, 1, 1)], 1)],
            &[(&[(0, u32::MAX, 2)], 1)],
            &[(&[(0, 1, u32::MAX)], 2)],
            &[(&[(0, 1, u32::MAX)], 1), (&[(0, 1, 1)], 1)],
            &[(&[(u32::MAX, 1, 1)], 1)],
        ] {
            assert!(map(rounds).is_err(), "{rounds:?}");
        }
        assert!(serde_json::from_str::<NodeMap>(r#"[{"blocks":[],"times":1}]"#).is_err());
    }
}
