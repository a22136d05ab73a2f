//! Origin of a message, as its receiver knows it.

use crate::NodeId;

/// Edge on which a message arrived, as long as it is the same connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) peer: NodeId,
    pub(crate) session: u32,
    /// Number of the message among those of its class on the edge, from 1.
    pub(crate) number: u64,
}
