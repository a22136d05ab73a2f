//! Reads the model from the files of Linux, below a root: `/` in use, and another one in tests.
//!
//! A file that is missing or holds no fact is an absent fact. Each text is bounded, and no more files are
//! opened than the caller's [`Wanted`] needs: a run that binds ranks to cores reads one for each core.

mod access;
mod devices;
mod gpus;
mod memory;
mod processors;

pub use access::{Allowed, LeftOut};
pub use memory::memory_total;

use crate::model::{Memory, NodeHardware};
use crate::processor_set::ProcessorSet;
use pmi_host_base::system_file;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Facts besides packages and cores that the caller needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Dies, and numbers of packages, dies and cores: a file more for each core.
    pub numbers: bool,
    /// Name of the machine, and kinds of cores: a file more for each core on machines that tell of them.
    pub kinds: bool,
    /// Caches: mostly 20 files for a core of each kind in each package, and two for each cache of some cores.
    pub caches: Caches,
    /// Memory domains.
    pub memory: Memories,
    /// Devices: a file for each function on the PCI bus, and five to ten for those that are devices.
    pub devices: bool,
    /// Links between the devices: a file for each pair of GPUs of AMD.
    pub links: bool,
}

/// Caches that are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Caches {
    /// None.
    #[default]
    None,
    /// Those with data, as hwloc lists them by default.
    Data,
    /// All, with those of instructions.
    All,
}

/// Facts about memory domains that are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Memories {
    /// None.
    #[default]
    None,
    /// Processors in them, a file for each: those without processors are near none, and all are of one kind.
    Processors,
    /// Sizes and kinds, too: a file more for each, and some for those without processors.
    All,
}

impl Wanted {
    /// Everything.
    pub const ALL: Self = Self {
        numbers: true,
        kinds: true,
        caches: Caches::All,
        memory: Memories::All,
        devices: true,
        links: true,
    };

    /// What hwloc lists by default, without devices.
    pub const HWLOC: Self = Self {
        numbers: true,
        kinds: false,
        caches: Caches::Data,
        memory: Memories::All,
        devices: false,
        links: false,
    };
}

/// The system names no processors.
#[derive(Debug, thiserror::Error)]
#[error("'{}' names no processors ({why})", file.display())]
pub struct NoProcessors {
    /// File that should list them.
    pub file: PathBuf,
    /// Cause.
    #[source]
    pub why: io::Error,
}

impl NodeHardware {
    /// Reads the hardware of this machine from the files below `root`. What a control group or a container
    /// leaves out is still there: [`Allowed`] and [`leave_out_refused`](Self::leave_out_refused) restrict it.
    ///
    /// # Errors
    ///
    /// [`NoProcessors`] if the system lists none. Everything else that is missing is absent.
    pub fn of_linux(root: &Path, wanted: Wanted) -> Result<Self, NoProcessors> {
        Ok(LinuxMachine::open(root)?.hardware(wanted))
    }
}

/// A machine by its files, of which only the list of processors has been read.
pub struct LinuxMachine<'a> {
    files: SystemFiles<'a>,
    processors: ProcessorSet,
}

impl<'a> LinuxMachine<'a> {
    /// Reads which processors of the machine with the files below `root` are switched on.
    ///
    /// # Errors
    ///
    /// [`NoProcessors`] if the system lists none.
    pub fn open(root: &'a Path) -> Result<Self, NoProcessors> {
        let files = SystemFiles { root };
        let processors = processors::online(&files)?;
        Ok(Self { files, processors })
    }

    /// Processors that are switched on.
    pub const fn processors(&self) -> &ProcessorSet {
        &self.processors
    }

    /// Reads the hardware.
    #[must_use]
    pub fn hardware(self, wanted: Wanted) -> NodeHardware {
        let Self { files, processors } = self;
        let memories = match wanted.memory {
            Memories::None => Vec::new(),
            Memories::Processors => memory::domains(&files, &processors),
            Memories::All => memory::read(&files, &processors),
        };
        let name = || NAMES.iter().find_map(|file| files.text(file)).filter(|one| !one.is_empty());
        let all = NodeHardware {
            name: wanted.kinds.then(name).flatten(),
            groups: processors::read(&files, &processors, wanted),
            memories,
            devices: match wanted.devices {
                true => devices::read(&files, &processors),
                false => Vec::new(),
            },
            links: match wanted.links {
                true => gpus::links(&files),
                false => Vec::new(),
            },
            processors,
        };
        all.in_order()
    }
}

/// Reads the memory domains below `root` with those of `processors` in them, and nothing else: they are those
/// of [`Memories::Processors`].
pub fn memory_domains(root: &Path, processors: &ProcessorSet) -> Vec<Memory> {
    memory::domains(&SystemFiles { root }, processors)
}

/// Files of the system below a root. Paths have no `/` in front.
struct SystemFiles<'a> {
    root: &'a Path,
}

impl SystemFiles<'_> {
    fn read(&self, path: &str) -> io::Result<String> {
        system_file::read_bounded(self.root.join(path), TEXT_BYTES_MAX)
    }

    /// The text of a file, without space around it.
    fn text(&self, path: &str) -> Option<String> {
        // A device tree ends texts by a byte of 0.
        self.read(path).ok().map(|text| text.trim_end_matches('\0').trim().to_owned())
    }

    fn number<N: FromStr>(&self, path: &str) -> Option<N> {
        self.text(path)?.parse().ok()
    }

    /// A number in hexadecimal digits, as `0x10de`.
    fn hexadecimal(&self, path: &str) -> Option<u32> {
        u32::from_str_radix(self.text(path)?.trim_start_matches("0x"), 16).ok()
    }

    fn set(&self, path: &str) -> Option<ProcessorSet> {
        ProcessorSet::of_list(&self.text(path)?).ok()
    }

    /// Names in a directory, in the order of the numbers in them: `gpu2` before `gpu10`.
    fn names(&self, directory: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(directory)).into_iter().flatten();
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<String> = names.take(NAMES_MAX).collect();
        names.sort_by(|a, b| numbered(a).cmp(&numbered(b)).then_with(|| a.cmp(b)));
        names
    }

    /// Target of a symbolic link.
    fn link(&self, path: &str) -> Option<PathBuf> {
        fs::read_link(self.root.join(path)).ok()
    }
}

/// A name without the number at its end, and this number.
fn numbered(name: &str) -> (&str, Option<u64>) {
    let letters = name.trim_end_matches(|sign: char| sign.is_ascii_digit());
    (letters, name[letters.len()..].parse().ok())
}

/// The number of a name that is `prefix` and a number.
fn number_behind(prefix: &str, name: &str) -> Option<u32> {
    name.strip_prefix(prefix)?.parse().ok()
}

/// Name of the machine, of its firmware or of the board.
const NAMES: [&str; 2] = ["sys/class/dmi/id/product_name", "proc/device-tree/model"];

/// More than the kernel writes to any file that is read here: a list of processors takes two pages at most.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// More than the functions on the PCI bus of any machine.
const NAMES_MAX: usize = 64 << 10;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::described::{machines, write_tree};
    use crate::device::{LinkKind, PartKind};
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    /// A tree of files; those whose text begins with `-> ` are links.
    pub(crate) fn tree(files: &[(&str, &str)]) -> TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            match text.strip_prefix("-> ") {
                Some(target) => symlink(target, path).unwrap(),
                None => fs::write(path, text).unwrap(),
            }
        }
        root
    }

    pub(crate) fn set(text: &str) -> ProcessorSet {
        ProcessorSet::of_list(text).unwrap()
    }

    #[test]
    fn system_without_processors_is_an_error() {
        let error = NodeHardware::of_linux(Path::new("/no/such"), Wanted::ALL).unwrap_err();
        let expected = "'/no/such/sys/devices/system/cpu/online' names no processors";
        assert!(error.to_string().starts_with(expected), "{error}");
        for text in ["", "x", "0-99999999"] {
            let root = tree(&[("sys/devices/system/cpu/online", text)]);
            assert!(NodeHardware::of_linux(root.path(), Wanted::ALL).is_err(), "{text}");
        }
    }

    /// Linux says neither UUIDs of MIG instances and tiles, nor partitions before their driver has started,
    /// nor what NVLink joins.
    fn as_linux_says(mut hardware: NodeHardware) -> NodeHardware {
        hardware.links.retain(|link| matches!(link.kind, LinkKind::Xgmi { .. }));
        for device in &mut hardware.devices {
            device.parts.retain(|part| part.kind != PartKind::Partition);
            for part in &mut device.parts {
                part.uuid = None;
            }
        }
        hardware
    }

    #[test]
    fn trees_of_described_machines_are_read_as_described() {
        for (name, described) in machines() {
            // Thousands of files, which take a minute on some disks.
            let root = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
            write_tree(&described, root.path()).unwrap();
            let read = NodeHardware::of_linux(root.path(), Wanted::ALL).unwrap();
            let described = as_linux_says(described);
            assert_eq!(read.processors, described.processors, "{name}");
            let groups = read.groups.iter().zip(&described.groups);
            for (read, described) in groups {
                assert_eq!(read, described, "{name}");
            }
            assert_eq!(read.memories, described.memories, "{name}");
            for (read, described) in read.devices.iter().zip(&described.devices) {
                assert_eq!(read, described, "{name}");
            }
            assert_eq!(read, described, "{name}");
        }
    }

    #[test]
    fn machine_of_which_nothing_else_is_known_has_processors() {
        let root = tree(&[("sys/devices/system/cpu/online", "0-1,3\n")]);
        let all = NodeHardware::of_linux(root.path(), Wanted::ALL).unwrap();
        let expected = NodeHardware { processors: set("0-1,3"), ..NodeHardware::default() };
        assert_eq!(all, expected);
        assert_eq!(all.cores().len(), 3);
    }

    #[test]
    fn files_that_are_hostile_are_absent_facts() {
        let long = "0,".repeat(TEXT_BYTES_MAX);
        let cpu = "sys/devices/system/cpu/cpu0";
        let pci = "sys/bus/pci/devices/0000:01:00.0";
        let files = [
            ("sys/devices/system/cpu/online".to_owned(), "0-3\n"),
            (format!("{cpu}/topology/core_cpus_list"), "-> /dev/zero"),
            (format!("{cpu}/topology/package_cpus_list"), &long),
            (format!("{cpu}/cache/index0/shared_cpu_list"), "0-99999"),
            ("sys/devices/system/node/online".to_owned(), "0-60000"),
            (format!("{pci}/class"), "0x030000"),
            (format!("{pci}/vendor"), "-> ."),
            (format!("{pci}/numa_node"), "-1\n"),
            (format!("{pci}/local_cpulist"), "\u{fffd}"),
        ];
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        let root = tree(&files);
        let all = NodeHardware::of_linux(root.path(), Wanted::ALL).unwrap();
        assert_eq!((all.groups, all.memories), (Vec::new(), Vec::new()));
        assert_eq!(all.devices, []);
    }
}
