//! The machine of one node: its state, and the calls of its owner.

use crate::collectives::Collectives;
use crate::edge::{FrameReader, TreeEdge};
use crate::event::Silence;
use crate::growth::Growths;
use crate::head::HeadState;
use crate::healing::{Absence, Detached};
use crate::lane::{Parcel, SendLane};
use crate::{NodeId, TreeError, TreeEvent};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::rc::Rc;
use alloc::vec::Vec;
use pmi_core::time::{Duration, Instant};

/// Place of a node, shape of the tree, and times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeConfig {
    /// This node.
    pub node: NodeId,
    /// Number of nodes, the head included.
    pub nodes: u32,
    /// Children of a node.
    pub radix: u32,
    /// Longest pause without a sign of life on an edge.
    pub ping: Duration,
    /// Silence of a peer after which it is [reported](TreeEvent::Silent); not above `silence`.
    pub pause: Duration,
    /// Silence of a peer and of its host after which an edge is given up.
    pub silence: Duration,
    /// Time in which a node whose connection was closed attaches itself elsewhere, before the head
    /// takes it for lost.
    pub rejoin: Duration,
}

impl TreeConfig {
    /// Radix 4, a ping each second, five seconds of silence, 0.1 s to attach elsewhere.
    pub const fn new(node: NodeId, nodes: u32) -> Self {
        Self {
            node,
            nodes,
            radix: 4,
            ping: Duration::from_secs(1),
            pause: Duration::from_secs(5),
            silence: Duration::from_secs(5),
            rejoin: Duration::from_millis(100),
        }
    }

    /// Time for which messages and results are kept for children that have never been here.
    pub(crate) const fn start(&self) -> Duration {
        Duration::from_micros(self.silence.as_micros().saturating_mul(START_SILENCES))
    }

    /// Time for which the messages and results of a lost child are kept for the nodes below it.
    pub(crate) const fn hold(&self) -> Duration {
        Duration::from_micros(
            self.silence.as_micros().saturating_mul(2).saturating_add(self.ping.as_micros()),
        )
    }
}

/// Messages are kept for children that have never been here for this many times the silence.
const START_SILENCES: u64 = 12;

/// The way to the head.
#[derive(Debug)]
pub(crate) struct Uplink {
    /// The parent to which there is an edge.
    pub(crate) parent: Option<NodeId>,
    /// Ancestors as they are now, nearest first.
    pub(crate) chain: Vec<NodeId>,
    /// Attachments so far.
    pub(crate) epoch: u32,
    /// The search for another parent.
    pub(crate) detached: Option<Detached>,
    /// Messages up, of this node and of those below.
    pub(crate) lanes: [SendLane; 2],
    /// Messages of this node, by class.
    pub(crate) numbers: [u64; 2],
    /// Bytes of output of this node that are not settled.
    pub(crate) output_bytes: usize,
    /// Messages to the parent that are settled, of the class Output.
    pub(crate) passed_on: u64,
}

/// Messages down.
#[derive(Debug, Default)]
pub(crate) struct Downlink {
    /// Messages to all nodes that were received, or sent by the head, by class.
    pub(crate) all: [u64; 2],
    /// Messages to this node that were received, by class.
    pub(crate) own: [u64; 2],
    /// Messages of former parents that are not settled.
    pub(crate) former: Vec<(usize, Rc<Parcel>)>,
    /// Output for this node that the owner has paused.
    pub(crate) held: VecDeque<Rc<Parcel>>,
    /// Messages of all queues so far.
    pub(crate) order: u64,
}

/// Parent of a node below this one, as of an attachment of the node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    pub(crate) epoch: u32,
    pub(crate) parent: NodeId,
}

/// One node of the tree.
///
/// It reads no socket and no clock: the owner opens connections, moves bytes and calls
/// [`handle_timeout`](Self::handle_timeout).
#[derive(Debug)]
pub struct TreeNode {
    pub(crate) config: TreeConfig,
    pub(crate) now: Instant,
    pub(crate) edges: BTreeMap<NodeId, TreeEdge>,
    pub(crate) uplink: Uplink,
    pub(crate) downlink: Downlink,
    /// Children, and nodes below them that are not below their first parents any more.
    pub(crate) routes: BTreeMap<NodeId, Route>,
    pub(crate) absences: Vec<Absence>,
    pub(crate) banned: BTreeSet<NodeId>,
    /// Children whose loss was reported and that have not come back here.
    pub(crate) gone: BTreeSet<NodeId>,
    pub(crate) collectives: Collectives,
    pub(crate) growths: Growths,
    pub(crate) head: Option<HeadState>,
    pub(crate) events: VecDeque<TreeEvent>,
    pub(crate) sessions: u32,
    pub(crate) is_output_paused: bool,
    pub(crate) is_output_blocked: bool,
    pub(crate) is_over: bool,
}

impl TreeNode {
    /// A node without edges.
    ///
    /// The owner opens the first connection, to [`parent`](Self::parent), by itself.
    pub fn new(config: TreeConfig) -> Self {
        let is_head = config.node == NodeId::HEAD;
        let children = config.node.children(config.radix, config.nodes);
        Self {
            now: Instant::ZERO,
            edges: BTreeMap::new(),
            uplink: Uplink {
                parent: None,
                chain: config.node.ancestors(config.radix).collect(),
                epoch: 0,
                detached: None,
                lanes: Default::default(),
                numbers: [0; 2],
                output_bytes: 0,
                passed_on: 0,
            },
            downlink: Downlink::default(),
            routes: BTreeMap::new(),
            absences: children.map(Absence::awaiting).collect(),
            banned: BTreeSet::new(),
            gone: BTreeSet::new(),
            collectives: Collectives::default(),
            growths: Growths::default(),
            head: is_head.then(|| HeadState::new(config.nodes)),
            events: VecDeque::new(),
            sessions: 0,
            is_output_paused: false,
            is_output_blocked: false,
            is_over: false,
            config,
        }
    }

    /// Takes bytes of a peer, cut anywhere.
    ///
    /// # Errors
    ///
    /// [`TreeError`] for bytes that the peer may not send. The edge is gone then, as after
    /// [`disconnected`](Self::disconnected), and the owner closes the connection.
    pub fn receive(&mut self, peer: NodeId, bytes: &[u8], now: Instant) -> Result<(), TreeError> {
        self.now = now;
        if self.is_over {
            return Ok(());
        }
        let edge = self.edges.get_mut(&peer).ok_or(TreeError::NoEdge(peer))?;
        let session = edge.session;
        if !bytes.is_empty() {
            edge.last_received = now;
            if edge.silence.take().is_some() {
                self.events.push_back(TreeEvent::Continued { peer });
            }
        }
        let reader = FrameReader::new(edge, bytes);
        let received = reader.each(|frame| {
            // A frame may have ended the edge, or the node.
            let is_same = self.edges.get(&peer).is_some_and(|edge| edge.session == session);
            if is_same { self.handle_frame(peer, frame) } else { Ok(()) }
        });
        match received {
            Ok(rest) => {
                if let Some(edge) = self.edges.get_mut(&peer).filter(|e| e.session == session) {
                    edge.keep_input(rest);
                }
                Ok(())
            }
            Err(error) => {
                self.lose_edge(peer, false);
                Err(error)
            }
        }
    }

    /// Records that the system of the host of a peer has answered at `at`: the host is there, whether the
    /// process of the peer runs or is stopped. The owner knows by acknowledgements of the connection.
    pub fn host_answers(&mut self, peer: NodeId, at: Instant) {
        if let Some(edge) = self.edges.get_mut(&peer) {
            edge.host_answered = edge.host_answered.max(at);
        }
    }

    /// True if nothing has arrived from a peer for longer than two pings. It gets nothing but signs of life
    /// then: what it does not read would fill the connection.
    pub fn is_silent(&self, peer: NodeId, now: Instant) -> bool {
        self.edges.get(&peer).is_some_and(|edge| self.is_edge_silent(edge, now))
    }

    /// True if the process of a peer is [silent](TreeEvent::Silent), and its host is not.
    pub fn is_paused(&self, peer: NodeId) -> bool {
        self.edges.get(&peer).is_some_and(|edge| edge.silence == Some(Silence::Process))
    }

    pub(crate) fn is_edge_silent(&self, edge: &TreeEdge, now: Instant) -> bool {
        let ping = self.config.ping.as_micros();
        now >= edge.last_received.plus(Duration::from_micros(ping.saturating_mul(2)))
    }

    /// The next event for the owner.
    ///
    /// Changes after every call with a time, [`contribute`](Self::contribute),
    /// [`exclude`](Self::exclude) and [`pause_output`](Self::pause_output).
    pub fn poll_event(&mut self) -> Option<TreeEvent> {
        self.events.pop_front()
    }

    /// True if a message of this class may be sent now.
    ///
    /// Control always may; output, as long as less than 256 KiB of this node are under way. After a refusal
    /// [`TreeEvent::Credit`] tells when it may again. [`send`](Self::send) does not check it.
    pub fn can_send(&self, class: crate::Class) -> bool {
        match (class, &self.head) {
            (crate::Class::Control, _) => true,
            (crate::Class::Output, Some(head)) => head.issued_bytes < crate::OUTPUT_BYTES,
            (crate::Class::Output, None) => self.uplink.output_bytes < crate::OUTPUT_BYTES,
        }
    }

    /// Place, shape and times.
    pub const fn config(&self) -> &TreeConfig {
        &self.config
    }

    /// The parent of this node: the one it is attached to, else the first one that it tries.
    pub fn parent(&self) -> Option<NodeId> {
        self.uplink.parent.or_else(|| self.uplink.chain.first().copied())
    }

    /// Nodes that may become the parent of this one, nearest first. The owner needs their addresses.
    pub fn ancestors(&self) -> impl Iterator<Item = NodeId> {
        self.config.node.ancestors(self.config.radix)
    }

    /// Nodes that are attached to this one.
    pub fn children(&self) -> impl Iterator<Item = NodeId> {
        self.open_children().map(|(peer, _)| peer)
    }

    /// True if this node is attached to a parent, or is the head.
    pub fn is_attached(&self) -> bool {
        self.head.is_some() || self.open_parent().is_some()
    }

    /// True after [`TreeEvent::HeadLost`] and [`TreeEvent::Expelled`].
    pub const fn is_over(&self) -> bool {
        self.is_over
    }

    pub(crate) fn open_children(&self) -> impl Iterator<Item = (NodeId, &TreeEdge)> {
        self.edges.iter().filter(|(_, edge)| edge.is_open_child()).map(|(peer, edge)| (*peer, edge))
    }

    pub(crate) fn open_parent(&self) -> Option<&TreeEdge> {
        let edge = self.edges.get(&self.uplink.parent?)?;
        (edge.state == crate::edge::EdgeState::Open).then_some(edge)
    }
}
