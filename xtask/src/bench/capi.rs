//! The whole exchange through `libpmi`: with values in shared memory, by messages, and under Hydra.

use super::run::{contestant, take_turns, times};
use super::stats::micros;
use super::tools::BenchLauncher;
use super::{Comparison, Tools};
use crate::{capi, process};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Exchange, single gets after a fence, and the memory of the values that all ranks see.
pub(super) fn measure(tools: &Tools) -> Result<Comparison, String> {
    let directory = tools.directory()?.join("capi");
    let findings = capi::make(&directory)?;
    if let Some(finding) = findings.first() {
        return Err(finding.clone());
    }
    let (lib, program) = (directory.join("lib"), directory.join("exchange"));
    compile(&directory, &program)?;
    let floor = directory.join("exchange-floor");
    process::output(process::command("cc").args(["-O2", FLOOR, "-o"]).arg(&floor))?;
    let floor = floor.to_string_lossy().into_owned();
    let mut table = Comparison::new(&[
        "ranks",
        "server",
        "whole exchange, µs",
        "pmi-host ÷ it",
        "target",
        "get, µs",
        "target",
        "values in all ranks, KiB",
    ]);
    for ranks in RANKS {
        let with = |mut command: Command| {
            command.arg(&program).arg(VALUE_BYTES).env("LD_LIBRARY_PATH", &lib);
            contestant(command, |outcome| parse(&outcome.output))
        };
        let mut by_messages = tools.host_with_options(ranks);
        by_messages.args(["--env", "PMI_SNAPSHOT=0", "--"]);
        let mut least = tools.canned_server(ranks, VALUE_BYTES);
        least.args([&floor, VALUE_BYTES]);
        let mut contestants = [
            with(tools.host(ranks)),
            with(by_messages),
            with(tools.launcher(BenchLauncher::Hydra5, ranks)),
            contestant(least, |outcome| {
                let exchange_us = times(&outcome.output, "exchange")?[0];
                Ok(Run { exchange_us, get_us: f64::NAN, view_kib: f64::NAN })
            }),
        ];
        let took = take_turns(&mut contestants, TURNS, BUDGET)?;
        for (place, name) in NAMES.iter().enumerate() {
            let of = |figure: fn(&Run) -> f64| took.median(place, figure);
            let ratio = took.ratio(0, place, |run| run.exchange_us).unwrap_or(f64::NAN);
            let what = format!("whole exchange, n = {ranks}, to Hydra 5");
            let to_hydra = match (place, ranks) {
                (2, 128) => table.judge(&what, ratio, EXCHANGE_TARGET),
                _ => String::new(),
            };
            let get_us = of(|run| run.get_us).unwrap_or(f64::NAN);
            let get_shown = if get_us.is_nan() { String::new() } else { format!("{get_us:.2}") };
            let get = match place {
                0 => {
                    table.judge(&format!("get after a fence, µs, n = {ranks}"), get_us, GET_TARGET)
                }
                _ => String::new(),
            };
            let view = of(|run| run.view_kib).filter(|_| place == 0);
            let row = vec![
                ranks.to_string(),
                (*name).into(),
                of(|run| run.exchange_us).map_or("–".into(), micros),
                format!("{ratio:.3}"),
                to_hydra,
                get_shown,
                get,
                view.map_or(String::new(), |kib| format!("{kib:.0}")),
            ];
            table.add(row, took.count());
        }
    }
    table.notes.push(NOTE.into());
    Ok(table)
}

/// Builds the program with the library.
fn compile(directory: &Path, program: &Path) -> Result<(), String> {
    let mut compiler = process::command("cc");
    compiler.args(["-O2", EXCHANGE, "-o"]).arg(program);
    compiler.arg("-I").arg(directory.join("include")).arg("-L").arg(directory.join("lib"));
    process::output(compiler.arg("-lpmi")).map(drop)
}

/// Result of one run.
#[derive(Debug, PartialEq)]
struct Run {
    exchange_us: f64,
    get_us: f64,
    /// Resident memory of all copies of the values: one, if all ranks map the same files.
    view_kib: f64,
}

fn parse(output: &str) -> Result<Run, String> {
    let view = output.lines().find_map(|line| line.strip_prefix("view ")?.split("kib=").nth(1));
    let view_kib = view.and_then(|kib| kib.parse().ok());
    Ok(Run {
        exchange_us: times(output, "exchange")?[0],
        get_us: times(output, "get")?[0],
        view_kib: view_kib.ok_or_else(|| format!("rank 0 printed no memory: {output:?}"))?,
    })
}

const NAMES: [&str; 4] = ["pmi-host", "pmi-host, by messages", "Hydra 5", "floor"];
const RANKS: [u32; 3] = [4, 128, 256];
const VALUE_BYTES: &str = "64";
const EXCHANGE: &str = "examples/put-fence-get/exchange.c";
const FLOOR: &str = "examples/put-fence-get/exchange-floor.c";
const EXCHANGE_TARGET: f64 = 1.0 / 40.0;
const GET_TARGET: f64 = 0.5;
const NOTE: &str = "The same program and `libpmi.so.0` everywhere: MPICH keeps its own client inside its MPI \
                    library. Under Hydra 5 it speaks PMI-1.1, as that client does. An exchange is \
                    one put of 64 bytes and as many gets as there are ranks, with the fence between and \
                    one behind. The floor has the same fences under the do-nothing server, and gets \
                    from a table in the memory of the rank.";
const TURNS: usize = 11;
const BUDGET: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_rank_0_is_read() {
        let output = "exchange count=5 median_ns=4000 mean_ns=5000\nget count=9 median_ns=200 \
                      mean_ns=300\nview kib=20\n";
        let run = Run { exchange_us: 4.0, get_us: 0.2, view_kib: 20.0 };
        assert_eq!(parse(output), Ok(run));
        assert!(parse("exchange count=5 median_ns=4 mean_ns=5\n").is_err());
    }
}
