//! Starting and ending a program that does nothing, n times.

use super::run::{run_silent, take_turns, words};
use super::stats::{median, ratio};
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
        let [floor, host, hydra] = &took;
        let absolute = |took: &[f64]| median(took.iter().copied()).map_or(String::new(), millis);
        let to_floor = ratio(host, floor).unwrap_or(f64::NAN);
        let target = match ranks >= TARGET_FROM {
            true => table.judge(&format!("launch, n = {ranks}"), to_floor, TARGET),
            false => String::new(),
        };
        let row = vec![
            ranks.to_string(),
            absolute(floor),
            absolute(host),
            absolute(hydra),
            format!("{to_floor:.2}"),
            ratio(hydra, floor).map_or(String::new(), |ratio| format!("{ratio:.2}")),
            target,
        ];
        println!("{}  ({} turns)", row.join("  "), floor.len());
        table.rows.push(row);
    }
    Ok(table)
}

/// Seconds of floor, ours and Hydra, by turn.
fn measure_one(tools: &Tools, ranks: u32, turns: usize) -> Result<[Vec<f64>; 3], String> {
    let seconds = |mut command: Command| {
        move || run_silent(&mut command).map(|outcome| outcome.took.as_secs_f64())
    };
    let with = |mut command: Command| {
        command.arg(PROGRAM);
        command
    };
    let floor = words(&tools.floor, &[&ranks.to_string(), PROGRAM]);
    let mut all: [Box<dyn FnMut() -> Result<f64, String>>; 3] = [
        Box::new(seconds(floor)),
        Box::new(seconds(with(tools.host(ranks)))),
        Box::new(seconds(with(tools.hydra(ranks)))),
    ];
    let results = take_turns(&mut all, turns, BUDGET)?;
    results.try_into().map_err(|_| "three contestants have three results".into())
}

fn millis(seconds: f64) -> String {
    format!("{:.1}", seconds * 1e3)
}

const PROGRAM: &str = "/bin/true";
/// Number of ranks, and how often at most: short runs need more turns.
const SIZES: &[(u32, usize)] = &[(1, 41), (8, 41), (32, 31), (128, 21), (512, 11)];
/// For one row of the table.
const BUDGET: Duration = Duration::from_secs(30);
/// With one rank, what is compared is the start of the launcher itself.
const TARGET_FROM: u32 = 8;
const TARGET: f64 = 1.3;
