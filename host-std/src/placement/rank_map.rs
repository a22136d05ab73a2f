//! Explicit map of ranks to hosts: `0,1,1,0`, `(0,2,4)`, `(vector,(0,2,1),[(2,1,1)]x3)`.
//!
//! A number is the host of one rank, counted from 0 in the order of the list of hosts. Three numbers in
//! parentheses are the first host, the number of hosts, and the number of ranks of each. Brackets repeat a
//! list. A map that is shorter than the job repeats from its beginning.
//!
//! Spec: Hydra, `-rankmap`; the grammar is that of `PMI_process_mapping`.

use super::node_map::{NodeBlock, NodeRound};
use super::{HOSTS_MAX, SLOTS_MAX};
use std::fmt;

/// Map of ranks to hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RankMap {
    text: String,
    rounds: Vec<NodeRound>,
}

impl RankMap {
    /// Parses a map.
    ///
    /// # Errors
    ///
    /// A message with a valid example.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let compact: String = text.chars().filter(|sign| !sign.is_whitespace()).collect();
        let inner = compact.strip_prefix("(vector,").and_then(|rest| rest.strip_suffix(')'));
        let rounds = rounds(inner.unwrap_or(&compact)).ok_or_else(|| {
            "that is not a map of ranks to hosts; try '0,1,1,0', or '(0,2,4)' for 4 ranks on each of \
             hosts 0 and 1"
                .to_owned()
        })?;
        Ok(Self { text: text.to_owned(), rounds })
    }

    /// Rounds of the map for this number of ranks.
    pub(super) fn rounds(&self, ranks: u32) -> Vec<NodeRound> {
        let (mut rounds, mut rest) = (Vec::new(), ranks);
        for round in self.rounds.iter().cycle() {
            if rest == 0 {
                break;
            }
            // The parser has bounded both factors.
            let size: u64 = round.blocks.iter().map(NodeBlock::count).sum();
            let whole = u32::try_from(u64::from(rest) / size).unwrap_or(u32::MAX).min(round.times);
            if whole > 0 {
                rounds.push(NodeRound { blocks: round.blocks.clone(), times: whole });
                rest -= u32::try_from(size).unwrap_or(u32::MAX).saturating_mul(whole);
            }
            if whole < round.times && rest > 0 {
                let blocks = first_ranks(&round.blocks, &mut rest);
                rounds.push(NodeRound { blocks, times: 1 });
            }
        }
        rounds
    }
}

/// The blocks up to the number of ranks in `rest`, which becomes the number of those that remain.
fn first_ranks(blocks: &[NodeBlock], rest: &mut u32) -> Vec<NodeBlock> {
    let mut first = Vec::new();
    for block in blocks {
        let nodes = (*rest / block.ranks).min(block.nodes);
        if nodes > 0 {
            first.push(NodeBlock { nodes, ..*block });
            *rest -= nodes * block.ranks;
        }
        if nodes < block.nodes {
            if *rest > 0 {
                first.push(NodeBlock { node: block.node + nodes, nodes: 1, ranks: *rest });
                *rest = 0;
            }
            break;
        }
    }
    first
}

/// Parses the list of a map.
fn rounds(text: &str) -> Option<Vec<NodeRound>> {
    let (mut rounds, mut rest) = (Vec::new(), text);
    loop {
        let (round, behind) = match rest.strip_prefix('[') {
            Some(inner) => {
                let (list, behind) = inner.split_once("]x")?;
                let end = behind.find(',').unwrap_or(behind.len());
                let times = number(&behind[..end], SLOTS_MAX)?;
                let (blocks, left) = blocks(list)?;
                if !left.is_empty() || times == 0 {
                    return None;
                }
                (NodeRound { blocks, times }, &behind[end..])
            }
            None => {
                let (blocks, behind) = blocks(rest)?;
                (NodeRound { blocks, times: 1 }, behind)
            }
        };
        let ranks: u64 = round.blocks.iter().map(NodeBlock::count).sum();
        if ranks > u64::from(SLOTS_MAX) {
            return None;
        }
        rounds.push(round);
        match behind.strip_prefix(',') {
            Some(behind) => rest = behind,
            None => return behind.is_empty().then_some(rounds),
        }
    }
}

/// Parses blocks up to the end or up to a comma before a bracket.
fn blocks(text: &str) -> Option<(Vec<NodeBlock>, &str)> {
    let (mut blocks, mut rest) = (Vec::<NodeBlock>::new(), text);
    loop {
        let (block, behind) = match rest.strip_prefix('(') {
            Some(inner) => {
                let (numbers, behind) = inner.split_once(')')?;
                let hosts = u32::try_from(HOSTS_MAX).ok()?;
                let mut numbers = numbers.split(',');
                let mut next = |most| numbers.next().and_then(|digits| number(digits, most));
                let block =
                    NodeBlock { node: next(hosts)?, nodes: next(hosts)?, ranks: next(SLOTS_MAX)? };
                if numbers.next().is_some() || block.count() == 0 {
                    return None;
                }
                (block, behind)
            }
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                let node = number(&rest[..end], u32::try_from(HOSTS_MAX).ok()?)?;
                (NodeBlock { node, nodes: 1, ranks: 1 }, &rest[end..])
            }
        };
        blocks.push(block);
        match behind.strip_prefix(',') {
            Some(next) if !next.starts_with('[') => rest = next,
            _ => return Some((blocks, behind)),
        }
    }
}

/// Parses a number up to `most`.
fn number(digits: &str, most: u32) -> Option<u32> {
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|number| is_number && *number <= most)
}

impl fmt::Display for RankMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::NodeMap;

    fn nodes(text: &str, ranks: u32) -> Vec<u32> {
        let rounds =
            RankMap::parse(text).unwrap_or_else(|why| panic!("{text}: {why}")).rounds(ranks);
        NodeMap::try_from(rounds).unwrap().nodes_by_rank().collect()
    }

    #[test]
    fn maps_are_lists_blocks_or_repetitions() {
        for (text, ranks, expected) in [
            ("0,1,1,0", 4, &[0, 1, 1, 0][..]),
            ("(0,2,2)", 4, &[0, 0, 1, 1]),
            ("(vector,(0,2,1))", 4, &[0, 1, 0, 1]),
            ("(vector, (0, 1, 2), 1)", 3, &[0, 0, 1]),
            ("(vector,[(0,2,1)]x2,(2,1,2))", 6, &[0, 1, 0, 1, 2, 2]),
            ("[0,1]x2,[(2,1,1)]x3", 7, &[0, 1, 0, 1, 2, 2, 2]),
            ("0,[1]x2,0", 4, &[0, 1, 1, 0]),
            // Shorter than the job, and longer.
            ("0,1", 5, &[0, 1, 0, 1, 0]),
            ("(0,3,2)", 5, &[0, 0, 1, 1, 2]),
            ("[(0,2,2)]x3", 7, &[0, 0, 1, 1, 0, 0, 1]),
            ("(0,1,4)", 2, &[0, 0]),
        ] {
            assert_eq!(nodes(text, ranks), expected, "{text}");
        }
    }

    #[test]
    fn repetitions_take_no_memory() {
        let rounds = RankMap::parse("(vector,[(0,1000,1)]x1000)").unwrap().rounds(1_000_000);
        assert_eq!((rounds.len(), rounds[0].times), (1, 1000));
    }

    #[test]
    fn words_that_are_no_map_are_refused() {
        for text in [
            "",
            "x",
            "(0,1",
            "(0,0,1)",
            "(0,1)",
            "0,,0",
            "(0,1,1,1)",
            "0,",
            "(vector,)",
            "(vector,0",
            "[0]",
            "[0]x0",
            "[0]x",
            "[[0]x2]x2",
            "0]x2",
            "-1",
            "+1",
            "(0,1,4294967296)",
            "(0,131072,1048576)",
            "999999999",
            "[0x2",
        ] {
            let why = RankMap::parse(text).expect_err(text);
            assert!(why.contains("not a map"), "{text}: {why}");
        }
    }
}
