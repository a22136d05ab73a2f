//! Hosts that spawn requests add to the run: their node servers join the tree, receive all jobs so far, and
//! then the ranks of the new one.

use super::super::spawn::LATE;
use super::spawn::{self, SpawnOrigin};
use super::{HeadLoop, changes, pushes};
use crate::launch::spawn_request::SpawnRequest;
use crate::nodes::failed_host::{FailedHost, hosts_not_added};
use crate::nodes::job_message::{AppMessage, JobMessage};
use crate::nodes::message::HeadMessage;
use crate::nodes::spawn_message::{SpawnNotice, SpawnedJob};
use crate::placement::PlacedHosts;
use crate::stream::Stream;
use crate::verdict::Failure;
use pmi_tree::{Destination, NodeId};
use std::collections::{BTreeSet, VecDeque};
use std::fmt::Display;
use std::io;
use std::rc::Rc;
use std::time::Instant;

/// Growth of a run on several nodes.
pub(super) struct HeadGrowth {
    /// Requests that wait for hosts, of which those of the first one are being added.
    waiting: VecDeque<AddingSpawn>,
    /// Number of hosts at the start.
    first_added: usize,
    /// Description of the first job, for nodes that join.
    description: JobMessage,
    /// Spawned jobs, in the order of their numbers.
    spawned: Vec<SpawnedJob>,
    /// New nodes that have not received the data of the jobs, and the node that sends it.
    awaited: BTreeSet<NodeId>,
    source: Option<NodeId>,
}

/// A spawn request that waits for hosts.
struct AddingSpawn {
    /// Names, and numbers of slots.
    hosts: Vec<(String, u32)>,
    from: SpawnOrigin,
    request: SpawnRequest,
    /// Time at which the hosts must be there; `None` without a limit of its own.
    deadline: Option<Instant>,
    /// True once the hosts are in the run.
    is_admitted: bool,
}

impl HeadGrowth {
    /// The growth of a run whose first job has this description.
    pub(super) fn new(first: &JobMessage) -> Self {
        let mut description = first.clone();
        // Nodes that join later start no rank of it.
        description.apps.iter_mut().for_each(AppMessage::clear_sent);
        Self {
            waiting: VecDeque::new(),
            first_added: first.hosts.len(),
            description,
            spawned: Vec::new(),
            awaited: BTreeSet::new(),
            source: None,
        }
    }

    /// Names of the hosts that were added, and the number of those before them.
    pub(super) fn added(&self, hosts: &[String]) -> (u32, Vec<String>) {
        let added = hosts.get(self.first_added..).unwrap_or_default().to_vec();
        (u32::try_from(self.first_added).unwrap_or(u32::MAX), added)
    }

    /// Adds the next spawned job.
    pub(super) fn add_job(&mut self, job: SpawnedJob) {
        self.spawned.push(job);
    }

    /// Time at which the hosts must be there.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.waiting.iter().filter_map(|one| one.deadline).min()
    }
}

/// Adds hosts before a spawn request is handled.
pub(super) fn begin(
    head: &mut HeadLoop,
    hosts: Vec<(String, u32)>,
    (from, request): (SpawnOrigin, SpawnRequest),
) {
    let deadline = request.timeout().map(|timeout| Instant::now() + timeout);
    head.jobs.growth.waiting.push_back(AddingSpawn {
        hosts,
        from,
        request,
        deadline,
        is_admitted: false,
    });
    if head.jobs.growth.waiting.len() == 1 {
        start_next(head);
    }
}

/// Starts node servers for the request that has waited longest.
fn start_next(head: &mut HeadLoop) {
    while let Some(first) = head.jobs.growth.waiting.front() {
        let known = &head.jobs.placed().hosts;
        let names = first.hosts.iter().map(|(name, _)| name).filter(|name| !known.contains(name));
        let names: Vec<String> = names.cloned().collect();
        let started = if names.is_empty() { None } else { Some(head.servers.add_hosts(&names)) };
        match started {
            Some(Ok(())) => return,
            Some(Err(why)) => refuse_first(head, why),
            // An earlier request has added them.
            None => spawn_first(head),
        }
    }
}

/// Handles node servers that are connected on all hosts of the first request.
///
/// # Errors
///
/// Errors of the system.
pub(super) fn handle_joined(head: &mut HeadLoop) -> io::Result<()> {
    let known = Rc::clone(head.jobs.placed());
    let Some(first) = head.jobs.growth.waiting.front_mut() else { return Ok(()) };
    first.is_admitted = true;
    let is_new = |(name, _): &&(String, u32)| !known.hosts.contains(name);
    let new: Vec<(String, u32)> = first.hosts.iter().filter(is_new).cloned().collect();
    let former = known.hosts.len();
    let (mut hosts, mut slots) = (known.hosts.clone(), known.slots.clone());
    for (name, count) in new {
        head.nodes.add_node(&name);
        hosts.push(name);
        slots.push(count);
    }
    let all = u32::try_from(hosts.len()).unwrap_or(u32::MAX);
    let placed =
        PlacedHosts { hosts, slots, map: known.map.clone().with_nodes(all), ..(*known).clone() };
    let first_job = head.nodes.job_count();
    head.servers.admit(first_job, &head.poller)?;
    let nodes = former + 1..=placed.hosts.len();
    let nodes = nodes.filter_map(|node| u32::try_from(node).ok()).map(NodeId);
    let nodes: BTreeSet<NodeId> = nodes.collect();
    head.jobs.set_placed(Rc::new(placed));
    nodes.iter().for_each(|node| describe_run(head, *node));
    head.reports.excuse_stall();
    head.jobs.growth.awaited.extend(&nodes);
    request_data(head);
    Ok(())
}

/// Has a node that was there before send the data of all jobs to those that lack it.
fn request_data(head: &mut HeadLoop) {
    let by = match head.jobs.growth.waiting.front().map(|first| first.from) {
        Some(SpawnOrigin::Rank(node, ..)) => Some(node),
        _ => None,
    };
    let is_there =
        |node: &NodeId| head.nodes.get(*node).is_some_and(|node| !node.is_lost && !node.is_new);
    let all = head.nodes.iter().map(|(node, _)| node);
    let source = by.into_iter().chain(all).find(is_there);
    head.jobs.growth.source = source;
    let ended = head.servers.network.ended();
    let awaited: Vec<NodeId> = head.jobs.growth.awaited.iter().copied().collect();
    for node in awaited.into_iter().map(|node| node.0) {
        if let Some(source) = source {
            head.send(Destination::Node(source), &HeadMessage::SendEarlier { node, ended });
        }
    }
    check_data(head);
}

/// Handles the report of a node that it has sent a new one the data of all jobs.
pub(super) fn handle_sent(head: &mut HeadLoop, from: NodeId, node: u32) {
    if head.jobs.growth.source == Some(from) {
        head.jobs.growth.awaited.remove(&NodeId(node));
        check_data(head);
    }
}

/// Handles the loss of a node that sends or awaits data.
pub(super) fn handle_loss(head: &mut HeadLoop, node: NodeId) {
    let growth = &mut head.jobs.growth;
    let was_awaited = growth.awaited.remove(&node);
    if growth.source == Some(node) && !growth.awaited.is_empty() {
        request_data(head);
    } else if was_awaited {
        check_data(head);
    }
}

/// Handles the first request once its nodes have all data.
fn check_data(head: &mut HeadLoop) {
    let growth = &mut head.jobs.growth;
    if growth.awaited.is_empty() {
        growth.source = None;
        if growth.waiting.front().is_some_and(|first| first.is_admitted) {
            spawn_first(head);
            start_next(head);
        }
    }
}

/// Sends a new node all jobs so far.
fn describe_run(head: &mut HeadLoop, node: NodeId) {
    let mut description = head.jobs.growth.description.clone();
    description.hosts = head.jobs.placed().hosts.clone();
    let to = Destination::Node(node);
    head.send(to, &HeadMessage::Job(Box::new(description)));
    for spawned in head.jobs.growth.spawned.clone() {
        let job = spawned.job;
        head.send(to, &HeadMessage::Spawn(SpawnNotice::New(Box::new(spawned))));
        if head.nodes.is_undone(job) {
            head.send(to, &HeadMessage::Spawn(SpawnNotice::Undone { job }));
        }
        if head.nodes.has_job_ended(job) {
            head.send(to, &HeadMessage::Spawn(SpawnNotice::Ended { job }));
        }
    }
    for stream in Stream::BOTH {
        if head.io.outputs.is_closed(stream) {
            head.send(to, &HeadMessage::CloseOutput(stream));
        }
    }
}

/// Handles hosts of the first request on which no node server could be started.
pub(super) fn handle_failed(head: &mut HeadLoop, failed: &[FailedHost]) {
    refuse_first(head, hosts_not_added(failed));
    start_next(head);
}

/// Refuses requests whose hosts are not there in time.
///
/// # Errors
///
/// Errors of the system.
pub(super) fn check_late(head: &mut HeadLoop, now: Instant) -> io::Result<()> {
    let is_late = |one: &AddingSpawn| one.deadline.is_some_and(|deadline| now >= deadline);
    while let Some(at) = head.jobs.growth.waiting.iter().position(is_late) {
        if at == 0 {
            head.servers.withdraw(&head.poller)?;
        }
        if let Some(late) = head.jobs.growth.waiting.remove(at) {
            spawn::refuse_added(head, late.from, LATE);
        }
        if at == 0 {
            start_next(head);
        }
    }
    Ok(())
}

/// Drops a node that has joined and ends before any rank of it has started: the jobs with ranks on it are
/// undone, and the run continues.
pub(super) fn drop_node(head: &mut HeadLoop, node: NodeId, why: &str) {
    let host = head.nodes.get(node).map(|node| node.host.clone()).unwrap_or_default();
    let starting = head.nodes.starting_on(node);
    head.nodes.note_loss(node);
    head.servers.network.exclude(node);
    let what = format!("host {host}, which was added, cannot serve it: {why}");
    for job in starting {
        let what = what.clone();
        spawn::handle_not_started(head, job, &Failure::Launcher { what });
    }
    if head.jobs.growth.awaited.contains(&node) {
        refuse_first(head, what);
        start_next(head);
    }
    head.reports.remove_node(node);
    head.clients.queries.remove_node(node);
    changes::handle_loss(head, node);
    pushes::handle_loss(head, node);
    handle_loss(head, node);
}

fn spawn_first(head: &mut HeadLoop) {
    if let Some(AddingSpawn { from, request, .. }) = head.jobs.growth.waiting.pop_front() {
        spawn::handle(head, (from, None), request);
    }
}

fn refuse_first(head: &mut HeadLoop, why: impl Display) {
    if let Some(AddingSpawn { from, .. }) = head.jobs.growth.waiting.pop_front() {
        spawn::refuse_added(head, from, why);
    }
}
