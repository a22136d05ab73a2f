//! Start and end of a program that does nothing, one rank on each host, over `ssh`.

use super::bench_hosts::{BenchHosts, SshLauncher};
use super::{NodeRow, seconds};
use crate::bench::Comparison;
use crate::bench::run::{Contestant, run_silent, take_turns};
use std::process::Command;
use std::time::Duration;

/// Adds the rows of this comparison with that many hosts; `limit` is the largest ratio to `ssh`.
///
/// # Errors
///
/// A launcher fails.
pub(super) fn measure(
    bench: &BenchHosts<'_>,
    table: &mut Comparison,
    (hosts, limit): (u32, f64),
) -> Result<(), String> {
    // With 64 hosts on two processors, `prterun` does not end within a minute.
    let launchers = &SshLauncher::ALL[..if hosts > 8 { 4 } else { 5 }];
    let limit_to = |peer| match peer {
        None => Some(limit),
        Some(SshLauncher::Hydra | SshLauncher::NewerHydra) => Some(1.0),
        Some(_) => None,
    };
    compare(bench, table, (hosts, launchers, ""), ("start and end", limit_to))
}

/// The same with a key exchange of `ssh` that takes less time, without targets.
///
/// # Errors
///
/// A launcher fails.
pub(super) fn measure_fast_ssh(
    bench: &BenchHosts<'_>,
    table: &mut Comparison,
    hosts: u32,
) -> Result<(), String> {
    let (launchers, options) = (&SshLauncher::ALL[..3], "-o KexAlgorithms=curve25519-sha256");
    compare(
        bench,
        table,
        (hosts, launchers, options),
        ("start and end, `curve25519-sha256`", |_| None),
    )
}

fn compare(
    bench: &BenchHosts<'_>,
    table: &mut Comparison,
    (hosts, launchers, options): (u32, &[SshLauncher], &str),
    (figure, limit_to): (&str, impl Fn(Option<SshLauncher>) -> Option<f64>),
) -> Result<(), String> {
    let timed = |mut command: Command| -> Contestant<'_, f64> {
        Box::new(move || run_silent(&mut command).map(|outcome| outcome.took.as_secs_f64()))
    };
    let mut contestants: Vec<_> = launchers
        .iter()
        .map(|&launcher| {
            let mut command = bench.launcher(launcher, hosts, hosts);
            if !options.is_empty() {
                let arguments = format!("-F {} {options}", bench.hosts.client());
                command.env("HYDRA_LAUNCHER_EXTRA_ARGS", arguments);
            }
            command.arg("/bin/true");
            timed(command)
        })
        .collect();
    contestants.push(timed(bench.bare_ssh_with(hosts, options)));
    let took = take_turns(&mut contestants, TURNS, BUDGET)?;
    let peers = launchers.iter().copied().map(Some).chain([None]).zip(0..).skip(1);
    for (peer, place) in peers {
        let beside = peer.map_or("as many ssh", SshLauncher::name);
        let row = NodeRow { figure, hosts, ranks: hosts, beside, limit: limit_to(peer) };
        row.add(table, &took, (0, place), (|seconds: &f64| *seconds, seconds));
    }
    Ok(())
}

const TURNS: usize = 15;
/// For one number of hosts.
const BUDGET: Duration = Duration::from_secs(40);
