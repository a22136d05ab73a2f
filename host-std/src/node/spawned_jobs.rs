//! Spawned jobs on one node of a run: requests go to the head, and jobs come from it.

use super::Node;
use super::exchange;
use super::spawn::Requester;
use crate::launch::plan::job::{App, Plan};
use crate::launch::plan::local_ranks::LocalRanks;
use crate::launch::plan::spawn_request::SpawnRequest;
use crate::launch::topology::binding::RankCounts;
use crate::launch::topology::places::NodePlaces;
use crate::link::job_message::AppMessage;
use crate::link::message::ToRun;
use crate::link::spawn_message::{SpawnAnswer, SpawnMessage, SpawnNotice, SpawnedJob};
use crate::operation::Asker;
use crate::placement::{NodeMap, PlacedHosts};
use crate::server::event::PendingSpawn;
use crate::server::{changes, nodes};
use crate::verdict::Failure;
use pmi_core::command::CodeRun;
use pmi_core::error::Code;
use pmi_core::ids::{JobId, SessionId};
use pmi_host_os::descriptors::FdBudget;
use rustix::process::Signal;
use std::path::Path;
use std::rc::Rc;

/// Hands a spawn request of a rank up to the head.
pub(super) fn forward(node: &mut Node, who: Requester, request: SpawnRequest) {
    let Requester { job, rank, asked: PendingSpawn { session, exchange } } = who;
    let uplink = &mut node.uplink;
    // The head knows the ranks that make requests.
    uplink.report_starts(&node.processes);
    let exchange = u64::try_from(exchange).unwrap_or(u64::MAX);
    let asker = Asker { session: session.0, exchange };
    let message = SpawnMessage { asker, by: (job.0, rank), request };
    uplink.send(ToRun::Spawn(Box::new(message)));
}

/// Reports to the head that a rank of a spawned job cannot be started. The head has all others killed.
pub(super) fn report_not_started(node: &mut Node, job: JobId, failure: Failure) {
    undo(node, job);
    node.uplink.report_starts(&node.processes);
    node.uplink.send(ToRun::NotStarted { job: job.0, failure });
}

/// Handles a message of the head about a spawned job.
pub(super) fn handle_notice(node: &mut Node, notice: SpawnNotice) {
    match notice {
        SpawnNotice::New(job) => {
            let (number, first) = (JobId(job.job), node.jobs.first());
            if let Err(what) = add_job(node, *job) {
                match node.jobs.get(number) {
                    Some(_) => report_not_started(node, number, Failure::Launcher { what }),
                    None => node.fail(first, Failure::Launcher { what }),
                }
            }
        }
        SpawnNotice::Started { job } => {
            if node.listeners.has_pmix() {
                node.service.pmix_notifier().notify_job_start(JobId(job));
            }
        }
        SpawnNotice::Undone { job } => undo(node, JobId(job)),
        SpawnNotice::Ended { job } => {
            if let Some(network) = node.uplink.link.network() {
                network.end_job(job);
            }
            node.io.outputs.merge().into_iter().for_each(|merge| merge.note_job_end(job));
            if let Some(old) = node.uplink.note_job_end(job) {
                changes::disconnect(&mut node.service, JobId(old));
                node.service.remove_job(JobId(old));
                node.jobs.forget(JobId(old));
            }
            if node.listeners.has_pmix() {
                node.service.pmix_notifier().notify_job_end(JobId(job));
            }
        }
        SpawnNotice::Answer(SpawnAnswer { asker, made, codes }) => {
            let Asker { session, exchange } = asker;
            let exchange = usize::try_from(exchange).unwrap_or(usize::MAX);
            let asked = PendingSpawn { session: SessionId(session), exchange };
            let code = |(count, code): &(u32, i32)| CodeRun { count: *count, code: Code(*code) };
            let codes: Vec<CodeRun> = codes.iter().map(code).collect();
            node.service.answer_spawn(asked, made.map(JobId).map_err(Code), &codes);
        }
    }
}

/// Adds a job, and enqueues its ranks of this node.
///
/// # Errors
///
/// The reason for which they cannot be started; without the job, this node cannot serve the run.
fn add_job(node: &mut Node, job: SpawnedJob) -> Result<(), String> {
    let SpawnedJob { job: number, by: (parent, rank), is_of_tool, mut apps, blocks, .. } = job;
    let SpawnedJob { preputs, directives, added: (start, added), .. } = job;
    let first = node.jobs.plan(node.jobs.first()).and_then(|plan| plan.placement.hosts.clone());
    let parent = node.jobs.plan(JobId(parent)).map(Rc::clone);
    let parent = parent.ok_or(INVALID)?;
    // This node may have joined later than others, and know more hosts than those at the start. One with all
    // ranks knows none.
    let mut hosts = first.as_ref().map_or_else(Vec::new, |first| first.hosts.clone());
    hosts.truncate(usize::try_from(start).unwrap_or(usize::MAX));
    hosts.extend(added);
    let nodes = u32::try_from(hosts.len().max(1)).unwrap_or(u32::MAX);
    let map = NodeMap::of_blocks(&blocks, nodes).ok_or(INVALID)?;
    let own = node.uplink.node();
    let has_ranks = blocks.iter().any(|(of, _)| *of == own);
    let staged = stage(node, (&mut apps, has_ranks), parent.environment.temporary.as_deref());
    let parts: Vec<App> = apps.into_iter().map(App::from).collect();
    let busy = u32::try_from(node.processes.running_count()).unwrap_or(u32::MAX);
    let busy = busy.saturating_add(node.jobs.waiting_count());
    let mut plan = parent.spawned(rank, parts, preputs, number);
    plan.spawner = plan.spawner.filter(|_| !is_of_tool);
    plan.pairs.directives = directives;
    if plan.ranks != map.ranks() {
        return Err(INVALID.to_owned());
    }
    plan.placement.ranks = LocalRanks::of(sorted(map.ranks_of(own)));
    plan.placement.neighbours = busy;
    if let Some(first) = first {
        let hosts = Rc::new(PlacedHosts { hosts, map, ..(*first).clone() });
        node.io.outputs.merge_job(number, &hosts, plan.ranks);
        plan.placement.hosts = Some(hosts);
    }
    let placed = place(&mut plan);
    if let (Ok(()), Some(lease), 1..) = (&placed, &mut node.lease, plan.local()) {
        let ranks = RankCounts { all: plan.ranks, local: plan.local() };
        let (binding, places) = (plan.placement.binding.take(), plan.placement.places.take());
        let chosen = lease.add_job(NodePlaces { binding, places }, ranks);
        (plan.placement.binding, plan.placement.places) = (chosen.binding, chosen.places);
    }
    plan.assign_processors(&node.resources);
    plan.endpoint = node.listeners.endpoint_of_spawned(&parent, plan.ranks);
    prepare_listener(node, &mut plan)?;
    let id = node.service.add_job(&plan).map_err(|error| error.to_string())?;
    node.poller.allow_spinning(plan.leaves_room_to_spin());
    if id.0 != number {
        return Err(INVALID.to_owned());
    }
    let budget = FdBudget {
        ranks: busy.saturating_add(plan.local()),
        pmix: plan.pmix_ranks() + if node.listeners.has_pmix_ranks() { busy } else { 0 },
    };
    let local = plan.local();
    node.jobs.enqueue((id, number), plan);
    // Daemons of a debugger ask their node for jobs of any protocol.
    node.pmix_requests().describe_to_tools();
    exchange::prepare_for_failures(node, id);
    nodes::join_next_without_members(&mut node.service, id);
    if local > 0 {
        node.termination.have_all_ended = false;
        node.io.end_linger();
    }
    node.uplink.note_job();
    let prepared = node.processes.launcher.limit.raise_for(budget);
    prepared.map_err(|error| error.to_string())?;
    staged?;
    placed?;
    node.io.outputs.prepare(number, local).map_err(|error| error.to_string())
}

/// Places the ranks of a job where ranks of the first one have places.
///
/// # Errors
///
/// A sentence for the user.
fn place(plan: &mut Plan) -> Result<(), String> {
    let Some(first) = plan.placement.places.take() else { return Ok(()) };
    let placed = first.of_job(RankCounts { all: plan.ranks, local: plan.local() })?;
    (plan.placement.binding, plan.placement.places) = (placed.binding, placed.places);
    Ok(())
}

/// Makes files of the programs of a job that the head has sent, if it has ranks here.
///
/// # Errors
///
/// A sentence for the user.
fn stage(
    node: &mut Node,
    (apps, has_ranks): (&mut [AppMessage], bool),
    temporary: Option<&Path>,
) -> Result<(), String> {
    let uplink = &mut node.uplink;
    let launcher = &mut node.processes.launcher;
    let had_directory = uplink.programs.directory().is_some();
    let staged = match has_ranks {
        true => AppMessage::stage(apps, &mut uplink.programs, temporary),
        false => Ok(()),
    };
    uplink.programs.drop_arrived();
    if let (Some(guard), Some(directory), false) =
        (&mut launcher.guard, uplink.programs.directory(), had_directory)
    {
        guard.report_directory(directory);
    }
    staged
}

fn prepare_listener(node: &mut Node, plan: &mut Plan) -> Result<(), String> {
    let guard = node.processes.launcher.guard.as_mut();
    node.listeners.open_pmix(plan, guard, &node.poller).map_err(|error| error.to_string())
}

/// Kills the ranks of a job that was not started completely, which is no failure.
fn undo(node: &mut Node, job: JobId) {
    node.jobs.clear_starts_of(job);
    node.jobs.set_unwanted(job);
    node.io.outputs.expect_no_more(Some(job.0));
    if let Some(job) = node.jobs.get(job) {
        let numbers = job.started_ranks().filter_map(|rank| job.process(rank));
        for process in numbers.filter_map(|number| node.processes.running(number)) {
            process.signal(Signal::KILL);
        }
    }
    node.check_all_ended();
}

/// Ranks of a node in ascending order, which several blocks may have.
fn sorted(ranks: impl Iterator<Item = u32>) -> impl Iterator<Item = u32> {
    let mut ranks: Vec<u32> = ranks.collect();
    ranks.sort_unstable();
    ranks.into_iter()
}

const INVALID: &str = "the head sent a spawned job that this node cannot have";
