//! Entries of a run of the tree, for pages that draw it.

use super::plan::TreeFault;
use crate::check::Violation;
use pmi_tree::NodeId;

/// One entry: its time in microseconds, its step, and its event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeEntry {
    /// Time, in microseconds of the world.
    pub at: u64,
    /// Step of the world.
    pub step: u64,
    /// The event.
    pub event: TreeRecord,
}

/// An edge between a node and its parent, and a direction on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeEdgeWay {
    /// The lower node.
    pub child: NodeId,
    /// The upper node.
    pub parent: NodeId,
    /// True from the child to the parent.
    pub is_up: bool,
}

/// An event of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeRecord {
    /// A connection was opened; what an earlier one of the child has in transit belongs to no frame any more.
    Connected {
        /// The lower node.
        child: NodeId,
        /// The upper node.
        parent: NodeId,
    },
    /// Bytes were sent.
    Sent {
        /// Their edge.
        way: TreeEdgeWay,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Bytes arrived, the oldest first.
    Received {
        /// Their edge.
        way: TreeEdgeWay,
        /// Number of bytes.
        len: usize,
    },
    /// A node is attached to a parent, or to none.
    Attached {
        /// The node.
        node: NodeId,
        /// The parent.
        parent: Option<NodeId>,
    },
    /// The ranks of a node have entered a fence.
    Contributed {
        /// The node.
        node: NodeId,
        /// Number of the fence, from 1.
        number: u32,
    },
    /// A node has received the end of a fence.
    Ended {
        /// The node.
        node: NodeId,
        /// Number of the fence, from 1.
        number: u32,
    },
    /// A fault.
    Fault(TreeFault),
    /// The head reports the loss of a node.
    Lost(NodeId),
    /// A node has left by itself: the head was lost, or has excluded it.
    Left(NodeId),
    /// A rule was broken.
    Violation(Violation),
    /// Nothing more happens by itself.
    Quiet,
}

/// State of one node at the displayed moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeNodeView {
    /// State of its process.
    pub life: TreeNodeLife,
    /// The parent that it is attached to.
    pub parent: Option<NodeId>,
    /// Fences that its ranks have entered.
    pub entered: u32,
    /// Fences that have ended for it.
    pub ended: u32,
}

/// State of the process of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeNodeLife {
    /// It runs.
    Running,
    /// It was stopped, or reaches no other node.
    Stopped,
    /// It was killed.
    Killed,
    /// It has ended by itself.
    Left,
}
