//! Model of a start, from the command to the return of the last rank from `MPI_Init`: event loops and
//! processors as queues, with costs that were measured on one machine. The fence is that of real nodes, which
//! `pmi-sim` simulates.
//!
//! Each launcher has its own schedule (`plan`); peers have the processor time that was measured for them, and
//! these assumptions:
//!
//! * Hydra starts all `ssh` at once from the head. All proxies connect to it; each receives the description
//!   of its ranks when it has connected; the result of a fence goes to one host after the other.
//! * PRRTE starts daemons by a tree of `ssh` of radix 64, 128 at a time, each as soon as its own daemon runs.
//!   They report to the head; the job is described when all have; messages are stored before they go on.

mod events;
mod options;
mod plan;
mod processors;
mod table;
#[cfg(test)]
mod tests;

pub(in crate::bench) use options::{START_USAGE, StartOptions};

use super::costs::{StartCost, StartCosts};
use crate::process;
use events::StartTimes;
use plan::{StartLauncher, StartSetting};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::process::Stdio;

/// A fence of the tree of node servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TreeFence {
    hosts: u32,
    /// Bytes that each host contributes.
    bytes: u64,
    latency_micros: u64,
    /// Gbit/s of an interface.
    bandwidth: u64,
}

/// Gives the time of a fence, in microseconds.
type FenceTime = Box<dyn Fn(TreeFence) -> Result<u64, String>>;

/// Costs, and the simulator of fences.
struct StartModel {
    costs: StartCosts,
    fence: FenceTime,
}

impl StartModel {
    /// The model whose fences `pmi-sim` simulates, each of them once.
    fn new(costs: StartCosts) -> Self {
        let known = RefCell::new(BTreeMap::new());
        let fence = move |fence: TreeFence| {
            let found = known.borrow().get(&fence).copied();
            found.map_or_else(|| simulated(fence), Ok).inspect(|micros| {
                known.borrow_mut().insert(fence, *micros);
            })
        };
        Self { costs, fence: Box::new(fence) }
    }

    /// Times of a start by `launcher`.
    fn start(&self, launcher: StartLauncher, setting: &StartSetting) -> Result<StartTimes, String> {
        let fence = match launcher {
            StartLauncher::PmiHost => (self.fence)(TreeFence {
                hosts: setting.hosts,
                bytes: setting.host_bytes(&self.costs),
                latency_micros: setting.latency,
                bandwidth: setting.bandwidth,
            })?,
            _ => 0,
        };
        Ok(events::run(launcher, setting, &self.costs, fence))
    }
}

/// The longest time until the last `MPI_Init` that meets the target: that of `ssh`, 15 % of it, and 0.5 s.
const fn start_bar(floor: u64) -> u64 {
    floor + floor * 15 / 100 + 500_000
}

/// Time in which the first rank of a host reads the addresses of all hosts, one after the other.
fn read_time(setting: &StartSetting, costs: &StartCosts) -> u64 {
    let each = costs.get(StartCost::MpiGets).saturating_mul(costs.get(StartCost::MpiGet));
    if setting.has_mpi { each.saturating_mul(u64::from(setting.hosts)) } else { 0 }
}

/// The table of simulated starts, with the costs of the repository.
pub(super) fn table() -> Result<String, String> {
    StartModel::new(StartCosts::measured()?).table()
}

fn simulated(fence: TreeFence) -> Result<u64, String> {
    let TreeFence { hosts, bytes, latency_micros, bandwidth } = fence;
    let mut simulator = process::cargo();
    simulator.args(["run", "--release", "--quiet", "--package", "pmi-sim", "--", "tree", "fence"]);
    simulator.args(["--nodes", &hosts.saturating_add(1).to_string()]);
    simulator.args(["--bytes", &bytes.to_string(), "--latency", &latency_micros.to_string()]);
    simulator.args(["--bandwidth", &bandwidth.to_string()]).stderr(Stdio::inherit());
    let text = process::output(&mut simulator)?;
    text.trim().parse().map_err(|_| format!("the simulator has printed {text:?} instead of a time"))
}
