//! Placement by memory first: ranks are distributed over memory domains, and each has processors and GPUs
//! of its own domain.
//!
//! Spec: E. A. León, *mpibind: A Memory-Centric Affinity Algorithm for Hybrid Applications*, MEMSYS 2017.

use crate::model::{Memory, MemoryKind, NodeHardware};
use crate::processor_set::ProcessorSet;
use std::ops::Range;

/// Ranks of a node that are to be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RanksToPlace {
    /// Their number.
    pub ranks: u32,
    /// Threads of each; as many as it has cores by default.
    pub threads: Option<u32>,
    /// Hardware threads of each core that are used; one by default, and more where the cores do not suffice.
    pub hardware_threads: Option<u32>,
    /// True if ranks stay in domains with GPUs, where there are any.
    pub is_near_gpus: bool,
}

/// Place of a rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankPlace {
    /// Number of threads for which there is room.
    pub threads: u32,
    /// The processors.
    pub processors: ProcessorSet,
    /// Numbers of its memory domains.
    pub memories: Vec<u32>,
    /// Its GPUs, by their places in [`NodeHardware::usable_gpus`].
    pub gpus: Vec<usize>,
    /// Its network cards, by their places in [`NodeHardware::nics`].
    pub nics: Vec<usize>,
}

/// A part of the node whose memory is near.
#[derive(Clone, Debug, Default)]
struct Part {
    processors: ProcessorSet,
    memories: Vec<u32>,
    gpus: Vec<usize>,
}

/// Places ranks, one after the other. Those that outnumber the hardware threads of a domain share these.
pub fn place(hardware: &NodeHardware, wanted: RanksToPlace) -> Vec<RankPlace> {
    let parts = parts(hardware, wanted.is_near_gpus);
    let ranks = index(wanted.ranks);
    let cores = hardware.cores();
    if ranks < parts.len() {
        // A rank that spans domains has all that is in them.
        let spans = (0..ranks).map(|rank| &parts[share(parts.len(), ranks, rank)]);
        return spans.map(|parts| whole(&merged(parts))).collect();
    }
    let numbers = 0..parts.len();
    let places = numbers.zip(&parts).flat_map(|(number, part)| {
        let own = share(ranks, parts.len(), number).len();
        (0..own).map(|rank| within(part, &cores, (own, rank), wanted)).collect::<Vec<_>>()
    });
    places.collect()
}

/// Memory domains with processors, each with its GPUs; those without GPUs are left out if `is_near_gpus` and
/// others have some. A node without domains is one part.
fn parts(hardware: &NodeHardware, is_near_gpus: bool) -> Vec<Part> {
    let gpus = hardware.usable_gpus();
    let has_processors = |memory: &&Memory| {
        memory.kind == MemoryKind::Main && memory.near.meets(&hardware.processors)
    };
    let domains: Vec<&Memory> = hardware.memories.iter().filter(has_processors).collect();
    let part = |memory: &&Memory| {
        let near = gpus.iter().enumerate().filter(|(_, gpu)| match gpu.device.near.is_empty() {
            true => gpu.device.memory == Some(memory.number),
            false => gpu.device.near.meets(&memory.near),
        });
        Part {
            processors: memory.near.and(&hardware.processors),
            memories: vec![memory.number],
            gpus: near.map(|(at, _)| at).collect(),
        }
    };
    let mut parts: Vec<Part> = domains.iter().map(part).collect();
    if is_near_gpus && parts.iter().any(|part| !part.gpus.is_empty()) {
        parts.retain(|part| !part.gpus.is_empty());
    }
    if parts.is_empty() {
        let gpus = (0..gpus.len()).collect();
        parts.push(Part { processors: hardware.processors.clone(), memories: Vec::new(), gpus });
    }
    parts
}

fn merged(parts: &[Part]) -> Part {
    parts.iter().fold(Part::default(), |all, part| Part {
        processors: all.processors.or(&part.processors),
        memories: [all.memories, part.memories.clone()].concat(),
        gpus: [all.gpus, part.gpus.clone()].concat(),
    })
}

/// All of a part for one rank.
fn whole(part: &Part) -> RankPlace {
    RankPlace {
        threads: u32::try_from(part.processors.len()).unwrap_or(u32::MAX),
        processors: part.processors.clone(),
        memories: part.memories.clone(),
        gpus: part.gpus.clone(),
        nics: Vec::new(),
    }
}

/// The place of one of several ranks of a part: their number, and that of the rank.
fn within(
    part: &Part,
    cores: &[ProcessorSet],
    (ranks, rank): (usize, usize),
    wanted: RanksToPlace,
) -> RankPlace {
    let cores = cores.iter().map(|core| core.and(&part.processors));
    let cores: Vec<ProcessorSet> = cores.filter(|core| !core.is_empty()).collect();
    let gpus = match ranks <= part.gpus.len() {
        true => part.gpus[share(part.gpus.len(), ranks, rank)].to_vec(),
        false => part.gpus.get(rank * part.gpus.len() / ranks).copied().into_iter().collect(),
    };
    let memories = part.memories.clone();
    if ranks > cores.len() {
        // Threads of a core follow each other.
        let all: Vec<u32> = cores.iter().flat_map(|core| core.iter().copied()).collect();
        let own = match ranks <= all.len() {
            true => all[share(all.len(), ranks, rank)].to_vec(),
            false => all.get(rank * all.len() / ranks).copied().into_iter().collect(),
        };
        let threads = wanted.threads.unwrap_or(u32::try_from(own.len()).unwrap_or(u32::MAX));
        let processors = own.into_iter().collect();
        return RankPlace { threads, processors, memories, gpus, nics: Vec::new() };
    }
    let own = &cores[share(cores.len(), ranks, rank)];
    let needed = wanted.threads.map_or(1, |threads| index(threads).div_ceil(own.len()));
    let used = wanted.hardware_threads.map_or(needed, index).max(1);
    let processors: ProcessorSet =
        own.iter().flat_map(|core| core.iter().copied().take(used)).collect();
    let threads = wanted.threads.unwrap_or(u32::try_from(processors.len()).unwrap_or(u32::MAX));
    RankPlace { threads, processors, memories, gpus, nics: Vec::new() }
}

/// Share of the owner with this number in `count` things, of which owners with low numbers have one more.
pub(crate) fn share(count: usize, owners: usize, number: usize) -> Range<usize> {
    let (each, more) = (count / owners, count % owners);
    let start = number * each + number.min(more);
    start..start + each + usize::from(number < more)
}

fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::described::machines;
    use crate::device::{Device, DeviceKind, GpuMaker, PciFacts};
    use crate::model::{CoreFacts, Group, GroupKind};

    fn set(text: &str) -> ProcessorSet {
        ProcessorSet::of_list(text).unwrap()
    }

    /// Two domains of two cores with two threads each, numbered as PCs do, and GPUs near the domains of these
    /// numbers.
    fn node(gpus: &[u32]) -> NodeHardware {
        let core = |number: u32| Group {
            kind: GroupKind::Core(CoreFacts::default()),
            number: Some(number),
            processors: ProcessorSet::from_iter([number, number + 4]),
        };
        let memory = |number| Memory {
            number,
            near: set(["0,1,4,5", "2,3,6,7"][index(number)]),
            bytes: None,
            kind: MemoryKind::Main,
        };
        let gpu = |number: &u32| Device {
            kind: DeviceKind::Gpu(GpuMaker::Nvidia),
            names: Vec::new(),
            uuid: None,
            pci: None::<PciFacts>,
            near: ProcessorSet::default(),
            memory: Some(*number),
            addresses: Vec::new(),
            parts: Vec::new(),
        };
        NodeHardware {
            processors: set("0-7"),
            groups: (0..4).map(core).collect(),
            memories: vec![memory(0), memory(1)],
            devices: gpus.iter().map(gpu).collect(),
            ..NodeHardware::default()
        }
    }

    fn placed(hardware: &NodeHardware, wanted: RanksToPlace) -> Vec<String> {
        let places = place(hardware, wanted).into_iter();
        let shown = |place: RankPlace| {
            format!("{}:{}:{:?}:{:?}", place.threads, place.processors, place.memories, place.gpus)
        };
        places.map(shown).collect()
    }

    const fn ranks(ranks: u32) -> RanksToPlace {
        RanksToPlace { ranks, threads: None, hardware_threads: None, is_near_gpus: true }
    }

    #[test]
    fn ranks_are_distributed_over_domains_and_have_their_cores_and_gpus() {
        let node = node(&[0, 0, 1]);
        let one = ["8:0-7:[0, 1]:[0, 1, 2]"];
        assert_eq!(placed(&node, ranks(1)), one);
        let two = ["2:0-1:[0]:[0, 1]", "2:2-3:[1]:[2]"];
        assert_eq!(placed(&node, ranks(2)), two);
        let three = ["1:0:[0]:[0]", "1:1:[0]:[1]", "2:2-3:[1]:[2]"];
        assert_eq!(placed(&node, ranks(3)), three);
        // More ranks than cores, and than hardware threads.
        let six = placed(&node, ranks(6));
        assert_eq!(six[..3], ["2:0,4:[0]:[0]", "1:1:[0]:[0]", "1:5:[0]:[1]"]);
        assert_eq!(placed(&node, ranks(16)).iter().filter(|one| one.contains(":0:[0]")).count(), 2);
        assert_eq!(placed(&node, ranks(0)), [""; 0]);
    }

    #[test]
    fn threads_take_hardware_threads_where_cores_do_not_suffice() {
        let node = node(&[]);
        let threads = |threads| RanksToPlace { threads: Some(threads), ..ranks(2) };
        assert_eq!(placed(&node, threads(1))[0], "1:0-1:[0]:[]");
        assert_eq!(placed(&node, threads(3))[0], "3:0-1,4-5:[0]:[]");
        let all = RanksToPlace { hardware_threads: Some(2), ..ranks(2) };
        assert_eq!(placed(&node, all)[1], "4:2-3,6-7:[1]:[]");
    }

    #[test]
    fn ranks_stay_near_gpus_if_that_is_wanted() {
        let node = node(&[1]);
        assert_eq!(placed(&node, ranks(2)), ["1:2:[1]:[0]", "1:3:[1]:[0]"]);
        let anywhere = RanksToPlace { is_near_gpus: false, ..ranks(2) };
        assert_eq!(placed(&node, anywhere), ["2:0-1:[0]:[]", "2:2-3:[1]:[0]"]);
    }

    #[test]
    fn node_without_domains_is_one_part() {
        let mut node = node(&[]);
        node.memories.clear();
        assert_eq!(placed(&node, ranks(2)), ["2:0-1:[]:[]", "2:2-3:[]:[]"]);
    }

    /// Processors and GPUs of each rank, if a described machine has one for each GPU, or `ranks`.
    fn one_for_each_gpu(name: &str, ranks: Option<u32>) -> Vec<String> {
        let (_, node) = machines().find(|(own, _)| *own == name).unwrap();
        let usable = node.usable_gpus();
        let name = |at: &usize| {
            let gpu = usable[*at];
            let part = gpu.part.map(|part| format!(".{}", part.number)).unwrap_or_default();
            format!("{}{part}", gpu.device.name())
        };
        let count = ranks.unwrap_or_else(|| u32::try_from(usable.len()).unwrap());
        let shown = |place: RankPlace| {
            let gpus: Vec<String> = place.gpus.iter().map(name).collect();
            let memories: ProcessorSet = place.memories.into_iter().collect();
            format!("{memories}:{}:{}", place.processors, gpus.join(","))
        };
        place(&node, self::ranks(count)).into_iter().map(shown).collect()
    }

    #[test]
    fn ranks_of_frontier_are_near_the_gpus_of_its_user_guide() {
        let expected = [
            "0:0-7:card4",
            "0:8-15:card5",
            "1:16-23:card2",
            "1:24-31:card3",
            "2:32-39:card6",
            "2:40-47:card7",
            "3:48-55:card0",
            "3:56-63:card1",
        ];
        assert_eq!(one_for_each_gpu("frontier", None), expected);
    }

    #[test]
    fn ranks_of_perlmutter_have_its_gpus_in_opposite_order() {
        let expected = ["0:0-15:card3", "1:16-31:card2", "2:32-47:card1", "3:48-63:card0"];
        assert_eq!(one_for_each_gpu("perlmutter", None), expected);
    }

    #[test]
    fn ranks_of_aurora_have_a_tile_each_on_the_socket_of_their_gpu() {
        let expected = [
            "0:0-8:card0.0",
            "0:9-17:card0.1",
            "0:18-26:card1.0",
            "0:27-35:card1.1",
            "0:36-43:card2.0",
            "0:44-51:card2.1",
            "1:52-60:card3.0",
            "1:61-69:card3.1",
            "1:70-78:card4.0",
            "1:79-87:card4.1",
            "1:88-95:card5.0",
            "1:96-103:card5.1",
        ];
        assert_eq!(one_for_each_gpu("aurora", None), expected);
    }

    #[test]
    fn ranks_of_a_dgx_have_an_instance_or_a_gpu_each() {
        let all = one_for_each_gpu("dgx-h100", None);
        let expected = ["0:0-11:card1.0", "0:12-22:card1.1", "0:23-33:card2"];
        assert_eq!(all[..3], expected);
        assert_eq!(all[5..], ["1:56-69:card5", "1:70-83:card6", "1:84-97:card7", "1:98-111:card8"]);
    }

    #[test]
    fn ranks_of_other_machines_have_the_gpus_of_their_socket() {
        let lassen =
            ["0:8,12,16,20,24,28,32,36,40,44:card1", "0:48,52,56,60,64,68,72,76,80,84:card2"];
        let all = one_for_each_gpu("lassen", None);
        assert_eq!((&all[..2], all.len()), (&lassen.map(str::to_owned)[..], 4));
        assert!(all[2].starts_with("8:96,") && all[3].ends_with(":card4"), "{all:?}");
        let expected =
            ["0:0-5:card0", "0:6-11:card1", "0:12-17:card2", "0:18-23:card3", "1:24-29:card4"];
        assert_eq!(one_for_each_gpu("eight-t4", None)[..5], expected);
        assert_eq!(one_for_each_gpu("grace-hopper", None), ["0:0-71:card1"]);
        assert_eq!(one_for_each_gpu("alder-lake", None), ["0:0,2,4,6,8,10,12-19:card0"]);
    }

    #[test]
    fn ranks_of_machines_without_gpus_have_domains_of_main_memory() {
        // The third domain is behind CXL, and has no processors.
        assert_eq!(one_for_each_gpu("xeon-cxl", None), [""; 0]);
        assert_eq!(one_for_each_gpu("xeon-cxl", Some(2)), ["0:0-55:", "1:56-111:"]);
        assert_eq!(one_for_each_gpu("raspberry-pi", Some(2)), ["0:0-1:", "0:2-3:"]);
    }
}
