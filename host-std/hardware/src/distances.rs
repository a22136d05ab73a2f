//! Distances of devices from processors, in levels of the tree of objects as hwloc has it.

use crate::device::Device;
use crate::model::NodeHardware;
use crate::processor_set::ProcessorSet;
use crate::tree::{MemoryObjects, Region};

/// How far a device is from processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceDistance<'a> {
    /// The device.
    pub device: &'a Device,
    /// Levels of objects from the innermost one that has the processors and the device in common down to the
    /// hardware threads. Where that is the machine, those of the whole tree, and above the processors again.
    pub levels: u16,
}

/// Tree of the objects of a machine, by which distances are counted.
pub struct Distances<'a> {
    machine: Region<'a>,
    levels: usize,
    devices: Vec<(&'a Device, Path)>,
}

impl<'a> Distances<'a> {
    /// The tree of `hardware` that is [in order](NodeHardware::in_order), without caches of instructions,
    /// which hwloc leaves out.
    pub fn new(hardware: &'a NodeHardware) -> Self {
        let machine = Region::machine(hardware, MemoryObjects::Beside);
        let placed = hardware
            .devices
            .iter()
            .filter_map(|device| machine.place_of(device).map(|place| (device, place)));
        Self { levels: machine.levels(), devices: placed.collect(), machine }
    }

    /// The devices, in their order, by their distances from these processors, as clients of PMIx count them;
    /// none for processors that no object within the machine has, as for those of a process that is not
    /// bound.
    pub fn of(&self, processors: &ProcessorSet) -> Vec<DeviceDistance<'a>> {
        let place = self.machine.innermost(processors);
        if place.is_empty() {
            return Vec::new();
        }
        let distance = |(device, beside): &(&'a Device, Path)| {
            let common = place.iter().zip(beside).take_while(|(one, other)| one == other).count();
            let distance = match common {
                0 => place.len() + self.levels,
                common => self.levels - common,
            };
            DeviceDistance { device, levels: u16::try_from(distance).unwrap_or(u16::MAX) }
        };
        self.devices.iter().map(distance).collect()
    }
}

/// Numbers of regions inside each other, from that inside the machine on.
type Path = Vec<usize>;

impl Region<'_> {
    /// Number of levels, with this one.
    fn levels(&self) -> usize {
        self.inside.iter().map(Region::levels).max().unwrap_or(0) + 1
    }

    /// The innermost region with all of these processors.
    fn innermost(&self, processors: &ProcessorSet) -> Path {
        let (mut region, mut path) = (self, Path::new());
        let holds = |inner: &Region<'_>| processors.is_subset(&inner.processors);
        while let Some(at) = region.inside.iter().position(holds) {
            path.push(at);
            region = &region.inside[at];
        }
        path
    }

    /// The region at which a device hangs.
    fn place_of(&self, device: &Device) -> Option<Path> {
        if self.devices.iter().any(|other| std::ptr::eq(*other, device)) {
            return Some(Path::new());
        }
        (0..).zip(&self.inside).find_map(|(at, inner)| {
            let mut path = inner.place_of(device)?;
            path.insert(0, at);
            Some(path)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::described::machines;
    use crate::model::{CacheContent, GroupKind};

    #[test]
    fn devices_of_another_package_are_farther_than_those_beside() {
        let (_, machine) = machines().find(|(name, _)| *name == "dgx-h100").unwrap();
        let mut machine = machine.in_order();
        let is_of_instructions = |kind| match kind {
            GroupKind::Cache(cache) => cache.content == CacheContent::Instructions,
            _ => false,
        };
        machine.groups.retain(|group| !is_of_instructions(group.kind));
        let levels = |processors: &str| {
            let processors = ProcessorSet::of_list(processors).unwrap();
            let all = Distances::new(&machine).of(&processors).into_iter();
            all.map(|one| one.levels).collect::<Vec<_>>()
        };
        // Machine, package, caches of levels 3, 2 and 1, core, thread: devices hang at the packages.
        let core = levels("0,112");
        assert_eq!(core.len(), machine.devices.len());
        let is_beside = |device: &Device| device.near.contains(&0);
        let expected = machine.devices.iter().map(|device| if is_beside(device) { 6 } else { 12 });
        assert!(core.into_iter().eq(expected));
        // A thread is a level below its core.
        assert_eq!(levels("56").iter().max(), Some(&13));
        // Processors of both packages are nowhere within the machine.
        assert_eq!(levels("0,56"), []);
    }

    #[test]
    fn device_near_the_whole_machine_is_as_far_as_another_package() {
        let text = "cores 2\nmemory 0 1GiB\nonboard network names=eth0\n";
        let machine = NodeHardware::of_description(text).unwrap();
        let of = |processors: &str| {
            let processors = ProcessorSet::of_list(processors).unwrap();
            Distances::new(&machine).of(&processors).first().map(|one| one.levels)
        };
        assert_eq!((of("0"), of("0-1")), (Some(3 + 4), Some(1 + 4)));
    }
}
