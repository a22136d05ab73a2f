//! Passing on what ranks write, as it is and with the rank in front of every line.

use super::run::{run, take_turns};
use super::stats::{median, ratio};
use super::{Comparison, Tools};
use std::process::Command;
use std::time::Duration;

pub(super) fn measure(tools: &Tools) -> Result<Comparison, String> {
    let mut table =
        Comparison::new(&["lines", "pmi-host, MB/s", "Hydra, MB/s", "pmi-host ÷ Hydra"]);
    for (name, options) in [("as they are", &[][..]), ("labelled (-l)", &["-l"])] {
        let seconds = |mut command: Command| {
            command.args(options).args(["sh", "-c", &writer()]);
            move || run(&mut command).map(|outcome| outcome.took.as_secs_f64())
        };
        let mut both: [Box<dyn FnMut() -> Result<f64, String>>; 2] = [
            Box::new(seconds(tools.host_with_options(RANKS))),
            Box::new(seconds(tools.hydra(RANKS))),
        ];
        let took = take_turns(&mut both, TURNS, BUDGET)?;
        let speed = |took: &[f64]| {
            let bytes = f64::from(RANKS * BYTES_PER_RANK);
            let speeds = took.iter().map(|seconds| bytes / seconds / 1e6);
            median(speeds).map_or(String::new(), |speed| format!("{speed:.0}"))
        };
        // The ratio of speeds, which is that of times the other way round.
        let faster = ratio(&took[1], &took[0]).map_or(String::new(), |ratio| format!("{ratio:.2}"));
        table.rows.push(vec![name.into(), speed(&took[0]), speed(&took[1]), faster]);
    }
    Ok(table)
}

/// Writes lines of 64 bytes as fast as a program can.
fn writer() -> String {
    format!("yes {} | head -c {BYTES_PER_RANK}", "a".repeat(LINE_BYTES - 1))
}

const RANKS: u32 = 8;
const BYTES_PER_RANK: u32 = 4_000_000;
const LINE_BYTES: usize = 64;
const TURNS: usize = 7;
const BUDGET: Duration = Duration::from_secs(60);
