//! What a node offers to ranks, as it tells the run.

use pmi_host_base::ranges::Ranks;
use serde::{Deserialize, Serialize};

/// What a node offers to ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeResources {
    /// Processors that they may use; none if the system does not list them.
    pub processors: Ranks,
    /// Number of these that run at the same time, which a control group may limit.
    pub parallelism: u32,
    /// Memory that they may use together: all, or as much as a control group grants. `None` if the system
    /// does not say.
    pub memory_bytes: Option<u64>,
    /// Memory domains, with those of `processors` in them; none if the system does not describe them.
    pub numa_nodes: Vec<NumaNode>,
}

/// A memory domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumaNode {
    /// Its number, as the system counts.
    pub number: u32,
    /// Processors in it; none in memory of its own kind, as on a card.
    pub processors: Ranks,
}

impl NodeResources {
    /// True if a machine may have these numbers of processors and memory domains.
    pub fn is_possible(&self) -> bool {
        let is_bounded = |all: &Ranks| all.last().is_none_or(|last| last < PROCESSORS_MAX);
        let mut domains = self.numa_nodes.iter();
        is_bounded(&self.processors)
            && domains.all(|node| node.number < PROCESSORS_MAX && is_bounded(&node.processors))
    }
}

/// More than any machine has.
pub const PROCESSORS_MAX: u32 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_of_no_machine_are_recognized() {
        let with = |processors: Ranks, number| NodeResources {
            processors: processors.clone(),
            numa_nodes: vec![NumaNode { number, processors }],
            ..NodeResources::default()
        };
        let one = |processor| Ranks::from_iter([processor]);
        assert!(with(one(PROCESSORS_MAX - 1), 0).is_possible());
        assert!(!with(one(PROCESSORS_MAX), 0).is_possible());
        assert!(!with(one(0), PROCESSORS_MAX).is_possible());
        let everything = Ranks::try_from(vec![(0, u32::MAX)]).unwrap();
        assert!(!with(everything, 0).is_possible());
    }
}
