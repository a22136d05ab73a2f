//! Committed data of single ranks, which agents fetch from each other through the head.

use super::{HeadLoop, Operations};
use crate::nodes::message::HeadMessage;
use crate::numbers::index;
use crate::operation::{FetchAnswer, FetchMessage, OperationReply};
use pmi_tree::{Destination, NodeId};

/// Forwards the request of a node to the node of the rank. False if there is no such rank.
pub(super) fn forward(head: &mut HeadLoop, from: NodeId, request: FetchMessage) -> bool {
    let Some(node) = head.operations.node_of(request.job, request.rank) else { return false };
    let is_lost = head.nodes.get(node).is_none_or(|node| node.is_lost);
    let (to, reply) = match is_lost {
        true => (from, OperationReply::Fetched { request, data: None }),
        false => (node, OperationReply::Fetch { node: from.0, request }),
    };
    head.send(Destination::Node(to), &HeadMessage::Operation(reply));
    true
}

/// Passes the answer of a node on to the requesting nodes. False if it is about a rank of another node.
pub(super) fn distribute(head: &mut HeadLoop, from: NodeId, answer: FetchAnswer) -> bool {
    let FetchAnswer { nodes, request, data } = answer;
    if head.operations.node_of(request.job, request.rank) != Some(from) {
        return false;
    }
    let reply = HeadMessage::Operation(OperationReply::Fetched { request, data });
    for node in nodes.into_iter().map(NodeId) {
        // A node that is lost since waits for nothing.
        if head.nodes.get(node).is_some_and(|node| !node.is_lost) {
            head.send(Destination::Node(node), &reply);
        }
    }
    true
}

impl Operations {
    /// Node of a rank of a job; `None` if there is none.
    fn node_of(&self, job: u32, rank: u32) -> Option<NodeId> {
        Some(NodeId(self.places(index(job))?.map.node_of(rank)? + 1))
    }
}
