//! Tests of reader and writer.

use super::read::Document;
use super::{HwlocVersion, limits};
use crate::described::{MACHINES, machines, tree_parent, write_tree};
use crate::device::{DeviceKind, DeviceLink, Fabric, GpuMaker, LinkKind};
use crate::model::{GroupKind, MemoryKind, NodeHardware};
use proptest::prelude::*;
use quick_xml::events::Event;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::Command;

/// Counts that the machines of the project's topologies are known for.
#[derive(Debug, PartialEq, Eq)]
struct Counts {
    packages: usize,
    cores: usize,
    processors: usize,
    memories: usize,
    gpus: Vec<GpuMaker>,
    fabrics: Vec<Fabric>,
}

fn counts(hardware: &NodeHardware) -> Counts {
    let fabric = |kind| match kind {
        DeviceKind::Network(fabric) => Some(fabric),
        _ => None,
    };
    let gpu = |kind| match kind {
        DeviceKind::Gpu(maker) => Some(maker),
        _ => None,
    };
    let kinds = || hardware.devices.iter().map(|device| device.kind);
    Counts {
        packages: hardware.sets(|kind| *kind == GroupKind::Package).len(),
        cores: hardware.cores().len(),
        processors: hardware.processors.len(),
        memories: hardware.memories.len(),
        gpus: kinds().filter_map(gpu).collect(),
        fabrics: kinds().filter_map(fabric).filter(|one| *one != Fabric::Ethernet).collect(),
    }
}

#[test]
fn real_machines_are_read() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/topologies");
    if !directory.is_dir() {
        // Past the harness, which keeps what tests print that pass.
        let _ = writeln!(io::stderr(), "skipped: {} is not here", directory.display());
        return;
    }
    use Fabric::{Efa, InfiniBand, OmniPath, Slingshot};
    use GpuMaker::{Amd, Nvidia};
    let known = [
        ("coral-ea-hwloc1", (2, 20, 160, 2), vec![Nvidia; 4], vec![InfiniBand; 2]),
        ("coral-lassen", (2, 40, 160, 2), vec![Nvidia; 4], vec![InfiniBand; 4]),
        ("cts1-pascal", (2, 36, 72, 2), vec![Nvidia; 2], vec![InfiniBand]),
        ("cts1-quartz-smt1", (2, 36, 36, 2), vec![], vec![OmniPath]),
        ("eas-tioga", (1, 64, 128, 4), vec![Amd; 8], vec![Slingshot; 4]),
        ("epyc-corona", (2, 48, 96, 8), vec![Amd; 4], vec![InfiniBand]),
        ("g4dnmetal", (2, 48, 96, 2), vec![Nvidia; 8], vec![Efa]),
    ];
    for (name, (packages, cores, processors, memories), gpus, fabrics) in known {
        let text = std::fs::read_to_string(directory.join(name).with_extension("xml")).unwrap();
        let hardware = NodeHardware::of_hwloc(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        let expected = Counts { packages, cores, processors, memories, gpus, fabrics };
        assert_eq!(counts(&hardware), expected, "{name}");
        for version in [HwlocVersion::V1, HwlocVersion::V2] {
            let again = NodeHardware::of_hwloc(&hardware.hwloc(version));
            assert_eq!(again, Ok(as_written(&hardware, version)), "{name} {version:?}");
        }
    }
}

/// Version 1 knows no links.
fn as_written(hardware: &NodeHardware, version: HwlocVersion) -> NodeHardware {
    let mut written = hardware.clone();
    if version == HwlocVersion::V1 {
        written.links.clear();
    }
    written
}

#[test]
fn written_machines_are_read_back() {
    for (name, hardware) in machines() {
        for version in [HwlocVersion::V1, HwlocVersion::V2] {
            let text = hardware.hwloc(version);
            let again = NodeHardware::of_hwloc(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(again, as_written(&hardware, version), "{name} {version:?}");
        }
    }
}

/// Numbers of packages, cores, processors, memory domains and devices on the PCI bus.
type Objects = [usize; 5];

fn objects(hardware: &NodeHardware) -> Objects {
    let packages = hardware.sets(|kind| *kind == GroupKind::Package).len();
    let on_bus = hardware.devices.iter().filter(|device| device.pci.is_some()).count();
    let [cores, processors] = [hardware.cores().len(), hardware.processors.len()];
    [packages, cores, processors, hardware.memories.len(), on_bus]
}

/// Output of `lstopo`; `None` if it is not installed.
fn lstopo(words: &[&str], input: &Path) -> Option<String> {
    let Ok(output) = Command::new("lstopo-no-graphics").args(words).arg(input).output() else {
        assert!(std::env::var_os("CI").is_none(), "Debian's package hwloc-nox is missing");
        eprintln!("skipped: lstopo-no-graphics of Debian's package hwloc-nox is not here");
        return None;
    };
    let [text, errors] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success() && errors.is_empty(), "{errors}");
    Some(text)
}

/// The same as hwloc counts them; `None` if it is not installed.
fn objects_of_lstopo(format: &str, input: &Path) -> Option<Objects> {
    let text = lstopo(&["--if", format, "--of", "console", "-s", "-i"], input)?;
    // As ` depth 1:    2 Package (type #1)`, or `Special depth -3:  2 NUMANode (type #13)`.
    let number = |name: &str| {
        let counts = text.lines().filter_map(|line| line.split_once(':')?.1.split_once('('));
        let mut counts = counts.filter_map(|(count, _)| count.trim().split_once(' '));
        let count = counts.find(|(_, class)| *class == name);
        count.map_or(0, |(count, _)| count.parse().unwrap())
    };
    Some(["Package", "Core", "PU", "NUMANode", "PCIDev"].map(number))
}

#[test]
fn hwloc_reads_what_is_written() {
    for (name, hardware) in machines() {
        for version in [HwlocVersion::V1, HwlocVersion::V2] {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), hardware.hwloc(version)).unwrap();
            let Some(counted) = objects_of_lstopo("xml", file.path()) else { return };
            assert_eq!(counted, objects(&hardware), "{name} {version:?}");
        }
    }
}

#[test]
fn hwloc_finds_the_hardware_in_files_of_linux() {
    for (name, mut hardware) in machines() {
        let directory = tempfile::tempdir_in(tree_parent()).unwrap();
        write_tree(&hardware, directory.path()).unwrap();
        // hwloc 2.9 leaves out the memory of GPUs.
        hardware.memories.retain(|memory| memory.kind != MemoryKind::OfGpu);
        let Some(counted) = objects_of_lstopo("fsroot", directory.path()) else { return };
        assert_eq!(counted, objects(&hardware), "{name}");
    }
}

/// Each memory domain by its number, with the type and the processors of the object at which it hangs.
fn places_of_memories(text: &str) -> Vec<String> {
    let mut reader = quick_xml::Reader::from_str(text);
    let (mut open, mut found) = (Vec::new(), Vec::new());
    loop {
        let event = reader.read_event().unwrap();
        let (Event::Start(tag) | Event::Empty(tag)) = &event else {
            match event {
                Event::End(_) => drop(open.pop()),
                Event::Eof => break,
                _ => (),
            }
            continue;
        };
        let value = |name: &str| {
            let attribute = tag.try_get_attribute(name).unwrap();
            attribute.map_or(String::new(), |attribute| attribute.value.to_string())
        };
        let label = format!("{} {}", value("type"), value("cpuset"));
        if tag.name().as_ref() == "object" && label.starts_with("NUMANode") {
            found.push(format!("{} at {}", value("os_index"), open.last().unwrap()));
        }
        if matches!(event, Event::Start(_)) {
            open.push(label);
        }
    }
    found.sort();
    found
}

#[test]
fn memory_hangs_where_hwloc_hangs_it() {
    for (name, mut hardware) in machines() {
        let directory = tempfile::tempdir_in(tree_parent()).unwrap();
        write_tree(&hardware, directory.path()).unwrap();
        hardware.memories.retain(|memory| memory.kind != MemoryKind::OfGpu);
        let Some(text) = lstopo(&["--if", "fsroot", "--of", "xml", "-i"], directory.path()) else {
            return;
        };
        let own = places_of_memories(&hardware.hwloc(HwlocVersion::V2));
        assert_eq!(own, places_of_memories(&text), "{name}");
    }
}

#[test]
fn hwloc_reads_links_between_devices() {
    let known = [
        ("perlmutter", "NVLinkCount", "0000:03:00.0 0 4 4 4", "bandwidth"),
        ("frontier", "XGMIWeight", "0000:d9:00.0 15 30 30 30 15 30 0 15", "latency"),
    ];
    for (name, matrix, row, meaning) in known {
        let (_, hardware) = machines().find(|(other, _)| *other == name).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), hardware.hwloc(HwlocVersion::V2)).unwrap();
        let words = ["--if", "xml", "--of", "console", "--distances", "-i"];
        let Some(text) = lstopo(&words, file.path()) else { return };
        let head = format!("Relative {meaning} matrix (name {matrix} ");
        assert!(text.contains(&head), "{text}");
        let rows = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        assert!(rows.clone().any(|line| line == row), "{text}");
    }
}

#[test]
fn links_that_hwloc_writes_are_read() {
    let gpu = |slot: u32| {
        let (bus, name) = (slot * 10, slot * 10 + 1);
        format!(
            "<object type='PCIDev' gp_index='{bus}' pci_busid='0000:0{slot}:00.0' \
             pci_type='0302 [10de:20b0]'><object type='OSDev' gp_index='{name}' osdev_type='1' \
             name='nvml{slot}'/></object>"
        )
    };
    let gpus: String = (1..4).map(gpu).collect();
    let text = machine(&(processors(0..4) + &gpus));
    let matrix = |name: &str, indexes: &str, values: &str| {
        let matrix = format!(
            "<distances2 type='OSDev' nbobjs='3' kind='9' name='{name}' indexing='gp'>\n\
             <indexes length='9'>{indexes}</indexes>\n<u64values>{values}</u64values>\
             </distances2></topology>"
        );
        text.replace("</topology>", &matrix)
    };
    // The last one is a switch, which is no device of the model.
    let values = "1000000 100000 25000 100000 1000000 0</u64values><u64values>25000 0 1000000";
    let read = NodeHardware::of_hwloc(&matrix("NVLinkBandwidth", "11 21 77 ", values)).unwrap();
    let link = |one: &str, other: &str, count| {
        let [one, other] = [one, other].map(|slot| format!("0000:0{slot}:00.0").parse().unwrap());
        DeviceLink::new(one, other, LinkKind::NvLink { count })
    };
    assert_eq!(read.links, [link("1", "2", 4)]);
    let first = "0 40000 0 40000 0 0 0 0 0";
    let read = NodeHardware::of_hwloc(&matrix("NVLinkBandwidth", "30 10 21", first)).unwrap();
    assert_eq!(read.links, [link("1", "3", 2)]);
    for (name, indexes) in [("NUMALatency", "11 21 31"), ("NVLinkCount", "11 11 1")] {
        let read = NodeHardware::of_hwloc(&matrix(name, indexes, "1 1 1 1")).unwrap();
        assert_eq!(read.links, [], "{name}");
    }
    assert!(refusal(&matrix("NVLinkCount", "11 x 1", "1")).contains("line 6: no well-formed XML"));
    let many = "1 ".repeat(2000);
    let error = refusal(&matrix("NVLinkCount", &many, ""));
    assert!(error.contains("more than 1024 devices in a matrix of links"), "{error}");
}

/// A machine with processors 0 to 3, and these objects inside.
fn machine(inside: &str) -> String {
    let head = "<topology version=\"2.0\">\n<object type=\"Machine\" cpuset=\"0xf\">\n";
    format!("{head}{inside}\n</object>\n</topology>")
}

fn processors(range: std::ops::Range<u32>) -> String {
    let one = |n| format!("<object type=\"PU\" os_index=\"{n}\" cpuset=\"0x{:x}\"/>", 1 << n);
    range.map(one).collect()
}

fn refusal(text: &str) -> String {
    NodeHardware::of_hwloc(text).unwrap_err().to_string()
}

#[test]
fn contradictions_are_named_with_line_and_object() {
    let all = processors(0..4);
    let package = |set: &str| format!("<object type='Package' os_index='1' cpuset='{set}'/>\n");
    let memory = "<object type='NUMANode' os_index='2' cpuset='0xf'/>\n";
    let numbered = "<object type='Misc' gp_index='7'/>\n";
    let device = |attributes: &str| format!("{all}\n<object type='PCIDev' {attributes}/>");
    let cases = [
        (String::new(), "line 1: no <topology> of hwloc"),
        ("<svg/>".into(), "line 1: no <topology> of hwloc"),
        (
            "<topology version='3.0'/>".into(),
            "line 1: version '3.0' of hwloc's XML is not read; lstopo",
        ),
        (
            "<topology>\n<object type='Core'/></topology>".into(),
            "line 2: Core: it does not belong inside",
        ),
        ("<topology>\n\n<object".into(), "line 3: no well-formed XML"),
        ("<topology>\n<info/>\n</object>".into(), "line 3: no well-formed XML"),
        ("<topology>\n<info/>\n".into(), "line 3: no well-formed XML (it ends early)"),
        (machine("&amp;"), "line 3: no well-formed XML (an entity"),
        (machine("<info name='a' value='&own;'/>"), "line 3: no well-formed XML"),
        (machine(""), "line 5: no processor that may be used"),
        (
            machine(&package("0x10")),
            "line 3: Package 1: it has the processors 4, which the object around",
        ),
        (
            machine(&package("0x3").repeat(2)),
            "line 4: Package 1: it has the processors 0-1, which an object",
        ),
        (machine(&package("0xf...f")), "line 3: Package 1: no usable attribute 'cpuset'"),
        (machine("<object type='Die'/>"), "line 3: Die: no usable attribute 'cpuset'"),
        (
            machine("<object type='Machine' cpuset='0x1'/>"),
            "line 3: Machine: another object has the same type",
        ),
        (
            machine("<object type='PU' os_index='1' cpuset='0x1'/>"),
            "line 3: PU 1: no usable attribute 'os_index'",
        ),
        (machine("<object/>"), "line 3: object: no usable attribute 'type'"),
        (machine("<object type='L9Cache' cpuset='0x1'/>"), "line 5: no processor"),
        (
            machine("<object type='Cache' cpuset='0x1'/>"),
            "line 3: Cache: no usable attribute 'depth'",
        ),
        (machine(&memory.repeat(2)), "line 4: NUMANode 2: another object has the same number"),
        (
            machine("<object type='NUMANode' cpuset='0x1'/>"),
            "line 3: NUMANode: no usable attribute 'os_index'",
        ),
        (
            machine("<object type='NUMANode' os_index='0' cpuset='0x30'/>"),
            "line 3: NUMANode 0: it has the processors 4-5",
        ),
        (machine(&numbered.repeat(2)), "line 4: Misc 7: another object has the same gp_index"),
        (
            machine(&device("pci_busid='0:1'")),
            "line 4: PCIDev 0:1: no usable attribute 'pci_busid'",
        ),
        (
            machine(&device("pci_busid='0000:01:00.0' pci_type='0302'")),
            "line 4: PCIDev 0000:01:00.0: no usable attribute 'pci_type'",
        ),
        (
            machine("<object type='OSDev' name='a b' osdev_type='2'/>"),
            "line 3: OSDev a b: no usable attribute 'name'",
        ),
        (
            machine("<object type='OSDev' name='&#27;[2J' osdev_type='2'/>"),
            "line 3: OSDev [2J: no usable attribute 'name'",
        ),
        (
            machine("<object type='OSDev' name='a'/>"),
            "line 3: OSDev a: no usable attribute 'osdev_type'",
        ),
        (
            machine("<info><object type='PU'/></info>"),
            "line 3: PU: it does not belong inside another element",
        ),
    ];
    for (text, expected) in cases {
        let error = refusal(&text);
        assert!(error.starts_with(expected), "{text}\n{error}\n{expected}");
        assert!(error.len() < 250, "{error}");
    }
}

#[test]
fn files_above_the_limits_are_refused() {
    let deep = "<object type='Group' cpuset='0xf'>".repeat(100_000);
    assert!(refusal(&machine(&deep)).contains("more than 64 elements inside each other"));
    let attributes: String = (0..100_000).map(|n| format!(" a{n}='1'")).collect();
    let wide = refusal(&machine(&format!("<object{attributes}/>")));
    assert!(wide.contains("more than 64 attributes"), "{wide}");
    let kinds = "<cpukind/>".repeat(300);
    let kinds = refusal(&format!("<topology version='2.0'>{kinds}</topology>"));
    assert!(kinds.contains("more than 64 kinds of cores"), "{kinds}");
    let memory = |number| format!("<object type='NUMANode' os_index='{number}' cpuset='0xf'/>");
    let memories = refusal(&machine(&(0..2000).map(memory).collect::<String>()));
    assert!(memories.contains("NUMANode 1024: more than 1024 memory domains"), "{memories}");
    let device = "<object type='OSDev' osdev_type='0' name='sda'/>";
    let devices = refusal(&machine(&device.repeat(20_000)));
    assert!(devices.contains("more than 16384 devices"), "{devices}");
    let names = device.repeat(70_000);
    let facts = "type='PCIDev' pci_busid='0000:01:00.0' pci_type='0108 [144d:a822]'";
    let names = refusal(&machine(&format!("<object {facts}>{names}</object>")));
    assert!(names.contains("more than 65536 names of devices"), "{names}");
    let words = "0xffffffff,".repeat(2047);
    let all = format!("<topology><object type='Machine' cpuset='{words}0xffffffff'>");
    let sets = refusal(&(all + &device.repeat(300)));
    assert!(sets.contains("more than 16777216 processors in all sets together"), "{sets}");
    let name = "x".repeat(1 << 20);
    let named = refusal(&machine(&format!("<object type='OSDev' osdev_type='0' name='{name}'/>")));
    assert!(named.contains("no usable attribute 'name'") && named.len() < 300, "{named}");
    let mut full = Document::default();
    full.objects = limits::OBJECTS_MAX;
    let fault = full.read(&machine("")).unwrap_err();
    assert_eq!(fault.reason.to_string(), "more than 1000000 objects");
    let long = " ".repeat((64 << 20) + 1);
    assert_eq!(refusal(&long), "line 1: more than 67108864 bytes");
}

#[test]
fn processors_that_may_not_be_used_are_left_out() {
    let text = machine(&processors(0..4)).replacen("cpuset", "allowed_cpuset=\"0x5\" cpuset", 1);
    let hardware = NodeHardware::of_hwloc(&text).unwrap();
    assert_eq!(hardware.processors.to_string(), "0,2");
    let offline = text.replacen("allowed", "online_cpuset=\"0x4\" allowed", 1);
    assert_eq!(NodeHardware::of_hwloc(&offline).unwrap().processors.to_string(), "2");
}

#[test]
fn kinds_of_memory_and_cores_are_read() {
    let memory = |number, subtype| {
        format!("<object type='NUMANode' os_index='{number}' cpuset='0x0' subtype='{subtype}'/>")
    };
    let memories: String =
        (0..).zip(["", "MCDRAM", "NVM", "GPUMemory"]).map(|(n, s)| memory(n, s)).collect();
    let core = |n: u32| {
        format!(
            "<object type='Core' os_index='{n}' cpuset='0x{:x}'>{}</object>",
            1 << n,
            processors(n..n + 1)
        )
    };
    let cores: String = (0..4).map(core).collect();
    let kinds = "<cpukind cpuset='0xc'><info name='CoreType' value='IntelCore'/></cpukind>\
        <cpukind cpuset='0x3'><info name='CoreType' value='IntelAtom'/></cpukind></topology>";
    let text = machine(&(memories + &cores)).replace("</topology>", kinds);
    let hardware = NodeHardware::of_hwloc(&text).unwrap();
    let kinds: Vec<_> = hardware.memories.iter().map(|memory| memory.kind).collect();
    use MemoryKind::{Far, HighBandwidth, Main, OfGpu};
    assert_eq!(kinds, [Main, HighBandwidth, Far, OfGpu]);
    assert!(hardware.memories.iter().all(|memory| memory.near == hardware.processors));
    let efficiencies = hardware.groups.iter().filter_map(|group| match group.kind {
        GroupKind::Core(facts) => Some(facts.efficiency),
        _ => None,
    });
    assert_eq!(efficiencies.collect::<Vec<_>>(), [0, 0, 1, 1]);
}

#[test]
fn names_of_old_releases_are_read() {
    let cache = "<object type='Cache' cpuset='0x3' depth='2' cache_type='0' cache_size='1024'>";
    let text = format!(
        "<topology><object type='System'><object type='Machine' cpuset='0x3' local_memory='4096'>\
         <object type='Socket' os_index='0' cpuset='0x3'>{cache}{}</object></object>\
         </object></object></topology>",
        processors(0..2)
    );
    let hardware = NodeHardware::of_hwloc(&text).unwrap();
    assert_eq!(objects(&hardware), [1, 2, 2, 1, 0]);
    assert_eq!(hardware.memories[0].bytes, Some(4096));
    let node = text.replace("Socket' os_index='0'", "Node' os_index='3' local_memory='8192'");
    let hardware = NodeHardware::of_hwloc(&node).unwrap();
    let memories: Vec<_> = hardware.memories.iter().map(|one| (one.number, one.bytes)).collect();
    assert_eq!(memories, [(3, Some(8192))]);
}

/// A change of a file.
#[derive(Clone, Debug)]
enum Mutation {
    Byte(usize, u8),
    Cut(usize),
    Repeat(usize, usize, usize),
    Remove(usize, usize),
    Swap(usize, usize),
}

impl Mutation {
    fn apply(&self, text: &mut Vec<u8>) {
        let lines = |text: &[u8], first: usize, count: usize| {
            let lines: Vec<Vec<u8>> =
                text.split_inclusive(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
            let first = first % lines.len().max(1);
            let last = (first + count).min(lines.len());
            (lines, first..last)
        };
        let len = text.len().max(1);
        match *self {
            Self::Byte(at, byte) => {
                if let Some(changed) = text.get_mut(at % len) {
                    *changed = byte;
                }
            }
            Self::Cut(at) => text.truncate(at % len),
            Self::Repeat(first, count, times) => {
                let (mut lines, range) = lines(text, first, count);
                let repeated: Vec<_> =
                    (0..times).flat_map(|_| lines[range.clone()].to_vec()).collect();
                lines.splice(range, repeated);
                *text = lines.concat();
            }
            Self::Remove(first, count) => {
                let (mut lines, range) = lines(text, first, count);
                lines.drain(range);
                *text = lines.concat();
            }
            Self::Swap(first, second) => {
                let (mut lines, range) = lines(text, first, 1);
                let second = second % lines.len().max(1);
                if !range.is_empty() {
                    lines.swap(range.start, second);
                }
                *text = lines.concat();
            }
        }
    }
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let at = || any::<usize>();
    let telling = prop::sample::select(b"<>/\"'=&; 019afx,\n\0".to_vec());
    prop_oneof![
        4 => (at(), telling).prop_map(|(at, byte)| Mutation::Byte(at, byte)),
        4 => (at(), any::<u8>()).prop_map(|(at, byte)| Mutation::Byte(at, byte)),
        1 => at().prop_map(Mutation::Cut),
        2 => (at(), 1_usize..40, 2_usize..70).prop_map(|(at, n, times)| Mutation::Repeat(at, n, times)),
        2 => (at(), 1_usize..20).prop_map(|(at, count)| Mutation::Remove(at, count)),
        2 => (at(), at()).prop_map(|(first, second)| Mutation::Swap(first, second)),
    ]
}

proptest! {
    /// What is read of a changed file is consistent, and can be written and read again.
    #[test]
    fn changed_files_are_refused_or_consistent(
        (machine, is_version_1) in (0..MACHINES.len(), any::<bool>()),
        mutations in prop::collection::vec(mutation(), 1..6),
    ) {
        let hardware = NodeHardware::of_description(MACHINES[machine].1).unwrap();
        let version = if is_version_1 { HwlocVersion::V1 } else { HwlocVersion::V2 };
        let mut text = hardware.hwloc(version).into_bytes();
        for mutation in &mutations {
            mutation.apply(&mut text);
        }
        if let Ok(read) = NodeHardware::of_hwloc(&String::from_utf8_lossy(&text)) {
            prop_assert!(!read.processors.is_empty());
            prop_assert!(read.groups.iter().all(|group| group.processors.is_subset(&read.processors)));
            prop_assert!(read.memories.iter().all(|memory| memory.near.is_subset(&read.processors)));
            for version in [HwlocVersion::V1, HwlocVersion::V2] {
                let again = NodeHardware::of_hwloc(&read.hwloc(version));
                prop_assert_eq!(again, Ok(as_written(&read, version)), "{:?}", version);
            }
        }
    }
}
