//! Hosts of a run, from options, files and batch systems to the node of every rank.

use super::args::PartArgs;
use super::config::own_settings;
use crate::placement::allocation::{
    Allocation, AllocationSource, Surroundings, hosts_by_component, of_batch_system, of_components,
};
use crate::placement::flux::brokers;
use crate::placement::{HostList, HostOrder, PartHosts, PlacedHosts, parse_file, place};
use crate::settings::HostSettings;
use crate::settings::hosts::HostSource;
use pmi_host_base::ranges::Ranks;
use pmi_host_base::usage::UsageError;
use pmi_host_base::user_file;
use pmi_host_os::command_output::output_within;
use pmi_host_os::host_name::{is_here, is_node, is_this_machine, slurm_node};
use pmi_nodes::starter::{BatchStarter, NumberedHost};
use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::available_parallelism;
use std::time::Duration;

/// Hosts of the programs of a job, before their ranks are placed.
#[derive(Debug)]
pub(super) struct JobHosts {
    /// Hosts of all programs that name none.
    common: Allocation,
    /// True if these are named by the user or by a batch system, and not just this one.
    is_named: bool,
    /// Hosts of each program that names them.
    own: Vec<Option<Allocation>>,
    /// Name of this host in all of them.
    own_name: String,
}

impl JobHosts {
    /// Finds the hosts of each of `parts`, without those that are `excluded`; `host` is this one.
    ///
    /// # Errors
    ///
    /// [`UsageError`] for files and variables that describe no hosts.
    pub(super) fn resolve(
        settings: &HostSettings,
        (parts, excluded): (&[PartArgs], &[String]),
        host: &str,
    ) -> Result<Self, UsageError> {
        let own = parts.iter().map(|part| {
            let source = own_settings(part)?.hosts.source;
            source.map(|source| named(&source)).transpose()
        });
        let mut own = own.collect::<Result<Vec<_>, UsageError>>()?;
        let is_needed = own.is_empty() || own.contains(&None);
        let mut common = match &settings.source {
            Some(source) => Some(named(source)?),
            None if settings.allocation && is_needed => allocated()?,
            None => None,
        };
        if let Some(excluded) = &settings.excluded {
            let nothing_left = || {
                format!(
                    "'--exclude-hosts {excluded}' leaves no host for ranks of a program; name others, as \
                     '--hosts a,b'"
                )
            };
            let all = own.iter_mut().flatten().chain(&mut common);
            leave_out(all, |name| excluded.names(name), nothing_left)?;
        }
        let node = slurm_node();
        if let Some(nodes) = settings.nodes {
            let all = own.iter_mut().flatten().chain(&mut common);
            all.into_iter().try_for_each(|one| first_hosts(one, nodes))?;
            if is_needed && common.is_none() && nodes > 1 {
                let what = format!(
                    "'--nodes {nodes}' is for hosts of a list or an allocation, and there is only this one; \
                     try '--hosts a,b'"
                );
                return Err(UsageError::Other { what });
            }
        }
        let mut lists: Vec<_> = own.iter_mut().flatten().chain(&mut common).collect();
        let names = lists.iter().flat_map(|list| list.hosts.hosts()).map(|host| &host.name);
        let own_name = own_name(names, host, node.as_deref()).to_owned();
        for Allocation { hosts, .. } in &mut lists {
            let is_single = hosts.hosts().len() == 1;
            let is_here = |name: &str| {
                is_node(name, node.as_deref()) || is_this_machine(name, host, is_single)
            };
            *hosts = std::mem::take(hosts).with_own_name(&own_name, &is_here);
        }
        let is_excluded = |name: &str| excluded.iter().any(|one| one == name);
        leave_out(lists.into_iter(), is_excluded, || NO_HOST_LEFT.to_owned())?;
        if !settings.local {
            if is_needed && common.is_none() {
                return Err(UsageError::Other { what: NO_OTHER_HOST.to_owned() });
            }
            let all = own.iter_mut().flatten().chain(&mut common);
            leave_out(all, |name| name == own_name, || NO_OTHER_HOST.to_owned())?;
        }
        let is_named = common.is_some();
        let common = common.unwrap_or_else(|| {
            // Without a number of slots, only `--no-oversubscribe` limits the ranks of this host.
            let processors = || available_parallelism().map_or(1, usize::from);
            // It is read from files of the control group, so only where it is needed.
            let slots = if settings.oversubscribe { usize::MAX } else { processors() };
            let slots = u32::try_from(slots).unwrap_or(u32::MAX);
            let hosts = HostList::single(&own_name, slots);
            Allocation { hosts, source: AllocationSource::Named }
        });
        Ok(Self { common, is_named, own, own_name })
    }

    /// Name of this host in all lists.
    pub(super) fn own_name(&self) -> &str {
        &self.own_name
    }

    /// Number of ranks of the program at this place if it has none; `None` if no host is named either.
    pub(super) fn default_ranks(&self, part: usize, settings: &HostSettings) -> Option<u32> {
        let own = self.own.get(part).and_then(Option::as_ref);
        let rules = settings.rules();
        match own.or(self.is_named.then_some(&self.common)) {
            Some(allocation) => Some(allocation.hosts.capacity(rules)),
            None => match settings.order {
                HostOrder::PerNode(ranks) => Some(ranks),
                HostOrder::Slot | HostOrder::Node => settings.ppn,
            },
        }
    }

    /// Number of ranks of the program at this place that its hosts take without more ranks than slots where
    /// the user forbids these.
    pub(super) fn room(&self, part: usize, settings: &HostSettings) -> u32 {
        let own = self.own.get(part).and_then(Option::as_ref);
        match settings.oversubscribe {
            true => u32::MAX,
            false => own.unwrap_or(&self.common).hosts.capacity(settings.rules()),
        }
    }

    /// Number of ranks that all hosts take which the user or a batch system names; `None` if neither names
    /// any.
    pub(super) fn slots(&self, settings: &HostSettings) -> Option<u32> {
        let slots = self.slots_by_name(settings);
        let all = slots.values().fold(0_u32, |sum, slots| sum.saturating_add(*slots));
        (!slots.is_empty()).then_some(all)
    }

    /// True if a host that the user or a batch system names has more ranks than slots.
    pub(super) fn are_oversubscribed(&self, placed: &PlacedHosts, settings: &HostSettings) -> bool {
        let slots = self.slots_by_name(settings);
        let count = |node| u32::try_from(placed.map.ranks_of(node).count()).unwrap_or(u32::MAX);
        let mut hosts = (0..).zip(&placed.hosts);
        hosts.any(|(node, name)| slots.get(&**name).is_some_and(|slots| count(node) > *slots))
    }

    fn slots_by_name(&self, settings: &HostSettings) -> HashMap<&str, u32> {
        let common = Some(&self.common).filter(|_| self.is_named);
        let mut slots: HashMap<&str, u32> = HashMap::new();
        for allocation in self.own.iter().flatten().chain(common) {
            for (host, ranks) in allocation.hosts.capacities(settings.rules()) {
                // Programs with lists of their own may share a host.
                slots.entry(host).and_modify(|most| *most = ranks.max(*most)).or_insert(ranks);
            }
        }
        slots
    }

    /// Places `ranks` of each program.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if hosts do not take the ranks.
    pub(super) fn place(
        &self,
        ranks: &[u32],
        settings: &HostSettings,
    ) -> Result<PlacedHosts, UsageError> {
        let parts: Vec<PartHosts<'_>> = ranks
            .iter()
            .enumerate()
            .filter(|(_, ranks)| **ranks > 0)
            .map(|(part, ranks)| {
                let own = self.own.get(part).and_then(Option::as_ref);
                PartHosts { ranks: *ranks, hosts: own.unwrap_or(&self.common) }
            })
            .collect();
        let placed = place(&parts, settings.rank_map.as_ref(), settings.rules());
        placed.map_err(|what| UsageError::Other { what })
    }
}

/// Takes hosts out of lists, of which each must keep one; `nothing_left` is the message otherwise.
fn leave_out<'a>(
    lists: impl Iterator<Item = &'a mut Allocation>,
    is_excluded: impl Fn(&str) -> bool,
    nothing_left: impl Fn() -> String,
) -> Result<(), UsageError> {
    for Allocation { hosts, .. } in lists {
        *hosts = std::mem::take(hosts).without(&is_excluded);
        if hosts.hosts().is_empty() {
            return Err(UsageError::Other { what: nothing_left() });
        }
    }
    Ok(())
}

/// Leaves the first `nodes` hosts in the list.
fn first_hosts(allocation: &mut Allocation, nodes: u32) -> Result<(), UsageError> {
    let count = allocation.hosts.hosts().len();
    let nodes = usize::try_from(nodes).unwrap_or(usize::MAX);
    if nodes > count {
        let what = format!("'--nodes {nodes}' is more than the number of hosts, which is {count}");
        return Err(UsageError::Other { what });
    }
    allocation.hosts = std::mem::take(&mut allocation.hosts).first(nodes);
    Ok(())
}

/// Hosts that a user has named.
fn named(source: &HostSource) -> Result<Allocation, UsageError> {
    let hosts = match source {
        HostSource::List(list) => list.clone(),
        HostSource::File(file) => {
            let wrong =
                |why| UsageError::Value { given: format!("--hostfile {}", file.display()), why };
            let text = user_file::read_to_string(file);
            let text = text.map_err(|error| wrong(format!("it cannot be read ({error})")))?;
            parse_file(&text).map_err(wrong)?
        }
        HostSource::Components(numbers) => {
            let list = numbers.iter().copied().collect::<Ranks>();
            let wrong = |why| UsageError::Value { given: format!("--het-group {list}"), why };
            return of_components(numbers, &set_variable).map_err(wrong);
        }
    };
    Ok(Allocation { hosts, source: AllocationSource::Named })
}

/// Hosts that a batch system has allocated.
pub(crate) fn allocated() -> Result<Option<Allocation>, UsageError> {
    let surroundings = Surroundings {
        variable: &set_variable,
        read: &|file| user_file::read_short_to_string(Path::new(file), NODE_FILE_LEN_MAX),
        output: &output,
    };
    of_batch_system(&surroundings).map_err(|what| UsageError::Other { what })
}

/// Value of a variable that is set and not empty.
fn set_variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Hosts by the numbers that a starter has for them: brokers of the instance of Flux that this process is in,
/// or components of its heterogeneous job of Slurm.
pub(crate) fn numbered_hosts(starter: BatchStarter) -> Vec<NumberedHost> {
    let numbered = |(host, number)| NumberedHost { host, number };
    match starter {
        BatchStarter::Flux => {
            let set = output(&["flux", "kvs", "get", "resource.R"]);
            let brokers = set.and_then(|set| brokers(&set)).unwrap_or_default();
            brokers.into_iter().map(|broker| numbered((broker.host, broker.rank))).collect()
        }
        BatchStarter::Srun => hosts_by_component(&set_variable).into_iter().map(numbered).collect(),
    }
}

/// Hosts of the job of Slurm around this process, as its controller knows them now: a job may have given some
/// back since its variables were set.
///
/// # Errors
///
/// A message with the command that has failed.
pub(crate) fn present_in_slurm() -> Result<Vec<String>, String> {
    let job = set_variable("SLURM_JOB_ID").ok_or("SLURM_JOB_ID is not set")?;
    // One line for each component.
    let listed = output(&["squeue", "--noheader", "--format=%N", "--jobs", &job])?;
    let mut names = Vec::new();
    for line in listed.lines() {
        let list = HostList::parse(line)?;
        names.extend(list.hosts().iter().map(|host| host.name.clone()));
    }
    Ok(names)
}

/// Name of this host among `names`: `host`, which the system reports, but within Slurm the listed one, since
/// its `srun` knows nodes by the names of its configuration only.
fn own_name<'a>(
    mut names: impl Iterator<Item = &'a String>,
    host: &'a str,
    node: Option<&str>,
) -> &'a str {
    let Some(node) = node else { return host };
    let is_own = |name: &&String| {
        **name == node || **name != "localhost" && !is_address(name) && is_here(name, host)
    };
    names.find(is_own).map_or(host, |name| name)
}

/// Standard output of a command of a batch system, which has a time limit: its server may not answer.
fn output(words: &[&str]) -> Result<String, String> {
    let shown = words.join(" ");
    let (name, args) = words.split_first().ok_or("there is no command")?;
    let mut command = Command::new(name);
    command.args(args).stderr(Stdio::inherit());
    let output = output_within(&mut command, ANSWERED_WITHIN)
        .map_err(|error| format!("'{shown}' cannot be started ({error})"))?;
    match output {
        None => Err(format!("'{shown}' has not answered within {} s", ANSWERED_WITHIN.as_secs())),
        Some(Output { status, stdout, .. }) if status.success() => {
            Ok(String::from_utf8_lossy(&stdout).into_owned())
        }
        Some(Output { status, .. }) => Err(format!("'{shown}' has failed ({status})")),
    }
}

/// Time that a command of a batch system has.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);

/// Greatest length of the file of a batch system: a line of 60 bytes for each of 1048576 slots.
const NODE_FILE_LEN_MAX: u64 = 64 << 20;

const NO_OTHER_HOST: &str =
    "'--no-local' leaves no host for the ranks; name others, as '--hosts a,b', or leave it out";

const NO_HOST_LEFT: &str =
    "none of the hosts of a program can be used; see the reasons above, or name others";

fn is_address(name: &str) -> bool {
    name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_of_a_batch_system_that_fails_is_named() {
        assert_eq!(output(&["echo", "n[1-2]"]).as_deref(), Ok("n[1-2]\n"));
        assert!(output(&["false"]).unwrap_err().contains("'false' has failed"));
        assert!(output(&["/nowhere/squeue"]).unwrap_err().contains("cannot be started"));
    }

    #[test]
    fn host_has_the_name_of_its_node_in_slurm_and_that_of_the_system_elsewhere() {
        let listed = |names: &str, node: Option<&str>| {
            let names: Vec<String> = names.split(',').map(str::to_owned).collect();
            own_name(names.iter(), "n2.cluster", node).to_owned()
        };
        assert_eq!(listed("n1,n2", None), "n2.cluster");
        assert_eq!(listed("n1,n2", Some("n2")), "n2");
        assert_eq!(listed("alias1,alias2", Some("alias2")), "alias2");
        // `salloc` runs its command outside of the allocation, or on a node that it does not name.
        assert_eq!(listed("n1,n2", Some("")), "n2");
        assert_eq!(listed("n1,n3", Some("")), "n2.cluster");
        assert_eq!(listed("localhost,127.0.0.1", Some("")), "n2.cluster");
    }
}
