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
    let timed = |mut command: Command| -> Contestant<'_, f64> {
        Box::new(move || run_silent(&mut command).map(|outcome| outcome.took.as_secs_f64()))
    };
    // With 64 hosts on two processors, `prterun` does not end within a minute.
    let launchers = &SshLauncher::ALL[..if hosts > 8 { 3 } else { 4 }];
    let mut contestants: Vec<_> = launchers
        .iter()
        .map(|&launcher| {
            let mut command = bench.launcher(launcher, hosts, hosts);
            command.arg("/bin/true");
            timed(command)
        })
        .collect();
    contestants.push(timed(bench.bare_ssh(hosts)));
    let took = take_turns(&mut contestants, TURNS, BUDGET)?;
    let limit_to = |peer| match peer {
        SshLauncher::Hydra | SshLauncher::NewerHydra => Some(1.0),
        SshLauncher::PmiHost | SshLauncher::Prterun => None,
    };
    let peers = launchers.iter().zip(0..).skip(1);
    let peers = peers.map(|(&peer, place)| (peer.name(), place, limit_to(peer)));
    for (beside, place, limit) in peers.chain([("as many ssh", launchers.len(), Some(limit))]) {
        let row = NodeRow { figure: "start and end", hosts, ranks: hosts, beside, limit };
        row.add(table, &took, (0, place), (|seconds: &f64| *seconds, seconds));
    }
    Ok(())
}

const TURNS: usize = 15;
/// For one number of hosts.
const BUDGET: Duration = Duration::from_secs(40);
