//! GPUs that a batch system or a user chooses by a variable of the libraries, as `CUDA_VISIBLE_DEVICES`.

use crate::device::{Device, DeviceKind, DevicePart, Fabric, GpuMaker};
use crate::model::NodeHardware;
use std::collections::BTreeSet;

/// A GPU, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChosenGpu<'a> {
    /// The GPU.
    pub device: &'a Device,
    /// The part; `None` for the whole.
    pub part: Option<&'a DevicePart>,
}

impl<'a> ChosenGpu<'a> {
    /// The parts of a whole GPU that has some, else itself.
    fn split(self) -> Vec<Self> {
        match self.part.is_none() && !self.device.parts.is_empty() {
            true => parts(self.device),
            false => vec![self],
        }
    }

    /// Name by which libraries know it on every host.
    pub fn uuid(&self) -> Option<&'a str> {
        match self.part {
            Some(part) => part.uuid.as_deref(),
            None => self.device.uuid.as_deref(),
        }
    }
}

impl NodeHardware {
    /// GPUs, or parts of them, that ranks can have one by one, in the order of their addresses: MIG instances
    /// of a GPU that has some, tiles, partitions, and else whole GPUs. GPUs of unknown makers have no
    /// library.
    pub fn usable_gpus(&self) -> Vec<ChosenGpu<'_>> {
        let is_known = |gpu: &&Device| gpu.kind != DeviceKind::Gpu(GpuMaker::Other);
        let gpus = self.gpus().filter(is_known).map(|device| ChosenGpu { device, part: None });
        gpus.flat_map(ChosenGpu::split).collect()
    }

    /// Network cards that a program of MPI uses, in the order of their addresses: those of a fabric, and
    /// links of Ethernet where there is no fabric.
    pub fn nics(&self) -> Vec<&Device> {
        let is_of = |device: &&Device, is_ethernet: bool| match device.kind {
            DeviceKind::Network(fabric) => (fabric == Fabric::Ethernet) == is_ethernet,
            _ => false,
        };
        let of = |is_ethernet| self.devices.iter().filter(move |one| is_of(one, is_ethernet));
        let fabrics: Vec<&Device> = of(false).collect();
        if fabrics.is_empty() { of(true).collect() } else { fabrics }
    }

    /// Removes the GPUs that variables of a batch system or a user leave out, by the rules of the libraries
    /// that read these, and returns which variables did so.
    pub fn leave_out_by_variables(
        &mut self,
        ours: &dyn Fn(&str) -> Option<String>,
    ) -> Vec<Restriction> {
        let mut restrictions = Vec::new();
        let mut narrow = |all: &[ChosenGpu<'_>], left: usize, list: VisibleList| {
            let gpus = all.len().saturating_sub(left);
            if gpus > 0 {
                restrictions.push(Restriction { name: list.name, value: list.value, gpus });
            }
        };
        let mut choices = Vec::new();
        if let Some(list) = VisibleList::of("CUDA_VISIBLE_DEVICES", ours) {
            let all = whole(&self.devices, GpuMaker::Nvidia);
            let chosen = in_order(&list.value, &all);
            narrow(&all, chosen.len(), list);
            choices.push(MakersChoice { maker: GpuMaker::Nvidia, chosen });
        }
        let mut chosen = flat(&self.devices, GpuMaker::Amd);
        let lists = [VisibleList::of("ROCR_VISIBLE_DEVICES", ours), VisibleList::above_rocr(ours)];
        for list in lists.into_iter().flatten() {
            // The second list counts what the first one leaves, in the order of the first one.
            let all = std::mem::take(&mut chosen);
            chosen = in_order(&list.value, &all);
            narrow(&all, chosen.len(), list);
        }
        choices.push(MakersChoice { maker: GpuMaker::Amd, chosen });
        if let Some(list) = VisibleList::of("ZE_AFFINITY_MASK", ours) {
            let (devices, mask) = (&self.devices, &list.value);
            let chosen = match ours("ZE_FLAT_DEVICE_HIERARCHY").as_deref() {
                Some("COMPOSITE") => composite(mask, &whole(devices, GpuMaker::Intel)),
                _ => masked(mask, flat(devices, GpuMaker::Intel)),
            };
            let units = chosen.iter().copied().flat_map(ChosenGpu::split).count();
            narrow(&flat(&self.devices, GpuMaker::Intel), units, list);
            choices.push(MakersChoice { maker: GpuMaker::Intel, chosen });
        }
        self.devices = left(&self.devices, &choices);
        restrictions
    }
}

/// A variable that leaves out GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restriction {
    /// Name of the variable.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// Number of GPUs that it leaves out.
    pub gpus: usize,
}

/// A variable that lists GPUs.
pub(crate) struct VisibleList {
    name: &'static str,
    pub(crate) value: String,
}

impl VisibleList {
    fn of(name: &'static str, ours: &dyn Fn(&str) -> Option<String>) -> Option<Self> {
        ours(name).map(|value| Self { name, value })
    }

    /// The list that HIP reads. For GPUs of AMD, `CUDA_VISIBLE_DEVICES` is another name of it; an empty one
    /// shows all GPUs.
    pub(crate) fn above_rocr(ours: &dyn Fn(&str) -> Option<String>) -> Option<Self> {
        let names = ["HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"];
        let mut lists = names.into_iter().filter_map(|name| Self::of(name, ours));
        lists.find(|list| !list.value.is_empty())
    }
}

/// The GPUs of a maker that are chosen.
struct MakersChoice<'a> {
    maker: GpuMaker,
    chosen: Vec<ChosenGpu<'a>>,
}

/// The devices without what choices leave out.
fn left(devices: &[Device], choices: &[MakersChoice<'_>]) -> Vec<Device> {
    let kept = devices.iter().filter_map(|device| {
        let is_of_maker = |choice: &&MakersChoice<'_>| device.kind == DeviceKind::Gpu(choice.maker);
        let Some(choice) = choices.iter().find(is_of_maker) else { return Some(device.clone()) };
        let of_device = choice.chosen.iter().filter(|gpu| std::ptr::eq(gpu.device, device));
        let of_device: Vec<&ChosenGpu<'_>> = of_device.collect();
        let mut kept = device.clone();
        if of_device.iter().all(|gpu| gpu.part.is_some()) {
            let is_chosen = |part: &DevicePart| {
                let mut parts = of_device.iter().filter_map(|gpu| gpu.part);
                parts.any(|one| one.number == part.number)
            };
            kept.parts.retain(is_chosen);
        }
        (!of_device.is_empty()).then_some(kept)
    });
    kept.collect()
}

pub(crate) fn whole(devices: &[Device], maker: GpuMaker) -> Vec<ChosenGpu<'_>> {
    let of_maker = devices.iter().filter(|device| device.kind == DeviceKind::Gpu(maker));
    of_maker.map(|device| ChosenGpu { device, part: None }).collect()
}

/// Each part of a GPU as one, and GPUs without parts.
pub(crate) fn flat(devices: &[Device], maker: GpuMaker) -> Vec<ChosenGpu<'_>> {
    whole(devices, maker).into_iter().flat_map(ChosenGpu::split).collect()
}

fn parts(device: &Device) -> Vec<ChosenGpu<'_>> {
    device.parts.iter().map(|part| ChosenGpu { device, part: Some(part) }).collect()
}

/// GPUs that a list of CUDA or ROCm names, in the order of the list: by their places in `all`, by UUIDs, or
/// by as many of the first characters of a UUID as tell them apart. The list ends at the first word that
/// names none, as `-1`. A GPU that is named again is there once. Places are those of
/// `CUDA_DEVICE_ORDER=PCI_BUS_ID`; for ROCm, each partition of a GPU has one.
fn in_order<'a>(list: &str, all: &[ChosenGpu<'a>]) -> Vec<ChosenGpu<'a>> {
    let mut chosen: Vec<ChosenGpu<'a>> = Vec::new();
    for word in list.split(',').map(str::trim) {
        let named = match word.parse::<usize>() {
            Ok(number) => all.get(number).copied(),
            Err(_) => by_uuid(word, all),
        };
        let Some(gpu) = named else { break };
        if !chosen.contains(&gpu) {
            chosen.push(gpu);
        }
    }
    chosen
}

/// The only GPU or part whose UUID begins with `word`.
pub(crate) fn by_uuid<'a>(word: &str, all: &[ChosenGpu<'a>]) -> Option<ChosenGpu<'a>> {
    if !word.starts_with("GPU-") && !word.starts_with("MIG-") {
        return None;
    }
    let with_parts = all.iter().flat_map(|gpu| match gpu.part {
        Some(_) => vec![*gpu],
        None => [vec![*gpu], parts(gpu.device)].concat(),
    });
    let found = with_parts.filter(|gpu| gpu.uuid().is_some_and(|uuid| uuid.starts_with(word)));
    let found: Vec<ChosenGpu<'a>> = found.collect();
    let exact = found.iter().find(|gpu| gpu.uuid() == Some(word));
    exact.or(found.first().filter(|_| found.len() == 1)).copied()
}

/// GPUs that `ZE_AFFINITY_MASK` lists where each tile is a device, as by default; all for an empty mask.
/// Words that name none are passed over, and the order stays.
fn masked<'a>(mask: &str, all: Vec<ChosenGpu<'a>>) -> Vec<ChosenGpu<'a>> {
    let listed = listed(mask);
    let is_listed = |number: usize| mask.trim().is_empty() || listed.contains(&number);
    let chosen = all.into_iter().enumerate().filter(|(number, _)| is_listed(*number));
    chosen.map(|(_, gpu)| gpu).collect()
}

/// Numbers of a mask, in ascending order.
pub(crate) fn listed(mask: &str) -> BTreeSet<usize> {
    mask.split(',').filter_map(|word| word.trim().parse().ok()).collect()
}

/// The same where `ZE_FLAT_DEVICE_HIERARCHY` is `COMPOSITE`: `0` is a device, `0.1` its second tile.
fn composite<'a>(mask: &str, all: &[ChosenGpu<'a>]) -> Vec<ChosenGpu<'a>> {
    let words: Vec<&str> = mask.split(',').map(str::trim).collect();
    if mask.trim().is_empty() {
        return all.to_vec();
    }
    let chosen = all.iter().enumerate().flat_map(|(number, gpu)| {
        if words.iter().any(|word| word.parse() == Ok(number)) {
            return vec![*gpu];
        }
        let is_listed = |part: &ChosenGpu<'_>| {
            let part = part.part.map_or(0, |part| part.number);
            words.contains(&format!("{number}.{part}").as_str())
        };
        parts(gpu.device).into_iter().filter(is_listed).collect()
    });
    chosen.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::PartKind;
    use crate::processor_set::ProcessorSet;

    fn gpu(maker: GpuMaker, uuid: Option<&str>, parts: &[Option<&str>]) -> Device {
        let kind = match maker {
            GpuMaker::Nvidia => PartKind::Mig,
            GpuMaker::Amd => PartKind::Partition,
            _ => PartKind::Tile,
        };
        let parts = (0..).zip(parts).map(|(number, uuid)| DevicePart {
            number,
            kind,
            uuid: uuid.map(str::to_owned),
        });
        Device {
            kind: DeviceKind::Gpu(maker),
            names: Vec::new(),
            uuid: uuid.map(str::to_owned),
            pci: None,
            near: ProcessorSet::default(),
            memory: None,
            parts: parts.collect(),
        }
    }

    fn value(variables: &[(&str, &str)], wanted: &str) -> Option<String> {
        let found = variables.iter().find(|(name, _)| *name == wanted);
        found.map(|(_, value)| (*value).to_owned())
    }

    /// Places of the chosen GPUs among all devices, with their parts.
    fn named(chosen: &[ChosenGpu<'_>], devices: &[Device]) -> Vec<String> {
        let name = |gpu: &ChosenGpu<'_>| {
            let at = devices.iter().position(|device| std::ptr::eq(device, gpu.device)).unwrap();
            gpu.part.map_or(at.to_string(), |part| format!("{at}.{}", part.number))
        };
        chosen.iter().map(name).collect()
    }

    #[test]
    fn cuda_lists_end_at_the_first_word_that_names_none() {
        let nvidia = |uuid, parts: &[Option<&str>]| gpu(GpuMaker::Nvidia, Some(uuid), parts);
        let mig = [Some("MIG-c7384736-a75d"), Some("MIG-GPU-aa11-0000/2/0")];
        let devices = [
            gpu(GpuMaker::Other, None, &[]),
            nvidia("GPU-aa11-0000", &mig),
            nvidia("GPU-aa22-0000", &[]),
            nvidia("GPU-bb33-0000", &[]),
        ];
        let cases: [(&str, &[&str]); 14] = [
            ("0,1,2", &["1", "2", "3"]),
            ("2,1", &["3", "2"]),
            (" 2 , 0", &["3", "1"]),
            ("0,2,-1,1", &["1", "3"]),
            ("3", &[]),
            ("", &[]),
            ("none", &[]),
            ("NoDevFiles", &[]),
            ("GPU-bb", &["3"]),
            ("GPU-aa", &[]),
            ("GPU-aa22-0000,0", &["2", "1"]),
            ("MIG-c7384736-a75d", &["1.0"]),
            ("MIG-GPU-aa11-0000/2/0,1,1", &["1.1", "2"]),
            ("1,MIG-no-such,0", &["2"]),
        ];
        for (list, expected) in cases {
            let chosen = in_order(list, &whole(&devices, GpuMaker::Nvidia));
            assert_eq!(named(&chosen, &devices), expected, "{list}");
        }
    }

    #[test]
    fn partitions_of_amd_are_gpus() {
        let devices = [
            gpu(GpuMaker::Amd, Some("GPU-11"), &[Some("GPU-21"), Some("GPU-22")]),
            gpu(GpuMaker::Amd, Some("GPU-31"), &[]),
        ];
        let cases: [(&str, &[&str]); 5] = [
            ("0,2", &["0.0", "1"]),
            ("GPU-22", &["0.1"]),
            ("1,GPU-31", &["0.1", "1"]),
            ("3,0", &[]),
            ("", &[]),
        ];
        for (list, expected) in cases {
            let chosen = in_order(list, &flat(&devices, GpuMaker::Amd));
            assert_eq!(named(&chosen, &devices), expected, "{list}");
        }
    }

    #[test]
    fn gpus_that_are_not_chosen_are_left_out() {
        let devices = vec![
            gpu(GpuMaker::Amd, None, &[Some("GPU-21"), Some("GPU-22"), Some("GPU-23")]),
            gpu(GpuMaker::Nvidia, None, &[]),
            gpu(GpuMaker::Amd, None, &[]),
        ];
        let left = |variables: &[(&str, &str)]| {
            let mut all = NodeHardware { devices: devices.clone(), ..NodeHardware::default() };
            let restrictions = all.leave_out_by_variables(&|name| value(variables, name));
            let shown = |device: &Device| {
                let DeviceKind::Gpu(maker) = device.kind else { panic!() };
                format!(
                    "{maker:?}{:?}",
                    device.parts.iter().map(|part| part.number).collect::<Vec<_>>()
                )
            };
            let counts = restrictions.iter().map(|one| format!("{}: {}", one.name, one.gpus));
            let left = all.devices.iter().map(shown).collect::<Vec<_>>();
            (left, counts.collect::<Vec<_>>())
        };
        let of = |left: &[&str], counts: &[&str]| {
            [left, counts].map(|texts| texts.iter().map(|text| (*text).to_owned()).collect())
        };
        let check = |variables: &[(&str, &str)], expected: [&[&str]; 2]| {
            let [devices, counts]: [Vec<String>; 2] = of(expected[0], expected[1]);
            assert_eq!(left(variables), (devices, counts), "{variables:?}");
        };
        let all: &[&str] = &["Amd[0, 1, 2]", "Nvidia[]", "Amd[]"];
        check(&[], [all, &[]]);
        check(&[("ROCR_VISIBLE_DEVICES", "0,1,2,3")], [all, &[]]);
        let two: &[&str] = &["Amd[0, 2]", "Nvidia[]"];
        check(&[("ROCR_VISIBLE_DEVICES", "2,0")], [two, &["ROCR_VISIBLE_DEVICES: 2"]]);
        check(&[("ROCR_VISIBLE_DEVICES", "-1")], [&["Nvidia[]"], &["ROCR_VISIBLE_DEVICES: 4"]]);
        // HIP counts what is left, in the order of the list below it; CUDA_VISIBLE_DEVICES is another name.
        let lists = [("ROCR_VISIBLE_DEVICES", "2,0"), ("HIP_VISIBLE_DEVICES", "0")];
        let counts: &[&str] = &["ROCR_VISIBLE_DEVICES: 2", "HIP_VISIBLE_DEVICES: 1"];
        check(&lists, [&["Amd[2]", "Nvidia[]"], counts]);
        let counts: &[&str] = &["CUDA_VISIBLE_DEVICES: 3"];
        check(&[("CUDA_VISIBLE_DEVICES", "0")], [&["Amd[0]", "Nvidia[]"], counts]);
        let empty = [("CUDA_VISIBLE_DEVICES", ""), ("HIP_VISIBLE_DEVICES", "")];
        check(&empty, [&["Amd[0, 1, 2]", "Amd[]"], &["CUDA_VISIBLE_DEVICES: 1"]]);
        let counts: &[&str] = &["CUDA_VISIBLE_DEVICES: 1", "HIP_VISIBLE_DEVICES: 3"];
        let lists = [("CUDA_VISIBLE_DEVICES", ""), ("HIP_VISIBLE_DEVICES", "3")];
        check(&lists, [&["Amd[]"], counts]);
    }

    #[test]
    fn masks_of_level_zero_leave_out_tiles() {
        let card = gpu(GpuMaker::Intel, None, &[None, None]);
        let devices = vec![card.clone(), card];
        let left = |variables: &[(&str, &str)]| {
            let mut all = NodeHardware { devices: devices.clone(), ..NodeHardware::default() };
            let restrictions = all.leave_out_by_variables(&|name| value(variables, name));
            let tiles = |device: &Device| device.parts.iter().map(|part| part.number).collect();
            let tiles = all.devices.iter().map(tiles).collect::<Vec<Vec<u32>>>();
            (tiles, restrictions.first().map_or(0, |one| one.gpus))
        };
        assert_eq!(left(&[("ZE_AFFINITY_MASK", "1,2")]), (vec![vec![1], vec![0]], 2));
        let hierarchy = ("ZE_FLAT_DEVICE_HIERARCHY", "COMPOSITE");
        let composite = |mask| left(&[("ZE_AFFINITY_MASK", mask), hierarchy]);
        assert_eq!(composite("1"), (vec![vec![0, 1]], 2));
        assert_eq!(composite("0.1,1"), (vec![vec![1], vec![0, 1]], 1));
        assert_eq!(composite(""), (vec![vec![0, 1]; 2], 0));
    }

    #[test]
    fn masks_of_level_zero_keep_the_order_of_the_system() {
        let card = gpu(GpuMaker::Intel, None, &[None, None]);
        let devices = [card.clone(), gpu(GpuMaker::Nvidia, None, &[]), card];
        let tiles: [(&str, &[&str]); 4] = [
            ("3,0", &["0.0", "2.1"]),
            ("", &["0.0", "0.1", "2.0", "2.1"]),
            ("9", &[]),
            ("x,1", &["0.1"]),
        ];
        for (mask, expected) in tiles {
            let chosen = masked(mask, flat(&devices, GpuMaker::Intel));
            assert_eq!(named(&chosen, &devices), expected, "{mask}");
        }
        let devices_and_tiles: [(&str, &[&str]); 4] = [
            ("1,0.1", &["0.1", "2"]),
            ("", &["0", "2"]),
            ("0.0,0.1", &["0.0", "0.1"]),
            ("0.7,5", &[]),
        ];
        for (mask, expected) in devices_and_tiles {
            let chosen = composite(mask, &whole(&devices, GpuMaker::Intel));
            assert_eq!(named(&chosen, &devices), expected, "{mask}");
        }
    }
}
