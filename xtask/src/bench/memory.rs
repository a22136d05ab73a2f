//! Peak memory of who serves the ranks, when every rank has put a value and all have fenced.

use super::run::{Outcome, run, take_turns};
use super::stats::median;
use super::{Comparison, Tools};
use std::process::Command;
use std::time::Duration;

pub(super) fn measure(tools: &Tools) -> Result<Comparison, String> {
    let mut table = Comparison::new(&["server", "peak memory, MiB", "processes", "target"]);
    let peak = |mut command: Command| {
        command.args([&tools.client, "memory", "pmi1", VALUE_BYTES]);
        move || run(&mut command).map(|outcome| peak(&outcome))
    };
    let mut both: [Box<dyn FnMut() -> Result<Peak, String>>; 2] =
        [Box::new(peak(tools.host(RANKS))), Box::new(peak(tools.hydra(RANKS)))];
    let results = take_turns(&mut both, TURNS, BUDGET)?;
    for (name, peaks) in ["pmi-host", "Hydra"].into_iter().zip(results) {
        let mib = median(peaks.iter().map(|peak| f64::from(peak.kib) / 1024.0)).unwrap_or(f64::NAN);
        let target = match name {
            "pmi-host" => table.judge("peak memory in MiB", mib, TARGET_MIB),
            _ => String::new(),
        };
        let names = peaks.first().map_or(String::new(), |peak| peak.names.join(" + "));
        table.rows.push(vec![name.into(), format!("{mib:.1}"), names, target]);
    }
    Ok(table)
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
