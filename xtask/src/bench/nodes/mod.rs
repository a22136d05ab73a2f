//! Jobs over several hosts, which are network namespaces with a real `sshd`, and nodes of a Slurm on
//! loopback.
//!
//! All hosts share the processors of one machine, so that absolute times say little about a cluster; peers
//! do the same work in the same turn, and a ratio is that of one turn.

pub(super) mod bench_hosts;
mod exchange;
mod footprint;
mod loss;
mod slurm_start;
mod ssh_start;

use super::stats::Turns;
use super::{Comparison, Tools};
use bench_hosts::BenchHosts;
use std::fs;

/// Eight hosts.
pub(super) fn measure(tools: &Tools) -> Result<Comparison, String> {
    compare(tools, 8, |bench, table| {
        ssh_start::measure(bench, table, (8, 1.15))?;
        ssh_start::measure_fast_ssh(bench, table, 8)?;
        exchange::measure(bench, table, (8, 16, 0.15))?;
        exchange::measure(bench, table, (8, 64, 0.5))?;
        exchange::measure_data(bench, table)?;
        exchange::measure_pmix(bench, table)?;
        footprint::measure(bench, table)?;
        loss::measure(bench, table)?;
        slurm_start::measure(bench.tools, table)
    })
}

/// 64 hosts, which take minutes on two processors.
pub(super) fn measure_many(tools: &Tools) -> Result<Comparison, String> {
    compare(tools, 64, |bench, table| {
        ssh_start::measure(bench, table, (64, 1.1))?;
        exchange::measure(bench, table, (64, 64, 0.25))
    })
}

fn compare(
    tools: &Tools,
    hosts: u32,
    measure: impl FnOnce(&BenchHosts<'_>, &mut Comparison) -> Result<(), String>,
) -> Result<Comparison, String> {
    let before = load();
    let mut table = Comparison::new(&[
        "figure",
        "hosts",
        "ranks",
        "pmi-host",
        "beside",
        "its figure",
        "ratio",
        "target",
    ]);
    measure(&BenchHosts::start(tools, hosts)?, &mut table)?;
    table.notes.push(format!(
        "Load average of the machine over a minute: {before} before, {} after. Figures are medians.",
        load()
    ));
    Ok(table)
}

/// A comparison of two figures of a row.
struct NodeRow<'a> {
    figure: &'a str,
    hosts: u32,
    ranks: u32,
    /// Name of the peer.
    beside: &'a str,
    /// The largest ratio.
    limit: Option<f64>,
}

impl NodeRow<'_> {
    /// Adds the row for contestants `ours` and `theirs`; `read` selects the figure, and `shown` writes it.
    fn add<T>(
        &self,
        table: &mut Comparison,
        took: &Turns<T>,
        (ours, theirs): (usize, usize),
        (read, shown): (impl Fn(&T) -> f64, fn(f64) -> String),
    ) {
        let median = |place| took.median(place, &read).map_or("–".to_owned(), shown);
        let ratio = took.ratio(ours, theirs, &read).unwrap_or(f64::NAN);
        let both = [median(ours), median(theirs)];
        self.write(table, both, Some(ratio), took.count());
    }

    fn write(
        &self,
        table: &mut Comparison,
        [ours, theirs]: [String; 2],
        ratio: Option<f64>,
        turns: usize,
    ) {
        let what = format!(
            "{}, {} ranks on {} hosts, to {}",
            self.figure, self.ranks, self.hosts, self.beside
        );
        let target = match (self.limit, ratio) {
            (Some(limit), Some(ratio)) => table.judge(&what, ratio, limit),
            _ => String::new(),
        };
        let ratio = ratio.map_or(String::new(), |ratio| format!("{ratio:.2}"));
        let [hosts, ranks] = [self.hosts, self.ranks].map(|count| count.to_string());
        let row = [self.figure, &hosts, &ranks, &ours, self.beside, &theirs, &ratio, &target];
        table.add(row.map(str::to_owned).into(), turns);
    }
}

fn seconds(seconds: f64) -> String {
    match seconds {
        _ if seconds < 1.0 => format!("{:.0} ms", seconds * 1e3),
        _ => format!("{seconds:.2} s"),
    }
}

fn micros(micros: f64) -> String {
    match micros {
        _ if micros < 1000.0 => format!("{micros:.0} µs"),
        _ => format!("{:.2} ms", micros / 1e3),
    }
}

pub(super) fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}
