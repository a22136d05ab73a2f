//! The part of the head: where nodes are, which of them may be lost, and which are.

use crate::event::{EdgeLoss, TreeEvent};
use crate::lane::Parcel;
use crate::node::TreeNode;
use crate::source::Source;
use crate::{Class, NodeId, TreeError};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::rc::Rc;
use alloc::vec::Vec;
use pmi_core::time::{Duration, Instant};
use pmi_core::wire::nodes::{Content, GoneNode, MovedNode, Target};

/// Output for the head that the owner has paused.
#[derive(Debug)]
pub(crate) struct HeldOutput {
    pub(crate) source: Source,
    /// None for a repeated message, which only is settled in its turn.
    pub(crate) parcel: Option<Parcel>,
    pub(crate) len: usize,
}

/// A node that may be lost.
#[derive(Clone, Copy, Debug)]
struct Suspect {
    until: Instant,
    parent: NodeId,
    loss: EdgeLoss,
}

/// State of the head.
#[derive(Debug)]
pub(crate) struct HeadState {
    /// Number of nodes, with the head.
    pub(crate) nodes: u32,
    /// Messages to single nodes so far, by class.
    pub(crate) directed: BTreeMap<NodeId, [u64; 2]>,
    /// Messages of nodes so far, by class.
    pub(crate) origins: BTreeMap<NodeId, [u64; 2]>,
    /// Output to nodes that is not settled.
    pub(crate) issued: VecDeque<Rc<Parcel>>,
    pub(crate) issued_bytes: usize,
    pub(crate) held: VecDeque<HeldOutput>,
    /// Nodes that are not below their first parents, with their attachments and parents.
    located: BTreeMap<NodeId, (u32, NodeId)>,
    /// First parents, by the nodes' own reports, where these are others than those of their numbers.
    noted: BTreeMap<NodeId, NodeId>,
    suspects: BTreeMap<NodeId, Suspect>,
    /// Nodes that collective operations do not wait for.
    pub(crate) excluded: BTreeSet<NodeId>,
}

impl HeadState {
    pub(crate) const fn new(nodes: u32) -> Self {
        Self {
            nodes,
            directed: BTreeMap::new(),
            origins: BTreeMap::new(),
            issued: VecDeque::new(),
            issued_bytes: 0,
            held: VecDeque::new(),
            located: BTreeMap::new(),
            noted: BTreeMap::new(),
            suspects: BTreeMap::new(),
            excluded: BTreeSet::new(),
        }
    }

    fn parent_of(&self, node: NodeId, radix: u32) -> Option<NodeId> {
        let located = self.located.get(&node).map(|(_, parent)| *parent);
        located.or_else(|| self.noted.get(&node).copied()).or_else(|| node.parent(radix))
    }

    /// True if the way from a node to the head passes `other`, or begins there, before a node where it
    /// `ends`.
    fn is_at_or_below(
        &self,
        node: NodeId,
        other: NodeId,
        radix: u32,
        ends: impl Fn(NodeId) -> bool,
    ) -> bool {
        core::iter::successors(Some(node), |node| self.parent_of(*node, radix))
            .take_while(|passed| !ends(*passed))
            .any(|passed| passed == other)
    }
}

impl TreeNode {
    /// At the head: collective operations end without this node from now on, and it is not admitted
    /// again.
    ///
    /// # Errors
    ///
    /// [`TreeError::NoNode`] for the head and for numbers of no node, [`TreeError::Over`] at other
    /// nodes; nothing changes.
    pub fn exclude(&mut self, node: NodeId) -> Result<(), TreeError> {
        if node == NodeId::HEAD || node.0 >= self.config.nodes {
            return Err(TreeError::NoNode(node));
        }
        let Some(head) = &mut self.head else { return Err(TreeError::Over) };
        if head.excluded.insert(node) {
            if !self.banned.contains(&node) {
                self.suspect_below(node);
            }
            self.expel(node);
            self.check_all_complete();
        }
        Ok(())
    }

    /// At the head: records the first parent of a node, as the node itself reports it outside of the tree.
    ///
    /// Parents report children that are not theirs by number, too. If such a parent is lost before its report
    /// arrives, the head gives the node time to attach itself elsewhere, as all nodes below a lost one.
    ///
    /// # Errors
    ///
    /// [`TreeError::NoNode`] for the head and for numbers of no node, [`TreeError::OutOfRange`] for a parent
    /// that is not an ancestor, [`TreeError::Over`] at other nodes; nothing changes.
    pub fn note_parent(&mut self, node: NodeId, parent: NodeId) -> Result<(), TreeError> {
        let Some(head) = &mut self.head else { return Err(TreeError::Over) };
        if node == NodeId::HEAD || node.0 >= self.config.nodes {
            return Err(TreeError::NoNode(node));
        }
        if !node.is_below(parent, self.config.radix) {
            return Err(TreeError::OutOfRange("the parent of a node"));
        }
        // Every node is taken to be below the parent of its number, and reports of parents are younger.
        if node.parent(self.config.radix) != Some(parent) && !head.located.contains_key(&node) {
            head.noted.insert(node, parent);
            if self.banned.contains(&parent) {
                self.suspect_below(parent);
            }
        }
        Ok(())
    }

    /// Has all nodes refuse a node.
    fn expel(&mut self, node: NodeId) {
        if self.banned.contains(&node) {
            return;
        }
        let body = crate::edge::encode_item(&node.0);
        self.dispatch(Class::Control, NodeId::HEAD, Target::All, (Content::Excluded, body));
        self.ban(node);
    }

    /// Reports a new child to the head.
    pub(crate) fn report_moved(&mut self, moved: MovedNode) {
        if self.head.is_some() {
            return self.locate(moved);
        }
        let body = crate::edge::encode_item(&moved);
        self.send_up(Class::Control, Target::Head, (Content::Moved, body));
    }

    /// Reports a lost child to the head.
    pub(crate) fn report_gone(&mut self, child: NodeId, is_silent: bool) {
        if self.head.is_some() {
            return self.suspect_child(child, NodeId::HEAD, is_silent);
        }
        let body = crate::edge::encode_item(&GoneNode { node: child.0, is_silent });
        self.send_up(Class::Control, Target::Head, (Content::Gone, body));
    }

    /// Records the parent of a node that has moved: the node is not lost, and its first parent need not await
    /// it any longer.
    pub(crate) fn locate(&mut self, moved: MovedNode) {
        let (node, radix) = (NodeId(moved.node), self.config.radix);
        let (banned, Some(head)) = (&self.banned, &mut self.head) else { return };
        if head.located.get(&node).is_some_and(|(epoch, _)| *epoch >= moved.epoch) {
            return;
        }
        head.located.insert(node, (moved.epoch, NodeId(moved.parent)));
        // Those below are found as well, but not those that left it before, nor those whose way passes a
        // lost node: it leads nowhere.
        let found: Vec<NodeId> = head
            .suspects
            .iter()
            .filter(|(suspect, state)| {
                **suspect == node
                    || (state.loss == EdgeLoss::Detached
                        && head.is_at_or_below(**suspect, node, radix, |passed| {
                            banned.contains(&passed)
                        }))
            })
            .map(|(suspect, _)| *suspect)
            .collect();
        for node in found {
            head.suspects.remove(&node);
        }
        if let Some(first) = node.parent(radix).filter(|first| first.0 != moved.parent) {
            let (to, body) = (Target::Node(first.0), crate::edge::encode_item(&moved));
            self.dispatch(Class::Control, NodeId::HEAD, to, (Content::Moved, body));
        }
    }

    /// Gives a lost child time to attach itself elsewhere.
    pub(crate) fn suspect_child(&mut self, node: NodeId, parent: NodeId, is_silent: bool) {
        let until = self.now.plus(self.config.rejoin);
        let (radix, banned) = (self.config.radix, self.banned.contains(&node));
        let Some(head) = &mut self.head else { return };
        // It may have moved before its former parent noticed.
        if !banned && head.parent_of(node, radix) == Some(parent) {
            let loss = if is_silent { EdgeLoss::Silent } else { EdgeLoss::Closed };
            head.suspects.insert(node, Suspect { until, parent, loss });
        }
    }

    /// Gives the nodes below a lost one time to attach themselves elsewhere.
    fn suspect_below(&mut self, node: NodeId) {
        let radix = self.config.radix;
        // They may notice the loss later, if it is a silence.
        let times = [self.config.silence, self.config.ping, self.config.rejoin];
        let grace = times.map(Duration::as_micros).iter().sum();
        let until = self.now.plus(Duration::from_micros(grace));
        let Some(head) = &mut self.head else { return };
        for below in (1..head.nodes).map(NodeId) {
            let is_free = !self.banned.contains(&below) && below != node;
            if is_free && head.is_at_or_below(below, node, radix, |_| false) {
                let parent = head.parent_of(below, radix).unwrap_or(node);
                let suspect = Suspect { until, parent, loss: EdgeLoss::Detached };
                head.suspects.entry(below).or_insert(suspect);
            }
        }
    }

    /// Declares nodes lost whose time is over.
    pub(crate) fn check_suspects(&mut self) {
        let now = self.now;
        let Some(head) = &self.head else { return };
        let due: Vec<(NodeId, Suspect)> = head
            .suspects
            .iter()
            .filter(|(_, suspect)| now >= suspect.until)
            .map(|(node, suspect)| (*node, *suspect))
            .collect();
        for (node, Suspect { parent, loss, .. }) in due {
            if let Some(head) = &mut self.head {
                head.suspects.remove(&node);
            }
            self.suspect_below(node);
            self.events.push_back(TreeEvent::NodeLost { node, parent, loss });
            self.expel(node);
        }
    }

    pub(crate) fn suspect_deadline(&self) -> Option<Instant> {
        let suspects = self.head.as_ref()?.suspects.values();
        suspects.map(|suspect| suspect.until).min()
    }
}
