//! Fences and gets of ranks on several hosts.

use super::bench_hosts::{BenchHosts, SshLauncher};
use super::{NodeRow, micros};
use crate::bench::run::{Contestant, contestant, on_processors, run, take_turns, times};
use crate::bench::{Comparison, kvs, pmix};
use pmi_host_testkit::ssh::address;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Adds the rows of this comparison with that many hosts and ranks; `limit` is the largest ratio of a fence
/// to that of Hydra.
///
/// # Errors
///
/// A launcher fails.
pub(super) fn measure(
    bench: &BenchHosts<'_>,
    table: &mut Comparison,
    (hosts, ranks, limit): (u32, u32, f64),
) -> Result<(), String> {
    let timed = |mut command: Command, protocol: &str| -> Contestant<'_, kvs::Run> {
        command.args([&bench.tools.client, "time", protocol, VALUE_BYTES, PUTS, "1", FENCES]);
        contestant(command, |outcome| kvs::parse(&outcome.output))
    };
    let of = |launcher| bench.launcher(launcher, hosts, ranks);
    let mut contestants = [
        timed(of(SshLauncher::PmiHost), "pmi1"),
        timed(of(SshLauncher::PmiHost), "pmi2"),
        timed(of(SshLauncher::Hydra), "pmi1"),
        timed(of(SshLauncher::NewerHydra), "pmi1"),
        relays(bench, hosts, ranks),
    ];
    let took = take_turns(&mut contestants, TURNS, BUDGET)?;
    let fence = |run: &kvs::Run| run[2][0];
    let rows = [
        ("PMI-1 fence", SshLauncher::Hydra.name(), Some(limit), (0, 2)),
        ("PMI-1 fence", SshLauncher::NewerHydra.name(), Some(limit), (0, 3)),
        ("PMI-1 fence", "bytes through relays", None, (0, 4)),
        ("PMI-2 fence", "its PMI-1", Some(1.1), (1, 0)),
    ];
    for (figure, beside, limit, places) in rows {
        let row = NodeRow { figure, hosts, ranks, beside, limit };
        row.add(table, &took, places, (fence, micros));
    }
    measure_gets(bench, table, (hosts, ranks))
}

/// Adds the rows of gets: those of one rank alone, which the node server of its host answers, and those of
/// all ranks at once.
fn measure_gets(
    bench: &BenchHosts<'_>,
    table: &mut Comparison,
    (hosts, ranks): (u32, u32),
) -> Result<(), String> {
    let timed = |mut command: Command, words: &[&str]| -> Contestant<'_, [f64; 2]> {
        command.arg(&bench.tools.client).args(words);
        contestant(command, |outcome| times(&outcome.output, "get"))
    };
    let of_hosts = || bench.launcher(SshLauncher::PmiHost, hosts, ranks);
    let mut of_local = bench.tools.host_with_options(ranks);
    of_local.args(["--starter", &format!("local:{hosts}"), "--"]);
    let alone = ["lone-get", "pmi1", VALUE_BYTES, PUTS, GETS];
    let all = ["time", "pmi1", VALUE_BYTES, PUTS, GETS, "1"];
    let mut contestants = [
        // The time of one depends on whether the system has the rank and its server share a processor, so
        // all share one.
        timed(on_processors("0", &of_local), &alone),
        timed(on_processors("0", &bench.tools.host(ranks)), &alone),
        timed(of_hosts(), &all),
        timed(bench.tools.host(ranks), &all),
    ];
    let took = take_turns(&mut contestants, TURNS, BUDGET)?;
    let beside = "it on one host";
    let row = NodeRow { figure: "get after a fence", hosts, ranks, beside, limit: Some(1.05) };
    row.add(table, &took, (0, 1), (|get: &[f64; 2]| get[0], micros));
    // Where all ranks share processors, the first one may be ahead of the others for a while, so this is a
    // mean.
    let row = NodeRow { figure: "gets of all ranks at once", hosts, ranks, beside, limit: None };
    row.add(table, &took, (2, 3), (|get: &[f64; 2]| get[1], micros));
    Ok(())
}

/// Adds the row of a fence that carries much data: that of all puts of the ranks, with the puts.
///
/// # Errors
///
/// A launcher fails.
pub(super) fn measure_data(bench: &BenchHosts<'_>, table: &mut Comparison) -> Result<(), String> {
    let (hosts, ranks) = (8, 64);
    let launchers = [SshLauncher::PmiHost, SshLauncher::Hydra, SshLauncher::NewerHydra];
    let mut contestants = launchers.map(|launcher| {
        let mut command = bench.launcher(launcher, hosts, ranks);
        command.args([&bench.tools.client, "time", "pmi1"]);
        command.args([LARGE_BYTES, LARGE_PUTS, "1", "1"]);
        contestant(command, |outcome| times(&outcome.output, "data"))
    });
    let took = take_turns(&mut contestants, TURNS, BUDGET)?;
    let figure = format!("{LARGE_PUTS} puts of {LARGE_BYTES} bytes and their fence");
    for (place, launcher) in launchers.iter().enumerate().skip(1) {
        let beside = launcher.name();
        let row = NodeRow { figure: &figure, hosts, ranks, beside, limit: Some(1.0) };
        row.add(table, &took, (0, place), (|data: &[f64; 2]| data[0], micros));
    }
    Ok(())
}

/// The least fence: a byte of each rank to a relay on its host, one of each relay to a root, and back.
fn relays<'a>(bench: &'a BenchHosts<'_>, hosts: u32, ranks: u32) -> Contestant<'a, kvs::Run> {
    Box::new(move || {
        let to = format!("{}:{RELAY_PORT}", address(0));
        let start = |host| {
            let mut relay = bench.hosts.command(host, &bench.tools.relay);
            relay.args(["relay", &to, &(ranks / hosts).to_string()]).stdin(Stdio::null());
            relay.spawn().map_err(|error| format!("a relay cannot be started: {error}"))
        };
        let mut relays = (1..=hosts).map(start).collect::<Result<Vec<_>, _>>()?;
        let mut root = bench.hosts.command(0, &bench.tools.relay);
        root.args(["root", RELAY_PORT, &hosts.to_string(), FENCES]);
        let outcome = run(&mut root);
        for relay in &mut relays {
            // They end with the root, if it ran.
            let _ = relay.kill();
            let _ = relay.wait();
        }
        let fence = times(&outcome?.output, "fence")?;
        Ok([[f64::NAN; 2], [f64::NAN; 2], fence])
    })
}

/// Adds the row of PMIx, beside `prterun`.
///
/// # Errors
///
/// A launcher fails.
pub(super) fn measure_pmix(bench: &BenchHosts<'_>, table: &mut Comparison) -> Result<(), String> {
    // With more ranks on several hosts, that program does not end under `prterun`.
    let (hosts, ranks) = (2, 2);
    let mut contestants = [SshLauncher::PmiHost, SshLauncher::Prterun].map(|launcher| {
        let mut command = bench.launcher(launcher, hosts, ranks);
        command.env("LAUNCHER_STARTED_NS", "0");
        command.args([&bench.open_mpi.client, "time", "20"]);
        contestant(command, |outcome| pmix::parse(&outcome.output))
    });
    let beside = SshLauncher::Prterun.name();
    let Ok(took) = take_turns(&mut contestants, TURNS, BUDGET) else {
        table.notes.push(format!("The program of PMIx did not end, mostly under {beside}."));
        return Ok(());
    };
    let row = NodeRow { figure: "PMIx fence with data", hosts, ranks, beside, limit: Some(1.0) };
    row.add(table, &took, (0, 1), (|run: &pmix::Run| run[5], micros));
    Ok(())
}

const VALUE_BYTES: &str = "64";
/// Of each rank.
const PUTS: &str = "20";
/// So many that the system gives each rank its turns of the processors meanwhile.
const GETS: &str = "1000";
const FENCES: &str = "500";
/// Values of a fence with much data, 6.4 MB of all ranks together.
const LARGE_BYTES: &str = "1000";
const LARGE_PUTS: &str = "100";
/// At the root of the relays, in its own network namespace.
const RELAY_PORT: &str = "7777";
const TURNS: usize = 9;

/// For one number of hosts and ranks.
const BUDGET: Duration = Duration::from_secs(40);
