//! Connections of a head or a node server, and their states.

use super::super::edge::Edge;
use pmi_host_os::admission::pending::Pending;
use std::collections::BTreeMap;
use std::time::Instant;

/// All connections, by number.
#[derive(Default)]
pub(super) struct Links {
    pub(super) all: BTreeMap<u32, NodeLink>,
    /// Number of the next connection.
    pub(super) next: u32,
    /// Edges of the tree, by node.
    pub(super) members: BTreeMap<u32, u32>,
    /// Accepted connections that have not proved the key.
    pub(super) pending: Pending<u32>,
}

impl Links {
    /// The first connection in this state.
    pub(super) fn of(&self, state: LinkState) -> Option<u32> {
        self.all.iter().find(|(_, link)| link.state == state).map(|(number, _)| *number)
    }
}

#[derive(Debug)]
pub(super) struct NodeLink {
    pub(super) edge: Edge,
    pub(super) state: LinkState,
    /// Time at which the connection is closed unless its state has changed.
    pub(super) deadline: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkState {
    /// Accepted; a join or an attachment follows.
    Accepted,
    /// At the head: its node waits for its place.
    Joined(u32),
    /// At the head: its node connects to its parent.
    Placed(u32),
    /// At a node server: connected to the head for a place.
    Joining,
    /// At a node server: its connection to the head, until its parent is connected.
    Leaving,
    /// At a node server: connecting to this ancestor.
    Attaching(u32),
    /// At the head: this node starts further ones.
    Delegate(u32),
    /// At a node server: connected to the head for nodes to start.
    Requesting,
    /// An edge of the tree, to this node.
    Member(u32),
}
