//! Hosts that are added to a run. Those of a spawn join the tree together once all of them have connected, or
//! none does; those whose start was slow join one by one, when they come.

use super::progress::FailedStarts;
use super::{NodeServers, StartEvent};
use crate::failed_host::FailedHost;
use crate::network::Network;
use crate::network::roster::CANDIDATES;
use crate::settings::NodeSettings;
use crate::starter::start_keys::StartKeys;
use crate::starter::{NodeCommand, Starter, StarterCommand, StarterHost};
use pmi_host_os::clock;
use pmi_host_os::poller::Poller;
use pmi_tree::NodeId;
use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

/// The starter of a run, for further hosts.
#[derive(Debug)]
pub(super) struct HostStarter {
    pub(super) starter: Starter,
    /// Words of a node server.
    pub(super) words: Vec<String>,
    keys: StartKeys,
    pub(super) settings: NodeSettings,
    /// Hosts that are being added for a spawn.
    growth: Option<HostGrowth>,
    /// Hosts whose start was slow, and that have not come.
    late: Vec<StarterHost>,
    /// Those of them that have failed, until they are withdrawn.
    failed: Vec<StarterHost>,
}

impl HostStarter {
    /// A starter with the words of a node server. No host is being added.
    pub(super) fn new(
        (starter, words): (Starter, Vec<String>),
        keys: StartKeys,
        settings: NodeSettings,
    ) -> Self {
        Self { starter, words, keys, settings, growth: None, late: Vec::new(), failed: Vec::new() }
    }

    /// Commands for these hosts, with their keys, by which `network` expects their nodes.
    ///
    /// # Errors
    ///
    /// A message for the user, with the remedy.
    pub(super) fn commands(
        &self,
        hosts: &[StarterHost],
        network: &mut Network,
    ) -> Result<Vec<StarterCommand>, String> {
        let Self { starter, words, keys, settings, .. } = self;
        let (is_staged, is_relayed) = (settings.staging.has_launcher, settings.links.is_relayed);
        let mut commands =
            starter.commands(hosts, &NodeCommand { words, is_staged, is_relayed })?;
        for (key, nodes) in keys.assign(hosts, &mut commands) {
            network.expect(&key, &nodes);
        }
        Ok(commands)
    }

    /// Time of the next decision about hosts that are being added, without an event.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.growth.as_ref().and_then(HostGrowth::deadline)
    }
}

/// Hosts that are being added together.
#[derive(Debug)]
struct HostGrowth {
    hosts: Vec<StarterHost>,
    joined: BTreeSet<u32>,
    failed: FailedStarts,
    /// Time at which hosts that have not connected have failed; `None` if a user starts them by hand.
    until: Option<Instant>,
    /// True once it is reported that all have joined.
    is_reported: bool,
}

impl HostGrowth {
    /// True if this is the number of one of the hosts.
    fn has(&self, node: u32) -> bool {
        self.hosts.iter().any(|host| host.node == node)
    }

    /// Time of the next decision without an event.
    fn deadline(&self) -> Option<Instant> {
        [self.until, self.failed.deadline()].into_iter().flatten().min()
    }

    /// Hosts without a node server, once they are known.
    fn take_failed(&mut self, now: Instant) -> Option<Vec<FailedHost>> {
        let is_known =
            |node: &u32| self.joined.contains(node) || self.failed.reasons.contains_key(node);
        let late: Vec<u32> =
            self.hosts.iter().map(|host| host.node).filter(|node| !is_known(node)).collect();
        let is_over = self.until.is_some_and(|until| now >= until);
        if is_over {
            late.iter().for_each(|node| self.failed.note_slow(*node));
        }
        let is_gathered = self.failed.deadline().is_some_and(|deadline| now >= deadline);
        if self.failed.reasons.is_empty() || !(late.is_empty() || is_over || is_gathered) {
            return None;
        }
        let name = |node| self.hosts.iter().find(|host| host.node == node);
        Some(self.failed.take(|node| name(node).map_or_else(String::new, |host| host.name.clone())))
    }
}

impl NodeServers {
    /// Name of the starter, if it reaches no other hosts than those that its batch system has allocated.
    pub fn starter_of_allocation(&self) -> Option<&'static str> {
        self.for_hosts.starter.of_allocation()
    }

    /// Lines for a user who has to start node servers by hand.
    pub fn instructions(&self) -> Vec<String> {
        self.hosts.iter().filter_map(|host| self.instruction(host)).collect()
    }

    /// Line for a user who has to start the node server of a host by hand.
    fn instruction(&self, host: &StarterHost) -> Option<String> {
        let key_file = self.secrets.first().filter(|_| self.for_hosts.starter.is_manual())?;
        let (command, name) = (self.for_hosts.words.join(" "), &host.name);
        Some(format!(
            "on '{name}', run '{command} --name {name}' with the line in '{}' as its standard input",
            key_file.path.display()
        ))
    }

    /// Time without a further node after which the start has failed.
    pub const fn start_timeout(&self) -> Duration {
        self.for_hosts.settings.start.timeout
    }

    /// Starts node servers on further hosts. [`StartEvent::HostsJoined`] or [`StartEvent::HostsFailed`]
    /// follows. One growth takes place at a time.
    ///
    /// # Errors
    ///
    /// A message for the user, with the remedy; nothing is started.
    pub fn add_hosts(&mut self, names: &[String]) -> Result<(), String> {
        if self.for_hosts.growth.is_some() {
            return Err("other hosts are being added".to_owned());
        }
        let hosts = self.start_further(names)?;
        let until = clock::now() + self.start_timeout();
        self.for_hosts.growth = Some(HostGrowth {
            hosts,
            joined: BTreeSet::new(),
            failed: FailedStarts::default(),
            until: (!self.for_hosts.starter.is_manual()).then_some(until),
            is_reported: false,
        });
        Ok(())
    }

    /// Starts node servers on further hosts, each of which joins when it comes: [`StartEvent::LateJoined`] or
    /// [`StartEvent::LateFailed`] follows for each.
    ///
    /// # Errors
    ///
    /// As [`add_hosts`](Self::add_hosts).
    pub fn await_hosts(&mut self, names: &[String]) -> Result<(), String> {
        // Each has a command of its own, whose end concerns no other.
        for name in names {
            let hosts = self.start_further(std::slice::from_ref(name))?;
            self.for_hosts.late.extend(hosts);
        }
        Ok(())
    }

    /// True if this host is [awaited](Self::await_hosts), and has not come.
    pub fn is_awaited(&self, name: &str) -> bool {
        self.for_hosts.late.iter().any(|host| host.name == name)
    }

    /// Starts node servers on further hosts, which are candidates for the tree.
    fn start_further(&mut self, names: &[String]) -> Result<Vec<StarterHost>, String> {
        let HostStarter { starter, settings, .. } = &self.for_hosts;
        let mut hosts = StarterHost::all(names, settings, |name| std::env::var(name).ok());
        let first = self.network.propose(names);
        hosts.iter_mut().for_each(|host| host.node += first - 1);
        let is_manual = starter.is_manual();
        let commands = self.for_hosts.commands(&hosts, &mut self.network)?;
        for host in hosts.iter().filter(|_| is_manual) {
            let instruction = self.instruction(host);
            self.events.extend(instruction.map(StartEvent::Report));
        }
        commands.into_iter().for_each(|command| self.starters.add(command));
        Ok(hosts)
    }

    /// Takes the hosts of [`add_hosts`](Self::add_hosts), which have [joined](StartEvent::HostsJoined), into
    /// the tree. Operations of jobs from `first_job` on wait for them. Messages may be sent to them at once.
    pub fn admit(&mut self, first_job: u32, poller: &Poller) -> io::Result<Vec<(NodeId, String)>> {
        let hosts = self.for_hosts.growth.take().map(|growth| growth.hosts);
        self.admit_hosts(hosts.unwrap_or_default(), first_job, poller)
    }

    /// The same for one host of [`await_hosts`](Self::await_hosts).
    pub fn admit_late(
        &mut self,
        candidate: u32,
        first_job: u32,
        poller: &Poller,
    ) -> io::Result<Vec<(NodeId, String)>> {
        let late = &mut self.for_hosts.late;
        let hosts = late.extract_if(.., |host| host.node == candidate).collect();
        self.admit_hosts(hosts, first_job, poller)
    }

    fn admit_hosts(
        &mut self,
        mut hosts: Vec<StarterHost>,
        first_job: u32,
        poller: &Poller,
    ) -> io::Result<Vec<(NodeId, String)>> {
        let candidates: Vec<u32> = hosts.iter().map(|host| host.node).collect();
        let admitted = self.network.admit(&candidates, first_job, poller)?;
        for (candidate, node) in &admitted {
            self.starters.renumber(*candidate, *node);
            if let Some(output) = self.outputs.remove(candidate) {
                self.outputs.insert(*node, output);
            }
            let of_node = |host: &&mut StarterHost| host.node == *candidate;
            hosts.iter_mut().filter(of_node).for_each(|host| host.node = *node);
        }
        hosts.retain(|host| host.node < CANDIDATES);
        self.present.attached.extend(hosts.iter().map(|_| false));
        let nodes = hosts.iter().map(|host| (NodeId(host.node), host.name.clone())).collect();
        self.hosts.extend(hosts);
        Ok(nodes)
    }

    /// Adds the hosts of [`add_hosts`](Self::add_hosts) no more: ends their starters, and closes the
    /// connections of those that have joined.
    pub fn withdraw(&mut self, poller: &Poller) -> io::Result<()> {
        let hosts = self.for_hosts.growth.take().map(|growth| growth.hosts);
        self.withdraw_hosts(&hosts.unwrap_or_default(), poller)
    }

    /// Adds no hosts any more.
    pub fn withdraw_all(&mut self, poller: &Poller) -> io::Result<()> {
        let late = std::mem::take(&mut self.for_hosts.late);
        self.withdraw_hosts(&late, poller)?;
        self.withdraw(poller)
    }

    fn withdraw_hosts(&mut self, hosts: &[StarterHost], poller: &Poller) -> io::Result<()> {
        let is_of = |node: u32| hosts.iter().any(|host| host.node == node);
        if hosts.is_empty() {
            return Ok(());
        }
        self.starters.withdraw(is_of);
        hosts.iter().try_for_each(|host| self.network.withdraw(host.node, poller))
    }

    /// Handles a node server of a candidate that has connected.
    pub(super) fn handle_candidate(&mut self, candidate: u32) {
        match self.growth_of(candidate) {
            Some(growth) => drop(growth.joined.insert(candidate)),
            None => self.events.push_back(StartEvent::LateJoined { candidate }),
        }
    }

    /// Handles a candidate whose node server could not be started, or is lost.
    pub(super) fn fail_candidate(&mut self, candidate: u32, why: String) {
        if let Some(growth) = self.growth_of(candidate) {
            return growth.failed.note(candidate, why);
        }
        let late = &mut self.for_hosts.late;
        for host in late.extract_if(.., |host| host.node == candidate) {
            let (name, why) = (host.name.clone(), why.clone());
            let failed = FailedHost { name, why, is_slow: false };
            self.events.push_back(StartEvent::LateFailed(failed));
            self.for_hosts.failed.push(host);
        }
    }

    /// The hosts that are being added together, if a candidate is one of them.
    fn growth_of(&mut self, candidate: u32) -> Option<&mut HostGrowth> {
        self.for_hosts.growth.as_mut().filter(|growth| growth.has(candidate))
    }

    /// Decides about hosts that are being added.
    pub(super) fn check_growth(&mut self, now: Instant, poller: &Poller) -> io::Result<()> {
        let failed = std::mem::take(&mut self.for_hosts.failed);
        self.withdraw_hosts(&failed, poller)?;
        let Some(growth) = &mut self.for_hosts.growth else { return Ok(()) };
        if let Some(failed) = growth.take_failed(now) {
            self.withdraw(poller)?;
            self.events.push_back(StartEvent::HostsFailed(failed));
        } else if growth.joined.len() == growth.hosts.len() && !growth.is_reported {
            growth.is_reported = true;
            growth.until = None;
            self.events.push_back(StartEvent::HostsJoined);
        }
        Ok(())
    }
}
