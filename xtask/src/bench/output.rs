//! Passing on what ranks write, as it is and with the rank in front of every line.

use super::run::{contestant, take_turns};
use super::tools::BenchLauncher;
use super::{Comparison, Tools};
use std::process::Command;
use std::time::Duration;

pub(super) fn measure(tools: &Tools) -> Result<Comparison, String> {
    let mut table =
        Comparison::new(&["lines", "pmi-host, MB/s", "Hydra 5, MB/s", "pmi-host ÷ Hydra 5"]);
    for (name, options) in [("as they are", &[][..]), ("labelled (-l)", &["-l"])] {
        let seconds = |mut command: Command| {
            command.args(options).args(["sh", "-c", &writer()]);
            contestant(command, |outcome| Ok(outcome.took.as_secs_f64()))
        };
        let mut both =
            [tools.host_with_options(RANKS), tools.launcher(BenchLauncher::Hydra5, RANKS)]
                .map(seconds);
        let took = take_turns(&mut both, TURNS, BUDGET)?;
        let speed = |place| {
            let speed = |seconds: &f64| f64::from(RANKS * BYTES_PER_RANK) / seconds / 1e6;
            took.median(place, speed).map_or(String::new(), |speed| format!("{speed:.0}"))
        };
        // The ratio of speeds, which is that of times the other way round.
        let faster = took.ratio(1, 0, |seconds| *seconds);
        let faster = faster.map_or(String::new(), |ratio| format!("{ratio:.2}"));
        table.rows.push(vec![name.into(), speed(0), speed(1), faster]);
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
