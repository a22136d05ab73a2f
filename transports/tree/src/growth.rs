//! Nodes that join a tree whose operations have begun.
//!
//! The head tells all nodes their number before it refers to any of them. Everything that it sends from then
//! on is kept for the new nodes by their ancestors, as for nodes that come late to the start; what was sent
//! before is not repeated to them. Operations of jobs that are older than a node do not wait for it.

use crate::healing::Absence;
use crate::node::TreeNode;
use crate::{NodeId, TreeConfig, TreeError};
use alloc::vec::Vec;
use pmi_core::wire::nodes::{Content, GrownTree, Target};

/// State in which a node begins that joins later: what was sent before it was there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeStart {
    /// Messages to all nodes so far: of Control, of Output.
    pub received: [u64; 2],
    /// Number of the last operation that has ended.
    pub ended: u64,
    /// Numbers of nodes before each growth so far, and of the first job of the nodes that were added by it.
    pub growths: Vec<(u32, u32)>,
}

/// Growths so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Growths(Vec<(u32, u32)>);

impl Growths {
    /// Number of nodes that take part in operations of a job, among `nodes` nodes.
    fn nodes_of(&self, job: u32, nodes: u32) -> u32 {
        let later = self.0.iter().find(|(_, first_job)| *first_job > job);
        later.map_or(nodes, |(before, _)| *before)
    }

    /// True if the tree has had this number of nodes before.
    pub(crate) fn includes(&self, nodes: u32) -> bool {
        self.0.iter().any(|(before, _)| *before == nodes)
    }
}

impl TreeNode {
    /// A node without edges that joins a tree which [has grown](Self::grow) by it.
    pub fn joining(config: TreeConfig, start: &TreeStart) -> Self {
        let mut node = Self::new(config);
        node.downlink.all = start.received;
        node.collectives.begin_after(start.ended);
        node.growths = Growths(start.growths.clone());
        for absence in &mut node.absences {
            absence.acked = start.ended;
        }
        node
    }

    /// At the head: adds nodes, so that there are `nodes` with the head. Operations of jobs from `first_job`
    /// on wait for them; none of these may have begun. Returns the state in which the new nodes begin.
    ///
    /// Messages to them may be sent at once. A node that does not come is to be
    /// [excluded](Self::exclude).
    ///
    /// # Errors
    ///
    /// [`TreeError::NoNode`] if no node is added, [`TreeError::Over`] at other nodes; nothing changes.
    pub fn grow(&mut self, nodes: u32, first_job: u32) -> Result<TreeStart, TreeError> {
        if nodes <= self.config.nodes {
            return Err(TreeError::NoNode(NodeId(nodes)));
        }
        if self.head.is_none() || self.is_over {
            return Err(TreeError::Over);
        }
        let grown = GrownTree { nodes, first_job };
        let body = crate::edge::encode_item(&grown);
        self.dispatch(crate::Class::Control, NodeId::HEAD, Target::All, (Content::Grown, body));
        self.add_nodes(grown);
        let (received, ended) = (self.downlink.all, self.collectives.last);
        Ok(TreeStart { received, ended, growths: self.growths.0.clone() })
    }

    /// Keeps for children among the new nodes what follows.
    pub(crate) fn add_nodes(&mut self, GrownTree { nodes, first_job }: GrownTree) {
        let before = self.config.nodes;
        self.growths.0.push((before, first_job));
        self.config.nodes = nodes;
        if let Some(head) = &mut self.head {
            head.nodes = nodes;
        }
        let children = self.config.node.children(self.config.radix, nodes);
        let until = self.now.plus(self.config.start());
        let last = self.collectives.last;
        let absent = children.filter(|child| child.0 >= before);
        self.absences.extend(absent.map(|child| Absence::joining(child, until, last)));
    }

    /// Number of nodes, with the head, that take part in operations of a job.
    pub(crate) fn nodes_of(&self, job: u32) -> u32 {
        self.growths.nodes_of(job, self.config.nodes)
    }
}
