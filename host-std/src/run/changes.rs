//! Changes of jobs that all nodes make: in the order in which the head sends them, and answered when all
//! nodes have made them.

use super::Run;
use super::node_requests::{NodeRequests, NodeResult};
use crate::link::message::ToNode;
use crate::operation::{Asker, ChangeResult, JobChange, OperationReply};
use pmi_tree::{Destination, NodeId};

/// Changes that some nodes have not made, with the node of the rank that waits for the answer.
pub(super) type Changes = NodeRequests<(NodeId, Asker), ChangeResult>;

/// The first result that is not done remains.
impl NodeResult for ChangeResult {
    fn merge(&mut self, other: Self) {
        if *self == Self::Done {
            *self = other;
        }
    }
}

/// Has all nodes make a change. False if the node has no such rank, or the run no such job.
pub(super) fn start(
    run: &mut Run,
    from: NodeId,
    (asker, by): (Asker, (u32, u32)),
    change: JobChange,
) -> bool {
    let count = run.nodes.job_count();
    let is_known = match &change {
        JobChange::Connect { one, other, .. } => *one == by.0 && *other < count,
        JobChange::PutAll { job, .. } => *job < count,
    };
    if !is_known || run.nodes.number_on(from, by).is_none() {
        return false;
    }
    let present = run.nodes.iter().filter(|(_, node)| !node.is_lost);
    let waiting = present.map(|(node, _)| node).collect();
    let number = run.operations.changes.open((from, asker), waiting, ChangeResult::Done);
    run.send_all(ToNode::Operation(OperationReply::Change { number, change }));
    true
}

/// Handles the result of a node. False if it has none to give.
pub(super) fn note(run: &mut Run, from: NodeId, number: u32, result: ChangeResult) -> bool {
    // A result of a node that is lost since is expected no more.
    if run.nodes.get(from).is_none_or(|node| node.is_lost) {
        return true;
    }
    let was_waiting = run.operations.changes.note(from, number, result);
    answer_complete(run);
    was_waiting
}

/// Expects no result of a node that is lost.
pub(super) fn handle_loss(run: &mut Run, node: NodeId) {
    run.operations.changes.remove_node(node);
    answer_complete(run);
}

fn answer_complete(run: &mut Run) {
    while let Some(((from, asker), result)) = run.operations.changes.take_complete() {
        // A node that is lost has no rank that waits.
        if run.nodes.get(from).is_some_and(|node| !node.is_lost) {
            let reply = OperationReply::Changed { asker, result };
            run.send(Destination::Node(from), ToNode::Operation(reply));
        }
    }
}
