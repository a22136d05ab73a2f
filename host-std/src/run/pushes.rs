//! Input of tools for ranks of a run on several nodes: the nodes with readers take it, and the tool has its
//! answer when all of them have.

use super::Run;
use super::node_requests::{NodeRequests, NodeResult};
use crate::launch::plan::directives::RankChoice;
use crate::link::message::ToNode;
use crate::numbers::index;
use crate::operation::{OperationReply, PushMessage, PushResult};
use crate::requests::clients::Asked;
use crate::requests::forwarding;
use crate::server::pmix::forwarding::InputPush;
use pmi_core::ids::JobId;
use pmi_tree::{MESSAGE_BYTES_MAX, NodeId};
use std::collections::BTreeSet;

/// Pushes that some nodes have not handled, with the tool that waits for the answer and the number of the
/// request there.
pub(super) type Pushes = NodeRequests<Asked, PushResult>;

impl NodeResult for PushResult {
    fn merge(&mut self, other: Self) {
        *self = (*self).min(other);
    }
}

/// Has the nodes with readers take input. Returns the result if it is known at once.
pub(super) fn start(run: &mut Run, asked: Asked, push: InputPush) -> Option<PushResult> {
    let InputPush { readers, input, is_complete } = push;
    // Nodes take messages up to this size.
    if input.len() > MESSAGE_BYTES_MAX - MESSAGE_ROOM {
        return Some(PushResult::Full);
    }
    let number = |(job, rank): (JobId, _)| Some((run.clients.server.number(job)?, rank));
    let is_for_all = readers.is_empty();
    let readers: Vec<(u32, Option<u32>)> = readers.into_iter().filter_map(number).collect();
    let is_meant = |(job, rank): (u32, u32)| {
        let is_it = |reader: &(u32, Option<u32>)| {
            reader.0 == job && reader.1.is_none_or(|wanted| wanted == rank)
        };
        is_for_all || readers.iter().any(is_it)
    };
    let waiting = nodes_with_readers(run, is_meant);
    if waiting.is_empty() {
        return Some(forwarding::without_input(PushResult::NoReader, &input));
    }
    let nodes: Vec<NodeId> = waiting.iter().copied().collect();
    let number = run.clients.pushes.open(asked, waiting, PushResult::NoReader);
    let message = PushMessage { readers, input, is_complete };
    let message = ToNode::Operation(OperationReply::Push { number, message });
    run.send_each(nodes, message);
    None
}

/// Nodes with a rank that reads pushed input and is meant.
fn nodes_with_readers(run: &Run, is_meant: impl Fn((u32, u32)) -> bool) -> BTreeSet<NodeId> {
    let mut nodes = BTreeSet::new();
    for job in 0..run.nodes.job_count() {
        let (plan, places) = (run.plan(job), run.operations.places(index(job)));
        let (Some(readers), Some(places)) = (plan.pairs.directives.stdin, places) else { continue };
        let ranks = match readers {
            RankChoice::All => 0..plan.started(),
            RankChoice::One(rank) => rank..rank.saturating_add(1),
        };
        let meant = ranks.filter(|rank| is_meant((job, *rank)));
        let places = meant.filter_map(|rank| places.map.node_of(rank));
        let present = |node: &NodeId| run.nodes.get(*node).is_some_and(|node| !node.is_lost);
        nodes.extend(places.map(|node| NodeId(node + 1)).filter(present));
    }
    nodes
}

/// Handles the result of a node. False if it has none to give.
pub(super) fn note(run: &mut Run, from: NodeId, number: u32, result: PushResult) -> bool {
    // A result of a node that is lost since is expected no more.
    if run.nodes.get(from).is_none_or(|node| node.is_lost) {
        return true;
    }
    let was_waiting = run.clients.pushes.note(from, number, result);
    answer_complete(run);
    was_waiting
}

/// Expects no result of a node that is lost.
pub(super) fn handle_loss(run: &mut Run, node: NodeId) {
    run.clients.pushes.remove_node(node);
    answer_complete(run);
}

fn answer_complete(run: &mut Run) {
    while let Some((asked, result)) = run.clients.pushes.take_complete() {
        let status = forwarding::status(result);
        run.clients.server.service.pmix_calls().answer(asked, status);
    }
}

/// Largest part of a message besides the input: readers take a few bytes each.
const MESSAGE_ROOM: usize = 64 << 10;
