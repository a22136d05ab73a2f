//! Memory domains and their kinds, from `/sys/devices/system/node`.
//!
//! The kernel numbers memory without processors as a domain of its own: high bandwidth memory beside main
//! memory, memory behind CXL, and the memory of some GPUs. Which it is follows from the driver of the GPU,
//! from the tiers by which the kernel ranks memory, from the bandwidth that the firmware states, or from the
//! device that provides it, in this order. Memory of which nothing is said is taken for slower memory: main
//! memory of another kind would be used by mistake.

use super::{SystemFiles, number_behind};
use crate::model::{Memory, MemoryKind};
use crate::processor_set::ProcessorSet;

/// Reads the domains with those of `processors` in them. A machine that lists none has none here.
pub(super) fn domains(files: &SystemFiles<'_>, processors: &ProcessorSet) -> Vec<Memory> {
    let numbers = files.set(&format!("{NODE}/online")).unwrap_or_default();
    let read = |number: &u32| {
        let near = files.set(&format!("{NODE}/node{number}/cpulist"))?.and(processors);
        Some(Memory { number: *number, near, bytes: None, kind: MemoryKind::Main })
    };
    numbers.range(..DOMAINS_MAX).filter_map(read).collect()
}

/// Reads the domains, their sizes, and what memory without processors is near.
pub(super) fn read(files: &SystemFiles<'_>, processors: &ProcessorSet) -> Vec<Memory> {
    let mut all = domains(files, processors);
    for memory in &mut all {
        let text = files.text(&format!("{NODE}/node{}/meminfo", memory.number));
        memory.bytes = text.and_then(|text| memory_total(&text));
    }
    let main: Vec<Memory> = all.iter().filter(|memory| !memory.near.is_empty()).cloned().collect();
    if main.is_empty() || main.len() == all.len() {
        return all;
    }
    let kinds = Kinds::read(files);
    for memory in all.iter_mut().filter(|memory| memory.near.is_empty()) {
        let neighbours = neighbours(files, memory.number, &main);
        let near = neighbours.iter().map(|one| &one.near);
        memory.near = near.fold(ProcessorSet::default(), |all, near| all.or(near));
        memory.kind = kinds.of(memory.number, &neighbours);
    }
    all
}

/// Domains with processors that are nearest to one without: those that the firmware names as its initiators,
/// else those at the least distance, else all.
fn neighbours<'a>(files: &SystemFiles<'_>, number: u32, main: &'a [Memory]) -> Vec<&'a Memory> {
    let directory = format!("{NODE}/node{number}");
    let names = files.names(&format!("{directory}/{INITIATORS}"));
    let named: Vec<u32> = names.iter().filter_map(|name| number_behind("node", name)).collect();
    let initiators: Vec<&Memory> =
        main.iter().filter(|memory| named.contains(&memory.number)).collect();
    if !initiators.is_empty() {
        return initiators;
    }
    // One distance for each domain that is online, in their order.
    let distances = files.text(&format!("{directory}/distance")).unwrap_or_default();
    let distances = distances.split_whitespace().map(|one| one.parse::<u32>().ok());
    let online = files.set(&format!("{NODE}/online")).unwrap_or_default();
    let distances: Vec<(u32, Option<u32>)> = online.iter().copied().zip(distances).collect();
    let distance = |memory: &Memory| {
        let found = distances.iter().find(|(other, _)| *other == memory.number);
        found.and_then(|(_, distance)| *distance).unwrap_or(u32::MAX)
    };
    let least = main.iter().map(distance).min();
    main.iter().filter(|memory| Some(distance(memory)) == least).collect()
}

/// What the system says about kinds of memory.
struct Kinds<'a> {
    files: &'a SystemFiles<'a>,
    /// Domains of GPUs.
    of_gpus: Vec<u32>,
    /// Tiers, the fastest first, with their domains.
    tiers: Vec<ProcessorSet>,
    /// Domains that a device provides, and whether it is memory for a purpose of its own, as HBM.
    of_devices: Vec<(u32, bool)>,
}

impl<'a> Kinds<'a> {
    fn read(files: &'a SystemFiles<'a>) -> Self {
        let gpus = files.names(GPUS_OF_NVIDIA).into_iter();
        let of_gpu = |name: String| {
            let status = files.text(&format!("{GPUS_OF_NVIDIA}/{name}/numa_status"))?;
            let node = status.lines().find_map(|line| line.trim().strip_prefix("Node:"))?;
            node.trim().parse().ok()
        };
        let mut tiers: Vec<(u32, String)> = { files.names(TIERS).into_iter() }
            .filter_map(|name| Some((number_behind("memory_tier", &name)?, name)))
            .collect();
        tiers.sort_unstable();
        let nodes = |(_, name): (u32, String)| files.set(&format!("{TIERS}/{name}/nodelist"));
        let of_device = |name: String| {
            let directory = format!("{DAX}/{name}");
            let number = files.number(&format!("{directory}/target_node"))?;
            let path = files.link(&directory)?;
            Some((number, path.iter().any(|part| part.as_encoded_bytes().starts_with(b"hmem"))))
        };
        Self {
            files,
            of_gpus: gpus.filter_map(of_gpu).collect(),
            tiers: tiers.into_iter().filter_map(nodes).collect(),
            of_devices: files.names(DAX).into_iter().filter_map(of_device).collect(),
        }
    }

    /// Kind of a domain without processors beside these.
    fn of(&self, number: u32, neighbours: &[&Memory]) -> MemoryKind {
        if self.of_gpus.contains(&number) {
            return MemoryKind::OfGpu;
        }
        let tier = |number| self.tiers.iter().position(|tier| tier.contains(&number));
        let faster = |own, other: Option<_>| Some(own > other?);
        let main = neighbours.first().map_or(number, |memory| memory.number);
        if let (Some(own), Some(other)) = (tier(number), tier(main))
            && own != other
        {
            return kind(own < other);
        }
        if let Some(own) = self.bandwidth(number)
            && let Some(is_faster) = faster(own, self.bandwidth(main))
        {
            return kind(is_faster);
        }
        let device = self.of_devices.iter().find(|(other, _)| *other == number);
        kind(device.is_some_and(|(_, is_special)| *is_special))
    }

    /// Bandwidth in MiB/s from the nearest processors.
    fn bandwidth(&self, number: u32) -> Option<u32> {
        let bandwidth = format!("{NODE}/node{number}/{INITIATORS}/read_bandwidth");
        self.files.number(&bandwidth).filter(|bandwidth| *bandwidth > 0)
    }
}

const fn kind(is_faster: bool) -> MemoryKind {
    if is_faster { MemoryKind::HighBandwidth } else { MemoryKind::Far }
}

/// Bytes of memory by the text of a file `meminfo`, of the machine or of a domain.
pub fn memory_total(text: &str) -> Option<u64> {
    let (_, total) = text.lines().find_map(|line| line.split_once("MemTotal:"))?;
    total.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

const NODE: &str = "sys/devices/system/node";
const TIERS: &str = "sys/devices/virtual/memory_tiering";
const DAX: &str = "sys/bus/dax/devices";
const GPUS_OF_NVIDIA: &str = "proc/driver/nvidia/gpus";

/// More than the domains of any kernel.
const DOMAINS_MAX: u32 = 4096;

/// Performance of a domain as its nearest processors see it, and links to their domains.
const INITIATORS: &str = "access0/initiators";

#[cfg(test)]
mod tests {
    use super::super::tests::{set, tree};
    use super::*;

    /// Two domains with processors and one without, and more files.
    fn memories(more: &[(&str, &str)]) -> Vec<Memory> {
        let mut files = vec![
            ("sys/devices/system/node/online", "0-2\n"),
            ("sys/devices/system/node/node0/cpulist", "0-1\n"),
            ("sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:       2048 kB\n"),
            ("sys/devices/system/node/node1/cpulist", "2-3\n"),
            ("sys/devices/system/node/node2/cpulist", "\n"),
            ("sys/devices/system/node/node2/meminfo", "Node 2 MemTotal: 18014398509481984 kB\n"),
        ];
        files.extend(more);
        let root = tree(&files);
        read(&SystemFiles { root: root.path() }, &set("0-3"))
    }

    #[test]
    fn domains_have_processors_and_sizes() {
        let all = memories(&[]);
        assert_eq!((&all[0].near, all[0].bytes), (&set("0-1"), Some(2 << 20)));
        assert_eq!((all[1].bytes, all[2].bytes), (None, None));
        // Nothing says where it is.
        assert_eq!((&all[2].near, all[2].kind), (&set("0-3"), MemoryKind::Far));
    }

    #[test]
    fn memory_without_processors_is_near_its_initiators_or_the_least_distance() {
        let node = "sys/devices/system/node/node2";
        let distance = format!("{node}/distance");
        let initiator = format!("{node}/access0/initiators/node0");
        assert_eq!(memories(&[(&distance, "28 18 10\n")])[2].near, set("2-3"));
        let both = [(distance.as_str(), "28 18 10\n"), (&initiator, "-> ../../../node0")];
        assert_eq!(memories(&both)[2].near, set("0-1"));
        assert_eq!(memories(&[(&distance, "x y\n")])[2].near, set("0-3"));
    }

    #[test]
    fn memory_without_processors_has_a_kind() {
        let tier =
            |number| format!("sys/devices/virtual/memory_tiering/memory_tier{number}/nodelist");
        let bandwidth =
            |node| format!("sys/devices/system/node/node{node}/access0/initiators/read_bandwidth");
        let (tier2, tier4, tier22) = (tier(2), tier(4), tier(22));
        let (main, other) = (bandwidth(0), bandwidth(2));
        let target = "sys/bus/dax/devices/dax1.0/target_node";
        let numa = "proc/driver/nvidia/gpus/0009:01:00.0/numa_status";
        let cases: [(&[(&str, &str)], MemoryKind); 8] = [
            (&[(&tier4, "0-1"), (&tier22, "2")], MemoryKind::Far),
            (&[(&tier4, "0-1"), (&tier2, "2")], MemoryKind::HighBandwidth),
            // Of one tier: the firmware decides.
            (&[(&tier4, "0-2"), (&main, "204800"), (&other, "524288")], MemoryKind::HighBandwidth),
            (&[(&main, "204800"), (&other, "65536")], MemoryKind::Far),
            (&[(&main, "0"), (&other, "65536")], MemoryKind::Far),
            (
                &[
                    ("sys/bus/dax/devices/dax1.0", "-> ../../../devices/platform/hmem.1/dax1.0"),
                    ("sys/devices/platform/hmem.1/dax1.0/target_node", "2"),
                ],
                MemoryKind::HighBandwidth,
            ),
            (&[(target, "2")], MemoryKind::Far),
            (
                &[(numa, "Node: 2\nStatus: online\n"), (&tier4, "0-1"), (&tier22, "2")],
                MemoryKind::OfGpu,
            ),
        ];
        for (files, kind) in cases {
            assert_eq!(memories(files)[2].kind, kind, "{files:?}");
        }
    }

    #[test]
    fn machine_without_domains_has_none() {
        let root = tree(&[]);
        assert_eq!(read(&SystemFiles { root: root.path() }, &set("0")), []);
    }
}
