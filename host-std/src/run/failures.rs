//! Failures after which other ranks of a run on several nodes continue: all (`--on-exit-error ignore`), or
//! those of other jobs.

use super::{Run, trace};
use crate::launch::cleanup::control_action::ControlAction;
use crate::launch::start::process::ProcessEnd;
use crate::link::message::{FailedRanks, FenceNumber, ToNode};
use crate::operation::{ControlMessage, OperationReply};
use crate::report;
use crate::run_report::text;
use crate::verdict::{Failure, NodeLoss, PmiPhase};
use pmi_tree::{Destination, NodeId};
use rustix::process::Signal;

/// Handles the failure of a rank that its node has reported, whose end is known.
pub(super) fn handle_tolerated(run: &mut Run, job: u32, failure: &Failure) {
    if run.ending.termination.has_failed() {
        return;
    }
    if !run.summary.continues_after_failures() {
        return fail_apart(run, job, failure);
    }
    let new = match *failure {
        Failure::Ended { rank, ending, phase } => vec![(rank, ending, phase)],
        Failure::LeftEarly { rank, .. } => vec![(rank, ProcessEnd::Exited(0), PmiPhase::Open)],
        // The rank has aborted itself alone.
        Failure::Abort { rank, .. } => {
            vec![(rank, ProcessEnd::Exited(failure.exit_code()), PmiPhase::Open)]
        }
        // No other failure is tolerated, so the sender is wrong.
        _ => return,
    };
    report_tolerated(run, job, failure);
    publish(run, job, new);
}

/// Handles a failure in a spawned job that is connected with no other one: its ranks of all nodes are
/// terminated, and the run continues.
fn fail_apart(run: &mut Run, job: u32, failure: &Failure) {
    // No other failure has such a job, so the sender is wrong.
    if job == 0 || job >= run.nodes.job_count() || !failure.concerns_one_rank() {
        return;
    }
    let what = report::failure(failure, run.plan(job), |rank| run.nodes.pid((job, rank)), 0);
    run.summary.record_report(&what);
    run.summary.note_tolerated(failure);
    trace::report(run, text::apart(&what));
    let (targets, actions) = (vec![(job, None)], vec![ControlAction::Terminate]);
    let message = ControlMessage { by: None, targets, cleanup: None, actions };
    run.send_all(ToNode::Operation(OperationReply::Control(message)));
}

/// Handles the loss of a node, whose ranks `lost` count as failed. Returns false if that ends the run.
pub(super) fn tolerate_loss(
    run: &mut Run,
    node: NodeId,
    (loss, lost): (&NodeLoss, &[(u32, u32)]),
) -> bool {
    if !run.summary.continues_after_failures() || run.ending.termination.has_failed() {
        return false;
    }
    report_tolerated(run, 0, &Failure::NodeLost(loss.clone()));
    run.send_all(ToNode::NodeLost(node.0.saturating_sub(1)));
    let end = ProcessEnd::Killed { signal: Signal::KILL.as_raw(), dumped: false };
    for of_job in lost.chunk_by(|one, other| one.0 == other.0) {
        let job = of_job.first().map_or(0, |(job, _)| *job);
        publish(run, job, of_job.iter().map(|(_, rank)| (*rank, end, PmiPhase::Open)).collect());
    }
    true
}

/// Handles the report of a node that it has contributed to a fence: nodes without a rank contribute as well.
pub(super) fn handle_fence(run: &mut Run, fence: FenceNumber) {
    if run.ending.note_fence(fence) {
        let empty: Vec<NodeId> = run
            .nodes
            .iter()
            .map(|(node, _)| node)
            .filter(|node| run.nodes.is_empty(*node, fence.job))
            .collect();
        empty.into_iter().for_each(|node| send_fence(run, node, fence));
    }
}

/// Lets a node whose last rank of a job has ended contribute to the fence that ranks of other nodes wait in.
pub(super) fn handle_end(run: &mut Run, node: NodeId, job: u32) {
    let fence = run.ending.entered_fence(job).filter(|_| run.nodes.is_empty(node, job));
    if let Some(fence) = fence {
        send_fence(run, node, fence);
    }
}

fn send_fence(run: &mut Run, node: NodeId, fence: FenceNumber) {
    if !run.ending.is_leaving() {
        run.send(Destination::Node(node), ToNode::FenceEntered(fence));
    }
}

fn report_tolerated(run: &mut Run, job: u32, failure: &Failure) {
    let what = report::failure(failure, run.plan(job), |rank| run.nodes.pid((job, rank)), 0);
    run.summary.record_report(&what);
    run.summary.note_tolerated(failure);
    let text = text::tolerated(&what, run.nodes.remaining_count());
    trace::report(run, text);
}

/// Publishes failed ranks of a job on all nodes.
fn publish(run: &mut Run, job: u32, new: Vec<(u32, ProcessEnd, PmiPhase)>) {
    let mut all = run.nodes.note_failed(job, new.iter().map(|(rank, ..)| *rank));
    all.truncate(LISTED_MAX);
    run.send_all(ToNode::Failed(FailedRanks { job, all, new }));
}

/// Number of ranks that a value can list, at most: each takes a digit and a comma.
const LISTED_MAX: usize = 512;
