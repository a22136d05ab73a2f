//! Hardware of this node, as PMIx clients are told of it.
//!
//! Libraries from 4.2.3 on detect the hardware when they start, unless they find a description among the
//! values of their job: each rank reads the same hundreds of files of the system. So the launcher reads them
//! once, when the first client with such a library connects, and a run without such clients reads none.

use super::facts::{Fact, FarDevice, Known, array, kval, of_rank, own_node, packed};
use super::heap::Shared;
use crate::launch::plan::job::{NodePlacement, Plan};
use pmi_core::wire::pmix::names::{device, keys};
use pmi_host_hardware::device::{Device, DeviceKind, Fabric, NetworkAddress, PciFacts};
use pmi_host_hardware::distances::Distances;
use pmi_host_hardware::hwloc::HwlocVersion;
use pmi_host_hardware::linux::{Allowed, NoProcessors, Wanted};
use pmi_host_hardware::model::NodeHardware;
use pmi_host_hardware::processor_set::ProcessorSet;
use std::path::Path;

/// The hardware of this node, for all jobs.
#[derive(Debug)]
pub(crate) struct ToldHardware {
    hardware: NodeHardware,
    xml: String,
}

impl ToldHardware {
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
            (_, Some(NetworkAddress::Link(address))) => {
                let family = if address.matches(':').count() == 5 { "ipv4" } else { "ipv6" };
                (device::NETWORK, format!("{family}://{address}"))
            }
            (_, Some(NetworkAddress::Guids { node, system })) => {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::plan::job::tests::plan;
    use crate::launch::topology::binding::{Binding, RankCounts, allowed};
    use crate::settings::placement::{BindTo, Placement};
    use pmi_core::wire::pmix::{Format, Kval, Kvals, Type, Unpacker};
    use pmi_host_hardware::described::{machines, write_tree};
    use pmi_host_hardware::device::NamedAddress;
    use std::sync::Arc;

    fn machine(name: &str) -> NodeHardware {
        machines().find(|(other, _)| *other == name).unwrap().1.in_order()
    }

    /// A job of two ranks, both bound to the same processor of this machine, and its number.
    fn bound_job() -> (Plan, u32) {
        let mut plan = plan(&[("./a", 2)]);
        let first = allowed().unwrap()[0];
        let placement =
            Placement { bind_to: BindTo::User(vec![vec![first]]), ..Placement::default() };
        let binding = Binding::resolve(&placement, RankCounts { all: 2, local: 2 }).unwrap();
        plan.placement.binding = binding.map(Arc::new);
        (plan, first)
    }

    fn kvals(info: &Shared) -> Vec<Kval<'_>> {
        Kvals::new(info.as_ref(), Format::PLAIN).map(Result::unwrap).collect()
    }

    #[test]
    fn description_has_the_topology_the_memory_and_the_cards() {
        let mut dgx = machine("dgx-h100");
        let card = dgx.devices.iter_mut().find(|device| device.names[0] == "mlx5_0").unwrap();
        let (node, system) = ("a088:c203:0012:3456".to_owned(), "a088:c203:0012:3400".to_owned());
        let guids = NetworkAddress::Guids { node, system };
        let link = NetworkAddress::Link("00:00:10:29:fe:80".to_owned());
        card.addresses = [("mlx5_0", guids), ("ibp24s0", link)]
            .map(|(name, address)| NamedAddress { name: name.to_owned(), address })
            .to_vec();
        let memory: u64 = dgx.memories.iter().filter_map(|memory| memory.bytes).sum();
        let known = ToldHardware::new(dgx.clone());
        let info = known.describe(&plan(&[("./a", 2)])).unwrap();
        let all = kvals(&info);
        let [topology, node] = &all[..] else { panic!("ranks are not bound: {all:?}") };
        assert_eq!((topology.key, node.key), (keys::HWLOC_XML_V2, keys::NODE_ARRAY));
        let text = str::from_utf8(topology.value.text().unwrap()).unwrap();
        assert_eq!(NodeHardware::of_hwloc(text).unwrap().devices, dgx.devices);
        let node = node.value.array().unwrap();
        assert_eq!(node.find(keys::HOSTNAME).unwrap().text(), Some(&b"node1"[..]));
        assert_eq!(
            node.find(keys::AVAIL_PHYS_MEMORY).unwrap().number(),
            i64::try_from(memory).ok()
        );
        let cards = node.find(keys::FABRIC_DEVICES).unwrap().array().unwrap();
        let facts = |card: Kval<'_>| {
            let card = card.value.array().unwrap();
            let text = |key: &[u8]| {
                String::from_utf8_lossy(card.find(key).unwrap().text().unwrap()).into_owned()
            };
            [keys::DEVICE_ID, keys::FABRIC_DEVICE_TYPE, keys::FABRIC_DEVICE_PCI_DEVID].map(text)
        };
        let cards: Vec<_> =
            cards.infos().map(|info| facts(Kval { key: info.key, value: info.value })).collect();
        let place = "0000:18:00:0";
        let id = "fab://a088:c203:0012:3456::a088:c203:0012:3400";
        let expected = [id, "ipv4://00:00:10:29:fe:80"].map(|id| [id, "InfiniBand", place]);
        assert_eq!(cards, expected);
    }

    #[test]
    fn bound_ranks_are_told_how_far_gpus_are() {
        let known = ToldHardware::new(machine("dgx-h100"));
        let (plan, processor) = bound_job();
        let named = known.named("node1");
        let ranks = known.ranks(&plan, &named);
        assert_eq!(ranks.iter().map(|near| near.rank).collect::<Vec<_>>(), [0, 1]);
        for near in &ranks {
            assert_eq!(near.devices.len(), 8, "each GPU has a name for computing");
            for (far, gpu) in near.devices.iter().zip(known.hardware.gpus()) {
                assert_eq!(far.id, format!("gpu://node1::{}", gpu.names[1]));
                let nearest = near.devices.iter().map(|far| far.levels).min();
                assert_eq!(
                    Some(far.levels) == nearest,
                    gpu.near.contains(&processor),
                    "{}",
                    far.id
                );
            }
        }
        let info = known.describe(&plan).unwrap();
        let all = kvals(&info);
        let ranks = all.iter().filter(|kval| kval.key == keys::PROC_BLOB).map(|kval| {
            let mut from = Unpacker::new(kval.value.blob().unwrap(), Format::PLAIN);
            let rank = from.one(Type::PROC_RANK).unwrap().u32().unwrap();
            (rank, Kvals::after(from).map(|kval| kval.unwrap().key.to_vec()).collect::<Vec<_>>())
        });
        let keys = [keys::DEVICE_DISTANCES.to_vec()];
        assert!(ranks.eq([(0, keys.to_vec()), (1, keys.to_vec())]));
    }

    #[test]
    fn hardware_that_a_control_group_leaves_out_is_not_told() {
        let root = tempfile::tempdir().unwrap();
        write_tree(&machine("hdk-888"), root.path()).unwrap();
        std::fs::create_dir_all(root.path().join("proc/self")).unwrap();
        let status = "Cpus_allowed_list:\t2-3\nMems_allowed_list:\t0\n";
        std::fs::write(root.path().join("proc/self/status"), status).unwrap();
        let known = ToldHardware::read(root.path()).unwrap();
        let told = NodeHardware::of_hwloc(&known.xml).unwrap();
        assert_eq!(told.processors, ProcessorSet::from_iter([2, 3]));
        assert!(ToldHardware::read(Path::new("/no/such")).is_err());
    }
}
