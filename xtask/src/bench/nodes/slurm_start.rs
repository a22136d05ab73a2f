//! Start, end and fence in an allocation of Slurm, where `srun` starts the node servers.

use super::{NodeRow, micros, seconds};
use crate::bench::run::{Contestant, contestant, run_silent, take_turns};
use crate::bench::{Comparison, Tools, kvs};
use crate::process;
use pmi_host_testkit::slurm::{Slurm, SlurmPolicy};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Adds the rows of this comparison; a note if there is no Slurm.
///
/// # Errors
///
/// A launcher fails.
pub(super) fn measure(tools: &Tools, table: &mut Comparison) -> Result<(), String> {
    let slurm =
        match Slurm::start_nodes(tools.directory()?.join("slurm"), HOSTS, SlurmPolicy::Shared) {
            Ok(slurm) => slurm,
            Err(why) => {
                table.notes.push(format!("Without `srun`: {why}."));
                return Ok(());
            }
        };
    let client = |name: &str| {
        let mut command = process::command(name);
        command.env("SLURM_CONF", slurm.conf()).stderr(Stdio::null());
        command
    };
    let nodes = HOSTS.to_string();
    let mut salloc = client("salloc");
    process::output(salloc.args(["-N", &nodes, "--ntasks-per-node=2", "--no-shell"]))?;
    let job = process::output(client("squeue").args(["-h", "-o", "%i"]))?;
    // As a shell of `salloc` has it.
    let within = |name: &str| {
        let mut command = client(name);
        command.env("SLURM_JOB_ID", job.trim()).env("SLURM_JOB_NUM_NODES", &nodes);
        command.env("SLURM_JOB_NODELIST", format!("slurm[1-{nodes}]"));
        command.env("SLURM_TASKS_PER_NODE", format!("2(x{nodes})"));
        command
    };
    let ours = |ranks: u32, per_node: &str| {
        let mut command = within(&tools.host);
        command.args(["run", "--allocation", "--ppn", per_node, "-n", &ranks.to_string(), "--"]);
        command
    };
    let theirs = |ranks: u32, per_node: &str| {
        let mut command = within("srun");
        command.args(["--overlap", "--mpi=pmi2", "-N", &nodes, "-n", &ranks.to_string()]);
        command.arg(format!("--ntasks-per-node={per_node}"));
        command
    };
    let mut contestants = [ours(HOSTS, "1"), theirs(HOSTS, "1")].map(|mut command| {
        command.arg("/bin/true");
        let timed: Contestant<'_, f64> =
            Box::new(move || run_silent(&mut command).map(|outcome| outcome.took.as_secs_f64()));
        timed
    });
    let took = take_turns(&mut contestants, 11, BUDGET)?;
    let row = NodeRow {
        figure: "start and end",
        hosts: HOSTS,
        ranks: HOSTS,
        beside: "srun 22.05",
        limit: Some(1.3),
    };
    row.add(table, &took, (0, 1), (|seconds: &f64| *seconds, seconds));

    let ranks = 2 * HOSTS;
    let timed = |mut command: Command, protocol: &str, fences: &str| {
        command.args([&tools.client, "time", protocol, "64", "5", "5", fences]);
        contestant(command, |outcome| kvs::parse(&outcome.output))
    };
    let mut contestants =
        [timed(ours(ranks, "2"), "pmi1", "100"), timed(theirs(ranks, "2"), "pmi2", "15")];
    let took = take_turns(&mut contestants, 5, BUDGET)?;
    let (beside, limit) = ("srun 22.05, PMI-2", Some(0.05));
    let row = NodeRow { figure: "PMI-1 fence", hosts: HOSTS, ranks, beside, limit };
    row.add(table, &took, (0, 1), (|run: &kvs::Run| run[2][0], micros));
    Ok(())
}

const HOSTS: u32 = 8;
const BUDGET: Duration = Duration::from_secs(25);
