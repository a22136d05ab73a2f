//! Node servers on the hosts of a run: how they are started, and how they connect.

use std::time::Duration;

/// Start and connections of node servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeSettings {
    /// Starter (`--starter`); chosen from the environment by default.
    pub(crate) starter: Option<StarterName>,
    /// Command that starts a node server on a host, as a template (`--starter-cmd`).
    pub(crate) template: Option<String>,
    /// Program of the starter in place of its own (`--starter-exec`).
    pub(crate) program: Option<String>,
    /// Further arguments of the starter, in front of the host (`--starter-args`).
    pub(crate) arguments: Option<String>,
    /// Time without a sign of life after which a node is lost (`--node-timeout`).
    pub(crate) timeout: Duration,
    /// Interface or address at which the head accepts node servers (`--node-interface`); all by default.
    pub(crate) interface: Option<String>,
    /// Ports at which head and node servers listen (`--node-ports`); any by default.
    pub(crate) ports: Option<PortRange>,
    /// Children of a node in the tree (`--tree-radix`).
    pub(crate) radix: u32,
}

/// Name of a starter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StarterName {
    /// A row of the table of starters.
    Row(&'static str),
    /// This number of node servers on this machine, as if they were hosts.
    Local(u32),
    /// This machine, for every host of the list.
    Here,
    /// The user, who starts node servers by hand.
    Manual,
}

/// Inclusive range of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortRange {
    /// First port.
    pub(crate) first: u16,
    /// Last port.
    pub(crate) last: u16,
}

impl Default for NodeSettings {
    fn default() -> Self {
        let timeout = Duration::from_secs(5);
        Self {
            starter: None,
            template: None,
            program: None,
            arguments: None,
            timeout,
            interface: None,
            ports: None,
            radix: RADIX,
        }
    }
}

impl StarterName {
    /// Starter with a name that Hydra or Intel MPI gives it, or with that of `--starter`.
    pub(crate) fn of_hydra(name: &str) -> Option<Self> {
        let known = HYDRA_NAMES.iter().find(|(theirs, _)| *theirs == name);
        let name = known.map_or(name, |(_, ours)| ours);
        match name {
            "fork" => Some(Self::Here),
            MANUAL => Some(Self::Manual),
            _ => STARTERS.iter().find(|known| **known == name).map(|known| Self::Row(known)),
        }
    }

    /// True if all node servers run on this machine.
    pub(crate) const fn is_here(&self) -> bool {
        matches!(self, Self::Local(_) | Self::Here)
    }
}

impl PortRange {
    /// Reads `5000-5100`, or a single port.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (first.parse().ok()?, last.parse().ok()?);
        (first > 0 && first <= last).then_some(Self { first, last })
    }
}

impl std::fmt::Display for PortRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

/// Names of starters that `--starter` accepts besides `local:N` and `manual`; the table of starters has a
/// row for each.
pub(crate) const STARTERS: [&str; 6] = ["ssh", "rsh", "srun", "flux", "blaunch", "qrsh"];

/// Name of the starter that is the user.
pub(crate) const MANUAL: &str = "manual";

/// Children of a node by default. Four are best for small and for large data at every number of nodes.
pub(crate) const RADIX: u32 = 4;

/// Names of Hydra for starters that have another name here.
const HYDRA_NAMES: [(&str, &str); 3] = [("slurm", "srun"), ("lsf", "blaunch"), ("sge", "qrsh")];
