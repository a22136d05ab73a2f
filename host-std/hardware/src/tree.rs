//! The hardware as a tree, as hwloc draws it: objects with processors inside each other, memory and devices
//! at the objects that they are near.

use crate::device::Device;
use crate::model::{Group, Memory, NodeHardware};
use crate::processor_set::ProcessorSet;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

/// Where memory domains are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryObjects {
    /// At the objects that they are near, as in hwloc 2.
    Beside,
    /// Between the machine and their own processors, as in hwloc 1.
    Between,
}

/// An object with processors, and what is inside.
pub(crate) struct Region<'a> {
    pub(crate) kind: RegionKind<'a>,
    pub(crate) processors: ProcessorSet,
    /// Objects inside it, by their first processors.
    pub(crate) inside: Vec<Self>,
    /// Domains that are near these processors, unless they are regions themselves.
    pub(crate) memories: Vec<&'a Memory>,
    pub(crate) devices: Vec<&'a Device>,
}

#[derive(Clone, Copy)]
pub(crate) enum RegionKind<'a> {
    Machine,
    /// Processors that only memory or devices have in common.
    Unnamed,
    /// A domain between the machine and its processors.
    Memory(&'a Memory),
    Group(&'a Group),
    Processor(u32),
}

impl<'a> Region<'a> {
    fn new(kind: RegionKind<'a>, processors: ProcessorSet) -> Self {
        Self { kind, processors, inside: Vec::new(), memories: Vec::new(), devices: Vec::new() }
    }

    /// The tree of hardware in its order. Groups that cross other groups are left out.
    pub(crate) fn machine(hardware: &'a NodeHardware, objects: MemoryObjects) -> Self {
        let owners = hardware.owners();
        let is_region = |memory: &Memory| {
            let is_own = |processor| owners.get(processor) == Some(&memory.number);
            objects == MemoryObjects::Between
                && !memory.near.is_empty()
                && memory.near.iter().all(is_own)
        };
        let (between, beside): (Vec<&Memory>, Vec<&Memory>) =
            hardware.memories.iter().partition(|memory| is_region(memory));
        let between = between.into_iter();
        let between = between.map(|one| Region::new(RegionKind::Memory(one), one.near.clone()));
        let groups = hardware.groups.iter();
        let groups =
            groups.map(|group| Region::new(RegionKind::Group(group), group.processors.clone()));
        let mut regions: Vec<Region<'a>> = between.chain(groups).collect();
        regions.extend(unnamed(hardware, &regions, &beside, objects));
        // Those of the same processors keep the order of the model.
        regions.sort_by_key(|region| {
            let rank = match region.kind {
                RegionKind::Machine | RegionKind::Unnamed => 0,
                RegionKind::Memory(_) => 1,
                RegionKind::Group(_) | RegionKind::Processor(_) => 2,
            };
            (Reverse(region.processors.len()), rank)
        });
        let mut forest = Nesting::new(hardware.processors.clone());
        for region in regions {
            forest.insert(region);
        }
        for processor in hardware.processors.iter() {
            let alone = ProcessorSet::from_iter([*processor]);
            forest.insert(Region::new(RegionKind::Processor(*processor), alone));
        }
        for memory in beside {
            let place = match objects {
                MemoryObjects::Between => forest.around(&memory.near),
                MemoryObjects::Beside => forest.below_machine(&memory.near),
            };
            forest.regions[place].memories.push(memory);
        }
        for device in &hardware.devices {
            let place = forest.around(&device.near);
            forest.regions[place].devices.push(device);
        }
        forest.into_machine()
    }
}

/// Regions of the processors near memory and devices that no other region has.
fn unnamed<'a>(
    hardware: &NodeHardware,
    regions: &[Region<'a>],
    memories: &[&Memory],
    objects: MemoryObjects,
) -> Vec<Region<'a>> {
    let named: HashSet<&ProcessorSet> = regions.iter().map(|region| &region.processors).collect();
    let mut unnamed: HashSet<&ProcessorSet> = HashSet::new();
    let mut all = Vec::new();
    // What is near the processors of a domain between others as well must be beside the domain.
    let memories = memories.iter().map(|memory| (&memory.near, objects == MemoryObjects::Between));
    let devices = hardware.devices.iter().map(|device| (&device.near, false));
    for (near, is_around_memory) in memories.chain(devices) {
        let is_new = is_around_memory || !named.contains(near);
        if is_new && !near.is_empty() && *near != hardware.processors && unnamed.insert(near) {
            all.push(Region::new(RegionKind::Unnamed, near.clone()));
        }
    }
    all
}

/// Regions as they are put inside each other, the machine first. Each step takes as long as a set has
/// processors, however many regions there are.
struct Nesting<'a> {
    regions: Vec<Region<'a>>,
    /// The region around each; the machine is in itself.
    outer: Vec<usize>,
    /// The innermost region of each processor.
    innermost: Vec<usize>,
    /// The outermost region below the machine of exactly these processors, but for single processors.
    exact: HashMap<ProcessorSet, usize>,
}

impl<'a> Nesting<'a> {
    fn new(processors: ProcessorSet) -> Self {
        let numbers = processors.last().map_or(0, |last| index(*last) + 1);
        Self {
            regions: vec![Region::new(RegionKind::Machine, processors)],
            outer: vec![0],
            innermost: vec![0; numbers],
            exact: HashMap::new(),
        }
    }

    /// Puts a region, which is no larger than those before it, into the innermost one around it, unless it
    /// crosses another one.
    fn insert(&mut self, region: Region<'a>) {
        let mut places =
            region.processors.iter().map(|processor| self.innermost.get(index(*processor)));
        let Some(Some(place)) = places.next() else { return };
        // A region with some of these processors, but not all, is as large at least: it has others.
        if !places.all(|other| other == Some(place)) {
            return;
        }
        self.outer.push(*place);
        let own = self.regions.len();
        for processor in region.processors.iter() {
            self.innermost[index(*processor)] = own;
        }
        if !matches!(region.kind, RegionKind::Processor(_)) {
            self.exact.entry(region.processors.clone()).or_insert(own);
        }
        self.regions.push(region);
    }

    /// The outermost region of exactly these processors, else the innermost one that has them all; the
    /// machine for no processors.
    fn around(&self, processors: &ProcessorSet) -> usize {
        if self.regions[0].processors == *processors {
            return 0;
        }
        self.below_machine(processors)
    }

    /// The same, where the machine is the last choice: hwloc 2 hangs memory at a package, although the
    /// package is the whole machine.
    fn below_machine(&self, processors: &ProcessorSet) -> usize {
        if let Some(exact) = self.exact.get(processors) {
            return *exact;
        }
        let innermost = |one: &u32| self.innermost.get(index(*one)).copied().unwrap_or_default();
        let mut around = processors.first().map_or(0, innermost);
        if let RegionKind::Processor(_) = self.regions[around].kind {
            around = self.outer[around];
        }
        for processor in processors.iter() {
            while around > 0 && !self.regions[around].processors.contains(processor) {
                around = self.outer[around];
            }
        }
        around
    }

    fn into_machine(mut self) -> Region<'a> {
        let mut inner = Vec::new();
        while let (Some(mut region), Some(outer)) = (self.regions.pop(), self.outer.pop()) {
            region.inside.sort_by_key(|inner| inner.processors.first().copied());
            match self.regions.get_mut(outer) {
                Some(outer) => outer.inside.push(region),
                None => inner.push(region),
            }
        }
        // The machine, which is in itself.
        let machine = inner.pop();
        machine.unwrap_or_else(|| Region::new(RegionKind::Machine, ProcessorSet::default()))
    }
}

fn index(processor: u32) -> usize {
    usize::try_from(processor).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CoreFacts, GroupKind, MemoryKind};

    fn set(text: &str) -> ProcessorSet {
        ProcessorSet::of_list(text).unwrap()
    }

    fn group(kind: GroupKind, processors: ProcessorSet) -> Group {
        Group { kind, number: None, processors }
    }

    fn memory(number: u32, near: &str) -> Memory {
        Memory { number, near: set(near), bytes: None, kind: MemoryKind::Main }
    }

    /// Processors of all objects, outer ones in front of those inside, with the memory at them.
    fn shown(region: &Region<'_>) -> String {
        let memories: String =
            region.memories.iter().map(|memory| format!(" m{}", memory.number)).collect();
        let inside: String =
            region.inside.iter().map(|inner| format!(" ({})", shown(inner))).collect();
        format!("{}{memories}{inside}", region.processors)
    }

    #[test]
    fn objects_are_inside_each_other_and_crossing_ones_are_left_out() {
        let core = GroupKind::Core(CoreFacts::default());
        let groups = [(core, "0-1"), (GroupKind::Package, "0-3"), (core, "1-2"), (core, "2-3")];
        let hardware = NodeHardware {
            processors: set("0-3"),
            groups: groups.map(|(kind, text)| group(kind, set(text))).to_vec(),
            memories: vec![memory(0, "0-3"), memory(1, "2-3"), memory(2, "1-3"), memory(3, "2")],
            ..NodeHardware::default()
        }
        .in_order();
        let tree = Region::machine(&hardware, MemoryObjects::Beside);
        // Larger ones come first: the region of memory 2 crosses the first core, and the second core the
        // third one.
        let expected = "0-3 (0-3 m0 (0) (1-3 m1 m2 (1-2 (1) (2 m3 (2))) (3)))";
        assert_eq!(shown(&tree), expected);
    }

    #[test]
    fn memory_of_a_machine_with_one_processor_is_not_at_the_processor() {
        let memories = vec![memory(0, "0")];
        let hardware =
            NodeHardware { processors: set("0"), memories, ..NodeHardware::default() }.in_order();
        assert_eq!(shown(&Region::machine(&hardware, MemoryObjects::Beside)), "0 m0 (0)");
    }

    /// The number of pairs of these objects is 2 to the power of 33, which takes hours.
    #[test]
    fn tree_of_many_objects_compares_no_pairs() {
        let processors = ProcessorSet::from_iter(0..ProcessorSet::NUMBER_MAX);
        let pairs = (0..ProcessorSet::NUMBER_MAX).step_by(2);
        let pairs = pairs.map(|first| ProcessorSet::from_iter([first, first + 1]));
        let core = GroupKind::Core(CoreFacts::default());
        let mut groups: Vec<Group> = pairs.map(|pair| group(core, pair)).collect();
        groups.push(group(GroupKind::Package, processors.clone()));
        let hardware = NodeHardware { processors, groups, ..NodeHardware::default() }.in_order();
        let tree = Region::machine(&hardware, MemoryObjects::Beside);
        assert_eq!(tree.inside[0].inside.len(), 1 << 15);
        assert_eq!(hardware.console().lines().count(), 1 + (1 << 15) + (1 << 16));
    }
}
