//! Tests of reader and writer.

use super::HwlocVersion;
use crate::described::machines;
use crate::device::{DeviceKind, Fabric, GpuMaker};
use crate::model::{GroupKind, NodeHardware};
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
        eprintln!("skipped: {} is not here", directory.display());
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
    }
}

#[test]
fn written_machines_are_read_back() {
    for (name, hardware) in machines() {
        for version in [HwlocVersion::V1, HwlocVersion::V2] {
            let text = hardware.hwloc(version);
            let again = NodeHardware::of_hwloc(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(again, hardware, "{name} {version:?}");
        }
    }
}

#[test]
fn hwloc_reads_what_is_written() {
    for (name, hardware) in machines() {
        for version in [HwlocVersion::V1, HwlocVersion::V2] {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), hardware.hwloc(version)).unwrap();
            let mut lstopo = Command::new("lstopo-no-graphics");
            lstopo.args(["--if", "xml", "--of", "console", "-s", "-i"]).arg(file.path());
            let output = lstopo.output().unwrap();
            println!(
                "{name} {version:?} {}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
        }
    }
}
