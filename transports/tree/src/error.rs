//! Errors of a node of the tree.

use crate::NodeId;
use pmi_core::error::Malformed;

/// Action of the owner or of a peer that the tree refuses.
///
/// After an error of [`receive`](crate::TreeNode::receive) the edge is gone; the owner closes its
/// connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TreeError {
    /// Bytes that are no frame.
    #[error("byte {} of a frame is not {}", .0.at, .0.expected)]
    Malformed(Malformed),
    /// A frame that is not allowed at this point or on this edge.
    #[error("the peer sent {0} out of order")]
    OutOfOrder(&'static str),
    /// A field of a frame is out of its range.
    #[error("the peer sent a frame with {0} out of range")]
    OutOfRange(&'static str),
    /// The peer sent more than its credit allows.
    #[error("the peer sent more than {limit_bytes} bytes that were not settled")]
    CreditExceeded {
        /// The credit.
        limit_bytes: usize,
    },
    /// Messages or results are missing; another ancestor can supply them.
    #[error("a message is missing before the one that arrived")]
    Gap,
    /// The parent has another version of the format.
    #[error("the peer has version {theirs} of the format, this node has {ours}")]
    Version {
        /// Version of the peer.
        theirs: u16,
        /// Own version.
        ours: u16,
    },
    /// Bytes of a peer without an edge.
    #[error("node {} has no edge to this node", .0.0)]
    NoEdge(NodeId),
    /// A receiver that is no node.
    #[error("there is no node {}", .0.0)]
    NoNode(NodeId),
    /// A message or contribution above its limit.
    #[error("{len} bytes are more than the {limit_bytes} that are allowed")]
    TooLong {
        /// Its length.
        len: usize,
        /// The limit.
        limit_bytes: usize,
    },
    /// Too many operations at once.
    #[error("{limit} collective operations are open")]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// A second contribution of this node to one operation.
    #[error("this node has contributed to the operation already")]
    Contributed,
    /// The head is lost, or the node is excluded.
    #[error("the node does not belong to the tree any more")]
    Over,
}

impl From<Malformed> for TreeError {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}
