//! Machines described by a few lines, for tests: `machines/*.txt`, from public documentation.
//!
//! ```text
//! name      DGX H100               name of the machine
//! packages  2                      sockets
//! numbering blocks                 first threads of all cores, then second ones; `adjacent`: those of a core
//!                                  follow each other; `alternate`: as blocks, but packages take turns
//! cores     56 threads=2           cores of each package; further lines for further kinds, with efficiency=N
//! cache     L3 105MiB              shared by the package; with cores=N, by each N cores of the last kind
//! memory    0-1 1TiB               domains, to which the cores are dealt in their order
//! memory    2 96GiB hbm package=0  memory (main, hbm, far, gpu) near a package, or `machine`
//! device    0000:1b:00.0 10de:2330 0302 names=card1,renderD128 memory=0
//!                                  address, numbers and class on the PCI bus; near=LIST, bridges=ADDRESS,…,
//!                                  uuid=TEXT, mig=UUID,…, tiles=N, partitions=N
//! onboard   network names=eth0     a device that is not on the bus, or `storage`
//! link      nvlink=18 0-3 4-7      the GPUs of each list are joined with each other, by as many links, or by
//!                                  xgmi=WEIGHT; the last line about two GPUs holds
//! offline   0-7                    processors that the system does not have, after all
//! ```

mod tree;

pub use tree::{tree_parent, write_tree};

use crate::device::{
    Device, DeviceKind, DeviceLink, DevicePart, Fabric, LinkKind, PartKind, PciAddress, PciFacts,
};
use crate::model::{
    CacheContent, CacheFacts, CoreFacts, Group, GroupKind, Memory, MemoryKind, NodeHardware,
};
use crate::processor_set::ProcessorSet;
use std::collections::BTreeMap;
use std::str::FromStr;

/// Machines that are described, by their names.
pub const MACHINES: [(&str, &str); 13] = [
    ("alder-lake", include_str!("../machines/alder-lake.txt")),
    ("aurora", include_str!("../machines/aurora.txt")),
    ("dell-r640", include_str!("../machines/dell-r640.txt")),
    ("dgx-h100", include_str!("../machines/dgx-h100.txt")),
    ("eight-t4", include_str!("../machines/eight-t4.txt")),
    ("frontier", include_str!("../machines/frontier.txt")),
    ("grace-hopper", include_str!("../machines/grace-hopper.txt")),
    ("hdk-888", include_str!("../machines/hdk-888.txt")),
    ("lassen", include_str!("../machines/lassen.txt")),
    ("perlmutter", include_str!("../machines/perlmutter.txt")),
    ("raspberry-pi", include_str!("../machines/raspberry-pi.txt")),
    ("xeon-cxl", include_str!("../machines/xeon-cxl.txt")),
    ("xeon-max", include_str!("../machines/xeon-max.txt")),
];

/// A line that describes nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct DescriptionError {
    /// Line, from 1.
    pub line: usize,
    /// What is wrong.
    pub reason: String,
}

/// The described machines, read.
///
/// # Panics
///
/// If one of [`MACHINES`] is not readable, which a test of this crate would find.
pub fn machines() -> impl Iterator<Item = (&'static str, NodeHardware)> {
    MACHINES.into_iter().map(|(name, text)| match NodeHardware::of_description(text) {
        Ok(hardware) => (name, hardware),
        Err(error) => panic!("{name}: {error}"),
    })
}

impl NodeHardware {
    /// Reads a description.
    ///
    /// # Errors
    ///
    /// [`DescriptionError`] with the line.
    pub fn of_description(text: &str) -> Result<Self, DescriptionError> {
        let mut description = Description { packages: 1, ..Description::default() };
        for (line, content) in (1..).zip(text.lines()) {
            let content = content.split('#').next().unwrap_or_default();
            let result = description.read(content);
            result.map_err(|reason| DescriptionError { line, reason })?;
        }
        let line = text.lines().count();
        description.hardware().map_err(|reason| DescriptionError { line, reason })
    }
}

#[derive(Default)]
struct Description {
    name: Option<String>,
    packages: u32,
    numbering: Numbering,
    kinds: Vec<CoreKind>,
    caches: Vec<Cache>,
    memories: Vec<Domain>,
    devices: Vec<Part>,
    links: Vec<Links>,
    offline: ProcessorSet,
}

#[derive(Clone, Copy, Default)]
enum Numbering {
    #[default]
    Blocks,
    Adjacent,
    Alternate,
}

/// Cores of one kind in each package.
struct CoreKind {
    cores: u32,
    threads: u32,
    facts: CoreFacts,
    /// Distance between the numbers of two cores.
    step: u32,
}

/// Caches of each package.
struct Cache {
    facts: CacheFacts,
    /// Cores that share one; `None` for the whole package.
    shared_by: Option<CacheShare>,
}

/// Cores that share a cache.
struct CacheShare {
    /// Number of the cores.
    cores: usize,
    /// Kind of the cores.
    kind: usize,
}

/// Memory domains of one line.
struct Domain {
    numbers: ProcessorSet,
    bytes: Option<u64>,
    kind: MemoryKind,
    near: MemoryPlace,
}

enum MemoryPlace {
    Dealt,
    Package(u32),
    Machine,
}

/// A device, and where it is.
struct Part {
    device: Device,
    memory: Option<u32>,
}

/// Links of one kind between GPUs, by their places.
struct Links {
    kind: LinkKind,
    /// GPUs that are joined with each other.
    lists: Vec<ProcessorSet>,
}

/// A core of the machine.
struct Core {
    package: u32,
    kind: usize,
    number: u32,
    processors: ProcessorSet,
}

/// Words of a line: those with `=`, and the others before them.
struct Words<'a>(Vec<&'a str>);

impl<'a> Words<'a> {
    fn next<T: FromStr>(&mut self, what: &str) -> Result<T, String> {
        let at = self.0.iter().position(|word| !word.contains('='));
        let word = at.map(|at| self.0.remove(at)).ok_or_else(|| format!("no {what}"))?;
        word.parse().map_err(|_| format!("'{word}' is no {what}"))
    }

    fn take(&mut self, name: &str) -> Option<&'a str> {
        let value = |word: &&'a str| word.strip_prefix(name)?.strip_prefix('=');
        let at = self.0.iter().position(|word| value(word).is_some())?;
        value(&self.0.remove(at))
    }

    fn number<T: FromStr>(&mut self, name: &str, default: T) -> Result<T, String> {
        let Some(text) = self.take(name) else { return Ok(default) };
        text.parse().map_err(|_| format!("'{text}' is no number of {name}"))
    }

    fn list(&mut self, name: &str) -> Vec<String> {
        self.take(name).map_or(Vec::new(), |list| list.split(',').map(str::to_owned).collect())
    }
}

impl Description {
    fn read(&mut self, line: &str) -> Result<(), String> {
        let line = line.trim();
        let (keyword, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let mut words = Words(rest.split_whitespace().collect());
        match keyword {
            "" => return Ok(()),
            "name" => {
                self.name = Some(rest.trim().to_owned());
                return Ok(());
            }
            "packages" => self.packages = words.next("number of packages")?,
            "numbering" => {
                self.numbering = match words.next::<String>("numbering")?.as_str() {
                    "blocks" => Numbering::Blocks,
                    "adjacent" => Numbering::Adjacent,
                    "alternate" => Numbering::Alternate,
                    other => return Err(format!("'{other}' is no numbering")),
                }
            }
            "cores" => {
                let cores = words.next("number of cores")?;
                let facts = CoreFacts { efficiency: words.number("efficiency", 0)? };
                let [threads, step] = [words.number("threads", 1)?, words.number("step", 1)?];
                self.kinds.push(CoreKind { cores, threads, facts, step });
            }
            "cache" => {
                let cache = self.cache(&mut words)?;
                self.caches.push(cache);
            }
            "memory" => self.memories.push(domain(&mut words)?),
            "device" => self.devices.push(part(&mut words)?),
            "onboard" => {
                let names = words.list("names");
                let kind = match words.next::<String>("kind of device")?.as_str() {
                    "network" => {
                        DeviceKind::Network(Fabric::of_names(names.iter().map(String::as_str)))
                    }
                    "storage" => DeviceKind::Storage,
                    other => return Err(format!("'{other}' is no kind of device")),
                };
                let (near, parts) = (ProcessorSet::default(), vec![]);
                let device = Device {
                    kind,
                    names,
                    uuid: None,
                    pci: None,
                    near,
                    memory: None,
                    addresses: Vec::new(),
                    parts,
                };
                self.devices.push(Part { device, memory: None });
            }
            "link" => self.links.push(links(&mut words)?),
            "offline" => {
                let list: String = words.next("list of processors")?;
                self.offline = ProcessorSet::of_list(&list).map_err(|error| error.to_string())?;
            }
            other => return Err(format!("'{other}' is no keyword")),
        }
        match words.0.first() {
            Some(word) => Err(format!("'{word}' is not understood")),
            None => Ok(()),
        }
    }

    fn cache(&self, words: &mut Words<'_>) -> Result<Cache, String> {
        let name: String = words.next("cache")?;
        let wrong = || format!("'{name}' is no cache");
        let level = name.strip_prefix('L').ok_or_else(wrong)?;
        let (level, content) = match (level.strip_suffix('d'), level.strip_suffix('i')) {
            (Some(level), _) => (level, CacheContent::Data),
            (_, Some(level)) => (level, CacheContent::Instructions),
            _ => (level, CacheContent::Unified),
        };
        let facts = CacheFacts {
            level: level.parse().map_err(|_| wrong())?,
            content,
            bytes: bytes(&words.next::<String>("size")?)?,
            line_bytes: words.number("line", 64)?,
            ways: words.number("ways", 8)?,
        };
        let cores = words.number("cores", 0)?;
        let kind = self.kinds.len().saturating_sub(1);
        let shared_by = (cores > 0).then_some(CacheShare { cores, kind });
        Ok(Cache { facts, shared_by })
    }

    fn hardware(self) -> Result<NodeHardware, String> {
        let cores = self.cores();
        let all = |cores: &[&Core]| -> ProcessorSet {
            cores.iter().flat_map(|core| core.processors.iter().copied()).collect()
        };
        let every: Vec<&Core> = cores.iter().collect();
        let mut groups = Vec::new();
        for package in 0..self.packages {
            let inside = |core: &&&Core| core.package == package;
            let own: Vec<&Core> = every.iter().filter(inside).copied().collect();
            let processors = all(&own);
            groups.push(Group {
                kind: GroupKind::Package,
                number: Some(package),
                processors: processors.clone(),
            });
            for cache in &self.caches {
                let kind = GroupKind::Cache(cache.facts);
                let Some(share) = &cache.shared_by else {
                    let processors = processors.clone();
                    groups.push(Group { kind, number: None, processors });
                    continue;
                };
                let of_kind: Vec<&Core> =
                    own.iter().filter(|core| core.kind == share.kind).copied().collect();
                let shares = of_kind.chunks(share.cores);
                groups.extend(shares.map(|cores| Group {
                    kind,
                    number: None,
                    processors: all(cores),
                }));
            }
        }
        groups.extend(cores.iter().map(|core| Group {
            kind: GroupKind::Core(self.kinds[core.kind].facts),
            number: Some(core.number),
            processors: core.processors.clone(),
        }));
        let processors = all(&every);
        let mut memories = Vec::new();
        for domain in &self.memories {
            let share = every.len().div_ceil(domain.numbers.len().max(1)).max(1);
            let mut dealt = every.chunks(share).map(all);
            for number in domain.numbers.iter().copied() {
                let near = match domain.near {
                    MemoryPlace::Dealt => dealt.next(),
                    MemoryPlace::Machine => Some(processors.clone()),
                    MemoryPlace::Package(package) => {
                        let mut packages = groups.iter().filter(|group| {
                            group.kind == GroupKind::Package && group.number == Some(package)
                        });
                        packages.next().map(|package| package.processors.clone())
                    }
                };
                let near = near.ok_or_else(|| format!("memory {number} is near no processors"))?;
                memories.push(Memory { number, near, bytes: domain.bytes, kind: domain.kind });
            }
        }
        let online = processors.without(&self.offline);
        let name = self.name;
        let all = NodeHardware { name, processors, groups, memories, ..NodeHardware::default() };
        let mut hardware = all.restricted(&online);
        for part in self.devices {
            let mut device = part.device;
            if let Some(number) = part.memory {
                let memory = hardware.memories.iter().find(|memory| memory.number == number);
                device.near = memory.ok_or_else(|| format!("no memory {number}"))?.near.clone();
            }
            hardware.devices.push(device);
        }
        let mut hardware = hardware.in_order();
        let gpus = hardware.gpus().filter_map(|gpu| gpu.pci.as_ref());
        let gpus: Vec<PciAddress> = gpus.map(|pci| pci.address).collect();
        let mut joined = BTreeMap::new();
        for Links { kind, lists } in self.links {
            for list in lists {
                let address = |gpu: &u32| usize::try_from(*gpu).ok().and_then(|gpu| gpus.get(gpu));
                let ends: Option<Vec<_>> = list.iter().map(address).collect();
                let ends = ends.ok_or_else(|| format!("GPUs {list} are not all there"))?;
                for (at, one) in ends.iter().enumerate() {
                    let links =
                        ends[at + 1..].iter().map(|other| DeviceLink::new(**one, **other, kind));
                    joined.extend(links.map(|link| (link.ends, link)));
                }
            }
        }
        hardware.links = joined.into_values().collect();
        Ok(hardware)
    }

    fn cores(&self) -> Vec<Core> {
        let in_package = || {
            let kinds = self.kinds.iter().enumerate();
            kinds.flat_map(|(at, kind)| (0..kind.cores).map(move |_| (at, kind)))
        };
        let mut cores = Vec::new();
        for package in 0..self.packages {
            let mut number = 0;
            for (at, kind) in in_package() {
                let processors = ProcessorSet::default();
                cores.push(Core { package, kind: at, number, processors });
                number += kind.step;
            }
        }
        let threads_of = |core: &Core| self.kinds[core.kind].threads;
        // Pairs of a core and a thread, in the order of the numbers of their processors.
        let each = || cores.iter().enumerate();
        let mut threads: Vec<(usize, u32)> = each()
            .flat_map(|(at, core)| (0..threads_of(core)).map(move |thread| (at, thread)))
            .collect();
        let per_package = in_package().count().max(1);
        match self.numbering {
            Numbering::Adjacent => (),
            Numbering::Blocks => threads.sort_by_key(|(at, thread)| (*thread, *at)),
            Numbering::Alternate => {
                threads.sort_by_key(|(at, thread)| (*thread, at % per_package, at / per_package));
            }
        }
        for (processor, (at, _)) in (0..).zip(threads) {
            cores[at].processors.extend(&ProcessorSet::from_iter([processor]));
        }
        cores
    }
}

fn domain(words: &mut Words<'_>) -> Result<Domain, String> {
    let numbers: String = words.next("list of memory domains")?;
    let numbers = ProcessorSet::of_list(&numbers).map_err(|error| error.to_string())?;
    let bytes = Some(bytes(&words.next::<String>("size")?)?);
    let package = words.take("package");
    let mut domain = Domain { numbers, bytes, kind: MemoryKind::Main, near: MemoryPlace::Dealt };
    while let Ok(word) = words.next::<String>("kind") {
        match word.as_str() {
            "main" => domain.kind = MemoryKind::Main,
            "hbm" => domain.kind = MemoryKind::HighBandwidth,
            "far" => domain.kind = MemoryKind::Far,
            "gpu" => domain.kind = MemoryKind::OfGpu,
            "machine" => domain.near = MemoryPlace::Machine,
            other => return Err(format!("'{other}' is no kind of memory")),
        }
    }
    if let Some(package) = package {
        let number = package.parse().map_err(|_| format!("'{package}' is no package"))?;
        domain.near = MemoryPlace::Package(number);
    }
    Ok(domain)
}

fn links(words: &mut Words<'_>) -> Result<Links, String> {
    let kind = match (words.number("nvlink", 0)?, words.number("xgmi", 0)?) {
        (count @ 1.., 0) => LinkKind::NvLink { count },
        (0, weight @ 1..) => LinkKind::Xgmi { weight },
        _ => return Err("no kind of link".to_owned()),
    };
    let mut lists = Vec::new();
    while let Ok(list) = words.next::<String>("list of GPUs") {
        lists.push(ProcessorSet::of_list(&list).map_err(|error| error.to_string())?);
    }
    Ok(Links { kind, lists })
}

fn part(words: &mut Words<'_>) -> Result<Part, String> {
    let address = words.next("address")?;
    let numbers: String = words.next("vendor and device")?;
    let class: String = words.next("class")?;
    let hexadecimal = |digits: &str| {
        u16::from_str_radix(digits, 16).map_err(|_| format!("'{digits}' is no number"))
    };
    let (vendor, device) = numbers.split_once(':').ok_or("no device")?;
    let bridges: Result<Vec<_>, _> =
        words.list("bridges").iter().map(|bridge| bridge.parse()).collect();
    let facts = PciFacts {
        address,
        class: hexadecimal(&class)?,
        vendor: hexadecimal(vendor)?,
        device: hexadecimal(device)?,
        bridges: bridges.map_err(|_| "no address of a bridge")?,
    };
    let near = ProcessorSet::of_list(words.take("near").unwrap_or_default());
    let near = near.map_err(|error| error.to_string())?;
    let memory = match words.take("memory") {
        Some(text) => Some(text.parse().map_err(|_| format!("'{text}' is no memory domain"))?),
        None => None,
    };
    let names = words.list("names");
    let uuid = words.take("uuid").map(str::to_owned);
    let mut parts = Vec::new();
    for (number, uuid) in (0..).zip(words.list("mig")) {
        parts.push(DevicePart { number, kind: PartKind::Mig, uuid: Some(uuid) });
    }
    for (name, kind) in [("tiles", PartKind::Tile), ("partitions", PartKind::Partition)] {
        let count = words.number(name, 0)?;
        parts.extend((0..count).map(|number| DevicePart { number, kind, uuid: None }));
    }
    let kind = DeviceKind::of_pci(&facts, &names).ok_or("a device that no rank depends on")?;
    Ok(Part {
        device: Device {
            kind,
            names,
            uuid,
            pci: Some(facts),
            near,
            memory: None,
            addresses: Vec::new(),
            parts,
        },
        memory,
    })
}

fn bytes(text: &str) -> Result<u64, String> {
    let (digits, shift) = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)]
        .into_iter()
        .find_map(|(unit, shift)| text.strip_suffix(unit).map(|digits| (digits, shift)))
        .unwrap_or((text, 0));
    let number = digits.parse::<u64>().ok();
    number.and_then(|number| number.checked_mul(1 << shift)).ok_or(format!("'{text}' is no size"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::GpuMaker;
    use crate::memory_first::{RankPlace, RanksToPlace, place};

    #[test]
    fn machines_have_what_their_documents_say() {
        // Packages, cores, processors, memory domains, GPUs, and other devices.
        let known = [
            ("alder-lake", [1, 14, 20, 1, 1, 2]),
            ("aurora", [2, 104, 208, 4, 6, 8]),
            ("dell-r640", [2, 40, 80, 2, 0, 2]),
            ("dgx-h100", [2, 112, 224, 2, 8, 12]),
            ("eight-t4", [2, 48, 96, 2, 8, 5]),
            ("frontier", [1, 64, 128, 4, 8, 4]),
            ("grace-hopper", [1, 72, 72, 2, 1, 1]),
            ("hdk-888", [1, 8, 8, 1, 0, 1]),
            ("lassen", [2, 40, 160, 6, 4, 5]),
            ("perlmutter", [1, 64, 128, 4, 4, 4]),
            ("raspberry-pi", [1, 4, 4, 1, 0, 2]),
            ("xeon-cxl", [2, 112, 224, 3, 0, 2]),
            ("xeon-max", [2, 112, 224, 16, 0, 1]),
        ];
        let counted = machines().map(|(name, hardware)| {
            let packages = hardware.sets(|kind| *kind == GroupKind::Package).len();
            let gpus = hardware.gpus().count();
            let others = hardware.devices.len() - gpus;
            let [cores, processors] = [hardware.cores().len(), hardware.processors.len()];
            (name, [packages, cores, processors, hardware.memories.len(), gpus, others])
        });
        assert_eq!(counted.collect::<Vec<_>>(), known);
    }

    /// Cases that mpibind's own tests have for a node of this kind, without its description.
    #[test]
    fn lassen_is_mapped_as_by_mpibind() {
        let (_, lassen) = machines().find(|(name, _)| *name == "lassen").unwrap();
        let mapped = |ranks, threads, hardware_threads| {
            let wanted = RanksToPlace { ranks, threads, hardware_threads, is_near_gpus: true };
            let shown = |place: RankPlace| {
                let gpus: Vec<String> = place.gpus.iter().map(usize::to_string).collect();
                format!("{}:{}:{}", place.threads, place.processors, gpus.join(","))
            };
            place(&lassen, wanted).into_iter().map(shown).collect::<Vec<_>>()
        };
        assert_eq!(mapped(1, None, None), ["160:8-87,96-175:0,1,2,3"]);
        // The first thread of each core.
        let cores = |first: u32| (first..first + 80).step_by(4).collect::<ProcessorSet>();
        let halves = [format!("20:{}:0,1", cores(8)), format!("20:{}:2,3", cores(96))];
        assert_eq!(mapped(2, None, None), halves);
        let each = (8..88).chain(96..176).step_by(4).zip(0..);
        let each: Vec<String> =
            each.map(|(processor, rank)| format!("1:{processor}:{}", rank / 10)).collect();
        assert_eq!(mapped(40, None, None), each);
    }

    #[test]
    fn processors_are_numbered_as_described() {
        let core = |numbering: &str, core: usize| {
            let text =
                format!("packages 2\nnumbering {numbering}\ncores 4 threads=2\nmemory 0-1 1GiB");
            let hardware = NodeHardware::of_description(&text).unwrap();
            let near = hardware.memories[1].near.to_string();
            (hardware.cores()[core].to_string(), near)
        };
        assert_eq!(core("blocks", 1), ("1,9".into(), "4-7,12-15".into()));
        assert_eq!(core("adjacent", 1), ("2-3".into(), "8-15".into()));
        assert_eq!(core("alternate", 1), ("1,9".into(), "1,3,5,7,9,11,13,15".into()));
    }

    #[test]
    fn devices_are_near_the_processors_that_the_description_says() {
        let (_, frontier) = machines().find(|(name, _)| *name == "frontier").unwrap();
        let first = frontier.gpus().next().unwrap();
        assert_eq!(first.kind, DeviceKind::Gpu(GpuMaker::Amd));
        assert_eq!((first.near.to_string(), first.memory), ("48-55,112-119".into(), Some(3)));
    }

    #[test]
    fn lines_that_describe_nothing_are_refused() {
        let lines = [
            ("cores", "line 1: no number of cores"),
            ("packages 1\ncores x", "line 2: 'x' is no number of cores"),
            ("cores 4 thread=2", "line 1: 'thread=2' is not understood"),
            ("cache X3 1MiB", "line 1: 'X3' is no cache"),
            ("memory 0 1XiB", "line 1: '1XiB' is no size"),
            ("device 0:0 1:1 0302", "line 1: '0:0' is no address"),
            ("device 0000:00:00.0 1a03:2000 0300", "line 1: a device that no rank depends on"),
            ("nodes 4", "line 1: 'nodes' is no keyword"),
            ("link 0-1", "line 1: no kind of link"),
            ("cores 1\nlink nvlink=2 0-1", "line 2: GPUs 0-1 are not all there"),
            ("cores 4\nmemory 0 1GiB package=7", "line 2: memory 0 is near no processors"),
        ];
        for (text, expected) in lines {
            let error = NodeHardware::of_description(text).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }
}
