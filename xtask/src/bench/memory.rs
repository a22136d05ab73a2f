//! Peak memory of who serves the ranks, when every rank has put a value and all have fenced.

use super::run::{Outcome, contestant, take_turns};
use super::stats::Turns;
use super::{Comparison, Tools};
use std::process::Command;
use std::time::Duration;

pub(super) fn measure(tools: &Tools) -> Result<Comparison, String> {
    let peaks = peaks([tools.host(RANKS), tools.hydra(RANKS)].map(|mut command| {
        command.args([&tools.client, "memory", "pmi1", VALUE_BYTES]);
        command
    }))?;
    let judge =
        |table: &mut Comparison, mib: &[f64]| table.judge("peak memory in MiB", mib[0], TARGET_MIB);
    Ok(compare(&["pmi-host", "Hydra"], &peaks, judge))
}

/// Peak memory of the servers that `commands` start.
///
/// # Errors
///
/// A command fails.
pub(super) fn peaks<const N: usize>(commands: [Command; N]) -> Result<Turns<Peak>, String> {
    let mut contestants = commands.map(|command| contestant(command, |outcome| Ok(peak(outcome))));
    take_turns(&mut contestants, TURNS, BUDGET)
}

/// A row for each server; `judge` compares the first with its target.
pub(super) fn compare(
    names: &[impl ToString],
    peaks: &Turns<Peak>,
    judge: impl FnOnce(&mut Comparison, &[f64]) -> String,
) -> Comparison {
    let mut table = Comparison::new(&["server", "peak memory, MiB", "processes", "target"]);
    let mib = |place| peaks.median(place, |peak| f64::from(peak.kib) / 1024.0).unwrap_or(f64::NAN);
    let mib: Vec<f64> = (0..names.len()).map(mib).collect();
    let mut target = judge(&mut table, &mib);
    for (place, name) in names.iter().enumerate() {
        let processes =
            peaks.of(place).first().map_or(String::new(), |peak| peak.names.join(" + "));
        let row = vec![name.to_string(), format!("{:.1}", mib[place]), processes];
        table.rows.push([row, vec![std::mem::take(&mut target)]].concat());
    }
    table
}

/// All processes between a rank and us, together.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Peak {
    pub(super) kib: u32,
    pub(super) names: Vec<String>,
}

/// Adds up the lines `ancestor pid=5 name=x peak_kib=7` of rank 0, nearest first, up to the launcher we have
/// started; what is above that are we.
pub(super) fn peak(outcome: &Outcome) -> Peak {
    let mut peak = Peak::default();
    for line in outcome.output.lines() {
        let field = |name: &str| line.split(' ').find_map(|word| word.strip_prefix(name));
        if let (Some(pid), Some(name), Some(kib)) =
            (field("pid="), field("name="), field("peak_kib="))
        {
            peak.kib += kib.parse::<u32>().unwrap_or(0);
            peak.names.push(name.to_owned());
            if pid == outcome.pid.to_string() {
                break;
            }
        }
    }
    peak
}

const RANKS: u32 = 256;
/// The longest value of PMI-1: 1 KiB with the terminator that C adds.
const VALUE_BYTES: &str = "1023";
const TARGET_MIB: f64 = 4.0;
const TURNS: usize = 5;
const BUDGET: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_added_up_to_the_one_we_started() {
        let output = "ancestor pid=9 name=proxy peak_kib=100\nancestor pid=8 name=mpiexec peak_kib=20\n\
                      ancestor pid=7 name=xtask peak_kib=4000\n";
        let outcome = Outcome { took: Duration::ZERO, pid: 8, output: output.into() };
        let names = vec!["proxy".into(), "mpiexec".into()];
        assert_eq!(peak(&outcome), Peak { kib: 120, names });
    }
}
