//! PMIx as a rank sees it, beside Open MPI's launchers, with the library that Debian has.

use super::memory::{Peak, peak};
use super::open_mpi::OpenMpi;
use super::run::{run, take_turns};
use super::stats::{median, ratio};
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
            let turn = move || {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                command.env("LAUNCHER_STARTED_NS", now.as_nanos().to_string());
                parse(&run(&mut command)?.output)
            };
            Box::new(turn) as Box<dyn FnMut() -> Result<Run, String>>
        });
        let took = take_turns(&mut contestants, TURNS, BUDGET)?;
        for (at, operation) in OPERATIONS.iter().enumerate() {
            let of = |place: usize| -> Vec<f64> {
                took.get(place).into_iter().flatten().map(|run| run[at]).collect()
            };
            let shown = |place| median(of(place)).map_or("–".into(), micros);
            let mut row = vec![ranks.to_string(), operation.name.into()];
            row.extend([shown(0), shown(1), shown(2)]);
            let judged = [("orterun", operation.to_orterun), ("prterun", operation.to_prterun)];
            for (place, (other, limit)) in (1..).zip(judged) {
                let found = ratio(&of(0), &of(place)).unwrap_or(f64::NAN);
                row.push(format!("{found:.2}"));
                let what = format!("{} to {other}, n = {ranks}", operation.name);
                row.push(match limit.filter(|_| ranks == TARGET_RANKS) {
                    Some(limit) => table.judge(&what, found, limit),
                    None => String::new(),
                });
            }
            println!("{}  ({} turns)", row.join("  "), took[0].len());
            table.rows.push(row);
        }
    }
    Ok(table)
}

/// Peak memory of who serves the ranks, when every one has committed a value and all have fenced.
pub(super) fn measure_memory(tools: &Tools) -> Result<Comparison, String> {
    let open_mpi = OpenMpi::prepare(tools)?;
    let mut contestants = open_mpi.commands(tools, TARGET_RANKS, &["memory"]).map(|mut command| {
        let turn = move || run(&mut command).map(|outcome| peak(&outcome));
        Box::new(turn) as Box<dyn FnMut() -> Result<Peak, String>>
    });
    let peaks = take_turns(&mut contestants, MEMORY_TURNS, BUDGET)?;
    let mib = |place: usize| {
        let peaks = peaks.get(place).into_iter().flatten();
        median(peaks.map(|peak| f64::from(peak.kib) / 1024.0)).unwrap_or(f64::NAN)
    };
    let mut table = Comparison::new(&["server", "peak memory, MiB", "processes", "target"]);
    let best = mib(1).min(mib(2));
    for (place, name) in open_mpi.names().into_iter().enumerate() {
        let target = match place {
            0 => table.judge("peak memory to the smaller of both", mib(0) / best, 1.0),
            _ => String::new(),
        };
        let processes = peaks[place].first().map_or(String::new(), |peak| peak.names.join(" + "));
        table.rows.push(vec![name, format!("{:.1}", mib(place)), processes, target]);
    }
    Ok(table)
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
type Run = [f64; 7];

/// Reads the lines `fence count=20 median_ns=683266 mean_ns=701412`, one for each operation.
fn parse(output: &str) -> Result<Run, String> {
    let mut run = Run::default();
    for (took, Operation { word, .. }) in run.iter_mut().zip(&OPERATIONS) {
        let line = output.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
        let median = line.and_then(|line| {
            let word = line.split(' ').find_map(|word| word.strip_prefix("median_ns="))?;
            word.parse::<f64>().ok()
        });
        let nanos =
            median.ok_or_else(|| format!("rank 0 printed no line of {word}: {output:?}"))?;
        *took = nanos / 1e3;
    }
    Ok(run)
}

fn micros(micros: f64) -> String {
    if micros < 100.0 { format!("{micros:.1}") } else { format!("{micros:.0}") }
}

const OPERATIONS: [Operation; 7] = [
    Operation {
        name: "start and init of all",
        word: "ready",
        to_orterun: Some(0.5),
        to_prterun: None,
    },
    Operation { name: "init", word: "init", to_orterun: None, to_prterun: None },
    Operation {
        name: "before init, processor time",
        word: "load",
        to_orterun: None,
        to_prterun: None,
    },
    Operation { name: "init, processor time", word: "work", to_orterun: None, to_prterun: None },
    Operation { name: "put and commit", word: "put", to_orterun: None, to_prterun: None },
    Operation {
        name: "fence with data",
        word: "fence",
        to_orterun: Some(0.5),
        to_prterun: Some(0.25),
    },
    Operation { name: "get", word: "get", to_orterun: None, to_prterun: None },
];
/// Number of ranks, and how often each puts, fences and gets.
const SIZES: &[(u32, u32)] = &[(2, 50), (16, 50), (64, 20), (256, 10)];
const TARGET_RANKS: u32 = 256;
const TURNS: usize = 31;
const MEMORY_TURNS: usize = 5;
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
