//! Failures after which other ranks of a run on several nodes continue: all (`--on-exit-error ignore`), or
//! those of other jobs.

use super::{HeadLoop, trace};
use crate::launch::cleanup::control_action::ControlAction;
use crate::launch::start::process::ProcessEnd;
use crate::nodes::message::{FailedRanks, FenceNumber, HeadMessage};
use crate::operation::{ControlMessage, OperationReply};
use crate::report;
use crate::run_report::text;
use crate::verdict::{Failure, NodeLoss, PmiPhase};
use pmi_tree::{Destination, NodeId};
use rustix::process::Signal;

/// Handles the failure of a rank that its node has reported, whose end is known.
pub(super) fn handle_tolerated(head: &mut HeadLoop, job: u32, failure: &Failure) {
    if head.ending.termination.has_failed() {
        return;
    }
    if !head.summary.continues_after_failures() {
        return fail_apart(head, job, failure);
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
    report_tolerated(head, job, failure);
    publish(head, job, new);
}

/// Handles a failure in a spawned job that is connected with no other one: its ranks of all nodes are
/// terminated, and the run continues.
fn fail_apart(head: &mut HeadLoop, job: u32, failure: &Failure) {
    // No other failure has such a job, so the sender is wrong.
    let is_possible = matches!(
        failure,
        Failure::Ended { .. } | Failure::LeftEarly { .. } | Failure::Abort { .. }
    );
    if job == 0 || job >= head.nodes.job_count() || !is_possible {
        return;
    }
    let what = report::failure(failure, head.plan(job), |rank| head.nodes.pid((job, rank)), 0);
    head.summary.record_report(&what);
    head.summary.note_tolerated(failure);
    trace::report(head, text::apart(&what));
    let (targets, actions) = (vec![(job, None)], vec![ControlAction::Terminate]);
    let message = ControlMessage { by: None, targets, cleanup: None, actions };
    head.send_all(&HeadMessage::Operation(OperationReply::Control(message)));
}

/// Handles the loss of a node, whose ranks `lost` count as failed. Returns false if that ends the run.
pub(super) fn tolerate_loss(
    head: &mut HeadLoop,
    node: NodeId,
    (loss, lost): (&NodeLoss, &[(u32, u32)]),
) -> bool {
    if !head.summary.continues_after_failures() || head.ending.termination.has_failed() {
        return false;
    }
    report_tolerated(head, 0, &Failure::NodeLost(loss.clone()));
    head.send_all(&HeadMessage::NodeLost(node.0.saturating_sub(1)));
    let end = ProcessEnd::Killed { signal: Signal::KILL.as_raw(), dumped: false };
    for of_job in lost.chunk_by(|one, other| one.0 == other.0) {
        let job = of_job.first().map_or(0, |(job, _)| *job);
        publish(head, job, of_job.iter().map(|(_, rank)| (*rank, end, PmiPhase::Open)).collect());
    }
    true
}

/// Handles the report of a node that it has contributed to a fence: nodes without a rank contribute as well.
pub(super) fn handle_fence(head: &mut HeadLoop, fence: FenceNumber) {
    if head.ending.note_fence(fence) {
        let empty: Vec<NodeId> = head
            .nodes
            .iter()
            .map(|(node, _)| node)
            .filter(|node| head.nodes.is_empty(*node, fence.job))
            .collect();
        empty.into_iter().for_each(|node| send_fence(head, node, fence));
    }
}

/// Lets a node whose last rank of a job has ended contribute to the fence that ranks of other nodes wait in.
pub(super) fn handle_end(head: &mut HeadLoop, node: NodeId, job: u32) {
    let fence = head.ending.entered_fence(job).filter(|_| head.nodes.is_empty(node, job));
    if let Some(fence) = fence {
        send_fence(head, node, fence);
    }
}

fn send_fence(head: &mut HeadLoop, node: NodeId, fence: FenceNumber) {
    if !head.ending.is_leaving() {
        head.send(Destination::Node(node), &HeadMessage::FenceEntered(fence));
    }
}

fn report_tolerated(head: &mut HeadLoop, job: u32, failure: &Failure) {
    let what = report::failure(failure, head.plan(job), |rank| head.nodes.pid((job, rank)), 0);
    head.summary.record_report(&what);
    head.summary.note_tolerated(failure);
    let text = text::tolerated(&what, head.nodes.remaining_count());
    trace::report(head, text);
}

/// Publishes failed ranks of a job on all nodes.
fn publish(head: &mut HeadLoop, job: u32, new: Vec<(u32, ProcessEnd, PmiPhase)>) {
    let mut all = head.nodes.note_failed(job, new.iter().map(|(rank, ..)| *rank));
    all.truncate(LISTED_MAX);
    head.send_all(&HeadMessage::Failed(FailedRanks { job, all, new }));
}

/// Number of ranks that a value can list, at most: each takes a digit and a comma.
const LISTED_MAX: usize = 512;
