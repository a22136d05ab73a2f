//! Topology of this machine in the XML format of hwloc, as a file that ranks can read.
//!
//! Each rank of MPICH detects the topology by itself unless the process manager names a file with it. The
//! ranks of a node would all read the same hundreds of files of the system at the same time.

use super::processors::{ROOT, either, list, numa_nodes};
use super::resources::memory_total;
use pmi_host_base::system_file;
use pmi_nodes::resources::{NumaNode, PROCESSORS_MAX};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsRawFd;
use std::path::Path;

/// Key under which ranks of MPICH look for the path of the file.
pub(crate) const KEY: &str = "PMI_hwloc_xmlfile";

/// The topology of this machine as a file without a name: ranks open it by its descriptor in this process,
/// and it ends with this process.
#[derive(Debug)]
pub(crate) struct TopologyFile(File);

impl TopologyFile {
    /// Writes the topology, if ranks of this node may use all processors of the machine: those `allowed` to
    /// this process. hwloc omits processors that a control group excludes, so that a rank which finds some
    /// excluded detects the topology by itself.
    pub(crate) fn of_machine(allowed: &[u32]) -> Option<Self> {
        let root = Path::new(ROOT);
        let online = list(&root.join("cpu/online")).ok()?;
        let mut allowed = allowed.to_vec();
        allowed.sort_unstable();
        // A machine that cannot be expressed, or that the system does not describe, is left to the ranks.
        let text = (allowed == online).then(|| describe(root).ok())??;
        Self::with_text(&text).ok()
    }

    fn with_text(text: &str) -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let mut file = File::from(memfd_create("topology", flags)?);
        file.write_all(text.as_bytes())?;
        let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
        fcntl_add_seals(&file, seals)?;
        Ok(Self(file))
    }

    /// Path of the file for other processes of this user, while this process runs.
    pub(crate) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }
}

/// Object of a topology; the order of variants is that of containment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ObjectKind {
    Package(u32),
    Cache(CacheFacts),
    Core(u32),
    Processor(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CacheFacts {
    /// Distance from memory: larger caches contain smaller ones.
    level: std::cmp::Reverse<u32>,
    is_data: bool,
    size_bytes: u64,
    line_bytes: u32,
    ways: u32,
}

#[derive(Clone, Debug)]
struct TopologyObject {
    kind: ObjectKind,
    /// Processors in it, in ascending order.
    processors: Vec<u32>,
}

/// A memory domain.
struct Domain {
    number: u32,
    processors: Vec<u32>,
    bytes: u64,
}

/// The topology that the system describes below `root`, as XML of hwloc 2.
///
/// # Errors
///
/// Those of the system; [`io::ErrorKind::Unsupported`] for memory domains that are neither a package nor the
/// machine, and for objects that overlap.
fn describe(root: &Path) -> io::Result<String> {
    let online = list(&root.join("cpu/online"))?;
    let objects = objects(root, &online)?;
    let domains = domains(root, &online)?;
    let mut writer = XmlWriter { text: HEAD.to_owned(), next_index: 0, domains };
    writer.open("Machine", "os_index=\"0\" ", &online, &online, "");
    let is_machine = writer.domains.iter().all(|domain| domain.processors == online);
    if is_machine {
        writer.memory(&online);
    }
    let packages = objects.iter().filter(|object| matches!(object.kind, ObjectKind::Package(_)));
    let is_package =
        |domain: &Domain| packages.clone().any(|all| all.processors == domain.processors);
    if !is_machine && !writer.domains.iter().all(is_package) {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "a memory domain is part of a package",
        ));
    }
    writer.nested(objects.iter().collect(), !is_machine)?;
    writer.close();
    writer.text.push_str("</topology>\n");
    Ok(writer.text)
}

/// All objects, each in front of those inside it.
fn objects(root: &Path, online: &[u32]) -> io::Result<Vec<TopologyObject>> {
    let mut objects: BTreeMap<(Vec<u32>, ObjectKind), ()> = BTreeMap::new();
    let mut add = |kind, processors: Vec<u32>| objects.insert((processors, kind), ());
    for &processor in online {
        add(ObjectKind::Processor(processor), vec![processor]);
        let directory = root.join(format!("cpu/cpu{processor}"));
        let core =
            either(&directory, ["topology/core_cpus_list", "topology/thread_siblings_list"])?;
        // Threads of a core share all of its caches.
        if core.first() != Some(&processor) {
            continue;
        }
        let package =
            either(&directory, ["topology/package_cpus_list", "topology/core_siblings_list"])?;
        let number = |name: &str| list(&directory.join(name));
        // Some machines number no packages, and write -1.
        let package_number = number("topology/physical_package_id").ok();
        let package_number = package_number.and_then(|all| all.first().copied()).unwrap_or(0);
        if package.first() == Some(&processor) {
            add(ObjectKind::Package(package_number), package);
        }
        let core_number = number("topology/core_id")?.first().copied().unwrap_or(processor);
        add(ObjectKind::Core(core_number), core);
        for index in 0..CACHES_MAX {
            let cache = directory.join(format!("cache/index{index}"));
            let Ok(kind) = system_file::read_to_string(cache.join("type")) else { break };
            // As hwloc does by default.
            if kind.trim() == "Instruction" {
                continue;
            }
            let shared = list(&cache.join("shared_cpu_list"))?;
            if shared.first() == Some(&processor) {
                let facts = cache_facts(&cache, kind.trim() == "Data");
                add(ObjectKind::Cache(facts), shared);
            }
        }
    }
    let mut all: Vec<_> =
        objects.into_keys().map(|(processors, kind)| TopologyObject { kind, processors }).collect();
    // By the first processor, the larger first; of equal ones, the outer first.
    all.sort_by(|a, b| {
        let first = a.processors.first().cmp(&b.processors.first());
        first.then(b.processors.len().cmp(&a.processors.len())).then(a.kind.cmp(&b.kind))
    });
    Ok(all)
}

fn cache_facts(directory: &Path, is_data: bool) -> CacheFacts {
    let text = |name: &str| system_file::read_to_string(directory.join(name)).unwrap_or_default();
    let number = |name: &str| text(name).trim().parse::<u32>().unwrap_or(0);
    let size = text("size");
    let size_kib = size.trim().strip_suffix('K').and_then(|kib| kib.parse::<u64>().ok());
    CacheFacts {
        level: std::cmp::Reverse(number("level")),
        is_data,
        size_bytes: size_kib.unwrap_or(0) * 1024,
        line_bytes: number("coherency_line_size"),
        ways: number("ways_of_associativity"),
    }
}

/// Memory domains, with their sizes.
fn domains(root: &Path, online: &[u32]) -> io::Result<Vec<Domain>> {
    let domain = |NumaNode { number, processors }| {
        let facts = root.join(format!("node/node{number}/meminfo"));
        let facts = system_file::read_to_string(facts).unwrap_or_default();
        let bytes = memory_total(&facts).unwrap_or(0);
        Domain { number, processors: processors.iter().collect(), bytes }
    };
    Ok(numa_nodes(root, online)?.into_iter().map(domain).collect())
}

struct XmlWriter {
    text: String,
    next_index: u32,
    domains: Vec<Domain>,
}

impl XmlWriter {
    /// Writes objects and those inside them; in packages also their memory.
    fn nested(&mut self, mut objects: Vec<&TopologyObject>, has_memory: bool) -> io::Result<()> {
        while let Some((outer, others)) = objects.split_first() {
            let has = |processor: &u32| outer.processors.binary_search(processor).is_ok();
            let (inside, apart): (Vec<_>, Vec<_>) =
                others.iter().copied().partition(|other| other.processors.iter().all(has));
            if apart.iter().any(|other| other.processors.iter().any(has)) {
                return Err(io::Error::new(io::ErrorKind::Unsupported, "objects overlap"));
            }
            self.object(outer);
            if has_memory && matches!(outer.kind, ObjectKind::Package(_)) {
                self.memory(&outer.processors);
            }
            self.nested(inside, has_memory)?;
            self.close();
            objects = apart;
        }
        Ok(())
    }

    fn object(&mut self, object: &TopologyObject) {
        let all = &object.processors;
        match object.kind {
            ObjectKind::Package(number) => self.numbered("Package", number, all),
            ObjectKind::Core(number) => self.numbered("Core", number, all),
            ObjectKind::Processor(number) => self.numbered("PU", number, all),
            ObjectKind::Cache(facts) => {
                let CacheFacts { level: std::cmp::Reverse(level), is_data, .. } = facts;
                let attributes = format!(
                    " cache_size=\"{}\" depth=\"{level}\" cache_linesize=\"{}\" cache_associativity=\"{}\" \
                     cache_type=\"{}\"",
                    facts.size_bytes,
                    facts.line_bytes,
                    facts.ways,
                    u8::from(is_data)
                );
                self.open(&format!("L{level}Cache"), "", all, &[], &attributes);
            }
        }
    }

    fn numbered(&mut self, kind: &str, number: u32, processors: &[u32]) {
        self.open(kind, &format!("os_index=\"{number}\" "), processors, &[], "");
    }

    /// The memory domains with exactly these processors.
    fn memory(&mut self, processors: &[u32]) {
        let of = |domain: &&Domain| domain.processors == processors;
        let found: Vec<_> =
            self.domains.iter().filter(of).map(|domain| (domain.number, domain.bytes)).collect();
        for (number, bytes) in found {
            let memory = format!(" local_memory=\"{bytes}\"");
            self.open("NUMANode", &format!("os_index=\"{number}\" "), processors, &[], &memory);
            self.close();
        }
    }

    /// Opens an object. The machine also lists the processors that are `allowed`.
    fn open(&mut self, kind: &str, index: &str, processors: &[u32], allowed: &[u32], more: &str) {
        self.next_index += 1;
        let cpus = bits(processors);
        let near = |domain: &&Domain| domain.processors.iter().any(|own| processors.contains(own));
        let nodes: Vec<u32> =
            self.domains.iter().filter(near).map(|domain| domain.number).collect();
        let nodes = bits(&nodes);
        let allowed = match allowed {
            [] => String::new(),
            _ => format!(" allowed_cpuset=\"{}\" allowed_nodeset=\"{nodes}\"", bits(allowed)),
        };
        self.text += &format!(
            "<object type=\"{kind}\" {index}cpuset=\"{cpus}\" complete_cpuset=\"{cpus}\" \
             nodeset=\"{nodes}\" complete_nodeset=\"{nodes}\" gp_index=\"{}\"{more}{allowed}",
            self.next_index
        );
        self.text.push_str(">\n");
    }

    fn close(&mut self) {
        self.text.push_str("</object>\n");
    }
}

/// A set as hwloc writes it: words of 32 bits, the highest first.
fn bits(members: &[u32]) -> String {
    let members = members.iter().filter(|member| **member < PROCESSORS_MAX);
    let mut words = vec![0_u32; 1];
    for member in members {
        let word = usize::try_from(member / 32).unwrap_or(0);
        words.resize(words.len().max(word + 1), 0);
        words[word] |= 1 << (member % 32);
    }
    let words: Vec<_> = words.iter().rev().map(|word| format!("0x{word:08x}")).collect();
    words.join(",")
}

const HEAD: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
                    <!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version=\"2.0\">\n";

/// Bound on the caches of a processor.
const CACHES_MAX: u32 = 16;

#[cfg(test)]
mod tests {
    use super::super::processors::tests::machine;
    use super::*;
    use std::fs;

    /// Two sockets of two cores of two threads, each with a memory domain; see [`machine`].
    fn described() -> String {
        let (root, _) = machine(&[0]);
        let root = root.path();
        fs::write(root.join("cpu/online"), "0-7\n").unwrap();
        for cpu in 0..8 {
            let cache = |index: u32, file: &str| {
                root.join(format!("cpu/cpu{cpu}/cache/index{index}/{file}"))
            };
            for (index, size) in [(0, "512K"), (1, "32768K")] {
                fs::write(cache(index, "type"), "Unified\n").unwrap();
                fs::write(cache(index, "size"), size).unwrap();
            }
        }
        for node in 0..2 {
            let facts =
                format!("Node {node} MemTotal:       1024 kB\nNode {node} MemFree:    5 kB\n");
            fs::write(root.join(format!("node/node{node}/meminfo")), facts).unwrap();
        }
        describe(root).unwrap()
    }

    #[test]
    fn objects_are_nested_and_each_stands_once() {
        let text = described();
        let kinds = |line: &str| line.split('"').nth(1).map(str::to_owned);
        let objects: Vec<_> =
            text.lines().filter(|line| line.starts_with("<object")).filter_map(kinds).collect();
        let core = ["L2Cache", "Core", "PU", "PU"];
        let package = [&["Package", "NUMANode", "L3Cache"][..], &core, &core].concat();
        assert_eq!(objects, [&["Machine"][..], &package, &package].concat());
        assert_eq!(text.matches("<object").count(), text.matches("</object>").count());
        assert!(text.contains("type=\"Core\" os_index=\"8\" cpuset=\"0x00000022\""), "{text}");
        assert!(text.contains("cache_size=\"33554432\" depth=\"3\""), "{text}");
        let second = "cpuset=\"0x000000cc\" nodeset=\"0x00000002\"";
        assert!(text.contains(second), "{text}");
        assert!(text.contains("local_memory=\"1048576\""), "{text}");
    }

    #[test]
    fn sets_have_words_of_32_bits() {
        assert_eq!(bits(&[0, 31]), "0x80000001");
        assert_eq!(bits(&[1, 64]), "0x00000001,0x00000000,0x00000002");
        assert_eq!(bits(&[]), "0x00000000");
    }

    #[test]
    fn file_can_be_read_by_its_path_and_not_changed() {
        let file = TopologyFile::with_text("<topology/>").unwrap();
        assert_eq!(fs::read_to_string(file.path()).unwrap(), "<topology/>");
        assert!(fs::write(file.path(), "x").is_err());
    }
}
