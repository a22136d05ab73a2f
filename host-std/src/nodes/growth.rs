//! Hosts that are added to a run: their node servers are started, and join the tree together once all of them
//! have connected, or none does.

use super::failed_host::FailedHost;
use super::start::{LATE, NodeServers, PATIENCE, StartEvent};
use super::start_progress::FailedStarts;
use super::starter::{NodeCommand, Starter, StarterHost};
use crate::poller::Poller;
use crate::settings::NodeSettings;
use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::time::Instant;

/// The starter of a run, for further hosts.
#[derive(Debug)]
pub(super) struct HostStarter {
    pub(super) starter: Starter,
    /// Words of a node server.
    pub(super) words: Vec<String>,
    pub(super) relay_to: Option<SocketAddr>,
    pub(super) settings: NodeSettings,
    /// Hosts that are being added.
    pub(super) growth: Option<HostGrowth>,
}

/// Hosts that are being added.
#[derive(Debug)]
pub(super) struct HostGrowth {
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

    pub(super) fn note_joined(&mut self, node: u32) {
        self.joined.insert(node);
    }

    pub(super) fn note_failed(&mut self, node: u32, why: String) {
        self.failed.note(node, why);
    }

    /// Time of the next decision without an event.
    pub(super) fn deadline(&self) -> Option<Instant> {
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
            late.iter().for_each(|node| self.note_failed(*node, LATE.to_owned()));
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
    /// Lines for a user who has to start node servers by hand.
    pub(crate) fn instructions(&self) -> Vec<String> {
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

    /// Starts node servers on further hosts. [`StartEvent::HostsJoined`] or [`StartEvent::HostsFailed`]
    /// follows. One growth takes place at a time.
    ///
    /// # Errors
    ///
    /// A message for the user, with the remedy; nothing is started.
    pub(crate) fn add_hosts(&mut self, names: &[String]) -> Result<(), String> {
        if self.for_hosts.growth.is_some() {
            return Err("other hosts are being added".to_owned());
        }
        let HostStarter { starter, words, relay_to, settings, .. } = &self.for_hosts;
        let mut hosts = StarterHost::all(names, settings, |name| std::env::var(name).ok());
        let first = u32::try_from(self.hosts.len() + 1).unwrap_or(u32::MAX);
        hosts.iter_mut().for_each(|host| host.node += first - 1);
        let is_staged = settings.staging.has_launcher;
        let node = NodeCommand { words, is_staged, relay_to: *relay_to };
        let commands = starter.commands(&hosts, &node)?;
        let is_manual = starter.is_manual();
        for host in hosts.iter().filter(|_| is_manual) {
            let instruction = self.instruction(host);
            self.events.extend(instruction.map(StartEvent::Report));
        }
        commands.into_iter().for_each(|command| self.starters.add(command));
        self.network.propose(names);
        self.for_hosts.growth = Some(HostGrowth {
            hosts,
            joined: BTreeSet::new(),
            failed: FailedStarts::default(),
            until: (!is_manual).then(|| Instant::now() + PATIENCE),
            is_reported: false,
        });
        Ok(())
    }

    /// Takes hosts that have [joined](StartEvent::HostsJoined) into the tree. Operations of jobs from
    /// `first_job` on wait for them. Messages may be sent to them at once.
    ///
    /// # Errors
    ///
    /// Errors of the poller.
    pub(crate) fn admit(&mut self, first_job: u32, poller: &Poller) -> io::Result<()> {
        let Some(growth) = self.for_hosts.growth.take() else { return Ok(()) };
        self.present.attached.extend(growth.hosts.iter().map(|_| false));
        self.hosts.extend(growth.hosts);
        self.network.admit(first_job, poller)
    }

    /// Adds no hosts any more: ends their starters, and closes the connections of those that have joined.
    ///
    /// # Errors
    ///
    /// Errors of the poller.
    pub(crate) fn withdraw(&mut self, poller: &Poller) -> io::Result<()> {
        let Some(growth) = self.for_hosts.growth.take() else { return Ok(()) };
        self.starters.withdraw(|node| growth.has(node));
        self.network.withdraw(poller)
    }

    /// The hosts that are being added, if a node is one of them.
    pub(super) fn growth_of(&mut self, node: u32) -> Option<&mut HostGrowth> {
        self.for_hosts.growth.as_mut().filter(|growth| growth.has(node))
    }

    /// Decides about hosts that are being added.
    ///
    /// # Errors
    ///
    /// Errors of the poller.
    pub(super) fn check_growth(&mut self, now: Instant, poller: &Poller) -> io::Result<()> {
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
