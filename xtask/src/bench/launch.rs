//! Starting and ending a program that does nothing, n times.

use super::run::{Contestant, run_silent, take_turns, words};
use super::tools::BenchLauncher;
use super::{Comparison, Tools};
use std::process::Command;
use std::time::Duration;

pub(super) fn measure(tools: &Tools) -> Result<Comparison, String> {
    let mut table = Comparison::new(&[
        "ranks",
        "floor, ms",
        "pmi-host, ms",
        "pmi-host ÷ floor",
        "target",
        "Hydra 5 ÷ floor",
        "Hydra 4 ÷ floor",
        "Intel ÷ floor",
    ]);
    for &(ranks, turns, limit) in SIZES {
        let floor = words(&tools.floor, &[&ranks.to_string(), PROGRAM]);
        let launchers = LAUNCHERS.map(|launcher| {
            let mut command = tools.launcher(launcher, ranks);
            command.arg(PROGRAM);
            command
        });
        let mut contestants: Vec<_> = [floor].into_iter().chain(launchers).map(seconds).collect();
        let took = take_turns(&mut contestants, turns, BUDGET)?;
        let absolute = |place| {
            let median = took.median(place, |seconds| seconds * 1e3);
            median.map_or(String::new(), |millis| format!("{millis:.1}"))
        };
        let to_floor = |place| took.ratio(place, 0, |seconds| *seconds).unwrap_or(f64::NAN);
        let target = table.judge(&format!("launch, n = {ranks}"), to_floor(1), limit);
        let mut row = vec![ranks.to_string(), absolute(0), absolute(1)];
        row.extend([format!("{:.2}", to_floor(1)), target]);
        row.extend((2..=LAUNCHERS.len()).map(|place| format!("{:.2}", to_floor(place))));
        table.add(row, took.count());
    }
    Ok(table)
}

/// Seconds from the start to the end of one run.
pub(super) fn seconds(mut command: Command) -> Contestant<'static, f64> {
    Box::new(move || run_silent(&mut command).map(|outcome| outcome.took.as_secs_f64()))
}

const PROGRAM: &str = "/bin/true";
const LAUNCHERS: [BenchLauncher; 4] =
    [BenchLauncher::PmiHost, BenchLauncher::Hydra5, BenchLauncher::Hydra4, BenchLauncher::Intel];
/// Number of ranks, how often at most (short runs need more turns), and the target.
const SIZES: &[(u32, usize, f64)] =
    &[(1, 41, 1.4), (8, 41, 1.25), (32, 31, 1.15), (128, 21, 1.1), (512, 9, 1.1)];
/// For one row of the table.
const BUDGET: Duration = Duration::from_secs(30);
