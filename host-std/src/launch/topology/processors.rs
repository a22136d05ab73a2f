//! Processors of this machine and the units that they share, in the order of the model of the node.

use crate::settings::placement::Unit;
use pmi_host_base::ranges::ranges;
use pmi_host_hardware::linux::{Caches, Memories, Wanted};
use pmi_host_hardware::model::{CacheContent, GroupKind, NodeHardware};
use pmi_host_hardware::processor_set::ProcessorSet;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

/// Processors that this process may use, in the order of the hardware, and the units that they share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Topology {
    /// What is left of the machine.
    hardware: NodeHardware,
    /// Processors by socket, memory domain and core.
    processors: Vec<u32>,
}

/// Units of one kind.
struct Parts {
    /// Processors of each.
    sets: Vec<ProcessorSet>,
    /// The unit of each processor.
    of: BTreeMap<u32, usize>,
}

impl Topology {
    /// Reads the description of the processors in `allowed` below `root`. `units` are the kinds of units that
    /// are needed: caches are read only for units that are caches.
    ///
    /// # Errors
    ///
    /// The system lists no processors, or no sockets and cores for them.
    pub(crate) fn read(root: &Path, allowed: &[u32], units: &[Unit]) -> io::Result<Self> {
        let has_caches = units.iter().any(|unit| matches!(unit, Unit::Cache(_)));
        let caches = if has_caches { Caches::Data } else { Caches::None };
        let wanted = Wanted { caches, memory: Memories::Processors, ..Wanted::default() };
        let all = NodeHardware::of_linux(root, wanted).map_err(io::Error::other)?;
        Self::of(&all, &allowed.iter().copied().collect())
    }

    /// What a process that is `allowed` these processors may use of a machine.
    ///
    /// # Errors
    ///
    /// The machine has no sockets and cores for them.
    pub(crate) fn of(machine: &NodeHardware, allowed: &ProcessorSet) -> io::Result<Self> {
        let hardware = machine.restricted(allowed);
        let all = hardware.processors.clone();
        let mut this = Self { hardware, processors: Vec::new() };
        let outer = [Unit::Socket, Unit::Numa, Unit::Core].map(|unit| this.parts(unit));
        let [sockets, domains, cores] = outer;
        let (sockets, domains, cores) = (sockets?, domains?, cores?);
        this.processors = all.iter().copied().collect();
        this.processors.sort_by_key(|processor| {
            [&sockets, &domains, &cores].map(|parts| parts.around(*processor).first().copied())
        });
        Ok(this)
    }

    /// Usable processors of every unit of one kind, by unit.
    ///
    /// # Errors
    ///
    /// The machine has no such unit for one of the processors.
    pub(crate) fn units(&self, unit: Unit) -> io::Result<Vec<Vec<u32>>> {
        let parts = self.parts(unit)?;
        let mut taken = BTreeSet::new();
        let mut units = Vec::new();
        for processor in &self.processors {
            if !taken.contains(processor) {
                let unit: Vec<u32> = parts.around(*processor).iter().copied().collect();
                taken.extend(unit.iter().copied());
                units.push(unit);
            }
        }
        Ok(units)
    }

    fn parts(&self, unit: Unit) -> io::Result<Parts> {
        let all = &self.hardware.processors;
        let groups = |is_meant: &dyn Fn(&GroupKind) -> bool| -> Vec<ProcessorSet> {
            self.hardware.sets(is_meant).into_iter().cloned().collect()
        };
        let mut sets = match unit {
            Unit::HwThread => all.iter().map(|one| ProcessorSet::from_iter([*one])).collect(),
            Unit::Core => groups(&|kind| matches!(kind, GroupKind::Core(_))),
            Unit::Socket => groups(&|kind| *kind == GroupKind::Package),
            Unit::Cache(level) => groups(&|kind| is_cache(kind, level)),
            Unit::Numa => {
                let memories = self.hardware.memories.iter();
                memories.map(|memory| self.hardware.own_processors(memory)).collect()
            }
            Unit::Machine => vec![all.clone()],
        };
        let mut of = BTreeMap::new();
        for (at, set) in sets.iter().enumerate() {
            of.extend(set.iter().map(|processor| (*processor, at)));
        }
        if let Some(processor) = all.iter().find(|processor| !of.contains_key(processor)) {
            if unit != Unit::Numa {
                return Err(io::Error::new(io::ErrorKind::NotFound, missing(unit, *processor)));
            }
            // A processor outside of all memory domains shares one with all others.
            sets.push(all.clone());
            for processor in all.iter() {
                of.entry(*processor).or_insert(sets.len() - 1);
            }
        }
        Ok(Parts { sets, of })
    }
}

impl Parts {
    /// The unit with a processor.
    fn around(&self, processor: u32) -> &ProcessorSet {
        &self.sets[self.of[&processor]]
    }
}

/// True for a cache of this level with data: those of instructions are shared by the same processors.
fn is_cache(kind: &GroupKind, level: u8) -> bool {
    let GroupKind::Cache(facts) = kind else { return false };
    facts.level == level && facts.content != CacheContent::Instructions
}

fn missing(unit: Unit, processor: u32) -> String {
    let what = match unit {
        Unit::Cache(level) => return format!("processor {processor} has no level {level} cache"),
        Unit::Core => "core",
        _ => "socket",
    };
    format!("the system does not say in which {what} processor {processor} is")
}

/// Levels of the machine by which libraries compare the places of two processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LocalityLevels {
    /// Names of hwloc, each with its units: lists of processors.
    levels: Vec<(&'static str, Vec<Vec<u32>>)>,
}

impl LocalityLevels {
    /// Reads the levels of all processors of the machine below `root`.
    ///
    /// # Errors
    ///
    /// As for [`Topology::read`].
    pub(crate) fn read(root: &Path) -> io::Result<Self> {
        let wanted =
            Wanted { caches: Caches::Data, memory: Memories::Processors, ..Wanted::default() };
        Self::of_machine(&NodeHardware::of_linux(root, wanted).map_err(io::Error::other)?)
    }

    /// The levels of all processors of a machine. Levels that the machine lacks are absent.
    ///
    /// # Errors
    ///
    /// As for [`Topology::of`].
    pub(crate) fn of_machine(machine: &NodeHardware) -> io::Result<Self> {
        let topology = Topology::of(machine, &machine.processors)?;
        let levels = LEVELS.iter();
        let levels = levels.filter_map(|(name, unit)| Some((*name, topology.units(*unit).ok()?)));
        Ok(Self { levels: levels.collect() })
    }

    /// Units of each level with one of these processors, as `SK0:L30:L20-1:L10-1:CR0-1:HT0-1:NM0`: the form
    /// of `PMIX_LOCALITY_STRING`.
    pub(crate) fn of(&self, processors: &[u32]) -> String {
        let holds = |unit: &Vec<u32>| unit.iter().any(|one| processors.contains(one));
        let level = |(name, units): &(&str, Vec<Vec<u32>>)| {
            let inside = (0..).zip(units).filter(|(_, unit)| holds(unit));
            let numbers: Vec<u32> = inside.map(|(number, _)| number).collect();
            (!numbers.is_empty()).then(|| format!("{name}{}", ranges(&numbers, ",")))
        };
        self.levels.iter().filter_map(level).collect::<Vec<_>>().join(":")
    }
}

/// Levels in the order of hwloc, whose memory domains are outside of the tree of processors.
const LEVELS: [(&str, Unit); 7] = [
    ("SK", Unit::Socket),
    ("L3", Unit::Cache(3)),
    ("L2", Unit::Cache(2)),
    ("L1", Unit::Cache(1)),
    ("CR", Unit::Core),
    ("HT", Unit::HwThread),
    ("NM", Unit::Numa),
];

/// Where a processor lies in its machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessorLocation {
    /// Its socket, as the system numbers it.
    pub(crate) socket: u32,
    /// Its core, from 0 in each socket.
    pub(crate) core: u32,
    /// Its thread, from 0 in each core.
    pub(crate) thread: u32,
}

/// The places of all processors of the machine, by number, read below `root`.
///
/// # Errors
///
/// The system lists no processors, or leaves out a number, as on a machine with processors switched off
/// ([`io::ErrorKind::Unsupported`]), or no cores.
pub(crate) fn places(root: &Path) -> io::Result<Vec<ProcessorLocation>> {
    let wanted = Wanted { numbers: true, ..Wanted::default() };
    places_of(&NodeHardware::of_linux(root, wanted).map_err(io::Error::other)?)
}

fn places_of(machine: &NodeHardware) -> io::Result<Vec<ProcessorLocation>> {
    if !(0..).zip(machine.processors.iter()).all(|(number, processor)| number == *processor) {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "a processor is switched off"));
    }
    let topology = Topology::of(machine, &machine.processors)?;
    let (sockets, cores) = (topology.parts(Unit::Socket)?, topology.parts(Unit::Core)?);
    let packages = machine.groups.iter().filter(|group| group.kind == GroupKind::Package);
    // Some machines number no packages.
    let numbers: Vec<u32> = packages.map(|package| package.number.unwrap_or(0)).collect();
    let mut counted = vec![0; numbers.len()];
    let mut places = BTreeMap::new();
    for core in &cores.sets {
        let Some(first) = core.first() else { continue };
        let package = sockets.of[first];
        let located =
            |thread| ProcessorLocation { socket: numbers[package], core: counted[package], thread };
        places.extend(core.iter().copied().zip((0..).map(located)));
        counted[package] += 1;
    }
    Ok(places.into_values().collect())
}

/// Root of the files of this system.
pub(crate) const ROOT: &str = "/";

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use pmi_host_hardware::described::{machines, tree_parent, write_tree};

    /// Two sockets with two cores of two threads each, numbered as PCs do: the second threads come last.
    /// Each core has an L2 cache, each socket an L3 cache, and is a memory domain.
    pub(crate) fn machine() -> NodeHardware {
        let text = "packages 2\ncores 2 threads=2 step=8\ncache L3 1MiB\ncache L2 1MiB cores=1\n\
                    memory 0-1 1GiB\n";
        NodeHardware::of_description(text).unwrap()
    }

    /// What is left of it for a process that is allowed these processors.
    pub(crate) fn topology(allowed: &[u32]) -> Topology {
        Topology::of(&machine(), &allowed.iter().copied().collect()).unwrap()
    }

    const ALL: [u32; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

    #[test]
    fn processors_are_listed_piece_by_piece() {
        let topology = topology(&ALL);
        let units = |unit| topology.units(unit).unwrap();
        assert_eq!(units(Unit::HwThread), [[0], [4], [1], [5], [2], [6], [3], [7]]);
        assert_eq!(units(Unit::Core), [[0, 4], [1, 5], [2, 6], [3, 7]]);
        assert_eq!(units(Unit::Cache(2)), units(Unit::Core));
        let halves = [vec![0, 1, 4, 5], vec![2, 3, 6, 7]];
        for unit in [Unit::Socket, Unit::Numa, Unit::Cache(3)] {
            assert_eq!(units(unit), halves, "{unit:?}");
        }
        assert_eq!(units(Unit::Machine).len(), 1);
        assert!(topology.units(Unit::Cache(4)).unwrap_err().to_string().contains("level 4"));
    }

    #[test]
    fn units_read_from_files_are_those_of_the_machine() {
        let kinds = [Unit::Socket, Unit::Numa, Unit::Cache(3), Unit::Cache(2), Unit::Core];
        for (name, machine) in
            machines().filter(|(name, _)| ["alder-lake", "dell-r640", "xeon-max"].contains(name))
        {
            let root = tempfile::tempdir_in(tree_parent()).unwrap();
            write_tree(&machine, root.path()).unwrap();
            let allowed: Vec<u32> = machine.processors.iter().copied().skip(1).collect();
            let read = Topology::read(root.path(), &allowed, &kinds).unwrap();
            let of = Topology::of(&machine, &allowed.iter().copied().collect()).unwrap();
            for unit in kinds {
                let expected = of.units(unit).map_err(|error| error.to_string());
                let found = read.units(unit).map_err(|error| error.to_string());
                assert_eq!(found, expected, "{name} {unit:?}");
            }
            let levels = LocalityLevels::read(root.path()).unwrap();
            assert_eq!(levels, LocalityLevels::of_machine(&machine).unwrap(), "{name}");
            let places = places(root.path()).unwrap();
            assert_eq!(places, places_of(&machine).unwrap(), "{name}");
        }
    }

    #[test]
    fn processor_outside_of_all_memory_domains_shares_one_with_all_others() {
        let mut machine = machine();
        machine.memories.remove(0);
        let topology = Topology::of(&machine, &machine.processors).unwrap();
        let expected = [ALL.to_vec()];
        assert_eq!(topology.units(Unit::Numa).unwrap(), expected);
        machine.memories.clear();
        let topology = Topology::of(&machine, &machine.processors).unwrap();
        assert_eq!(topology.units(Unit::Numa).unwrap(), expected);
    }

    #[test]
    fn places_number_cores_and_threads_without_gaps() {
        let found = places_of(&machine()).unwrap();
        let found: Vec<_> = found.iter().map(|p| (p.socket, p.core, p.thread)).collect();
        let first = [(0, 0, 0), (0, 1, 0), (1, 0, 0), (1, 1, 0)];
        let second = first.map(|(socket, core, _)| (socket, core, 1));
        assert_eq!(found, [first, second].concat());
        let without = machine().restricted(&[0, 1, 2, 4, 5, 6, 7].into_iter().collect());
        assert_eq!(places_of(&without).unwrap_err().kind(), io::ErrorKind::Unsupported);
    }

    #[test]
    fn locality_names_the_units_that_hold_processors() {
        let levels = LocalityLevels::of_machine(&machine()).unwrap();
        // Threads of a core follow each other, and the machine lists no caches of level 1.
        let expected = [
            (vec![0], "SK0:L30:L20:CR0:HT0:NM0"),
            (vec![6], "SK1:L31:L22:CR2:HT5:NM1"),
            (vec![1, 5], "SK0:L30:L21:CR1:HT2-3:NM0"),
            (ALL.to_vec(), "SK0-1:L30-1:L20-3:CR0-3:HT0-7:NM0-1"),
        ];
        for (processors, text) in expected {
            assert_eq!(levels.of(&processors), text);
        }
        assert!(LocalityLevels::read(Path::new("/no/such")).is_err());
    }

    #[test]
    fn processors_that_may_not_be_used_are_absent() {
        let topology = topology(&[5, 1, 2]);
        assert_eq!(topology.units(Unit::Core).unwrap(), [vec![1, 5], vec![2]]);
        assert_eq!(topology.units(Unit::Socket).unwrap(), [vec![1, 5], vec![2]]);
    }

    #[test]
    fn system_that_tells_nothing_is_an_error() {
        let error = Topology::read(Path::new("/no/such"), &[0], &[]).unwrap_err();
        assert!(error.to_string().contains("/no/such/sys/devices/system/cpu/online"), "{error}");
        let mut machine = machine();
        machine.groups.retain(|group| group.kind == GroupKind::Package);
        let error = Topology::of(&machine, &machine.processors).unwrap_err();
        assert!(error.to_string().contains("in which core processor 0 is"), "{error}");
    }
}
