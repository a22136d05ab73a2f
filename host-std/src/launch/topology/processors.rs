//! Processors of this machine and the resources they share, from the system's files.

use crate::settings::placement::Unit;
use pmi_host_base::ranges::ranges;
use pmi_host_base::system_file;
use pmi_nodes::resources::{NumaNode, PROCESSORS_MAX};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Processors that this process may use, in the order of the hardware topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Topology {
    root: PathBuf,
    processors: Vec<u32>,
    numa_nodes: Vec<NumaNode>,
}

impl Topology {
    /// Reads the description of the processors in `allowed` below `root`.
    ///
    /// # Errors
    ///
    /// Those of the system, with the name of the file.
    pub(crate) fn read(root: &Path, allowed: &[u32]) -> io::Result<Self> {
        let mut processors = allowed.to_vec();
        processors.sort_unstable();
        let numa_nodes = numa_nodes(root, &processors)?;
        let mut this = Self { root: root.to_owned(), processors, numa_nodes };
        let mut placed = Vec::new();
        for &processor in &this.processors {
            let first = |unit| Ok::<_, io::Error>(this.around(unit, processor)?.first().copied());
            placed.push((first(Unit::Socket)?, first(Unit::Numa)?, first(Unit::Core)?, processor));
        }
        placed.sort_unstable();
        this.processors = placed.into_iter().map(|(_, _, _, processor)| processor).collect();
        Ok(this)
    }

    /// Usable processors of every unit of one kind, by unit.
    ///
    /// # Errors
    ///
    /// Those of the system, with the name of the file.
    pub(crate) fn units(&self, unit: Unit) -> io::Result<Vec<Vec<u32>>> {
        let mut units: Vec<Vec<u32>> = Vec::new();
        for &processor in &self.processors {
            if !units.iter().any(|unit| unit.contains(&processor)) {
                units.push(self.around(unit, processor)?);
            }
        }
        Ok(units)
    }

    /// Usable processors in the same unit as `processor`, in ascending order.
    fn around(&self, unit: Unit, processor: u32) -> io::Result<Vec<u32>> {
        let cpu = self.root.join(format!("cpu/cpu{processor}"));
        let all = match unit {
            Unit::HwThread => vec![processor],
            Unit::Core => {
                either(&cpu, ["topology/core_cpus_list", "topology/thread_siblings_list"])?
            }
            Unit::Socket => {
                either(&cpu, ["topology/package_cpus_list", "topology/core_siblings_list"])?
            }
            Unit::Cache(level) => self.sharing_cache(&cpu, level)?,
            Unit::Numa => self.in_numa_node(processor),
            Unit::Machine => self.processors.clone(),
        };
        Ok(all.into_iter().filter(|other| self.processors.contains(other)).collect())
    }

    fn sharing_cache(&self, cpu: &Path, level: u8) -> io::Result<Vec<u32>> {
        for index in 0..CACHES_MAX {
            let directory = cpu.join(format!("cache/index{index}"));
            let Ok(found) = system_file::read_to_string(directory.join("level")) else { break };
            if found.trim().parse() == Ok(level) {
                return list(&directory.join("shared_cpu_list"));
            }
        }
        let what = format!("{} lists no level {level} cache", cpu.display());
        Err(io::Error::new(io::ErrorKind::NotFound, what))
    }

    /// A processor outside of all memory domains shares one with all others.
    fn in_numa_node(&self, processor: u32) -> Vec<u32> {
        let around = self.numa_nodes.iter().find(|node| node.processors.contains(processor));
        around.map_or_else(|| self.processors.clone(), |node| node.processors.iter().collect())
    }
}

/// The memory domains that the system describes below `root`. A machine without listed ones has one, with
/// `all` processors.
///
/// # Errors
///
/// Those of the system, with the name of the file.
pub(super) fn numa_nodes(root: &Path, all: &[u32]) -> io::Result<Vec<NumaNode>> {
    let Ok(numbers) = list(&root.join("node/online")) else {
        return Ok(vec![NumaNode { number: 0, processors: all.iter().copied().collect() }]);
    };
    let node = |number| {
        let processors = list(&root.join(format!("node/node{number}/cpulist")))?;
        Ok(NumaNode { number, processors: processors.into_iter().collect() })
    };
    numbers.into_iter().map(node).collect()
}

/// Levels of the machine by which libraries compare the places of two processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LocalityLevels {
    /// Names of hwloc, each with its units: lists of processors.
    levels: Vec<(&'static str, Vec<Vec<u32>>)>,
}

impl LocalityLevels {
    /// Reads the levels of all processors of the machine below `root`. Levels that the machine lacks are
    /// absent.
    ///
    /// # Errors
    ///
    /// Those of the system, with the name of the file.
    pub(crate) fn read(root: &Path) -> io::Result<Self> {
        let topology = Topology::read(root, &list(&root.join("cpu/online"))?)?;
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
/// Those of the system, with the name of the file; [`io::ErrorKind::Unsupported`] if a number is left out,
/// as on a machine with processors switched off.
pub(crate) fn places(root: &Path) -> io::Result<Vec<ProcessorLocation>> {
    let online = list(&root.join("cpu/online"))?;
    if !(0..).zip(&online).all(|(number, processor)| number == *processor) {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "a processor is switched off"));
    }
    // By socket and core, as the system numbers them: the number of the core here, and of its next thread.
    let mut cores: BTreeMap<(u32, u32), (u32, u32)> = BTreeMap::new();
    let mut places = Vec::new();
    for processor in online {
        let topology = root.join(format!("cpu/cpu{processor}/topology"));
        let number = |name| Ok::<_, io::Error>(list(&topology.join(name))?.first().copied());
        // Some machines number no sockets, and write -1.
        let socket = number("physical_package_id").ok().flatten().unwrap_or(0);
        let named = (socket, number("core_id")?.unwrap_or(0));
        let next = (0..).zip(cores.range((socket, 0)..=(socket, u32::MAX))).last();
        let next = next.map_or(0, |(at, _): (u32, _)| at + 1);
        let (core, threads) = cores.entry(named).or_insert((next, 0));
        places.push(ProcessorLocation { socket, core: *core, thread: *threads });
        *threads += 1;
    }
    Ok(places)
}

/// Newer and older kernels name the same file differently.
fn either(directory: &Path, [newer, older]: [&str; 2]) -> io::Result<Vec<u32>> {
    list(&directory.join(newer)).or_else(|error| list(&directory.join(older)).map_err(|_| error))
}

/// Reads a list like `0-3,8`.
pub(super) fn list(file: &Path) -> io::Result<Vec<u32>> {
    let describe =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", file.display()));
    let text = system_file::read_to_string(file).map_err(describe)?;
    let mut all = Vec::new();
    for piece in text.trim().split(',').filter(|piece| !piece.is_empty()) {
        let (first, last) = piece.split_once('-').unwrap_or((piece, piece));
        match (first.parse::<u32>(), last.parse::<u32>()) {
            (Ok(first), Ok(last)) if last < PROCESSORS_MAX => all.extend(first..=last),
            _ => return Err(describe(io::Error::other(format!("'{piece}' is not a processor")))),
        }
    }
    Ok(all)
}

/// Directory of the system's description of its processors.
pub(crate) const ROOT: &str = "/sys/devices/system";

/// Bound on the levels of caches of a processor.
const CACHES_MAX: u32 = 16;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::fs;
    use tempfile::TempDir;

    /// Two sockets with two cores of two threads each, numbered as PCs do: the second threads come last.
    /// Each core has an L2 cache, each socket an L3 cache, and is a memory domain. The topology reads the
    /// files of the directory.
    pub(crate) fn machine(allowed: &[u32]) -> (TempDir, Topology) {
        let root = tempfile::tempdir().unwrap();
        let write = |path: String, text: String| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a file is in a directory")).unwrap();
            fs::write(path, text).unwrap();
        };
        for cpu in 0..8 {
            let (core, socket) = (cpu % 4, cpu % 4 / 2);
            let threads = format!("{core},{}\n", core + 4);
            let package = format!(
                "{}-{},{}-{}\n",
                socket * 2,
                socket * 2 + 1,
                socket * 2 + 4,
                socket * 2 + 5
            );
            let at = |file: &str| format!("cpu/cpu{cpu}/{file}");
            // Half of the machine is described as by an older kernel.
            let core_file = ["topology/core_cpus_list", "topology/thread_siblings_list"][cpu % 2];
            write(at(core_file), threads.clone());
            write(at("topology/package_cpus_list"), package.clone());
            write(at("topology/physical_package_id"), format!("{socket}\n"));
            // Numbers of cores have gaps.
            write(at("topology/core_id"), format!("{}\n", core % 2 * 8));
            write(at("cache/index0/level"), "2\n".into());
            write(at("cache/index0/shared_cpu_list"), threads);
            write(at("cache/index1/level"), "3\n".into());
            write(at("cache/index1/shared_cpu_list"), package.clone());
            write(format!("node/node{socket}/cpulist"), package);
        }
        write("node/online".into(), "0-1\n".into());
        let topology = Topology::read(root.path(), allowed).unwrap();
        (root, topology)
    }

    #[test]
    fn processors_are_listed_piece_by_piece() {
        let all: Vec<u32> = (0..8).collect();
        let (_root, machine) = machine(&all);
        let units = |unit| machine.units(unit).unwrap();
        assert_eq!(units(Unit::HwThread), [[0], [4], [1], [5], [2], [6], [3], [7]]);
        assert_eq!(units(Unit::Core), [[0, 4], [1, 5], [2, 6], [3, 7]]);
        assert_eq!(units(Unit::Cache(2)), units(Unit::Core));
        let halves = [vec![0, 1, 4, 5], vec![2, 3, 6, 7]];
        for unit in [Unit::Socket, Unit::Numa, Unit::Cache(3)] {
            assert_eq!(units(unit), halves, "{unit:?}");
        }
        assert_eq!(units(Unit::Machine).len(), 1);
        assert!(machine.units(Unit::Cache(4)).unwrap_err().to_string().contains("level 4"));
    }

    #[test]
    fn places_number_cores_and_threads_without_gaps() {
        let (root, _) = machine(&[0]);
        let online = root.path().join("cpu/online");
        fs::write(&online, "0-7\n").unwrap();
        let found = places(root.path()).unwrap();
        let found: Vec<_> = found.iter().map(|p| (p.socket, p.core, p.thread)).collect();
        let first = [(0, 0, 0), (0, 1, 0), (1, 0, 0), (1, 1, 0)];
        let second = first.map(|(socket, core, _)| (socket, core, 1));
        assert_eq!(found, [first, second].concat());
        fs::write(&online, "0-2,4-7\n").unwrap();
        assert_eq!(places(root.path()).unwrap_err().kind(), io::ErrorKind::Unsupported);
    }

    #[test]
    fn locality_names_the_units_that_hold_processors() {
        let (root, _) = machine(&[0]);
        fs::write(root.path().join("cpu/online"), "0-7\n").unwrap();
        let levels = LocalityLevels::read(root.path()).unwrap();
        // Threads of a core follow each other, and the machine lists no caches of level 1.
        let expected = [
            (vec![0], "SK0:L30:L20:CR0:HT0:NM0"),
            (vec![6], "SK1:L31:L22:CR2:HT5:NM1"),
            (vec![1, 5], "SK0:L30:L21:CR1:HT2-3:NM0"),
            ((0..8).collect(), "SK0-1:L30-1:L20-3:CR0-3:HT0-7:NM0-1"),
        ];
        for (processors, text) in expected {
            assert_eq!(levels.of(&processors), text);
        }
        assert!(LocalityLevels::read(Path::new("/no/such")).is_err());
    }

    #[test]
    fn processors_that_may_not_be_used_are_absent() {
        let (_root, machine) = machine(&[5, 1, 2]);
        assert_eq!(machine.units(Unit::Core).unwrap(), [vec![1, 5], vec![2]]);
        assert_eq!(machine.units(Unit::Socket).unwrap(), [vec![1, 5], vec![2]]);
    }

    #[test]
    fn system_that_tells_nothing_is_named() {
        let error = Topology::read(Path::new("/no/such"), &[0]).unwrap_err();
        assert!(error.to_string().contains("/no/such/cpu/cpu0"), "{error}");
    }
}
