//! Ranks that connect by themselves, and the nodes that they form: guests, boards, accelerators.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Ranks that connect by themselves (`--expect`), in the order of their numbers. Those of one node follow
/// each other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExpectedRanks {
    runs: Vec<EqualNodes>,
}

/// Nodes with the same number of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct EqualNodes {
    nodes: u32,
    /// Number of ranks of each.
    ranks: u32,
}

impl ExpectedRanks {
    /// Parses `N`, so many ranks of which each is a node of its own, or `NODESxRANKS`, or several of both
    /// with commas between them.
    ///
    /// # Errors
    ///
    /// The fault and a valid example.
    pub(crate) fn parse(text: &str, ranks_max: u32) -> Result<Self, String> {
        if text == "0" {
            return Ok(Self::default());
        }
        let runs = text.split(',').map(EqualNodes::parse).collect::<Option<Vec<_>>>();
        let expected = Self {
            runs: runs
                .ok_or("that is not a number of ranks; try '4', or '2x4' for two nodes of 4")?,
        };
        match expected.count() <= ranks_max {
            true => Ok(expected),
            false => Err(format!("that is more than the {ranks_max} ranks of a job; try '4'")),
        }
    }

    /// Number of ranks.
    pub(crate) fn count(&self) -> u32 {
        let ranks = |run: &EqualNodes| run.nodes.saturating_mul(run.ranks);
        self.runs.iter().map(ranks).fold(0, u32::saturating_add)
    }

    /// Node of the rank with this number among those that connect; nodes are numbered from 0.
    pub(crate) fn node_of(&self, number: u32) -> u32 {
        let (mut rank, mut first) = (number, 0_u32);
        for run in &self.runs {
            let count = run.nodes.saturating_mul(run.ranks);
            if let (true, Some(node)) = (rank < count, rank.checked_div(run.ranks)) {
                return first.saturating_add(node);
            }
            rank = rank.saturating_sub(count);
            first = first.saturating_add(run.nodes);
        }
        // Further ranks are of no node that is known.
        first.saturating_add(rank)
    }
}

impl EqualNodes {
    fn parse(text: &str) -> Option<Self> {
        let count = |digits: &str| digits.parse().ok().filter(|count| *count > 0);
        match text.split_once('x') {
            Some((nodes, ranks)) => Some(Self { nodes: count(nodes)?, ranks: count(ranks)? }),
            None => Some(Self { nodes: count(text)?, ranks: 1 }),
        }
    }
}

impl fmt::Display for ExpectedRanks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.runs.is_empty() {
            return f.write_str("0");
        }
        for (at, EqualNodes { nodes, ranks }) in self.runs.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            match ranks {
                1 => write!(f, "{comma}{nodes}")?,
                _ => write!(f, "{comma}{nodes}x{ranks}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(text: &str) -> Vec<u32> {
        let expected = ExpectedRanks::parse(text, 100).unwrap();
        assert_eq!(expected.to_string(), text);
        (0..expected.count()).map(|number| expected.node_of(number)).collect()
    }

    #[test]
    fn ranks_of_one_node_follow_each_other() {
        assert_eq!(nodes("0"), [0; 0]);
        assert_eq!(nodes("3"), [0, 1, 2]);
        assert_eq!(nodes("1x3"), [0, 0, 0]);
        assert_eq!(nodes("2x2,2,1x3"), [0, 0, 1, 1, 2, 3, 4, 4, 4]);
    }

    #[test]
    fn number_beyond_the_expected_ones_has_a_node_that_no_other_has() {
        let expected = ExpectedRanks::parse("2x2", 100).unwrap();
        assert_eq!([3, 4, 5].map(|number| expected.node_of(number)), [1, 2, 3]);
        let hostile = r#"{"runs":[{"nodes":4294967295,"ranks":0},{"nodes":4294967295,"ranks":9}]}"#;
        let hostile: ExpectedRanks = serde_json::from_str(hostile).unwrap();
        assert_eq!((hostile.count(), hostile.node_of(u32::MAX)), (u32::MAX, u32::MAX));
    }

    #[test]
    fn wrong_numbers_are_refused_with_an_example() {
        for text in ["", "x", "2x", "x2", "0x2", "2x0", "1,", "-1", "1x2x3", "many"] {
            assert!(ExpectedRanks::parse(text, 100).unwrap_err().contains("2x4"), "{text}");
        }
        assert!(ExpectedRanks::parse("10x11", 100).unwrap_err().contains("100 ranks"));
        assert!(ExpectedRanks::parse("4294967295x4294967295", 100).is_err());
    }
}
