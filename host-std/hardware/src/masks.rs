//! Variables by which the libraries of a rank know its GPUs, network cards and threads.
//!
//! | stack | variable | why |
//! | --- | --- | --- |
//! | CUDA | `CUDA_VISIBLE_DEVICES` | UUIDs where they are known: numbers depend on `CUDA_DEVICE_ORDER`, and on what a container or a control group hides. A MIG instance has only its UUID |
//! | containers | `NVIDIA_VISIBLE_DEVICES` | the same UUIDs; without them nothing, as numbers count again inside a container |
//! | ROCm | `ROCR_VISIBLE_DEVICES` | the lowest layer, which OpenMP and OpenCL read, too. HIP counts what it leaves |
//! | Level Zero | `ZE_AFFINITY_MASK` | knows numbers only, which depend on `ZE_FLAT_DEVICE_HIERARCHY` |
//!
//! Sources: CUDA C++ Programming Guide, section CUDA Environment Variables; MIG User Guide, CUDA Visible Devices;
//! NVIDIA Container Toolkit, GPU Enumeration; ROCm documentation, GPU isolation techniques; Level Zero
//! specification, Environment Variables; UCX FAQ; `fi_cxi(7)`, `fi_efa(7)`, `fi_verbs(7)`, `fi_tcp(7)`; OpenMP 5.2,
//! chapter 21.

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
    /// All, its own first and then the nearest. A process sees one MIG instance at most, and so a rank with one
    /// sees nothing else.
    Order,
    /// All as they are; [`GPUS`] tells which are its own.
    Env,
}

/// Numbers by which the libraries of a rank know its GPUs, for [`Expose::Env`]: `0,3`. A MIG instance, which has
/// no number, has its UUID here.
pub const GPUS: &str = "PMI_HOST_GPUS";

/// A variable with its value.
pub type Variable = (&'static str, String);

/// Variables of a rank at a place. What is not in the place is not told: no GPUs, no network cards, 0 threads.
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
        "MIG instance {instance} of GPU {gpu} has no UUID, by which alone CUDA knows it: 'nvidia-smi -L' does \
         not list it"
    )]
    InstanceWithoutUuid {
        /// Name of the GPU.
        gpu: String,
        /// Number of the instance.
        instance: u32,
    },
    /// A process of CUDA has one MIG instance at most.
    #[error(
        "{count} GPUs with MIG instances among them are for one rank, but CUDA shows one instance to a process"
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
        let shown = match expose {
            Expose::Env => {
                let names: Vec<String> = own.iter().map(|gpu| self.position(gpu)).collect();
                return vec![(GPUS, names.join(","))];
            }
            Expose::Order if !own.iter().any(is_instance) => self.nearest_first(own),
            Expose::Mask | Expose::Order => own,
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
        others.retain(|gpu| !own.contains(gpu));
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

    /// `ROCR_VISIBLE_DEVICES`, and nothing above it: what is set twice hides twice. A list of a layer above that
    /// is inherited counts the GPUs that are left, and so becomes all of these.
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
            is_bound.then(|| (OMP_PLACES, places)),
            is_bound.then(|| (OMP_PROC_BIND, "close".to_owned())),
        ];
        all.into_iter().flatten().filter(|(name, _)| (self.ours)(name).is_none()).collect()
    }

    /// A place for each thread: its share of the cores of the rank, or of their hardware threads where there are
    /// more threads than cores. Threads that outnumber these share them.
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

/// Word of a GPU in a list: the UUID if no other GPU has the same, else the number. Old drivers of AMD give one
/// UUID to all partitions of a GPU. MIG instances have no number.
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
