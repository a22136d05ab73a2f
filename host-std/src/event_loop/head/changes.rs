//! Changes of jobs that all nodes make: in the order in which the head sends them, and answered when all
//! nodes have made them.

use super::HeadLoop;
use crate::nodes::message::HeadMessage;
use crate::operation::{Asker, ChangeResult, JobChange, OperationReply};
use pmi_tree::{Destination, NodeId};
use std::collections::BTreeSet;

/// Changes that some nodes have not made yet.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Number of the last one.
    last: u32,
    open: Vec<OpenChange>,
}

#[derive(Debug)]
struct OpenChange {
    number: u32,
    /// Node of the rank that waits for the answer.
    from: NodeId,
    asker: Asker,
    /// Nodes that have not made it.
    waiting: BTreeSet<NodeId>,
    /// The first result that is not done, if there is any.
    result: ChangeResult,
}

/// Has all nodes make a change. False if the node has no such rank, or the run no such job.
pub(super) fn start(
    head: &mut HeadLoop,
    from: NodeId,
    (asker, by): (Asker, (u32, u32)),
    change: JobChange,
) -> bool {
    let count = head.nodes.job_count();
    let is_known = match &change {
        JobChange::Connect { one, other, .. } => *one == by.0 && *other < count,
        JobChange::PutAll { job, .. } => *job < count,
    };
    if !is_known || head.nodes.number_on(from, by).is_none() {
        return false;
    }
    let present = head.nodes.iter().filter(|(_, node)| !node.is_lost);
    let waiting = present.map(|(node, _)| node).collect();
    let changes = &mut head.operations.changes;
    changes.last = changes.last.wrapping_add(1);
    let number = changes.last;
    changes.open.push(OpenChange { number, from, asker, waiting, result: ChangeResult::Done });
    head.send_all(&HeadMessage::Operation(OperationReply::Change { number, change }));
    true
}

/// Handles the result of a node. False if it has none to give.
pub(super) fn note(head: &mut HeadLoop, from: NodeId, number: u32, result: ChangeResult) -> bool {
    // A result of a node that is lost since is expected no more.
    if head.nodes.get(from).is_none_or(|node| node.is_lost) {
        return true;
    }
    let mut open = head.operations.changes.open.iter_mut();
    let Some(change) = open.find(|change| change.number == number) else { return false };
    if change.result == ChangeResult::Done {
        change.result = result;
    }
    let was_waiting = change.waiting.remove(&from);
    answer_complete(head);
    was_waiting
}

/// Expects no result of a node that is lost.
pub(super) fn handle_loss(head: &mut HeadLoop, node: NodeId) {
    for change in &mut head.operations.changes.open {
        change.waiting.remove(&node);
    }
    answer_complete(head);
}

fn answer_complete(head: &mut HeadLoop) {
    let open = std::mem::take(&mut head.operations.changes.open);
    let (complete, open) = open.into_iter().partition(|change| change.waiting.is_empty());
    head.operations.changes.open = open;
    for OpenChange { from, asker, result, .. } in complete {
        // A node that is lost has no rank that waits.
        if head.nodes.get(from).is_some_and(|node| !node.is_lost) {
            let reply = OperationReply::Changed { asker, result };
            head.send(Destination::Node(from), &HeadMessage::Operation(reply));
        }
    }
}
