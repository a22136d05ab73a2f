//! Spawned jobs on one node of a run: requests go to the head, and jobs come from it.

use super::EventLoop;
use super::agent;
use super::spawn::Requester;
use super::uplink::Uplink;
use crate::launch::plan::job::{App, Plan};
use crate::launch::plan::local_ranks::LocalRanks;
use crate::launch::plan::spawn_request::SpawnRequest;
use crate::launch::start::descriptors::FdBudget;
use crate::nodes::job_message::AppMessage;
use crate::nodes::message::AgentMessage;
use crate::nodes::spawn_message::{SpawnAnswer, SpawnMessage, SpawnNotice, SpawnedJob};
use crate::operation::Asker;
use crate::placement::{NodeMap, PlacedHosts};
use crate::server::event::PendingSpawn;
use crate::server::{changes, nodes};
use crate::verdict::Failure;
use pmi_core::command::CodeRun;
use pmi_core::error::Code;
use pmi_core::ids::{JobId, SessionId};
use rustix::process::Signal;
use std::path::Path;
use std::rc::Rc;

/// Hands a spawn request of a rank up to the head.
pub(super) fn forward(run: &mut EventLoop, who: Requester, request: SpawnRequest) {
    let Requester { job, rank, asked: PendingSpawn { session, exchange }, .. } = who;
    let Some(uplink) = &mut run.uplink else { return };
    // The head knows the ranks that make requests.
    uplink.report_starts(&run.processes);
    let exchange = u64::try_from(exchange).unwrap_or(u64::MAX);
    let asker = Asker { session: session.0, exchange };
    let message = SpawnMessage { asker, by: (job.0, rank), request };
    uplink.send(&AgentMessage::Spawn(Box::new(message)));
}

/// Reports to the head that a rank of a spawned job cannot be started. The head has all others killed.
pub(super) fn report_not_started(run: &mut EventLoop, job: JobId, failure: Failure) {
    undo(run, job);
    let Some(uplink) = &mut run.uplink else { return };
    uplink.report_starts(&run.processes);
    uplink.send(&AgentMessage::NotStarted { job: job.0, failure });
}

/// Handles a message of the head about a spawned job.
pub(super) fn handle_notice(run: &mut EventLoop, notice: SpawnNotice) {
    match notice {
        SpawnNotice::New(job) => {
            let (number, first) = (JobId(job.job), run.jobs.first());
            if let Err(what) = add_job(run, *job) {
                match run.jobs.get(number) {
                    Some(_) => report_not_started(run, number, Failure::Launcher { what }),
                    None => run.fail(first, Failure::Launcher { what }),
                }
            }
        }
        SpawnNotice::Started { job } => {
            if run.listeners.has_pmix() {
                run.service.pmix_notifier().notify_job_start(JobId(job));
            }
        }
        SpawnNotice::Undone { job } => undo(run, JobId(job)),
        SpawnNotice::Ended { job } => {
            run.uplink.iter_mut().for_each(|uplink| uplink.network.end_job(job));
            run.io.outputs.merge().into_iter().for_each(|merge| merge.note_job_end(job));
            if let Some(old) = run.uplink.as_mut().and_then(|uplink| uplink.note_job_end(job)) {
                changes::disconnect(&mut run.service, JobId(old));
            }
            if run.listeners.has_pmix() {
                run.service.pmix_notifier().notify_job_end(JobId(job));
            }
        }
        SpawnNotice::Answer(SpawnAnswer { asker, made, codes }) => {
            let Asker { session, exchange } = asker;
            let exchange = usize::try_from(exchange).unwrap_or(usize::MAX);
            let asked = PendingSpawn { session: SessionId(session), exchange };
            let code = |(count, code): &(u32, i32)| CodeRun { count: *count, code: Code(*code) };
            let codes: Vec<CodeRun> = codes.iter().map(code).collect();
            run.service.answer_spawn(asked, made.map(JobId).map_err(Code), &codes);
        }
    }
}

/// Adds a job, and enqueues its ranks of this node.
///
/// # Errors
///
/// The reason for which they cannot be started; without the job, this node cannot serve the run.
fn add_job(run: &mut EventLoop, job: SpawnedJob) -> Result<(), String> {
    let SpawnedJob { job: number, by: (parent, rank), is_of_tool, mut apps, blocks, .. } = job;
    let SpawnedJob { preputs, directives, added: (start, added), .. } = job;
    let first = run.jobs.plan(run.jobs.first()).and_then(|plan| plan.placement.hosts.clone());
    let parent = run.jobs.plan(JobId(parent)).map(Rc::clone);
    let (Some(first), Some(parent)) = (first, parent) else { return Err(INVALID.to_owned()) };
    // This node may have joined later than others, and know more hosts than those at the start.
    let mut hosts = first.hosts.clone();
    hosts.truncate(usize::try_from(start).unwrap_or(usize::MAX));
    hosts.extend(added);
    let nodes = u32::try_from(hosts.len()).unwrap_or(u32::MAX);
    let map = NodeMap::of_blocks(&blocks, nodes).ok_or(INVALID)?;
    let node = run.uplink.as_ref().map_or(0, Uplink::node);
    let has_ranks = blocks.iter().any(|(of, _)| *of == node);
    let staged = stage(run, (&mut apps, has_ranks), parent.environment.temporary.as_deref());
    let parts: Vec<App> = apps.into_iter().map(App::from).collect();
    let busy = u32::try_from(run.processes.running_count()).unwrap_or(u32::MAX);
    let busy = busy.saturating_add(run.jobs.waiting_count());
    let mut plan = parent.spawned(rank, parts, preputs, number);
    plan.spawner = plan.spawner.filter(|_| !is_of_tool);
    plan.pairs.directives = directives;
    if plan.ranks != map.ranks() {
        return Err(INVALID.to_owned());
    }
    plan.placement.ranks = LocalRanks::of(sorted(map.ranks_of(node)));
    plan.placement.neighbours = busy;
    let hosts = Rc::new(PlacedHosts { hosts, map, ..(*first).clone() });
    run.io.outputs.merge_job(number, &hosts, plan.ranks);
    plan.placement.hosts = Some(hosts);
    plan.endpoint = run.listeners.endpoint_of_spawned(&parent, plan.ranks);
    prepare_listener(run, &mut plan)?;
    let id = run.service.add_job(&plan).map_err(|error| error.to_string())?;
    run.poller.allow_spinning(plan.leaves_room_to_spin());
    if id.0 != number {
        return Err(INVALID.to_owned());
    }
    let budget = FdBudget {
        ranks: busy.saturating_add(plan.local()),
        pmix: plan.pmix_ranks() + if run.listeners.has_pmix_ranks() { busy } else { 0 },
    };
    let local = plan.local();
    run.jobs.enqueue((id, number), plan, None);
    // Daemons of a debugger ask their node for jobs of any protocol.
    run.pmix_requests().describe_to_tools();
    agent::prepare_for_failures(run, id);
    nodes::join_next_without_members(&mut run.service, id);
    if local > 0 {
        run.termination.have_all_ended = false;
        run.io.end_linger();
    }
    run.uplink.iter_mut().for_each(|uplink| uplink.note_job());
    let prepared = run.processes.launcher.limit.raise_for(budget);
    prepared.map_err(|error| error.to_string())?;
    staged?;
    run.io.outputs.prepare(number, local).map_err(|error| error.to_string())
}

/// Makes files of the programs of a job that the head has sent, if it has ranks here.
///
/// # Errors
///
/// A sentence for the user.
fn stage(
    run: &mut EventLoop,
    (apps, has_ranks): (&mut [AppMessage], bool),
    temporary: Option<&Path>,
) -> Result<(), String> {
    let Some(uplink) = &mut run.uplink else { return Ok(()) };
    let launcher = &mut run.processes.launcher;
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

fn prepare_listener(run: &mut EventLoop, plan: &mut Plan) -> Result<(), String> {
    let guard = run.processes.launcher.guard.as_mut();
    run.listeners.open_pmix(plan, guard, &run.poller).map_err(|error| error.to_string())
}

/// Kills the ranks of a job that was not started completely, which is no failure.
fn undo(run: &mut EventLoop, job: JobId) {
    run.jobs.clear_starts_of(job);
    run.jobs.set_unwanted(job);
    run.io.outputs.expect_no_more(Some(job.0));
    if let Some(job) = run.jobs.get(job) {
        let numbers = job.started_ranks().filter_map(|rank| job.process(rank));
        for process in numbers.filter_map(|number| run.processes.running(number)) {
            process.signal(Signal::KILL);
        }
    }
    run.check_all_ended();
}

/// Ranks of a node in ascending order, which several blocks may have.
fn sorted(ranks: impl Iterator<Item = u32>) -> impl Iterator<Item = u32> {
    let mut ranks: Vec<u32> = ranks.collect();
    ranks.sort_unstable();
    ranks.into_iter()
}

const INVALID: &str = "the head sent a spawned job that this node cannot have";
