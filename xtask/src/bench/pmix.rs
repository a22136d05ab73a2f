//! PMIx as a rank sees it, beside Open MPI's launchers, with the library that Debian has.

use super::memory;
use super::open_mpi::OpenMpi;
use super::run::{Contestant, run, take_turns, times};
use super::stats::micros;
use super::{Comparison, Tools};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(super) fn measure(tools: &Tools) -> Result<Comparison, String> {
    let open_mpi = OpenMpi::prepare(tools)?;
    let [host, orterun, prterun] = open_mpi.names();
    let timed = |name: &str| format!("{name}, µs");
    let header = [
        "ranks".into(),
        "operation".into(),
        timed(&host),
        timed(&orterun),
        timed(&prterun),
        "pmi-host ÷ orterun".into(),
        "target".into(),
        "pmi-host ÷ prterun".into(),
        "target".into(),
    ];
    let mut table = Comparison { header: header.into(), ..Comparison::default() };
    for &(ranks, count) in SIZES {
        let words = ["time", &count.to_string()];
        let mut contestants = open_mpi.commands(tools, ranks, &words).map(|mut command| {
            let turn: Contestant<'_, Run> = Box::new(move || {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                command.env("LAUNCHER_STARTED_NS", now.as_nanos().to_string());
                parse(&run(&mut command)?.output)
            });
            turn
        });
        let took = take_turns(&mut contestants, TURNS, BUDGET)?;
        for (at, operation) in OPERATIONS.iter().enumerate() {
            let shown = |place| took.median(place, |run| run[at]).map_or("–".into(), micros);
            let mut row = vec![ranks.to_string(), operation.name.into()];
            row.extend([shown(0), shown(1), shown(2)]);
            let judged = [("orterun", operation.to_orterun), ("prterun", operation.to_prterun)];
            for (place, (other, limit)) in (1..).zip(judged) {
                let found = took.ratio(0, place, |run| run[at]).unwrap_or(f64::NAN);
                row.push(format!("{found:.2}"));
                let what = format!("{} to {other}, n = {ranks}", operation.name);
                row.push(match limit.filter(|_| ranks == TARGET_RANKS) {
                    Some(limit) => table.judge(&what, found, limit),
                    None => String::new(),
                });
            }
            table.add(row, took.count());
        }
    }
    Ok(table)
}

/// Peak memory of who serves the ranks, when every one has committed a value and all have fenced.
pub(super) fn measure_memory(tools: &Tools) -> Result<Comparison, String> {
    let open_mpi = OpenMpi::prepare(tools)?;
    let commands = open_mpi.commands(tools, TARGET_RANKS, &["memory", &tools.client]);
    let footprints = memory::footprints(commands)?;
    let judge = |table: &mut Comparison, all: &[[f64; 2]]| {
        let best = all[1][0].min(all[2][0]);
        table.judge("peak memory to the smaller of both", all[0][0] / best, 1.0)
    };
    Ok(memory::compare(&open_mpi.names(), &footprints, judge))
}

/// A timed operation, and the largest ratios with [`TARGET_RANKS`].
struct Operation {
    /// As it is called in the table.
    name: &'static str,
    /// As the program calls it.
    word: &'static str,
    to_orterun: Option<f64>,
    to_prterun: Option<f64>,
}

/// One run: what it took until all were through init, and the medians of the other [`OPERATIONS`], in
/// microseconds.
pub(super) type Run = [f64; 7];

/// Reads the lines `fence count=20 median_ns=683266 mean_ns=701412`, one for each operation.
pub(super) fn parse(output: &str) -> Result<Run, String> {
    let mut run = Run::default();
    for (took, Operation { word, .. }) in run.iter_mut().zip(&OPERATIONS) {
        *took = times(output, word)?[0];
    }
    Ok(run)
}

const OPERATIONS: [Operation; 7] = [
    operation("start and init of all", "ready", Some(0.5), None),
    operation("init", "init", None, None),
    operation("before init, processor time", "load", None, None),
    operation("init, processor time", "work", None, None),
    operation("put and commit", "put", None, None),
    operation("fence with data", "fence", Some(0.5), Some(0.25)),
    operation("get", "get", Some(1.5), None),
];

const fn operation(
    name: &'static str,
    word: &'static str,
    to_orterun: Option<f64>,
    to_prterun: Option<f64>,
) -> Operation {
    Operation { name, word, to_orterun, to_prterun }
}

/// Number of ranks, and how often each puts, fences and gets.
const SIZES: &[(u32, u32)] = &[(2, 50), (16, 50), (64, 20), (256, 10)];
const TARGET_RANKS: u32 = 256;
const TURNS: usize = 31;
/// For one number of ranks.
const BUDGET: Duration = Duration::from_secs(40);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_rank_0_is_read_line_by_line() {
        let output = "init count=2 median_ns=4000 mean_ns=1\nready count=1 median_ns=9000 mean_ns=9\n\
                      load count=2 median_ns=2000 mean_ns=1\nwork count=2 median_ns=7000 mean_ns=1\n\
                      put count=1 median_ns=1500 mean_ns=2\nfence count=1 median_ns=5 mean_ns=6\n\
                      get count=1 median_ns=3000 mean_ns=4\n";
        assert_eq!(parse(output), Ok([9.0, 4.0, 2.0, 7.0, 1.5, 0.005, 3.0]));
        assert!(parse("init count=1").is_err());
    }
}
