//! Put, get and fence, as a rank sees them, while all ranks do the same.

use super::run::{Contestant, contestant, take_turns, times};
use super::stats::{Turns, micros};
use super::tools::BenchLauncher;
use super::{Comparison, Tools};
use std::process::Command;
use std::time::Duration;

/// PMI-1 beside a server without a space and other launchers.
pub(super) fn measure(tools: &Tools) -> Result<Comparison, String> {
    let mut table = Comparison::new(&[
        "ranks",
        "value, bytes",
        "operation",
        "floor, µs",
        "pmi-host, µs",
        "pmi-host ÷ floor",
        "target",
        "÷ Hydra 5",
        "÷ Hydra 4",
        "÷ Intel",
        "target",
    ]);
    for case in cases() {
        let floor = tools.canned_server(case.ranks, &case.value_len.to_string());
        let launchers = LAUNCHERS.map(|launcher| tools.launcher(launcher, case.ranks));
        let commands = [floor].into_iter().chain(launchers);
        let took = case.take_turns(tools, commands.map(|command| (command, "pmi1")))?;
        for (operation, name) in OPERATIONS.iter().enumerate() {
            let ratio = |to| took.ratio(1, to, |run| run[operation][0]).unwrap_or(f64::NAN);
            let what = format!("{name} of {} bytes, n = {}", case.value_len, case.ranks);
            let to_floor = table.judge(&format!("{what}, to the floor"), ratio(0), FLOOR_TARGET);
            let to_intel = match case.ranks {
                2 => table.judge(&format!("{what}, to Intel"), ratio(4), INTEL_TARGET),
                _ => String::new(),
            };
            let mut row = case.start_of_row(name);
            row.extend([shown(&took, 0, operation), shown(&took, 1, operation)]);
            row.extend([format!("{:.2}", ratio(0)), to_floor]);
            row.extend([2, 3, 4].map(|to| format!("{:.2}", ratio(to))));
            row.push(to_intel);
            table.add(row, took.count());
        }
    }
    Ok(table)
}

/// PMI-2 beside PMI-1, and beside Hydra.
pub(super) fn measure_pmi2(tools: &Tools) -> Result<Comparison, String> {
    let mut table = Comparison::new(&[
        "ranks",
        "value, bytes",
        "operation",
        "pmi-host PMI-2, µs",
        "÷ its PMI-1",
        "target",
        "Hydra 5 PMI-2, µs",
        "pmi-host ÷ Hydra 5",
    ]);
    for case in cases() {
        let mut commands = vec![(tools.host(case.ranks), "pmi2"), (tools.host(case.ranks), "pmi1")];
        if case.ranks <= HYDRA_PMI2_RANKS_MAX {
            commands.push((tools.launcher(BenchLauncher::Hydra5, case.ranks), "pmi2"));
        }
        let took = case.take_turns(tools, commands)?;
        for (operation, name) in OPERATIONS.iter().enumerate() {
            let ratio = |to| took.ratio(0, to, |run| run[operation][0]);
            let to_pmi1 = ratio(1).unwrap_or(f64::NAN);
            let what = format!("PMI-2 {name} of {} bytes, n = {}", case.value_len, case.ranks);
            let target = match case.ranks == PMI2_TARGET_RANKS {
                true => table.judge(&what, to_pmi1, PMI2_TARGET),
                false => String::new(),
            };
            let mut row = case.start_of_row(name);
            row.extend([shown(&took, 0, operation), format!("{to_pmi1:.2}"), target]);
            row.push(shown(&took, 2, operation));
            row.push(ratio(2).map_or("–".into(), |ratio| format!("{ratio:.2}")));
            table.add(row, took.count());
        }
    }
    Ok(table)
}

#[derive(Clone, Copy)]
struct KvsCase {
    ranks: u32,
    value_len: u32,
}

fn cases() -> impl Iterator<Item = KvsCase> {
    let of = |&value_len| RANKS.iter().map(move |&ranks| KvsCase { ranks, value_len });
    VALUES.iter().flat_map(of)
}

/// One run: median and mean of put, get and fence, in microseconds.
pub(super) type Run = [[f64; 2]; 3];

impl KvsCase {
    fn take_turns(
        self,
        tools: &Tools,
        commands: impl IntoIterator<Item = (Command, &'static str)>,
    ) -> Result<Turns<Run>, String> {
        let all = commands.into_iter();
        let mut contestants: Vec<_> =
            all.map(|(command, dialect)| self.contestant(tools, command, dialect)).collect();
        take_turns(&mut contestants, TURNS, BUDGET)
    }

    fn contestant(
        self,
        tools: &Tools,
        mut command: Command,
        dialect: &str,
    ) -> Contestant<'static, Run> {
        let (puts, fences) = (at_most(PUTS_TOTAL / self.ranks), at_most(FENCES_TOTAL / self.ranks));
        command.args([&tools.client, "time", dialect]);
        // As many gets as puts.
        command.args([self.value_len, puts, puts, fences].map(|number| number.to_string()));
        contestant(command, |outcome| parse(&outcome.output))
    }

    fn start_of_row(self, operation: &str) -> Vec<String> {
        vec![self.ranks.to_string(), self.value_len.to_string(), operation.to_owned()]
    }
}

/// Median and, in brackets, mean.
fn shown(took: &Turns<Run>, place: usize, operation: usize) -> String {
    let [median, mean] =
        [0, 1].map(|figure| took.median(place, |run| run[operation][figure]).map(micros));
    median.zip(mean).map_or("–".into(), |(median, mean)| format!("{median} ({mean})"))
}

/// Reads the lines `put count=4 median_ns=21642 mean_ns=37444`, one for each operation.
pub(super) fn parse(output: &str) -> Result<Run, String> {
    let mut run = Run::default();
    for (took, name) in run.iter_mut().zip(OPERATIONS) {
        *took = times(output, name)?;
    }
    Ok(run)
}

/// Enough operations of one rank for a median of two ranks; more would only take longer.
fn at_most(count: u32) -> u32 {
    count.min(500)
}

const OPERATIONS: [&str; 3] = ["put", "get", "fence"];
const LAUNCHERS: [BenchLauncher; 4] =
    [BenchLauncher::PmiHost, BenchLauncher::Hydra5, BenchLauncher::Hydra4, BenchLauncher::Intel];
const RANKS: &[u32] = &[2, 16, 64, 256];
/// A short address, and the longest value that PMI-1 clients may send.
const VALUES: &[u32] = &[64, 1023];
/// Keys of the whole job: many ranks with few each, as MPI libraries have it.
const PUTS_TOTAL: u32 = 8192;
/// Each fence takes as many messages as there are ranks.
const FENCES_TOTAL: u32 = 6400;
const FLOOR_TARGET: f64 = 1.05;
const INTEL_TARGET: f64 = 1.0;
/// With 256 ranks on one node Hydra's two layers wait for each other for ever in PMI-2.
const HYDRA_PMI2_RANKS_MAX: u32 = 64;
const PMI2_TARGET_RANKS: u32 = 64;
const PMI2_TARGET: f64 = 1.2;
/// Runs of few ranks are short, and differ by which cores the ranks happen to get.
const TURNS: usize = 41;
/// For one number of ranks and one length of value.
const BUDGET: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_rank_0_is_read_line_by_line() {
        let output = "put count=1 median_ns=1500 mean_ns=2000\nget count=1 median_ns=3 mean_ns=4\n\
                      fence count=1 median_ns=5 mean_ns=6\n";
        let run = parse(output).unwrap();
        assert_eq!(run[0], [1.5, 2.0]);
        assert_eq!(run[2][1], 0.006);
        assert!(parse("put count=1").is_err());
    }
}
