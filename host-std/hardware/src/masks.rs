//! Variables by which the libraries of a rank know its GPUs, network cards and threads.
//!
//! | stack | variable | why |
//! | --- | --- | --- |
//! | CUDA | `CUDA_VISIBLE_DEVICES` | UUIDs: numbers depend on `CUDA_DEVICE_ORDER`, and on what is hidden |
//! | containers | `NVIDIA_VISIBLE_DEVICES` | the same UUIDs: numbers count again inside a container |
//! | ROCm | `ROCR_VISIBLE_DEVICES` | the lowest layer: OpenMP reads it, too, and HIP counts what it leaves |
//! | Level Zero | `ZE_AFFINITY_MASK` | knows numbers only; `ZE_FLAT_DEVICE_HIERARCHY` says of what |
//!
//! Sources: CUDA C++ Programming Guide, CUDA Environment Variables; MPS documentation, CUDA_VISIBLE_DEVICES;
//! MIG User Guide; NVIDIA Container Toolkit, GPU Enumeration; ROCm documentation, GPU isolation techniques;
//! Level Zero specification, Environment Variables; UCX FAQ; `fi_cxi(7)`, `fi_efa(7)`, `fi_verbs(7)`,
//! `fi_tcp(7)`; OpenMP 5.2, chapter 21. Where masks went wrong: flux-framework/flux-core#7790 (numbers of the
//! node in a step that hides GPUs), #4534 and mcmonkeyprojects/SwarmUI#565 (the same numbers for ROCm and for
//! HIP).

use crate::device::{Device, DeviceKind, Fabric, GpuMaker, PartKind};
use crate::memory_first::{RankPlace, share};
use crate::model::{GroupKind, NodeHardware};
use crate::processor_set::ProcessorSet;
use crate::visible::{ChosenGpu, VisibleList, by_uuid, flat, listed, whole};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// How a rank sees the GPUs of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expose {
    /// Its own only. Some stacks reach the GPUs of other ranks directly only where both see both.
    Mask,
    /// All, its own first and then the nearest. A process sees one MIG instance and nothing beside it, and so
    /// a rank with one has no others. Level Zero has an order of its own: there, this is [`Self::Env`].
    Order,
    /// All as they are; [`GPUS`] tells which are its own.
    Env,
}

/// Numbers by which the libraries of a rank know its GPUs, for [`Expose::Env`]: `0,3`. A MIG instance, which
/// has no number, has its UUID here.
pub const GPUS: &str = "PMI_LOCAL_GPUS";

/// A variable with its value.
pub type Variable = (&'static str, String);

/// Variables of a rank at a place. What is not in the place is not told: no GPUs, no network cards, 0
/// threads.
///
/// `ours` are the variables of the launcher. A list of GPUs among them has restricted `hardware`
/// ([`NodeHardware::leave_out_by_variables`]), and numbers count the GPUs as they were before: the new list
/// replaces the old one. Variables of threads that the user has set are not among the result.
pub fn variables(
    hardware: &NodeHardware,
    place: &RankPlace,
    expose: Expose,
    ours: &dyn Fn(&str) -> Option<String>,
) -> Vec<Variable> {
    let stacks = Stacks { hardware, place, ours };
    let mut all = stacks.gpus(expose);
    all.extend(stacks.nics());
    all.extend(stacks.threads());
    all
}

/// GPUs of a place for which no variable can be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unnameable {
    /// MIG instances have names that only a library knows.
    #[error(
        "MIG instance {instance} of GPU {gpu} has no UUID, by which alone CUDA knows it: \
         'nvidia-smi -L' does not list it"
    )]
    InstanceWithoutUuid {
        /// Name of the GPU.
        gpu: String,
        /// Number of the instance.
        instance: u32,
    },
    /// A process of CUDA has one MIG instance at most.
    #[error(
        "{count} GPUs with MIG instances among them are for one rank, but CUDA shows one instance to a \
         process"
    )]
    SeveralInstances {
        /// Number of GPUs of the rank.
        count: usize,
    },
}

/// Checks that libraries can be told of the GPUs of a place.
///
/// # Errors
///
/// [`Unnameable`], for MIG instances only.
pub fn check(hardware: &NodeHardware, place: &RankPlace) -> Result<(), Unnameable> {
    let own = own_gpus(hardware, place);
    let instances = || own.iter().filter(|gpu| is_instance(gpu));
    if let Some(unnamed) = instances().find(|gpu| gpu.uuid().is_none()) {
        return Err(Unnameable::InstanceWithoutUuid {
            gpu: unnamed.device.name(),
            instance: unnamed.part.map_or(0, |part| part.number),
        });
    }
    match instances().next().is_some() && own.len() > 1 {
        true => Err(Unnameable::SeveralInstances { count: own.len() }),
        false => Ok(()),
    }
}

/// A variable of the user that names GPUs which a variable of a rank hides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// Variable of the user.
    pub users: Variable,
    /// Variable of the rank.
    pub ranks: Variable,
}

/// Contradictions between `variables` of a rank and what the user has set. SYCL applies
/// `ONEAPI_DEVICE_SELECTOR` to the GPUs that `ZE_AFFINITY_MASK` leaves, counted from 0.
pub fn contradictions(
    variables: &[Variable],
    ours: &dyn Fn(&str) -> Option<String>,
) -> Vec<Contradiction> {
    let masks = variables.iter().filter(|(name, _)| *name == ZE_AFFINITY_MASK);
    let found = masks.filter_map(|(name, mask)| {
        let selector = ours(ONEAPI_DEVICE_SELECTOR)?;
        let left = mask.split(',').count();
        is_beyond(&selector, left).then(|| Contradiction {
            users: (ONEAPI_DEVICE_SELECTOR, selector),
            ranks: (*name, mask.clone()),
        })
    });
    found.collect()
}

/// True if a selector, as `level_zero:0,1;opencl:cpu`, names only numbers of GPUs that are not there.
fn is_beyond(selector: &str, gpus: usize) -> bool {
    let of_level_zero = selector.split(';').filter_map(|term| {
        let (backend, devices) = term.trim().split_once(':')?;
        ["level_zero", "*"].contains(&backend).then_some(devices)
    });
    let words: Vec<&str> = of_level_zero.flat_map(|devices| devices.split(',')).collect();
    let number = |word: &&str| word.split('.').next().and_then(|root| root.trim().parse().ok());
    !words.is_empty() && words.iter().all(|word| number(word).is_some_and(|one: usize| one >= gpus))
}

struct Stacks<'a> {
    hardware: &'a NodeHardware,
    place: &'a RankPlace,
    ours: &'a dyn Fn(&str) -> Option<String>,
}

impl Stacks<'_> {
    fn gpus(&self, expose: Expose) -> Vec<Variable> {
        let own = own_gpus(self.hardware, self.place);
        if own.is_empty() {
            return Vec::new();
        }
        let is_of_intel = |gpu: &ChosenGpu<'_>| gpu.device.kind == DeviceKind::Gpu(GpuMaker::Intel);
        let is_told =
            expose == Expose::Env || expose == Expose::Order && own.iter().all(is_of_intel);
        if is_told {
            let names: Vec<String> = own.iter().map(|gpu| self.position(gpu)).collect();
            return vec![(GPUS, names.join(","))];
        }
        let shown = match expose {
            Expose::Order if !own.iter().any(is_instance) => self.nearest_first(own),
            _ => own,
        };
        let of = |maker| -> Vec<ChosenGpu<'_>> {
            let kind = DeviceKind::Gpu(maker);
            shown.iter().filter(|gpu| gpu.device.kind == kind).copied().collect()
        };
        let stacks = [
            self.nvidia(&of(GpuMaker::Nvidia)),
            self.amd(&of(GpuMaker::Amd)),
            self.intel(&of(GpuMaker::Intel)),
        ];
        let mut all: Vec<Variable> = Vec::new();
        for (name, value) in stacks.into_iter().flatten() {
            // On a machine with GPUs of NVIDIA and AMD, their list is that of NVIDIA.
            if !all.iter().any(|(other, _)| *other == name) {
                all.push((name, value));
            }
        }
        all
    }

    /// The GPUs of the rank, and then the others: those that share its processors, those of its packages, and
    /// the rest, each in the order of their addresses.
    fn nearest_first<'g>(&'g self, own: Vec<ChosenGpu<'g>>) -> Vec<ChosenGpu<'g>> {
        let place = self.place;
        let packages = self.hardware.sets(|kind| *kind == GroupKind::Package);
        let packages = packages.into_iter().filter(|package| package.meets(&place.processors));
        let mut package = ProcessorSet::default();
        packages.for_each(|one| package.extend(one));
        let mut others = self.hardware.usable_gpus();
        others.retain(|gpu| !own.contains(gpu) && !is_instance(gpu));
        others.sort_by_key(|gpu| {
            let device = gpu.device;
            let is_local = device.near.meets(&place.processors)
                || device.memory.is_some_and(|memory| place.memories.contains(&memory));
            Reverse((is_local, device.near.meets(&package)))
        });
        [own, others].concat()
    }

    fn nvidia(&self, shown: &[ChosenGpu<'_>]) -> Vec<Variable> {
        if shown.is_empty() {
            return Vec::new();
        }
        let named = self.named(GpuMaker::Nvidia);
        let words: Option<Vec<String>> = shown.iter().map(|gpu| word(gpu, &named)).collect();
        // An instance without a UUID has no name: `check` says so before anything starts.
        let Some(words) = words else { return Vec::new() };
        let list = words.join(",");
        if shown.iter().all(|gpu| gpu.uuid().is_some()) {
            return vec![(CUDA_VISIBLE_DEVICES, list.clone()), (NVIDIA_VISIBLE_DEVICES, list)];
        }
        vec![(CUDA_DEVICE_ORDER, "PCI_BUS_ID".to_owned()), (CUDA_VISIBLE_DEVICES, list)]
    }

    /// `ROCR_VISIBLE_DEVICES`, and nothing above it: what is set twice hides twice. A list of a layer above
    /// that is inherited counts the GPUs that are left, and so becomes all of these.
    fn amd(&self, shown: &[ChosenGpu<'_>]) -> Vec<Variable> {
        if shown.is_empty() {
            return Vec::new();
        }
        let named = self.named(GpuMaker::Amd);
        let words: Vec<String> = shown.iter().filter_map(|gpu| word(gpu, &named)).collect();
        let again: Vec<String> = (0..words.len()).map(|number| number.to_string()).collect();
        let inherited = ABOVE_ROCR.into_iter().filter(|name| (self.ours)(name).is_some());
        let inherited = inherited.map(|name| (name, again.join(",")));
        [(ROCR_VISIBLE_DEVICES, words.join(","))].into_iter().chain(inherited).collect()
    }

    fn intel(&self, shown: &[ChosenGpu<'_>]) -> Vec<Variable> {
        if shown.is_empty() {
            return Vec::new();
        }
        let words: Vec<String> = match self.is_composite() {
            true => shown.iter().filter_map(|gpu| self.composite(gpu)).collect(),
            false => {
                let named = self.named(GpuMaker::Intel);
                shown.iter().filter_map(|gpu| word(gpu, &named)).collect()
            }
        };
        let mut all = vec![(ZE_AFFINITY_MASK, words.join(","))];
        // Defaults differ between versions of the driver.
        let defaults = [(ZE_FLAT_DEVICE_HIERARCHY, "FLAT"), (ZE_ENABLE_PCI_ID_DEVICE_ORDER, "1")];
        let unset = defaults.into_iter().filter(|(name, _)| (self.ours)(name).is_none());
        all.extend(unset.map(|(name, value)| (name, value.to_owned())));
        all
    }

    fn is_composite(&self) -> bool {
        (self.ours)(ZE_FLAT_DEVICE_HIERARCHY).as_deref() == Some("COMPOSITE")
    }

    /// Word of a GPU or tile for the hierarchy `COMPOSITE`: `1` is a GPU, `1.0` its first tile.
    fn composite(&self, gpu: &ChosenGpu<'_>) -> Option<String> {
        let devices = whole(&self.hardware.devices, GpuMaker::Intel);
        let at = devices.iter().position(|other| std::ptr::eq(other.device, gpu.device))?;
        let mask = (self.ours)(ZE_AFFINITY_MASK).unwrap_or_default();
        let root = |word: &str| word.trim().split('.').next()?.parse::<usize>().ok();
        let roots: BTreeSet<usize> = mask.split(',').filter_map(root).collect();
        let number = roots.iter().nth(at).copied().unwrap_or(at);
        Some(gpu.part.map_or(number.to_string(), |part| format!("{number}.{}", part.number)))
    }

    /// GPUs of a maker as its libraries count them in the launcher's environment, each with its word in the
    /// lowest variable.
    fn named(&self, maker: GpuMaker) -> Vec<NamedGpu<'_>> {
        let (devices, list) = (&self.hardware.devices, self.ours);
        let (units, words) = match maker {
            GpuMaker::Nvidia => {
                (whole(devices, maker), list(CUDA_VISIBLE_DEVICES).map(|list| words(&list)))
            }
            GpuMaker::Amd => (flat(devices, maker), self.words_of_rocm()),
            _ => (
                flat(devices, maker),
                list(ZE_AFFINITY_MASK)
                    .filter(|mask| !mask.trim().is_empty())
                    .map(|mask| ascending(&mask)),
            ),
        };
        let words = words.unwrap_or_else(|| (0..units.len()).map(|at| at.to_string()).collect());
        let mut numbers: Vec<usize> = words.iter().filter_map(|word| word.parse().ok()).collect();
        // What follows names none: libraries ignore it, and so did the restriction.
        numbers.truncate(units.len());
        numbers.sort_unstable();
        let by_words: Vec<ChosenGpu<'_>> =
            words.iter().filter_map(|word| by_uuid(word, &units)).collect();
        // Restricted hardware has the GPUs in the order of their addresses, as numbers count them.
        let by_numbers: Vec<ChosenGpu<'_>> =
            units.iter().filter(|unit| !by_words.contains(unit)).copied().collect();
        let gpu = |word: &String| match word.parse::<usize>() {
            Ok(number) => {
                let at = numbers.iter().position(|one| *one == number)?;
                by_numbers.get(at).copied()
            }
            Err(_) => by_uuid(word, &units),
        };
        words
            .iter()
            .filter_map(|word| Some(NamedGpu { gpu: gpu(word)?, word: word.clone() }))
            .collect()
    }

    /// Words of `ROCR_VISIBLE_DEVICES` that a list of HIP, which counts them, leaves.
    fn words_of_rocm(&self) -> Option<Vec<String>> {
        let lowest = (self.ours)(ROCR_VISIBLE_DEVICES).map(|list| words(&list));
        let Some(above) = VisibleList::above_rocr(self.ours) else { return lowest };
        let above = words(&above.value).into_iter();
        let Some(lowest) = lowest else { return Some(above.collect()) };
        let word = |word: String| match word.parse::<usize>() {
            Ok(number) => lowest.get(number).cloned(),
            Err(_) => Some(word),
        };
        Some(above.map_while(word).collect())
    }

    /// How the libraries of a rank name a GPU if its variables are the launcher's.
    fn position(&self, gpu: &ChosenGpu<'_>) -> String {
        let DeviceKind::Gpu(maker) = gpu.device.kind else { return String::new() };
        let uuid = gpu.uuid().filter(|_| is_instance(gpu));
        let named = self.named(maker);
        let at = || named.iter().position(|one| one.gpu == *gpu).unwrap_or_default();
        uuid.map_or_else(|| at().to_string(), str::to_owned)
    }

    /// Network cards: each library has a variable for those that it drives, and none chooses the library.
    fn nics(&self) -> Vec<Variable> {
        let nics = self.hardware.nics();
        let own: Vec<&Device> =
            self.place.nics.iter().filter_map(|at| nics.get(*at).copied()).collect();
        let list = |fabric: Fabric, form: fn(&str) -> String| {
            let of_fabric = own.iter().filter(|nic| nic.kind == DeviceKind::Network(fabric));
            let names: Vec<String> = of_fabric.map(|nic| form(&nic.name())).collect();
            (!names.is_empty()).then(|| names.join(","))
        };
        let plain = |name: &str| name.to_owned();
        let verbs = list(Fabric::InfiniBand, plain);
        let lists = [
            (UCX_NET_DEVICES, list(Fabric::InfiniBand, |name| format!("{name}:1"))),
            (UCX_NET_DEVICES, list(Fabric::Ethernet, plain)),
            // It has one name, and no list.
            ("FI_VERBS_DEVICE_NAME", verbs.filter(|names| !names.contains(','))),
            ("FI_CXI_DEVICE_NAME", list(Fabric::Slingshot, plain)),
            ("FI_EFA_IFACE", list(Fabric::Efa, plain)),
            ("FI_TCP_IFACE", list(Fabric::Ethernet, plain).filter(|names| !names.contains(','))),
        ];
        lists.into_iter().filter_map(|(name, list)| Some((name, list?))).collect()
    }

    /// Variables of OpenMP, unless the user has set them, or a variable of a compiler with the same effect.
    fn threads(&self) -> Vec<Variable> {
        if self.place.threads == 0 {
            return Vec::new();
        }
        // As `4,2` for threads inside threads.
        let users = (self.ours)(OMP_NUM_THREADS);
        let first = users.as_deref().and_then(|list| list.split(',').next()?.trim().parse().ok());
        let threads = first.unwrap_or(self.place.threads);
        let is_free = [OMP_PLACES, "KMP_AFFINITY", "GOMP_CPU_AFFINITY"]
            .iter()
            .all(|name| (self.ours)(name).is_none());
        let places = self.places(threads);
        let is_bound = is_free && !places.is_empty();
        let all = [
            Some((OMP_NUM_THREADS, self.place.threads.to_string())),
            is_bound.then_some((OMP_PLACES, places)),
            is_bound.then(|| (OMP_PROC_BIND, "close".to_owned())),
        ];
        all.into_iter().flatten().filter(|(name, _)| (self.ours)(name).is_none()).collect()
    }

    /// A place for each thread: its share of the cores of the rank, or of their hardware threads where there
    /// are more threads than cores. Threads that outnumber these share them.
    fn places(&self, threads: u32) -> String {
        let own = self.hardware.cores().into_iter().map(|core| core.and(&self.place.processors));
        let mut units: Vec<ProcessorSet> = own.filter(|core| !core.is_empty()).collect();
        let threads = usize::try_from(threads).unwrap_or(usize::MAX);
        if threads > units.len() {
            let each = units.iter().flat_map(|core| core.iter().copied());
            units = each.map(|processor| ProcessorSet::from_iter([processor])).collect();
        }
        let threads = threads.min(units.len());
        let place = |thread: usize| {
            let processors = units[share(units.len(), threads, thread)].iter();
            let numbers = processors.flat_map(|unit| unit.iter().map(u32::to_string));
            format!("{{{}}}", numbers.collect::<Vec<_>>().join(","))
        };
        (0..threads).map(place).collect::<Vec<_>>().join(",")
    }
}

/// A GPU with its word in a list of its maker.
struct NamedGpu<'a> {
    gpu: ChosenGpu<'a>,
    word: String,
}

/// Word of a GPU in a list: the UUID if no other GPU has the same, else the number. Old drivers of AMD give
/// one UUID to all partitions of a GPU. MIG instances have no number.
fn word(gpu: &ChosenGpu<'_>, named: &[NamedGpu<'_>]) -> Option<String> {
    let is_only =
        |uuid: &&str| named.iter().filter(|other| other.gpu.uuid() == Some(uuid)).count() <= 1;
    let is_by_number = matches!(gpu.device.kind, DeviceKind::Gpu(GpuMaker::Intel));
    let uuid = gpu.uuid().filter(|_| !is_by_number).filter(is_only);
    let number = || named.iter().find(|other| other.gpu == *gpu).map(|other| other.word.clone());
    uuid.map(str::to_owned).or_else(number)
}

fn own_gpus<'a>(hardware: &'a NodeHardware, place: &RankPlace) -> Vec<ChosenGpu<'a>> {
    let usable = hardware.usable_gpus();
    place.gpus.iter().filter_map(|at| usable.get(*at).copied()).collect()
}

fn is_instance(gpu: &ChosenGpu<'_>) -> bool {
    gpu.part.is_some_and(|part| part.kind == PartKind::Mig)
}

/// Words of a list, each once.
fn words(list: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in list.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        if !words.iter().any(|other| other == word) {
            words.push(word.to_owned());
        }
    }
    words
}

/// Numbers of a mask, in their order.
fn ascending(mask: &str) -> Vec<String> {
    listed(mask).into_iter().map(|number| number.to_string()).collect()
}

const CUDA_DEVICE_ORDER: &str = "CUDA_DEVICE_ORDER";
const CUDA_VISIBLE_DEVICES: &str = "CUDA_VISIBLE_DEVICES";
const NVIDIA_VISIBLE_DEVICES: &str = "NVIDIA_VISIBLE_DEVICES";
const ROCR_VISIBLE_DEVICES: &str = "ROCR_VISIBLE_DEVICES";
/// Lists of HIP and OpenCL, which count the GPUs that `ROCR_VISIBLE_DEVICES` leaves.
const ABOVE_ROCR: [&str; 3] = ["HIP_VISIBLE_DEVICES", CUDA_VISIBLE_DEVICES, "GPU_DEVICE_ORDINAL"];
const ZE_AFFINITY_MASK: &str = "ZE_AFFINITY_MASK";
const ZE_FLAT_DEVICE_HIERARCHY: &str = "ZE_FLAT_DEVICE_HIERARCHY";
const ZE_ENABLE_PCI_ID_DEVICE_ORDER: &str = "ZE_ENABLE_PCI_ID_DEVICE_ORDER";
const ONEAPI_DEVICE_SELECTOR: &str = "ONEAPI_DEVICE_SELECTOR";
const UCX_NET_DEVICES: &str = "UCX_NET_DEVICES";
const OMP_NUM_THREADS: &str = "OMP_NUM_THREADS";
const OMP_PLACES: &str = "OMP_PLACES";
const OMP_PROC_BIND: &str = "OMP_PROC_BIND";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::described::MACHINES;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::{Index, select};
    use std::collections::BTreeMap;

    fn machine(name: &str) -> NodeHardware {
        let (_, text) = MACHINES.iter().find(|(own, _)| *own == name).unwrap();
        NodeHardware::of_description(text).unwrap()
    }

    fn gpus(gpus: &[usize]) -> RankPlace {
        RankPlace { gpus: gpus.to_vec(), ..RankPlace::default() }
    }

    fn nics(nics: &[usize]) -> RankPlace {
        RankPlace { nics: nics.to_vec(), ..RankPlace::default() }
    }

    /// Variables as `NAME=VALUE`, of a rank on hardware that the launcher's variables have restricted.
    fn told(
        hardware: &NodeHardware,
        place: &RankPlace,
        expose: Expose,
        ours: &[&str],
    ) -> Vec<String> {
        let pairs = || ours.iter().filter_map(|pair| pair.split_once('='));
        let ours = |wanted: &str| {
            pairs().find(|(name, _)| *name == wanted).map(|(_, value)| value.to_owned())
        };
        let mut hardware = hardware.clone();
        hardware.leave_out_by_variables(&ours);
        let all = variables(&hardware, place, expose, &ours).into_iter();
        all.map(|(name, value)| format!("{name}={value}")).collect()
    }

    const UUID: &str = "GPU-00000000-0000-4000-8000-00000000000";
    const MIG: &str = "MIG-00000000-0000-5000-8000-00000000000";

    #[test]
    fn cuda_has_uuids_where_they_are_known() {
        let dgx = machine("dgx-h100");
        let own = format!("{UUID}3,{UUID}5");
        let expected =
            [format!("CUDA_VISIBLE_DEVICES={own}"), format!("NVIDIA_VISIBLE_DEVICES={own}")];
        assert_eq!(told(&dgx, &gpus(&[3, 5]), Expose::Mask, &[]), expected);
        // They stay right in a step that shows some GPUs, in whatever order.
        let ours = ["CUDA_VISIBLE_DEVICES=5,4,2"];
        let expected = format!("CUDA_VISIBLE_DEVICES={UUID}3");
        assert_eq!(told(&dgx, &gpus(&[0]), Expose::Mask, &ours)[0], expected);
    }

    #[test]
    fn cuda_has_numbers_in_the_order_of_addresses_where_no_uuid_is_known() {
        let node = machine("eight-t4");
        let expected = ["CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES=4,6"];
        assert_eq!(told(&node, &gpus(&[4, 6]), Expose::Mask, &[]), expected);
        // The new list replaces the one of the step, and so has its numbers.
        let ours = ["CUDA_VISIBLE_DEVICES=6,1,3,9,2"];
        let second = told(&node, &gpus(&[1, 2]), Expose::Mask, &ours);
        assert_eq!(second[1], "CUDA_VISIBLE_DEVICES=3,6");
        // In a step whose other GPUs are not there, numbers count the rest.
        let mut confined = node;
        let of_first = |device: &Device| !device.is_gpu() || device.memory == Some(1);
        confined.devices.retain(of_first);
        let third = told(&confined, &gpus(&[0]), Expose::Mask, &[]);
        assert_eq!(third[1], "CUDA_VISIBLE_DEVICES=0");
    }

    #[test]
    fn mig_instances_have_uuids_or_none_can_be_told() {
        let mut dgx = machine("dgx-h100");
        let expected =
            [format!("CUDA_VISIBLE_DEVICES={MIG}2"), format!("NVIDIA_VISIBLE_DEVICES={MIG}2")];
        for expose in [Expose::Mask, Expose::Order] {
            assert_eq!(told(&dgx, &gpus(&[1]), expose, &[]), expected);
        }
        assert_eq!(told(&dgx, &gpus(&[1]), Expose::Env, &[]), [format!("PMI_LOCAL_GPUS={MIG}2")]);
        assert_eq!(check(&dgx, &gpus(&[1])), Ok(()));
        assert_eq!(check(&dgx, &gpus(&[2, 3])), Ok(()));
        let several = check(&dgx, &gpus(&[1, 2])).unwrap_err();
        assert_eq!(several, Unnameable::SeveralInstances { count: 2 });
        // A batch system chooses one by its UUID.
        let one = [format!("CUDA_VISIBLE_DEVICES={MIG}2")];
        assert_eq!(told(&dgx, &gpus(&[0]), Expose::Mask, &[&one[0]]), expected);
        let first = dgx.devices.iter_mut().find(|device| device.is_gpu()).unwrap();
        first.parts[1].uuid = None;
        let unnamed = Unnameable::InstanceWithoutUuid { gpu: "card1".to_owned(), instance: 1 };
        assert_eq!(check(&dgx, &gpus(&[1])), Err(unnamed));
        assert_eq!(told(&dgx, &gpus(&[1]), Expose::Mask, &[]), [""; 0]);
    }

    #[test]
    fn rocm_has_one_list_and_lists_above_it_count_what_it_leaves() {
        let mut node = machine("frontier");
        let expected = ["ROCR_VISIBLE_DEVICES=GPU-0000000000000005,GPU-0000000000000006"];
        assert_eq!(told(&node, &gpus(&[4, 5]), Expose::Mask, &[]), expected);
        // What Slurm sets for a step with all GPUs hides nothing, and what it says twice is said once.
        let ours = ["ROCR_VISIBLE_DEVICES=4,5,6,7", "CUDA_VISIBLE_DEVICES=1,2,3"];
        let expected = ["ROCR_VISIBLE_DEVICES=GPU-0000000000000007", "CUDA_VISIBLE_DEVICES=0"];
        assert_eq!(told(&node, &gpus(&[1]), Expose::Mask, &ours), expected);
        for device in &mut node.devices {
            device.uuid = None;
        }
        let expected = ["ROCR_VISIBLE_DEVICES=6", "CUDA_VISIBLE_DEVICES=0"];
        assert_eq!(told(&node, &gpus(&[1]), Expose::Mask, &ours), expected);
        let ours = ["HIP_VISIBLE_DEVICES=7,2"];
        let expected = ["ROCR_VISIBLE_DEVICES=2,7", "HIP_VISIBLE_DEVICES=0,1"];
        assert_eq!(told(&node, &gpus(&[0, 1]), Expose::Mask, &ours), expected);
        // In a step that shows four GPUs only, numbers are those of the step.
        node.devices.retain(|device| device.pci.as_ref().is_some_and(|pci| pci.address.bus > 0xd0));
        assert_eq!(told(&node, &gpus(&[3]), Expose::Mask, &[]), ["ROCR_VISIBLE_DEVICES=3"]);
    }

    #[test]
    fn partitions_with_one_uuid_have_numbers() {
        let text = "\
packages 1
cores 4
memory 0 1GiB
device 0000:01:00.0 1002:74a1 0380 names=card0 memory=0 partitions=2 uuid=GPU-00000000000000aa
";
        let mut node = NodeHardware::of_description(text).unwrap();
        for part in &mut node.devices[0].parts {
            part.uuid = Some("GPU-00000000000000aa".to_owned());
        }
        assert_eq!(told(&node, &gpus(&[1]), Expose::Mask, &[]), ["ROCR_VISIBLE_DEVICES=1"]);
        node.devices[0].parts[1].uuid = Some("GPU-00000000000000ab".to_owned());
        let expected = ["ROCR_VISIBLE_DEVICES=GPU-00000000000000ab"];
        assert_eq!(told(&node, &gpus(&[1]), Expose::Mask, &[]), expected);
    }

    #[test]
    fn level_zero_has_tiles_in_the_hierarchy_that_is_in_force() {
        let node = machine("aurora");
        let flat = ["ZE_FLAT_DEVICE_HIERARCHY=FLAT", "ZE_ENABLE_PCI_ID_DEVICE_ORDER=1"];
        let expected = ["ZE_AFFINITY_MASK=2,5", flat[0], flat[1]];
        assert_eq!(told(&node, &gpus(&[2, 5]), Expose::Mask, &[]), expected);
        let cases = [
            (&["ZE_FLAT_DEVICE_HIERARCHY=COMBINED"][..], "2,5"),
            (&["ZE_FLAT_DEVICE_HIERARCHY=COMPOSITE"], "1.0,2.1"),
            (&["ZE_AFFINITY_MASK=11,7,6,3,2,1"], "3,11"),
            (&["ZE_AFFINITY_MASK="], "2,5"),
            (&["ZE_FLAT_DEVICE_HIERARCHY=COMPOSITE", "ZE_AFFINITY_MASK=4.1,3,5"], "4.1,5.1"),
        ];
        for (ours, mask) in cases {
            let place = if mask == "4.1,5.1" { gpus(&[2, 4]) } else { gpus(&[2, 5]) };
            let all = told(&node, &place, Expose::Mask, ours);
            assert_eq!(all[0], format!("ZE_AFFINITY_MASK={mask}"), "{ours:?}");
            let is_told = all.contains(&flat[0].to_owned());
            assert_eq!(is_told, !ours[0].contains("HIERARCHY"), "{ours:?}");
        }
    }

    #[test]
    fn selectors_of_sycl_contradict_masks_that_leave_none_of_their_gpus() {
        let ranks = |mask: &str| vec![(ZE_AFFINITY_MASK, mask.to_owned())];
        let cases = [
            ("level_zero:1", "3", true),
            ("level_zero:0,1", "3", false),
            ("level_zero:1", "3,4", false),
            ("level_zero:gpu", "3", false),
            ("*:2.0", "3,4", true),
            ("opencl:cpu;level_zero:4", "3", true),
            ("opencl:gpu", "3", false),
            ("!level_zero:5", "3", false),
        ];
        for (selector, mask, is_contradiction) in cases {
            let ours = |name: &str| (name == ONEAPI_DEVICE_SELECTOR).then(|| selector.to_owned());
            let found = contradictions(&ranks(mask), &ours);
            let expected = Contradiction {
                users: (ONEAPI_DEVICE_SELECTOR, selector.to_owned()),
                ranks: (ZE_AFFINITY_MASK, mask.to_owned()),
            };
            assert_eq!(found, if is_contradiction { vec![expected] } else { vec![] }, "{selector}");
        }
        let is_unset = |_: &str| None;
        assert_eq!(contradictions(&ranks("3"), &is_unset), []);
    }

    #[test]
    fn order_shows_all_gpus_and_the_nearest_first() {
        let node = machine("eight-t4");
        let mut place = RankPlace { memories: vec![1], ..gpus(&[6]) };
        place.processors = ProcessorSet::from_iter([24, 25]);
        let all = told(&node, &place, Expose::Order, &[]);
        assert_eq!(all[1], "CUDA_VISIBLE_DEVICES=6,4,5,7,0,1,2,3");
        let frontier = machine("frontier");
        place = RankPlace { processors: ProcessorSet::from_iter(0..8), ..gpus(&[1]) };
        let all = told(&frontier, &place, Expose::Order, &["ROCR_VISIBLE_DEVICES=1,4,5"]);
        let uuids = ["5", "2", "6"].map(|digit| format!("GPU-000000000000000{digit}"));
        assert_eq!(all, [format!("ROCR_VISIBLE_DEVICES={}", uuids.join(","))]);
        place.memories = vec![0];
        let all = told(&frontier, &place, Expose::Order, &["ROCR_VISIBLE_DEVICES=1,4,5"]);
        let uuids = ["5", "6", "2"].map(|digit| format!("GPU-000000000000000{digit}"));
        assert_eq!(all, [format!("ROCR_VISIBLE_DEVICES={}", uuids.join(","))]);
    }

    #[test]
    fn order_leaves_instances_and_level_zero_out() {
        let dgx = machine("dgx-h100");
        let all = told(&dgx, &gpus(&[3]), Expose::Order, &[]);
        let uuids = ["3", "2", "4", "5", "6", "7", "8"].map(|digit| format!("{UUID}{digit}"));
        assert_eq!(all[0], format!("CUDA_VISIBLE_DEVICES={}", uuids.join(",")));
        let aurora = machine("aurora");
        assert_eq!(told(&aurora, &gpus(&[3, 2]), Expose::Order, &[]), ["PMI_LOCAL_GPUS=3,2"]);
    }

    #[test]
    fn env_tells_the_numbers_that_libraries_count() {
        let node = machine("eight-t4");
        assert_eq!(told(&node, &gpus(&[3]), Expose::Env, &[]), ["PMI_LOCAL_GPUS=3"]);
        let ours = ["CUDA_VISIBLE_DEVICES=6,1,3"];
        assert_eq!(told(&node, &gpus(&[2, 0]), Expose::Env, &ours), ["PMI_LOCAL_GPUS=0,1"]);
        let ours = ["ROCR_VISIBLE_DEVICES=7,GPU-0000000000000002,3"];
        let frontier = machine("frontier");
        let numbers = told(&frontier, &gpus(&[0, 1, 2]), Expose::Env, &ours);
        assert_eq!(numbers, ["PMI_LOCAL_GPUS=1,2,0"]);
        let ours = ["ZE_AFFINITY_MASK=9,4"];
        let aurora = machine("aurora");
        assert_eq!(told(&aurora, &gpus(&[1]), Expose::Env, &ours), ["PMI_LOCAL_GPUS=1"]);
    }

    #[test]
    fn network_cards_have_the_variables_of_their_fabric() {
        let cases = [
            (
                "dgx-h100",
                &[1][..],
                &["UCX_NET_DEVICES=mlx5_1:1", "FI_VERBS_DEVICE_NAME=mlx5_1"][..],
            ),
            ("dgx-h100", &[0, 2], &["UCX_NET_DEVICES=mlx5_0:1,mlx5_2:1"]),
            ("frontier", &[2, 3], &["FI_CXI_DEVICE_NAME=cxi2,cxi3"]),
            ("eight-t4", &[0], &["FI_EFA_IFACE=rdmap197s0"]),
            ("raspberry-pi", &[0], &["UCX_NET_DEVICES=eth0", "FI_TCP_IFACE=eth0"]),
            // Omni-Path counts its cards, and names none.
            ("dell-r640", &[0], &[]),
        ];
        for (name, places, expected) in cases {
            assert_eq!(told(&machine(name), &nics(places), Expose::Mask, &[]), expected, "{name}");
        }
    }

    #[test]
    fn threads_have_places_unless_the_user_has_set_them() {
        let node = machine("alder-lake");
        let place = |threads, processors: &str| RankPlace {
            threads,
            processors: ProcessorSet::of_list(processors).unwrap(),
            ..RankPlace::default()
        };
        let bound = |threads: &str, places: &str| {
            let all = [("NUM_THREADS", threads), ("PLACES", places), ("PROC_BIND", "close")];
            all.map(|(name, value)| format!("OMP_{name}={value}"))
        };
        let told = |place: &RankPlace, ours: &[&str]| told(&node, place, Expose::Mask, ours);
        // Cores with two threads, and cores with one.
        assert_eq!(told(&place(2, "0-3"), &[]), bound("2", "{0,1},{2,3}"));
        assert_eq!(told(&place(4, "0-3"), &[]), bound("4", "{0},{1},{2},{3}"));
        assert_eq!(told(&place(2, "0-5"), &[]), bound("2", "{0,1,2,3},{4,5}"));
        assert_eq!(told(&place(9, "12-13"), &[]), bound("9", "{12},{13}"));
        assert_eq!(told(&place(2, ""), &[]), ["OMP_NUM_THREADS=2"]);
        assert_eq!(told(&place(0, "0-3"), &[]), [""; 0]);
        let expected = ["OMP_PLACES={0,1,2,3}", "OMP_PROC_BIND=close"];
        assert_eq!(told(&place(2, "0-3"), &["OMP_NUM_THREADS=1,4"]), expected);
        for users in ["OMP_PLACES=cores", "KMP_AFFINITY=compact", "GOMP_CPU_AFFINITY=0"] {
            assert_eq!(told(&place(2, "0-3"), &[users]), ["OMP_NUM_THREADS=2"], "{users}");
        }
        let expected = ["OMP_NUM_THREADS=1", "OMP_PLACES={0,1}"];
        assert_eq!(told(&place(1, "0-1"), &["OMP_PROC_BIND=false"]), expected);
    }

    /// Names of usable GPUs, with the numbers of parts.
    fn names(hardware: &NodeHardware) -> Vec<String> {
        let name = |gpu: &ChosenGpu<'_>| {
            format!("{} {:?}", gpu.device.name(), gpu.part.map(|part| part.number))
        };
        hardware.usable_gpus().iter().map(name).collect()
    }

    proptest! {
        /// By the rules of the libraries, the list of a rank leaves the GPUs of its place, whatever the
        /// launcher's own lists are.
        #[test]
        fn mask_leaves_the_gpus_of_the_place(
            name in select(vec!["eight-t4", "frontier", "aurora", "perlmutter", "lassen"]),
            has_uuids: bool,
            is_composite: bool,
            lists in vec((0..6_usize, vec(-1..14_i32, 0..6)), 0..3),
            picked in vec(any::<Index>(), 1..4),
        ) {
            const NAMES: [&str; 6] = [
                CUDA_VISIBLE_DEVICES,
                ROCR_VISIBLE_DEVICES,
                "HIP_VISIBLE_DEVICES",
                "GPU_DEVICE_ORDINAL",
                ZE_AFFINITY_MASK,
                ZE_AFFINITY_MASK,
            ];
            let mut all = machine(name);
            if !has_uuids {
                all.devices.iter_mut().for_each(|device| device.uuid = None);
            }
            let mut env: BTreeMap<&str, String> = BTreeMap::new();
            if is_composite {
                env.insert(ZE_FLAT_DEVICE_HIERARCHY, "COMPOSITE".to_owned());
            }
            for (at, numbers) in &lists {
                let words: Vec<String> = numbers.iter().map(i32::to_string).collect();
                env.insert(NAMES[*at], words.join(","));
            }
            let mut left = all.clone();
            left.leave_out_by_variables(&|name| env.get(name).cloned());
            let usable = names(&left);
            prop_assume!(!usable.is_empty());
            let picked: BTreeSet<usize> = picked.iter().map(|at| at.index(usable.len())).collect();
            let place = gpus(&picked.iter().copied().collect::<Vec<_>>());
            let new = variables(&left, &place, Expose::Mask, &|name| env.get(name).cloned());
            env.extend(new);
            all.leave_out_by_variables(&|name| env.get(name).cloned());
            let expected: Vec<String> = picked.iter().map(|at| usable[*at].clone()).collect();
            prop_assert_eq!(names(&all), expected, "{:?}", env);
        }
    }
}
