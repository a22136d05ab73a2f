//! Requests that several nodes handle, and whose answer follows when all of them have. No system calls.

use pmi_tree::NodeId;
use std::collections::BTreeSet;

/// Requests that some nodes have not handled, each with the address `A` of its answer and the result `R` so
/// far.
#[derive(Debug)]
pub(super) struct NodeRequests<A, R> {
    /// Number of the last one.
    last: u32,
    open: Vec<NodeRequest<A, R>>,
}

#[derive(Debug)]
struct NodeRequest<A, R> {
    number: u32,
    asked: A,
    /// Nodes that have not handled it.
    waiting: BTreeSet<NodeId>,
    result: R,
}

/// Result of a node, which becomes part of that of all nodes.
pub(super) trait NodeResult {
    /// Adds the result of another node.
    fn merge(&mut self, other: Self);
}

impl<A, R> Default for NodeRequests<A, R> {
    fn default() -> Self {
        Self { last: 0, open: Vec::new() }
    }
}

impl<A, R: NodeResult> NodeRequests<A, R> {
    /// Opens a request to the nodes in `waiting`, which has `result` if these have none. Returns its number.
    pub(super) fn open(&mut self, asked: A, waiting: BTreeSet<NodeId>, result: R) -> u32 {
        self.last = self.last.wrapping_add(1);
        self.open.push(NodeRequest { number: self.last, asked, waiting, result });
        self.last
    }

    /// Adds the result of a node. False if it has none to give.
    pub(super) fn note(&mut self, from: NodeId, number: u32, result: R) -> bool {
        let mut open = self.open.iter_mut();
        let Some(request) = open.find(|request| request.number == number) else { return false };
        request.result.merge(result);
        request.waiting.remove(&from)
    }

    /// Expects no result of a node that is lost.
    pub(super) fn remove_node(&mut self, node: NodeId) {
        for request in &mut self.open {
            request.waiting.remove(&node);
        }
    }

    /// A request that all nodes have handled, and its result.
    pub(super) fn take_complete(&mut self) -> Option<(A, R)> {
        let at = self.open.iter().position(|request| request.waiting.is_empty())?;
        let NodeRequest { asked, result, .. } = self.open.remove(at);
        Some((asked, result))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl NodeResult for u32 {
        fn merge(&mut self, other: Self) {
            *self += other;
        }
    }

    #[test]
    fn request_is_complete_with_the_results_of_all_nodes_that_are_left() {
        let mut requests = NodeRequests::default();
        let nodes = |nodes: &[u32]| nodes.iter().copied().map(NodeId).collect();
        let first = requests.open('a', nodes(&[1, 2, 3]), 0);
        let second = requests.open('b', nodes(&[3]), 0);
        assert!(requests.note(NodeId(1), first, 10) && requests.note(NodeId(3), second, 1));
        assert!(!requests.note(NodeId(1), first, 0), "it has given its result");
        assert!(!requests.note(NodeId(1), 9, 0), "there is no such request");
        assert_eq!(requests.take_complete(), Some(('b', 1)));
        assert_eq!(requests.take_complete(), None);
        requests.remove_node(NodeId(2));
        assert_eq!(requests.take_complete(), None);
        assert!(requests.note(NodeId(3), first, 20));
        assert_eq!(requests.take_complete(), Some(('a', 30)));
    }
}
