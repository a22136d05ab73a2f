//! Hosts of a job and the placement of its ranks on them. Pure: files, variables and commands come through
//! functions that the caller passes.
//!
//! ```text
//! host        hosts with their slots, in the order of the list
//! host_item   one word: name, address, range of names, with its number of ranks
//! host_file   files of Hydra, Open MPI, PBS, LSF
//! host_range  bracket expressions: n[001-128,130]
//! allocation  hosts of Slurm, PBS, Cobalt, LSF, Grid Engine, OAR and Flux
//! fill        ranks on hosts, in the order of slots or of nodes
//! rank_map    explicit map of ranks to hosts
//! spawned     ranks of spawned jobs on the nodes of a run
//! node_map    node of every rank, in memory for its runs only
//! expected    ranks that connect by themselves, and their nodes
//! ```

pub(crate) mod allocation;
mod expected;
mod fill;
pub(crate) mod flux;
mod host;
mod host_file;
mod host_item;
mod host_range;
mod node_map;
mod rank_map;
mod spawned;

pub(crate) use expected::ExpectedRanks;
pub(crate) use fill::{FillRules, HostOrder, PartHosts, place};
pub(crate) use host::HostList;
pub(crate) use host_file::parse as parse_file;
pub(crate) use node_map::NodeMap;
pub(crate) use rank_map::RankMap;
pub(crate) use spawned::{NodeLoad, SpawnedPart, place_spawned};

use allocation::AllocationSource;

/// Hosts of a job that runs on several hosts, or on another one than this, with the ranks of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlacedHosts {
    /// Names of the hosts, by node number; those without ranks are last. This host has the name that the
    /// system reports.
    pub(crate) hosts: Vec<String>,
    /// Numbers of ranks that they take in one turn, in the same order; nodes do not know them.
    pub(crate) slots: Vec<u32>,
    /// Node of every rank.
    pub(crate) map: NodeMap,
    /// Origin of the list of hosts.
    pub(crate) source: AllocationSource,
}

impl PlacedHosts {
    /// Name of the host with this node number; empty if there is none.
    pub(crate) fn name(&self, node: u32) -> &str {
        let host = usize::try_from(node).ok().and_then(|node| self.hosts.get(node));
        host.map_or("", String::as_str)
    }

    /// Adds `ranks` ranks, if any, which follow the others, on the host `own`. It is added behind the hosts
    /// that have ranks unless it is one of them. Returns its node number.
    ///
    /// # Errors
    ///
    /// There are too many ranks.
    pub(crate) fn add_ranks(&mut self, own: &str, ranks: u32) -> Result<u32, String> {
        let has_ranks = |node: &u32| self.map.count_on(*node) > 0;
        let used = (0..self.map.nodes()).take_while(has_ranks).count();
        let at = match self.hosts.iter().position(|host| host == own) {
            Some(at) if at < used => at,
            Some(idle) => {
                self.hosts[used..=idle].rotate_right(1);
                self.slots[used..=idle].rotate_right(1);
                used
            }
            None => {
                self.hosts.insert(used, own.to_owned());
                self.slots.insert(used, 0);
                used
            }
        };
        let many = || format!("{ranks} ranks more are too many for one run");
        let node = u32::try_from(at).map_err(|_| many())?;
        let hosts = u32::try_from(self.hosts.len()).map_err(|_| many())?;
        let map = match ranks {
            0 => self.map.clone(),
            _ => self.map.clone().with_block(node, ranks).ok_or_else(many)?,
        };
        self.map = map.with_nodes(hosts);
        Ok(node)
    }

    /// Name of the host of `rank`.
    pub(crate) fn host_of(&self, rank: u32) -> Option<&str> {
        let node = usize::try_from(self.map.node_of(rank)?).ok()?;
        self.hosts.get(node).map(String::as_str)
    }
}

/// Largest number of hosts of one run. It bounds the memory that a range such as `n[0-4000000000]` takes.
pub(crate) const HOSTS_MAX: usize = 1 << 17;

/// Largest number of slots of one host, that of ranks of a run.
const SLOTS_MAX: u32 = 1 << 20;

#[cfg(test)]
pub(crate) mod tests {
    use super::allocation::Allocation;
    use super::*;
    use crate::settings::HostSettings;

    #[test]
    fn ranks_are_added_on_a_host_that_has_some_or_behind_these() {
        let added = |own: &str, idle: &[&str]| {
            let mut hosts = placed("a:2,b", 4);
            for name in idle {
                hosts.hosts.push((*name).to_owned());
                hosts.slots.push(1);
            }
            let count = u32::try_from(hosts.hosts.len()).unwrap();
            hosts.map = hosts.map.with_nodes(count);
            let node = hosts.add_ranks(own, 2).unwrap();
            assert_eq!((hosts.map.ranks(), hosts.slots.len()), (6, hosts.hosts.len()));
            assert!((4..6).all(|rank| hosts.map.node_of(rank) == Some(node)));
            assert_eq!(hosts.map.node_of(3), Some(0));
            // The form in which nodes receive it has no gap.
            let rounds = Vec::from(hosts.map.clone());
            assert_eq!(NodeMap::try_from(rounds).unwrap().node_of(5), Some(node));
            (node, hosts.hosts.join(","))
        };
        assert_eq!(added("b", &[]), (1, "a,b".to_owned()));
        assert_eq!(added("c", &[]), (2, "a,b,c".to_owned()));
        assert_eq!(added("d", &["c", "d", "e"]), (2, "a,b,d,c,e".to_owned()));
        assert_eq!(added("f", &["c"]), (2, "a,b,f,c".to_owned()));
        assert!(placed("a", 1).add_ranks("a", u32::MAX).is_err());
        let mut hosts = placed("a:2,b", 3);
        assert_eq!(hosts.add_ranks("c", 0), Ok(2));
        assert_eq!((hosts.map.ranks(), hosts.map.nodes(), hosts.hosts.len()), (3, 3, 3));
        assert!(NodeMap::try_from(Vec::from(hosts.map)).is_ok());
    }

    /// Ranks of one program on these hosts.
    pub(crate) fn placed(hosts: &str, ranks: u32) -> PlacedHosts {
        let hosts = HostList::parse(hosts).unwrap();
        let hosts = Allocation { hosts, source: AllocationSource::Named };
        place(&[PartHosts { ranks, hosts: &hosts }], None, HostSettings::default().rules()).unwrap()
    }
}
