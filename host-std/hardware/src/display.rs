//! Places of ranks for people: a table, and a picture.

mod svg;

pub use svg::svg;

use crate::device::PartKind;
use crate::memory_first::RankPlace;
use crate::model::NodeHardware;
use crate::processor_set::ProcessorSet;
use crate::visible::ChosenGpu;
use pmi_host_base::columns;

/// A rank, and its place.
#[derive(Clone, Debug)]
pub struct PlacedRank<'a> {
    /// The rank.
    pub rank: u32,
    /// Its host.
    pub host: &'a str,
    /// Hardware of the host.
    pub hardware: &'a NodeHardware,
    /// The place.
    pub place: RankPlace,
}

/// A table with a line for each rank: host, memory domains, cores in the order of the host, processors by
/// their numbers in the system, threads, GPUs by their places in [`NodeHardware::usable_gpus`], and names of
/// devices. Columns that are empty for all ranks are left out.
pub fn table(ranks: &[PlacedRank<'_>]) -> String {
    let head = ["rank", "host", "NUMA", "cores", "processors", "threads", "GPUs", "devices"];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(ranks.iter().map(row));
    let is_told =
        |column: usize| column == 0 || rows[1..].iter().any(|row| !row[column].is_empty());
    let columns: Vec<usize> = (0..head.len()).filter(|column| is_told(*column)).collect();
    for row in &mut rows {
        let cells = columns.iter().map(|column| std::mem::take(&mut row[*column]));
        let mut cells = cells.map(|cell| if cell.is_empty() { "-".to_owned() } else { cell });
        // Unused columns are the last ones, and have no width.
        *row = std::array::from_fn(|_| cells.next().unwrap_or_default());
    }
    let mut text = String::new();
    for line in columns::lines(&rows, [true, false, false, false, false, false, false, false]) {
        text.push_str(&line);
        text.push('\n');
    }
    text
}

fn row(rank: &PlacedRank<'_>) -> [String; 8] {
    let PlacedRank { rank, host, hardware, place } = rank;
    let usable = hardware.usable_gpus();
    let gpus = place.gpus.iter().filter_map(|at| usable.get(*at)).map(gpu_name);
    let nics = hardware.nics();
    let nics = place.nics.iter().filter_map(|at| nics.get(*at)).map(|nic| nic.name());
    let devices: Vec<String> = gpus.chain(nics).collect();
    let memories: ProcessorSet = place.memories.iter().copied().collect();
    let numbers: Vec<String> = place.gpus.iter().map(usize::to_string).collect();
    [
        rank.to_string(),
        (*host).to_owned(),
        memories.to_string(),
        cores(hardware, place).to_string(),
        place.processors.to_string(),
        Some(place.threads)
            .filter(|count| *count > 0)
            .map(|count| count.to_string())
            .unwrap_or_default(),
        numbers.join(","),
        devices.join(","),
    ]
}

/// Cores of a place, by their order on the node.
fn cores(hardware: &NodeHardware, place: &RankPlace) -> ProcessorSet {
    let cores = (0..).zip(hardware.cores());
    cores.filter(|(_, core)| core.meets(&place.processors)).map(|(number, _)| number).collect()
}

/// Name of a GPU, or of a part of one: `card1 MIG 0`.
fn gpu_name(gpu: &ChosenGpu<'_>) -> String {
    let name = gpu.device.name();
    let Some(part) = gpu.part else { return name };
    let kind = match part.kind {
        PartKind::Mig => "MIG",
        PartKind::Tile => "tile",
        PartKind::Partition => "partition",
    };
    format!("{name} {kind} {}", part.number)
}

#[cfg(test)]
mod page;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::described::MACHINES;
    use crate::memory_first::{RanksToPlace, place};

    pub(super) fn machine(name: &str) -> NodeHardware {
        let (_, text) = MACHINES.iter().find(|(own, _)| *own == name).unwrap();
        NodeHardware::of_description(text).unwrap()
    }

    pub(super) fn placed(hardware: &NodeHardware, ranks: u32) -> Vec<PlacedRank<'_>> {
        let wanted =
            RanksToPlace { ranks, threads: None, hardware_threads: None, is_near_gpus: true };
        let ranks = (0..).zip(place(hardware, wanted));
        ranks.map(|(rank, place)| PlacedRank { rank, host: "node1", hardware, place }).collect()
    }

    #[test]
    fn table_has_a_line_for_each_rank() {
        let aurora = machine("aurora");
        let mut ranks = placed(&aurora, 12);
        ranks.truncate(2);
        ranks[1].place.nics = vec![1, 2];
        let expected = "\
rank  host   NUMA  cores  processors  threads  GPUs  devices
   0  node1  0     0-8    0-8         9        0     card0 tile 0
   1  node1  0     9-17   9-17        9        1     card0 tile 1,cxi1,cxi2
";
        assert_eq!(table(&ranks), expected);
    }

    #[test]
    fn table_has_no_columns_that_are_empty() {
        let pi = machine("raspberry-pi");
        let mut ranks = placed(&pi, 2);
        ranks[1].place = RankPlace::default();
        ranks[1].host = "node2";
        let expected = "\
rank  host   NUMA  cores  processors  threads
   0  node1  0     0-1    0-1         2
   1  node2  -     -      -           -
";
        assert_eq!(table(&ranks), expected);
        assert_eq!(table(&[]), "rank\n");
    }
}
