//! Debuggers of a run on several nodes: ranks that wait for one, and daemons beside jobs.

use super::Run;
use crate::launch::cleanup::control_action::ControlAction;
use crate::launch::plan::debugger_daemons::NodeRuns;
use crate::launch::plan::directives::{JobDirectives, RankChoice};
use crate::launch::plan::job::Plan;
use crate::launch::start::gdb::{GdbPanes, HeldRank};
use crate::link::message::ToNode;
use crate::numbers::index;
use crate::operation::{ControlMessage, OperationReply, StopMessage};
use crate::report;
use pmi_core::wire::pmix::WILDCARD;
use pmi_tree::NodeId;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Processes of one host that execute the same program.
#[derive(Debug)]
pub(crate) struct PartProcesses {
    /// Name of the host.
    pub(crate) host: String,
    /// Name of the program.
    pub(crate) program: String,
    /// Processes, in the order of ranks.
    pub(crate) pids: Vec<i32>,
}

/// Ranks of a job that wait for a debugger at the same place.
#[derive(Debug, Default)]
pub(super) struct StoppedRanks(BTreeSet<u32>);

impl StoppedRanks {
    /// Adds a rank of a job with this number of ranks. Returns the rank to report once all wait that were
    /// told to, [`WILDCARD`] for all; the next one waits at another place.
    fn add(&mut self, directives: &JobDirectives, rank: u32, rank_count: u32) -> Option<u32> {
        self.0.insert(rank);
        let JobDirectives { stop_in_init, stop_in_app, .. } = directives;
        let awaits_all = [stop_in_init, stop_in_app].contains(&&Some(RankChoice::All));
        let has_all = self.0.len() >= index(rank_count);
        // A rank that stops by itself is reported at once.
        if awaits_all && !has_all {
            return None;
        }
        self.0.clear();
        Some(if has_all { WILDCARD } else { rank })
    }
}

/// Ranks that wait for a debugger, by job.
pub(super) type StoppedJobs = BTreeMap<u32, StoppedRanks>;

/// Handles a rank of a node that waits for a debugger. False if the node has no such rank.
pub(super) fn note_stopped(run: &mut Run, from: NodeId, message: StopMessage) -> bool {
    let StopMessage { job, rank, breakpoint } = message;
    if run.nodes.number_on(from, (job, rank)).is_none() {
        return false;
    }
    let plan = Rc::clone(run.plan(job));
    let stopped = run.clients.stopped.entry(job).or_default();
    if let Some(rank) = stopped.add(&plan.pairs.directives, rank, plan.started()) {
        notify(run, StopMessage { job, rank, breakpoint });
    }
    true
}

/// Tells debuggers of a job that all its ranks run, if some of them have stopped at their first instruction.
pub(super) fn note_job_start(run: &mut Run, job: u32) {
    if let Some(stopped) = run.plan(job).pairs.directives.stop_on_exec {
        notify(run, StopMessage { job, rank: stopped.number(), breakpoint: "exec".to_owned() });
    }
}

/// Tells tools, which connect to the head, and daemons, which connect to their nodes.
fn notify(run: &mut Run, message: StopMessage) {
    let job = run.clients.server.job(message.job).filter(|_| run.clients.listeners.has_pmix());
    if let Some(job) = job {
        let mut notifier = run.clients.server.service.pmix_notifier();
        notifier.notify_ready_for_debug((job, message.rank), &message.breakpoint);
    }
    run.send_all(ToNode::Operation(OperationReply::Stopped(message)));
}

/// Nodes of the processes of the job with this name, in the order of its ranks.
pub(super) fn nodes_of(run: &Run, nspace: &str) -> Option<NodeRuns> {
    let number = run.clients.server.number_of(nspace.as_bytes())?;
    let places = run.operations.places(index(number))?;
    let started = usize::try_from(run.plan(number).started()).unwrap_or(usize::MAX);
    let mut runs = NodeRuns::new();
    for node in places.map.nodes_by_rank().take(started) {
        match runs.last_mut().filter(|(last, _)| *last == node) {
            Some((_, ranks)) => *ranks += 1,
            None => runs.push((node, 1)),
        }
    }
    Some(runs)
}

/// Terminates daemons of debuggers once no other process runs or is about to.
pub(super) fn dismiss_daemons(run: &mut Run) {
    let jobs = 0..run.nodes.job_count();
    let (daemons, others): (Vec<u32>, Vec<u32>) =
        jobs.partition(|job| run.plan(*job).pairs.directives.are_daemons);
    if others.into_iter().any(|job| !run.nodes.has_job_ended(job)) {
        return;
    }
    let running = daemons.into_iter().filter(|job| !run.nodes.has_job_ended(*job));
    let targets: Vec<(u32, Option<u32>)> = running.map(|job| (job, None)).collect();
    if !targets.is_empty() && !run.ending.termination.has_failed() {
        let actions = vec![ControlAction::Terminate];
        let message = ControlMessage { by: None, targets, cleanup: None, actions };
        run.send_all(ToNode::Operation(OperationReply::Control(message)));
    }
}

/// Publishes the processes of the first job, all of which were started, and lets a debugger attach to them.
/// Jobs that ranks spawn are not in the table.
pub(super) fn publish(run: &mut Run) {
    if std::mem::replace(&mut run.clients.is_published, true) {
        return;
    }
    let plan = Rc::clone(run.plan(0));
    let mut parts: Vec<PartProcesses> = Vec::new();
    let mut last = None;
    for rank in 0..plan.started() {
        let Some(pid) = run.nodes.pid((0, rank)) else { continue };
        let part = (plan.appnum(rank), plan.host_of(rank));
        if last != Some(part) {
            let (program, host) = (plan.program_name(rank), part.1.to_owned());
            parts.push(PartProcesses { host, program, pids: Vec::new() });
            last = Some(part);
        }
        if let Some(part) = parts.last_mut() {
            part.pids.push(pid);
        }
    }
    run.clients.published = Some(parts);
    open_gdb(run, &plan);
}

/// Opens the debuggers of ranks that start in one, and tells the user where they are.
fn open_gdb(run: &mut Run, plan: &Plan) {
    if plan.pairs.directives.gdb.is_none() {
        return;
    }
    let ranks = (0..plan.started()).filter(|rank| plan.pairs.directives.has_gdb(*rank));
    let held = ranks.filter_map(|rank| Some(HeldRank { rank, pid: run.nodes.pid((0, rank))? }));
    let held: Vec<HeldRank> = held.collect();
    match GdbPanes::open(&held, run.link.guard_mark().as_deref()) {
        Ok(panes) => {
            run.io.report(report::in_gdb(plan, &held, &panes.hint()));
            run.reports.gdb = Some(panes);
        }
        Err(why) => {
            run.io.report(why);
            for rank in held {
                run.io.report(report::awaits_gdb(plan, rank));
            }
        }
    }
}

/// Forgets a job that has ended.
pub(super) fn note_job_end(run: &mut Run, job: u32) {
    run.clients.stopped.remove(&job);
}
