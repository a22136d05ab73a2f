//! Put, get and fence, as a rank sees them, while all ranks do the same.

use super::run::{Contestant, contestant, take_turns, times};
use super::stats::{Turns, micros};
use super::{Comparison, Tools};
use std::process::Command;
use std::time::Duration;

pub(super) fn measure(tools: &Tools) -> Result<Comparison, String> {
    let mut table = Comparison::new(&[
        "ranks",
        "value, bytes",
        "operation",
        "pmi-host PMI-1, µs",
        "Hydra PMI-1, µs",
        "pmi-host ÷ Hydra",
        "target",
        "pmi-host PMI-2, µs",
        "Hydra PMI-2, µs",
        "PMI-2 ÷ PMI-1, pmi-host",
        "target",
    ]);
    for &value_len in VALUES {
        for &ranks in RANKS {
            let case = KvsCase { ranks, value_len };
            let took = case.measure(tools)?;
            for (operation, name) in OPERATIONS.iter().enumerate() {
                let row = case.row(&mut table, operation, name, &took);
                table.add(row, took.count());
            }
        }
    }
    Ok(table)
}

#[derive(Clone, Copy)]
struct KvsCase {
    ranks: u32,
    value_len: u32,
}

/// One run: median and mean of put, get and fence, in microseconds.
pub(super) type Run = [[f64; 2]; 3];

impl KvsCase {
    /// Runs of pmi-host and Hydra in PMI-1, of both in PMI-2; Hydra's last only where it ends.
    fn measure(self, tools: &Tools) -> Result<Turns<Run>, String> {
        let mut contestants = vec![
            self.contestant(tools, tools.host(self.ranks), "pmi1"),
            self.contestant(tools, tools.hydra(self.ranks), "pmi1"),
            self.contestant(tools, tools.host(self.ranks), "pmi2"),
        ];
        if self.ranks <= HYDRA_PMI2_RANKS_MAX {
            contestants.push(self.contestant(tools, tools.hydra(self.ranks), "pmi2"));
        }
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

    fn row(
        self,
        table: &mut Comparison,
        operation: usize,
        name: &str,
        took: &Turns<Run>,
    ) -> Vec<String> {
        let shown = |place: usize| {
            let [median, mean] =
                [0, 1].map(|figure| took.median(place, |run| run[operation][figure]).map(micros));
            median.zip(mean).map_or("–".into(), |(median, mean)| format!("{median} ({mean})"))
        };
        let ratio = |of, to| took.ratio(of, to, |run| run[operation][0]).unwrap_or(f64::NAN);
        let (to_hydra, to_pmi1) = (ratio(0, 1), ratio(2, 0));
        let what = format!("{name} of {} bytes, n = {}", self.value_len, self.ranks);
        let first = match self.limit_to_hydra(name) {
            Some(limit) => table.judge(&format!("PMI-1 {what}"), to_hydra, limit),
            None => String::new(),
        };
        let second = match self.ranks == PMI2_TARGET_RANKS {
            true => table.judge(&format!("PMI-2 {what}"), to_pmi1, PMI2_TARGET),
            false => String::new(),
        };
        vec![
            self.ranks.to_string(),
            self.value_len.to_string(),
            name.to_owned(),
            shown(0),
            shown(1),
            format!("{to_hydra:.2}"),
            first,
            shown(2),
            shown(3),
            format!("{to_pmi1:.2}"),
            second,
        ]
    }

    fn limit_to_hydra(self, operation: &str) -> Option<f64> {
        match operation {
            "fence" => (self.ranks == 256).then_some(0.5),
            _ => Some(0.8),
        }
    }
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
const RANKS: &[u32] = &[2, 16, 64, 256];
/// A short address, and the longest value that PMI-1 clients may send.
const VALUES: &[u32] = &[64, 1023];
/// Keys of the whole job: many ranks with few each, as MPI libraries have it.
const PUTS_TOTAL: u32 = 8192;
/// Each fence takes as many messages as there are ranks.
const FENCES_TOTAL: u32 = 6400;
/// With 256 ranks on one node Hydra's two layers wait for each other for ever in PMI-2.
const HYDRA_PMI2_RANKS_MAX: u32 = 64;
const PMI2_TARGET_RANKS: u32 = 64;
const PMI2_TARGET: f64 = 1.2;
/// Runs of few ranks are short, and differ by which cores the ranks happen to get.
const TURNS: usize = 61;
/// For one number of ranks and one length of value.
const BUDGET: Duration = Duration::from_secs(40);

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
