//! Start of the node servers of a run: starters and connections together, until all nodes are in the tree.

mod growth;
mod progress;

use crate::addresses::{self, HeadAddresses};
use crate::failed_host::FailedHost;
use crate::greeting::NodeTask;
use crate::key::RunKey;
use crate::network::roster::{CANDIDATES, Roster};
use crate::network::{Network, NetworkEvent, delegation};
use crate::settings::{NodeSettings, StartSettings, StarterFanout};
use crate::starter::delegation::DelegatedStarts;
use crate::starter::pool::{StarterEnd, StarterPool};
use crate::starter::start_keys::StartKeys;
use crate::starter::{
    self, BatchStarter, NodeCommand, NumberedHost, RELAYED_FILES, Starter, StarterHost, node_words,
};
use growth::HostStarter;
use pmi_host_os::admission::secret::{GeneratedSecret, SecretUse};
use pmi_host_os::cleanup::guard::Guard;
use pmi_host_os::clock;
use pmi_host_os::descriptors::{DescriptorLimit, FdBudget};
use pmi_host_os::poller::{Poller, Token};
use pmi_host_os::refusal;
use progress::{FailedStarts, PresentNodes, StartProgress};
use rustix::process::Signal;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::slice;
use std::time::{Duration, Instant};

/// Node servers of a run, at the head.
pub struct NodeServers {
    /// Connections of the head.
    pub network: Network,
    starters: StarterPool,
    hosts: Vec<StarterHost>,
    delegated: DelegatedStarts,
    present: PresentNodes,
    failed: FailedStarts,
    /// Last output of starters that have ended.
    outputs: BTreeMap<u32, String>,
    /// Time at which the start has failed unless there is progress; `None` once it is over.
    patience: Option<Instant>,
    /// Progress for a user who waits; `None` once the start is over.
    progress: Option<StartProgress>,
    events: VecDeque<StartEvent>,
    for_hosts: HostStarter,
    /// Files with secrets, which are removed with the run.
    secrets: Vec<GeneratedSecret>,
}

/// Event of the start, or of the connections.
#[derive(Debug)]
pub enum StartEvent {
    /// All nodes are in the tree.
    Complete,
    /// Node servers could not be started on these hosts; the run is over.
    Failed(Vec<FailedHost>),
    /// Node servers are connected on all hosts that were to be [added](NodeServers::add_hosts), until
    /// [`admit`](NodeServers::admit).
    HostsJoined,
    /// Node servers could not be started on these of them, and the others are dismissed.
    HostsFailed(Vec<FailedHost>),
    /// A node server is connected on a host that was [awaited](NodeServers::await_hosts), until
    /// [`admit_late`](NodeServers::admit_late).
    LateJoined {
        /// Number of the host until then.
        candidate: u32,
    },
    /// No node server could be started on a host that was awaited.
    LateFailed(FailedHost),
    /// A sentence for the user.
    Report(String),
    /// An event of the connections.
    Network(NetworkEvent),
}

impl StartEvent {
    /// True if the head writes a line about it.
    const fn is_written(&self) -> bool {
        !matches!(self, Self::Network(event) if !matches!(event, NetworkEvent::Rejected { .. }))
    }
}

impl NodeServers {
    /// Opens the port for node servers and prepares their starters. Nothing is started before the first
    /// [`tick`](Self::tick). `number_hosts` is called if a batch system starts them.
    ///
    /// # Errors
    ///
    /// A message for the user, with the remedy.
    pub fn open(
        hosts: Vec<StarterHost>,
        settings: &NodeSettings,
        task: NodeTask,
        number_hosts: impl FnOnce(BatchStarter) -> Vec<NumberedHost>,
        poller: &Poller,
    ) -> Result<Self, String> {
        let is_relayed = settings.links.is_relayed;
        let files = if is_relayed { RELAYED_FILES } else { 1 };
        let others = u32::try_from(hosts.len().saturating_mul(files)).unwrap_or(u32::MAX);
        let mut limit = DescriptorLimit::new(0, others);
        limit.raise_for(FdBudget::default()).map_err(|error| {
            format!(
                "{} hosts need {} open files and this process may have {}; name fewer hosts or raise \
                 the hard limit ('ulimit -Hn', or LimitNOFILE of the service)",
                hosts.len(),
                error.needed,
                error.limit
            )
        })?;
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let starter = Starter::choose(settings, variable)?.with_numbers(number_hosts);
        let (ports, fanout) = (settings.ports_of(variable)?, settings.fanout_of(variable));
        let start = StartSettings { fanout, ..settings.start };
        let timeout = settings.timeout_of(starter::of_batch_system(variable).is_some());
        let settings = &NodeSettings { ports, start, timeout: Some(timeout), ..settings.clone() };
        let remote: Vec<&str> =
            hosts.iter().filter(|host| !host.is_here).map(|host| host.name.as_str()).collect();
        let addresses = HeadAddresses::find(settings.interface.as_deref(), &remote)?;
        let listener = addresses::bind(addresses.bind, settings.ports)?;
        let cannot = |error: io::Error| {
            format!("node servers cannot be started ({})", refusal::words(&error))
        };
        let port = listener.address.port();
        let to: Vec<SocketAddr> =
            addresses.reachable.iter().map(|address| SocketAddr::new(*address, port)).collect();
        let words = node_words(&to, settings)?;
        // Only a user who starts node servers by hand needs the key in a file.
        let key_file =
            starter.is_manual().then(|| GeneratedSecret::create(SecretUse::Nodes)).transpose()?;
        let key = match &key_file {
            Some(file) => RunKey::read(&mut format!("{}\n", file.text).as_bytes()),
            None => RunKey::generate(),
        };
        let key = key.map_err(cannot)?.without_encryption(settings.links.is_plain);
        let is_staged = settings.staging.has_launcher;
        // By itself the head does not lead the connections of many hosts through a few.
        let is_flat = is_relayed && fanout == StarterFanout::Auto;
        let fanout = if is_flat { StarterFanout::All } else { fanout };
        let node = NodeCommand { words: &words, is_staged, is_relayed };
        let mut commands = starter.commands(&hosts, &node)?;
        let names = hosts.iter().map(|host| host.name.clone()).collect();
        let mut roster = Roster::new(names, settings.radix, timeout, task);
        let keys = StartKeys::new(&key, starter.is_manual());
        for (key, nodes) in keys.assign(&hosts, &mut commands) {
            roster.expect(&key, &nodes);
        }
        let plan = starter.plan(commands, &hosts, fanout);
        // Without encryption, all starters hand over the same key.
        let key_line = if key.is_plain() { key.line() } else { String::new() };
        let pool = StarterPool::new(plan.own, key_line, limit).guarded();
        let delegates: BTreeSet<u32> = plan.delegated.keys().copied().collect();
        let roster = roster.with_delegates(delegates);
        let network = Network::of_head((key, timeout), listener, roster, poller);
        let patience = (!starter.is_manual()).then(|| clock::now() + settings.start.timeout);
        let settings = settings.clone();
        let for_hosts = HostStarter::new((starter, words), keys, settings);
        let mut servers = Self {
            network: network.map_err(cannot)?,
            starters: pool,
            present: PresentNodes::new(hosts.len()),
            hosts,
            delegated: DelegatedStarts::new(plan.delegated),
            failed: FailedStarts::default(),
            outputs: BTreeMap::new(),
            // A user who types commands takes as long as it takes.
            patience,
            progress: None,
            events: VecDeque::new(),
            for_hosts,
            secrets: Vec::new(),
        };
        key_file.into_iter().for_each(|secret| servers.keep_secret(secret));
        Ok(servers)
    }

    /// Shows the progress of the start on a terminal. Nothing else may be written there meanwhile but the
    /// events of this value.
    pub fn show_progress(&mut self) {
        self.progress = StartProgress::new(self.hosts.len(), clock::now());
    }

    /// Waits for the outcome of all starts before it reports those that have failed.
    pub fn decide_all(&mut self) {
        self.failed.is_patient = true;
    }

    /// Ends all starters, and waits for their ends. Node servers end without the connection to this value.
    pub fn abandon(mut self) {
        self.starters.abandon();
    }

    /// The guard of the starters.
    pub const fn guard(&mut self) -> Option<&mut Guard> {
        self.starters.guard()
    }

    /// Keeps the file of a secret until the end of the run.
    pub fn keep_secret(&mut self, secret: GeneratedSecret) {
        if let Some(guard) = self.guard() {
            guard.report_file(&secret.path);
        }
        self.secrets.push(secret);
    }

    /// Handles the readiness of a connection or starter.
    pub fn ready(&mut self, token: Token, poller: &Poller) -> io::Result<()> {
        match token {
            Token::NodeListen | Token::Node(_) => self.network.ready(token, poller)?,
            token => {
                let network = &mut self.network;
                let mut accept = |node| network.accept_relayed(node, poller);
                if let Some(end) = self.starters.ready(token, &mut accept)
                    && !self.calls_for_each(&end)
                {
                    self.handle_end(end);
                }
            }
        }
        Ok(())
    }

    /// Starts further node servers, handles deadlines, and collects events.
    pub fn tick(&mut self, now: Instant, poller: &Poller) -> io::Result<()> {
        self.network.tick(now, poller)?;
        // Hosts have connected while this process was stopped.
        let stopped = self.network.take_stopped();
        self.patience = self.patience.map(|patience| patience + stopped);
        while let Some(event) = self.network.poll_event() {
            match event {
                NetworkEvent::DelegateReady { node } => self.delegate_starts(node),
                NetworkEvent::DelegateEnded { node, end } => self.handle_delegate_end(node, end),
                NetworkEvent::DelegateLost { node } => self.lose_delegate(node),
                event => {
                    self.handle_network_event(&event);
                    self.events.push_back(StartEvent::Network(event));
                }
            }
        }
        self.start_due(poller);
        if self.patience.is_some_and(|patience| now >= patience) {
            self.handle_late(now);
            self.start_due(poller);
        }
        let is_late = || self.failed.deadline().is_some_and(|deadline| now >= deadline);
        let is_due = || is_late() || self.missing().is_empty();
        if !self.failed.reasons.is_empty() && is_due() && self.patience.take().is_some() {
            let failed = self.failed.take(|node| name(&self.hosts, node));
            self.events.push_back(StartEvent::Failed(failed));
        }
        self.check_growth(now, poller)?;
        self.show(now);
        Ok(())
    }

    /// Shows the progress, or makes room for events that are written.
    fn show(&mut self, now: Instant) {
        if self.patience.is_none() {
            self.progress = None;
        }
        let Some(progress) = &mut self.progress else { return };
        match self.events.iter().any(StartEvent::is_written) {
            true => progress.clear(now),
            false => progress.show(self.present.joined.len(), now),
        }
    }

    /// Time of the next [`tick`](Self::tick).
    pub fn deadline(&self) -> Option<Instant> {
        let progress = self
            .progress
            .as_ref()
            .and_then(|progress| progress.deadline(self.present.joined.len()));
        let growth = self.for_hosts.deadline();
        let own = [
            self.network.deadline(),
            self.starters.deadline(),
            self.patience,
            self.failed.deadline(),
        ];
        own.into_iter().chain([progress, growth]).flatten().min()
    }

    /// Next event.
    ///
    /// Changes after `tick`.
    pub fn poll_event(&mut self) -> Option<StartEvent> {
        self.events.pop_front()
    }

    /// The last lines that the starter of a node has written, to explain its loss.
    pub fn output_of(&self, node: u32) -> Option<String> {
        self.starters.output_of(node).or_else(|| self.outputs.get(&node).cloned())
    }

    /// Nodes that are not in the tree.
    pub fn absent(&self) -> Vec<u32> {
        let absent = (1..).zip(&self.present.attached).filter(|(_, attached)| !**attached);
        absent.map(|(node, _)| node).collect()
    }

    /// Sends a signal to all starters; none starts any further node.
    pub fn signal_starters(&mut self, signal: Signal) {
        self.patience = None;
        self.progress = None;
        self.delegated.clear();
        self.starters.signal(signal);
    }

    /// True if all starters have ended.
    pub fn is_over(&self) -> bool {
        self.starters.is_empty()
    }

    fn handle_network_event(&mut self, event: &NetworkEvent) {
        match event {
            NetworkEvent::Joined { node } => {
                self.starters.handle_joined(*node);
                if *node >= CANDIDATES {
                    return self.handle_candidate(*node);
                }
                self.present.joined.insert(*node);
                if let Some((delegate, _)) = self.delegated.remove(*node) {
                    delegation::confirm(&mut self.network, delegate, *node);
                }
                let start_timeout = self.start_timeout();
                self.patience = self.patience.map(|_| clock::now() + start_timeout);
            }
            NetworkEvent::Attached { node } => {
                if let Some(attached) =
                    index(*node).and_then(|at| self.present.attached.get_mut(at))
                {
                    *attached = true;
                }
                let present = &mut self.present;
                if !present.is_complete && present.attached.iter().all(|attached| *attached) {
                    present.is_complete = true;
                    self.patience = None;
                    self.events.push_back(StartEvent::Complete);
                }
            }
            NetworkEvent::Left { node, why } => self.fail(*node, format!("its node server {why}")),
            _ => {}
        }
    }

    /// Executes commands whose turn has come. The end of one may leave further ones to the head.
    fn start_due(&mut self, poller: &Poller) {
        loop {
            let ends = self.starters.start_due(poller);
            if ends.is_empty() {
                return;
            }
            ends.into_iter().for_each(|end| self.handle_end(end));
        }
    }

    /// Handles nodes that have not connected in time. Those that another one was to start are started by the
    /// head, unless the start has failed anyway.
    fn handle_late(&mut self, now: Instant) {
        let (late, lost): (Vec<u32>, Vec<u32>) =
            self.missing().into_iter().partition(|node| self.delegated.get(*node).is_some());
        let is_lost = !lost.is_empty() || !self.failed.reasons.is_empty();
        lost.into_iter().for_each(|node| self.fail_slow(node));
        if is_lost && !self.failed.is_patient {
            late.into_iter().for_each(|node| self.fail_slow(node));
            return;
        }
        for node in late {
            // It may be taken over already, from a node that is lost.
            let Some(delegate) = self.delegated.get(node) else { continue };
            let what = format!("has not started '{}' within the time limit", self.name(node));
            self.report_delegate(delegate, &what);
            // It ends its starters, which may hang.
            delegation::end(&mut self.network, delegate);
            self.take_over(node);
        }
        self.patience = Some(now + self.start_timeout());
    }

    /// Hands its commands to a node that starts others.
    fn delegate_starts(&mut self, delegate: u32) {
        let (starts, network) = (self.delegated.of(delegate), &mut self.network);
        let refused =
            starts.filter(|(_, command)| !delegation::delegate(network, delegate, command));
        let refused = Vec::from_iter(refused.map(|(node, _)| node));
        refused.into_iter().for_each(|node| self.take_over(node));
    }

    /// Handles the end of a command that `delegate` has executed.
    fn handle_delegate_end(&mut self, delegate: u32, end: StarterEnd) {
        let StarterEnd { nodes, output, how, .. } = end;
        for node in nodes {
            if self.delegated.of(delegate).any(|(open, _)| open == node) {
                let last =
                    output.lines().last().map_or_else(String::new, |line| format!(": {line}"));
                self.report_delegate(
                    delegate,
                    &format!("cannot start '{}' ({how}{last})", self.name(node)),
                );
                self.take_over(node);
            } else if !output.is_empty() && index(node).is_some_and(|at| at < self.hosts.len()) {
                self.outputs.insert(node, output.clone());
            }
        }
    }

    fn lose_delegate(&mut self, delegate: u32) {
        self.take_over_of(delegate, "has ended before it could start");
    }

    /// Lets the head start all nodes that `delegate` was to start. `what` is the predicate of the report, up
    /// to the first one.
    fn take_over_of(&mut self, delegate: u32, what: &str) {
        let nodes = Vec::from_iter(self.delegated.of(delegate).map(|(node, _)| node));
        let Some(first) = nodes.first() else { return };
        self.report_delegate(delegate, &format!("{what} '{}'", self.name(*first)));
        nodes.into_iter().for_each(|node| self.take_over(node));
        let until = clock::now() + self.start_timeout();
        self.patience = self.patience.map(|patience| patience.max(until));
    }

    /// Lets the head start a node that another one was to start.
    fn take_over(&mut self, node: u32) {
        let start = self.delegated.remove(node).filter(|_| self.patience.is_some());
        start.into_iter().for_each(|(_, command)| self.starters.add(command));
    }

    /// Reports the first failure of a node that starts others: many have the same cause.
    fn report_delegate(&mut self, delegate: u32, what: &str) {
        if self.patience.is_some() && !std::mem::replace(&mut self.delegated.has_reported, true) {
            let report = format!(
                "node '{}' {what}; this launcher starts such hosts itself, which takes longer with many; \
                 '--starter-fanout {}' does so from the beginning",
                self.name(delegate),
                StarterFanout::ALL
            );
            self.events.push_back(StartEvent::Report(report));
        }
    }

    /// Calls the starter for each host after one call for all of them that has started nothing, as `srun`
    /// does if it cannot use one: then the others start, and the failure is that of its host. Returns whether
    /// it does.
    fn calls_for_each(&mut self, end: &StarterEnd) -> bool {
        let is_common = end.nodes.len() > 1 && end.awaited == end.nodes;
        let is_starting = self.patience.is_some() && !self.starters.is_ending();
        if !(is_common && is_starting && self.for_hosts.starter.has_command_for_each()) {
            return false;
        }
        let mut commands = Vec::new();
        for host in self.hosts.iter().filter(|host| end.nodes.contains(&host.node)) {
            let own = self.for_hosts.commands(slice::from_ref(host), &mut self.network);
            commands.extend(own.unwrap_or_default());
        }
        if commands.len() != end.nodes.len() {
            return false;
        }
        // `srun` names the cause first, as a prolog that fails on one host, and then what follows on others.
        let cause = end.output.lines().find(|line| line.contains("error: "));
        let cause = cause.or_else(|| end.output.lines().last());
        let cause = cause.map_or_else(String::new, |line| format!(" ({line})"));
        self.events.push_back(StartEvent::Report(format!(
            "{} and has started no node server on any of {} hosts{cause}; it is called for each of them",
            end.how,
            end.nodes.len()
        )));
        commands.into_iter().for_each(|command| self.starters.add(command));
        self.patience = Some(clock::now() + self.start_timeout());
        true
    }

    fn handle_end(&mut self, end: StarterEnd) {
        let StarterEnd { nodes, awaited, how, output } = end;
        for node in awaited {
            let why = match output.is_empty() {
                true => how.clone(),
                false => format!("{how}\n{output}"),
            };
            self.fail(node, why);
        }
        if !output.is_empty() {
            self.outputs.extend(nodes.into_iter().map(|node| (node, output.clone())));
        }
    }

    fn fail(&mut self, node: u32, why: String) {
        if node >= CANDIDATES {
            return self.fail_candidate(node, why);
        }
        // Nodes that are added later are lost as others are.
        if self.present.is_complete {
            return;
        }
        let is_attached = index(node).and_then(|at| self.present.attached.get(at)) == Some(&true);
        if !is_attached {
            self.failed.note(node, why);
            if self.failed.is_patient {
                self.take_over_of(node, "has no node server that could start");
            }
        }
    }

    /// Records that a node has not connected in time.
    fn fail_slow(&mut self, node: u32) {
        self.failed.note_slow(node);
        if self.failed.is_patient {
            self.take_over_of(node, "has no node server that could start");
        }
    }

    /// Nodes that are neither in the tree nor have failed. One below a node that has failed does not get into
    /// the tree; if the run can do without that, it is enough that it has connected.
    fn missing(&self) -> Vec<u32> {
        let is_enough = self.failed.is_patient && !self.failed.reasons.is_empty();
        let is_missing = |node: &u32, is_in: bool| {
            let is_in = is_in || is_enough && self.present.joined.contains(node);
            !is_in && !self.failed.reasons.contains_key(node)
        };
        let nodes = (1..).zip(&self.present.attached);
        nodes.filter(|(node, is_in)| is_missing(node, **is_in)).map(|(node, _)| node).collect()
    }

    fn name(&self, node: u32) -> String {
        name(&self.hosts, node)
    }
}

fn name(hosts: &[StarterHost], node: u32) -> String {
    let host = index(node).and_then(|at| hosts.get(at));
    host.map_or_else(String::new, |host| host.name.clone())
}

fn index(node: u32) -> Option<usize> {
    usize::try_from(node.checked_sub(1)?).ok()
}

/// Time for which failures are gathered after the first one, so that one table has all of them.
const GATHERING: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    /// A start of nodes 1 to `count` by a starter that waits, of which the first two start the others.
    fn servers(count: u32, is_patient: bool, poller: &Poller) -> NodeServers {
        let host =
            |node| StarterHost { node, name: format!("h{node}"), is_here: false, is_apart: false };
        let settings = NodeSettings {
            template: Some("sh -c 'exec cat # {host} {cmd}'".to_owned()),
            start: StartSettings { fanout: StarterFanout::Hosts(2), ..Default::default() },
            interface: Some("127.0.0.1".to_owned()),
            ..NodeSettings::default()
        };
        let hosts = (1..=count).map(host).collect();
        let mut servers =
            NodeServers::open(hosts, &settings, NodeTask::Job, |_| Vec::new(), poller).unwrap();
        if is_patient {
            servers.decide_all();
        }
        servers
    }

    fn events(servers: &mut NodeServers) -> (Vec<String>, Vec<String>) {
        let (mut reports, mut failed) = (Vec::new(), Vec::new());
        while let Some(event) = servers.poll_event() {
            match event {
                StartEvent::Report(report) => reports.push(report),
                StartEvent::Failed(hosts) => failed.extend(hosts.into_iter().map(|host| host.name)),
                _ => {}
            }
        }
        (reports, failed)
    }

    /// As if node servers had connected that start no other one.
    fn attach(servers: &mut NodeServers, nodes: &[u32]) {
        for node in nodes {
            servers.handle_network_event(&NetworkEvent::Joined { node: *node });
            servers.handle_network_event(&NetworkEvent::Attached { node: *node });
        }
    }

    /// Lets time pass. (In one step, this process would have been stopped.)
    fn wait(servers: &mut NodeServers, [from, until]: [Instant; 2], poller: &Poller) {
        let steps = (1..).map(|step| from + step * Duration::from_secs(1));
        for now in steps.take_while(|now| *now < until).chain([until]) {
            servers.tick(now, poller).unwrap();
        }
    }

    #[test]
    fn nodes_that_others_do_not_start_in_time_are_started_by_the_head() {
        let poller = Poller::new().unwrap();
        let mut servers = servers(6, false, &poller);
        let now = clock::now();
        servers.tick(now, &poller).unwrap();
        attach(&mut servers, &[1, 2]);
        assert_eq!((servers.starters.count(), events(&mut servers)), (2, Default::default()));
        // Their time began when the last host had joined.
        let late = now + PATIENCE + Duration::from_secs(1);
        wait(&mut servers, [now, late], &poller);
        assert_eq!(servers.starters.count(), 6);
        let (reports, failed) = events(&mut servers);
        assert_eq!((reports.len(), failed.len()), (1, 0), "{reports:?} {failed:?}");
        for part in ["'h1' has not started 'h3'", "'--starter-fanout all'"] {
            assert!(reports[0].contains(part), "{reports:?}");
        }
        // They get as much time as the others had, and then they have failed.
        wait(&mut servers, [late, late + PATIENCE / 2], &poller);
        assert_eq!(events(&mut servers), Default::default());
        wait(&mut servers, [late + PATIENCE / 2, late + PATIENCE], &poller);
        let failed = ["h3", "h4", "h5", "h6"].map(str::to_owned).to_vec();
        assert_eq!(events(&mut servers), (Vec::new(), failed));
        servers.abandon();
    }

    #[test]
    fn nodes_of_one_that_has_failed_are_started_by_the_head_if_the_run_can_do_without_it() {
        let poller = Poller::new().unwrap();
        for is_patient in [true, false] {
            let mut servers = servers(6, is_patient, &poller);
            let now = clock::now();
            servers.tick(now, &poller).unwrap();
            servers.fail(2, "no route".to_owned());
            servers.tick(now, &poller).unwrap();
            // The first two, and those of the second one.
            let started = if is_patient { 4 } else { 2 };
            assert_eq!(servers.starters.count(), started);
            let (reports, failed) = events(&mut servers);
            assert_eq!((reports.len(), failed.len()), (usize::from(is_patient), 0), "{reports:?}");
            assert!(reports.iter().all(|report| report.contains("start 'h4'")), "{reports:?}");
            servers.abandon();
        }
    }

    #[test]
    fn node_below_one_that_has_failed_is_not_left_out_with_it() {
        let poller = Poller::new().unwrap();
        let mut servers = servers(4, true, &poller);
        servers.tick(clock::now(), &poller).unwrap();
        for node in [1, 3, 4] {
            servers.handle_network_event(&NetworkEvent::Joined { node });
        }
        servers.fail(2, "no route".to_owned());
        servers.tick(clock::now(), &poller).unwrap();
        assert_eq!(events(&mut servers).1, ["h2"]);
        servers.abandon();
    }

    #[test]
    fn start_that_has_failed_anyway_takes_no_more_time() {
        let poller = Poller::new().unwrap();
        let mut servers = servers(4, false, &poller);
        let now = clock::now();
        servers.tick(now, &poller).unwrap();
        attach(&mut servers, &[2]);
        wait(&mut servers, [now, now + PATIENCE + Duration::from_secs(1)], &poller);
        let (reports, failed) = events(&mut servers);
        assert_eq!((reports.len(), failed), (0, ["h1", "h3", "h4"].map(str::to_owned).to_vec()));
        servers.abandon();
    }
}
