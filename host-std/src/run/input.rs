//! Standard input of a run on several nodes: the head reads it, and sends it to the nodes of its readers.

use super::terminal::HeadTerminal;
use crate::settings::output::StdinTo;
use crate::stdio::source::{CHUNK, Source, SourceRead};
use pmi_host_os::clock;
use pmi_host_os::poller::{Interest, Poller, Token};
use pmi_host_os::refusal;
use pmi_tree::NodeId;
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

/// Standard input, and the nodes with ranks that read it.
#[derive(Debug, Default)]
pub(crate) struct HeadInput {
    source: Option<Source>,
    readers: Vec<NodeReader>,
    watched: Option<Interest>,
    /// Terminal of the user, for a rank with a terminal of its own.
    pub(crate) terminal: Option<HeadTerminal>,
    /// Time of the next attempt at a source without readiness events.
    retry_at: Option<Instant>,
    chunk: Vec<u8>,
}

/// A node with readers.
#[derive(Debug)]
struct NodeReader {
    node: NodeId,
    /// Position up to which input was sent.
    position: u64,
    /// True if it has taken all of that, and wants more.
    is_hungry: bool,
}

/// Input for a node.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NodeInput {
    /// A piece.
    Piece(Vec<u8>),
    /// The end.
    End,
}

impl HeadInput {
    /// Opens standard input for the nodes of the ranks `to`, of which there are `ranks`, if there are any.
    pub(crate) fn new(
        to: &StdinTo,
        ranks: u32,
        node_of: impl Fn(u32) -> NodeId,
        open: impl FnOnce() -> io::Result<Source>,
    ) -> Result<Self, String> {
        let nodes: BTreeSet<NodeId> = match to {
            StdinTo::First => (0..ranks.min(1)).map(node_of).collect(),
            StdinTo::All => (0..ranks).map(node_of).collect(),
            StdinTo::NoRank => BTreeSet::new(),
            StdinTo::Ranks(list) => list.iter().map(|rank| node_of(*rank)).collect(),
        };
        if nodes.is_empty() {
            return Ok(Self::default());
        }
        let unusable =
            |error| format!("standard input cannot be forwarded: {}", refusal::words(&error));
        let reader = |node| NodeReader { node, position: 0, is_hungry: false };
        Ok(Self {
            source: Some(open().map_err(unusable)?),
            readers: nodes.into_iter().map(reader).collect(),
            chunk: Vec::with_capacity(CHUNK),
            ..Self::default()
        })
    }

    /// Notes that a node has taken its input so far.
    pub(super) fn want(&mut self, node: NodeId) {
        if let Some(reader) = self.readers.iter_mut().find(|reader| reader.node == node) {
            reader.is_hungry = true;
        }
    }

    /// Removes a node that takes no more input.
    pub(super) fn remove(&mut self, node: NodeId) {
        self.readers.retain(|reader| reader.node != node);
    }

    /// Returns the input that is due to nodes, and waits for more.
    pub(super) fn serve(&mut self, poller: &Poller) -> io::Result<Vec<(NodeId, NodeInput)>> {
        let mut due = Vec::new();
        if self.terminal.as_ref().is_some_and(HeadTerminal::withholds_keys) {
            self.retry_at = None;
            self.watch(false, poller)?;
            return Ok(due);
        }
        let Self { source: Some(source), readers, chunk, .. } = self else { return Ok(due) };
        self.retry_at = None;
        let mut waits = false;
        for reader in readers.iter_mut().filter(|reader| reader.is_hungry) {
            match source.read_at(reader.position, chunk) {
                SourceRead::Some => {
                    reader.is_hungry = false;
                    reader.position += u64::try_from(chunk.len()).unwrap_or(0);
                    source.consume(reader.position);
                    due.push((reader.node, NodeInput::Piece(chunk.clone())));
                }
                SourceRead::End => due.push((reader.node, NodeInput::End)),
                SourceRead::Later => waits = true,
                SourceRead::Elsewhere => self.retry_at = Some(clock::now() + RETRY),
                // The slowest reader is served first.
                SourceRead::Full => {}
            }
        }
        let has_ended = |node: NodeId| due.contains(&(node, NodeInput::End));
        readers.retain(|reader| !has_ended(reader.node));
        let slowest = readers.iter().map(|reader| reader.position).min();
        source.forget(slowest.unwrap_or(u64::MAX));
        self.watch(waits, poller)?;
        if self.readers.is_empty() {
            // The system reports that to the writer.
            self.source = None;
        }
        Ok(due)
    }

    /// Time of the next [`serve`](Self::serve) without an event.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.retry_at
    }

    fn watch(&mut self, watch: bool, poller: &Poller) -> io::Result<()> {
        let Some(source) = &self.source else { return Ok(()) };
        let change = (&mut self.watched, watch.then_some(Interest::Read));
        match poller.rewatch(Token::Source, source.fd(), change) {
            // A device that the poller does not support.
            Err(error) if error.raw_os_error() == Some(Errno::PERM.raw_os_error()) => {
                self.retry_at = Some(clock::now() + RETRY);
                Ok(())
            }
            other => other,
        }
    }
}

/// Interval of attempts at a source without readiness events.
const RETRY: Duration = Duration::from_millis(500);
