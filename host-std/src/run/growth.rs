//! Hosts that are added to the run, by spawn requests or because their start was slow: their node servers
//! join the tree and receive all jobs so far, and then ranks of new jobs.

use super::spawn::{self, SpawnOrigin};
use super::{Run, changes, pushes, trace};
use crate::cli::hosts::allocated;
use crate::launch::plan::spawn_request::SpawnRequest;
use crate::link::job_message::{AppMessage, JobMessage};
use crate::link::message::ToNode;
use crate::link::spawn_message::SpawnNotice;
use crate::numbers::index;
use crate::placement::PlacedHosts;
use crate::placement::allocation::Allocation;
use crate::report;
use crate::requests::LATE;
use crate::verdict::Failure;
use pmi_host_os::clock;
use pmi_host_os::host_name::is_here;
use pmi_host_os::stream::Stream;
use pmi_nodes::failed_host::{FailedHost, LateHost, hosts_not_added, late_host_failed};
use pmi_nodes::start::NodeServers;
use pmi_tree::{Destination, NodeId};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io;
use std::rc::Rc;
use std::time::Instant;

/// Growth of a run on several nodes.
pub(super) struct HeadGrowth {
    /// Requests that wait for hosts.
    waiting: Vec<AddingSpawn>,
    /// Hosts whose start was slow or has failed, until they have come, or are not tried again.
    late: Vec<LateHost>,
    /// Number of hosts at the start.
    first_added: usize,
    /// Description of the first job, for nodes that join; `None` if none can.
    description: Option<JobMessage>,
    /// Messages with the spawned jobs, in the order of their numbers, which begin at 1.
    spawned: Vec<ToNode>,
    /// New nodes that have not received the data of the jobs. A host whose start was slow is reported then.
    awaited: BTreeMap<NodeId, Option<LateHost>>,
    /// Node that sends the data.
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
    /// True while node servers are started for it.
    is_starting: bool,
}

impl HeadGrowth {
    /// The growth of a run whose first job has this description, and which these hosts join when they come.
    pub(super) fn new(first: Option<&JobMessage>, hosts: usize, late: Vec<LateHost>) -> Self {
        let mut description = first.cloned();
        if let Some(description) = &mut description {
            // Nodes that join later start no rank of it.
            description.apps.iter_mut().for_each(AppMessage::clear_sent);
        }
        Self {
            waiting: Vec::new(),
            late,
            first_added: hosts,
            description,
            spawned: Vec::new(),
            awaited: BTreeMap::new(),
            source: None,
        }
    }

    /// Names of the hosts that were added, and the number of those before them.
    pub(super) fn added(&self, hosts: &[String]) -> (u32, Vec<String>) {
        let added = hosts.get(self.first_added..).unwrap_or_default().to_vec();
        (u32::try_from(self.first_added).unwrap_or(u32::MAX), added)
    }

    /// Keeps the message with the next spawned job for nodes that join.
    pub(super) fn add_job(&mut self, message: &ToNode) {
        if self.description.is_some() {
            self.spawned.push(message.clone());
        }
    }

    /// Message with the first job for nodes that join, on these hosts.
    fn describe(&self, hosts: &[String]) -> Option<ToNode> {
        let description = self.description.clone()?;
        let description = JobMessage { hosts: hosts.to_vec(), ..description };
        Some(ToNode::Job(Box::new(description)))
    }

    /// Time at which the hosts of a request must be there, or at which a start is tried again.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let waiting = self.waiting.iter().filter_map(|one| one.deadline);
        waiting.chain(self.late.iter().filter_map(LateHost::retry_at)).min()
    }
}

/// Handles a spawn request after these hosts were added, and all new nodes have the data of the jobs.
pub(super) fn begin(
    run: &mut Run,
    hosts: Vec<(String, u32)>,
    (from, request): (SpawnOrigin, SpawnRequest),
) {
    let deadline = request.timeout().map(|timeout| clock::now() + timeout);
    let is_starting = false;
    run.jobs.growth.waiting.push(AddingSpawn { hosts, from, request, deadline, is_starting });
    advance(run);
}

/// True if a spawn has to wait for new nodes.
pub(super) fn is_settling(run: &Run) -> bool {
    !run.jobs.growth.awaited.is_empty()
}

/// Starts node servers on the hosts whose start was slow.
pub(super) fn await_late(run: &mut Run) {
    let late = run.jobs.growth.late.iter().filter(|host| host.retry_at().is_none());
    let names: Vec<String> = late.map(|host| host.name.clone()).collect();
    let Some(servers) = run.link.servers() else { return };
    if let Err(why) = servers.await_hosts(&names) {
        // The start of the others is tried again later.
        run.jobs.growth.late.retain(|host| host.retry_at().is_some());
        trace::report(run, why);
    }
}

/// Starts node servers for the next request that lacks hosts, and handles those that lack none.
fn advance(run: &mut Run) {
    let mut at = 0;
    while let Some(one) = run.jobs.growth.waiting.get(at) {
        let is_lacking = |(name, _): &&(String, u32)| !run.is_present(name);
        let names = one.hosts.iter().filter(is_lacking).map(|(name, _)| name.clone());
        let lacking: Vec<String> = names.collect();
        // A host that is on its way joins by itself.
        let Some(servers) = run.link.servers() else { return };
        let new: Vec<String> =
            lacking.iter().filter(|name| !servers.is_awaited(name)).cloned().collect();
        let is_any_starting = run.jobs.growth.waiting.iter().any(|one| one.is_starting);
        if lacking.is_empty() && run.jobs.growth.awaited.is_empty() {
            let AddingSpawn { from, request, .. } = run.jobs.growth.waiting.remove(at);
            spawn::handle(run, (from, None), request);
            // It may have changed anything.
            at = 0;
            continue;
        }
        if !new.is_empty() && !is_any_starting {
            let allowed = check_allocated(servers, &new);
            match allowed.and_then(|()| servers.add_hosts(&new)) {
                Ok(()) => run.jobs.growth.waiting[at].is_starting = true,
                Err(why) => {
                    refuse_at(run, at, why);
                    continue;
                }
            }
        }
        at += 1;
    }
}

/// Checks that the starter reaches these hosts, if it reaches those of an allocation only.
///
/// # Errors
///
/// A message for the user, with the remedy.
fn check_allocated(servers: &NodeServers, names: &[String]) -> Result<(), String> {
    let Some(starter) = servers.starter_of_allocation() else { return Ok(()) };
    // Where that is not described, the starter reports what it does not reach.
    let Ok(Some(Allocation { hosts, .. })) = allocated() else { return Ok(()) };
    let hosts: Vec<&str> = hosts.hosts().iter().map(|host| &*host.name).collect();
    let is_one = |name: &&String| hosts.iter().any(|host| is_here(name, host));
    let Some(name) = names.iter().find(|name| !is_one(name)) else { return Ok(()) };
    let shown = hosts[..hosts.len().min(SHOWN_MAX)].join(", ");
    let more = if hosts.len() > SHOWN_MAX { ", …" } else { "" };
    Err(format!(
        "host '{name}' is not in the allocation, and '{starter}' starts node servers on its hosts only; \
         name one of them ({shown}{more}), or run with '--starter ssh'"
    ))
}

/// Handles node servers that are connected on all hosts of a request.
pub(super) fn handle_joined(run: &mut Run) -> io::Result<()> {
    let mut waiting = run.jobs.growth.waiting.iter_mut();
    let Some(one) = waiting.find(|one| one.is_starting) else { return Ok(()) };
    one.is_starting = false;
    let hosts = one.hosts.clone();
    let Some(servers) = run.link.servers() else { return Ok(()) };
    let new = servers.admit(run.nodes.job_count(), &run.poller)?;
    let slots = |name: &str| hosts.iter().find(|(other, _)| other == name).map(|(_, slots)| *slots);
    let new = new.into_iter().map(|(node, name)| {
        let slots = slots(&name).unwrap_or(1);
        (node, NewHost { name, slots, late: None })
    });
    add_nodes(run, new.collect());
    Ok(())
}

/// Handles a node server of a host whose start was slow.
pub(super) fn handle_late_joined(run: &mut Run, candidate: u32) -> io::Result<()> {
    let Some(servers) = run.link.servers() else { return Ok(()) };
    let new = servers.admit_late(candidate, run.nodes.job_count(), &run.poller)?;
    let late = &mut run.jobs.growth.late;
    let new = new.into_iter().map(|(node, name)| {
        let at = late.iter().position(|host| host.name == name);
        let late = at.map(|at| late.swap_remove(at));
        let slots = late.as_ref().map_or(1, |host| host.slots);
        (node, NewHost { name, slots, late })
    });
    let new = new.collect();
    add_nodes(run, new);
    Ok(())
}

/// Host of a new node.
struct NewHost {
    name: String,
    slots: u32,
    /// Its start, if that was slow.
    late: Option<LateHost>,
}

/// Adds nodes, which are in the tree, to the run.
fn add_nodes(run: &mut Run, new: Vec<(NodeId, NewHost)>) {
    let known = Rc::clone(run.jobs.placed());
    let (mut hosts, mut slots) = (known.hosts.clone(), known.slots.clone());
    for (_, host) in &new {
        run.nodes.add_node(&host.name);
        hosts.push(host.name.clone());
        slots.push(host.slots);
    }
    let all = u32::try_from(hosts.len()).unwrap_or(u32::MAX);
    let map = known.map.clone().with_nodes(all);
    run.jobs.set_placed(Rc::new(PlacedHosts { hosts, slots, map, ..(*known).clone() }));
    let description = run.jobs.growth.describe(&run.jobs.placed().hosts);
    for (node, host) in new {
        if let Some(description) = &description {
            describe_run(run, node, description.clone());
        }
        run.jobs.growth.awaited.insert(node, host.late);
    }
    run.reports.excuse_stall();
    request_data(run);
}

/// Has a node that was there before send the data of all jobs to those that lack it.
fn request_data(run: &mut Run) {
    let is_there =
        |node: &NodeId| run.nodes.get(*node).is_some_and(|node| !node.is_lost && !node.is_new);
    let all = run.nodes.iter().map(|(node, _)| node);
    let by = run.jobs.growth.waiting.iter().find_map(|one| one.from.node());
    let source = by.into_iter().chain(all).find(is_there);
    run.jobs.growth.source = source;
    let ended = run.link.servers().map_or(0, |servers| servers.network.ended());
    let awaited: Vec<NodeId> = run.jobs.growth.awaited.keys().copied().collect();
    for node in awaited.into_iter().map(|node| node.0) {
        if let Some(source) = source {
            run.send(Destination::Node(source), ToNode::SendEarlier { node, ended });
        }
    }
    check_data(run);
}

/// Handles the report of a node that it has sent a new one the data of all jobs.
pub(super) fn handle_sent(run: &mut Run, from: NodeId, node: u32) {
    if run.jobs.growth.source == Some(from) {
        note_settled(run, NodeId(node));
        check_data(run);
    }
}

/// Records that a new node has the data of all jobs, or needs none.
fn note_settled(run: &mut Run, node: NodeId) {
    if let Some(Some(host)) = run.jobs.growth.awaited.remove(&node) {
        trace::report(run, report::late_host(&host.name, clock::since(host.since)));
    }
}

/// Handles the loss of a node that sends or awaits data.
pub(super) fn handle_loss(run: &mut Run, node: NodeId) {
    let growth = &mut run.jobs.growth;
    let was_awaited = growth.awaited.remove(&node).is_some();
    if growth.source == Some(node) && !growth.awaited.is_empty() {
        request_data(run);
    } else if was_awaited {
        check_data(run);
    }
}

/// Handles requests once all new nodes have all data.
fn check_data(run: &mut Run) {
    let growth = &mut run.jobs.growth;
    if growth.awaited.is_empty() {
        growth.source = None;
        advance(run);
    } else if growth.source.is_none() {
        // No node has any data.
        let awaited: Vec<NodeId> = growth.awaited.keys().copied().collect();
        awaited.into_iter().for_each(|node| note_settled(run, node));
        advance(run);
    }
}

/// Sends a new node all jobs so far, the first one by this message.
fn describe_run(run: &mut Run, node: NodeId, description: ToNode) {
    let to = Destination::Node(node);
    run.send(to, description);
    for job in 1..run.nodes.job_count() {
        let message = run.jobs.growth.spawned.get(index(job - 1)).cloned();
        if let Some(message) = message {
            run.send(to, message);
        }
        if run.nodes.is_undone(job) {
            run.send(to, ToNode::Spawn(SpawnNotice::Undone { job }));
        }
        if run.nodes.has_job_ended(job) {
            run.send(to, ToNode::Spawn(SpawnNotice::Ended { job }));
        }
    }
    for stream in Stream::BOTH {
        if run.io.outputs.is_closed(stream) {
            run.send(to, ToNode::CloseOutput(stream));
        }
    }
}

/// Handles hosts of a request on which no node server could be started.
pub(super) fn handle_failed(run: &mut Run, failed: &[FailedHost]) {
    if let Some(at) = run.jobs.growth.waiting.iter().position(|one| one.is_starting) {
        refuse_at(run, at, hosts_not_added(failed));
    }
    advance(run);
}

/// Handles a host that was to join the run, and whose start has failed.
pub(super) fn handle_late_failed(run: &mut Run, failed: &FailedHost) {
    let pause = run.link.start_timeout();
    let is_ending = run.ending.has_begun();
    let late = &mut run.jobs.growth.late;
    let host = late.iter_mut().find(|host| host.name == failed.name && !is_ending);
    let next = host.and_then(|host| host.fail(clock::now(), pause));
    if next.is_none() {
        late.retain(|host| host.name != failed.name);
    }
    trace::report(run, late_host_failed(failed, next));
    refuse_for(run, &failed.name, hosts_not_added(std::slice::from_ref(failed)));
    advance(run);
}

/// Starts node servers again on hosts where that has failed, if it is time.
fn retry_late(run: &mut Run, now: Instant) {
    let pause = run.link.start_timeout();
    if run.ending.has_begun() {
        return run.jobs.growth.late.retain(|host| host.retry_at().is_none());
    }
    let late = run.jobs.growth.late.iter_mut();
    let due = late.filter_map(|host| host.takes_retry(now).then(|| host.name.clone()));
    for name in Vec::from_iter(due) {
        let is_present = run.is_present(&name);
        // A spawn that names the host has node servers started on it, too.
        let starting = run.jobs.growth.waiting.iter().filter(|one| one.is_starting);
        let is_added = { starting }.any(|one| one.hosts.iter().any(|(other, _)| *other == name));
        let is_early = run.jobs.is_unsent();
        let late = &mut run.jobs.growth.late;
        if is_present {
            late.retain(|host| host.name != name);
        } else if is_added || is_early {
            let host = late.iter_mut().find(|host| host.name == name);
            host.into_iter().for_each(|host| host.put_off(now, pause));
        } else if let Some(servers) = run.link.servers()
            && let Err(why) = servers.await_hosts(std::slice::from_ref(&name))
        {
            late.retain(|host| host.name != name);
            trace::report(run, why);
        }
    }
}

/// Refuses requests whose hosts are not there in time, and starts node servers again.
pub(super) fn check_late(run: &mut Run, now: Instant) -> io::Result<()> {
    retry_late(run, now);
    let is_late = |one: &AddingSpawn| one.deadline.is_some_and(|deadline| now >= deadline);
    let mut is_any = false;
    while let Some(at) = run.jobs.growth.waiting.iter().position(is_late) {
        if run.jobs.growth.waiting[at].is_starting
            && let Some(servers) = run.link.servers()
        {
            servers.withdraw(&run.poller)?;
        }
        refuse_at(run, at, LATE);
        is_any = true;
    }
    if is_any {
        advance(run);
    }
    Ok(())
}

/// Drops a node that has joined and ends before any rank of it has started: the jobs with ranks on it are
/// undone, and the run continues.
pub(super) fn drop_node(run: &mut Run, node: NodeId, why: &str) {
    let host = run.nodes.get(node).map(|node| node.host.clone()).unwrap_or_default();
    let starting = run.nodes.starting_on(node);
    run.nodes.note_loss(node);
    run.link.exclude(node);
    let what = format!("host {host}, which was added, cannot serve it: {why}");
    let mut is_reported = !starting.is_empty();
    for job in starting {
        let what = what.clone();
        spawn::handle_not_started(run, job, &Failure::Launcher { what });
    }
    if run.jobs.growth.awaited.contains_key(&node) {
        is_reported |= refuse_for(run, &host, what);
    }
    if !is_reported {
        let what =
            format!("host {host}, which was added, has left the run, which continues: {why}");
        trace::report(run, what);
    }
    run.reports.remove_node(node);
    run.clients.queries.remove_node(node);
    changes::handle_loss(run, node);
    pushes::handle_loss(run, node);
    handle_loss(run, node);
}

/// Refuses all requests for a host, unless they start it; false if there are none.
fn refuse_for(run: &mut Run, host: &str, why: impl Display) -> bool {
    let is_for =
        |one: &AddingSpawn| !one.is_starting && one.hosts.iter().any(|(name, _)| name == host);
    let mut is_any = false;
    while let Some(at) = run.jobs.growth.waiting.iter().position(is_for) {
        refuse_at(run, at, &why);
        is_any = true;
    }
    is_any
}

fn refuse_at(run: &mut Run, at: usize, why: impl Display) {
    let AddingSpawn { from, .. } = run.jobs.growth.waiting.remove(at);
    spawn::refuse_added(run, from, why);
}

/// Most names of hosts in a sentence.
const SHOWN_MAX: usize = 8;
