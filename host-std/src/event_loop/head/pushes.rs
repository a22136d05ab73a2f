//! Input of tools for ranks of a run on several nodes: the nodes with readers take it, and the tool has its
//! answer when all of them have.

use super::super::forwarding;
use super::HeadLoop;
use super::node_requests::{NodeRequests, NodeResult};
use crate::launch::plan::directives::RankChoice;
use crate::nodes::message::HeadMessage;
use crate::numbers::index;
use crate::operation::{OperationReply, PushMessage, PushResult};
use crate::server::pmix::forwarding::InputPush;
use pmi_core::ids::{JobId, SessionId};
use pmi_core::wire::pmix::names::Status;
use pmi_tree::{Destination, MESSAGE_BYTES_MAX, NodeId};
use std::collections::BTreeSet;

/// Pushes that some nodes have not handled, with the tool that waits for the answer and the number of the
/// request there.
pub(super) type Pushes = NodeRequests<(SessionId, usize), PushResult>;

impl NodeResult for PushResult {
    fn merge(&mut self, other: Self) {
        *self = (*self).min(other);
    }
}

/// Has the nodes with readers take input. Returns the status of the answer if it is known at once.
pub(super) fn start(
    head: &mut HeadLoop,
    asked: (SessionId, usize),
    push: InputPush,
) -> Option<Status> {
    let InputPush { readers, input, is_complete } = push;
    // Nodes take messages up to this size.
    if input.len() > MESSAGE_BYTES_MAX - MESSAGE_ROOM {
        return Some(Status::OUT_OF_RESOURCE);
    }
    let number = |(job, rank): (JobId, _)| Some((head.clients.server.number(job)?, rank));
    let is_for_all = readers.is_empty();
    let readers: Vec<(u32, Option<u32>)> = readers.into_iter().filter_map(number).collect();
    let is_meant = |(job, rank): (u32, u32)| {
        let is_it = |reader: &(u32, Option<u32>)| {
            reader.0 == job && reader.1.is_none_or(|wanted| wanted == rank)
        };
        is_for_all || readers.iter().any(is_it)
    };
    let waiting = nodes_with_readers(head, is_meant);
    if waiting.is_empty() {
        let result = forwarding::without_input(PushResult::NoReader, &input);
        return Some(forwarding::status(result));
    }
    let nodes: Vec<NodeId> = waiting.iter().copied().collect();
    let number = head.clients.pushes.open(asked, waiting, PushResult::NoReader);
    let message = PushMessage { readers, input, is_complete };
    let message = HeadMessage::Operation(OperationReply::Push { number, message });
    nodes.into_iter().for_each(|node| head.send(Destination::Node(node), &message));
    None
}

/// Nodes with a rank that reads pushed input and is meant.
fn nodes_with_readers(head: &HeadLoop, is_meant: impl Fn((u32, u32)) -> bool) -> BTreeSet<NodeId> {
    let mut nodes = BTreeSet::new();
    for job in 0..head.nodes.job_count() {
        let (plan, places) = (head.plan(job), head.operations.places(index(job)));
        let (Some(readers), Some(places)) = (plan.pairs.directives.stdin, places) else { continue };
        let ranks = match readers {
            RankChoice::All => 0..plan.started(),
            RankChoice::One(rank) => rank..rank.saturating_add(1),
        };
        let meant = ranks.filter(|rank| is_meant((job, *rank)));
        let places = meant.filter_map(|rank| places.map.node_of(rank));
        let present = |node: &NodeId| head.nodes.get(*node).is_some_and(|node| !node.is_lost);
        nodes.extend(places.map(|node| NodeId(node + 1)).filter(present));
    }
    nodes
}

/// Handles the result of a node. False if it has none to give.
pub(super) fn note(head: &mut HeadLoop, from: NodeId, number: u32, result: PushResult) -> bool {
    // A result of a node that is lost since is expected no more.
    if head.nodes.get(from).is_none_or(|node| node.is_lost) {
        return true;
    }
    let was_waiting = head.clients.pushes.note(from, number, result);
    answer_complete(head);
    was_waiting
}

/// Expects no result of a node that is lost.
pub(super) fn handle_loss(head: &mut HeadLoop, node: NodeId) {
    head.clients.pushes.remove_node(node);
    answer_complete(head);
}

fn answer_complete(head: &mut HeadLoop) {
    while let Some((asked, result)) = head.clients.pushes.take_complete() {
        let status = forwarding::status(result);
        head.clients.server.service.pmix_calls().answer(asked, status);
    }
}

/// Largest part of a message besides the input: readers take a few bytes each.
const MESSAGE_ROOM: usize = 64 << 10;
