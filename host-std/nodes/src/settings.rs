//! Node servers on the hosts of a run: how they are started, and how they connect.

use std::time::Duration;

/// Start and connections of node servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSettings {
    /// Starter (`--starter`); chosen from the environment by default.
    pub starter: Option<StarterName>,
    /// Command that starts a node server on a host, as a template (`--starter-cmd`).
    pub template: Option<String>,
    /// Program of the starter in place of its own (`--starter-exec`).
    pub program: Option<String>,
    /// Further arguments of the starter, in front of the host (`--starter-args`).
    pub arguments: Option<String>,
    /// Course of the start.
    pub start: StartSettings,
    /// Time without a sign of life after which a node is lost (`--node-timeout`); by default a longer one
    /// where a batch system watches the nodes itself.
    pub timeout: Option<Duration>,
    /// Interface or address at which the head accepts node servers (`--node-interface`); all by default.
    pub interface: Option<String>,
    /// Ports at which head and node servers listen (`--node-ports`); any by default.
    pub ports: Option<PortRange>,
    /// Children of a node in the tree (`--tree-radix`).
    pub radix: u32,
    /// Connections between nodes.
    pub links: LinkSettings,
    /// Files that are sent to the hosts.
    pub staging: Staging,
}

/// Course of the start of node servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartSettings {
    /// Hosts whose node servers the head starts itself (`--starter-fanout`).
    pub fanout: StarterFanout,
    /// Time without a further host after which the start of the others has failed, or is slow
    /// (`--start-timeout`).
    pub timeout: Duration,
}

impl Default for StartSettings {
    fn default() -> Self {
        Self { fanout: StarterFanout::default(), timeout: Duration::from_secs(60) }
    }
}

/// Connections between nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkSettings {
    /// True if messages are not encrypted, nor protected after the proof of the key (`--plain`).
    pub is_plain: bool,
    /// True if hosts that do not reach the head connect over their starters (`--node-relay`).
    pub is_relayed: bool,
}

/// Files that are sent to the hosts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Staging {
    /// True for the programs of the ranks (`--stage`).
    pub has_programs: bool,
    /// True for this program (`--stage-launcher`).
    pub has_launcher: bool,
}

/// Hosts whose node servers the head starts itself; their node servers start the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StarterFanout {
    /// Some of many hosts that `ssh` reaches, else all.
    #[default]
    Auto,
    /// All hosts.
    All,
    /// This number of them.
    Hosts(u32),
}

/// Name of a starter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StarterName {
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
pub struct PortRange {
    /// First port.
    pub(crate) first: u16,
    /// Last port.
    pub(crate) last: u16,
}

impl Default for NodeSettings {
    fn default() -> Self {
        Self {
            starter: None,
            template: None,
            program: None,
            arguments: None,
            start: StartSettings::default(),
            timeout: None,
            interface: None,
            ports: None,
            radix: RADIX,
            links: LinkSettings::default(),
            staging: Staging::default(),
        }
    }
}

impl StarterFanout {
    /// Word of the option for all hosts.
    pub const ALL: &str = "all";
}

impl NodeSettings {
    /// Ports of the option, else of the variables by which Hydra and Intel MPI restrict theirs.
    ///
    /// # Errors
    ///
    /// A sentence about a variable that is no range of ports.
    pub(crate) fn ports_of(
        &self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<PortRange>, String> {
        let found = PORT_VARIABLES.iter().find_map(|name| Some((name, variable(name)?)));
        match (self.ports, found) {
            (Some(_), _) | (None, None) => Ok(self.ports),
            (None, Some((name, text))) => match PortRange::parse(&text.trim().replace(':', "-")) {
                Some(ports) => Ok(Some(ports)),
                None => Err(format!(
                    "{name}={text} is no range of ports; write it as '5000:5100', or set '--node-ports'"
                )),
            },
        }
    }
}

impl NodeSettings {
    /// Fanout of the option, else all hosts if variables of Open MPI forbid that hosts start others.
    pub(crate) fn fanout_of(&self, variable: impl Fn(&str) -> Option<String>) -> StarterFanout {
        let is_on = |value: String| !OFF.iter().any(|off| value.trim().eq_ignore_ascii_case(off));
        match self.start.fanout {
            StarterFanout::Auto
                if FLAT_VARIABLES.iter().filter_map(|name| variable(name)).any(is_on) =>
            {
                StarterFanout::All
            }
            fanout => fanout,
        }
    }
}

impl NodeSettings {
    /// Time of the option, else that of nodes that a batch system watches, or does not.
    pub(crate) fn timeout_of(&self, is_watched: bool) -> Duration {
        self.timeout.unwrap_or(if is_watched { WATCHED_TIMEOUT } else { TIMEOUT })
    }
}

/// Time without a sign of life after which a node is reported as silent.
pub(crate) fn paused_after(timeout: Duration) -> Duration {
    timeout.min(TIMEOUT)
}

impl StarterName {
    /// Starter with a name that Hydra or Intel MPI gives it, or with that of `--starter`.
    pub fn of_hydra(name: &str) -> Option<Self> {
        let known = HYDRA_NAMES.iter().find(|(theirs, _)| *theirs == name);
        let name = known.map_or(name, |(_, ours)| ours);
        match name {
            "fork" => Some(Self::Here),
            MANUAL => Some(Self::Manual),
            _ => STARTERS.iter().find(|known| **known == name).map(|known| Self::Row(known)),
        }
    }

    /// True if all node servers run on this machine.
    pub const fn is_here(&self) -> bool {
        matches!(self, Self::Local(_) | Self::Here)
    }
}

impl PortRange {
    /// Reads `5000-5100`, or a single port.
    pub fn parse(text: &str) -> Option<Self> {
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
pub const STARTERS: [&str; 7] = ["ssh", "rsh", "srun", "flux", "blaunch", "qrsh", "oarsh"];

/// Name of the starter that is the user.
pub const MANUAL: &str = "manual";

/// Time without a sign of life after which a node is lost by default.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The same within a batch system, which watches its nodes itself.
const WATCHED_TIMEOUT: Duration = Duration::from_secs(30);

/// Children of a node by default. Four are best for small and for large data at every number of nodes.
pub(crate) const RADIX: u32 = 4;

/// Variables with the ports of Hydra and Intel MPI, in the order of Hydra.
const PORT_VARIABLES: [&str; 4] =
    ["MPIEXEC_PORTRANGE", "MPIEXEC_PORT_RANGE", "MPICH_PORT_RANGE", "I_MPI_PORT_RANGE"];

/// Variables of Open MPI and PRRTE by which the launcher starts all hosts itself.
const FLAT_VARIABLES: [&str; 2] =
    ["PRTE_MCA_plm_ssh_no_tree_spawn", "OMPI_MCA_plm_rsh_no_tree_spawn"];

/// Values that switch a variable of another launcher off.
pub(crate) const OFF: [&str; 4] = ["0", "no", "false", "off"];

/// Names of Hydra for starters that have another name here.
const HYDRA_NAMES: [(&str, &str); 3] = [("slurm", "srun"), ("lsf", "blaunch"), ("sge", "qrsh")];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_of_open_mpi_has_the_head_start_all_hosts_unless_an_option_says_otherwise() {
        let fanout = |fanout, value: &str| {
            let find = |name: &str| (name == FLAT_VARIABLES[1]).then(|| value.to_owned());
            let start = StartSettings { fanout, ..StartSettings::default() };
            NodeSettings { start, ..NodeSettings::default() }.fanout_of(find)
        };
        assert_eq!(fanout(StarterFanout::Auto, "1"), StarterFanout::All);
        assert_eq!(fanout(StarterFanout::Auto, "False"), StarterFanout::Auto);
        assert_eq!(fanout(StarterFanout::Hosts(8), "1"), StarterFanout::Hosts(8));
    }

    #[test]
    fn node_in_a_batch_system_is_lost_later_unless_an_option_says_otherwise() {
        let timeout = |timeout: Option<u64>| {
            let timeout = timeout.map(Duration::from_secs);
            let settings = NodeSettings { timeout, ..NodeSettings::default() };
            [false, true].map(|is_watched| settings.timeout_of(is_watched).as_secs())
        };
        assert_eq!([timeout(None), timeout(Some(2))], [[5, 30], [2, 2]]);
        let second = Duration::from_secs(1);
        assert_eq!([paused_after(30 * second), paused_after(second)], [5 * second, second]);
    }

    #[test]
    fn ports_are_those_of_the_option_or_of_a_variable() {
        let set = |settings: &NodeSettings, variables: &[(&str, &str)]| {
            let find = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            settings.ports_of(find).map(|ports| ports.map(|ports| ports.to_string()))
        };
        let none = NodeSettings::default();
        let given = NodeSettings { ports: PortRange::parse("7000-7001"), ..none.clone() };
        let both = [("MPICH_PORT_RANGE", "5000:5100"), ("MPIEXEC_PORT_RANGE", " 6000:6001 ")];
        assert_eq!(set(&none, &[]), Ok(None));
        assert_eq!(set(&none, &both[..1]), Ok(Some("5000-5100".to_owned())));
        assert_eq!(set(&none, &both), Ok(Some("6000-6001".to_owned())));
        assert_eq!(set(&given, &both), Ok(Some("7000-7001".to_owned())));
        for wrong in ["5100:5000", "5000:", "x", "0:0", "5000:70000"] {
            let refused = set(&none, &[("I_MPI_PORT_RANGE", wrong)]).unwrap_err();
            assert!(refused.starts_with(&format!("I_MPI_PORT_RANGE={wrong} is no")), "{refused}");
        }
    }
}
