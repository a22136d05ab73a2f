//! The model as text for people, in the form of `lstopo`: objects inside each other, with their numbers in
//! the order of the tree (`L#`) and in the system (`P#`), memory and devices below what they are near.

use crate::device::{Device, DevicePart, LinkKind, PartKind, PciFacts};
use crate::model::{CacheContent, GroupKind, LinkedDevices, Memory, MemoryKind, NodeHardware};
use crate::tree::{MemoryObjects, Region, RegionKind};
use std::collections::BTreeMap;
use std::fmt::Write;

impl NodeHardware {
    /// The hardware as text, a line for each object, or for several where each has only the next one inside.
    pub fn console(&self) -> String {
        let root = Region::machine(self, MemoryObjects::Beside);
        let sizes = self.memories.iter().filter_map(|memory| memory.bytes);
        let mut console = Console { text: String::new(), counts: BTreeMap::new() };
        console.object(&root, 0, sizes.fold(0, u64::saturating_add));
        console.links(self);
        console.text
    }
}

struct Console {
    text: String,
    /// How many objects of each name have been written.
    counts: BTreeMap<String, u32>,
}

impl Console {
    fn object(&mut self, object: &Region<'_>, depth: usize, total_bytes: u64) {
        self.indent(depth);
        let mut object = object;
        loop {
            let label = self.label(object, total_bytes);
            self.text.push_str(&label);
            match object.inside.as_slice() {
                [only] if object.memories.is_empty() && object.devices.is_empty() => {
                    self.text.push_str(" + ");
                    object = only;
                }
                _ => break,
            }
        }
        self.text.push('\n');
        for memory in &object.memories {
            self.memory(memory, depth + 1);
        }
        for inside in &object.inside {
            self.object(inside, depth + 1, total_bytes);
        }
        self.devices(&object.devices, depth + 1);
    }

    fn label(&mut self, object: &Region<'_>, total_bytes: u64) -> String {
        let group = match object.kind {
            RegionKind::Machine if total_bytes > 0 => {
                return format!("Machine ({} total)", size(total_bytes));
            }
            RegionKind::Machine => return "Machine".to_owned(),
            RegionKind::Unnamed => return self.numbered("Group0"),
            RegionKind::Processor(number) => {
                return self.numbered("PU") + &format!(" (P#{number})");
            }
            // Memory is beside objects.
            RegionKind::Memory(_) => return String::new(),
            RegionKind::Group(group) => group,
        };
        match group.kind {
            GroupKind::Package => self.numbered("Package"),
            GroupKind::Die => self.numbered("Die"),
            GroupKind::Core(_) => self.numbered("Core"),
            GroupKind::Cache(facts) => {
                let content = match facts.content {
                    CacheContent::Unified => "",
                    CacheContent::Data => "d",
                    CacheContent::Instructions => "i",
                };
                let name = self.numbered(&format!("L{}{content}", facts.level));
                match facts.bytes {
                    0 => name,
                    bytes => format!("{name} ({})", size(bytes)),
                }
            }
        }
    }

    /// A name with the number of the next object of this name.
    fn numbered(&mut self, name: &str) -> String {
        let count = self.counts.entry(name.to_owned()).or_default();
        let text = format!("{name} L#{count}");
        *count += 1;
        text
    }

    fn memory(&mut self, memory: &Memory, depth: usize) {
        let kind = match memory.kind {
            MemoryKind::Main => "NUMANode",
            MemoryKind::HighBandwidth => "NUMANode(HBM)",
            MemoryKind::Far => "NUMANode(Far)",
            MemoryKind::OfGpu => "NUMANode(GPUMemory)",
        };
        let count = self.numbered("NUMANode");
        let size = memory.bytes.map(|bytes| format!(" {}", size(bytes))).unwrap_or_default();
        self.indent(depth);
        let number = count.trim_start_matches("NUMANode");
        let _ = writeln!(self.text, "{kind}{number} (P#{}{size})", memory.number);
    }

    /// Devices below their bridges. Devices that share outer bridges follow each other in their order.
    fn devices(&mut self, devices: &[&Device], depth: usize) {
        let mut above: Vec<(u32, String)> = Vec::new();
        for device in devices {
            let path = device.pci.as_ref().map(path).unwrap_or_default();
            let shared = above.iter().zip(&path).take_while(|(one, other)| one == other).count();
            for (at, (domain, _)) in path.iter().enumerate().skip(shared) {
                self.indent(depth + at);
                let _ = match (at, domain) {
                    (0, 0) => writeln!(self.text, "HostBridge"),
                    (0, domain) => writeln!(self.text, "HostBridge {domain:04x}"),
                    _ => writeln!(self.text, "PCIBridge"),
                };
            }
            self.device(device, depth + path.len());
            above = path;
        }
    }

    fn device(&mut self, device: &Device, depth: usize) {
        let mut depth = depth;
        if let Some(pci) = &device.pci {
            self.indent(depth);
            let address = pci.address.to_string();
            let address = address.strip_prefix("0000:").unwrap_or(&address);
            let _ = writeln!(self.text, "PCI {address} ({})", class(pci.class));
            depth += 1;
        }
        for (at, name) in device.names.iter().enumerate() {
            self.indent(depth);
            let _ = write!(self.text, "{} \"{name}\"", device.os_kind(name));
            let uuid = device.uuid.as_ref().filter(|_| at == 0);
            self.text.extend(uuid.map(|uuid| format!(" ({uuid})")));
            self.text.push('\n');
        }
        for part in &device.parts {
            self.indent(depth);
            self.part(part);
        }
    }

    fn part(&mut self, part: &DevicePart) {
        let kind = match part.kind {
            PartKind::Mig => "MIG",
            PartKind::Tile => "Tile",
            PartKind::Partition => "Partition",
        };
        let uuid = part.uuid.as_ref().map(|uuid| format!(" ({uuid})")).unwrap_or_default();
        let _ = writeln!(self.text, "{kind} {}{uuid}", part.number);
    }

    /// Links of each GPU with the ones after it: the others were said there.
    fn links(&mut self, hardware: &NodeHardware) {
        let mut first = None;
        for LinkedDevices { devices: [one, other], kind } in hardware.device_links() {
            let (name, facts) = match kind {
                LinkKind::NvLink { count } => ("NVLink", format!("x{count}")),
                LinkKind::Xgmi { weight } => ("xGMI", format!("weight {weight}")),
            };
            let start = Some((one.name(), name));
            if first != start {
                let end = if first.is_some() { "\n" } else { "" };
                let _ = write!(self.text, "{end}{name} \"{}\":", one.name());
                first = start;
            }
            let _ = write!(self.text, " \"{}\" ({facts})", other.name());
        }
        if first.is_some() {
            self.text.push('\n');
        }
    }

    fn indent(&mut self, depth: usize) {
        self.text.extend(std::iter::repeat_n("  ", depth));
    }
}

/// Bridges above a function, the host bridge first: by the bus of the outermost one, and by their addresses.
fn path(pci: &PciFacts) -> Vec<(u32, String)> {
    let outermost = pci.bridges.first().unwrap_or(&pci.address);
    let host = (outermost.domain, format!("{:02x}", outermost.bus));
    let bridges = pci.bridges.iter().map(|bridge| (bridge.domain, bridge.to_string()));
    [host].into_iter().chain(bridges).collect()
}

const fn class(class: u16) -> &'static str {
    match class {
        0x0106 => "SATA",
        0x0108 => "NVMExp",
        0x0200 => "Ethernet",
        0x0207 => "InfiniBand",
        0x0208 => "Fabric",
        0x0300 => "VGA",
        0x0302 => "3D",
        0x0380 => "Display",
        _ => match class >> 8 {
            0x01 => "Storage",
            0x02 => "Network",
            0x03 => "Display",
            0x12 => "Accelerator",
            _ => "Other",
        },
    }
}

/// A size with two to five digits.
fn size(bytes: u64) -> String {
    const UNITS: [(u32, &str); 4] = [(10, "KB"), (20, "MB"), (30, "GB"), (40, "TB")];
    let fits = |(shift, _): &&(u32, &str)| bytes < 10_u64 << (shift + 10);
    let (shift, unit) = UNITS.iter().find(fits).unwrap_or(&UNITS[3]);
    format!("{}{unit}", ((bytes >> (shift - 1)) + 1) >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{DeviceKind, Fabric, GpuMaker};
    use crate::model::{CacheFacts, CoreFacts, Group};
    use crate::processor_set::ProcessorSet;

    fn set(text: &str) -> ProcessorSet {
        ProcessorSet::of_list(text).unwrap()
    }

    fn group(kind: GroupKind, processors: &str) -> Group {
        Group { kind, number: None, processors: set(processors) }
    }

    fn cache(level: u8, content: CacheContent, bytes: u64) -> GroupKind {
        GroupKind::Cache(CacheFacts { level, content, bytes, ..CacheFacts::default() })
    }

    fn memory(number: u32, near: &str, kind: MemoryKind) -> Memory {
        Memory { number, near: set(near), bytes: Some(16 << 30), kind }
    }

    fn device(kind: DeviceKind, names: &[&str], near: &str, place: &str) -> Device {
        let mut places = place.split(' ');
        let address = places.next_back().unwrap().parse().unwrap();
        let class = if matches!(kind, DeviceKind::Gpu(_)) { 0x0302 } else { 0x0200 };
        let bridges = places.map(|place| place.parse().unwrap()).collect();
        Device {
            kind,
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            uuid: None,
            pci: Some(PciFacts { address, class, vendor: 0, device: 0, bridges }),
            near: set(near),
            memory: None,
            addresses: Vec::new(),
            parts: Vec::new(),
        }
    }

    #[test]
    fn machine_is_a_tree() {
        let core = GroupKind::Core(CoreFacts::default());
        let mut groups = Vec::new();
        for (package, cores) in [("0-1,4-5", ["0,4", "1,5"]), ("2-3,6-7", ["2,6", "3,7"])] {
            groups.push(group(GroupKind::Package, package));
            groups.push(group(cache(3, CacheContent::Unified, 32 << 20), package));
            for threads in cores {
                groups.push(group(cache(1, CacheContent::Data, 48 << 10), threads));
                groups.push(group(core, threads));
            }
        }
        let gpu = DeviceKind::Gpu(GpuMaker::Nvidia);
        let mut card = device(gpu, &["card1", "nvidia0"], "2-3,6-7", "0000:80:01.0 0000:81:00.0");
        card.uuid = Some("GPU-1".to_owned());
        card.parts =
            vec![DevicePart { number: 0, kind: PartKind::Mig, uuid: Some("MIG-1".to_owned()) }];
        let verbs = DeviceKind::Network(Fabric::InfiniBand);
        let all = NodeHardware {
            processors: set("0-7"),
            groups,
            memories: vec![
                memory(0, "0-1,4-5", MemoryKind::Main),
                memory(1, "2-3,6-7", MemoryKind::Main),
                memory(2, "0-7", MemoryKind::Far),
            ],
            devices: vec![
                device(DeviceKind::Network(Fabric::Ethernet), &["eth0"], "", "0000:00:03.0"),
                card,
                device(verbs, &["mlx5_0", "ib0"], "2-3,6-7", "0000:80:02.0 0000:82:00.0"),
            ],
            ..NodeHardware::default()
        }
        .in_order();
        let expected = "\
Machine (48GB total)
  NUMANode(Far) L#0 (P#2 16GB)
  Package L#0
    NUMANode L#1 (P#0 16GB)
    L3 L#0 (32MB)
      L1d L#0 (48KB) + Core L#0
        PU L#0 (P#0)
        PU L#1 (P#4)
      L1d L#1 (48KB) + Core L#1
        PU L#2 (P#1)
        PU L#3 (P#5)
  Package L#1
    NUMANode L#2 (P#1 16GB)
    L3 L#1 (32MB)
      L1d L#2 (48KB) + Core L#2
        PU L#4 (P#2)
        PU L#5 (P#6)
      L1d L#3 (48KB) + Core L#3
        PU L#6 (P#3)
        PU L#7 (P#7)
    HostBridge
      PCIBridge
        PCI 81:00.0 (3D)
          GPU \"card1\" (GPU-1)
          GPU \"nvidia0\"
          MIG 0 (MIG-1)
      PCIBridge
        PCI 82:00.0 (Ethernet)
          OpenFabrics \"mlx5_0\"
          Net \"ib0\"
  HostBridge
    PCI 00:03.0 (Ethernet)
      Net \"eth0\"
";
        assert_eq!(all.console(), expected);
    }

    #[test]
    fn memory_of_a_part_of_a_package_has_a_group() {
        let package = group(GroupKind::Package, "0-3");
        let domains = [(0, "0-1"), (1, "2-3")].map(|(at, near)| memory(at, near, MemoryKind::Main));
        let all = NodeHardware {
            processors: set("0-3"),
            groups: vec![package],
            memories: domains.to_vec(),
            ..NodeHardware::default()
        };
        let text = all.console();
        assert!(
            text.contains("\n  Group0 L#1\n    NUMANode L#1 (P#1 16GB)\n    PU L#2 (P#2)\n"),
            "{text}"
        );
        assert!(text.starts_with("Machine (32GB total) + Package L#0\n"), "{text}");
    }

    #[test]
    fn machine_of_which_nothing_is_known_has_processors() {
        let all = NodeHardware { processors: set("0,2"), ..NodeHardware::default() };
        assert_eq!(all.console(), "Machine\n  PU L#0 (P#0)\n  PU L#1 (P#2)\n");
    }

    #[test]
    fn sizes_have_two_to_five_digits() {
        let cases =
            [(48 << 10, "48KB"), (1 << 20, "1024KB"), (32 << 20, "32MB"), (1 << 30, "1024MB")];
        for (bytes, text) in cases.into_iter().chain([(24 << 30, "24GB"), (20 << 40, "20TB")]) {
            assert_eq!(size(bytes), text);
        }
        assert_eq!(size(u64::MAX), "16777216TB");
    }
}
