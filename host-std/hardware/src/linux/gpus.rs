//! What drivers say about their GPUs beside the PCI bus: numbers of device files, UUIDs and partitions.

use super::{SystemFiles, number_behind};
use crate::device::{
    Device, DeviceKind, DeviceLink, DevicePart, GpuMaker, LinkKind, PartKind, PciAddress,
};
use std::collections::BTreeMap;

/// Adds the facts of the drivers of NVIDIA and AMD.
pub(super) fn add_facts(files: &SystemFiles<'_>, devices: &mut [Device]) {
    let has = |devices: &[Device], maker| {
        devices.iter().any(|device| device.kind == DeviceKind::Gpu(maker))
    };
    if has(devices, GpuMaker::Nvidia) {
        for name in files.names(NVIDIA) {
            let device = name.parse().ok().and_then(|address| at(devices, address));
            if let Some(device) = device
                && let Some(facts) = NvidiaFacts::read(files, &name)
            {
                device.parts = facts.instances(files);
                device.uuid = facts.uuid;
            }
        }
    }
    if has(devices, GpuMaker::Amd) {
        for device in devices.iter_mut().filter(|gpu| gpu.kind == DeviceKind::Gpu(GpuMaker::Amd)) {
            let address = device.pci.as_ref().map(|pci| pci.address.to_string());
            let path = format!("sys/bus/pci/devices/{}/unique_id", address.unwrap_or_default());
            device.uuid =
                files.text(&path).and_then(|id| amd_uuid(u64::from_str_radix(&id, 16).ok()?));
        }
        for name in files.names(KFD) {
            if let Some(node) = KfdNode::read(files, &name) {
                node.add_to(devices);
            }
        }
        for device in devices.iter_mut().filter(|device| device.parts.len() == 1) {
            device.parts.retain(|part| part.kind != PartKind::Partition);
        }
    }
}

/// Links by xGMI between GPUs of AMD, which partitions of a GPU share.
pub(super) fn links(files: &SystemFiles<'_>) -> Vec<DeviceLink> {
    let names = files.names(KFD);
    let gpus = names.iter().filter_map(|name| {
        let number = name.parse::<u64>().ok()?;
        Some((number, KfdNode::read(files, name)?.address()))
    });
    let gpus: BTreeMap<u64, PciAddress> = gpus.collect();
    let mut links = Vec::new();
    for (number, address) in &gpus {
        for link in files.names(&format!("{KFD}/{number}/io_links")) {
            let text = files.text(&format!("{KFD}/{number}/io_links/{link}/properties"));
            let properties = Properties(text.unwrap_or_default());
            let to = properties.number("node_to").and_then(|to| gpus.get(&to));
            let (Some(XGMI), Some(to)) = (properties.number("type"), to) else { continue };
            let weight = properties.number("weight").and_then(|one| u32::try_from(one).ok());
            let kind = LinkKind::Xgmi { weight: weight.unwrap_or(0) };
            if to != address {
                links.push(DeviceLink::new(*address, *to, kind));
            }
        }
    }
    links
}

fn at(devices: &mut [Device], address: PciAddress) -> Option<&mut Device> {
    let is_meant = |device: &Device| device.pci.as_ref().is_some_and(|pci| pci.address == address);
    devices.iter_mut().find(|device| is_meant(device))
}

/// What the driver of NVIDIA says about a GPU.
pub(super) struct NvidiaFacts {
    uuid: Option<String>,
    /// Number of its device file.
    pub(super) minor: Option<u32>,
}

impl NvidiaFacts {
    /// Reads the facts of the GPU at an address, lines with a name, a colon and a value.
    pub(super) fn read(files: &SystemFiles<'_>, address: &str) -> Option<Self> {
        let text = files.text(&format!("{NVIDIA}/{address}/information"))?;
        let value = |wanted: &str| {
            let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
            pairs.find(|(name, _)| name.trim() == wanted).map(|(_, value)| value.trim())
        };
        // The UUID has question marks until the driver has opened the GPU for the first time.
        let uuid = value("GPU UUID").filter(|uuid| uuid.starts_with("GPU-") && !uuid.contains('?'));
        let minor = value("Device Minor").and_then(|minor| minor.parse().ok());
        Some(Self { uuid: uuid.map(str::to_owned), minor })
    }

    /// MIG instances, whose UUIDs only a library knows.
    fn instances(&self, files: &SystemFiles<'_>) -> Vec<DevicePart> {
        let Some(minor) = self.minor else { return Vec::new() };
        let directory = format!("{CAPABILITIES}/gpu{minor}/mig");
        let instances = files.names(&directory).into_iter();
        let instances = instances.filter(|name| number_behind("gi", name).is_some());
        let parts = instances.flat_map(|name| files.names(&format!("{directory}/{name}")));
        let parts = parts.filter(|name| number_behind("ci", name).is_some());
        let part = |(number, _)| DevicePart { number, kind: PartKind::Mig, uuid: None };
        (0..).zip(parts).map(part).collect()
    }
}

/// A GPU, or a partition of one, as the compute driver of AMD lists it.
struct KfdNode {
    domain: u32,
    bus: u8,
    slot: u8,
    unique_id: u64,
}

/// Text of a file `properties`: lines with a name and a number.
struct Properties(String);

impl Properties {
    fn number(&self, wanted: &str) -> Option<u64> {
        let mut pairs = self.0.lines().filter_map(|line| line.split_once(' '));
        pairs.find(|(name, _)| *name == wanted)?.1.trim().parse().ok()
    }
}

impl KfdNode {
    /// Reads a node. `None` for processors.
    fn read(files: &SystemFiles<'_>, name: &str) -> Option<Self> {
        let properties = Properties(files.text(&format!("{KFD}/{name}/properties"))?);
        properties.number("simd_count").filter(|simds| *simds > 0)?;
        // Bits 3 to 15 are slot and bus. The number of a partition is in the bits of the function, or above
        // bit 27: it depends on the version of the driver.
        let location = properties.number("location_id")?;
        let domain = properties.number("domain").and_then(|domain| u32::try_from(domain).ok());
        Some(Self {
            domain: domain.unwrap_or(0),
            bus: u8::try_from(location >> 8 & 0xff).ok()?,
            slot: u8::try_from(location >> 3 & 0x1f).ok()?,
            unique_id: properties.number("unique_id").unwrap_or(0),
        })
    }

    /// Address of the GPU, whose function is the first one.
    const fn address(&self) -> PciAddress {
        PciAddress { domain: self.domain, bus: self.bus, slot: self.slot, function: 0 }
    }

    fn add_to(&self, devices: &mut [Device]) {
        let is_meant = |device: &&mut Device| {
            let is_there = |address: PciAddress| {
                (address.domain, address.bus, address.slot) == (self.domain, self.bus, self.slot)
            };
            device.kind == DeviceKind::Gpu(GpuMaker::Amd)
                && device.pci.as_ref().is_some_and(|pci| is_there(pci.address))
        };
        if let Some(device) = devices.iter_mut().find(is_meant) {
            let number = u32::try_from(device.parts.len()).unwrap_or(u32::MAX);
            let uuid = amd_uuid(self.unique_id);
            device.parts.push(DevicePart { number, kind: PartKind::Partition, uuid });
        }
    }
}

/// A UUID in the form that `ROCR_VISIBLE_DEVICES` has. 0 stands for none.
fn amd_uuid(unique_id: u64) -> Option<String> {
    (unique_id != 0).then(|| format!("GPU-{unique_id:016x}"))
}

const NVIDIA: &str = "proc/driver/nvidia/gpus";
const CAPABILITIES: &str = "proc/driver/nvidia/capabilities";
/// Type of a link, as in the kernel's `CRAT_IOLINK_TYPE_XGMI`.
const XGMI: u64 = 11;
const KFD: &str = "sys/class/kfd/kfd/topology/nodes";
