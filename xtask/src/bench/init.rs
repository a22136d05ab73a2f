//! Starting a job until its ranks are initialized, and large jobs as a whole.

use super::launch::seconds;
use super::run::{Contestant, Outcome, run, take_turns};
use super::tools::{BenchLauncher, compile};
use super::{Comparison, Tools};
use crate::process;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(super) fn measure(tools: &Tools) -> Result<Comparison, String> {
    let mut table = Comparison::new(&[
        "figure",
        "ranks",
        "pmi-host, ms",
        "Hydra 5, ms",
        "÷ Hydra 5",
        "target",
        "floor ÷ Hydra 5",
        "÷ Hydra 4",
        "÷ Intel",
    ]);
    let program = tools.directory()?.join("init");
    compile(&tools.hydra5, MPI_PROGRAM, &program)?;
    let program = program.to_string_lossy().into_owned();
    let rank = tools.directory()?.join("pmi-init");
    process::output(process::command("cc").args(["-O2", PMI_PROGRAM, "-o"]).arg(&rank))?;
    let rank = rank.to_string_lossy().into_owned();
    for figure in FIGURES {
        // Intel's launcher does not start MPICH 5 with its own libraries in the environment.
        let launchers = match figure.kind {
            InitFigureKind::Mpi => &LAUNCHERS[..3],
            InitFigureKind::LastInit | InitFigureKind::Puts | InitFigureKind::Whole => {
                &LAUNCHERS[..]
            }
        };
        let mut contestants: Vec<_> = launchers
            .iter()
            .map(|launcher| {
                let mut command = tools.launcher(*launcher, figure.ranks);
                match figure.kind {
                    InitFigureKind::LastInit => {
                        command.arg(&rank);
                        last_init(command)
                    }
                    InitFigureKind::Mpi => {
                        command.arg(&program).stderr(Stdio::null());
                        seconds(command)
                    }
                    InitFigureKind::Puts => {
                        command.arg(&tools.client).args(PUTS);
                        seconds(command)
                    }
                    InitFigureKind::Whole => {
                        command.arg(&rank);
                        seconds(command)
                    }
                }
            })
            .collect();
        contestants.extend(floor(figure, tools, &rank));
        let took = take_turns(&mut contestants, TURNS, BUDGET)?;
        let shown = |place| {
            let millis = took.median(place, |seconds| seconds * 1e3);
            millis.map_or("–".into(), |millis| format!("{millis:.1}"))
        };
        let ratio = |of, to| took.ratio(of, to, |seconds| *seconds);
        let text = |of, to| ratio(of, to).map_or("–".into(), |ratio| format!("{ratio:.2}"));
        let what = format!("{}, n = {}", figure.name, figure.ranks);
        let target = table.judge(&what, ratio(0, 1).unwrap_or(f64::NAN), figure.limit);
        let row = vec![
            figure.name.into(),
            figure.ranks.to_string(),
            shown(0),
            shown(1),
            text(0, 1),
            target,
            text(FLOOR, 1),
            text(0, 2),
            text(0, 3),
        ];
        table.add(row, took.count());
    }
    Ok(table)
}

/// The same job under a server that only answers, and starts the ranks one after the other. The library of
/// MPICH asks for more than that.
fn floor(figure: &InitFigure, tools: &Tools, rank: &str) -> Option<Contestant<'static, f64>> {
    let mut command = tools.canned_server(figure.ranks, "64");
    match figure.kind {
        InitFigureKind::Mpi => return None,
        InitFigureKind::Puts => command.arg(&tools.client).args(PUTS),
        InitFigureKind::LastInit | InitFigureKind::Whole => command.arg(rank),
    };
    Some(match figure.kind {
        InitFigureKind::LastInit => last_init(command),
        _ => seconds(command),
    })
}

/// Seconds from the start of the launcher until the last rank is initialized.
pub(super) fn last_init(mut command: Command) -> Contestant<'static, f64> {
    Box::new(move || {
        let start =
            SystemTime::now().duration_since(UNIX_EPOCH).map_err(|error| error.to_string())?;
        let outcome = run(&mut command)?;
        let last = latest(&outcome).ok_or("no rank printed when it was initialized")?;
        Ok((last - start.as_nanos() as f64) / 1e9)
    })
}

/// The latest of the lines `initialized at_ns=5`.
fn latest(outcome: &Outcome) -> Option<f64> {
    let times = outcome.output.lines().filter_map(|line| line.strip_prefix("initialized at_ns="));
    times.filter_map(|nanos| nanos.parse().ok()).max_by(f64::total_cmp)
}

struct InitFigure {
    name: &'static str,
    kind: InitFigureKind,
    ranks: u32,
    limit: f64,
}

#[derive(Clone, Copy)]
enum InitFigureKind {
    /// Launch until the last rank is initialized.
    LastInit,
    /// Start to end of a program of MPICH 5.
    Mpi,
    /// Start to end of a job that puts many values.
    Puts,
    /// Start to end of a job that initializes and fences.
    Whole,
}

const fn figure(name: &'static str, kind: InitFigureKind, ranks: u32, limit: f64) -> InitFigure {
    InitFigure { name, kind, ranks, limit }
}

const LAST_INIT: &str = "launch to last init";
const MPI: &str = "MPI_Init to exit, MPICH 5";
const FIGURES: &[InitFigure] = &[
    figure(LAST_INIT, InitFigureKind::LastInit, 16, 0.9),
    figure(LAST_INIT, InitFigureKind::LastInit, 64, 0.9),
    figure(LAST_INIT, InitFigureKind::LastInit, 256, 0.9),
    figure(MPI, InitFigureKind::Mpi, 2, 0.95),
    figure(MPI, InitFigureKind::Mpi, 8, 0.95),
    figure(MPI, InitFigureKind::Mpi, 16, 0.95),
    figure(MPI, InitFigureKind::Mpi, 32, 0.95),
    figure("200,000 puts", InitFigureKind::Puts, 8, 0.7),
    figure("start, init, fence and end", InitFigureKind::Whole, 1000, 0.7),
];
const LAUNCHERS: [BenchLauncher; 4] =
    [BenchLauncher::PmiHost, BenchLauncher::Hydra5, BenchLauncher::Hydra4, BenchLauncher::Intel];
const PUTS: [&str; 6] = ["time", "pmi1", "64", "25000", "1", "1"];
const MPI_PROGRAM: &str = "examples/put-fence-get/init.c";
const PMI_PROGRAM: &str = "examples/put-fence-get/pmi-init.c";
const TURNS: usize = 31;
/// Place of the floor, after all launchers.
const FLOOR: usize = LAUNCHERS.len();
/// For one row.
const BUDGET: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_rank_counts() {
        let output = "initialized at_ns=5\nx\ninitialized at_ns=9\ninitialized at_ns=7\n".into();
        let outcome = Outcome { took: Duration::ZERO, pid: 8, output };
        assert_eq!(latest(&outcome), Some(9.0));
    }
}
