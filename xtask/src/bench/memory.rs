//! Memory and processor time of all processes of a launcher.

use super::run::{Outcome, contestant, take_turns};
use super::stats::Turns;
use super::tools::BenchLauncher;
use super::{Comparison, Tools};
use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

/// Memory when every rank has put a value and all have fenced.
pub(super) fn measure(tools: &Tools) -> Result<Comparison, String> {
    let found = footprints(with_floor(tools, VALUE_BYTES).map(|mut command| {
        command.args([&tools.client, "memory", "pmi1", VALUE_BYTES]);
        command
    }))?;
    let payload = f64::from(RANKS) * 1023.0 / 1024.0 / 1024.0;
    let limits = [PEAK_MIB, PSS_MIB].map(|limit| ((limit + payload) * 100.0).round() / 100.0);
    let judge = |table: &mut Comparison, [peak, pss]: [f64; 2]| {
        let peak = table.judge("peak memory in MiB", peak, limits[0]);
        let pss = table.judge("proportional share of memory in MiB", pss, limits[1]);
        format!("peak {peak}, share {pss}")
    };
    Ok(compare(&names(), &found, |table, all| judge(table, all[0])))
}

/// The launchers and, last, the server that answers without a space.
fn with_floor(tools: &Tools, value_bytes: &str) -> [Command; LAUNCHERS.len() + 1] {
    std::array::from_fn(|place| match LAUNCHERS.get(place) {
        Some(launcher) => tools.launcher(*launcher, RANKS),
        None => tools.canned_server(RANKS, value_bytes),
    })
}

fn names() -> [&'static str; LAUNCHERS.len() + 1] {
    let mut names = ["floor"; LAUNCHERS.len() + 1];
    for (name, launcher) in names.iter_mut().zip(LAUNCHERS) {
        *name = launcher.name();
    }
    names
}

/// Processor time that puts, gets and fences of all ranks cost the launcher.
pub(super) fn measure_work(tools: &Tools) -> Result<Comparison, String> {
    let mut contestants = with_floor(tools, "64").map(|mut command| {
        command.args([&tools.client, "work", "pmi1", "64", "32", "32", "25"]);
        contestant(command, |outcome| {
            let [before, after] =
                ["before", "after"].map(|label| footprint(outcome, label).cpu_nanos);
            Ok(after.saturating_sub(before) as f64)
        })
    });
    let nanos = take_turns(&mut contestants, TURNS, BUDGET)?;
    let mut table = Comparison::new(&["server", "processor time, ms", "pmi-host ÷ it", "target"]);
    for (place, name) in names().into_iter().enumerate() {
        let time = nanos.median(place, |nanos| nanos / 1e6).unwrap_or(f64::NAN);
        let ratio = nanos.ratio(0, place, |nanos| *nanos).unwrap_or(f64::NAN);
        let target = match LAUNCHERS.get(place) {
            Some(BenchLauncher::Hydra5) => {
                table.judge("processor time to Hydra 5", ratio, WORK_TARGET)
            }
            _ => String::new(),
        };
        let row = vec![name.into(), format!("{time:.1}"), format!("{ratio:.2}"), target];
        table.add(row, nanos.count());
    }
    Ok(table)
}

/// Footprints of the launchers that `commands` start.
///
/// # Errors
///
/// A command fails.
pub(super) fn footprints<const N: usize>(
    commands: [Command; N],
) -> Result<Turns<Footprint>, String> {
    let mut contestants =
        commands.map(|command| contestant(command, |outcome| Ok(footprint(outcome, "process"))));
    take_turns(&mut contestants, TURNS, BUDGET)
}

/// A row for each launcher; `judge` compares peak and share of all, in MiB, with the targets of the first.
pub(super) fn compare(
    names: &[impl ToString],
    footprints: &Turns<Footprint>,
    judge: impl FnOnce(&mut Comparison, &[[f64; 2]]) -> String,
) -> Comparison {
    let mut table =
        Comparison::new(&["server", "peak, MiB", "proportional share, MiB", "processes", "target"]);
    let mib = |place, figure: fn(&Footprint) -> u64| {
        let median = footprints.median(place, |footprint| figure(footprint) as f64 / 1024.0);
        median.unwrap_or(f64::NAN)
    };
    let all: Vec<_> = (0..names.len())
        .map(|place| [mib(place, |found| found.peak_kib), mib(place, |found| found.pss_kib)])
        .collect();
    let mut target = judge(&mut table, &all);
    for (place, name) in names.iter().enumerate() {
        let processes = footprints.of(place).first();
        let processes = processes.map_or(String::new(), |found| found.names.join(" + "));
        let [peak, pss] = all[place].map(|mib| format!("{mib:.1}"));
        let row = vec![name.to_string(), peak, pss, processes, std::mem::take(&mut target)];
        table.rows.push(row);
    }
    table
}

/// All processes of a launcher, together.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Footprint {
    peak_kib: u64,
    pss_kib: u64,
    cpu_nanos: u64,
    names: Vec<String>,
}

/// Adds up the lines `LABEL pid=5 parent=1 name=x peak_kib=7 pss_kib=3 cpu_ns=9` of rank 0 that belong to the
/// launcher we have started and to its descendants, except ranks.
pub(super) fn footprint(outcome: &Outcome, label: &str) -> Footprint {
    let lines = outcome.output.lines().filter_map(|line| line.strip_prefix(label));
    let field = |line: &str, name: &str| -> String {
        let value = line.split(' ').find_map(|word| word.strip_prefix(name));
        value.unwrap_or_default().to_owned()
    };
    let mut processes: Vec<_> = lines
        .filter_map(|line| {
            let number = |name: &str| field(line, name).parse::<u64>().ok();
            let figures = [number("peak_kib=")?, number("pss_kib=")?, number("cpu_ns=")?];
            Some((number("pid=")?, number("parent=")?, field(line, "name="), figures))
        })
        .collect();
    processes.retain(|(_, _, name, _)| !RANK_NAMES.contains(&name.as_str()));
    let mut family = BTreeSet::from([u64::from(outcome.pid)]);
    // A descendant may have a smaller number than its parent.
    loop {
        let known = family.len();
        family.extend(
            processes
                .iter()
                .filter(|(_, parent, ..)| family.contains(parent))
                .map(|all| all.0)
                .collect::<Vec<_>>(),
        );
        if family.len() == known {
            break;
        }
    }
    let mut found = Footprint::default();
    for (_, _, name, [peak, pss, cpu]) in
        processes.into_iter().filter(|all| family.contains(&all.0))
    {
        found.peak_kib += peak;
        found.pss_kib += pss;
        found.cpu_nanos += cpu;
        found.names.push(name);
    }
    found
}

const LAUNCHERS: [BenchLauncher; 4] =
    [BenchLauncher::PmiHost, BenchLauncher::Hydra5, BenchLauncher::Hydra4, BenchLauncher::Intel];
/// Programs that a launcher runs as ranks here, and the shells that start one.
const RANK_NAMES: &[&str] = &["put-fence-get", "pmix", "bash", "sh"];
const RANKS: u32 = 256;
/// The longest value of PMI-1: 1 KiB with the terminator that C adds.
const VALUE_BYTES: &str = "1023";
/// Besides the values.
const PEAK_MIB: f64 = 4.0;
const PSS_MIB: f64 = 2.0;
const WORK_TARGET: f64 = 0.7;
const TURNS: usize = 5;
const BUDGET: Duration = Duration::from_secs(40);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_added_up_from_the_launcher_down_but_ranks() {
        let line = |pid, parent, name, kib| {
            format!(
                "process pid={pid} parent={parent} name={name} peak_kib={kib} pss_kib=5 cpu_ns=3\n"
            )
        };
        let output = line(3, 8, "proxy", 100)
            + &line(8, 7, "mpiexec", 20)
            + &line(7, 1, "xtask", 4000)
            + &line(4, 3, "pmix", 900);
        let outcome = Outcome { took: Duration::ZERO, pid: 8, output };
        let names = vec!["proxy".into(), "mpiexec".into()];
        let expected = Footprint { peak_kib: 120, pss_kib: 10, cpu_nanos: 6, names };
        assert_eq!(footprint(&outcome, "process"), expected);
        assert_eq!(footprint(&outcome, "after"), Footprint::default());
    }
}
