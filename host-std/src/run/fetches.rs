//! Committed data of single ranks, which nodes fetch from each other through the head.

use super::{Operations, Run};
use crate::link::message::ToNode;
use crate::numbers::index;
use crate::operation::{FetchAnswer, FetchMessage, OperationReply};
use pmi_tree::{Destination, NodeId};

/// Forwards the request of a node to the node of the rank. False if there is no such rank.
pub(super) fn forward(run: &mut Run, from: NodeId, request: FetchMessage) -> bool {
    let Some(node) = run.operations.node_of(request.job, request.rank) else { return false };
    let is_lost = run.nodes.get(node).is_none_or(|node| node.is_lost);
    let (to, reply) = match is_lost {
        true => (from, OperationReply::Fetched { request, data: None }),
        false => (node, OperationReply::Fetch { node: from.0, request }),
    };
    run.send(Destination::Node(to), ToNode::Operation(reply));
    true
}

/// Passes the answer of a node on to the requesting nodes. False if it is about a rank of another node.
pub(super) fn distribute(run: &mut Run, from: NodeId, answer: FetchAnswer) -> bool {
    let FetchAnswer { nodes, request, data } = answer;
    if run.operations.node_of(request.job, request.rank) != Some(from) {
        return false;
    }
    let reply = ToNode::Operation(OperationReply::Fetched { request, data });
    // A node that is lost since waits for nothing.
    let is_there = |node: &NodeId| run.nodes.get(*node).is_some_and(|node| !node.is_lost);
    let nodes: Vec<NodeId> = nodes.into_iter().map(NodeId).filter(is_there).collect();
    run.send_each(nodes, reply);
    true
}

impl Operations {
    /// Node of a rank of a job; `None` if there is none.
    fn node_of(&self, job: u32, rank: u32) -> Option<NodeId> {
        Some(NodeId(self.places(index(job))?.map.node_of(rank)? + 1))
    }
}
