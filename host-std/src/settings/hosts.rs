//! Hosts of a run, and the order in which they take ranks.

use crate::placement::{FillRules, HostList, HostOrder, RankMap};
use std::path::PathBuf;

/// Hosts of a run, and the order in which they take ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostSettings {
    /// Hosts that were named; if `None`, those of the batch system, or this one.
    pub(crate) source: Option<HostSource>,
    /// True if the hosts that a batch system has allocated are used (`--allocation`).
    pub(crate) allocation: bool,
    /// Hosts of a list or an allocation that are not used (`--exclude-hosts`).
    pub(crate) excluded: Option<HostList>,
    /// True if this host takes ranks (`--no-local`).
    pub(crate) local: bool,
    /// Number of hosts that are used, the first ones (`--nodes`).
    pub(crate) nodes: Option<u32>,
    /// Number of hosts with which the run starts at least, if others cannot be used (`--min-nodes`); all of
    /// them by default.
    pub(crate) min_nodes: Option<u32>,
    /// True if the ranks of a host start before the node servers of all hosts have joined (`--start-early`).
    pub(crate) starts_early: bool,
    /// Number of ranks of each host before the next one has its turn (`--ppn`).
    pub(crate) ppn: Option<u32>,
    /// Explicit map of ranks to hosts (`--rankmap`).
    pub(crate) rank_map: Option<RankMap>,
    /// Order in which hosts have their turns (`--map-by`).
    pub(crate) order: HostOrder,
    /// True if hosts may have more ranks than slots (`--no-oversubscribe` forbids it).
    pub(crate) oversubscribe: bool,
    /// True if hosts without ranks take part in the run, for spawned ranks (`--all-hosts`).
    pub(crate) all_hosts: bool,
}

/// Hosts that a user has named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HostSource {
    /// A list (`--hosts`).
    List(HostList),
    /// A file (`--hostfile`).
    File(PathBuf),
    /// Components of a heterogeneous job of Slurm, in ascending order (`--het-group`).
    Components(Vec<u32>),
}

impl Default for HostSettings {
    fn default() -> Self {
        Self {
            source: None,
            allocation: false,
            excluded: None,
            local: true,
            nodes: None,
            min_nodes: None,
            starts_early: false,
            ppn: None,
            rank_map: None,
            order: HostOrder::default(),
            oversubscribe: true,
            all_hosts: false,
        }
    }
}

impl HostSettings {
    /// Rules by which hosts are filled.
    pub(crate) const fn rules(&self) -> FillRules {
        FillRules {
            order: self.order,
            slots: self.ppn,
            oversubscribes: self.oversubscribe,
            keeps_idle: self.all_hosts,
        }
    }
}
