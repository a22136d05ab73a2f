//! Values that the owner of a node gives to the tree and receives from it.

use crate::NodeId;
use crate::source::Source;
use alloc::rc::Rc;
use alloc::vec::Vec;
pub use pmi_core::wire::nodes::CollectiveId;
use serde::{Deserialize, Serialize};

/// Receiver of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// The head.
    Head,
    /// One node.
    Node(NodeId),
    /// Every node but the sender.
    All,
    /// The parent, whatever node that is: its owner passes on the content, and settles the message when
    /// that is certain ([`TreeEvent::FromChild`]). If the parent is lost, the next one receives the
    /// message again, and with it content that the former one may have passed on.
    Parent,
}

/// A message of a child that its receiver has not settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChildMessage {
    pub(crate) class: Class,
    pub(crate) source: Source,
    pub(crate) len: usize,
}

/// Class of a message: it has its own queue, bound and credit on every edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Control of the job; goes first.
    Control,
    /// Standard input and output of ranks; goes last, and only as far as its credit lasts.
    Output,
}

/// Part of one node in a collective operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contribution {
    /// Members of the operation on this node.
    pub members: u32,
    /// Their bytes.
    pub data: Vec<u8>,
}

/// What does not answer where nothing arrives from a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Silence {
    /// The process, whose host [answers](crate::TreeNode::host_answers): it is stopped.
    Process,
    /// The host, too: it is cut off, or gone.
    Host,
}

/// Occurrence for the owner of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TreeEvent {
    /// A message for this node.
    Message {
        /// Its sender.
        from: NodeId,
        /// Its class.
        class: Class,
        /// Its bytes.
        body: Vec<u8>,
    },
    /// A message of a child to its parent, which is this node and not the head: the head receives a
    /// [`Message`](Self::Message), and settles it.
    FromChild {
        /// The child.
        child: NodeId,
        /// For [`settle`](crate::TreeNode::settle), which the child waits for.
        message: ChildMessage,
        /// Its bytes.
        body: Vec<u8>,
    },
    /// All nodes have contributed to a collective operation.
    CollectiveEnded {
        /// The operation.
        id: CollectiveId,
        /// Contributions in the order of their nodes, the same bytes on every node.
        data: Rc<[u8]>,
        /// Sum of the members.
        members: u64,
    },
    /// The node needs a connection to this ancestor. The owner answers with
    /// [`connected`](crate::TreeNode::connected) or [`disconnected`](crate::TreeNode::disconnected).
    Reconnect {
        /// The ancestor.
        to: NodeId,
    },
    /// The edge to a peer is given up; the owner closes its connection.
    Close {
        /// The peer.
        peer: NodeId,
        /// Cause.
        why: CloseReason,
    },
    /// Nothing has arrived from a peer for the time that the configuration allows. Its edge stays.
    Silent {
        /// The peer.
        peer: NodeId,
        /// What does not answer, which may change until the peer continues.
        silence: Silence,
    },
    /// Something has arrived from a peer that was silent.
    Continued {
        /// The peer.
        peer: NodeId,
    },
    /// At the head: a node is lost, and is not admitted again. Collective operations wait for it until
    /// the owner calls [`exclude`](crate::TreeNode::exclude).
    NodeLost {
        /// The node.
        node: NodeId,
        /// The node that was its parent.
        parent: NodeId,
        /// Symptom at the parent.
        loss: EdgeLoss,
    },
    /// The head is lost: no ancestor answers, or the parent has reported so. Nothing follows.
    HeadLost,
    /// The head has excluded this node. Nothing follows.
    Expelled,
    /// Output can be sent again.
    Credit,
}

/// Cause for which an edge is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CloseReason {
    /// Nothing has arrived for the time that the configuration allows.
    Silent,
    /// The peer does not take this node as a child.
    Refused,
    /// This node does not take the peer as a child.
    Refusing,
    /// The edge has no use: another connection to the peer or to another parent exists.
    Superfluous,
}

/// Symptom of a lost node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EdgeLoss {
    /// Its connection was closed or reset.
    Closed,
    /// Nothing arrived from it in time.
    Silent,
    /// It was below a lost node and has not attached itself elsewhere.
    Detached,
}
