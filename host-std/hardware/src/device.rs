//! Devices of a node: GPUs, network cards and storage.

use crate::processor_set::ProcessorSet;
use std::fmt;
use std::str::FromStr;

/// A device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Kind of the device.
    pub kind: DeviceKind,
    /// Names by which the system and libraries know it, as `card0`, `renderD128`, `mlx5_0` or `nvme0n1`; the
    /// most telling one first.
    pub names: Vec<String>,
    /// Name by which libraries know it on every host, as `GPU-8b9c…`.
    pub uuid: Option<String>,
    /// Place on the PCI bus, and what is stated there.
    pub pci: Option<PciFacts>,
    /// Processors near it; none if the system does not say.
    pub near: ProcessorSet,
    /// Number of the memory domain near it.
    pub memory: Option<u32>,
    /// Addresses of a network card, in the order of the names that have one.
    pub addresses: Vec<NamedAddress>,
    /// Parts that can be used alone, in the order of their numbers.
    pub parts: Vec<DevicePart>,
}

/// What a network calls a card by one of its names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedAddress {
    /// Name of the card in the system.
    pub name: String,
    /// Address behind that name.
    pub address: NetworkAddress,
}

/// Address of a network card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkAddress {
    /// Address on the link, as `02:fc:00:00:00:01`.
    Link(String),
    /// Numbers by which InfiniBand knows a card.
    Guids {
        /// Number of the port's node, as `9803:9b03:00ab:cdef`.
        node: String,
        /// Number of the card, which several nodes may share.
        system: String,
    },
}

impl NetworkAddress {
    /// Its texts.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let (first, second) = match self {
            Self::Link(address) => (address, None),
            Self::Guids { node, system } => (node, Some(system)),
        };
        [first].into_iter().chain(second).map(String::as_str)
    }
}

/// Kind of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeviceKind {
    /// A GPU, or another accelerator.
    Gpu(GpuMaker),
    /// A network card.
    Network(Fabric),
    /// A block device.
    Storage,
}

/// Maker of a GPU, whose libraries have variables of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GpuMaker {
    /// NVIDIA.
    Nvidia,
    /// AMD.
    Amd,
    /// Intel.
    Intel,
    /// Another one.
    Other,
}

/// Kind of a name of a device, as hwloc distinguishes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OsKind {
    /// Block device.
    Block,
    /// GPU as a driver of screens names it.
    Gpu,
    /// Network link.
    Link,
    /// Network card for verbs.
    Verbs,
    /// GPU as a library for programs numbers it.
    Coprocessor,
}

/// Network of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fabric {
    /// InfiniBand, and RoCE by its verbs.
    InfiniBand,
    /// HPE Slingshot.
    Slingshot,
    /// Elastic Fabric Adapter.
    Efa,
    /// Omni-Path.
    OmniPath,
    /// Ethernet.
    Ethernet,
}

impl DeviceKind {
    /// Kind of a device on the PCI bus with these names in the system; `None` for bridges, controllers
    /// without disks, consoles of service processors, and all else on which no rank depends.
    pub fn of_pci(facts: &PciFacts, names: &[String]) -> Option<Self> {
        const CONSOLE: u16 = 0x0300;
        const NVME: u16 = 0x0108;
        let maker = match facts.vendor {
            0x10de => GpuMaker::Nvidia,
            0x1002 => GpuMaker::Amd,
            0x8086 => GpuMaker::Intel,
            _ => GpuMaker::Other,
        };
        match facts.class >> 8 {
            // Service processors have consoles of other makers.
            0x03 if facts.class != CONSOLE || maker != GpuMaker::Other => Some(Self::Gpu(maker)),
            // Processing accelerators.
            0x12 => Some(Self::Gpu(maker)),
            0x02 => Some(Self::Network(Fabric::of_pci(facts, names))),
            0x01 if facts.class == NVME || !names.is_empty() => Some(Self::Storage),
            _ => None,
        }
    }
}

impl Device {
    /// Address of the card by one of its names.
    pub fn address(&self, name: &str) -> Option<&NetworkAddress> {
        self.addresses.iter().find(|one| one.name == name).map(|one| &one.address)
    }
}

impl Fabric {
    fn of_pci(facts: &PciFacts, names: &[String]) -> Self {
        match (facts.vendor, facts.device, facts.class) {
            // Cray, and HPE.
            (0x17db, ..) | (0x1590, 0x0371, _) => Self::Slingshot,
            (0x1d0f, 0xefa0..=0xefaf, _) => Self::Efa,
            // Cornelis, and Intel before it.
            (0x434e, ..) | (0x8086, 0x24f0..=0x24f1, _) => Self::OmniPath,
            (_, _, 0x0207) => Self::InfiniBand,
            _ => Self::of_names(names.iter().map(String::as_str)),
        }
    }

    /// Network of a card by its names in the system.
    pub fn of_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        const PREFIXES: [(&str, Fabric); 8] = [
            ("cxi", Fabric::Slingshot),
            ("hfi1_", Fabric::OmniPath),
            ("mlx4_", Fabric::InfiniBand),
            ("mlx5_", Fabric::InfiniBand),
            ("bnxt_re", Fabric::InfiniBand),
            ("irdma", Fabric::InfiniBand),
            ("roce", Fabric::InfiniBand),
            ("ib", Fabric::InfiniBand),
        ];
        let of_name = |name: &str| {
            PREFIXES.iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, fabric)| *fabric)
        };
        names.into_iter().find_map(of_name).unwrap_or(Self::Ethernet)
    }
}

/// Part of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevicePart {
    /// Number of the part within the device.
    pub number: u32,
    /// Kind of the part.
    pub kind: PartKind,
    /// Name by which libraries know it, as `MIG-…`.
    pub uuid: Option<String>,
}

/// Kind of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartKind {
    /// Instance of a GPU of NVIDIA (MIG).
    Mig,
    /// Tile of a GPU of Intel.
    Tile,
    /// Partition of a GPU of AMD.
    Partition,
}

/// Link between two GPUs beside the PCI bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceLink {
    /// Addresses of the GPUs, the smaller one first.
    pub ends: [PciAddress; 2],
    /// Kind of the link.
    pub kind: LinkKind,
}

/// Kind of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// NVLink, also by a switch.
    NvLink {
        /// Number of links side by side.
        count: u32,
    },
    /// xGMI of AMD, also over other GPUs.
    Xgmi {
        /// Cost as the driver states it: 15 for each GPU to the next one.
        weight: u32,
    },
}

impl DeviceLink {
    /// A link between two GPUs in any order.
    pub fn new(one: PciAddress, other: PciAddress, kind: LinkKind) -> Self {
        Self { ends: [one.min(other), one.max(other)], kind }
    }
}

/// Place of a device on the PCI bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PciFacts {
    /// Address.
    pub address: PciAddress,
    /// Class and subclass, as `0x0302`.
    pub class: u16,
    /// Number of the maker.
    pub vendor: u16,
    /// Number of the device with its maker.
    pub device: u16,
    /// Bridges above it, the outermost first.
    pub bridges: Vec<PciAddress>,
}

/// Address of a function on the PCI bus. Printed as `0000:3b:00.0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciAddress {
    /// Domain.
    pub domain: u32,
    /// Bus.
    pub bus: u8,
    /// Slot, up to 31.
    pub slot: u8,
    /// Function, up to 7.
    pub function: u8,
}

/// Text that is no address of PCI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no address of PCI, as '0000:3b:00.0'")]
pub struct NotAnAddress;

impl FromStr for PciAddress {
    type Err = NotAnAddress;

    fn from_str(text: &str) -> Result<Self, NotAnAddress> {
        let parse = || {
            let (domain, rest) = text.split_once(':')?;
            let (bus, rest) = rest.split_once(':')?;
            let (slot, function) = rest.split_once('.')?;
            let is_number = |digits: &&str| {
                (1..=8).contains(&digits.len()) && digits.bytes().all(|one| one.is_ascii_hexdigit())
            };
            let number =
                |digits: &str| u32::from_str_radix(Some(digits).filter(is_number)?, 16).ok();
            let byte = |digits: &str| u8::try_from(number(digits)?).ok();
            let address = Self {
                domain: number(domain)?,
                bus: byte(bus)?,
                slot: byte(slot).filter(|slot| *slot < 32)?,
                function: byte(function).filter(|function| *function < 8)?,
            };
            Some(address)
        };
        parse().ok_or(NotAnAddress)
    }
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, bus, slot, function } = self;
        write!(f, "{domain:04x}:{bus:02x}:{slot:02x}.{function:x}")
    }
}

impl Device {
    /// Name for people: the first one, else the address.
    pub fn name(&self) -> String {
        let by_address = || self.pci.as_ref().map(|pci| pci.address.to_string());
        self.names.first().cloned().or_else(by_address).unwrap_or_default()
    }

    /// What the device is by one of its names: a card has names as a link and for verbs, a GPU in the system
    /// and in libraries.
    pub fn os_kind(&self, name: &str) -> OsKind {
        let has_prefix = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
        match self.kind {
            DeviceKind::Storage => OsKind::Block,
            DeviceKind::Network(_) if has_prefix(&OF_VERBS) => OsKind::Verbs,
            DeviceKind::Network(_) => OsKind::Link,
            DeviceKind::Gpu(_) if has_prefix(&OF_LIBRARIES) => OsKind::Coprocessor,
            DeviceKind::Gpu(_) => OsKind::Gpu,
        }
    }

    /// True for a GPU.
    pub const fn is_gpu(&self) -> bool {
        matches!(self.kind, DeviceKind::Gpu(_))
    }
}

impl OsKind {
    /// Number in XML of hwloc.
    pub const fn number(self) -> u64 {
        match self {
            Self::Block => 0,
            Self::Gpu => 1,
            Self::Link => 2,
            Self::Verbs => 3,
            Self::Coprocessor => 5,
        }
    }

    /// Kind with a number in XML of hwloc; `None` for kinds on which no rank depends.
    pub fn of_number(number: u64) -> Option<Self> {
        let all = [Self::Block, Self::Gpu, Self::Link, Self::Verbs, Self::Coprocessor];
        all.into_iter().find(|kind| kind.number() == number)
    }
}

impl fmt::Display for OsKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Block => "Block",
            Self::Gpu => "GPU",
            Self::Link => "Net",
            Self::Verbs => "OpenFabrics",
            Self::Coprocessor => "CoProc",
        })
    }
}

/// Beginnings of the names of network cards for verbs, and of Slingshot's.
const OF_VERBS: [&str; 8] = ["cxi", "mlx4_", "mlx5_", "hfi1_", "rdmap", "irdma", "roce", "bnxt_re"];
/// Beginnings of the names of GPUs in libraries.
const OF_LIBRARIES: [&str; 4] = ["cuda", "opencl", "ze", "hip"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_printed() {
        for text in ["0000:3b:00.0", "10000:ff:1f.7", "0001:00:02.1"] {
            assert_eq!(text.parse::<PciAddress>().map(|one| one.to_string()), Ok(text.into()));
        }
        let wrong = ["", "0000:3b:00", "3b:00.0", "0000:3b:20.0", "0000:3b:00.8", "0000:100:00.0"];
        for wrong in wrong.into_iter().chain(["0000:+b:00.0", "0:0:0.", "123456789:00:00.0"]) {
            assert_eq!(wrong.parse::<PciAddress>(), Err(NotAnAddress), "{wrong}");
        }
    }
}
