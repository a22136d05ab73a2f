//! Examples of `docs/placement.md`: each table there is what [`table`] makes of the described machine.

use super::tests::machine;
use super::{PlacedRank, svg, table};
use crate::masks::{Expose, Variable, variables};
use crate::memory_first::{RanksToPlace, place};
use crate::model::NodeHardware;
use crate::processor_set::ProcessorSet;
use std::path::{Path, PathBuf};

/// A command of the page.
struct Example {
    options: &'static str,
    host: &'static str,
    hardware: NodeHardware,
    ranks: u32,
    threads: Option<u32>,
    /// Variables of the launcher.
    ours: &'static [(&'static str, &'static str)],
    /// Name of the picture.
    picture: Option<&'static str>,
    /// What the page says that a rank is told, with the rank.
    told: (u32, &'static [&'static str]),
}

fn examples() -> [Example; 5] {
    let mut confined = machine("perlmutter");
    confined = confined.restricted(&ProcessorSet::of_list("0-31,64-95").unwrap());
    confined.memories.retain(|memory| memory.number < 2);
    [
        Example {
            options: "-n 8 --gpus-per-rank 1 --map-by auto --topology frontier.xml",
            host: "frontier00001",
            hardware: machine("frontier"),
            ranks: 8,
            threads: None,
            ours: &[],
            picture: Some("placement-gpus.svg"),
            told: (0, &["ROCR_VISIBLE_DEVICES=GPU-0000000000000005", "OMP_NUM_THREADS=8"]),
        },
        Example {
            options: "-n 2 --map-by auto --threads-per-rank 56 --topology xeon.xml",
            host: "node1",
            hardware: machine("xeon-cxl"),
            ranks: 2,
            threads: Some(56),
            ours: &[],
            picture: None,
            told: (1, &["OMP_NUM_THREADS=56", "OMP_PROC_BIND=close"]),
        },
        Example {
            options: "-n 6 --gpus-per-rank 2 --map-by auto --topology aurora.xml",
            host: "x4102c5s1b0n0",
            hardware: machine("aurora"),
            ranks: 6,
            threads: None,
            ours: &[],
            picture: Some("placement-tiles.svg"),
            told: (4, &["ZE_AFFINITY_MASK=8,9", "ZE_FLAT_DEVICE_HIERARCHY=FLAT"]),
        },
        Example {
            options: "-n 9 --gpus-per-rank 1 --map-by auto --topology dgx.xml",
            host: "dgx01",
            hardware: machine("dgx-h100"),
            ranks: 9,
            threads: None,
            ours: &[],
            picture: None,
            told: (1, &["CUDA_VISIBLE_DEVICES=MIG-00000000-0000-5000-8000-000000000002"]),
        },
        Example {
            options: "-n 2 --gpus-per-rank 1 --map-by auto",
            host: "nid001001",
            hardware: confined,
            ranks: 2,
            threads: None,
            ours: &[("CUDA_VISIBLE_DEVICES", "2,3")],
            picture: None,
            told: (0, &["CUDA_VISIBLE_DEVICES=3", "CUDA_DEVICE_ORDER=PCI_BUS_ID"]),
        },
    ]
}

fn docs() -> Option<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    match directory.join("placement.md").exists() {
        true => Some(directory),
        false => {
            eprintln!("skipped: there is no page in {}", directory.display());
            None
        }
    }
}

#[test]
fn page_has_the_tables_and_pictures_of_its_commands() {
    let Some(docs) = docs() else { return };
    let page = std::fs::read_to_string(docs.join("placement.md")).unwrap();
    let mut missing = Vec::new();
    let mut expect = |text: String| {
        if !page.contains(&text) {
            missing.push(text);
        }
    };
    for mut example in examples() {
        let ours = |wanted: &str| {
            let found = example.ours.iter().find(|(name, _)| *name == wanted);
            found.map(|(_, value)| (*value).to_owned())
        };
        example.hardware.leave_out_by_variables(&ours);
        let (hardware, host) = (&example.hardware, example.host);
        let places = place(
            hardware,
            RanksToPlace {
                ranks: example.ranks,
                threads: example.threads,
                hardware_threads: None,
                is_near_gpus: true,
            },
        );
        let ranks: Vec<PlacedRank<'_>> = (0..)
            .zip(places)
            .map(|(rank, place)| PlacedRank { rank, host, hardware, place })
            .collect();
        let command = format!("pmi-host run {} --display map ./app", example.options);
        let block = format!("```sh\n{}\n```\n\n```text\n{}```\n", command, table(&ranks));
        expect(block);
        let (rank, pairs) = example.told;
        let place = &ranks[usize::try_from(rank).unwrap()].place;
        let told: Vec<Variable> = variables(hardware, place, Expose::Mask, &ours);
        let told: Vec<String> =
            told.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        for pair in pairs {
            assert!(told.iter().any(|one| one == pair), "rank {rank} is told {told:?}, not {pair}");
            expect(format!("`{pair}`"));
        }
        if let Some(name) = example.picture {
            let (file, picture) = (docs.join(name), svg(&ranks));
            expect(format!("]({name})"));
            if std::env::var_os("PMI_HOST_WRITE_PAGES").is_some() {
                std::fs::write(&file, &picture).unwrap();
            }
            let is_same = std::fs::read_to_string(&file).is_ok_and(|text| text == picture);
            assert!(
                is_same,
                "docs/{name} is out of date; PMI_HOST_WRITE_PAGES=1 and this test write it"
            );
        }
    }
    assert!(missing.is_empty(), "docs/placement.md lacks this:\n{}", missing.join("\n"));
}
