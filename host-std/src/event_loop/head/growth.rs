//! Hosts that are added to the run, by spawn requests or because their start was slow: their node servers
//! join the tree and receive all jobs so far, and then ranks of new jobs.

use super::super::spawn::LATE;
use super::spawn::{self, SpawnOrigin};
use super::{HeadLoop, changes, pushes, trace};
use crate::cli::hosts::allocated;
use crate::launch::plan::hosts::is_here;
use crate::launch::plan::spawn_request::SpawnRequest;
use crate::nodes::failed_host::{FailedHost, LateHost, hosts_not_added, late_host_failed};
use crate::nodes::job_message::{AppMessage, JobMessage};
use crate::nodes::message::HeadMessage;
use crate::nodes::spawn_message::{SpawnNotice, SpawnedJob};
use crate::numbers::index;
use crate::placement::PlacedHosts;
use crate::placement::allocation::Allocation;
use crate::report;
use crate::stream::Stream;
use crate::verdict::Failure;
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
    /// Description of the first job, for nodes that join.
    description: JobMessage,
    /// Messages with the spawned jobs, in the order of their numbers, which begin at 1.
    spawned: Vec<Vec<u8>>,
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
    pub(super) fn new(first: &JobMessage, late: Vec<LateHost>) -> Self {
        let mut description = first.clone();
        // Nodes that join later start no rank of it.
        description.apps.iter_mut().for_each(AppMessage::clear_sent);
        Self {
            waiting: Vec::new(),
            late,
            first_added: first.hosts.len(),
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

    /// Adds the message with the next spawned job, and returns it.
    pub(super) fn add_job(&mut self, job: SpawnedJob) -> Vec<u8> {
        let message = HeadMessage::Spawn(SpawnNotice::New(Box::new(job))).body();
        self.spawned.push(message.clone());
        message
    }

    /// Message with the first job for nodes that join, on these hosts.
    fn describe(&self, hosts: &[String]) -> Vec<u8> {
        let description = JobMessage { hosts: hosts.to_vec(), ..self.description.clone() };
        HeadMessage::Job(Box::new(description)).body()
    }

    /// Time at which the hosts of a request must be there, or at which a start is tried again.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let waiting = self.waiting.iter().filter_map(|one| one.deadline);
        waiting.chain(self.late.iter().filter_map(LateHost::retry_at)).min()
    }
}

/// Handles a spawn request after these hosts were added, and all new nodes have the data of the jobs.
pub(super) fn begin(
    head: &mut HeadLoop,
    hosts: Vec<(String, u32)>,
    (from, request): (SpawnOrigin, SpawnRequest),
) {
    let deadline = request.timeout().map(|timeout| Instant::now() + timeout);
    let is_starting = false;
    head.jobs.growth.waiting.push(AddingSpawn { hosts, from, request, deadline, is_starting });
    advance(head);
}

/// True if a spawn has to wait for new nodes.
pub(super) fn is_settling(head: &HeadLoop) -> bool {
    !head.jobs.growth.awaited.is_empty()
}

/// Starts node servers on the hosts whose start was slow.
pub(super) fn await_late(head: &mut HeadLoop) {
    let late = head.jobs.growth.late.iter().filter(|host| host.retry_at().is_none());
    let names: Vec<String> = late.map(|host| host.name.clone()).collect();
    if let Err(why) = head.servers.await_hosts(&names) {
        // The start of the others is tried again later.
        head.jobs.growth.late.retain(|host| host.retry_at().is_some());
        trace::report(head, why);
    }
}

/// Starts node servers for the next request that lacks hosts, and handles those that lack none.
fn advance(head: &mut HeadLoop) {
    let mut at = 0;
    while let Some(one) = head.jobs.growth.waiting.get(at) {
        let is_lacking = |(name, _): &&(String, u32)| !head.is_present(name);
        let names = one.hosts.iter().filter(is_lacking).map(|(name, _)| name.clone());
        let lacking: Vec<String> = names.collect();
        // A host that is on its way joins by itself.
        let new: Vec<String> =
            lacking.iter().filter(|name| !head.servers.is_awaited(name)).cloned().collect();
        let is_any_starting = head.jobs.growth.waiting.iter().any(|one| one.is_starting);
        if lacking.is_empty() && head.jobs.growth.awaited.is_empty() {
            let AddingSpawn { from, request, .. } = head.jobs.growth.waiting.remove(at);
            spawn::handle(head, (from, None), request);
            // It may have changed anything.
            at = 0;
            continue;
        }
        if !new.is_empty() && !is_any_starting {
            let allowed = check_allocated(head, &new);
            match allowed.and_then(|()| head.servers.add_hosts(&new)) {
                Ok(()) => head.jobs.growth.waiting[at].is_starting = true,
                Err(why) => {
                    refuse_at(head, at, why);
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
fn check_allocated(head: &HeadLoop, names: &[String]) -> Result<(), String> {
    let Some(starter) = head.servers.starter_of_allocation() else { return Ok(()) };
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
///
/// # Errors
///
/// Errors of the system.
pub(super) fn handle_joined(head: &mut HeadLoop) -> io::Result<()> {
    let mut waiting = head.jobs.growth.waiting.iter_mut();
    let Some(one) = waiting.find(|one| one.is_starting) else { return Ok(()) };
    one.is_starting = false;
    let hosts = one.hosts.clone();
    let new = head.servers.admit(head.nodes.job_count(), &head.poller)?;
    let slots = |name: &str| hosts.iter().find(|(other, _)| other == name).map(|(_, slots)| *slots);
    let new = new.into_iter().map(|(node, name)| {
        let slots = slots(&name).unwrap_or(1);
        (node, NewHost { name, slots, late: None })
    });
    add_nodes(head, new.collect());
    Ok(())
}

/// Handles a node server of a host whose start was slow.
///
/// # Errors
///
/// Errors of the system.
pub(super) fn handle_late_joined(head: &mut HeadLoop, candidate: u32) -> io::Result<()> {
    let new = head.servers.admit_late(candidate, head.nodes.job_count(), &head.poller)?;
    let late = &mut head.jobs.growth.late;
    let new = new.into_iter().map(|(node, name)| {
        let at = late.iter().position(|host| host.name == name);
        let late = at.map(|at| late.swap_remove(at));
        let slots = late.as_ref().map_or(1, |host| host.slots);
        (node, NewHost { name, slots, late })
    });
    let new = new.collect();
    add_nodes(head, new);
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
fn add_nodes(head: &mut HeadLoop, new: Vec<(NodeId, NewHost)>) {
    let known = Rc::clone(head.jobs.placed());
    let (mut hosts, mut slots) = (known.hosts.clone(), known.slots.clone());
    for (_, host) in &new {
        head.nodes.add_node(&host.name);
        hosts.push(host.name.clone());
        slots.push(host.slots);
    }
    let all = u32::try_from(hosts.len()).unwrap_or(u32::MAX);
    let map = known.map.clone().with_nodes(all);
    head.jobs.set_placed(Rc::new(PlacedHosts { hosts, slots, map, ..(*known).clone() }));
    let description = head.jobs.growth.describe(&head.jobs.placed().hosts);
    for (node, host) in new {
        describe_run(head, node, description.clone());
        head.jobs.growth.awaited.insert(node, host.late);
    }
    head.reports.excuse_stall();
    request_data(head);
}

/// Has a node that was there before send the data of all jobs to those that lack it.
fn request_data(head: &mut HeadLoop) {
    let is_there =
        |node: &NodeId| head.nodes.get(*node).is_some_and(|node| !node.is_lost && !node.is_new);
    let all = head.nodes.iter().map(|(node, _)| node);
    let by = head.jobs.growth.waiting.iter().find_map(|one| one.from.node());
    let source = by.into_iter().chain(all).find(is_there);
    head.jobs.growth.source = source;
    let ended = head.servers.network.ended();
    let awaited: Vec<NodeId> = head.jobs.growth.awaited.keys().copied().collect();
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
        note_settled(head, NodeId(node));
        check_data(head);
    }
}

/// Records that a new node has the data of all jobs, or needs none.
fn note_settled(head: &mut HeadLoop, node: NodeId) {
    if let Some(Some(host)) = head.jobs.growth.awaited.remove(&node) {
        trace::report(head, report::late_host(&host.name, host.since.elapsed()));
    }
}

/// Handles the loss of a node that sends or awaits data.
pub(super) fn handle_loss(head: &mut HeadLoop, node: NodeId) {
    let growth = &mut head.jobs.growth;
    let was_awaited = growth.awaited.remove(&node).is_some();
    if growth.source == Some(node) && !growth.awaited.is_empty() {
        request_data(head);
    } else if was_awaited {
        check_data(head);
    }
}

/// Handles requests once all new nodes have all data.
fn check_data(head: &mut HeadLoop) {
    let growth = &mut head.jobs.growth;
    if growth.awaited.is_empty() {
        growth.source = None;
        advance(head);
    } else if growth.source.is_none() {
        // No node has any data.
        let awaited: Vec<NodeId> = growth.awaited.keys().copied().collect();
        awaited.into_iter().for_each(|node| note_settled(head, node));
        advance(head);
    }
}

/// Sends a new node all jobs so far, the first one by this message.
fn describe_run(head: &mut HeadLoop, node: NodeId, description: Vec<u8>) {
    let to = Destination::Node(node);
    head.send_body(to, description);
    for job in 1..head.nodes.job_count() {
        let message = head.jobs.growth.spawned.get(index(job - 1)).cloned();
        message.into_iter().for_each(|message| head.send_body(to, message));
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

/// Handles hosts of a request on which no node server could be started.
pub(super) fn handle_failed(head: &mut HeadLoop, failed: &[FailedHost]) {
    if let Some(at) = head.jobs.growth.waiting.iter().position(|one| one.is_starting) {
        refuse_at(head, at, hosts_not_added(failed));
    }
    advance(head);
}

/// Handles a host that was to join the run, and whose start has failed.
pub(super) fn handle_late_failed(head: &mut HeadLoop, failed: &FailedHost) {
    let pause = head.servers.start_timeout();
    let is_ending = head.ending.has_begun();
    let late = &mut head.jobs.growth.late;
    let host = late.iter_mut().find(|host| host.name == failed.name && !is_ending);
    let next = host.and_then(|host| host.fail(Instant::now(), pause));
    if next.is_none() {
        late.retain(|host| host.name != failed.name);
    }
    trace::report(head, late_host_failed(failed, next));
    refuse_for(head, &failed.name, hosts_not_added(std::slice::from_ref(failed)));
    advance(head);
}

/// Starts node servers again on hosts where that has failed, if it is time.
fn retry_late(head: &mut HeadLoop, now: Instant) {
    let pause = head.servers.start_timeout();
    if head.ending.has_begun() {
        return head.jobs.growth.late.retain(|host| host.retry_at().is_none());
    }
    let late = head.jobs.growth.late.iter_mut();
    let due = late.filter_map(|host| host.takes_retry(now).then(|| host.name.clone()));
    for name in Vec::from_iter(due) {
        let is_present = head.is_present(&name);
        // A spawn that names the host has node servers started on it, too.
        let starting = head.jobs.growth.waiting.iter().filter(|one| one.is_starting);
        let is_added = { starting }.any(|one| one.hosts.iter().any(|(other, _)| *other == name));
        let is_early = head.jobs.is_unsent();
        let late = &mut head.jobs.growth.late;
        if is_present {
            late.retain(|host| host.name != name);
        } else if is_added || is_early {
            let host = late.iter_mut().find(|host| host.name == name);
            host.into_iter().for_each(|host| host.put_off(now, pause));
        } else if let Err(why) = head.servers.await_hosts(std::slice::from_ref(&name)) {
            late.retain(|host| host.name != name);
            trace::report(head, why);
        }
    }
}

/// Refuses requests whose hosts are not there in time, and starts node servers again.
///
/// # Errors
///
/// Errors of the system.
pub(super) fn check_late(head: &mut HeadLoop, now: Instant) -> io::Result<()> {
    retry_late(head, now);
    let is_late = |one: &AddingSpawn| one.deadline.is_some_and(|deadline| now >= deadline);
    let mut is_any = false;
    while let Some(at) = head.jobs.growth.waiting.iter().position(is_late) {
        if head.jobs.growth.waiting[at].is_starting {
            head.servers.withdraw(&head.poller)?;
        }
        refuse_at(head, at, LATE);
        is_any = true;
    }
    if is_any {
        advance(head);
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
    let mut is_reported = !starting.is_empty();
    for job in starting {
        let what = what.clone();
        spawn::handle_not_started(head, job, &Failure::Launcher { what });
    }
    if head.jobs.growth.awaited.contains_key(&node) {
        is_reported |= refuse_for(head, &host, what);
    }
    if !is_reported {
        let what =
            format!("host {host}, which was added, has left the run, which continues: {why}");
        trace::report(head, what);
    }
    head.reports.remove_node(node);
    head.clients.queries.remove_node(node);
    changes::handle_loss(head, node);
    pushes::handle_loss(head, node);
    handle_loss(head, node);
}

/// Refuses all requests for a host, unless they start it; false if there are none.
fn refuse_for(head: &mut HeadLoop, host: &str, why: impl Display) -> bool {
    let is_for =
        |one: &AddingSpawn| !one.is_starting && one.hosts.iter().any(|(name, _)| name == host);
    let mut is_any = false;
    while let Some(at) = head.jobs.growth.waiting.iter().position(is_for) {
        refuse_at(head, at, &why);
        is_any = true;
    }
    is_any
}

fn refuse_at(head: &mut HeadLoop, at: usize, why: impl Display) {
    let AddingSpawn { from, .. } = head.jobs.growth.waiting.remove(at);
    spawn::refuse_added(head, from, why);
}

/// Most names of hosts in a sentence.
const SHOWN_MAX: usize = 8;
