//! What only the library of NVIDIA knows, from the output of `nvidia-smi`: MIG instances with their UUIDs,
//! and which GPUs NVLink joins. A library in the launcher would open devices there; a helper ends.

use crate::device::{DeviceKind, DevicePart, GpuMaker, PartKind};
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

/// Numbers of the GPUs that NVLink joins, each group in ascending order, from the output of `nvidia-smi topo
/// -m`: a table with a row and a column for each GPU, where `NV18` stands for 18 links.
pub fn nvlink_domains(text: &str) -> Vec<Vec<u32>> {
    let gpu = |word: &str| word.strip_prefix("GPU")?.parse::<u32>().ok();
    let mut columns: Vec<u32> = Vec::new();
    let mut domains: Vec<Vec<u32>> = Vec::new();
    for line in text.lines().take(LINES_MAX) {
        let line = without_escapes(line);
        let mut words = line.split_whitespace();
        let Some(first) = words.next().and_then(gpu) else { continue };
        if columns.is_empty() {
            columns = [first].into_iter().chain(words.map_while(gpu)).collect();
            continue;
        }
        let is_linked =
            |cell: &str| cell.strip_prefix("NV").is_some_and(|n| n.parse() != Ok(0_u32));
        let cells = columns.iter().zip(words);
        let linked = cells.filter(|(_, cell)| is_linked(cell)).map(|(other, _)| *other);
        let mut joined: Vec<u32> = linked.chain([first]).collect();
        if joined.len() > 1 {
            let (near, apart): (Vec<_>, Vec<_>) = domains
                .into_iter()
                .partition(|domain: &Vec<u32>| domain.iter().any(|one| joined.contains(one)));
            joined.extend(near.concat());
            joined.sort_unstable();
            joined.dedup();
            domains = apart;
            domains.push(joined);
        }
    }
    domains.sort_unstable();
    domains
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

/// More than the lines of any node.
const LINES_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;
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

    #[test]
    fn nvlink_joins_gpus() {
        let all = "\
\t\u{1b}[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\u{1b}[0m
GPU0\t X \tNV18\tSYS\tSYS\tPIX\t0-47\t0\t\tN/A
GPU1\tNV18\t X \tSYS\tSYS\tNODE\t0-47\t0\t\tN/A
GPU2\tSYS\tSYS\t X \tNV4\tSYS\t48-95\t1\t\tN/A
GPU3\tSYS\tSYS\tNV4\t X \tSYS\t48-95\t1\t\tN/A
NIC0\tPIX\tNODE\tSYS\tSYS\t X

Legend:

  NV#  = Connection traversing a bonded set of # NVLinks
";
        assert_eq!(nvlink_domains(all), [[0, 1], [2, 3]]);
        // GPUs 0 and 2 are joined through 1.
        let chain = "\tGPU0 GPU1 GPU2\nGPU0 X NV1 SYS\nGPU1 NV1 X NV2\nGPU2 SYS NV2 X\n";
        assert_eq!(nvlink_domains(chain), [[0, 1, 2]]);
        let joined_late =
            "GPU0 GPU1 GPU2 GPU3\nGPU0 X NV1 SYS SYS\nGPU2 SYS SYS X NV1\nGPU3 SYS NV2 NV1 X\n";
        assert_eq!(nvlink_domains(joined_late), [[0, 1, 2, 3]]);
        for none in ["", "GPU0\n", "GPU0 GPU1\nGPU0 X NV0\nGPU1 PHB X\n", "No devices were found\n"]
        {
            assert!(nvlink_domains(none).is_empty(), "{none}");
        }
    }
}
