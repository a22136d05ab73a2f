//! Nodes that are connected by lossless pipes, under a clock that advances on demand.

use pmi_core::time::{Duration, Instant};
use pmi_tree::{CollectiveId, Contribution, NodeId, TreeConfig, TreeEvent, TreeNode};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// All nodes of a tree.
pub(crate) struct Net {
    pub(crate) nodes: Vec<Option<TreeNode>>,
    pipes: BTreeMap<(NodeId, NodeId), VecDeque<u8>>,
    pub(crate) now: Instant,
    /// Bytes that pass at a time.
    pub(crate) piece: usize,
    /// Events of each node but connections.
    pub(crate) events: Vec<Vec<TreeEvent>>,
    /// Nodes that do nothing, and whose connections stay.
    pub(crate) stopped: BTreeSet<NodeId>,
}

pub(crate) fn id(number: u32) -> CollectiveId {
    CollectiveId { job: 1, kind: 0, number }
}

impl Net {
    /// Nodes of which each is attached to its first parent.
    pub(crate) fn new(nodes: u32, radix: u32) -> Self {
        Self::with_silence(nodes, radix, TreeConfig::new(NodeId::HEAD, nodes).silence)
    }

    /// The same where a host may be silent for a while before its node is lost.
    pub(crate) fn with_silence(nodes: u32, radix: u32, silence: Duration) -> Self {
        let ids = (0..nodes).map(NodeId);
        let config = |node| TreeConfig { radix, silence, ..TreeConfig::new(node, nodes) };
        let node = |node| TreeNode::new(config(node));
        let mut net = Self {
            nodes: ids.clone().map(|id| Some(node(id))).collect(),
            pipes: BTreeMap::new(),
            now: Instant::ZERO,
            piece: 4096,
            events: vec![Vec::new(); nodes as usize],
            stopped: BTreeSet::new(),
        };
        for node in ids.skip(1) {
            net.connect(node, node.parent(radix).unwrap());
        }
        net.run();
        net
    }

    /// Adds nodes without connections, for jobs from `first_job` on.
    pub(crate) fn grow(&mut self, count: u32, first_job: u32) {
        let config = *self.node(0).config();
        let nodes = config.nodes + count;
        let start = self.node(0).grow(nodes, first_job).unwrap();
        for node in (config.nodes..nodes).map(NodeId) {
            let config = TreeConfig { radix: config.radix, ..TreeConfig::new(node, nodes) };
            self.nodes.push(Some(TreeNode::joining(config, &start)));
            self.events.push(Vec::new());
        }
    }

    /// Connects a node to its first ancestor that lives.
    pub(crate) fn join(&mut self, node: u32) {
        let above: Vec<NodeId> = self.node(node).ancestors().collect();
        let parent = above.into_iter().find(|parent| self.nodes[parent.0 as usize].is_some());
        self.connect(NodeId(node), parent.expect("an ancestor lives"));
    }

    pub(crate) fn node(&mut self, node: u32) -> &mut TreeNode {
        self.nodes[node as usize].as_mut().expect("the node lives")
    }

    pub(crate) fn connect(&mut self, child: NodeId, parent: NodeId) {
        let now = self.now;
        self.pipes.insert((child, parent), VecDeque::new());
        self.pipes.insert((parent, child), VecDeque::new());
        self.node(parent.0).connected(child, now);
        self.node(child.0).connected(parent, now);
    }

    /// Ends a connection; what was under way is lost.
    pub(crate) fn cut(&mut self, one: NodeId, other: NodeId) {
        let now = self.now;
        if self.pipes.remove(&(one, other)).is_some() {
            self.pipes.remove(&(other, one));
            for (node, peer) in [(one, other), (other, one)] {
                if let Some(node) = &mut self.nodes[node.0 as usize] {
                    node.disconnected(peer, now);
                }
            }
        }
    }

    pub(crate) fn kill(&mut self, node: u32) {
        self.nodes[node as usize] = None;
        let peers: Vec<NodeId> = self.pipes.keys().map(|(_, to)| *to).collect();
        for peer in peers {
            self.cut(NodeId(node), peer);
        }
    }

    /// Moves bytes until no node has any to send.
    pub(crate) fn run(&mut self) {
        while self.step() {}
    }

    /// One turn of every node; false if nothing has happened.
    pub(crate) fn step(&mut self) -> bool {
        let mut is_busy = false;
        for at in 0..self.nodes.len() {
            let me = NodeId(u32::try_from(at).unwrap());
            if self.stopped.contains(&me) {
                continue;
            }
            while let Some(peer) = self.nodes[at].as_mut().and_then(TreeNode::next_ready) {
                let mut out = vec![0; self.piece];
                loop {
                    let now = self.now;
                    let len = self.node(me.0).transmit(peer, &mut out, now);
                    if len == 0 {
                        break;
                    }
                    is_busy = true;
                    if let Some(pipe) = self.pipes.get_mut(&(me, peer)) {
                        pipe.extend(&out[..len]);
                    }
                }
            }
            is_busy |= self.react(me);
        }
        let edges: Vec<(NodeId, NodeId)> = self.pipes.keys().copied().collect();
        for (from, to) in edges {
            is_busy |= self.deliver(from, to);
        }
        is_busy
    }

    fn deliver(&mut self, from: NodeId, to: NodeId) -> bool {
        let Some(pipe) = self.pipes.get_mut(&(from, to)).filter(|_| !self.stopped.contains(&to))
        else {
            return false;
        };
        let bytes: Vec<u8> = pipe.drain(..).collect();
        let now = self.now;
        for piece in bytes.chunks(self.piece) {
            let Some(node) = &mut self.nodes[to.0 as usize] else { break };
            node.receive(from, piece, now)
                .unwrap_or_else(|error| panic!("{from:?} to {to:?}: {error}"));
        }
        !bytes.is_empty()
    }

    fn react(&mut self, me: NodeId) -> bool {
        let mut is_busy = false;
        while let Some(event) = self.nodes[me.0 as usize].as_mut().and_then(TreeNode::poll_event) {
            is_busy = true;
            match event {
                TreeEvent::Reconnect { to } => {
                    let now = self.now;
                    if self.nodes[to.0 as usize].is_some() {
                        self.connect(me, to);
                    } else {
                        self.node(me.0).disconnected(to, now);
                    }
                }
                TreeEvent::Close { peer, .. } => {
                    // A connection that is closed in order still delivers what was sent.
                    self.deliver(me, peer);
                    self.cut(me, peer);
                }
                event => self.events[me.0 as usize].push(event),
            }
        }
        is_busy
    }

    /// Advances the clock to the next time that a node waits for, or by `most`.
    pub(crate) fn wait(&mut self, most: Duration) {
        let end = self.now.plus(most);
        loop {
            self.run();
            let stopped = &self.stopped;
            let runs = |node: &&TreeNode| !stopped.contains(&node.config().node);
            let due =
                self.nodes.iter().flatten().filter(runs).filter_map(TreeNode::poll_timeout).min();
            self.now = due.unwrap_or(end).min(end);
            let now = self.now;
            if due.is_none_or(|due| due > now) {
                return;
            }
            for node in self.nodes.iter_mut().flatten() {
                if !self.stopped.contains(&node.config().node) {
                    node.handle_timeout(now);
                }
            }
            if now == end {
                return self.run();
            }
        }
    }

    /// Bytes that wait for a node.
    pub(crate) fn waiting_bytes(&self, from: u32, to: u32) -> usize {
        self.pipes.get(&(NodeId(from), NodeId(to))).map_or(0, VecDeque::len)
    }

    pub(crate) fn contribute(&mut self, node: u32, number: u32, data: &[u8]) {
        let own = Contribution { members: 2, data: data.to_vec() };
        self.node(node).contribute(id(number), own).unwrap();
    }

    /// Results of an operation, of the nodes that live and have one.
    pub(crate) fn results(&self, number: u32) -> Vec<(Vec<u8>, u64)> {
        let ended = self.events.iter().flatten().filter_map(|event| match event {
            TreeEvent::CollectiveEnded { id: of, data, members } if *of == id(number) => {
                Some((data.to_vec(), *members))
            }
            _ => None,
        });
        ended.collect()
    }
}
