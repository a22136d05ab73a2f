//! Costs of the parts of a start over `ssh`, and a model of starts that have many hosts.
//!
//! Processor times are sums over many processes, or differences of runs that differ in the number of hosts or
//! ranks. All hosts share the processors of one machine, so that times of a whole start say little about a
//! cluster; the last rows are such times, by which the model is checked.

mod costs;
mod model;
mod processes;
mod requests;
mod times;

pub(super) use model::{START_USAGE, StartOptions};

use super::nodes::bench_hosts::{BenchHosts, SshLauncher};
use super::nodes::load;
use super::run::{Contestant, contestant, run, take_turns};
use super::stats::median;
use super::tools::compile;
use super::{Comparison, Tools, page};
use crate::process;
use costs::MeasuredCosts;
use processes::Census;
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{fs, thread};

/// Measures all costs.
pub(super) fn measure(tools: &Tools) -> Result<Comparison, String> {
    let before = load();
    let bench = BenchHosts::start(tools, HOSTS)?;
    let mut costs = MeasuredCosts::default();
    times::measure_ssh(&bench, &mut costs)?;
    measure_servers(&bench, &mut costs)?;
    measure_head(tools, &mut costs)?;
    measure_ranks(tools, &mut costs)?;
    times::measure_bytes(&bench, &mut costs)?;
    measure_peers(&bench, &mut costs)?;
    times::check(&bench, &mut costs)?;
    let mut table = Comparison::new(&["cost", "value", "unit", "meaning"]);
    for [name, value, unit, meaning] in costs.rows() {
        table.rows.push(vec![name, value, unit, meaning]);
    }
    let load =
        format!("Load average of the machine over a minute: {before} before, {} after", load());
    table.files.push((costs::FILE, costs.text(&[tools.facts(), vec![load.clone()]].concat())));
    table.notes.push(format!("{load}."));
    Ok(table)
}

/// Writes the table of starts that are simulated with the costs of the repository.
pub(super) fn write_simulated() -> Result<(), String> {
    page::write(SIMULATED, &model::table()?)
}

/// Checks that the page has the starts that are simulated with the costs of the repository. Returns what is
/// wrong.
pub(crate) fn check_simulated() -> Result<Vec<String>, String> {
    let is_current = page::section(&page::read()?, SIMULATED)? == model::table()?.trim();
    let stale = "the page has other simulated starts; write them by 'cargo xtask bench --simulate'";
    Ok(if is_current { Vec::new() } else { vec![stale.to_owned()] })
}

/// Place of the table in the page.
const SIMULATED: &str = "simulated starts";

/// Node servers with one rank and with many.
fn measure_servers(bench: &BenchHosts<'_>, costs: &mut MeasuredCosts) -> Result<(), String> {
    let (launcher, roots) = (SshLauncher::PmiHost, times::sshd_pids(&bench.hosts)?);
    let work = |ranks: u32| {
        let mut command = bench.launcher(launcher, 1, ranks);
        command.args([&bench.tools.client, "work", "pmi1", "64", "0", "0", &FENCES.to_string()]);
        censuses(command, roots.clone(), &SERVERS)
    };
    let took = take_turns(&mut [work(1), work(MANY_RANKS)], TURNS, BUDGET)?;
    let node = |place, label: usize| {
        took.median(place, |found: &[Census; 2]| found[label].servers).unwrap_or(f64::NAN)
    };
    let per_rank = (node(1, 0) - node(0, 0)) / f64::from(MANY_RANKS - 1);
    costs.add("node-start", node(0, 0) - per_rank);
    costs.add("rank-start", per_rank);
    let messages = f64::from((FENCES + OTHER_FENCES) * MANY_RANKS);
    costs.add("message", (node(1, 1) - node(1, 0)) / messages);
    Ok(())
}

/// The head with many hosts, most of which others start.
fn measure_head(tools: &Tools, costs: &mut MeasuredCosts) -> Result<(), String> {
    let of = |hosts: u32| {
        let mut command = process::command(&tools.host);
        command.args(["run", "--starter", &format!("local:{hosts}"), "-n", &hosts.to_string()]);
        command.args(["--starter-fanout", "32", "--", &tools.client]);
        command.args(["work", "pmi1", "64", "0", "0", "1"]);
        censuses(command, Vec::new(), &SERVERS)
    };
    let took = take_turns(&mut [of(FEW_HOSTS), of(MANY_HOSTS)], HEAD_TURNS, BUDGET)?;
    let head = |place| took.median(place, |found: &[Census; 2]| found[0].head).unwrap_or(f64::NAN);
    let per_host = (head(1) - head(0)) / f64::from(MANY_HOSTS - FEW_HOSTS);
    costs.add("head-start", head(0) - per_host * f64::from(FEW_HOSTS));
    costs.add("head-host", per_host);
    Ok(())
}

/// Ranks themselves, without and with a library of MPI.
fn measure_ranks(tools: &Tools, costs: &mut MeasuredCosts) -> Result<(), String> {
    let directory = tools.directory()?;
    let (plain, mpi) = (directory.join("pmi-init"), directory.join("init"));
    process::output(process::command("cc").args(["-O2", PMI_PROGRAM, "-o"]).arg(&plain))?;
    compile(&tools.hydra5, MPI_PROGRAM, &mpi)?;
    let [plain, mpi] = [plain, mpi].map(|path| path.to_string_lossy().into_owned());
    let of = |hosts: u32, ranks: u32, program: &str| -> Contestant<'static, f64> {
        let mut command = process::command(&tools.host);
        command.args(["run", "--starter", &format!("local:{hosts}"), "-n", &ranks.to_string()]);
        command.args(["--", program]).stderr(Stdio::null());
        Box::new(move || processes::of_children(|| run(&mut command).map(drop)))
    };
    let mut contestants =
        [of(1, 1, &plain), of(1, MANY_RANKS, &plain), of(2, 2, &plain), of(2, 2, &mpi)];
    let took = take_turns(&mut contestants, RANK_TURNS, BUDGET)?;
    // Ticks of 10 ms are too coarse for one run.
    let mean = |place| {
        let all = took.of(place);
        all.iter().sum::<f64>() / all.len() as f64
    };
    let per_rank = (mean(1) - mean(0)) / f64::from(MANY_RANKS - 1);
    costs.add("rank", per_rank - costs.get("rank-start"));
    costs.add("mpi-init", (mean(3) - mean(2)) / 2.0);
    requests::measure(tools, &mpi, costs)
}

/// The same parts of other launchers.
fn measure_peers(bench: &BenchHosts<'_>, costs: &mut MeasuredCosts) -> Result<(), String> {
    let (client, roots) = (bench.tools.client.as_str(), times::sshd_pids(&bench.hosts)?);
    let hydra = [client, "work", "pmi1", "64", "0", "0", "1"];
    // It serves no PMI-1: its processes are no ranks, and only list all processes. Without the option each
    // would need a processor of its own.
    let prte = ["--bind-to", "none", client, LIST, "before"];
    let peers = [
        (SshLauncher::NewerHydra, "hydra", &["hydra_pmi_proxy"][..], &hydra[..], MANY_RANKS),
        (SshLauncher::Prterun, "prte", &["prted"], &prte, PRTE_RANKS),
    ];
    for (launcher, name, servers, program, ranks) in peers {
        let of = |hosts: u32, ranks: u32| {
            let mut command = bench.launcher(launcher, hosts, ranks);
            command.args(program);
            censuses(command, roots.clone(), servers)
        };
        let hosts = if launcher == SshLauncher::Prterun { PRTE_HOSTS } else { HOSTS };
        let mut contestants = [of(1, 1), of(hosts, hosts), of(1, ranks)];
        let took = take_turns(&mut contestants, TURNS, BUDGET)?;
        let of = |place, read: fn(&Census) -> f64| {
            took.median(place, |found: &[Census; 2]| read(&found[0])).unwrap_or(f64::NAN)
        };
        let (head, node) =
            (|place| of(place, |one| one.head), |place| of(place, |one| one.servers));
        let per_host = (head(1) - head(0)) / f64::from(hosts - 1);
        let per_rank = (node(2) - node(0)) / f64::from(ranks - 1);
        costs.add(&format!("{name}-start"), head(0) - per_host);
        costs.add(&format!("{name}-host"), per_host);
        costs.add(&format!("{name}-node"), node(0) - per_rank);
        costs.add(&format!("{name}-rank"), per_rank);
    }
    Ok(())
}

/// A run whose first rank lists the processes before and after its fences; `servers` are those of hosts,
/// below `roots` or the head.
fn censuses(
    command: Command,
    roots: Vec<u32>,
    servers: &'static [&'static str],
) -> Contestant<'static, [Census; 2]> {
    contestant(command, move |outcome| {
        let of = |label| Census::read((&outcome.output, label), outcome.pid, &roots, servers);
        Ok([of("before"), of("after")])
    })
}

/// Mode of the program that lists processes.
const LIST: &str = "processes";
/// Node servers, and the processes that guard them.
const SERVERS: [&str; 2] = ["pmi-host", "pmi-guard"];
const PMI_PROGRAM: &str = "examples/put-fence-get/pmi-init.c";
const MPI_PROGRAM: &str = "examples/put-fence-get/init.c";
const HOSTS: u32 = 16;
/// With more, `prterun` does not end on two processors.
const PRTE_HOSTS: u32 = 8;
const PRTE_RANKS: u32 = 32;
const FEW_HOSTS: u32 = 64;
const MANY_HOSTS: u32 = 512;
const MANY_RANKS: u32 = 128;
const FENCES: u32 = 50;
/// Those of the program between both lists, besides the given number.
const OTHER_FENCES: u32 = 14;
const TURNS: usize = 7;
const HEAD_TURNS: usize = 5;
const RANK_TURNS: usize = 21;
/// For one comparison.
const BUDGET: Duration = Duration::from_secs(60);
