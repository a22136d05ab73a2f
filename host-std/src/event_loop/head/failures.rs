//! Failures after which the other ranks of a run on several nodes continue (`--on-exit-error ignore`).

use super::HeadLoop;
use crate::launch::process::ProcessEnd;
use crate::nodes::message::{FailedRanks, HeadMessage};
use crate::report;
use crate::run_report::text;
use crate::verdict::{Failure, NodeLoss, PmiPhase};
use pmi_tree::{Destination, NodeId};
use rustix::process::Signal;

/// Handles the failure of a rank that its node has reported, whose end is known.
pub(super) fn handle_tolerated(head: &mut HeadLoop, failure: &Failure) {
    if head.ending.termination.has_failed() {
        return;
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
    report_tolerated(head, failure);
    publish(head, new);
}

/// Handles the loss of a node, whose ranks count as failed. Returns false if that ends the run.
pub(super) fn tolerate_loss(head: &mut HeadLoop, loss: &NodeLoss, lost: &[u32]) -> bool {
    if !head.summary.continues_after_failures() || head.ending.termination.has_failed() {
        return false;
    }
    report_tolerated(head, &Failure::NodeLost(loss.clone()));
    let end = ProcessEnd::Killed { signal: Signal::KILL.as_raw(), dumped: false };
    publish(head, lost.iter().map(|rank| (*rank, end, PmiPhase::Open)).collect());
    true
}

/// Handles the report of a node that it has contributed to a fence: nodes without a rank contribute as well.
pub(super) fn handle_fence(head: &mut HeadLoop, number: u32) {
    if head.ending.note_fence(number) {
        let empty: Vec<NodeId> = head
            .nodes
            .iter()
            .map(|(node, _)| node)
            .filter(|node| head.nodes.is_empty(*node))
            .collect();
        empty.into_iter().for_each(|node| send_fence(head, node, number));
    }
}

/// Lets a node whose last rank has ended contribute to the fence that ranks of other nodes wait in.
pub(super) fn handle_end(head: &mut HeadLoop, node: NodeId) {
    if let Some(number) = head.ending.entered_fence().filter(|_| head.nodes.is_empty(node)) {
        send_fence(head, node, number);
    }
}

fn send_fence(head: &mut HeadLoop, node: NodeId, number: u32) {
    if !head.ending.is_leaving() {
        head.send(Destination::Node(node), &HeadMessage::FenceEntered(number));
    }
}

fn report_tolerated(head: &mut HeadLoop, failure: &Failure) {
    let what = report::failure(failure, &head.plan, |rank| head.nodes.pid(rank), 0);
    head.summary.record_report(&what);
    head.summary.note_tolerated(failure);
    head.io.report(text::tolerated(&what, head.nodes.running_count()));
}

/// Publishes failed ranks on all nodes.
fn publish(head: &mut HeadLoop, new: Vec<(u32, ProcessEnd, PmiPhase)>) {
    let all = head.nodes.note_failed(new.iter().map(|(rank, ..)| *rank));
    let all = all.iter().copied().take(LISTED_MAX).collect();
    head.send_all(&HeadMessage::Failed(FailedRanks { all, new }));
}

/// Number of ranks that a value can list, at most: each takes a digit and a comma.
const LISTED_MAX: usize = 512;
