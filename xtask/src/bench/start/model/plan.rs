//! Starts to simulate: how many hosts and ranks, on which machines, by which launcher.

use super::super::costs::{StartCost, StartCosts};
use std::iter::successors;

/// Hosts, ranks and machines of a start. Times are microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StartSetting {
    /// Number of hosts.
    pub(super) hosts: u32,
    /// Ranks on each.
    pub(super) ranks_per_host: u32,
    /// Processors of each host, and of the machine of the head.
    pub(super) cores: u32,
    /// True if head and hosts are one machine with these processors, as in a benchmark.
    pub(super) is_shared: bool,
    /// Time of a byte on its way.
    pub(super) latency: u64,
    /// Gbit/s of an interface.
    pub(super) bandwidth: u64,
    /// Bytes that a host publishes in `MPI_Init`; as measured by default.
    pub(super) bytes: Option<u64>,
    /// Number of hosts that the head starts; by default as the launcher decides.
    pub(super) fanout: Option<u32>,
    /// True if ranks call `MPI_Init`; otherwise they initialize PMI and fence.
    pub(super) has_mpi: bool,
    /// True if the launcher travels to the hosts.
    pub(super) has_copies: bool,
}

impl Default for StartSetting {
    fn default() -> Self {
        Self {
            hosts: 1024,
            ranks_per_host: 128,
            cores: 128,
            is_shared: false,
            latency: 30,
            bandwidth: 10,
            bytes: None,
            fanout: None,
            has_mpi: true,
            has_copies: false,
        }
    }
}

impl StartSetting {
    /// Picoseconds for a byte at an interface.
    pub(super) fn byte_picos(&self) -> u64 {
        8_000 / self.bandwidth.max(1)
    }

    /// Bytes that a host publishes.
    pub(super) fn host_bytes(&self, costs: &StartCosts) -> u64 {
        match self.has_mpi {
            true => self.bytes.unwrap_or_else(|| costs.get(StartCost::MpiBytes)),
            false => 0,
        }
    }
}

/// A launcher of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StartLauncher {
    /// `ssh` alone, by the schedule of [`PmiHost`](Self::PmiHost), for a program that ends at once.
    BareSsh,
    /// This one: 64 starters at a time, two levels from 128 hosts, a tree of node servers.
    PmiHost,
    /// All starters at once from the head, to which all proxies connect.
    Hydra,
    /// A tree of starters, of radix 64 and 128 at a time. Daemons report to the head.
    Prrte,
}

/// Way of a launcher through a start.
#[derive(Clone, Debug)]
pub(super) struct StartSchedule {
    /// The node that starts each host, by node; 0 is the head, and stands at place 0 as well.
    pub(super) starters: Vec<u32>,
    /// Starters that a node has at one time.
    pub(super) at_once: usize,
    /// Parents in the tree over which the job is described to the nodes.
    pub(super) parents: Vec<u32>,
    /// True if a node is attached to its parent, which the head has placed first.
    pub(super) is_placed: bool,
    /// True if ranks start when all nodes are there, and otherwise when theirs is.
    pub(super) awaits_all: bool,
    /// Time of one fence, in microseconds, without the processors.
    pub(super) fence: u64,
    pub(super) costs: NodeCosts,
}

/// Processor time of the parts of a launcher.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NodeCosts {
    pub(super) head_start: u64,
    pub(super) head_host: u64,
    pub(super) node_start: u64,
    pub(super) rank_start: u64,
}

impl StartSchedule {
    /// That of a launcher. `fence` is the time of a fence in the tree of [`StartLauncher::PmiHost`].
    pub(super) fn new(
        launcher: StartLauncher,
        setting: &StartSetting,
        costs: &StartCosts,
        fence: u64,
    ) -> Self {
        let of = |[head_start, head_host, node_start, rank_start]: [StartCost; 4]| NodeCosts {
            head_start: costs.get(head_start),
            head_host: costs.get(head_host),
            node_start: costs.get(node_start),
            rank_start: costs.get(rank_start),
        };
        let hosts = setting.hosts;
        let tree = |radix| (0..=hosts).map(|node| parent(node, radix)).collect::<Vec<_>>();
        let depth = depth(hosts, PRRTE_RADIX);
        let result = u64::from(hosts).saturating_mul(setting.host_bytes(costs));
        let floor = result.saturating_mul(setting.byte_picos()) / PICOS;
        let own = Self {
            starters: divided(hosts, setting.fanout),
            at_once: AT_ONCE,
            parents: tree(RADIX),
            is_placed: true,
            awaits_all: true,
            fence,
            costs: of([
                StartCost::HeadStart,
                StartCost::HeadHost,
                StartCost::NodeStart,
                StartCost::RankStart,
            ]),
        };
        match launcher {
            StartLauncher::PmiHost => own,
            StartLauncher::BareSsh => Self { costs: NodeCosts::default(), ..own },
            StartLauncher::Hydra => Self {
                starters: vec![0; own.starters.len()],
                at_once: usize::MAX,
                parents: vec![0; own.starters.len()],
                is_placed: false,
                awaits_all: false,
                fence: 2 * setting.latency + u64::from(hosts).saturating_mul(floor),
                costs: of([
                    StartCost::HydraStart,
                    StartCost::HydraHost,
                    StartCost::HydraNode,
                    StartCost::HydraRank,
                ]),
            },
            StartLauncher::Prrte => Self {
                starters: tree(PRRTE_RADIX),
                at_once: PRRTE_AT_ONCE,
                parents: tree(PRRTE_RADIX),
                is_placed: false,
                awaits_all: true,
                fence: 2 * depth * setting.latency
                    + floor.saturating_mul(1 + u64::from(PRRTE_RADIX) * depth),
                costs: of([
                    StartCost::PrteStart,
                    StartCost::PrteHost,
                    StartCost::PrteNode,
                    StartCost::PrteRank,
                ]),
            },
        }
    }
}

/// The parent of a node in a tree whose nodes are numbered level by level; the head is its own.
const fn parent(node: u32, radix: u32) -> u32 {
    node.saturating_sub(1) / radix
}

/// Number of nodes above a node.
fn depth(node: u32, radix: u32) -> u64 {
    let chain = successors(Some(node), |node| (*node > 0).then(|| parent(*node, radix)));
    chain.count() as u64 - 1
}

/// The node that starts each host: as `pmi-host` divides a start by `ssh` (`StartPlan`).
fn divided(hosts: u32, fanout: Option<u32>) -> Vec<u32> {
    let own = match fanout {
        Some(own) => own,
        None if hosts >= DELEGATED_FROM => OWN_HOSTS,
        None => hosts,
    };
    let own = own.max(hosts.div_ceil(EACH_MAX + 1)).max(1);
    (0..=hosts).map(|node| if node <= own { 0 } else { 1 + (node - own - 1) % own }).collect()
}

/// Radix of the tree of node servers.
const RADIX: u32 = 4;
/// Starters of a node at one time, in `pmi-host`.
const AT_ONCE: usize = 64;
/// Number of hosts from which on the head starts only [`OWN_HOSTS`].
const DELEGATED_FROM: u32 = 128;
const OWN_HOSTS: u32 = 32;
/// Most hosts that another one starts.
const EACH_MAX: u32 = 128;
const PRRTE_RADIX: u32 = 64;
const PRRTE_AT_ONCE: usize = 128;
/// Picoseconds of a microsecond.
const PICOS: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_hosts_start_the_others_in_turns_from_128_hosts_on() {
        assert!(divided(127, None).iter().all(|starter| *starter == 0));
        let of_many = divided(1024, None);
        let started_by = |node| of_many.iter().skip(1).filter(|starter| **starter == node).count();
        assert_eq!((started_by(0), started_by(1), started_by(32), started_by(33)), (32, 31, 31, 0));
        // As in the test of the launcher: none starts more than 128.
        let of_more = divided(5000, Some(2));
        assert_eq!(of_more.iter().skip(1).filter(|starter| **starter == 0).count(), 39);
        let most = (1..=39).map(|node| of_more.iter().filter(|by| **by == node).count()).max();
        assert!(most <= Some(128), "{most:?}");
        assert_eq!(divided(9, Some(3))[1..], [0, 0, 0, 1, 2, 3, 1, 2, 3]);
        assert_eq!(divided(2, Some(9)), [0, 0, 0]);
    }

    #[test]
    fn peers_have_the_fences_of_their_models() {
        let setting = StartSetting { bytes: Some(19_200), ..StartSetting::default() };
        let fence = |launcher| StartSchedule::new(launcher, &setting, &StartCosts::none(), 5).fence;
        assert_eq!(fence(StartLauncher::PmiHost), 5);
        // 19.7 MB are 15.7 ms at 10 Gbit/s.
        assert_eq!(fence(StartLauncher::Hydra), 60 + 1024 * 15_728);
        assert_eq!(fence(StartLauncher::Prrte), 120 + 129 * 15_728);
    }
}
