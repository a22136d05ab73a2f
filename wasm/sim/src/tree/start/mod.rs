//! Model of a start, from the command to the return of the last rank from `MPI_Init`: event loops and
//! processors as queues, with costs that were measured on one machine. The fence is that of real nodes.
//!
//! Each launcher has its own schedule (`plan`); peers have the processor time that was measured for them, and
//! these assumptions:
//!
//! * Hydra starts all `ssh` at once from the head. All proxies connect to it; each receives the description
//!   of its ranks when it has connected; the result of a fence goes to one host after the other.
//! * PRRTE starts daemons by a tree of `ssh` of radix 64, 128 at a time, each as soon as its own daemon runs.
//!   They report to the head; the job is described when all have; messages are stored before they go on.

mod costs;
mod model;
mod plan;
mod processors;
mod table;
#[cfg(test)]
mod tests;

pub use costs::{StartCost, StartCosts, StartCostsError};
pub use model::StartTimes;
pub use plan::{StartLauncher, StartSetting};
pub use table::start_table;

use super::scale::{TreeCost, cost_at, memory_bytes};
use crate::check::Violation;

/// Times of a start by `launcher`.
///
/// # Errors
///
/// A rule that the fence of the tree has broken.
pub fn start(
    launcher: StartLauncher,
    setting: &StartSetting,
    costs: &StartCosts,
) -> Result<StartTimes, Violation> {
    let fence = match launcher {
        StartLauncher::PmiHost => fence_micros(setting, setting.host_bytes(costs))?,
        _ => 0,
    };
    Ok(model::run(launcher, setting, costs, fence))
}

/// The longest time until the last `MPI_Init` that meets the target: that of `ssh`, 15 % of it, and 0.5 s.
pub const fn start_bar(floor: u64) -> u64 {
    floor + floor * 15 / 100 + 500_000
}

/// Time in which the first rank of a host reads the addresses of all hosts, one after the other.
fn read_time(setting: &StartSetting, costs: &StartCosts) -> u64 {
    let each = costs.get(StartCost::MpiGets).saturating_mul(costs.get(StartCost::MpiGet));
    if setting.has_mpi { each.saturating_mul(u64::from(setting.hosts)) } else { 0 }
}

/// Time of a fence of the real tree with `bytes` bytes of each host. Where that does not fit into memory, as
/// much data as does is simulated, and the rest takes as long for a byte as the second half of that.
fn fence_micros(setting: &StartSetting, bytes: u64) -> Result<u64, Violation> {
    let nodes = setting.hosts.saturating_add(1);
    let link = (setting.latency, setting.byte_picos);
    let cost = |bytes| cost_at(nodes, bytes, link).map(|cost: TreeCost| cost.micros);
    if memory_bytes(nodes, bytes) <= FENCE_MEMORY {
        return cost(bytes);
    }
    let empty = memory_bytes(nodes, 0);
    let each = memory_bytes(nodes, 1).saturating_sub(empty).max(1);
    let half = FENCE_MEMORY.saturating_sub(empty) / each / 2;
    let whole = cost(2 * half)?;
    Ok(whole + beyond((half, cost(half)?), (2 * half, whole), bytes))
}

/// Time of `bytes` beyond those of a sample, whose time is known, as that of half of them.
fn beyond((half, of_half): (u64, u64), (whole, of_whole): (u64, u64), bytes: u64) -> u64 {
    let rest = bytes.saturating_sub(whole);
    of_whole.saturating_sub(of_half).saturating_mul(rest) / (whole - half).max(1)
}

/// Memory for the results of all nodes.
const FENCE_MEMORY: u64 = 512 << 20;
