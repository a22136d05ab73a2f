//! Resources of a node, and which of them each run has. Where this is kept is the business of others: the
//! [`lease`](super::lease)s of runs that know nothing of each other are in a file.

use pmi_host_hardware::processor_set::ProcessorSet;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Some resources of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) processors: ProcessorSet,
    pub(crate) memory_bytes: u64,
    /// Devices by PCI address or UUID, with the part if a device is divided.
    pub(crate) devices: BTreeSet<String>,
}

/// A run on this node; a run whose nodes are on one machine has a holder for each.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Holder {
    /// Name of the run, which no other run has.
    pub(crate) run: String,
    /// Number of the node in its run.
    pub(crate) node: u32,
    /// Process of the launcher or node server.
    pub(crate) pid: u32,
    /// Programs of the ranks.
    pub(crate) program: String,
}

/// What a node offers, and what each run has taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resources {
    all: Share,
    taken: BTreeMap<Holder, Share>,
}

impl Resources {
    /// Resources that nobody has taken.
    pub(crate) const fn new(all: Share) -> Self {
        Self { all, taken: BTreeMap::new() }
    }

    /// What is left for a run: all that no other run has taken.
    pub(crate) fn free(&self, run: &str) -> Share {
        let mut free = self.all.clone();
        for (_, share) in self.others(run) {
            free.processors = free.processors.without(&share.processors);
            free.memory_bytes = free.memory_bytes.saturating_sub(share.memory_bytes);
            free.devices.retain(|device| !share.devices.contains(device));
        }
        free
    }

    /// Gives a holder this share in place of an earlier one. What others have taken, too, is shared.
    pub(crate) fn take(&mut self, holder: Holder, share: Share) {
        self.taken.insert(holder, share);
    }

    /// Takes back all that a holder has.
    pub(crate) fn release(&mut self, holder: &Holder) {
        self.taken.remove(holder);
    }

    /// Holders with their shares, in order.
    pub(crate) fn taken(&self) -> impl Iterator<Item = (&Holder, &Share)> {
        self.taken.iter()
    }

    /// Holders of other runs that have a processor or device of this share.
    pub(crate) fn sharing(&self, run: &str, share: &Share) -> impl Iterator<Item = &Holder> {
        let meets = |other: &Share| {
            other.processors.meets(&share.processors) || !other.devices.is_disjoint(&share.devices)
        };
        self.others(run).filter(move |(_, other)| meets(other)).map(|(holder, _)| holder)
    }

    fn others(&self, run: &str) -> impl Iterator<Item = (&Holder, &Share)> {
        self.taken.iter().filter(move |(holder, _)| holder.run != run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(run: &str, node: u32) -> Holder {
        Holder { run: run.to_owned(), node, pid: 7, program: "./a".to_owned() }
    }

    fn share(processors: &str, memory_bytes: u64, devices: &[&str]) -> Share {
        Share {
            processors: ProcessorSet::of_list(processors).unwrap(),
            memory_bytes,
            devices: devices.iter().map(|device| (*device).to_owned()).collect(),
        }
    }

    #[test]
    fn run_finds_what_others_have_not_taken() {
        let mut node = Resources::new(share("0-7", 100, &["0000:01:00.0", "GPU-1/0", "GPU-1/1"]));
        assert_eq!(node.free("a"), node.all);
        node.take(holder("a", 0), share("0-3", 60, &["GPU-1/0"]));
        assert_eq!(node.free("b"), share("4-7", 40, &["0000:01:00.0", "GPU-1/1"]));
        // Nodes of one run on one machine share it.
        assert_eq!(node.free("a"), node.all);
        node.take(holder("a", 1), share("2-4", 60, &[]));
        assert_eq!(node.free("b"), share("5-7", 0, &["0000:01:00.0", "GPU-1/1"]));
        node.release(&holder("a", 0));
        node.release(&holder("c", 0));
        assert_eq!(node.free("b"), share("0-1,5-7", 40, &["0000:01:00.0", "GPU-1/0", "GPU-1/1"]));
        node.take(holder("a", 1), share("0", 0, &[]));
        assert_eq!(node.free("b").processors.to_string(), "1-7");
    }

    #[test]
    fn holders_of_a_processor_or_device_are_found() {
        let mut node = Resources::new(share("0-7", 0, &["x", "y"]));
        node.take(holder("a", 0), share("0-3", 0, &["x"]));
        node.take(holder("b", 0), share("3-4", 0, &[]));
        let found = |run: &str, share: Share| -> Vec<String> {
            node.sharing(run, &share).map(|holder| holder.run.clone()).collect()
        };
        assert_eq!(found("c", share("3", 0, &[])), ["a", "b"]);
        assert_eq!(found("b", share("3-5", 0, &[])), ["a"]);
        assert_eq!(found("c", share("5", 0, &["x", "y"])), ["a"]);
        assert!(found("c", share("5", 9, &["y"])).is_empty());
    }
}
