//! What only the library of NVIDIA knows, from the output of `nvidia-smi`: MIG instances with their UUIDs,
//! and which GPUs NVLink joins. A library in the launcher would open devices there; a helper ends.

use crate::device::{Device, DeviceKind, DeviceLink, DevicePart, GpuMaker, LinkKind, PartKind};
use crate::model::NodeHardware;

/// A GPU as `nvidia-smi -L` lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedGpu {
    /// Number, in the order of the PCI addresses.
    pub number: u32,
    /// UUID, as `GPU-…`.
    pub uuid: String,
    /// UUIDs of its MIG instances, by their numbers.
    pub instances: Vec<String>,
}

/// Reads the output of `nvidia-smi -L`. Lines that are no device are passed over.
pub fn listed(text: &str) -> Vec<ListedGpu> {
    let mut all: Vec<ListedGpu> = Vec::new();
    for line in text.lines().take(LINES_MAX) {
        let Some((head, rest)) = line.split_once("(UUID: ") else { continue };
        let Some((uuid, _)) = rest.split_once(')') else { continue };
        let mut words = head.split_whitespace();
        match (words.next(), words.next()) {
            (Some("GPU"), Some(number)) => {
                if let Ok(number) = number.trim_end_matches(':').parse() {
                    let instances = Vec::new();
                    all.push(ListedGpu { number, uuid: uuid.to_owned(), instances });
                }
            }
            (Some("MIG"), Some(_)) => {
                if let Some(gpu) = all.last_mut() {
                    gpu.instances.push(uuid.to_owned());
                }
            }
            _ => {}
        }
    }
    all
}

/// GPUs that NVLink joins, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinedGpus {
    /// The GPUs.
    pub gpus: [u32; 2],
    /// Number of links.
    pub count: u32,
}

/// Pairs of GPUs that NVLink joins, each in both orders, from the output of `nvidia-smi topo -m`: a table
/// with a row and a column for each GPU, where `NV18` stands for 18 links.
pub fn joined(text: &str) -> Vec<JoinedGpus> {
    let gpu = |word: &str| word.strip_prefix("GPU")?.parse::<u32>().ok();
    let mut columns: Vec<u32> = Vec::new();
    let mut all = Vec::new();
    for line in text.lines().take(LINES_MAX) {
        let line = without_escapes(line);
        let mut words = line.split_whitespace();
        let Some(first) = words.next().and_then(gpu) else { continue };
        if columns.is_empty() {
            columns = [first].into_iter().chain(words.map_while(gpu)).collect();
            continue;
        }
        let links = |cell: &str| cell.strip_prefix("NV")?.parse().ok().filter(|count| *count > 0);
        for (other, cell) in columns.iter().zip(words) {
            let joined = links(cell).map(|count| JoinedGpus { gpus: [first, *other], count });
            all.extend(joined.filter(|_| first != *other));
        }
    }
    all
}

/// A line without the sequences that underline the head of a table.
fn without_escapes(line: &str) -> String {
    let mut pieces = line.split('\u{1b}');
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        text.push_str(piece.split_once('m').map_or("", |(_, rest)| rest));
    }
    text
}

impl NodeHardware {
    /// Adds UUIDs and MIG instances to the GPUs of NVIDIA: to those with the same UUID, or if the system
    /// names no UUIDs and the list has as many GPUs, in their order.
    pub fn add_listed(&mut self, listed: &[ListedGpu]) {
        let gpus = self.devices.iter_mut();
        let gpus = gpus.filter(|device| device.kind == DeviceKind::Gpu(GpuMaker::Nvidia));
        let mut gpus: Vec<_> = gpus.collect();
        let is_ordered =
            gpus.len() == listed.len() && gpus.iter().all(|device| device.uuid.is_none());
        for (at, listed) in listed.iter().enumerate() {
            let with_uuid =
                gpus.iter().position(|device| device.uuid.as_deref() == Some(&listed.uuid));
            let found = with_uuid.or(Some(at).filter(|_| is_ordered));
            let Some(device) = found.and_then(|at| gpus.get_mut(at)) else { continue };
            device.uuid = Some(listed.uuid.clone());
            let instances = (0..).zip(&listed.instances);
            let part = |(number, uuid): (u32, &String)| DevicePart {
                number,
                kind: PartKind::Mig,
                uuid: Some(uuid.clone()),
            };
            device.parts = instances.map(part).collect();
        }
    }
}

impl NodeHardware {
    /// Adds links between GPUs of NVIDIA, whose numbers are those of the list, by their UUIDs.
    pub fn add_joined(&mut self, joined: &[JoinedGpus], listed: &[ListedGpu]) {
        let address = |number| {
            let gpu = listed.iter().find(|gpu| gpu.number == number)?;
            let with_uuid = |device: &&Device| device.uuid.as_deref() == Some(&gpu.uuid);
            let device = self.devices.iter().find(with_uuid)?;
            device.pci.as_ref().map(|pci| pci.address)
        };
        let links = joined.iter().filter_map(|JoinedGpus { gpus, count }| {
            let [one, other] = gpus.map(address);
            Some(DeviceLink::new(one?, other?, LinkKind::NvLink { count: *count }))
        });
        let mut links: Vec<DeviceLink> = self.links.iter().copied().chain(links).collect();
        links.sort_by_key(|link| link.ends);
        links.dedup_by_key(|link| link.ends);
        self.links = links;
    }
}

/// More than the lines of any node.
const LINES_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::PciFacts;
    use crate::processor_set::ProcessorSet;

    /// After the examples of NVIDIA's guide to MIG, of newer and older drivers.
    const LIST: &str = "\
GPU 0: A100-SXM4-40GB (UUID: GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77)
  MIG 1g.5gb      Device  0: (UUID: MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f)
  MIG 2c.3g.20gb  Device  1: (UUID: MIG-GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77/1/0)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-e86cb44c-6756-fd30-cd4a-1e6da3caf9b0)
";

    #[test]
    fn list_has_gpus_and_instances() {
        let all = listed(LIST);
        let instances = [
            "MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f",
            "MIG-GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77/1/0",
        ];
        assert_eq!((all.len(), all[0].number, all[1].number), (2, 0, 1));
        assert_eq!(
            (&all[0].instances[..], &all[1].instances[..]),
            (&instances.map(str::to_owned)[..], &[][..])
        );
        assert_eq!(all[1].uuid, "GPU-e86cb44c-6756-fd30-cd4a-1e6da3caf9b0");
        for wrong in [
            "",
            "Failed to initialize NVML: Driver/library version mismatch\n",
            "GPU x: A (UUID: GPU-1)\n",
            "GPU 0: A (UUID: GPU-1",
            "  MIG 1g.5gb Device 0: (UUID: MIG-1)\n",
        ] {
            assert_eq!(listed(wrong), [], "{wrong}");
        }
    }

    #[test]
    fn gpus_get_uuids_and_instances() {
        let gpu = |uuid: Option<&str>| Device {
            kind: DeviceKind::Gpu(GpuMaker::Nvidia),
            names: Vec::new(),
            uuid: uuid.map(str::to_owned),
            pci: None,
            near: ProcessorSet::default(),
            memory: None,
            addresses: Vec::new(),
            parts: Vec::new(),
        };
        let with = |gpus: &[Option<&str>]| {
            let devices = gpus.iter().map(|uuid| gpu(*uuid)).collect();
            let mut all = NodeHardware { devices, ..NodeHardware::default() };
            all.add_listed(&listed(LIST));
            let shown = |device: &Device| {
                (device.uuid.as_deref().map(|uuid| uuid[..6].to_owned()), device.parts.len())
            };
            all.devices.iter().map(shown).collect::<Vec<_>>()
        };
        let [first, second] = [(Some("GPU-5d".into()), 2), (Some("GPU-e8".into()), 0)];
        assert_eq!(with(&[None, None]), [first.clone(), second]);
        // A container has another order, or one of them.
        let known = "GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77";
        assert_eq!(with(&[None, Some(known)]), [(None, 0), first]);
        assert_eq!(with(&[None]), [(None, 0)]);
    }

    /// As a DGX with four GPUs prints it, of which pairs are joined.
    const TABLE: &str = "\
\t\u{1b}[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\u{1b}[0m
GPU0\t X \tNV18\tSYS\tSYS\tPIX\t0-47\t0\t\tN/A
GPU1\tNV18\t X \tSYS\tSYS\tNODE\t0-47\t0\t\tN/A
GPU2\tSYS\tSYS\t X \tNV4\tSYS\t48-95\t1\t\tN/A
GPU3\tSYS\tSYS\tNV4\t X \tSYS\t48-95\t1\t\tN/A
NIC0\tPIX\tNODE\tSYS\tSYS\t X

Legend:

  NV#  = Connection traversing a bonded set of # NVLinks
";

    #[test]
    fn nvlink_joins_gpus() {
        let pair = |one, other, count| JoinedGpus { gpus: [one, other], count };
        let expected = [pair(0, 1, 18), pair(1, 0, 18), pair(2, 3, 4), pair(3, 2, 4)];
        assert_eq!(joined(TABLE), expected);
        for none in ["", "GPU0\n", "GPU0 GPU1\nGPU0 X NV0\nGPU1 PHB X\n", "No devices were found\n"]
        {
            assert!(joined(none).is_empty(), "{none}");
        }
    }

    #[test]
    fn links_are_between_the_gpus_of_the_list() {
        let gpu = |number: u8| Device {
            kind: DeviceKind::Gpu(GpuMaker::Nvidia),
            names: Vec::new(),
            uuid: Some(format!("GPU-{number}")),
            pci: Some(PciFacts {
                address: format!("0000:0{number}:00.0").parse().unwrap(),
                class: 0x0302,
                vendor: 0x10de,
                device: 0x2330,
                bridges: Vec::new(),
            }),
            near: ProcessorSet::default(),
            memory: None,
            addresses: Vec::new(),
            parts: Vec::new(),
        };
        // The first GPU of the list is not here, and the list has another order.
        let list = "GPU 0: A (UUID: GPU-9)\nGPU 1: A (UUID: GPU-8)\nGPU 2: A (UUID: GPU-2)\n\
                    GPU 3: A (UUID: GPU-1)\n";
        let devices = vec![gpu(1), gpu(2), gpu(8)];
        let mut all = NodeHardware { devices, ..NodeHardware::default() };
        all.add_joined(&joined(TABLE), &listed(list));
        let shown = all.device_links().map(|link| {
            (link.devices.map(|device| device.uuid.clone().unwrap_or_default()), link.kind)
        });
        let ends = ["GPU-1".to_owned(), "GPU-2".to_owned()];
        assert_eq!(shown.collect::<Vec<_>>(), [(ends, LinkKind::NvLink { count: 4 })]);
        assert!(all.console().ends_with("NVLink \"0000:01:00.0\": \"0000:02:00.0\" (x4)\n"));
    }
}
