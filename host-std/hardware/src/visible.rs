//! GPUs that a batch system or a user chooses by a variable of the libraries, as `CUDA_VISIBLE_DEVICES`.

use crate::device::{Device, DeviceKind, DevicePart, GpuMaker};
use crate::model::NodeHardware;

/// Value of a variable that chooses GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuChoice<'a> {
    /// `CUDA_VISIBLE_DEVICES`: numbers, UUIDs of GPUs or of MIG instances, or as many of their first
    /// characters as tell them apart. The list ends at the first word that names none, as `-1`.
    Cuda(&'a str),
    /// `ROCR_VISIBLE_DEVICES`, and `HIP_VISIBLE_DEVICES` among the GPUs that the former leaves: as for CUDA,
    /// where each partition of a GPU is one.
    Rocm(&'a str),
    /// `ZE_AFFINITY_MASK`, where `ZE_FLAT_DEVICE_HIERARCHY` makes each tile a device, as by default.
    LevelZeroFlat(&'a str),
    /// The same for `COMPOSITE`: `0` is a device, `0.1` its second tile.
    LevelZeroComposite(&'a str),
}

/// A GPU, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChosenGpu<'a> {
    /// The GPU.
    pub device: &'a Device,
    /// The part; `None` for the whole.
    pub part: Option<&'a DevicePart>,
}

impl GpuChoice<'_> {
    /// Maker of the GPUs among which it chooses.
    pub const fn maker(&self) -> GpuMaker {
        match self {
            Self::Cuda(_) => GpuMaker::Nvidia,
            Self::Rocm(_) => GpuMaker::Amd,
            Self::LevelZeroFlat(_) | Self::LevelZeroComposite(_) => GpuMaker::Intel,
        }
    }

    /// The GPUs that are chosen from `devices`, in the order in which libraries number them. Numbers count
    /// the GPUs of the maker in the order of `devices`, which is that of `CUDA_DEVICE_ORDER=PCI_BUS_ID`.
    pub fn of<'a>(&self, devices: &'a [Device]) -> Vec<ChosenGpu<'a>> {
        match *self {
            Self::Cuda(list) => in_order(list, &whole(devices, GpuMaker::Nvidia)),
            Self::Rocm(list) => in_order(list, &flat(devices, GpuMaker::Amd)),
            Self::LevelZeroFlat(mask) => masked(mask, flat(devices, GpuMaker::Intel)),
            Self::LevelZeroComposite(mask) => composite(mask, &whole(devices, GpuMaker::Intel)),
        }
    }
}

impl NodeHardware {
    /// Removes the GPUs, and the parts of GPUs, that a choice leaves out. The others keep their order, and
    /// GPUs of other makers stay.
    pub fn leave_out_unchosen(&mut self, choice: GpuChoice<'_>) {
        let maker = DeviceKind::Gpu(choice.maker());
        let mut left = Vec::new();
        let chosen = choice.of(&self.devices);
        for device in &self.devices {
            let of_device = chosen.iter().filter(|gpu| std::ptr::eq(gpu.device, device));
            let of_device: Vec<&ChosenGpu<'_>> = of_device.collect();
            if device.kind == maker && of_device.is_empty() {
                continue;
            }
            let mut device = device.clone();
            if !of_device.is_empty() && of_device.iter().all(|gpu| gpu.part.is_some()) {
                let is_chosen = |part: &DevicePart| {
                    of_device
                        .iter()
                        .any(|gpu| gpu.part.is_some_and(|one| one.number == part.number))
                };
                device.parts.retain(is_chosen);
            }
            left.push(device);
        }
        self.devices = left;
    }
}

fn whole(devices: &[Device], maker: GpuMaker) -> Vec<ChosenGpu<'_>> {
    let of_maker = devices.iter().filter(|device| device.kind == DeviceKind::Gpu(maker));
    of_maker.map(|device| ChosenGpu { device, part: None }).collect()
}

/// Each part of a GPU as one, and GPUs without parts.
fn flat(devices: &[Device], maker: GpuMaker) -> Vec<ChosenGpu<'_>> {
    let gpus = whole(devices, maker).into_iter();
    gpus.flat_map(|gpu| match gpu.device.parts.is_empty() {
        true => vec![gpu],
        false => parts(gpu.device),
    })
    .collect()
}

fn parts(device: &Device) -> Vec<ChosenGpu<'_>> {
    device.parts.iter().map(|part| ChosenGpu { device, part: Some(part) }).collect()
}

/// The GPUs that a list names, up to the first word that names none. One that is named again is there once.
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
fn by_uuid<'a>(word: &str, all: &[ChosenGpu<'a>]) -> Option<ChosenGpu<'a>> {
    if !word.starts_with("GPU-") && !word.starts_with("MIG-") {
        return None;
    }
    let with_parts = all.iter().flat_map(|gpu| match gpu.part {
        Some(_) => vec![*gpu],
        None => [vec![*gpu], parts(gpu.device)].concat(),
    });
    let uuid = |gpu: &ChosenGpu<'a>| match gpu.part {
        Some(part) => part.uuid.as_deref(),
        None => gpu.device.uuid.as_deref(),
    };
    let found = with_parts.filter(|gpu| uuid(gpu).is_some_and(|uuid| uuid.starts_with(word)));
    let found: Vec<ChosenGpu<'a>> = found.collect();
    let exact = found.iter().find(|gpu| uuid(gpu) == Some(word));
    exact.or(found.first().filter(|_| found.len() == 1)).copied()
}

/// Those of `all` that a mask lists; without a mask all. Words that name none are passed over.
fn masked<'a>(mask: &str, all: Vec<ChosenGpu<'a>>) -> Vec<ChosenGpu<'a>> {
    let listed: Vec<usize> = mask.split(',').filter_map(|word| word.trim().parse().ok()).collect();
    let is_listed = |number: usize| mask.trim().is_empty() || listed.contains(&number);
    let chosen = all.into_iter().enumerate().filter(|(number, _)| is_listed(*number));
    chosen.map(|(_, gpu)| gpu).collect()
}

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
            addresses: Vec::new(),
            parts: parts.collect(),
        }
    }

    /// Places of the chosen GPUs among all devices, with their parts.
    fn chosen(choice: GpuChoice<'_>, devices: &[Device]) -> Vec<String> {
        let name = |gpu: &ChosenGpu<'_>| {
            let at = devices.iter().position(|device| std::ptr::eq(device, gpu.device)).unwrap();
            gpu.part.map_or(at.to_string(), |part| format!("{at}.{}", part.number))
        };
        choice.of(devices).iter().map(name).collect()
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
            assert_eq!(chosen(GpuChoice::Cuda(list), &devices), expected, "{list}");
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
            assert_eq!(chosen(GpuChoice::Rocm(list), &devices), expected, "{list}");
        }
    }

    #[test]
    fn gpus_that_are_not_chosen_are_left_out() {
        let devices = vec![
            gpu(GpuMaker::Amd, None, &[Some("GPU-21"), Some("GPU-22"), Some("GPU-23")]),
            gpu(GpuMaker::Nvidia, None, &[]),
            gpu(GpuMaker::Amd, None, &[]),
        ];
        let left = |choice| {
            let mut all = NodeHardware { devices: devices.clone(), ..NodeHardware::default() };
            all.leave_out_unchosen(choice);
            let shown = |device: &Device| (device.kind, device.parts.len());
            all.devices.iter().map(shown).collect::<Vec<_>>()
        };
        let [amd, nvidia] = [GpuMaker::Amd, GpuMaker::Nvidia].map(DeviceKind::Gpu);
        assert_eq!(left(GpuChoice::Rocm("2,0")), [(amd, 2), (nvidia, 0)]);
        assert_eq!(left(GpuChoice::Rocm("-1")), [(nvidia, 0)]);
        assert_eq!(left(GpuChoice::Cuda("")), [(amd, 3), (amd, 0)]);
    }

    #[test]
    fn masks_of_level_zero_keep_the_order_of_the_system() {
        let card = gpu(GpuMaker::Intel, None, &[None, None]);
        let devices = [card.clone(), gpu(GpuMaker::Nvidia, None, &[]), card];
        let flat: [(&str, &[&str]); 4] = [
            ("3,0", &["0.0", "2.1"]),
            ("", &["0.0", "0.1", "2.0", "2.1"]),
            ("9", &[]),
            ("x,1", &["0.1"]),
        ];
        for (mask, expected) in flat {
            assert_eq!(chosen(GpuChoice::LevelZeroFlat(mask), &devices), expected, "{mask}");
        }
        let composite: [(&str, &[&str]); 4] = [
            ("1,0.1", &["0.1", "2"]),
            ("", &["0", "2"]),
            ("0.0,0.1", &["0.0", "0.1"]),
            ("0.7,5", &[]),
        ];
        for (mask, expected) in composite {
            assert_eq!(chosen(GpuChoice::LevelZeroComposite(mask), &devices), expected, "{mask}");
        }
    }
}
