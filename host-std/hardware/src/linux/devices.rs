//! Functions on the PCI bus that are GPUs, network cards or storage, from `/sys/bus/pci/devices`.

use super::{SystemFiles, gpus, number_behind};
use crate::device::{
    Device, DeviceKind, DevicePart, Fabric, GpuMaker, NamedAddress, NetworkAddress, PartKind,
    PciAddress, PciFacts,
};
use crate::processor_set::ProcessorSet;
use std::path::Path;

/// Reads the devices of a machine with these processors, in the order of their addresses.
pub(super) fn read(files: &SystemFiles<'_>, processors: &ProcessorSet) -> Vec<Device> {
    let names = files.names(PCI);
    let mut addresses: Vec<(PciAddress, &str)> =
        names.iter().filter_map(|name| Some((name.parse().ok()?, name.as_str()))).collect();
    addresses.sort_unstable();
    let functions = addresses.into_iter();
    let functions = functions.filter_map(|(address, name)| Function::read(files, address, name));
    let mut devices: Vec<Device> =
        functions.filter_map(|function| function.device(processors)).collect();
    gpus::add_facts(files, &mut devices);
    devices.extend(onboard(files));
    for device in &mut devices {
        device.addresses = network_addresses(files, device);
    }
    devices
}

/// A function on the PCI bus.
struct Function<'a> {
    files: &'a SystemFiles<'a>,
    directory: String,
    pci: PciFacts,
}

impl<'a> Function<'a> {
    /// Reads a function of a class that is meant; one file for others.
    fn read(files: &'a SystemFiles<'a>, address: PciAddress, name: &str) -> Option<Self> {
        let directory = format!("{PCI}/{name}");
        let class = files.hexadecimal(&format!("{directory}/class"))?;
        let class = u16::try_from(class >> 8).ok()?;
        if !matches!(class >> 8, STORAGE | NETWORK | DISPLAY | ACCELERATOR) {
            return None;
        }
        let number = |file: &str| {
            let number = files.hexadecimal(&format!("{directory}/{file}"));
            number.and_then(|number| u16::try_from(number).ok()).unwrap_or(0)
        };
        let (vendor, device) = (number("vendor"), number("device"));
        let bridges = files.link(&directory).map(|path| bridges(&path)).unwrap_or_default();
        let pci = PciFacts { address, class, vendor, device, bridges };
        Some(Self { files, directory, pci })
    }

    fn device(&self, processors: &ProcessorSet) -> Option<Device> {
        let names = match self.pci.class >> 8 {
            STORAGE => self.storage_names(),
            NETWORK => self.network_names(),
            _ => self.below("drm"),
        };
        let kind = DeviceKind::of_pci(&self.pci, &names)?;
        let near = self.files.set(&format!("{}/local_cpulist", self.directory));
        Some(Device {
            kind,
            names,
            uuid: None,
            near: near.unwrap_or_default().and(processors),
            memory: None,
            addresses: Vec::new(),
            parts: match kind {
                DeviceKind::Gpu(GpuMaker::Intel) => self.tiles(),
                _ => Vec::new(),
            },
            pci: Some(self.pci.clone()),
        })
    }

    /// Names in a directory of the function.
    fn below(&self, directory: &str) -> Vec<String> {
        let names = self.files.names(&format!("{}/{directory}", self.directory));
        // A directory of names has files of the kernel beside them in some versions.
        names.into_iter().filter(|name| !["uevent", "power"].contains(&name.as_str())).collect()
    }

    /// Devices behind the function that a driver has added, as `virtio2`.
    fn below_virtio(&self, directory: &str) -> Vec<String> {
        if self.pci.vendor != VIRTIO {
            return Vec::new();
        }
        let all = self.below(".").into_iter();
        let virtio = all.filter(|name| number_behind("virtio", name).is_some());
        virtio.flat_map(|name| self.below(&format!("{name}/{directory}"))).collect()
    }

    /// Names by which libraries of fabrics know a card, and its links.
    fn network_names(&self) -> Vec<String> {
        let fabric = [self.below("infiniband"), self.below("cxi")].concat();
        [fabric, self.below("net"), self.below_virtio("net")].concat()
    }

    /// Block devices.
    fn storage_names(&self) -> Vec<String> {
        let controllers = self.below("nvme");
        let namespaces = controllers.iter().flat_map(|controller| {
            let all = self.below(&format!("nvme/{controller}")).into_iter();
            all.filter_map(|name| namespace(controller, &name))
        });
        namespaces.chain(self.below_virtio("block")).collect()
    }

    /// Tiles of a GPU of Intel, if there are several: directories `tileN` of the driver `xe`, or for GPUs
    /// without a screen `gt/gtN` of `i915`, which lists engines for media there on others.
    fn tiles(&self) -> Vec<DevicePart> {
        let count = |names: Vec<String>, prefix| {
            let numbers = names.iter().filter_map(|name| number_behind(prefix, name));
            numbers.count()
        };
        let mut tiles = count(self.below("."), "tile");
        if tiles == 0 && self.pci.class == DISPLAY_OTHER {
            let cards = self.below("drm").into_iter();
            let cards = cards.filter(|name| number_behind("card", name).is_some());
            let of_card = |card| count(self.below(&format!("drm/{card}/gt")), "gt");
            tiles = cards.map(of_card).max().unwrap_or(0);
        }
        let part = |number| DevicePart { number, kind: PartKind::Tile, uuid: None };
        let tiles = u32::try_from(tiles).unwrap_or(0);
        (0..tiles).filter(|_| tiles > 1).map(part).collect()
    }
}

/// Addresses of a network card, by its names.
fn network_addresses(files: &SystemFiles<'_>, device: &Device) -> Vec<NamedAddress> {
    let DeviceKind::Network(_) = device.kind else { return Vec::new() };
    let fact = |path: String| files.text(&path).filter(|text| !text.is_empty());
    let address = |name: &String| {
        let guid = |file| fact(format!("sys/class/infiniband/{name}/{file}"));
        let guids = || {
            let (node, system) = guid("node_guid").zip(guid("sys_image_guid"))?;
            Some(NetworkAddress::Guids { node, system })
        };
        let link = fact(format!("sys/class/net/{name}/address")).map(NetworkAddress::Link);
        let address = link.or_else(guids)?;
        Some(NamedAddress { name: name.clone(), address })
    };
    device.names.iter().filter_map(address).collect()
}

/// Network links and block devices that are not on the PCI bus, as on a board.
fn onboard(files: &SystemFiles<'_>) -> Vec<Device> {
    let classes = [("net", DeviceKind::Network(Fabric::Ethernet)), ("block", DeviceKind::Storage)];
    let of_class = |(class, kind): (&str, DeviceKind)| {
        let names = files.names(&format!("sys/class/{class}")).into_iter();
        let is_onboard = |name: &String| {
            let path = files.link(&format!("sys/class/{class}/{name}")).unwrap_or_default();
            let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
            let is_on_bus = parts.iter().any(|part| part.parse::<PciAddress>().is_ok());
            // The parent of a partition is its disk.
            let parent = parts.iter().rev().nth(1).copied().unwrap_or_default();
            let is_whole = parent == class || number_behind("nvme", parent).is_some();
            !is_on_bus && is_whole && !parts.contains(&"virtual")
        };
        let device = move |name| Device {
            kind,
            names: vec![name],
            uuid: None,
            pci: None,
            near: ProcessorSet::default(),
            memory: None,
            addresses: Vec::new(),
            parts: Vec::new(),
        };
        names.filter(is_onboard).map(device).collect::<Vec<_>>()
    };
    classes.into_iter().flat_map(of_class).collect()
}

/// Bridges in the path of a link, as `../../../devices/pci0000:00/0000:00:01.0/0000:01:00.0`, whose last part
/// is the function itself.
fn bridges(path: &Path) -> Vec<PciAddress> {
    let parts = path.iter().filter_map(|part| part.to_str());
    let mut addresses: Vec<PciAddress> = parts.filter_map(|part| part.parse().ok()).collect();
    addresses.pop();
    addresses
}

/// Name of a namespace of a controller, as `nvme0n1`. Where several controllers may share it, the directory
/// of each has a path to it, as `nvme0c1n1`.
fn namespace(controller: &str, name: &str) -> Option<String> {
    let rest = name.strip_prefix("nvme")?;
    let (subsystem, number) = rest.rsplit_once('n')?;
    number.parse::<u32>().ok()?;
    match subsystem.split_once('c') {
        Some((subsystem, path)) => {
            path.parse::<u32>().ok()?;
            Some(format!("nvme{subsystem}n{number}"))
        }
        None => name.starts_with(controller).then(|| name.to_owned()),
    }
}

const PCI: &str = "sys/bus/pci/devices";

/// Classes.
const STORAGE: u16 = 0x01;
const NETWORK: u16 = 0x02;
const DISPLAY: u16 = 0x03;
const ACCELERATOR: u16 = 0x12;

/// Class of GPUs without a screen, with the subclass.
const DISPLAY_OTHER: u16 = 0x0380;

/// Maker of devices of virtual machines.
const VIRTIO: u16 = 0x1af4;

#[cfg(test)]
mod tests {
    use super::super::tests::{set, tree};
    use super::*;

    /// Files of a function: `CLASS VENDOR DEVICE PROCESSORS`, and a link to it.
    fn function(path: &str, facts: &str) -> Vec<(String, String)> {
        let address = path.rsplit('/').next().unwrap();
        let names = ["class", "vendor", "device", "local_cpulist"];
        let files = names.iter().zip(facts.split(' '));
        let files = files.map(|(name, text)| (format!("sys/devices/{path}/{name}"), text.into()));
        let link = (format!("{PCI}/{address}"), format!("-> ../../../devices/{path}"));
        files.chain([link]).collect()
    }

    fn read_files(files: &[(String, String)]) -> Vec<Device> {
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), &**text)).collect();
        let root = tree(&files);
        read(&SystemFiles { root: root.path() }, &set("0-15"))
    }

    /// The only device with these facts and these files in its directory.
    fn device(facts: &str, more: &[(&str, &str)]) -> Device {
        let path = "pci0000:00/0000:00:01.0/0000:3b:00.0";
        let more = more.iter().map(|(file, text)| match file.strip_prefix('/') {
            Some(file) => (file.to_owned(), (*text).to_owned()),
            None => (format!("sys/devices/{path}/{file}"), (*text).to_owned()),
        });
        let mut devices =
            read_files(&function(path, facts).into_iter().chain(more).collect::<Vec<_>>());
        assert_eq!(devices.len(), 1, "{facts}");
        devices.remove(0)
    }

    #[test]
    fn functions_of_other_classes_are_no_devices() {
        let bridge = function("pci0000:00/0000:00:00.0", "0x060000 0x8086 0x0d57 0-1");
        let broken = [(format!("{PCI}/x/class"), "0x030000".into())];
        let disk = function("pci0000:00/0000:00:02.0", "0x010601 0x8086 0xa102 0-1");
        assert_eq!(read_files(&[bridge, broken.to_vec(), disk].concat()), []);
    }

    #[test]
    fn device_has_its_place_and_its_bridges() {
        let gpu = device("0x030200 0x10de 0x2330 8-15,99", &[]);
        assert_eq!((gpu.kind, gpu.near), (DeviceKind::Gpu(GpuMaker::Nvidia), set("8-15")));
        let pci = gpu.pci.unwrap();
        assert_eq!((pci.class, pci.vendor, pci.device), (0x0302, 0x10de, 0x2330));
        assert_eq!(pci.address.to_string(), "0000:3b:00.0");
        assert_eq!(pci.bridges, ["0000:00:01.0".parse().unwrap()]);
        let unknown = device("0x120000 0x1e52 0x401e 0-1", &[]);
        assert_eq!(unknown.kind, DeviceKind::Gpu(GpuMaker::Other));
    }

    #[test]
    fn devices_are_in_the_order_of_their_addresses() {
        let one = |path| function(path, "0x030000 0x1002 0x74a1 0");
        let files = [one("a/10000:01:00.0"), one("b/0000:b0:00.0"), one("c/0000:0c:00.0")].concat();
        let addresses: Vec<String> = read_files(&files)
            .iter()
            .map(|device| device.pci.as_ref().unwrap().address.to_string())
            .collect();
        assert_eq!(addresses, ["0000:0c:00.0", "0000:b0:00.0", "10000:01:00.0"]);
    }

    #[test]
    fn gpus_of_nvidia_have_minor_numbers_and_uuids() {
        let information = "/proc/driver/nvidia/gpus/0000:3b:00.0/information";
        let with = |text| {
            device(
                "0x030200 0x10de 0x20b0 0",
                &[
                    ("drm/card1/dev", "226:1"),
                    ("drm/renderD128/dev", "226:128"),
                    (information, text),
                ],
            )
        };
        let text = "Model: \t\t A100\nIRQ:   \t\t 92\nGPU UUID: \t GPU-5c89852c-d268-c3f3-1b07-005d5ae1dc3f\n\
                    Bus Location: \t 0000:3b:00.0\nDevice Minor: \t 2\nGPU Excluded:\t No\n";
        let gpu = with(text);
        assert_eq!(gpu.names, ["card1", "renderD128"]);
        assert_eq!(gpu.uuid.as_deref(), Some("GPU-5c89852c-d268-c3f3-1b07-005d5ae1dc3f"));
        let unknown = with("GPU UUID: \t GPU-????????-????-????-????-????????????\n");
        assert_eq!((unknown.uuid, unknown.parts), (None, Vec::new()));
    }

    #[test]
    fn gpus_of_amd_have_ids_and_partitions() {
        let node = |number, location: u32, id: u64| {
            let path = format!("/sys/class/kfd/kfd/topology/nodes/{number}/properties");
            (
                path,
                format!(
                    "cpu_cores_count 0\nsimd_count 304\nlocation_id {location}\ndomain 0\nunique_id {id}\n"
                ),
            )
        };
        let with = |nodes: &[(String, String)]| {
            let processors = "/sys/class/kfd/kfd/topology/nodes/0/properties";
            let mut files = vec![
                ("unique_id", "db2fc7f3a1b2c3d4\n"),
                (processors, "cpu_cores_count 96\nsimd_count 0\n"),
            ];
            files.extend(nodes.iter().map(|(path, text)| (path.as_str(), text.as_str())));
            device("0x120000 0x1002 0x74a1 0", &files)
        };
        let one = with(&[node(1, 0x3b00, 7)]);
        assert_eq!((one.uuid.as_deref(), one.parts), (Some("GPU-db2fc7f3a1b2c3d4"), Vec::new()));
        // The number of a partition is in the uppermost bits, or in those of the function.
        for other in [0x1000_3b00, 0x3b01] {
            let two = with(&[node(1, 0x3b00, 7), node(2, other, 8), node(3, 0x4b00, 9)]);
            let uuids: Vec<_> = two.parts.iter().filter_map(|part| part.uuid.as_deref()).collect();
            assert_eq!(uuids, ["GPU-0000000000000007", "GPU-0000000000000008"]);
            assert_eq!(two.parts[1].number, 1);
        }
    }

    #[test]
    fn gpus_of_intel_have_tiles() {
        let tiles = |facts: &str, files: &[(&str, &str)]| device(facts, files).parts.len();
        let xe = [("tile0/gt0/id", ""), ("tile1/gt1/id", "")];
        assert_eq!(tiles("0x038000 0x8086 0x0bd5 0", &xe), 2);
        assert_eq!(tiles("0x038000 0x8086 0x0bd6 0", &xe[..1]), 0);
        let i915 = [("drm/card0/gt/gt0/id", ""), ("drm/card0/gt/gt1/id", "")];
        assert_eq!(tiles("0x038000 0x8086 0x0bd5 0", &i915), 2);
        // The second one is for media.
        assert_eq!(tiles("0x030000 0x8086 0x7d55 0", &i915), 0);
    }

    #[test]
    fn networks_have_fabrics_and_names() {
        let cases: [(&str, &[&str], Fabric, &[&str]); 8] = [
            (
                "0x020700 0x15b3 0x1021 0",
                &["infiniband/mlx5_0/x", "net/ib0/x"],
                Fabric::InfiniBand,
                &["mlx5_0", "ib0"],
            ),
            (
                "0x020000 0x15b3 0x101d 0",
                &["infiniband/mlx5_1/x", "net/eth1/x"],
                Fabric::InfiniBand,
                &["mlx5_1", "eth1"],
            ),
            ("0x020700 0x15b3 0x6274 0", &[], Fabric::InfiniBand, &[]),
            (
                "0x020000 0x17db 0x0501 0",
                &["cxi/cxi0/x", "net/hsn0/x"],
                Fabric::Slingshot,
                &["cxi0", "hsn0"],
            ),
            ("0x020000 0x1d0f 0xefa2 0", &["infiniband/rdmap0s6/x"], Fabric::Efa, &["rdmap0s6"]),
            (
                "0x020800 0x8086 0x24f0 0",
                &["infiniband/hfi1_0/x", "net/ib0/x"],
                Fabric::OmniPath,
                &["hfi1_0", "ib0"],
            ),
            ("0x020000 0x8086 0x1592 0", &["net/eth0/x"], Fabric::Ethernet, &["eth0"]),
            ("0x020000 0x1af4 0x1041 0", &["virtio2/net/eth0/x"], Fabric::Ethernet, &["eth0"]),
        ];
        for (facts, files, fabric, names) in cases {
            let files: Vec<_> = files.iter().map(|file| (*file, "")).collect();
            let card = device(facts, &files);
            assert_eq!(
                (card.kind, card.names),
                (
                    DeviceKind::Network(fabric),
                    names.iter().map(|name| (*name).to_owned()).collect()
                ),
                "{facts}"
            );
        }
    }

    #[test]
    fn storage_has_the_names_of_its_namespaces() {
        let nvme = device(
            "0x010802 0x144d 0xa80a 0",
            &[("nvme/nvme2/nvme2n1/x", ""), ("nvme/nvme2/hwmon1/x", "")],
        );
        assert_eq!(
            (nvme.kind, nvme.names.as_slice()),
            (DeviceKind::Storage, &["nvme2n1".to_owned()][..])
        );
        let shared = device("0x010802 0x144d 0xa80a 0", &[("nvme/nvme2/nvme0c2n1/x", "")]);
        assert_eq!(shared.names, ["nvme0n1"]);
        assert_eq!(
            device("0x018000 0x1af4 0x1042 0", &[("virtio1/block/vda/x", "")]).names,
            ["vda"]
        );
    }
}
