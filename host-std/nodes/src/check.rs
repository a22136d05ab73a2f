//! `pmi-host doctor --hosts`: node servers on all hosts, once through the tree, without any rank.

use super::check_program::{ProgramToCheck, ProgramTrouble};
use super::failed_host::failed_hosts;
use super::greeting::{NodeHello, NodeTask};
use super::network::{Network, NetworkEvent};
use super::start::{NodeServers, StartEvent};
use super::starter::{BatchStarter, NumberedHost, StarterHost};
use crate::settings::{NodeSettings, StarterName};
use pmi_host_base::columns;
use pmi_host_base::exit::{FAILED, complain, line, print};
use pmi_host_os::clock;
use pmi_host_os::poller::Poller;
use pmi_tree::{Class, CollectiveId, Contribution, Destination, TreeEvent};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Findings of a node server about its host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct HostFindings {
    node: u32,
    /// Its clock, in microseconds since 1970.
    clock_micros: u64,
    /// Reason for which the program cannot run; `None` if it can, or none was named.
    trouble: Option<ProgramTrouble>,
}

/// Checks the hosts and prints a table of them, or one of those that cannot be used. `number_hosts` is called
/// if a batch system starts their node servers.
pub fn run(
    hosts: Vec<String>,
    settings: &NodeSettings,
    program: Option<OsString>,
    number_hosts: impl FnOnce(BatchStarter) -> Vec<NumberedHost>,
) -> ExitCode {
    let hosts = match settings.starter {
        Some(StarterName::Local(nodes)) if hosts.is_empty() => {
            (1..=nodes).map(|node| format!("local{node}")).collect()
        }
        _ => hosts,
    };
    let hosts = StarterHost::all(&hosts, settings, |name| std::env::var(name).ok());
    let opened = Poller::new().map_err(|error| error.to_string()).and_then(|poller| {
        let program = program.map(|name| ProgramToCheck::new(&name)).transpose()?;
        let task = NodeTask::Check { program };
        let mut servers = NodeServers::open(hosts.clone(), settings, task, number_hosts, &poller)?;
        servers.show_progress();
        Ok(HostCheck { servers, poller, hosts, asked_at: UNIX_EPOCH })
    });
    match opened {
        Ok(mut check) => match check.run() {
            Ok(text) => print(&text),
            Err(why) => complain(&why, FAILED),
        },
        Err(why) => complain(&why, FAILED),
    }
}

impl HostFindings {
    fn new(node: u32, program: Option<&ProgramToCheck>) -> Self {
        Self {
            node,
            clock_micros: micros(SystemTime::now()),
            trouble: program.and_then(ProgramToCheck::trouble),
        }
    }
}

struct HostCheck {
    servers: NodeServers,
    poller: Poller,
    hosts: Vec<StarterHost>,
    /// Time at which the hosts were asked to report.
    asked_at: SystemTime,
}

impl HostCheck {
    fn run(&mut self) -> Result<String, String> {
        for instruction in self.servers.instructions() {
            let _ = io::stderr().write_all(line(instruction).as_bytes());
        }
        let checked = self.gather();
        self.end(checked.is_ok());
        checked
    }

    /// Runs until all hosts have reported, and gives the table.
    fn gather(&mut self) -> Result<String, String> {
        let cannot = |error: io::Error| format!("the hosts cannot be checked ({error})");
        let mut ready = Vec::new();
        loop {
            self.servers.tick(clock::now(), &self.poller).map_err(cannot)?;
            while let Some(event) = self.servers.poll_event() {
                match event {
                    StartEvent::Complete => {
                        self.asked_at = SystemTime::now();
                        let network = &mut self.servers.network;
                        let asked = network.send(Destination::All, Class::Control, REPORT.to_vec());
                        asked
                            .and_then(|()| network.contribute(FINDINGS, Contribution::default()))
                            .map_err(|error| error.to_string())?;
                    }
                    StartEvent::Failed(failed) => {
                        return Err(failed_hosts(&failed, self.hosts.len()));
                    }
                    StartEvent::Report(report)
                    | StartEvent::Network(NetworkEvent::Rejected { report }) => {
                        let _ = io::stderr().write_all(line(report).as_bytes());
                    }
                    StartEvent::Network(NetworkEvent::Tree(event)) => {
                        if let Some(table) = self.handle_tree_event(event)? {
                            return Ok(table);
                        }
                    }
                    // A check adds no hosts.
                    StartEvent::HostsJoined
                    | StartEvent::HostsFailed(_)
                    | StartEvent::LateJoined { .. }
                    | StartEvent::LateFailed(_) => {}
                    StartEvent::Network(_) => {}
                }
            }
            self.servers.network.flush(&self.poller).map_err(cannot)?;
            self.poller.wait(self.servers.deadline(), &mut ready).map_err(cannot)?;
            for token in &ready {
                self.servers.ready(*token, &self.poller).map_err(cannot)?;
            }
        }
    }

    fn handle_tree_event(&mut self, event: TreeEvent) -> Result<Option<String>, String> {
        match event {
            TreeEvent::CollectiveEnded { id, data, .. } if id == FINDINGS => {
                self.table(&data).map(Some)
            }
            TreeEvent::NodeLost { node, .. } => {
                let roster = self.servers.network.roster();
                let name = roster.map_or("", |roster| roster.name(node.0));
                let output = self.servers.output_of(node.0).unwrap_or_default();
                Err(format!("the node server of '{name}' was lost during the check\n{output}"))
            }
            _ => Ok(None),
        }
    }

    fn table(&self, data: &[u8]) -> Result<String, String> {
        let (asked, now) = (micros(self.asked_at), micros(SystemTime::now()));
        let (mut rest, mut rows) = (data, Vec::new());
        while !rest.is_empty() {
            let (one, after): (HostFindings, _) = postcard::take_from_bytes(rest)
                .map_err(|_| "a node server has reported what cannot be read".to_owned())?;
            rest = after;
            rows.push(one);
        }
        let heading =
            ["host", "node", "named", "address", "processors", "memory", "domains", "clock"];
        let mut lines = vec![heading.map(str::to_owned)];
        let (mut far_off, mut furthest) = (Vec::new(), Duration::ZERO);
        let mut troubles: BTreeMap<&ProgramTrouble, Vec<&str>> = BTreeMap::new();
        for one in &rows {
            let roster = self.servers.network.roster();
            let hello = roster.and_then(|roster| roster.hello(one.node));
            let name = roster.map_or("", |roster| roster.name(one.node));
            // It was read between the question and the answer; anything else is a difference.
            let clock = one.clock_micros;
            let (sign, differs) = match clock {
                _ if clock < asked => ("-", Duration::from_micros(asked - clock)),
                _ => ("+", Duration::from_micros(clock.saturating_sub(now))),
            };
            let differs_seconds = differs.as_secs_f64();
            furthest = furthest.max(differs);
            if differs > CLOCK_MAX {
                far_off.push(name);
            }
            if let Some(trouble) = &one.trouble {
                troubles.entry(trouble).or_default().push(name);
            }
            // Only nodes that have joined report.
            let Some(NodeHello { host, address, resources, .. }) = hello else { continue };
            lines.push([
                name.to_owned(),
                one.node.to_string(),
                host.clone(),
                address.to_string(),
                resources.parallelism.to_string(),
                resources.memory_bytes.map(gibibytes).unwrap_or_default(),
                resources.numa_nodes.len().to_string(),
                format!("{sign}{differs_seconds:.2} s"),
            ]);
        }
        let is_right = [false, true, false, false, true, true, true, true];
        let table = columns::lines(&lines, is_right).join("\n");
        let mut problems = Vec::new();
        if !far_off.is_empty() {
            problems.push(format!(
                "clocks differ by up to {:.1} s on {}; check their time service",
                furthest.as_secs_f64(),
                names(&far_off)
            ));
        }
        problems.extend(troubles.iter().map(|(trouble, hosts)| trouble.sentence(names(hosts))));
        match problems.is_empty() {
            true => Ok(format!("{table}\n")),
            false => Err(format!("{}\n{table}", problems.join("\npmi-host: "))),
        }
    }

    /// Ends all node servers: those that have reported end by themselves.
    fn end(&mut self, is_complete: bool) {
        let network = &mut self.servers.network;
        let _ = network.send(Destination::All, Class::Control, END.to_vec());
        let mut ready = Vec::new();
        let signals = [None, Some(Signal::TERM), Some(Signal::KILL)];
        for signal in signals.into_iter().skip(usize::from(!is_complete)) {
            if let Some(signal) = signal {
                self.servers.signal_starters(signal);
            }
            let until = clock::now() + END_WITHIN;
            let is_over = |servers: &NodeServers| {
                servers.is_over() && (!is_complete || !servers.network.has_members())
            };
            while !is_over(&self.servers) && clock::now() < until {
                let turned = self
                    .servers
                    .network
                    .flush(&self.poller)
                    .and_then(|()| self.poller.wait(Some(until), &mut ready))
                    .and_then(|()| {
                        ready.iter().try_for_each(|token| self.servers.ready(*token, &self.poller))
                    });
                if turned.is_err() {
                    break;
                }
            }
        }
    }
}

/// Takes part in a check, on a host, until the head ends it.
pub(super) fn serve(
    mut network: Network,
    mut poller: Poller,
    (node, program): (u32, Option<&ProgramToCheck>),
) -> io::Result<ExitCode> {
    let mut ready = Vec::new();
    let mut is_over = false;
    loop {
        while let Some(event) = network.poll_event() {
            match event {
                NetworkEvent::Tree(TreeEvent::Message { body, .. }) if body == REPORT => {
                    let findings = HostFindings::new(node, program);
                    // Serialization into a vector fails for no value of this type.
                    let data = postcard::to_allocvec(&findings).unwrap_or_default();
                    let own = Contribution { members: 1, data };
                    network.contribute(FINDINGS, own).map_err(io::Error::other)?;
                }
                NetworkEvent::Tree(TreeEvent::Message { .. }) => is_over = true,
                NetworkEvent::HeadLost { why } => return Ok(complain(&why, FAILED)),
                _ => {}
            }
        }
        network.flush(&poller)?;
        // What is for the nodes below this one is written by then.
        if is_over && !network.has_output() {
            return Ok(ExitCode::SUCCESS);
        }
        poller.wait(network.deadline(), &mut ready)?;
        network.turn(&ready, &poller)?;
    }
}

fn gibibytes(bytes: u64) -> String {
    let tenths = u128::from(bytes) * 10 / (1 << 30);
    format!("{}.{} GiB", tenths / 10, tenths % 10)
}

/// A few of many hosts.
fn names(hosts: &[&str]) -> String {
    let few = hosts[..hosts.len().min(NAMES_MAX)].join(", ");
    match hosts.len().saturating_sub(NAMES_MAX) {
        0 => few,
        others => format!("{few} and {others} others"),
    }
}

fn micros(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Messages of the head: a request for findings, and the end of the check.
const REPORT: &[u8] = b"report";
const END: &[u8] = b"end";

/// The only collective operation of a check.
const FINDINGS: CollectiveId = CollectiveId { job: 0, kind: 0, number: 0 };

/// Largest difference of clocks that is no problem: build tools and file systems notice more.
const CLOCK_MAX: Duration = Duration::from_secs(1);

/// Number of hosts in a sentence.
const NAMES_MAX: usize = 4;

/// Time for node servers to end, before they are asked by a signal, and before they are killed.
const END_WITHIN: Duration = Duration::from_secs(2);
