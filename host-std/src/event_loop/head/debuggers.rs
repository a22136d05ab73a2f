//! Debuggers of a run on several nodes: ranks that wait for one, and daemons beside jobs.

use super::super::debugger::StoppedRanks;
use super::HeadLoop;
use crate::launch::cleanup::control_action::ControlAction;
use crate::launch::plan::debugger_daemons::NodeRuns;
use crate::nodes::message::HeadMessage;
use crate::numbers::index;
use crate::operation::{ControlMessage, OperationReply, StopMessage};
use pmi_tree::NodeId;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Ranks that wait for a debugger, by job.
pub(super) type StoppedJobs = BTreeMap<u32, StoppedRanks>;

/// Handles a rank of a node that waits for a debugger. False if the node has no such rank.
pub(super) fn note_stopped(head: &mut HeadLoop, from: NodeId, message: StopMessage) -> bool {
    let StopMessage { job, rank, breakpoint } = message;
    if head.nodes.number_on(from, (job, rank)).is_none() {
        return false;
    }
    let plan = Rc::clone(head.plan(job));
    let stopped = head.clients.stopped.entry(job).or_default();
    if let Some(rank) = stopped.add(&plan.pairs.directives, rank, plan.started()) {
        notify(head, StopMessage { job, rank, breakpoint });
    }
    true
}

/// Tells debuggers of a job that all its ranks run, if some of them have stopped at their first instruction.
pub(super) fn note_job_start(head: &mut HeadLoop, job: u32) {
    if let Some(stopped) = head.plan(job).pairs.directives.stop_on_exec {
        notify(head, StopMessage { job, rank: stopped.number(), breakpoint: "exec".to_owned() });
    }
}

/// Tells tools, which connect to the head, and daemons, which connect to their nodes.
fn notify(head: &mut HeadLoop, message: StopMessage) {
    let job = head.clients.server.job(message.job).filter(|_| head.clients.listeners.has_pmix());
    if let Some(job) = job {
        let mut notifier = head.clients.server.service.pmix_notifier();
        notifier.notify_ready_for_debug((job, message.rank), &message.breakpoint);
    }
    head.send_all(&HeadMessage::Operation(OperationReply::Stopped(message)));
}

/// Nodes of the processes of the job with this name, in the order of its ranks.
pub(super) fn nodes_of(head: &HeadLoop, nspace: &str) -> Option<NodeRuns> {
    let number = head.clients.server.number_of(nspace.as_bytes())?;
    let places = head.operations.places(index(number))?;
    let started = usize::try_from(head.plan(number).started()).unwrap_or(usize::MAX);
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
pub(super) fn dismiss_daemons(head: &mut HeadLoop) {
    let jobs = 0..head.nodes.job_count();
    let (daemons, others): (Vec<u32>, Vec<u32>) =
        jobs.partition(|job| head.plan(*job).pairs.directives.are_daemons);
    if others.into_iter().any(|job| !head.nodes.has_job_ended(job)) {
        return;
    }
    let running = daemons.into_iter().filter(|job| !head.nodes.has_job_ended(*job));
    let targets: Vec<(u32, Option<u32>)> = running.map(|job| (job, None)).collect();
    if !targets.is_empty() && !head.ending.termination.has_failed() {
        let actions = vec![ControlAction::Terminate];
        let message = ControlMessage { by: None, targets, cleanup: None, actions };
        head.send_all(&HeadMessage::Operation(OperationReply::Control(message)));
    }
}

/// Forgets a job that has ended.
pub(super) fn note_job_end(head: &mut HeadLoop, job: u32) {
    head.clients.stopped.remove(&job);
}
