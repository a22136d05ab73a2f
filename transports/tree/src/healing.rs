//! Edges that open and end: attachment to a parent, loss of a parent or child, and silence.
//!
//! A node that loses its parent attaches itself to the next ancestor on the way its messages took. That
//! ancestor has kept all that the lost node did not confirm for its whole subtree, so nothing is
//! missing; what is sent twice is recognised by its number.

use crate::edge::{DueFrames, EdgeState, ITEM_BYTES_MAX, TreeEdge, encode_item};
use crate::event::{CloseReason, Silence, TreeEvent};
use crate::lane::LaneEntry;
use crate::node::TreeNode;
use crate::{NodeId, TreeError};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use pmi_core::time::{Duration, Instant};
use pmi_core::wire::nodes::{
    AttachFrame, LIST_BYTES_MAX, ListItems, MovedNode, NodeBytes, NodeFrame, Refusal, Target,
    VERSION,
};

/// What a child that is not here has not confirmed, for the nodes below it.
#[derive(Debug)]
pub(crate) struct Absence {
    /// The child, if it has never been here.
    awaited: Option<NodeId>,
    /// None before the first connection of this node.
    until: Option<Instant>,
    pub(crate) lanes: [VecDeque<LaneEntry>; 2],
    /// Last result that its whole subtree has received.
    pub(crate) acked: u64,
}

impl Absence {
    /// The absence of a child that is still to come.
    pub(crate) fn awaiting(child: NodeId) -> Self {
        Self { awaited: Some(child), until: None, lanes: Default::default(), acked: 0 }
    }

    /// The absence of a child that joins later, and receives results behind those up to `acked`.
    pub(crate) fn joining(child: NodeId, until: Instant, acked: u64) -> Self {
        let (awaited, until) = (Some(child), Some(until));
        Self { awaited, until, lanes: Default::default(), acked }
    }
}

/// The search for a parent.
#[derive(Debug)]
pub(crate) struct Detached {
    candidates: VecDeque<NodeId>,
    /// True while the owner connects to the first candidate.
    is_trying: bool,
    /// End of this attempt, or of the pause before the next one.
    until: Instant,
    /// When the head is given up; none before it was tried.
    end: Option<Instant>,
}

impl TreeNode {
    /// An authenticated connection to `peer` is open, begun by either side.
    pub fn connected(&mut self, peer: NodeId, now: Instant) {
        self.now = now;
        let (me, radix) = (self.config.node, self.config.radix);
        let until = now.plus(self.config.start());
        for absence in &mut self.absences {
            absence.until = absence.until.or(Some(until));
        }
        if self.edges.contains_key(&peer) {
            // The peer has noticed the end of the former connection earlier.
            self.lose_edge(peer, false);
        }
        let is_parent = me.is_below(peer, radix);
        let is_related = is_parent || (peer.is_below(me, radix) && peer.0 < self.config.nodes);
        if self.is_over || !is_related || (is_parent && self.uplink.parent.is_some()) {
            let why = CloseReason::Superfluous;
            return self.events.push_back(TreeEvent::Close { peer, why });
        }
        self.sessions += 1;
        self.edges.insert(peer, TreeEdge::new(is_parent, self.sessions, now));
        if is_parent {
            self.uplink.parent = Some(peer);
            self.uplink.epoch += 1;
            // It answers: if this connection ends as well, the search begins anew.
            if let Some(detached) = &mut self.uplink.detached {
                detached.end = None;
            }
            for lane in &mut self.uplink.lanes {
                lane.rewind();
            }
        }
    }

    /// The connection to `peer` has ended, or could not be opened.
    pub fn disconnected(&mut self, peer: NodeId, now: Instant) {
        self.now = now;
        if self.edges.contains_key(&peer) {
            self.lose_edge(peer, false);
        } else if !self.is_over
            && self.uplink.parent.is_none()
            && self.config.node.is_below(peer, self.config.radix)
        {
            let awaited =
                self.uplink.detached.as_ref().map(|detached| {
                    detached.is_trying && detached.candidates.front() == Some(&peer)
                });
            if awaited != Some(false) {
                self.try_next_parent(peer);
            }
        }
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        if self.is_over {
            return;
        }
        let ping = self.config.ping;
        let silent: Vec<NodeId> = self
            .edges
            .iter()
            .filter(|(_, edge)| now >= self.silence_deadline(edge))
            .map(|(peer, _)| *peer)
            .collect();
        for peer in silent {
            self.events.push_back(TreeEvent::Close { peer, why: CloseReason::Silent });
            self.lose_edge(peer, true);
        }
        let is_open = |edge: &TreeEdge| edge.state == EdgeState::Open;
        let silent = self.edges.iter().filter(|(_, edge)| is_open(edge));
        let silent = silent.filter_map(|(peer, edge)| Some((*peer, self.silence(edge)?)));
        for (peer, silence) in Vec::from_iter(silent) {
            if let Some(edge) = self.edges.get_mut(&peer)
                && edge.silence.replace(silence) != Some(silence)
            {
                self.events.push_back(TreeEvent::Silent { peer, silence });
            }
        }
        for edge in self.edges.values_mut().filter(|edge| edge.state == EdgeState::Open) {
            edge.due.life |= now >= edge.last_sent.plus(ping);
        }
        let before = self.absences.len();
        self.absences.retain(|absence| absence.until.is_none_or(|until| now < until));
        if self.absences.len() < before {
            self.advance_settlement();
            self.prune_results();
        }
        self.check_suspects();
        self.check_detached();
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    ///
    /// Changes after every call with a time.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.is_over {
            return None;
        }
        let edges = self.edges.values().map(|edge| {
            let is_open = edge.state == EdgeState::Open;
            let pause = self.pause_deadline(edge);
            let silence = match edge.silence {
                None if is_open && self.now < pause => pause,
                Some(Silence::Process) if self.is_patient() => self.host_deadline(edge),
                _ => self.silence_deadline(edge),
            };
            match is_open && !edge.due.life {
                true => silence.min(edge.last_sent.plus(self.config.ping)),
                false => silence,
            }
        });
        let absences = self.absences.iter().filter_map(|absence| absence.until);
        let is_detached = self.uplink.parent.is_none();
        let detached = self.uplink.detached.as_ref().filter(|_| is_detached);
        let tries = detached.map(|detached| detached.until);
        let end = detached.and_then(|detached| detached.end);
        let times = edges.chain(absences);
        times.chain(tries).chain(end).chain(self.suspect_deadline()).min()
    }

    /// When an edge is given up, whose peer and its host are silent. A child does that one ping before its
    /// parent, so that it is attached elsewhere when its parent reports it.
    fn silence_deadline(&self, edge: &TreeEdge) -> Instant {
        let answered = edge.last_received.max(edge.host_answered).plus(self.config.silence);
        if edge.is_parent { answered } else { answered.plus(self.config.ping) }
    }

    /// When the silence of the peer of an edge is reported.
    fn pause_deadline(&self, edge: &TreeEdge) -> Instant {
        edge.last_received.plus(self.config.pause)
    }

    /// When the host of a peer counts as silent, too: the system of one that is there answers a probe with
    /// each ping, and the owner looks as often.
    fn host_deadline(&self, edge: &TreeEdge) -> Instant {
        let (pause, ping) = (self.config.pause.as_micros(), self.config.ping.as_micros());
        let limit = pause.saturating_sub(ping.saturating_mul(2));
        edge.host_answered.plus(Duration::from_micros(limit))
    }

    /// What does not answer, if nothing has arrived for long enough. A host that will be given up at once
    /// is not reported before.
    fn silence(&self, edge: &TreeEdge) -> Option<Silence> {
        if self.now < self.pause_deadline(edge) {
            return None;
        }
        match self.now < self.host_deadline(edge) {
            true => Some(Silence::Process),
            false => self.is_patient().then_some(Silence::Host),
        }
    }

    /// True if a host may be silent for longer than a process before that is reported.
    fn is_patient(&self) -> bool {
        self.config.silence > self.config.pause
    }

    /// Ends an edge: its connection is gone, or is given up.
    pub(crate) fn lose_edge(&mut self, peer: NodeId, is_silent: bool) {
        let Some(edge) = self.edges.remove(&peer) else { return };
        if self.is_over {
            return;
        }
        if edge.is_parent {
            self.uplink.parent = None;
            for (lane, inbound) in edge.lanes.into_iter().map(|lane| lane.inbound).enumerate() {
                let parcels = inbound.into_iter().filter_map(|inbound| inbound.parcel);
                let to_all = parcels.filter(|parcel| parcel.to == Target::All);
                self.downlink.former.extend(to_all.map(|parcel| (lane, parcel)));
            }
            self.try_next_parent(peer);
        } else if edge.state != EdgeState::Closing {
            if edge.is_open_child() {
                self.keep_absence(edge);
            }
            self.gone.insert(peer);
            self.report_gone(peer, is_silent);
            self.check_all_complete();
        }
        self.advance_settlement();
    }

    /// Keeps for the nodes below what a child has not confirmed.
    fn keep_absence(&mut self, edge: TreeEdge) {
        let acked = edge.cursor.acked;
        let lanes = edge.lanes.map(|lane| lane.send.into_entries());
        let until = Some(self.now.plus(self.config.hold()));
        self.absences.push(Absence { awaited: None, until, lanes, acked });
    }

    /// Keeps nothing any longer for a child that has never been here: it is attached to an ancestor of this
    /// node, and no node attaches itself below one that it has left.
    pub(crate) fn forget_awaited(&mut self, child: NodeId) {
        self.absences.retain(|absence| absence.awaited != Some(child));
        self.prune_results();
    }

    /// Refuses a node from now on.
    pub(crate) fn ban(&mut self, node: NodeId) {
        if node == self.config.node {
            return self.end(TreeEvent::Expelled);
        }
        self.banned.insert(node);
        let hold = self.now.plus(self.config.hold());
        for absence in self.absences.iter_mut().filter(|absence| absence.awaited == Some(node)) {
            absence.until = Some(hold);
        }
        if self.edges.get(&node).is_some_and(|edge| edge.is_open_child())
            && let Some(edge) = self.edges.remove(&node)
        {
            let mut closing = TreeEdge::new(false, edge.session, self.now);
            self.keep_absence(edge);
            closing.refuse(Refusal::Excluded);
            self.edges.insert(node, closing);
            self.check_all_complete();
        }
    }

    /// Ends the node: the last event, and no edges any more.
    fn end(&mut self, event: TreeEvent) {
        self.is_over = true;
        self.uplink.detached = None;
        self.events.push_back(event);
    }

    pub(crate) fn handle_attach(
        &mut self,
        peer: NodeId,
        attach: &AttachFrame<'_>,
    ) -> Result<(), TreeError> {
        let refusal = if attach.version != VERSION {
            Some(Refusal::Version)
        } else if attach.radix != self.config.radix || !self.has_had(attach.nodes) {
            Some(Refusal::Shape)
        } else if self.banned.contains(&peer) {
            Some(Refusal::Excluded)
        } else if self.is_behind(attach) {
            Some(Refusal::Behind)
        } else if attach.node != peer.0 {
            return Err(TreeError::OutOfRange("the number of the node"));
        } else {
            None
        };
        if let Some(refusal) = refusal {
            if let Some(edge) = self.edges.get_mut(&peer) {
                edge.refuse(refusal);
            }
            // The head takes it for a child of this node unless it attaches itself elsewhere.
            if refusal != Refusal::Excluded {
                self.gone.insert(peer);
                self.report_gone(peer, false);
            }
            return Ok(());
        }
        let (me, radix) = (self.config.node, self.config.radix);
        let moved = MovedNode { node: peer.0, epoch: attach.epoch, parent: me.0 };
        if let Some(edge) = self.edges.get_mut(&peer) {
            edge.state = EdgeState::Open;
            edge.due.greeting = true;
            edge.cursor.sequence = attach.ended + 1;
            edge.cursor.offset = attach.offset;
            // Those below it may have less, but it has kept that for them.
            edge.cursor.acked = attach.acknowledged;
        }
        // All messages that wait for it and those below follow together, in their order.
        self.set_route(moved);
        for below in ListItems::<MovedNode>::new(attach.moved.0) {
            let below = below?;
            let (node, parent) = (NodeId(below.node), NodeId(below.parent));
            let is_its = parent == peer || parent.is_below(peer, radix);
            if is_its && node.is_below(parent, radix) {
                self.set_route(below);
            }
        }
        self.repeat_messages(peer, Some(attach.received));
        self.absences.retain(|absence| absence.awaited != Some(peer));
        for gathering in self.collectives.gatherings.values_mut() {
            gathering.complete.remove(&peer);
        }
        let is_first_parent = peer.parent(radix) == Some(me);
        if self.gone.remove(&peer) || attach.epoch > 1 || !is_first_parent {
            self.report_moved(moved);
        }
        self.advance_settlement();
        self.prune_results();
        Ok(())
    }

    /// True if the tree has this number of nodes, or had it before it grew: the child may lack the message.
    fn has_had(&self, nodes: u32) -> bool {
        nodes == self.config.nodes || self.growths.includes(nodes)
    }

    /// True if the child lacks something that this node does not have any more.
    fn is_behind(&self, attach: &AttachFrame<'_>) -> bool {
        let lacks_message = attach.received.into_iter().enumerate().any(|(lane, received)| {
            let entries = self.absences.iter().flat_map(|absence| absence.lanes[lane].iter());
            let others = self.open_children();
            let queued = others.flat_map(|(_, edge)| edge.lanes[lane].send.entries());
            let mut numbers: Vec<u64> = entries
                .chain(queued)
                .filter(|entry| entry.parcel.to == Target::All)
                .map(|entry| entry.parcel.number)
                .filter(|number| *number > received)
                .collect();
            numbers.sort_unstable();
            numbers.dedup();
            (numbers.len() as u64) < self.downlink.all[lane].saturating_sub(received)
        });
        lacks_message || !self.collectives.has_from(attach.ended + 1)
    }

    /// First frame to a parent.
    pub(crate) fn write_attach(&mut self, peer: NodeId) {
        let mut moved = Vec::new();
        for (node, route) in &self.routes {
            let is_below = self.route(*node).is_some();
            let is_first = route.epoch == 1 && node.parent(self.config.radix) == Some(route.parent);
            // A node that is left out here is found by the routes of this node.
            if is_below && !is_first && moved.len() + ITEM_BYTES_MAX <= LIST_BYTES_MAX {
                moved.extend(encode_item(&MovedNode {
                    node: node.0,
                    epoch: route.epoch,
                    parent: route.parent.0,
                }));
            }
        }
        let frame = NodeFrame::Attach(AttachFrame {
            version: VERSION,
            node: self.config.node.0,
            nodes: self.config.nodes,
            radix: self.config.radix,
            epoch: self.uplink.epoch,
            received: self.downlink.all,
            ended: self.collectives.last,
            offset: self.collectives.partial_bytes(),
            acknowledged: self.acknowledged(),
            moved: NodeBytes(&moved),
        });
        if let Some(edge) = self.edges.get_mut(&peer) {
            edge.write(&frame);
        }
    }

    /// The parent has attached this node, or its own ancestors have changed.
    pub(crate) fn handle_chain(
        &mut self,
        peer: NodeId,
        chain: &[u8],
        is_welcome: bool,
    ) -> Result<(), TreeError> {
        let mut ancestors = Vec::from([peer]);
        for ancestor in ListItems::<u32>::new(chain) {
            let ancestor = NodeId(ancestor?);
            let last = ancestors.last().copied().unwrap_or(peer);
            if !last.is_below(ancestor, self.config.radix) {
                return Err(TreeError::OutOfRange("an ancestor"));
            }
            ancestors.push(ancestor);
        }
        if ancestors.last() != Some(&NodeId::HEAD) {
            return Err(TreeError::OutOfRange("the list of ancestors"));
        }
        if ancestors != self.uplink.chain {
            self.uplink.chain = ancestors;
            for edge in self.edges.values_mut().filter(|edge| edge.is_open_child()) {
                edge.due.chain = true;
            }
        }
        if is_welcome {
            if let Some(edge) = self.edges.get_mut(&peer) {
                edge.state = EdgeState::Open;
            }
            self.uplink.detached = None;
            if self.uplink.epoch > 1 {
                self.resend_contributions();
            }
        }
        Ok(())
    }

    /// The parent does not take this node.
    pub(crate) fn handle_refusal(&mut self, peer: NodeId, why: Refusal) -> Result<(), TreeError> {
        match why {
            Refusal::Excluded => self.end(TreeEvent::Expelled),
            // No other ancestor has more.
            Refusal::Behind if peer == NodeId::HEAD => self.lose_head(),
            // An ancestor may have received fewer of the growths, the head has made all of them.
            Refusal::Shape if peer == NodeId::HEAD => {
                return Err(TreeError::OutOfOrder("a refusal of this number of nodes"));
            }
            Refusal::Behind | Refusal::Shape => {
                self.events.push_back(TreeEvent::Close { peer, why: CloseReason::Refused });
                self.lose_edge(peer, false);
            }
            Refusal::Version => return Err(TreeError::OutOfOrder("a refusal of this version")),
        }
        Ok(())
    }

    /// No ancestor answers, or the parent has reported that.
    pub(crate) fn lose_head(&mut self) {
        for edge in self.edges.values_mut().filter(|edge| edge.is_open_child()) {
            edge.due = DueFrames { head_lost: true, ..edge.due };
        }
        self.end(TreeEvent::HeadLost);
    }

    /// Asks the owner for a connection to the ancestor behind `failed`.
    fn try_next_parent(&mut self, failed: NodeId) {
        let (now, ping) = (self.now, self.config.ping);
        let (chain, is_first) = (&self.uplink.chain, self.uplink.detached.is_none());
        let detached = self.uplink.detached.get_or_insert_with(|| {
            let behind = chain.iter().copied().skip_while(|node| *node != failed);
            Detached { candidates: behind.collect(), is_trying: true, until: now, end: None }
        });
        if is_first && failed == NodeId::HEAD {
            // There is no other ancestor, and the end of one connection does not mean that it is lost.
            return self.try_parent();
        }
        if detached.candidates.len() > 1 {
            detached.candidates.pop_front();
            return self.try_parent();
        }
        // The head is tried again, but not without a pause.
        let end = now.plus(Duration::from_micros(ping.as_micros().saturating_mul(2)));
        detached.end = detached.end.or(Some(end));
        detached.candidates = VecDeque::from([NodeId::HEAD]);
        detached.is_trying = false;
        detached.until = now.plus(Duration::from_micros(ping.as_micros() / PAUSES));
    }

    fn try_parent(&mut self) {
        let (now, ping) = (self.now, self.config.ping);
        let Some(detached) = &mut self.uplink.detached else { return };
        let Some(to) = detached.candidates.front().copied() else { return };
        let end = now.plus(Duration::from_micros(ping.as_micros().saturating_mul(2)));
        if to == NodeId::HEAD {
            detached.end = detached.end.or(Some(end));
        }
        detached.is_trying = true;
        detached.until = now.plus(ping);
        self.events.push_back(TreeEvent::Reconnect { to });
    }

    fn check_detached(&mut self) {
        let now = self.now;
        let Some(detached) = self.uplink.detached.as_ref().filter(|_| self.uplink.parent.is_none())
        else {
            return;
        };
        if detached.end.is_some_and(|end| now >= end) {
            return self.lose_head();
        }
        if now < detached.until {
            return;
        }
        match (detached.is_trying, detached.candidates.front().copied()) {
            (true, Some(failed)) => self.try_next_parent(failed),
            _ => self.try_parent(),
        }
    }
}

impl TreeEdge {
    /// Sends a refusal, and nothing behind it.
    fn refuse(&mut self, why: Refusal) {
        self.state = EdgeState::Closing;
        self.due = DueFrames { refusal: Some(why), ..DueFrames::default() };
    }
}

/// Pauses between attempts to reach the head, in the time of a ping.
const PAUSES: u64 = 5;
