//! Starting and ending a program that does nothing, n times.

use super::run::{Contestant, run_silent, take_turns, words};
use super::stats::Turns;
use super::{Comparison, Tools};
use std::process::Command;
use std::time::Duration;

pub(super) fn measure(tools: &Tools) -> Result<Comparison, String> {
    let mut table = Comparison::new(&[
        "ranks",
        "floor, ms",
        "pmi-host, ms",
        "Hydra, ms",
        "pmi-host ÷ floor",
        "Hydra ÷ floor",
        "target",
    ]);
    for &(ranks, turns) in SIZES {
        let took = measure_one(tools, ranks, turns)?;
        let absolute =
            |place| took.median(place, |seconds| seconds * 1e3).map_or(String::new(), millis);
        let to_floor = took.ratio(1, 0, |seconds| *seconds).unwrap_or(f64::NAN);
        let target = match ranks >= TARGET_FROM {
            true => table.judge(&format!("launch, n = {ranks}"), to_floor, TARGET),
            false => String::new(),
        };
        let row = vec![
            ranks.to_string(),
            absolute(0),
            absolute(1),
            absolute(2),
            format!("{to_floor:.2}"),
            took.ratio(2, 0, |seconds| *seconds)
                .map_or(String::new(), |ratio| format!("{ratio:.2}")),
            target,
        ];
        table.add(row, took.count());
    }
    Ok(table)
}

/// Seconds of floor, ours and Hydra.
fn measure_one(tools: &Tools, ranks: u32, turns: usize) -> Result<Turns<f64>, String> {
    let seconds = |mut command: Command| -> Contestant<'_, f64> {
        Box::new(move || run_silent(&mut command).map(|outcome| outcome.took.as_secs_f64()))
    };
    let with = |mut command: Command| {
        command.arg(PROGRAM);
        command
    };
    let floor = words(&tools.floor, &[&ranks.to_string(), PROGRAM]);
    let all = [floor, with(tools.host(ranks)), with(tools.hydra(ranks))];
    take_turns(&mut all.map(seconds), turns, BUDGET)
}

fn millis(millis: f64) -> String {
    format!("{millis:.1}")
}

const PROGRAM: &str = "/bin/true";
/// Number of ranks, and how often at most: short runs need more turns.
const SIZES: &[(u32, usize)] = &[(1, 41), (8, 41), (32, 31), (128, 21), (512, 11)];
/// For one row of the table.
const BUDGET: Duration = Duration::from_secs(30);
/// With one rank, what is compared is the start of the launcher itself.
const TARGET_FROM: u32 = 8;
const TARGET: f64 = 1.3;
