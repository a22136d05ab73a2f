//! `PMI_process_mapping`: the node of each rank, as one value.
//!
//! Wire: `(vector,(NODE,NODES,RANKS),…)`. In each block NODES nodes, from NODE on, take the
//! next RANKS ranks each. Two nodes with two ranks each are `(vector,(0,2,2))` when filled one
//! after the other and `(vector,(0,2,1),(0,2,1))` when assigned in turn.
//!
//! Spec: the wiki page of MPICH's PMI; deviations in practice are described with each function.

use super::Writer;
use crate::error::Full;

/// Key of the mapping.
pub const PROCESS_MAPPING: &[u8] = b"PMI_process_mapping";

/// One block of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappingBlock {
    /// First node.
    pub node: u32,
    /// Number of nodes.
    pub nodes: u32,
    /// Number of ranks on each.
    pub ranks: u32,
}

/// Writes the mapping of ranks 0, 1, 2, … to their nodes.
///
/// Shape: every rank is covered explicitly, since one client does not repeat a short list.
///
/// # Errors
///
/// [`Full`] with the length. A mapping that is too long for a value is left out by the
/// owner: a missing key makes clients exchange host names, an empty one breaks some.
pub fn write_mapping(nodes: impl Iterator<Item = u32>, out: &mut [u8]) -> Result<usize, Full> {
    let mut writer = Writer::new(out);
    writer.bytes(b"(vector");
    blocks(runs(nodes)).for_each(|block| {
        writer.bytes(b",(").number(block.node).bytes(b",").number(block.nodes);
        writer.bytes(b",").number(block.ranks).bytes(b")");
    });
    writer.bytes(b")");
    writer.finish()
}

/// Reads a mapping and returns the node of each rank, for `size` ranks.
///
/// Some servers send a list shorter than the job and mean "repeat"; some send `(vector,0)` or
/// nothing useful for one process. `None` stands for "unknown".
/// Node numbers are labels: one launcher sends garbage ones, so never index by them.
pub fn read_mapping(text: &[u8], size: u32) -> Option<impl Iterator<Item = u32> + Clone> {
    let body = text.trim_ascii().strip_prefix(b"(")?.strip_suffix(b")")?.trim_ascii();
    let body = body.strip_prefix(b"vector")?.trim_ascii().strip_prefix(b",")?;
    let list = BlockReader { rest: body };
    let all_read = list.clone().all(|block| block.is_some());
    let ranks: u64 = list.clone().flatten().map(|b| u64::from(b.nodes) * u64::from(b.ranks)).sum();
    if !all_read || ranks == 0 {
        return None;
    }
    let ranked = list.flatten().flat_map(|block| {
        // A node number near the end of its range wraps: it is only a label.
        (0..block.nodes).flat_map(move |i| {
            core::iter::repeat_n(block.node.wrapping_add(i), block.ranks as usize)
        })
    });
    Some(ranked.cycle().take(size as usize))
}

/// The ranks on the node of `rank`, in order, as far as the mapping contains them.
pub fn node_ranks(text: &[u8], size: u32, rank: u32) -> Option<impl Iterator<Item = u32> + Clone> {
    let nodes = read_mapping(text, size)?;
    let own = nodes.clone().nth(rank as usize)?;
    Some((0..size).zip(nodes).filter(move |(_, node)| *node == own).map(|(rank, _)| rank))
}

/// Ranks in a row on one node.
#[derive(Clone, Copy)]
struct MappingRun {
    node: u32,
    ranks: u32,
}

fn runs(nodes: impl Iterator<Item = u32>) -> impl Iterator<Item = MappingRun> {
    let mut nodes = nodes.peekable();
    core::iter::from_fn(move || {
        let node = nodes.next()?;
        let mut ranks = 1;
        while nodes.next_if_eq(&node).is_some() {
            ranks += 1;
        }
        Some(MappingRun { node, ranks })
    })
}

/// Joins runs of equal length on consecutive nodes.
fn blocks(runs: impl Iterator<Item = MappingRun>) -> impl Iterator<Item = MappingBlock> {
    let mut runs = runs.peekable();
    core::iter::from_fn(move || {
        let MappingRun { node, ranks } = runs.next()?;
        let mut nodes = 1;
        while runs
            .next_if(|run| run.ranks == ranks && Some(run.node) == node.checked_add(nodes))
            .is_some()
        {
            nodes += 1;
        }
        Some(MappingBlock { node, nodes, ranks })
    })
}

/// Reads block after block; `Some(None)` is an invalid block.
#[derive(Clone)]
struct BlockReader<'a> {
    rest: &'a [u8],
}

impl Iterator for BlockReader<'_> {
    type Item = Option<MappingBlock>;

    fn next(&mut self) -> Option<Option<MappingBlock>> {
        let rest = self.rest.trim_ascii_start();
        if rest.is_empty() {
            return None;
        }
        self.rest = &[];
        let Some(end) = rest.iter().position(|b| *b == b')') else { return Some(None) };
        let (head, tail) = rest.split_at(end);
        let mut numbers = head.strip_prefix(b"(").unwrap_or(b"").split(|b| *b == b',');
        let mut next = || -> Option<u32> {
            core::str::from_utf8(numbers.next()?.trim_ascii()).ok()?.parse().ok()
        };
        let (Some(node), Some(nodes), Some(ranks)) = (next(), next(), next()) else {
            return Some(None);
        };
        let after = tail.get(1..).unwrap_or(b"").trim_ascii_start();
        self.rest = after.strip_prefix(b",").unwrap_or(after);
        Some(Some(MappingBlock { node, nodes, ranks }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;
    extern crate std;

    fn written(nodes: &[u32]) -> std::string::String {
        let mut out = [0; 1024];
        let len = write_mapping(nodes.iter().copied(), &mut out).unwrap();
        std::string::String::from_utf8(out[..len].to_vec()).unwrap()
    }

    // Coverage: R13-29
    #[test]
    fn blocks_cycles_and_irregular_layouts_are_written_whole() {
        for (nodes, text) in [
            (&[0, 0, 1, 1][..], "(vector,(0,2,2))"),
            (&[0, 1, 0, 1], "(vector,(0,2,1),(0,2,1))"),
            (&[0, 0, 0], "(vector,(0,1,3))"),
            (&[0, 0, 1, 2, 2], "(vector,(0,1,2),(1,1,1),(2,1,2))"),
            (&[3, 1, 1], "(vector,(3,1,1),(1,1,2))"),
        ] {
            assert_eq!(written(nodes), text);
            let size = u32::try_from(nodes.len()).unwrap();
            let read: Vec<u32> = read_mapping(text.as_bytes(), size).unwrap().collect();
            assert_eq!(read, nodes);
        }
    }

    #[test]
    fn short_list_is_repeated_and_labels_may_be_garbage() {
        let read = |text: &str, size| read_mapping(text.as_bytes(), size).map(Vec::from_iter);
        assert_eq!(read("(vector,(0,1,1))", 2), Some(Vec::from([0, 0])));
        assert_eq!(read("(vector, (0,2,1))", 4), Some(Vec::from([0, 1, 0, 1])));
        let garbage = "(vector,(0,1,2),(1343552704,1,1))";
        assert_eq!(read(garbage, 3), Some(Vec::from([0, 0, 1_343_552_704])));
        assert_eq!(read("(vector,(4294967295,2,1))", 2), Some(Vec::from([u32::MAX, 0])));
        for unknown in
            ["(vector,0)", "", "(vector)", "(matrix,(0,1,1))", "(vector,(0,1))", "(vector,(0,0,0))"]
        {
            assert_eq!(read(unknown, 1), None, "{unknown}");
        }
    }

    // Coverage: R13-9
    #[test]
    fn neighbours_on_a_node_are_found() {
        let clique = |rank| node_ranks(b"(vector,(0,2,1),(0,2,1))", 4, rank).map(Vec::from_iter);
        assert_eq!(clique(0), Some(Vec::from([0, 2])));
        assert_eq!(clique(3), Some(Vec::from([1, 3])));
        assert_eq!(clique(4), None);
    }

    // Coverage: R13-30
    #[test]
    fn mapping_that_does_not_fit_says_how_long_it_is() {
        assert_eq!(write_mapping([0, 0].into_iter(), &mut [0; 3]), Err(Full { needed: 16 }));
    }
}
