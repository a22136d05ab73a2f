//! Writer of the XML.

use super::HwlocVersion;
use super::links::MatrixKind;
use super::read::PARTS;
use crate::device::{Device, DeviceKind, GpuMaker, NetworkAddress, OsKind, PciAddress};
use crate::model::{CacheContent, CacheFacts, Group, GroupKind, Memory, MemoryKind, NodeHardware};
use crate::processor_set::ProcessorSet;
use crate::tree::{MemoryObjects, Region, RegionKind};
use quick_xml::events::{BytesDecl, BytesEnd, BytesStart, BytesText, Event};
use quick_xml::writer::Writer;
use std::collections::BTreeMap;
use std::io;

impl NodeHardware {
    /// Writes XML of hwloc, which [`of_hwloc`](Self::of_hwloc) and the tools of hwloc read.
    ///
    /// Groups that cross other groups are left out, since objects of hwloc form a tree.
    pub fn hwloc(&self, version: HwlocVersion) -> String {
        let hardware = &self.restricted(&self.processors).in_order();
        let xml = Writer::new_with_indent(Vec::new(), b' ', 2);
        let mut document = Document { xml, version, hardware, objects: 0, on_bus: BTreeMap::new() };
        // Memory takes every byte.
        let _ = document.write();
        String::from_utf8(document.xml.into_inner()).unwrap_or_default()
    }
}

struct Document<'a> {
    xml: Writer<Vec<u8>>,
    version: HwlocVersion,
    hardware: &'a NodeHardware,
    objects: u64,
    /// Objects of functions on the PCI bus, by number.
    on_bus: BTreeMap<PciAddress, u64>,
}

type Attributes = Vec<(&'static str, String)>;

impl<'a> Document<'a> {
    fn write(&mut self) -> io::Result<()> {
        self.xml.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
        let (dtd, version) = match self.version {
            HwlocVersion::V1 => ("hwloc.dtd", vec![]),
            HwlocVersion::V2 => ("hwloc2.dtd", vec![("version", "2.0".to_owned())]),
        };
        let doctype = format!("topology SYSTEM \"{dtd}\"");
        self.xml.write_event(Event::DocType(BytesText::from_escaped(doctype)))?;
        self.element("topology", version, |document| {
            let objects = match document.version {
                HwlocVersion::V1 => MemoryObjects::Between,
                HwlocVersion::V2 => MemoryObjects::Beside,
            };
            let machine = Region::machine(document.hardware, objects);
            document.region(&machine)?;
            if document.version == HwlocVersion::V1 {
                return Ok(());
            }
            document.links(MatrixKind::NvLink)?;
            document.links(MatrixKind::Xgmi)?;
            document.kinds()
        })
    }

    fn element(
        &mut self,
        name: &'static str,
        attributes: Attributes,
        inside: impl FnOnce(&mut Self) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut start = BytesStart::new(name);
        for (name, value) in &attributes {
            start.push_attribute((*name, value.as_str()));
        }
        self.xml.write_event(Event::Start(start))?;
        inside(self)?;
        self.xml.write_event(Event::End(BytesEnd::new(name)))
    }

    fn object(
        &mut self,
        class: &str,
        mut attributes: Attributes,
        inside: impl FnOnce(&mut Self) -> io::Result<()>,
    ) -> io::Result<()> {
        self.objects += 1;
        attributes.insert(0, ("type", class.to_owned()));
        if self.version == HwlocVersion::V2 {
            attributes.push(("gp_index", self.objects.to_string()));
        }
        self.element("object", attributes, inside)
    }

    fn info(&mut self, name: &str, value: &str) -> io::Result<()> {
        self.element("info", vec![("name", name.into()), ("value", value.into())], |_| Ok(()))
    }

    fn region(&mut self, region: &Region<'a>) -> io::Result<()> {
        let mut attributes = vec![("cpuset", region.processors.mask())];
        attributes.push(("complete_cpuset", region.processors.mask()));
        attributes.extend(self.nodesets(&region.processors));
        let number = |attributes: &mut Attributes, number: Option<u32>| {
            attributes.extend(number.map(|number| ("os_index", number.to_string())));
        };
        let class = match region.kind {
            RegionKind::Machine => {
                number(&mut attributes, Some(0));
                attributes.push(("allowed_cpuset", region.processors.mask()));
                attributes.push(("allowed_nodeset", self.nodeset(|_| true)));
                if self.version == HwlocVersion::V1 {
                    attributes.push(("online_cpuset", region.processors.mask()));
                }
                "Machine"
            }
            RegionKind::Unnamed => "Group",
            RegionKind::Memory(memory) => return self.memory(memory, Some(region)),
            RegionKind::Processor(processor) => {
                number(&mut attributes, Some(processor));
                "PU"
            }
            RegionKind::Group(group) => {
                number(&mut attributes, group.number);
                match group.kind {
                    GroupKind::Package => "Package",
                    // hwloc 1 has no dies.
                    GroupKind::Die if self.version == HwlocVersion::V1 => "Group",
                    GroupKind::Die => "Die",
                    GroupKind::Core(_) => "Core",
                    GroupKind::Cache(facts) => self.cache(&mut attributes, facts),
                }
            }
        };
        self.object(class, attributes, |document| document.inside(region))
    }

    fn inside(&mut self, region: &Region<'a>) -> io::Result<()> {
        match region.kind {
            RegionKind::Machine => {
                if let Some(name) = &self.hardware.name {
                    self.info("DMIProductName", name)?;
                }
            }
            RegionKind::Group(Group { kind: GroupKind::Core(facts), .. })
                if self.version == HwlocVersion::V1 && facts.efficiency > 0 =>
            {
                self.info("Efficiency", &facts.efficiency.to_string())?;
            }
            RegionKind::Group(Group { kind: GroupKind::Die, number: Some(number), .. })
                if self.version == HwlocVersion::V1 =>
            {
                self.info("Die", &number.to_string())?;
            }
            _ => (),
        }
        // hwloc expects objects without processors last, if they are in the tree at all.
        if self.version == HwlocVersion::V2 {
            self.memories(region)?;
        }
        for inner in &region.inside {
            self.region(inner)?;
        }
        if self.version == HwlocVersion::V1 {
            self.memories(region)?;
        }
        self.devices(&region.devices)
    }

    fn memories(&mut self, region: &Region<'a>) -> io::Result<()> {
        region.memories.iter().try_for_each(|memory| self.memory(memory, None))
    }

    fn cache(&self, attributes: &mut Attributes, facts: CacheFacts) -> &'static str {
        let content = match facts.content {
            CacheContent::Unified => "0",
            CacheContent::Data => "1",
            CacheContent::Instructions => "2",
        };
        attributes.push(("cache_size", facts.bytes.to_string()));
        attributes.push(("depth", facts.level.to_string()));
        attributes.push(("cache_linesize", facts.line_bytes.to_string()));
        attributes.push(("cache_associativity", facts.ways.to_string()));
        attributes.push(("cache_type", content.into()));
        let is_of_instructions = facts.content == CacheContent::Instructions;
        match (self.version, facts.level, is_of_instructions) {
            (HwlocVersion::V1, ..) => "Cache",
            (_, 1, true) => "L1iCache",
            (_, 2, true) => "L2iCache",
            (_, _, true) => "L3iCache",
            (_, 1, _) => "L1Cache",
            (_, 2, _) => "L2Cache",
            (_, 3, _) => "L3Cache",
            (_, 4, _) => "L4Cache",
            _ => "L5Cache",
        }
    }

    /// Writes a domain, which has processors inside in version 1 only.
    fn memory(&mut self, memory: &Memory, region: Option<&Region<'a>>) -> io::Result<()> {
        let empty = ProcessorSet::default();
        let processors = match (self.version, region) {
            (HwlocVersion::V1, None) => &empty,
            _ => &memory.near,
        };
        let own = self.nodeset(|other| other.number == memory.number);
        let mut attributes =
            vec![("os_index", memory.number.to_string()), ("cpuset", processors.mask())];
        attributes.push(("complete_cpuset", processors.mask()));
        attributes.push(("nodeset", own.clone()));
        attributes.push(("complete_nodeset", own));
        attributes.extend(memory.bytes.map(|bytes| ("local_memory", bytes.to_string())));
        let kind = match memory.kind {
            MemoryKind::Main => None,
            MemoryKind::HighBandwidth => Some("HBM"),
            MemoryKind::Far => Some("CXL-DRAM"),
            MemoryKind::OfGpu => Some("GPUMemory"),
        };
        if self.version == HwlocVersion::V2 {
            attributes.extend(kind.map(|kind| ("subtype", kind.to_owned())));
        }
        self.object("NUMANode", attributes, |document| {
            if let (HwlocVersion::V1, Some(kind)) = (document.version, kind) {
                document.info("Type", kind)?;
            }
            region.map_or(Ok(()), |region| document.inside(region))
        })
    }

    fn nodeset(&self, is_meant: impl Fn(&Memory) -> bool) -> String {
        let meant = self.hardware.memories.iter().filter(|memory| is_meant(memory));
        meant.map(|memory| memory.number).collect::<ProcessorSet>().mask()
    }

    fn nodesets(&self, processors: &ProcessorSet) -> Attributes {
        let near = self.nodeset(|memory| memory.near.meets(processors));
        vec![("nodeset", near.clone()), ("complete_nodeset", near)]
    }

    /// Writes devices near the same processors: host bridges by their buses, and devices without a bus.
    fn devices(&mut self, devices: &[&Device]) -> io::Result<()> {
        let mut hosts: BTreeMap<(u32, u8), Vec<&Device>> = BTreeMap::new();
        for device in devices {
            match &device.pci {
                Some(pci) => {
                    let outermost = pci.bridges.first().unwrap_or(&pci.address);
                    let key = (outermost.domain, outermost.bus);
                    hosts.entry(key).or_default().push(device);
                }
                None => self.os_devices(device)?,
            }
        }
        for ((_, bus), below) in hosts {
            let attributes = vec![
                ("bridge_type", "0-1".into()),
                ("depth", "0".into()),
                ("bridge_pci", buses(&below, 0, Some(bus))),
            ];
            self.object("Bridge", attributes, |document| document.below_bridge(&below, 0))?;
        }
        Ok(())
    }

    /// Writes devices that have this number of bridges in common.
    fn below_bridge(&mut self, devices: &[&Device], bridges: usize) -> io::Result<()> {
        let mut inner: BTreeMap<PciAddress, Vec<&Device>> = BTreeMap::new();
        for device in devices {
            let Some(pci) = &device.pci else { continue };
            if let Some(bridge) = pci.bridges.get(bridges) {
                inner.entry(*bridge).or_default().push(device);
                continue;
            }
            let attributes = vec![
                ("pci_busid", pci.address.to_string()),
                (
                    "pci_type",
                    format!(
                        "{:04x} [{:04x}:{:04x}] [0000:0000] 00",
                        pci.class, pci.vendor, pci.device
                    ),
                ),
                ("pci_link_speed", "0.000000".into()),
            ];
            self.object("PCIDev", attributes, |document| {
                document.on_bus.insert(pci.address, document.objects);
                document.os_devices(device)
            })?;
        }
        for (bridge, below) in inner {
            let attributes = vec![
                ("bridge_type", "1-1".into()),
                ("depth", (bridges + 1).to_string()),
                ("bridge_pci", buses(&below, bridges + 1, None)),
                ("pci_busid", bridge.to_string()),
                // The model has no maker of a bridge.
                ("pci_type", "0604 [0000:0000] [0000:0000] 00".into()),
                ("pci_link_speed", "0.000000".into()),
            ];
            self.object("Bridge", attributes, |document| {
                document.below_bridge(&below, bridges + 1)
            })?;
        }
        Ok(())
    }

    /// Writes names, UUID and parts of a device.
    fn os_devices(&mut self, device: &Device) -> io::Result<()> {
        let Some((first, others)) = device.names.split_first() else {
            return self.facts(device, "part");
        };
        for (at, name) in [first].into_iter().chain(others).enumerate() {
            let kind = device.os_kind(name).number();
            let attributes = vec![("name", name.clone()), ("osdev_type", kind.to_string())];
            self.object("OSDev", attributes, |document| {
                document.address(device, name)?;
                match at {
                    0 => document.facts(device, name),
                    _ => Ok(()),
                }
            })?;
        }
        Ok(())
    }

    fn address(&mut self, device: &Device, name: &str) -> io::Result<()> {
        match device.address(name) {
            Some(NetworkAddress::Link(address)) => self.info("Address", address),
            Some(NetworkAddress::Guids { node, system }) => {
                self.info("NodeGUID", node)?;
                self.info("SysImageGUID", system)
            }
            None => Ok(()),
        }
    }

    fn facts(&mut self, device: &Device, name: &str) -> io::Result<()> {
        if let Some(uuid) = &device.uuid {
            match device.kind {
                DeviceKind::Gpu(GpuMaker::Nvidia) => self.info("NVIDIAUUID", uuid)?,
                DeviceKind::Gpu(GpuMaker::Amd) => {
                    self.info("AMDUUID", uuid.strip_prefix("GPU-").unwrap_or(uuid))?;
                }
                DeviceKind::Gpu(GpuMaker::Intel) => self.info("LevelZeroUUID", uuid)?,
                _ => self.info("UUID", uuid)?,
            }
        }
        for part in &device.parts {
            let subtypes = PARTS.iter().filter(|(_, kind)| *kind == part.kind);
            let subtype: &str = subtypes.map(|(subtype, _)| *subtype).next().unwrap_or_default();
            let name = format!("{name}.{}", part.number);
            let mut attributes =
                vec![("name", name), ("osdev_type", OsKind::Gpu.number().to_string())];
            if self.version == HwlocVersion::V2 {
                attributes.push(("subtype", subtype.into()));
            }
            self.object("OSDev", attributes, |document| {
                if document.version == HwlocVersion::V1 {
                    document.info("Type", subtype)?;
                }
                part.uuid.as_ref().map_or(Ok(()), |uuid| document.info("UUID", uuid))
            })?;
        }
        Ok(())
    }

    /// Writes the links of a kind as a matrix of the devices that have some. hwloc 1 knows none.
    fn links(&mut self, kind: MatrixKind) -> io::Result<()> {
        let links = self.hardware.links.iter();
        let values = links.filter_map(|link| Some((link.ends, kind.value(link.kind)?)));
        let values: BTreeMap<[PciAddress; 2], u64> = values.collect();
        let mut ends: Vec<PciAddress> = values.keys().copied().flatten().collect();
        ends.sort_unstable();
        ends.dedup();
        if ends.is_empty() {
            return Ok(());
        }
        let indexes = ends.iter().filter_map(|end| self.on_bus.get(end).copied()).collect();
        let value = |one: &PciAddress, other: &PciAddress| {
            let pair = [*one.min(other), *one.max(other)];
            values.get(&pair).copied().unwrap_or(0)
        };
        let cells = ends.iter().flat_map(|one| ends.iter().map(move |other| value(one, other)));
        let cells: Vec<u64> = cells.collect();
        let attributes = vec![
            ("type", "PCIDev".into()),
            ("nbobjs", ends.len().to_string()),
            ("kind", kind.number().to_string()),
            ("name", kind.name().into()),
            ("indexing", "gp".into()),
        ];
        self.element("distances2", attributes, |document| {
            document.numbers("indexes", indexes)?;
            document.numbers("u64values", cells)
        })
    }

    /// Writes numbers, and the length of their text.
    fn numbers(&mut self, name: &'static str, numbers: Vec<u64>) -> io::Result<()> {
        let text: String = numbers.iter().map(|number| format!("{number} ")).collect();
        let length = vec![("length", text.len().to_string())];
        self.element(name, length, |document| {
            document.xml.write_event(Event::Text(BytesText::from_escaped(text)))
        })
    }

    /// Kinds of cores, which hwloc 1 does not know.
    fn kinds(&mut self) -> io::Result<()> {
        let mut kinds: BTreeMap<u8, ProcessorSet> = BTreeMap::new();
        for group in &self.hardware.groups {
            if let GroupKind::Core(facts) = group.kind {
                kinds.entry(facts.efficiency).or_default().extend(&group.processors);
            }
        }
        if kinds.len() < 2 {
            return Ok(());
        }
        for (efficiency, processors) in kinds {
            let attributes =
                vec![("cpuset", processors.mask()), ("forced_efficiency", efficiency.to_string())];
            self.element("cpukind", attributes, |_| Ok(()))?;
        }
        Ok(())
    }
}

/// Buses below a bridge, as `0000:[17-19]`: of the devices, and of their bridges that are below it, too.
fn buses(devices: &[&Device], bridges: usize, first: Option<u8>) -> String {
    let below = devices.iter().filter_map(|device| device.pci.as_ref());
    let addresses: Vec<&PciAddress> =
        below.flat_map(|pci| pci.bridges.iter().skip(bridges).chain([&pci.address])).collect();
    let domain = addresses.first().map_or(0, |address| address.domain);
    let numbers = || addresses.iter().map(|address| address.bus).chain(first);
    let [first, last] = [numbers().min(), numbers().max()].map(Option::unwrap_or_default);
    format!("{domain:04x}:[{first:02x}-{last:02x}]")
}
