//! Hardware of this node, as PMIx clients are told of it.
//!
//! Libraries from 4.2.3 on detect the hardware when they start unless they find a description among the values
//! of their job: each rank reads the same hundreds of files of the system. So the launcher reads them once,
//! when the first client with such a library connects, and a run without any reads none.

use super::facts::{Fact, FarDevice, Known, array, kval, of_rank, own_node, packed};
use super::heap::Shared;
use crate::launch::plan::job::{NodePlacement, Plan};
use pmi_core::wire::pmix::names::{device, keys};
use pmi_host_hardware::device::{Device, DeviceKind, Fabric, LinkAddress, PciFacts};
use pmi_host_hardware::hwloc::{Distances, HwlocVersion};
use pmi_host_hardware::linux::{Allowed, NoProcessors, Wanted};
use pmi_host_hardware::model::NodeHardware;
use pmi_host_hardware::processor_set::ProcessorSet;
use std::path::Path;

/// The hardware of this node, for all jobs.
#[derive(Debug)]
pub(crate) struct KnownHardware {
    hardware: NodeHardware,
    xml: String,
}

impl KnownHardware {
    /// Reads the hardware that this process may use from the files below `root`: what a control group leaves
    /// out, a rank would not detect either.
    ///
    /// # Errors
    ///
    /// The system lists no processors.
    pub(crate) fn read(root: &Path) -> Result<Self, NoProcessors> {
        let wanted = Wanted { devices: true, ..Wanted::HWLOC };
        let hardware = NodeHardware::of_linux(root, wanted)?;
        Ok(Self::new(hardware.within(&Allowed::of_self(root)).in_order()))
    }

    fn new(hardware: NodeHardware) -> Self {
        Self { xml: hardware.hwloc(HwlocVersion::V2), hardware }
    }

    /// Packs what the ranks of `plan` on this node are told.
    pub(crate) fn describe(&self, plan: &Plan) -> Option<Shared> {
        let node = own_node(plan);
        let host = String::from_utf8_lossy(node.name);
        let named = self.named(&host);
        let cards: Vec<Vec<Known<'_>>> = named.iter().filter_map(NamedDevice::card).collect();
        let cards: Vec<Known<'_>> =
            cards.iter().map(|card| (keys::FABRIC_DEVICE, Fact::Infos(card))).collect();
        let mut known =
            vec![(keys::HOSTNAME, Fact::Text(node.name)), (keys::NODEID, Fact::U32(node.number))];
        let memory: u64 = self.hardware.memories.iter().filter_map(|memory| memory.bytes).sum();
        if memory > 0 {
            known.push((keys::AVAIL_PHYS_MEMORY, Fact::U64(memory)));
        }
        if !cards.is_empty() {
            known.push((keys::FABRIC_DEVICES, Fact::Infos(&cards)));
        }
        let ranks = self.ranks(plan, &named);
        packed(|to| {
            kval((keys::HWLOC_XML_V2, Fact::Text(self.xml.as_bytes())), to);
            array(keys::NODE_ARRAY, &known, to);
            for NearRank { rank, devices } in &ranks {
                let distances = (keys::DEVICE_DISTANCES, Fact::Distances(devices));
                of_rank(*rank, std::iter::once(distances), to);
            }
        })
    }

    /// The names of GPUs and network cards by which clients know them.
    fn named(&self, host: &str) -> Vec<NamedDevice<'_>> {
        let names = self.hardware.devices.iter().flat_map(|device| {
            device.names.iter().filter_map(|name| NamedDevice::new(device, name, host))
        });
        names.collect()
    }

    /// Ranks of this node that are bound, with the devices by their distances.
    fn ranks<'a>(&'a self, plan: &Plan, named: &'a [NamedDevice<'a>]) -> Vec<NearRank<'a>> {
        let NodePlacement { ranks, binding, .. } = &plan.placement;
        let Some(binding) = binding.as_ref().filter(|_| !named.is_empty()) else {
            return Vec::new();
        };
        let distances = Distances::new(&self.hardware);
        let near = |rank| {
            let processors = binding.of(plan.local_rank(rank)?).iter().copied();
            let distances = distances.of(&processors.collect::<ProcessorSet>());
            let devices = named.iter().filter_map(|named| {
                let far = distances.iter().find(|far| std::ptr::eq(far.device, named.device))?;
                let NamedDevice { id, name, kind, .. } = named;
                Some(FarDevice { id, name, kind: *kind, levels: far.levels })
            });
            let devices: Vec<FarDevice<'_>> = devices.collect();
            (!devices.is_empty()).then_some(NearRank { rank, devices })
        };
        ranks.iter().filter_map(near).collect()
    }
}

/// A rank, with the devices by their distances.
struct NearRank<'a> {
    rank: u32,
    devices: Vec<FarDevice<'a>>,
}

/// A device by one of its names.
struct NamedDevice<'a> {
    device: &'a Device,
    name: &'a str,
    /// Name of the device on all nodes, in the form of the standard.
    id: String,
    /// Kind, one of [`device`].
    kind: u64,
    /// Place on the PCI bus, in four parts.
    place: Option<String>,
}

impl<'a> NamedDevice<'a> {
    /// `None` for names that clients do not know.
    fn new(device: &'a Device, name: &'a str, host: &str) -> Option<Self> {
        let (kind, id) = match (device.kind, device.address(name)) {
            (_, Some(LinkAddress::Link(address))) => {
                let family = if address.matches(':').count() == 5 { "ipv4" } else { "ipv6" };
                (device::NETWORK, format!("{family}://{address}"))
            }
            (_, Some(LinkAddress::Guids { node, system })) => {
                (device::OPENFABRICS, format!("fab://{node}::{system}"))
            }
            // The name of the screen of a GPU, beside that for computing.
            (DeviceKind::Gpu(_), None) if !name.starts_with("card") => {
                (device::GPU, format!("gpu://{host}::{name}"))
            }
            _ => return None,
        };
        let place = |pci: &PciFacts| pci.address.to_string().replace('.', ":");
        Some(Self { device, name, id, kind, place: device.pci.as_ref().map(place) })
    }

    /// What clients are told of a network card, its id first.
    fn card(&self) -> Option<Vec<Known<'_>>> {
        let DeviceKind::Network(fabric) = self.device.kind else { return None };
        let network: &[u8] = match fabric {
            Fabric::InfiniBand => b"InfiniBand",
            Fabric::Slingshot => b"Slingshot",
            Fabric::Efa => b"EFA",
            Fabric::OmniPath => b"Omni-Path",
            Fabric::Ethernet => b"Ethernet",
        };
        let address = self.device.address(self.name)?.texts().next()?;
        let mut known = vec![
            (keys::DEVICE_ID, Fact::Text(self.id.as_bytes())),
            (keys::FABRIC_DEVICE_NAME, Fact::Text(self.name.as_bytes())),
            (keys::FABRIC_DEVICE_ADDRESS, Fact::Text(address.as_bytes())),
            (keys::FABRIC_DEVICE_TYPE, Fact::Text(network)),
        ];
        if let Some(place) = &self.place {
            known.push((keys::FABRIC_DEVICE_BUS_TYPE, Fact::Text(b"PCI")));
            known.push((keys::FABRIC_DEVICE_PCI_DEVID, Fact::Text(place.as_bytes())));
        }
        Some(known)
    }
}
