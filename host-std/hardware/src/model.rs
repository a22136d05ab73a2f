//! The model: sets of processors that share something, memory domains and devices.

use crate::device::{Device, DeviceLink, LinkKind, PciAddress};
use crate::processor_set::ProcessorSet;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Hardware of a node, as far as it may be used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeHardware {
    /// Name of the machine, if its description has one.
    pub name: Option<String>,
    /// Hardware threads by their numbers in the system.
    pub processors: ProcessorSet,
    /// Sets of processors that share something, outer ones before those inside them, and else by their first
    /// processors.
    pub groups: Vec<Group>,
    /// Memory domains by their numbers in the system.
    pub memories: Vec<Memory>,
    /// Devices in the order of their addresses.
    pub devices: Vec<Device>,
    /// Links between GPUs, in the order of their ends. An end may have been left out:
    /// [`device_links`](Self::device_links) knows.
    pub links: Vec<DeviceLink>,
}

/// Processors that share something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// What they share.
    pub kind: GroupKind,
    /// Number of the object in the system, as of a package or a core; caches have none.
    pub number: Option<u32>,
    /// The processors.
    pub processors: ProcessorSet,
}

/// What processors of a group share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupKind {
    /// A socket.
    Package,
    /// A die.
    Die,
    /// A cache.
    Cache(CacheFacts),
    /// A core.
    Core(CoreFacts),
}

impl GroupKind {
    /// Place among groups of the same processors, the outermost first.
    fn rank(&self) -> (u8, Reverse<u8>, CacheContent) {
        match self {
            Self::Package => (0, Reverse(0), CacheContent::Unified),
            Self::Die => (1, Reverse(0), CacheContent::Unified),
            Self::Cache(cache) => (2, Reverse(cache.level), cache.content),
            Self::Core(_) => (3, Reverse(0), CacheContent::Unified),
        }
    }
}

/// A cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheFacts {
    /// Level, from 1.
    pub level: u8,
    /// What it holds.
    pub content: CacheContent,
    /// Size in bytes; 0 if the system does not say, as below.
    pub bytes: u64,
    /// Size of a line in bytes.
    pub line_bytes: u32,
    /// Ways of a set.
    pub ways: u32,
}

/// Content of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum CacheContent {
    /// Data and instructions.
    #[default]
    Unified,
    /// Data.
    Data,
    /// Instructions.
    Instructions,
}

/// A core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreFacts {
    /// Kind of the core on a machine with several: 0 for those that save most energy, and above that in the
    /// order of their speed.
    pub efficiency: u8,
}

/// A memory domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Number in the system.
    pub number: u32,
    /// Processors near it; for memory without processors, those of its package or of the machine.
    pub near: ProcessorSet,
    /// Size in bytes, if the system says so.
    pub bytes: Option<u64>,
    /// Kind of the memory.
    pub kind: MemoryKind,
}

/// Devices that a link joins.
#[derive(Clone, Copy, Debug)]
pub struct LinkedDevices<'a> {
    /// The devices, in their order.
    pub devices: [&'a Device; 2],
    /// Kind of the link.
    pub kind: LinkKind,
}

/// Kind of a memory domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemoryKind {
    /// Main memory.
    #[default]
    Main,
    /// High bandwidth memory beside main memory.
    HighBandwidth,
    /// Memory that is farther away than the main memory of any package, as behind CXL.
    Far,
    /// Memory of a GPU that the system lists as a domain.
    OfGpu,
}

impl NodeHardware {
    /// The hardware that a process may use which is allowed these processors: groups and domains keep those
    /// of their processors, and groups without any are gone. Devices stay.
    #[must_use]
    pub fn restricted(&self, allowed: &ProcessorSet) -> Self {
        let groups = self.groups.iter().map(|group| {
            let processors = group.processors.and(allowed);
            Group { processors, ..group.clone() }
        });
        let memories = self.memories.iter().map(|memory| {
            let near = memory.near.and(allowed);
            Memory { near, ..memory.clone() }
        });
        Self {
            name: self.name.clone(),
            processors: self.processors.and(allowed),
            groups: groups.filter(|group| !group.processors.is_empty()).collect(),
            memories: memories.collect(),
            devices: self.devices.clone(),
            links: self.links.clone(),
        }
    }

    /// Brings groups, memory domains and devices into their order, and notes the memory domain of each
    /// device: the smallest one of main memory that all processors near the device share. Where a device is
    /// near all processors of a machine with several domains, or near none that this hardware has, nothing is
    /// known of where it is. Links of devices that are not here are gone.
    #[must_use]
    pub fn in_order(mut self) -> Self {
        self.groups.sort_by_cached_key(|group| {
            let (first, len) = (group.processors.first().copied(), group.processors.len());
            (first, Reverse(len), group.kind.rank(), group.number)
        });
        self.memories.sort_by_key(|memory| memory.number);
        let is_shared = |memory: &&Memory, near: &ProcessorSet| {
            memory.kind == MemoryKind::Main && near.is_subset(&memory.near)
        };
        // Many devices are near the same processors.
        let mut known: HashMap<ProcessorSet, Option<u32>> = HashMap::new();
        for device in &mut self.devices {
            device.near = device.near.and(&self.processors);
            if device.near.is_empty() {
                device.near.clone_from(&self.processors);
            }
            device.memory = *known.entry(device.near.clone()).or_insert_with_key(|near| {
                let shared = self.memories.iter().filter(|memory| is_shared(memory, near));
                shared.min_by_key(|memory| memory.near.len()).map(|memory| memory.number)
            });
            if device.memory.is_none() && device.near == self.processors {
                device.near = ProcessorSet::default();
            }
        }
        self.devices.sort_by_key(|device| {
            let address = device.pci.as_ref().map(|pci| pci.address);
            (address.is_none(), address)
        });
        let addresses = self.devices.iter().filter_map(|device| device.pci.as_ref());
        let addresses: BTreeSet<PciAddress> = addresses.map(|pci| pci.address).collect();
        self.links.retain(|link| link.ends.iter().all(|end| addresses.contains(end)));
        self.links.sort_by_key(|link| link.ends);
        self.links.dedup_by_key(|link| link.ends);
        self
    }

    /// The memory domain of each processor as Linux counts them, by number: the smallest domain of main
    /// memory near it.
    pub fn owners(&self) -> BTreeMap<u32, u32> {
        let mut main: Vec<&Memory> =
            self.memories.iter().filter(|memory| memory.kind == MemoryKind::Main).collect();
        main.sort_by_key(|memory| memory.near.len());
        let mut owners = BTreeMap::new();
        for memory in main {
            for processor in memory.near.iter() {
                owners.entry(*processor).or_insert(memory.number);
            }
        }
        owners
    }

    /// Processors of a domain as Linux counts them: those that it [owns](Self::owners).
    #[must_use]
    pub fn own_processors(&self, memory: &Memory) -> ProcessorSet {
        let owners = self.owners();
        let is_own = |processor: &u32| owners.get(processor) == Some(&memory.number);
        memory.near.iter().copied().filter(is_own).collect()
    }

    /// Sets of processors of one kind of groups, in their order.
    pub fn sets(&self, is_meant: impl Fn(&GroupKind) -> bool) -> Vec<&ProcessorSet> {
        let meant = self.groups.iter().filter(|group| is_meant(&group.kind));
        meant.map(|group| &group.processors).collect()
    }

    /// Cores, each with its processors. A machine that lists none has one for each processor.
    pub fn cores(&self) -> Vec<ProcessorSet> {
        let listed = self.sets(|kind| matches!(kind, GroupKind::Core(_)));
        match listed.is_empty() {
            true => self.processors.iter().map(|one| ProcessorSet::from_iter([*one])).collect(),
            false => listed.into_iter().cloned().collect(),
        }
    }

    /// Links whose ends are both here, with the devices at them.
    pub fn device_links(&self) -> impl Iterator<Item = LinkedDevices<'_>> {
        let on_bus = self.devices.iter();
        let on_bus = on_bus.filter_map(|device| Some((device.pci.as_ref()?.address, device)));
        let on_bus: BTreeMap<PciAddress, &Device> = on_bus.collect();
        self.links.iter().filter_map(move |link| {
            let [one, other] = link.ends.map(|end| on_bus.get(&end).copied());
            Some(LinkedDevices { devices: [one?, other?], kind: link.kind })
        })
    }

    /// GPUs in the order of their addresses, which is that of `CUDA_DEVICE_ORDER=PCI_BUS_ID`.
    pub fn gpus(&self) -> impl Iterator<Item = &Device> {
        self.devices.iter().filter(|device| device.is_gpu())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> ProcessorSet {
        ProcessorSet::of_list(text).unwrap()
    }

    #[test]
    fn restricted_hardware_has_the_allowed_processors() {
        let core = |number, text: &str| Group {
            kind: GroupKind::Core(CoreFacts::default()),
            number: Some(number),
            processors: set(text),
        };
        let package = Group { kind: GroupKind::Package, number: Some(0), processors: set("0-3") };
        let memory =
            Memory { number: 0, near: set("0-3"), bytes: None, kind: MemoryKind::default() };
        let all = NodeHardware {
            processors: set("0-3"),
            groups: vec![package, core(0, "0,2"), core(1, "1,3")],
            memories: vec![memory],
            ..NodeHardware::default()
        };
        let some = all.restricted(&set("2,7"));
        assert_eq!((some.processors.to_string(), some.cores()), ("2".into(), vec![set("2")]));
        assert_eq!((some.groups.len(), &some.memories[0].near), (2, &set("2")));
        assert_eq!(NodeHardware { groups: Vec::new(), ..all }.cores().len(), 4);
    }
}
