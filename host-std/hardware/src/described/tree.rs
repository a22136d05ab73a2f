//! Generator of the files by which Linux tells of its hardware.

use crate::device::{Device, DeviceKind, GpuMaker, LinkKind, PartKind, PciAddress, PciFacts};
use crate::model::{
    CacheContent, CacheFacts, Group, GroupKind, LinkedDevices, Memory, MemoryKind, NodeHardware,
};
use crate::processor_set::ProcessorSet;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

/// Writes the files of `/sys` and `/proc` that tell of this hardware, below a directory.
///
/// Linux says less than the model: UUIDs of GPUs of NVIDIA and AMD only, and none of parts. Kinds of cores
/// are written as Linux does for Intel if there are two, as for ARM if there are more.
///
/// # Errors
///
/// Those of the system.
pub fn write_tree(hardware: &NodeHardware, root: &Path) -> io::Result<()> {
    let tree = Tree { root, hardware };
    tree.processors()?;
    tree.memories()?;
    for device in &hardware.devices {
        tree.device(device)?;
    }
    tree.links()?;
    if let Some(name) = &hardware.name {
        tree.file("sys/devices/virtual/dmi/id/product_name", name)?;
        tree.link("sys/class/dmi/id", "sys/devices/virtual/dmi/id")?;
    }
    Ok(())
}

/// Directory in memory for trees: one has thousands of files, for which a disk may take a minute.
pub fn tree_parent() -> PathBuf {
    let in_memory = PathBuf::from("/dev/shm");
    if in_memory.is_dir() { in_memory } else { std::env::temp_dir() }
}

struct Tree<'a> {
    root: &'a Path,
    hardware: &'a NodeHardware,
}

impl Tree<'_> {
    /// Writes a file of one line.
    fn file(&self, path: impl AsRef<Path>, content: impl Display) -> io::Result<()> {
        let path = self.root.join(path);
        if let Some(directory) = path.parent() {
            create_directory(directory)?;
        }
        write(&path, format!("{content}\n").as_bytes())
    }

    fn directory(&self, path: impl AsRef<Path>) -> io::Result<()> {
        create_directory(&self.root.join(path))
    }

    /// Makes a link, whose target is relative as those of Linux.
    fn link(&self, path: impl AsRef<Path>, target: impl AsRef<Path>) -> io::Result<()> {
        let above = path.as_ref().parent().unwrap_or(Path::new(""));
        self.directory(above)?;
        let common = above.iter().zip(target.as_ref().iter()).take_while(|(a, b)| a == b).count();
        let mut relative = PathBuf::new();
        relative.extend(above.iter().skip(common).map(|_| ".."));
        relative.extend(target.as_ref().iter().skip(common));
        std::os::unix::fs::symlink(relative, self.root.join(path))
    }

    /// Writes a set as a list and as a mask.
    fn set(
        &self,
        list: impl AsRef<Path>,
        mask: impl AsRef<Path>,
        set: &ProcessorSet,
    ) -> io::Result<()> {
        self.file(list, set)?;
        // The kernel writes all digits.
        let words = set.mask().replace("0x", "");
        let words = words.split(',').map(|word| format!("{word:0>8}"));
        self.file(mask, words.collect::<Vec<_>>().join(","))
    }

    fn processors(&self) -> io::Result<()> {
        let cpu = Path::new("sys/devices/system/cpu");
        let all = &self.hardware.processors;
        for name in ["online", "present", "possible"] {
            self.file(cpu.join(name), all)?;
        }
        for processor in all.iter().copied() {
            self.processor(&cpu.join(format!("cpu{processor}")), processor)?;
        }
        self.kinds()
    }

    /// Groups around a processor, the outermost first.
    fn around(&self, processor: u32) -> impl DoubleEndedIterator<Item = &Group> {
        self.hardware.groups.iter().filter(move |group| group.processors.contains(&processor))
    }

    fn processor(&self, directory: &Path, processor: u32) -> io::Result<()> {
        let topology = directory.join("topology");
        let write_group = |[name, id]: [&str; 2], group: Option<&Group>, default: &ProcessorSet| {
            let set = group.map_or(default, |group| &group.processors);
            self.set(topology.join(format!("{name}_list")), topology.join(name), set)?;
            let alone = if default.len() == 1 { processor } else { 0 };
            self.file(topology.join(id), group.and_then(|group| group.number).unwrap_or(alone))
        };
        let find = |is_meant: fn(&GroupKind) -> bool| {
            self.around(processor).find(|group| is_meant(&group.kind))
        };
        let package = find(|kind| *kind == GroupKind::Package);
        let in_package = package.map_or(&self.hardware.processors, |group| &group.processors);
        let die = find(|kind| *kind == GroupKind::Die);
        let core = find(|kind| matches!(kind, GroupKind::Core(_)));
        let alone = ProcessorSet::from_iter([processor]);
        write_group(["package_cpus", "physical_package_id"], package, &self.hardware.processors)?;
        write_group(["die_cpus", "die_id"], die, in_package)?;
        write_group(["core_cpus", "core_id"], core, &alone)?;
        let caches = self.around(processor).rev().filter_map(|group| match group.kind {
            GroupKind::Cache(facts) => Some((facts, &group.processors)),
            _ => None,
        });
        for (at, (facts, processors)) in caches.enumerate() {
            self.cache(&directory.join(format!("cache/index{at}")), facts, processors)?;
        }
        Ok(())
    }

    fn cache(
        &self,
        directory: &Path,
        facts: CacheFacts,
        processors: &ProcessorSet,
    ) -> io::Result<()> {
        let content = match facts.content {
            CacheContent::Unified => "Unified",
            CacheContent::Data => "Data",
            CacheContent::Instructions => "Instruction",
        };
        self.file(directory.join("level"), facts.level)?;
        self.file(directory.join("type"), content)?;
        self.file(directory.join("size"), format!("{}K", facts.bytes >> 10))?;
        self.file(directory.join("coherency_line_size"), facts.line_bytes)?;
        self.file(directory.join("ways_of_associativity"), facts.ways)?;
        let [list, mask] = ["shared_cpu_list", "shared_cpu_map"].map(|name| directory.join(name));
        self.set(list, mask, processors)
    }

    /// Kinds of cores.
    fn kinds(&self) -> io::Result<()> {
        let cores = || {
            self.hardware.groups.iter().filter_map(|group| match group.kind {
                GroupKind::Core(facts) => Some((facts.efficiency, &group.processors)),
                _ => None,
            })
        };
        let classes: BTreeSet<u8> = cores().map(|(class, _)| class).collect();
        let of_class = |class: u8| -> ProcessorSet {
            cores()
                .filter(|(own, _)| *own == class)
                .flat_map(|(_, set)| set.iter().copied())
                .collect()
        };
        match *classes.iter().collect::<Vec<_>>() {
            [] | [_] => Ok(()),
            [small, large] => {
                self.file("sys/devices/cpu_atom/cpus", of_class(*small))?;
                self.file("sys/devices/cpu_core/cpus", of_class(*large))
            }
            ref classes => {
                for (at, class) in classes.iter().enumerate() {
                    // The fastest kind has 1024.
                    let capacity = 1024 * (at + 1) / classes.len();
                    for processor in of_class(**class).iter() {
                        let file = format!("sys/devices/system/cpu/cpu{processor}/cpu_capacity");
                        self.file(file, capacity)?;
                    }
                }
                Ok(())
            }
        }
    }

    fn memories(&self) -> io::Result<()> {
        let nodes = Path::new("sys/devices/system/node");
        let memories = &self.hardware.memories;
        let numbers: ProcessorSet = memories.iter().map(|memory| memory.number).collect();
        for name in ["online", "possible", "has_memory"] {
            self.file(nodes.join(name), &numbers)?;
        }
        let owned: Vec<ProcessorSet> =
            memories.iter().map(|memory| self.hardware.own_processors(memory)).collect();
        let with_processors = memories.iter().zip(&owned).filter(|(_, owned)| !owned.is_empty());
        let with_processors: Vec<_> = with_processors.collect();
        let has_cpu = with_processors.iter().map(|(memory, _)| memory.number);
        self.file(nodes.join("has_cpu"), has_cpu.collect::<ProcessorSet>())?;
        for (memory, owned) in memories.iter().zip(&owned) {
            let number = memory.number;
            let node = nodes.join(format!("node{number}"));
            self.set(node.join("cpulist"), node.join("cpumap"), owned)?;
            let kib = memory.bytes.unwrap_or_default() >> 10;
            let line = |name: &str, kib: u64| format!("Node {number} {name:<15} {kib:>8} kB");
            let lines =
                [line("MemTotal:", kib), line("MemFree:", kib / 2), line("MemUsed:", kib / 2)];
            self.file(node.join("meminfo"), lines.join("\n"))?;
            let distances = memories.iter().map(|other| distance(memory, other).to_string());
            self.file(node.join("distance"), distances.collect::<Vec<_>>().join(" "))?;
            let initiators = node.join("access0/initiators");
            let near = with_processors.iter().filter(|(_, owned)| owned.meets(&memory.near));
            for (initiator, _) in near {
                let name = format!("node{}", initiator.number);
                self.link(initiators.join(&name), nodes.join(&name))?;
            }
            let (bandwidth, latency, tier) = speed(memory.kind);
            self.file(initiators.join("read_bandwidth"), bandwidth)?;
            self.file(initiators.join("read_latency"), latency)?;
            let tier = format!("sys/devices/virtual/memory_tiering/memory_tier{tier}/nodelist");
            let same = memories.iter().filter(|other| other.kind == memory.kind);
            self.file(tier, same.map(|other| other.number).collect::<ProcessorSet>())?;
        }
        self.memories_of_gpus()
    }

    /// Domains in the memory of GPUs, as NVIDIA's driver tells of them: dealt to the GPUs in their order.
    fn memories_of_gpus(&self) -> io::Result<()> {
        let domains = self.hardware.memories.iter().filter(|one| one.kind == MemoryKind::OfGpu);
        let domains: Vec<u32> = domains.map(|memory| memory.number).collect();
        let gpus: Vec<&PciFacts> =
            self.hardware.gpus().filter_map(|gpu| gpu.pci.as_ref()).collect();
        let share = domains.len().checked_div(gpus.len()).unwrap_or(1).max(1);
        for (facts, numbers) in gpus.iter().zip(domains.chunks(share)) {
            let file = format!("proc/driver/nvidia/gpus/{}/numa_status", facts.address);
            self.file(file, format!("Node:\t\t {}\nStatus:\t\t online", numbers[0]))?;
        }
        Ok(())
    }

    fn device(&self, device: &Device) -> io::Result<()> {
        let directory = match &device.pci {
            Some(facts) => self.pci(device, facts)?,
            None => Path::new("sys/devices/platform").join(device.name()),
        };
        self.directory(&directory)?;
        for name in &device.names {
            let (below, class) = place(device.kind, name);
            let Some(class) = class else { continue };
            let own = directory.join(below).join(name);
            self.directory(&own)?;
            self.link(own.join("device"), &directory)?;
            self.link(Path::new("sys/class").join(class).join(name), &own)?;
        }
        self.parts(device, &directory)
    }

    fn pci(&self, device: &Device, facts: &PciFacts) -> io::Result<PathBuf> {
        let outermost = facts.bridges.first().unwrap_or(&facts.address);
        let mut path = PathBuf::from("sys/devices")
            .join(format!("pci{:04x}:{:02x}", outermost.domain, outermost.bus));
        for bridge in &facts.bridges {
            path.push(bridge.to_string());
            // A bridge: its maker is not in the model.
            let numbers =
                PciFacts { address: *bridge, class: 0x0604, vendor: 0, device: 0, bridges: vec![] };
            self.function(device, &numbers, &path)?;
        }
        path.push(facts.address.to_string());
        self.function(device, facts, &path)?;
        match (device.kind, &device.uuid) {
            (DeviceKind::Gpu(GpuMaker::Nvidia), uuid) => {
                let uuid = uuid.as_deref().unwrap_or("GPU-????????-????-????-????-????????????");
                let minor = self.gpu_number(facts.address);
                let file = format!("proc/driver/nvidia/gpus/{}/information", facts.address);
                self.file(file, format!("GPU UUID: \t {uuid}\nDevice Minor: \t {minor}"))?;
            }
            (DeviceKind::Gpu(GpuMaker::Amd), Some(uuid)) => {
                self.file(path.join("unique_id"), uuid.trim_start_matches("GPU-"))?;
            }
            _ => (),
        }
        Ok(path)
    }

    /// Files of a function on the PCI bus, unless it is a bridge that stands above another device, too.
    fn function(&self, device: &Device, facts: &PciFacts, path: &Path) -> io::Result<()> {
        if self.root.join(path).exists() {
            return Ok(());
        }
        let near = match device.near.is_empty() {
            true => &self.hardware.processors,
            false => &device.near,
        };
        self.file(path.join("class"), format!("0x{:04x}00", facts.class))?;
        self.file(path.join("vendor"), format!("0x{:04x}", facts.vendor))?;
        self.file(path.join("device"), format!("0x{:04x}", facts.device))?;
        self.file(path.join("revision"), "0x00")?;
        self.set(path.join("local_cpulist"), path.join("local_cpus"), near)?;
        let node = device.memory.map_or("-1".into(), |number| number.to_string());
        self.file(path.join("numa_node"), node)?;
        self.link(Path::new("sys/bus/pci/devices").join(facts.address.to_string()), path)
    }

    /// Nodes of the compute driver of AMD, the processors first, with their links.
    fn links(&self) -> io::Result<()> {
        let is_xgmi = |link: &LinkedDevices<'_>| matches!(link.kind, LinkKind::Xgmi { .. });
        let links: Vec<_> = self.hardware.device_links().filter(is_xgmi).collect();
        if links.is_empty() {
            return Ok(());
        }
        let nodes = Path::new("sys/class/kfd/kfd/topology/nodes");
        self.file(nodes.join("0/properties"), "cpu_cores_count 1\nsimd_count 0")?;
        let gpus: Vec<&PciFacts> =
            self.hardware.gpus().filter_map(|gpu| gpu.pci.as_ref()).collect();
        for (number, facts) in (1..).zip(&gpus) {
            let PciAddress { domain, bus, slot, function } = facts.address;
            let location = u32::from(bus) << 8 | u32::from(slot) << 3 | u32::from(function);
            let node = nodes.join(number.to_string());
            let text = format!("simd_count 440\nlocation_id {location}\ndomain {domain}");
            self.file(node.join("properties"), text)?;
            let to_processors = format!("type 2\nnode_from {number}\nnode_to 0\nweight 20");
            self.file(node.join("io_links/0/properties"), to_processors)?;
            let ends = links.iter().map(|link| (link, link.devices.map(|end| end.pci.as_ref())));
            let mut at = 0;
            for (link, [one, other]) in ends {
                let peer = match (one == Some(*facts), other == Some(*facts)) {
                    (true, _) => other,
                    (_, true) => one,
                    _ => continue,
                };
                let peer = gpus.iter().position(|gpu| Some(*gpu) == peer).unwrap_or_default() + 1;
                let LinkKind::Xgmi { weight } = link.kind else { continue };
                at += 1;
                let text = format!("type 11\nnode_from {number}\nnode_to {peer}\nweight {weight}");
                self.file(node.join(format!("io_links/{at}/properties")), text)?;
            }
        }
        Ok(())
    }

    fn gpu_number(&self, address: PciAddress) -> usize {
        let place = |gpu: &Device| gpu.pci.as_ref().is_some_and(|pci| pci.address == address);
        self.hardware.gpus().position(place).unwrap_or_default()
    }

    fn parts(&self, device: &Device, directory: &Path) -> io::Result<()> {
        let card = device.names.iter().find(|name| name.starts_with("card"));
        let gpu = device.pci.as_ref().map_or(0, |facts| self.gpu_number(facts.address));
        for part in &device.parts {
            let number = part.number;
            match (part.kind, card) {
                (PartKind::Mig, _) => {
                    let instance =
                        format!("proc/driver/nvidia/capabilities/gpu{gpu}/mig/gi{number}");
                    self.file(format!("{instance}/access"), "DeviceFileMode: 256")?;
                    self.file(format!("{instance}/ci0/access"), "DeviceFileMode: 256")?;
                }
                (PartKind::Tile, Some(card)) => {
                    self.file(directory.join(format!("drm/{card}/gt/gt{number}/id")), number)?;
                }
                (PartKind::Tile, None) => (),
                (PartKind::Partition, _) => {
                    self.file(directory.join("current_compute_partition"), "CPX")?;
                }
            }
        }
        Ok(())
    }
}

/// Directory below a device in which one of its names is, and its class; no class for names of libraries.
fn place(kind: DeviceKind, name: &str) -> (PathBuf, Option<&'static str>) {
    let verbs = ["mlx", "hfi1_", "rdmap", "irdma", "bnxt_re"];
    match kind {
        DeviceKind::Gpu(_) if ["card", "renderD"].iter().any(|one| name.starts_with(one)) => {
            ("drm".into(), Some("drm"))
        }
        DeviceKind::Gpu(_) => (PathBuf::new(), None),
        DeviceKind::Network(_) if name.starts_with("cxi") => ("cxi".into(), Some("cxi")),
        DeviceKind::Network(_) if verbs.iter().any(|one| name.starts_with(one)) => {
            ("infiniband".into(), Some("infiniband"))
        }
        DeviceKind::Network(_) => ("net".into(), Some("net")),
        // As `nvme/nvme0/nvme0n1`.
        DeviceKind::Storage => {
            match name.strip_prefix("nvme").and_then(|rest| rest.split_once('n')) {
                Some((controller, _)) => (format!("nvme/nvme{controller}").into(), Some("block")),
                None => ("block".into(), Some("block")),
            }
        }
    }
}

/// Distance of two memory domains as the firmware tells it, 10 within one.
fn distance(one: &Memory, other: &Memory) -> u32 {
    let farther = |memory: &Memory| match memory.kind {
        MemoryKind::Main => 0,
        MemoryKind::HighBandwidth => 3,
        MemoryKind::Far => 14,
        MemoryKind::OfGpu => 70,
    };
    match (one.number == other.number, one.near.meets(&other.near)) {
        (true, _) => 10,
        (_, true) => 10 + farther(one).max(farther(other)).max(1),
        _ => 21 + farther(one).max(farther(other)),
    }
}

/// Bandwidth (MB/s) and latency (ns) of memory, and its tier.
const fn speed(kind: MemoryKind) -> (u32, u32, u32) {
    match kind {
        MemoryKind::Main => (200_000, 100, 4),
        MemoryKind::HighBandwidth => (800_000, 130, 3),
        MemoryKind::Far => (50_000, 250, 22),
        MemoryKind::OfGpu => (400_000, 500, 23),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a directory of a test, which nobody else writes into"
)]
fn create_directory(path: &Path) -> io::Result<()> {
    std::fs::create_dir_all(path)
}

#[expect(
    clippy::disallowed_methods,
    reason = "a directory of a test, which nobody else writes into"
)]
fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    std::fs::write(path, content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::described::machines;
    use std::collections::BTreeMap;

    fn tree(name: &str) -> tempfile::TempDir {
        let (_, hardware) = machines().find(|(own, _)| *own == name).unwrap();
        let directory = tempfile::tempdir_in(tree_parent()).unwrap();
        write_tree(&hardware, directory.path()).unwrap();
        directory
    }

    #[test]
    fn trees_have_the_files_of_linux() {
        let files = [
            ("lassen", "sys/devices/system/cpu/online", "8-87,96-175"),
            ("lassen", "sys/devices/system/cpu/cpu9/topology/core_cpus_list", "8-11"),
            ("lassen", "sys/devices/system/cpu/cpu9/topology/core_id", "8"),
            ("lassen", "sys/devices/system/cpu/cpu9/cache/index3/size", "10240K"),
            ("lassen", "sys/devices/system/cpu/cpu9/cache/index3/shared_cpu_list", "8-15"),
            ("lassen", "sys/devices/system/node/has_cpu", "0,8"),
            ("lassen", "sys/devices/system/node/node8/cpulist", "96-175"),
            ("lassen", "sys/devices/system/node/node8/distance", "21 10 80 80 91 91"),
            ("lassen", "sys/devices/system/node/node252/cpulist", ""),
            (
                "lassen",
                "sys/devices/system/node/node252/access0/initiators/node8/cpulist",
                "96-175",
            ),
            ("lassen", "sys/bus/pci/devices/0004:04:00.0/class", "0x030200"),
            ("lassen", "sys/bus/pci/devices/0004:04:00.0/../class", "0x060400"),
            ("lassen", "sys/bus/pci/devices/0033:01:00.0/numa_node", "8"),
            ("lassen", "sys/class/infiniband/mlx5_2/device/vendor", "0x15b3"),
            ("lassen", "sys/class/block/nvme0n1/device/local_cpulist", "8-87"),
            ("lassen", "sys/class/dmi/id/product_name", "PowerNV 8335-GTW"),
            ("frontier", "sys/class/cxi/cxi0/device/numa_node", "3"),
            ("frontier", "sys/class/drm/card0/device/unique_id", "0000000000000001"),
            ("alder-lake", "sys/devices/cpu_core/cpus", "0-11"),
            ("alder-lake", "sys/devices/cpu_atom/cpus", "12-19"),
            ("hdk-888", "sys/devices/system/cpu/cpu7/cpu_capacity", "1024"),
            (
                "dgx-h100",
                "proc/driver/nvidia/capabilities/gpu0/mig/gi1/access",
                "DeviceFileMode: 256",
            ),
            ("aurora", "sys/class/drm/card5/gt/gt1/id", "1"),
            ("raspberry-pi", "sys/class/net/eth0/device/numa_node", "none"),
        ];
        let mut trees = BTreeMap::new();
        for (name, file, expected) in files {
            let tree = trees.entry(name).or_insert_with(|| tree(name));
            let content = std::fs::read_to_string(tree.path().join(file));
            let content = content.unwrap_or_else(|_| "none".into());
            assert_eq!(content.trim(), expected, "{name} {file}");
        }
    }
}
