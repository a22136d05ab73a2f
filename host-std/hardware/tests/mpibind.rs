//! Placement on real machines, compared with what mpibind's own tests expect there.

use pmi_host_hardware::memory_first::{RankPlace, RanksToPlace, place};
use pmi_host_hardware::model::NodeHardware;
use pmi_host_hardware::processor_set::ProcessorSet;
use serde_json::Value;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Descriptions of machines and expected mappings, beside the checkout where there are some.
fn topologies() -> Option<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/topologies");
    match directory.exists() {
        true => Some(directory),
        false => {
            // Past the harness, which keeps what tests print that pass.
            let why = format!("there are no descriptions of machines in {}", directory.display());
            let _ = writeln!(io::stderr(), "skipped: {why}");
            None
        }
    }
}

/// A case: its parameters, and for each task its threads, processors and GPUs.
struct Case {
    number: String,
    parameters: Value,
    tasks: Vec<[String; 3]>,
}

fn cases(text: &str) -> Vec<Case> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut cases = Vec::new();
    while let Some(line) = lines.next() {
        let number = line.trim_start_matches("# ").trim_end_matches(':');
        if number.parse::<u32>().is_err() || !line.ends_with(':') {
            continue;
        }
        let parameters = lines.next().unwrap().trim_start_matches("# ");
        let parameters = serde_json::from_str::<Value>(parameters).unwrap()["params"].take();
        let _description = lines.next();
        let mut columns = [(); 3].map(|()| {
            let line = lines.next().unwrap().trim_matches('"');
            line.split(';').map(str::to_owned).collect::<Vec<_>>().into_iter()
        });
        let tasks = parameters["ntasks"].as_u64().unwrap();
        let task = |_| columns.each_mut().map(|column| column.next().unwrap_or_default());
        cases.push(Case {
            number: number.to_owned(),
            tasks: (0..tasks).map(task).collect(),
            parameters,
        });
    }
    cases
}

/// The hardware that a case leaves: its processors, or those of its memory domains.
fn restricted(hardware: &NodeHardware, parameters: &Value) -> NodeHardware {
    let Some(set) = parameters["restr_set"].as_str() else { return hardware.clone() };
    let set = ProcessorSet::of_list(set).unwrap();
    if parameters["restrict_type"] == 0 {
        return hardware.restricted(&set);
    }
    let of_set = hardware.memories.iter().filter(|memory| set.contains(&memory.number));
    let processors = of_set.flat_map(|memory| memory.near.iter().copied());
    hardware.restricted(&processors.collect())
}

fn shown(place: RankPlace) -> [String; 3] {
    let gpus: Vec<String> = place.gpus.iter().map(usize::to_string).collect();
    [place.threads.to_string(), place.processors.to_string(), gpus.join(",")]
}

fn check(machine: &str, expected: &str, count: usize) {
    let Some(directory) = topologies() else { return };
    let read = |name: &str| std::fs::read_to_string(directory.join(name)).unwrap();
    let hardware = NodeHardware::of_hwloc(&read(machine)).unwrap();
    let cases = cases(&read(expected));
    assert_eq!(cases.len(), count);
    for Case { number, parameters, tasks } in cases {
        let wanted = |name: &str| parameters[name].as_u64().filter(|given| *given > 0);
        let wanted = |name: &str| wanted(name).map(|given| u32::try_from(given).unwrap());
        let places = place(
            &restricted(&hardware, &parameters),
            RanksToPlace {
                ranks: wanted("ntasks").unwrap(),
                threads: wanted("in_nthreads"),
                hardware_threads: wanted("smt"),
                is_near_gpus: parameters["gpu_optim"] == 1,
            },
        );
        let places: Vec<_> = places.into_iter().map(shown).collect();
        let tasks = tasks.into_iter().map(|[threads, processors, gpus]| {
            let processors = ProcessorSet::of_list(&processors).unwrap().to_string();
            [threads, processors, gpus]
        });
        assert_eq!(places, tasks.collect::<Vec<_>>(), "{machine}, case {number}: {parameters}");
    }
}

#[test]
fn power9_with_four_gpus_is_mapped_as_by_mpibind() {
    check("coral-lassen.xml", "expected.coral-lassen", 12);
}

#[test]
fn xeon_is_mapped_as_by_mpibind() {
    check("cts1-quartz-smt1.xml", "expected.cts1-quartz", 12);
}
