//! Keys of a head or a node server: by which it connects, and by which others connect to it.

use super::super::greeting::NodePlace;
use super::super::handshake::{HandshakeError, KeyId, KnownKey};
use super::super::key::{ChannelKeys, LinkKey, RunKey};
use super::roster::Roster;
use std::io;
use std::net::SocketAddr;

/// Keys of a head or a node server.
pub(super) enum Keyring {
    /// The key of a run without encryption, for all connections.
    Plain(LinkKey),
    /// At the head: the key from which those of the nodes are derived; those of starts are in the
    /// [roster](Roster::start_key).
    Head(LinkKey),
    /// At a node server before it has its place: the key that its starter has handed over.
    Start(LinkKey),
    /// At a node server with a place. The key of its start is forgotten.
    Placed(ChannelKeys),
}

impl Keyring {
    /// Keys of the head of a run with this key.
    ///
    /// # Errors
    ///
    /// Errors of the random source of the system.
    pub(super) fn of_head(key: &RunKey) -> io::Result<Self> {
        Ok(match key.is_plain() {
            true => Self::Plain(key.key().clone()),
            false => Self::Head(LinkKey::generate()?),
        })
    }

    /// Keys of a node server that has this one from its starter.
    pub(super) fn of_node(key: &RunKey) -> Self {
        match key.is_plain() {
            true => Self::Plain(key.key().clone()),
            false => Self::Start(key.key().clone()),
        }
    }

    /// The key of a run without encryption.
    pub(super) const fn plain(&self) -> Option<&LinkKey> {
        match self {
            Self::Plain(key) => Some(key),
            Self::Head(_) | Self::Start(_) | Self::Placed(_) => None,
        }
    }

    /// Keys that the head hands to a node with its place, between itself and `above`, the other nodes above
    /// it. Without encryption there are none.
    pub(super) fn for_node(&self, node: u32, above: &[(u32, SocketAddr)]) -> Option<ChannelKeys> {
        let Self::Head(key) = self else { return None };
        Some(ChannelKeys::of(key, node, above.iter().map(|(above, _)| *above)))
    }

    /// Takes the keys that came with the place of this node.
    pub(super) fn take_place(&mut self, place: &mut NodePlace) {
        if let (Self::Start(_), Some(keys)) = (&*self, place.keys.take()) {
            *self = Self::Placed(*keys);
        }
    }

    /// Key by which this node server requests its place from the head.
    pub(super) fn to_join(&self) -> Option<KnownKey> {
        match self {
            Self::Plain(key) => Some(KnownKey::plain(key)),
            Self::Start(key) => Some(KnownKey::start(key)),
            Self::Head(_) | Self::Placed(_) => None,
        }
    }

    /// Key by which this node server, which is `node`, connects to an ancestor.
    pub(super) fn to_ancestor(&self, node: u32, ancestor: u32) -> Option<KnownKey> {
        match self {
            Self::Plain(key) => Some(KnownKey::plain(key)),
            Self::Placed(keys) => {
                keys.for_ancestor(ancestor).map(|key| KnownKey::attachment(node, key))
            }
            Self::Head(_) | Self::Start(_) => None,
        }
    }

    /// The key that a side which has connected to this one names. `roster` is that of the head.
    ///
    /// # Errors
    ///
    /// There is none, or it has admitted all of its hosts.
    pub(super) fn find(
        &self,
        id: KeyId,
        roster: Option<&Roster>,
    ) -> Result<LinkKey, HandshakeError> {
        match (self, id) {
            (Self::Head(_), KeyId::Start(name)) => {
                roster.ok_or(HandshakeError::Proof)?.start_key(name)
            }
            (Self::Head(key), KeyId::Attachment(node)) => Ok(key.of_node(HEAD).of_attachment(node)),
            (Self::Placed(keys), KeyId::Attachment(node)) => Ok(keys.for_descendant(node)),
            _ => Err(HandshakeError::Proof),
        }
    }
}

/// True if a connection whose key is `id` may be one of `node`, which has a place.
pub(super) fn is_of_node(id: Option<KeyId>, node: u32) -> bool {
    matches!(id, Some(KeyId::Plain)) || id == Some(KeyId::Attachment(node))
}

/// Number of the head.
const HEAD: u32 = 0;
