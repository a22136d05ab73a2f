//! Packages, dies, caches and cores, from `/sys/devices/system/cpu`.

use super::{Caches, NoProcessors, SystemFiles, Wanted};
use crate::model::{CacheContent, CacheFacts, CoreFacts, Group, GroupKind};
use crate::processor_set::ProcessorSet;
use std::collections::BTreeMap;
use std::io;

/// Reads which processors are switched on.
pub(super) fn online(files: &SystemFiles<'_>) -> Result<ProcessorSet, NoProcessors> {
    let failed = |why| NoProcessors { file: files.root.join(ONLINE), why };
    let text = files.read(ONLINE).map_err(failed)?;
    let processors = ProcessorSet::of_list(&text).map_err(|why| failed(io::Error::other(why)))?;
    if processors.is_empty() {
        return Err(failed(io::Error::other("it is empty")));
    }
    Ok(processors)
}

/// Reads what the processors that are switched on share.
pub(super) fn read(files: &SystemFiles<'_>, online: &ProcessorSet, wanted: Wanted) -> Vec<Group> {
    let mut sharing = Sharing { files, online, groups: Vec::new() };
    sharing.read_units(PACKAGE);
    if wanted.numbers {
        sharing.read_units(DIE);
        sharing.omit_single_dies();
    }
    sharing.read_units(CORE);
    if wanted.numbers {
        sharing.read_numbers();
    }
    let kinds = match wanted.kinds || wanted.caches != Caches::None {
        true => sharing.kinds_of_cores(),
        false => Vec::new(),
    };
    if wanted.caches != Caches::None {
        sharing.read_caches(&kinds, wanted.caches == Caches::All);
    }
    if wanted.kinds {
        sharing.rank_cores(&kinds);
    }
    sharing.groups
}

/// A unit whose processors are listed at each of them.
#[derive(Clone, Copy)]
struct Unit {
    kind: GroupKind,
    /// Files with its processors: newer kernels have another name for the same file.
    lists: &'static [&'static str],
    /// File with its number.
    number: &'static str,
}

const PACKAGE: Unit = Unit {
    kind: GroupKind::Package,
    lists: &["package_cpus_list", "core_siblings_list"],
    number: "physical_package_id",
};
const DIE: Unit = Unit { kind: GroupKind::Die, lists: &["die_cpus_list"], number: "die_id" };
const CORE: Unit = Unit {
    kind: GroupKind::Core(CoreFacts { efficiency: 0 }),
    lists: &["core_cpus_list", "thread_siblings_list"],
    number: "core_id",
};

/// What processors share, as far as it has been read.
struct Sharing<'a> {
    files: &'a SystemFiles<'a>,
    online: &'a ProcessorSet,
    groups: Vec<Group>,
}

impl Sharing<'_> {
    /// Reads the lists of a unit, each at its first processor. Lists that overlap, which no kernel writes,
    /// lose what another one has.
    fn read_units(&mut self, unit: Unit) {
        let mut lists = unit.lists;
        let mut left = self.online.clone();
        while let Some(first) = left.first().copied() {
            let read = |list: &&str| self.files.set(&topology(first, list));
            let found = lists.iter().enumerate().find_map(|(at, list)| Some((at, read(list)?)));
            // If the first processor has no such file, the others have none, either.
            let Some((at, listed)) = found else { return };
            lists = &lists[at..];
            let mut processors = listed.and(&left);
            if !processors.contains(&first) {
                processors = ProcessorSet::from_iter([first]);
            }
            left = left.without(&processors);
            self.groups.push(Group { kind: unit.kind, number: None, processors });
        }
    }

    /// Leaves out dies that are whole packages.
    fn omit_single_dies(&mut self) {
        let packages = self.groups.iter().filter(|group| group.kind == GroupKind::Package);
        let packages: Vec<ProcessorSet> = packages.map(|group| group.processors.clone()).collect();
        self.groups
            .retain(|group| group.kind != GroupKind::Die || !packages.contains(&group.processors));
    }

    fn read_numbers(&mut self) {
        for group in &mut self.groups {
            let unit = match group.kind {
                GroupKind::Package => PACKAGE,
                GroupKind::Die => DIE,
                _ => CORE,
            };
            let first = group.processors.first();
            // Some machines number no packages, and write -1.
            let read = |first: &u32| self.files.number(&topology(*first, unit.number));
            group.number = first.and_then(read);
        }
    }

    /// Processors by the kind of their cores, those that save most energy first; none if all are of one kind
    /// as far as the system says. Kinds of Intel are told by the names of their counters, others by the
    /// capacity that the scheduler assigns to them.
    fn kinds_of_cores(&self) -> Vec<ProcessorSet> {
        let counters = ["cpu_lowpower", "cpu_atom", "cpu_core"];
        let listed = |name: &&str| self.files.set(&format!("sys/devices/{name}/cpus"));
        let mut kinds: Vec<ProcessorSet> = counters.iter().filter_map(listed).collect();
        kinds.retain(|kind| kind.meets(self.online));
        if kinds.is_empty() {
            kinds = self.by_capacity();
        }
        kinds
    }

    /// Ranks the cores by their kinds.
    fn rank_cores(&mut self, kinds: &[ProcessorSet]) {
        for group in &mut self.groups {
            if let GroupKind::Core(facts) = &mut group.kind {
                let kind = kinds.iter().position(|kind| kind.meets(&group.processors));
                facts.efficiency = kind.and_then(|kind| u8::try_from(kind).ok()).unwrap_or(0);
            }
        }
    }

    /// Kinds of cores by their capacities, the smallest first.
    fn by_capacity(&self) -> Vec<ProcessorSet> {
        let mut kinds: Vec<(u32, ProcessorSet)> = Vec::new();
        for group in self.groups.iter().filter(|group| matches!(group.kind, GroupKind::Core(_))) {
            let first = group.processors.first().copied().unwrap_or(0);
            let Some(capacity) = self.files.number(&format!("{CPU}/cpu{first}/cpu_capacity"))
            else {
                return Vec::new();
            };
            match kinds.iter_mut().find(|(other, _)| *other == capacity) {
                Some((_, kind)) => *kind = kind.or(&group.processors),
                None => kinds.push((capacity, group.processors.clone())),
            }
        }
        kinds.sort_by_key(|(capacity, _)| *capacity);
        kinds.into_iter().map(|(_, kind)| kind).collect()
    }

    /// Reads the caches at the first thread of one core of each kind in each package: others of the kind have
    /// the same ones. Where a cache is shared by several cores but not by the package, its processors and its
    /// size are read for each. If processors are switched off, what is left of a cache has other shapes from
    /// core to core, and all cores are read.
    fn read_caches(&mut self, kinds: &[ProcessorSet], has_instructions: bool) {
        let sets = |is_meant: fn(&GroupKind) -> bool| {
            let meant = self.groups.iter().filter(|group| is_meant(&group.kind));
            meant.map(|group| group.processors.clone()).collect::<Vec<_>>()
        };
        let packages = sets(|kind| *kind == GroupKind::Package);
        let mut cores = sets(|kind| matches!(kind, GroupKind::Core(_)));
        if cores.is_empty() {
            cores = self.online.iter().map(|one| ProcessorSet::from_iter([*one])).collect();
        }
        let is_whole = self.files.set(PRESENT).is_some_and(|present| present == *self.online);
        let mut known: BTreeMap<(Option<usize>, Option<usize>), Vec<CoreCache>> = BTreeMap::new();
        let mut caches = CachesFound::default();
        for core in cores {
            let within = |sets: &[ProcessorSet]| sets.iter().position(|set| set.meets(&core));
            let alike = (within(&packages), within(kinds));
            match known.get(&alike).filter(|_| is_whole) {
                Some(known) => self.add_caches_alike(&mut caches, &core, known),
                None => {
                    let package = alike.0.map(|package| &packages[package]);
                    let found = self.read_caches_of(&mut caches, &core, package, has_instructions);
                    known.insert(alike, found);
                }
            }
        }
        self.groups.append(&mut caches.groups);
    }

    /// Reads the caches of a core in a package.
    fn read_caches_of(
        &self,
        caches: &mut CachesFound,
        core: &ProcessorSet,
        package: Option<&ProcessorSet>,
        has_instructions: bool,
    ) -> Vec<CoreCache> {
        let Some(first) = core.first() else { return Vec::new() };
        let mut found = Vec::new();
        for index in 0..CACHES_MAX {
            let directory = cache(*first, index);
            let Some(listed) = self.files.set(&format!("{directory}/{SHARED}")) else { break };
            let processors = listed.and(self.online);
            if !processors.contains(first) {
                continue;
            }
            let Some(facts) = self.cache_facts(&directory, has_instructions) else { continue };
            let extent = match &processors {
                all if all == core => Extent::Core,
                all if Some(all) == package => Extent::Package,
                _ => Extent::Some,
            };
            found.push(CoreCache { index, facts, extent });
            caches.add(facts, processors);
        }
        found
    }

    /// Adds the caches of a core that has the same ones as another core in its package.
    fn add_caches_alike(&self, caches: &mut CachesFound, core: &ProcessorSet, known: &[CoreCache]) {
        let Some(first) = core.first() else { return };
        for CoreCache { index, facts, extent } in known {
            match extent {
                Extent::Core => caches.add(*facts, core.clone()),
                Extent::Some if !caches.have(*facts, *first) => {
                    let directory = cache(*first, *index);
                    let Some(listed) = self.files.set(&format!("{directory}/{SHARED}")) else {
                        continue;
                    };
                    let facts = CacheFacts { bytes: self.cache_bytes(&directory), ..*facts };
                    caches.add(facts, listed.and(self.online));
                }
                Extent::Some | Extent::Package => (),
            }
        }
    }

    /// Facts of a cache; one file for those of instructions that are not wanted.
    fn cache_facts(&self, directory: &str, has_instructions: bool) -> Option<CacheFacts> {
        let number = |name: &str| self.files.number(&format!("{directory}/{name}")).unwrap_or(0);
        let content = match self.files.text(&format!("{directory}/type"))?.as_str() {
            "Data" => CacheContent::Data,
            "Instruction" if !has_instructions => return None,
            "Instruction" => CacheContent::Instructions,
            _ => CacheContent::Unified,
        };
        Some(CacheFacts {
            level: self.files.number(&format!("{directory}/level"))?,
            content,
            bytes: self.cache_bytes(directory),
            line_bytes: number("coherency_line_size"),
            ways: number("ways_of_associativity"),
        })
    }

    fn cache_bytes(&self, directory: &str) -> u64 {
        let size = self.files.text(&format!("{directory}/size")).unwrap_or_default();
        let kib = size.strip_suffix('K').and_then(|kib| kib.parse::<u64>().ok());
        kib.and_then(|kib| kib.checked_mul(1024)).unwrap_or(0)
    }
}

/// Caches that have been read.
#[derive(Default)]
struct CachesFound {
    groups: Vec<Group>,
    /// Processors of the caches of a level and content.
    taken: BTreeMap<(u8, CacheContent), ProcessorSet>,
}

impl CachesFound {
    /// True if one with this level and content has the processor.
    fn have(&self, facts: CacheFacts, processor: u32) -> bool {
        let taken = self.taken.get(&(facts.level, facts.content));
        taken.is_some_and(|taken| taken.contains(&processor))
    }

    /// Adds a cache, unless it was added at another processor.
    fn add(&mut self, facts: CacheFacts, processors: ProcessorSet) {
        if !processors.first().is_some_and(|first| self.have(facts, *first)) {
            self.taken.entry((facts.level, facts.content)).or_default().extend(&processors);
            self.groups.push(Group { kind: GroupKind::Cache(facts), number: None, processors });
        }
    }
}

/// A cache of a core.
struct CoreCache {
    /// Its number in the files of the core.
    index: u32,
    facts: CacheFacts,
    extent: Extent,
}

/// Processors that share a cache.
enum Extent {
    /// The threads of a core.
    Core,
    /// Some cores.
    Some,
    /// A package with several cores.
    Package,
}

fn cache(processor: u32, index: u32) -> String {
    format!("{CPU}/cpu{processor}/cache/index{index}")
}

fn topology(processor: u32, file: &str) -> String {
    format!("{CPU}/cpu{processor}/topology/{file}")
}

const CPU: &str = "sys/devices/system/cpu";
const ONLINE: &str = "sys/devices/system/cpu/online";
const PRESENT: &str = "sys/devices/system/cpu/present";
const SHARED: &str = "shared_cpu_list";

/// Bound on the caches of a processor.
const CACHES_MAX: u32 = 16;

#[cfg(test)]
mod tests {
    use super::super::tests::{set, tree};
    use super::*;
    use crate::described::{machines, tree_parent, write_tree};
    use crate::model::NodeHardware;
    use std::fs;
    use std::path::Path;

    /// Two packages of two cores of two threads, numbered as PCs do, with an L2 cache for each core and an L3
    /// cache for each package. Half of it is described as by an older kernel.
    fn files() -> Vec<(String, String)> {
        let mut files = vec![(ONLINE.to_owned(), "0-7\n".to_owned())];
        for cpu in 0..8_usize {
            let (core, package) = (cpu % 4, cpu % 4 / 2);
            let threads = format!("{core},{}\n", core + 4);
            let first = 2 * package;
            let all = format!("{}-{},{}-{}\n", first, first + 1, first + 4, first + 5);
            let mut at = |file: &str, text: &str| {
                files.push((format!("{CPU}/cpu{cpu}/{file}"), text.to_owned()));
            };
            at("topology/thread_siblings_list", &threads);
            at("topology/package_cpus_list", &all);
            at("topology/die_cpus_list", &all);
            at("topology/physical_package_id", &package.to_string());
            // Numbers of cores have gaps.
            at("topology/core_id", &(core % 2 * 8).to_string());
            let caches = [("Data", 1, &threads), ("Instruction", 1, &threads)];
            let caches = caches.into_iter().chain([("Unified", 2, &threads), ("Unified", 3, &all)]);
            for (index, (kind, level, shared)) in caches.enumerate() {
                at(&format!("cache/index{index}/type"), kind);
                at(&format!("cache/index{index}/level"), &level.to_string());
                at(&format!("cache/index{index}/size"), &format!("{}K\n", level * 512));
                at(&format!("cache/index{index}/shared_cpu_list"), shared);
            }
        }
        files
    }

    fn read_files(files: &[(String, String)], wanted: Wanted) -> NodeHardware {
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), &**text)).collect();
        let root = tree(&files);
        NodeHardware::of_linux(root.path(), wanted).unwrap()
    }

    fn described(all: &NodeHardware) -> Vec<String> {
        let described = |group: &Group| {
            let name = match group.kind {
                GroupKind::Package => "package".to_owned(),
                GroupKind::Die => "die".to_owned(),
                GroupKind::Cache(facts) => format!("L{}{:?}", facts.level, facts.content),
                GroupKind::Core(facts) => format!("core{}", facts.efficiency),
            };
            format!("{name} {}", group.processors)
        };
        all.groups.iter().map(described).collect()
    }

    #[test]
    fn groups_are_nested_and_each_is_there_once() {
        let all = read_files(&files(), Wanted::ALL);
        let core = |threads: &str| {
            let names = ["L2Unified", "L1Data", "L1Instructions", "core0"];
            names.map(|name| format!("{name} {threads}"))
        };
        let package = |all: &str| [format!("package {all}"), format!("L3Unified {all}")];
        let mut expected = package("0-1,4-5").to_vec();
        expected.extend(core("0,4").into_iter().chain(core("1,5")));
        expected.extend(package("2-3,6-7"));
        expected.extend(core("2,6").into_iter().chain(core("3,7")));
        assert_eq!(described(&all), expected);
        let numbers: Vec<_> = all.groups.iter().filter_map(|group| group.number).collect();
        assert_eq!(numbers, [0, 0, 8, 1, 0, 8]);
        let GroupKind::Cache(facts) = all.groups[1].kind else { panic!("{:?}", all.groups[1]) };
        assert_eq!((facts.bytes, facts.ways), (3 * 512 * 1024, 0));
        let with_data = described(&read_files(&files(), Wanted::HWLOC));
        expected.retain(|name| !name.starts_with("L1I"));
        assert_eq!(with_data, expected);
        let few = read_files(&files(), Wanted::default());
        assert_eq!((few.groups.len(), few.cores()), (6, all.cores()));
        assert!(few.groups.iter().all(|group| group.number.is_none()));
    }

    #[test]
    fn processors_that_are_switched_off_are_absent() {
        let mut files = files();
        files[0].1 = "1-7\n".to_owned();
        let all = read_files(&files, Wanted::ALL);
        assert_eq!(all.processors, set("1-7"));
        assert_eq!(described(&all)[0], "package 1,4-5");
        assert_eq!(all.cores().len(), 4);
    }

    #[test]
    fn dies_are_listed_if_a_package_has_several() {
        let mut files = files();
        for (path, text) in files.iter_mut().filter(|(path, _)| path.ends_with("die_cpus_list")) {
            let cpu: u32 = path.split(['/', 'u']).nth(6).and_then(|cpu| cpu.parse().ok()).unwrap();
            *text = format!("{},{}\n", cpu % 4, cpu % 4 + 4);
        }
        let all = read_files(&files, Wanted::ALL);
        let dies = all.sets(|kind| *kind == GroupKind::Die);
        assert_eq!(dies, [&set("0,4"), &set("1,5"), &set("2,6"), &set("3,7")]);
    }

    #[test]
    fn kinds_of_cores_are_ranked_by_counters_or_capacity() {
        let ranks = |all: &NodeHardware| {
            let rank = |group: &Group| match group.kind {
                GroupKind::Core(facts) => Some(facts.efficiency),
                _ => None,
            };
            all.groups.iter().filter_map(rank).collect::<Vec<_>>()
        };
        let with = |more: &[(&str, &str)]| {
            let mut files = files();
            files.extend(more.iter().map(|(path, text)| ((*path).into(), (*text).into())));
            ranks(&read_files(&files, Wanted::ALL))
        };
        let intel =
            [("sys/devices/cpu_core/cpus", "0,4\n"), ("sys/devices/cpu_atom/cpus", "1-3,5-7")];
        assert_eq!(with(&intel), [1, 0, 0, 0]);
        let capacities: Vec<(String, &str)> = ["1024", "446", "871", "446"]
            .into_iter()
            .enumerate()
            .map(|(cpu, text)| (format!("{CPU}/cpu{cpu}/cpu_capacity"), text))
            .collect();
        let arm: Vec<_> = capacities.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        assert_eq!(with(&arm), [2, 0, 1, 0]);
        // One of them is unknown.
        assert_eq!(with(&arm[..3]), [0; 4]);
    }

    /// Directories of caches that need not be read: of other cores than the first one of each kind in each
    /// package, but for the first core of each cache of several cores.
    fn needless_caches(machine: &NodeHardware) -> Vec<String> {
        let packages = machine.sets(|kind| *kind == GroupKind::Package);
        let (mut alike, mut needless) = (Vec::new(), Vec::new());
        for core in machine.groups.iter() {
            let GroupKind::Core(facts) = core.kind else { continue };
            let package = packages.iter().position(|package| core.processors.meets(package));
            let is_known = alike.contains(&(package, facts.efficiency));
            alike.push((package, facts.efficiency));
            for (at, processor) in core.processors.iter().enumerate() {
                let caches = machine.groups.iter().filter(|group| {
                    matches!(group.kind, GroupKind::Cache(_))
                        && group.processors.contains(processor)
                });
                let is_of_some = |cache: &&Group| {
                    !packages.contains(&&cache.processors) && cache.processors != core.processors
                };
                let is_first = |cache: &Group| cache.processors.first() == Some(processor);
                let is_read = caches.clone().filter(is_of_some).any(is_first);
                if at > 0 || (is_known && !is_read) {
                    needless.push(format!("{CPU}/cpu{processor}/cache"));
                }
            }
        }
        needless
    }

    #[test]
    fn caches_are_read_at_one_core_of_each_kind() {
        for name in ["alder-lake", "frontier", "hdk-888", "dell-r640"] {
            let (_, machine) = machines().find(|(other, _)| *other == name).unwrap();
            let root = tempfile::tempdir_in(tree_parent()).unwrap();
            write_tree(&machine, root.path()).unwrap();
            let needless = needless_caches(&machine);
            assert!(needless.len() > machine.processors.len() / 4, "{name}: {needless:?}");
            for directory in needless {
                fs::remove_dir_all(root.path().join(directory)).unwrap();
            }
            let wanted = Wanted { devices: false, ..Wanted::ALL };
            let read = NodeHardware::of_linux(root.path(), wanted).unwrap();
            assert_eq!(read.groups, machine.groups, "{name}");
        }
    }

    #[test]
    fn caches_are_read_at_each_core_if_processors_are_switched_off() {
        // Both cores with a common L2 cache but for one that is off: the first core has the cache alone.
        let mut files = vec![(ONLINE.to_owned(), "0,2-3\n"), (PRESENT.to_owned(), "0-3\n")];
        for (cpu, shared) in [(0, "0"), (2, "2-3"), (3, "2-3")] {
            let own = ["0", "1", "2", "3"][cpu];
            files.push((format!("{CPU}/cpu{cpu}/topology/core_cpus_list"), own));
            files.push((format!("{CPU}/cpu{cpu}/topology/package_cpus_list"), "0,2-3"));
            let cache = format!("{CPU}/cpu{cpu}/cache/index0");
            files.push((format!("{cache}/shared_cpu_list"), shared));
            files.push((format!("{cache}/level"), "2"));
            files.push((format!("{cache}/type"), "Unified"));
        }
        let mut files: Vec<_> =
            files.into_iter().map(|(path, text)| (path, text.to_owned())).collect();
        let caches = |files: &[(String, String)]| {
            let all = read_files(files, Wanted { caches: Caches::All, ..Wanted::default() });
            let caches = all.sets(|kind| matches!(kind, GroupKind::Cache(_))).into_iter();
            caches.map(ProcessorSet::to_string).collect::<Vec<_>>()
        };
        assert_eq!(caches(&files), ["0", "2-3"]);
        // It would be taken for one that each core has.
        files[1].1 = "0,2-3\n".to_owned();
        assert_eq!(caches(&files), ["0", "2", "3"]);
    }

    #[test]
    fn cores_are_read_once_each() {
        let mut files = files();
        // Second threads name nothing, and second cores no package: they are not asked.
        files.retain(|(path, _)| {
            let cpu = path.split("/cpu/cpu").nth(1).map_or("", |rest| &rest[..1]);
            let is_package = path.contains("package") || path.contains("die_cpus");
            cpu.is_empty() || "02".contains(cpu) || ("13".contains(cpu) && !is_package)
        });
        let all = read_files(&files, Wanted::ALL);
        assert_eq!((all.cores().len(), all.sets(|kind| *kind == GroupKind::Package).len()), (4, 2));
        let own = NodeHardware::of_linux(Path::new("/"), Wanted::default()).unwrap();
        assert!(!own.cores().is_empty());
    }
}
