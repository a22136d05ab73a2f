//! What this machine offers to ranks: its processors and memory, from the files of the system.

use super::binding;
use super::processors::ROOT;
use pmi_host_base::ranges::Ranks;
use pmi_host_base::system_file;
use pmi_host_hardware::linux::{memory_domains, memory_total};
use pmi_host_hardware::model::Memory;
use pmi_nodes::resources::{NodeResources, NumaNode};
use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

/// Reads what the system whose files are below `root` offers to a process that is `allowed` these processors.
/// A machine that lists no memory domains has one.
fn resources_below(root: &Path, allowed: &[u32], parallelism: usize) -> NodeResources {
    let memories = memory_domains(root, &allowed.iter().copied().collect());
    let domain = |memory: Memory| NumaNode {
        number: memory.number,
        processors: memory.near.iter().copied().collect(),
    };
    let processors = Ranks::from_iter(allowed.iter().copied());
    let numa_nodes = match memories.is_empty() {
        true => vec![NumaNode { number: 0, processors: processors.clone() }],
        false => memories.into_iter().map(domain).collect(),
    };
    NodeResources {
        processors,
        parallelism: u32::try_from(parallelism).unwrap_or(u32::MAX),
        memory_bytes: memory(root),
        numa_nodes,
    }
}

/// What this process may use: each fact is read when it is first needed, and once.
#[derive(Debug, Default)]
pub(crate) struct OwnResources {
    allowed: OnceCell<Vec<u32>>,
    parallelism: OnceCell<usize>,
    all: OnceCell<NodeResources>,
}

impl OwnResources {
    /// Processors, in ascending order; none if the system does not list them.
    pub(crate) fn allowed(&self) -> &[u32] {
        self.allowed.get_or_init(|| binding::allowed().unwrap_or_default())
    }

    /// As many of the processors as the control group grants at the same time.
    pub(crate) fn granted(&self) -> &[u32] {
        let allowed = self.allowed();
        &allowed[..self.parallelism().min(allowed.len())]
    }

    /// It is read from files of the control group.
    fn parallelism(&self) -> usize {
        let read = || available_parallelism().map_or(self.allowed().len(), usize::from);
        *self.parallelism.get_or_init(read)
    }

    /// All resources.
    pub(crate) fn all(&self) -> &NodeResources {
        let read = || resources_below(Path::new(ROOT), self.allowed(), self.parallelism());
        self.all.get_or_init(read)
    }
}

/// Bytes of memory that a process may use on the system below `root`.
fn memory(root: &Path) -> Option<u64> {
    let read = |file: PathBuf| system_file::read_to_string(file).unwrap_or_default();
    let mut least = memory_total(&read(root.join("proc/meminfo")));
    for group in memory_groups(root, &read(root.join("proc/self/cgroup"))) {
        let file = if group.is_newer { "memory.max" } else { "memory.limit_in_bytes" };
        // A group may use no more than those around it. Without a limit the file holds `max`.
        let around = group.directory.ancestors().take_while(|one| one.starts_with(groups_in(root)));
        let limits = around.filter_map(|one| read(one.join(file)).trim().parse::<u64>().ok());
        least = least.into_iter().chain(limits).min();
    }
    least
}

/// A control group that accounts for memory.
pub(crate) struct MemoryGroup {
    pub(crate) directory: PathBuf,
    /// True in version 2.
    pub(crate) is_newer: bool,
}

/// Groups that may account for the memory of a process of the system below `root`, from the list of its
/// groups: `ID:CONTROLLERS:PATH`, one a line.
pub(crate) fn memory_groups(root: &Path, groups: &str) -> impl Iterator<Item = MemoryGroup> {
    let mounted = groups_in(root);
    groups.lines().filter_map(move |line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let is_newer = controllers.is_empty();
        let hierarchy = match is_newer {
            true => mounted.clone(),
            false if controllers.split(',').any(|one| one == "memory") => mounted.join("memory"),
            false => return None,
        };
        Some(MemoryGroup { directory: hierarchy.join(path.trim_start_matches('/')), is_newer })
    })
}

/// Directory of the control groups.
fn groups_in(root: &Path) -> PathBuf {
    root.join("sys/fs/cgroup")
}

#[cfg(test)]
mod tests {
    use super::super::processors::tests::machine;
    use super::*;
    use pmi_host_hardware::described::write_tree;
    use std::fs;
    use tempfile::TempDir;

    /// A system with these files.
    fn system(files: &[(&str, &str)]) -> TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a file is in a directory")).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn domains(resources: &NodeResources) -> Vec<(u32, String)> {
        let of = |node: &NumaNode| (node.number, node.processors.to_string());
        resources.numa_nodes.iter().map(of).collect()
    }

    #[test]
    fn node_has_the_processors_that_it_may_use_and_their_domains() {
        let root = tempfile::tempdir().unwrap();
        write_tree(&machine(), root.path()).unwrap();
        let resources = resources_below(root.path(), &[1, 2, 3, 5], 2);
        assert_eq!((resources.processors.to_string(), resources.parallelism), ("1-3,5".into(), 2));
        assert_eq!(domains(&resources), [(0, "1,5".into()), (1, "2,3".into())]);
        assert_eq!(resources.memory_bytes, None);
        // Memory without processors, as on a card or behind CXL.
        let nodes = root.path().join("sys/devices/system/node");
        fs::write(nodes.join("online"), "0-2\n").unwrap();
        fs::create_dir(nodes.join("node2")).unwrap();
        fs::write(nodes.join("node2/cpulist"), "\n").unwrap();
        let resources = resources_below(root.path(), &[4], 1);
        assert_eq!(domains(&resources), [(0, "4".into()), (1, String::new()), (2, String::new())]);
    }

    #[test]
    fn machine_that_lists_no_domains_has_one() {
        let root = system(&[("proc/meminfo", "MemTotal:  2048 kB\nMemFree:  1 kB\n")]);
        let resources = resources_below(root.path(), &[0, 1], 2);
        assert_eq!(domains(&resources), [(0, "0,1".into())]);
        assert_eq!(resources.memory_bytes, Some(2048 * 1024));
    }

    #[test]
    fn memory_is_the_least_that_the_machine_and_the_control_groups_grant() {
        let meminfo = ("proc/meminfo", "MemTotal:       4096 kB\nMemFree:          12 kB\n");
        let newer = ("proc/self/cgroup", "0::/job/step\n");
        let older = ("proc/self/cgroup", "4:cpu,memory:/job/step\n1:name=systemd:/\n0::/\n");
        let cases: [(&[(&str, &str)], u64); 7] = [
            (&[meminfo], 4 << 20),
            (&[meminfo, newer, ("sys/fs/cgroup/job/step/memory.max", "max\n")], 4 << 20),
            (&[meminfo, newer, ("sys/fs/cgroup/job/step/memory.max", "1048576\n")], 1 << 20),
            // The group around it is smaller.
            (
                &[
                    meminfo,
                    newer,
                    ("sys/fs/cgroup/job/step/memory.max", "1048576\n"),
                    ("sys/fs/cgroup/job/memory.max", "65536\n"),
                ],
                65536,
            ),
            // In a container the path is that of the host, and the group is mounted as the root.
            (&[meminfo, older, ("sys/fs/cgroup/memory/memory.limit_in_bytes", "4096\n")], 4096),
            (
                &[
                    meminfo,
                    older,
                    ("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n"),
                ],
                4 << 20,
            ),
            (&[newer, ("sys/fs/cgroup/job/memory.max", "4096\n")], 4096),
        ];
        for (files, bytes) in cases {
            assert_eq!(memory(system(files).path()), Some(bytes), "{files:?}");
        }
        assert_eq!(memory(Path::new("/no/such")), None);
    }

    #[test]
    fn own_resources_agree_with_each_other() {
        let own = OwnResources::default();
        let all = own.all();
        assert_eq!(all.processors, own.allowed().iter().copied().collect());
        assert_eq!(u32::try_from(own.granted().len()), Ok(all.parallelism));
        assert!(all.memory_bytes.is_some_and(|bytes| bytes > 1 << 20) && all.is_possible());
        let in_domains: u64 = all.numa_nodes.iter().map(|node| node.processors.count()).sum();
        assert!(in_domains <= all.processors.count());
    }
}
