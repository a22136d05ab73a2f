//! Data that ranks have exchanged before a node joined the run: another node sends it, once that has all
//! results that the new node does not receive. Results that the new one receives are held until then.

use super::{Node, exchange};
use crate::link::message::{ToNode, ToRun};
use crate::server::nodes;
use pmi_core::ids::JobId;
use pmi_tree::{Class, CollectiveId, Destination, NodeId};
use std::collections::VecDeque;
use std::rc::Rc;

/// Data for nodes that join later, and for this one if it does.
#[derive(Debug, Default)]
pub(crate) struct EarlierData {
    /// Results that are held; `None` unless this node waits for data.
    held: Option<VecDeque<HeldResult>>,
    /// New nodes that wait for data of this one, each with the number of the last result that it lacks.
    requests: Vec<(u32, u64)>,
}

/// Result of a collective operation that is not applied.
#[derive(Debug)]
pub(crate) struct HeldResult {
    pub(crate) id: CollectiveId,
    pub(crate) data: Rc<[u8]>,
    pub(crate) members: u64,
}

impl EarlierData {
    /// Holds results until the data is there if this node `joins_late`.
    pub(crate) fn new(joins_late: bool) -> Self {
        Self { held: joins_late.then(VecDeque::new), requests: Vec::new() }
    }

    /// Holds a result if the data is not there; else returns it.
    pub(crate) fn hold(&mut self, result: HeldResult) -> Option<HeldResult> {
        match &mut self.held {
            Some(held) => {
                held.push_back(result);
                None
            }
            None => Some(result),
        }
    }

    /// Adds a new node that waits for data.
    pub(crate) fn request(&mut self, node: u32, ended: u64) {
        self.requests.push((node, ended));
    }

    /// Takes a new node out that lacks results up to one of those before `ended`.
    fn take_due(&mut self, ended: u64) -> Option<u32> {
        let at = self.requests.iter().position(|(_, needed)| *needed <= ended)?;
        Some(self.requests.swap_remove(at).0)
    }
}

/// Sends data to new nodes, once this one has applied all results that they lack.
pub(crate) fn answer(node: &mut Node) {
    loop {
        let uplink = &mut node.uplink;
        // A run that hosts join has node servers.
        let Some(ended) = uplink.link.network().map(|network| network.ended()) else { return };
        let Some(new) = uplink.earlier.take_due(ended) else { return };
        let mut messages = Vec::new();
        for job in 0..node.jobs.next_group() {
            let pieces = nodes::earlier_data(&mut node.service, JobId(job), PIECE_BYTES);
            messages.extend(pieces.into_iter().map(|data| ToNode::Earlier { job, data }));
        }
        messages.push(ToNode::EarlierEnded);
        let Some(network) = node.uplink.link.network() else { return };
        for message in messages {
            // Only a node without a head cannot send, and it ends.
            let to = Destination::Node(NodeId(new));
            let _ = network.send(to, Class::Control, message.body());
        }
        node.uplink.send(ToRun::EarlierSent { node: new });
    }
}

/// Applies the results that were held for the data, which is there now.
pub(crate) fn release(node: &mut Node) {
    let held = node.uplink.earlier.held.take();
    held.into_iter().flatten().for_each(|result| exchange::end_fence(node, &result));
}

/// Most bytes of a message, unless one record has more.
const PIECE_BYTES: usize = 1 << 20;
