//! Messages: numbered by their origin, kept on every edge until their delivery is certain, and
//! accepted once by their receiver.

use crate::edge::Inbound;
use crate::head::HeldOutput;
use crate::lane::{LaneEntry, MESSAGE_BYTES_MAX, Parcel};
use crate::node::{Route, TreeNode};
use crate::source::Source;
use crate::{ChildMessage, Class, Destination, NodeId, OUTPUT_BYTES, TreeError, TreeEvent};
use alloc::rc::Rc;
use alloc::vec::Vec;
use pmi_core::wire::nodes::{
    Content, GoneNode, GrownTree, ListItems, MessageFrame, MovedNode, Target,
};

impl TreeNode {
    /// Sends a message; it arrives once, in the order of its class, unless its receiver is lost. One to the
    /// parent arrives again at the next parent if it was not settled.
    ///
    /// Messages of other nodes than the head go through the head.
    ///
    /// # Errors
    ///
    /// [`TreeError::TooLong`], [`TreeError::NoNode`], or [`TreeError::Over`]; nothing is sent.
    pub fn send(&mut self, to: Destination, class: Class, body: Vec<u8>) -> Result<(), TreeError> {
        let target = match to {
            Destination::Head => Target::Head,
            Destination::All => Target::All,
            Destination::Parent => Target::Parent,
            Destination::Node(node) if node.0 >= self.config.nodes => {
                return Err(TreeError::NoNode(node));
            }
            Destination::Node(node) => Target::Node(node.0),
        };
        if body.len() > MESSAGE_BYTES_MAX {
            let (len, limit_bytes) = (body.len(), MESSAGE_BYTES_MAX);
            return Err(TreeError::TooLong { len, limit_bytes });
        }
        let from = self.config.node;
        match (self.is_over, target) {
            (true, _) => return Err(TreeError::Over),
            (_, Target::Node(node)) if NodeId(node) == from => {
                self.events.push_back(TreeEvent::Message { from, class, body });
            }
            _ if self.head.is_some() => {
                self.dispatch(class, from, target, (Content::Owner, body));
            }
            _ => self.send_up(class, target, (Content::Owner, body)),
        }
        self.is_output_blocked |= !self.can_send(Class::Output);
        Ok(())
    }

    /// Stops or resumes the delivery of output to this node. What has arrived is kept; its senders run
    /// out of credit, and nothing else is delayed.
    pub fn pause_output(&mut self, is_paused: bool) {
        self.is_output_paused = is_paused;
        if is_paused {
            return;
        }
        while let Some(parcel) = self.downlink.held.pop_front() {
            self.deliver(Class::Output, &parcel);
        }
        let held = self.head.as_mut().map(|head| core::mem::take(&mut head.held));
        for HeldOutput { source, parcel, len } in held.unwrap_or_default() {
            if let Some(parcel) = parcel {
                self.accept_at_head(Class::Output, parcel);
            }
            self.settle_source(Class::Output, source, len);
        }
        self.advance_settlement();
    }

    pub(crate) fn send_up(&mut self, class: Class, to: Target, what: (Content, Vec<u8>)) {
        let lane = class.index();
        let (content, body) = what;
        if class == Class::Output {
            self.uplink.output_bytes += body.len();
        }
        // The head numbers what it receives of a node, on any way; the owner of a parent knows its content.
        self.uplink.numbers[lane] += u64::from(to != Target::Parent);
        let number = if to == Target::Parent { 0 } else { self.uplink.numbers[lane] };
        let parcel = Parcel { from: self.config.node, to, number, content, body };
        let entry = self.entry(Rc::new(parcel), None);
        self.uplink.lanes[lane].push(entry);
    }

    fn entry(&mut self, parcel: Rc<Parcel>, source: Option<Source>) -> LaneEntry {
        self.downlink.order += 1;
        LaneEntry { parcel, order: self.downlink.order, source }
    }

    pub(crate) fn handle_message(
        &mut self,
        peer: NodeId,
        frame: &MessageFrame<'_>,
    ) -> Result<(), TreeError> {
        let class = Class::of(frame.class).ok_or(TreeError::OutOfRange("the class"))?;
        let edge = self.edges.get_mut(&peer).ok_or(TreeError::NoEdge(peer))?;
        let (session, is_parent) = (edge.session, edge.is_parent);
        let lane = &mut edge.lanes[class.index()].receive;
        let Some(parcel) = lane.receive(class, frame)? else { return Ok(()) };
        let source = Source { peer, session, number: lane.received };
        if is_parent {
            self.receive_down(class, peer, parcel)
        } else {
            self.receive_up(class, source, parcel)
        }
    }

    fn receive_up(
        &mut self,
        class: Class,
        source: Source,
        parcel: Parcel,
    ) -> Result<(), TreeError> {
        let is_own =
            |node: NodeId| node == source.peer || node.is_below(source.peer, self.config.radix);
        let is_known = match parcel.to {
            Target::Node(node) => node < self.config.nodes,
            Target::Parent => parcel.from == source.peer,
            Target::Head | Target::All => true,
        };
        let is_of_tree = matches!(parcel.content, Content::Gone | Content::Moved);
        if !is_own(parcel.from) || !is_known || (is_of_tree && parcel.to != Target::Head) {
            return Err(TreeError::OutOfRange("the sender or receiver of a message"));
        }
        match parcel.content {
            Content::Owner | Content::Gone => {}
            Content::Excluded => return Err(TreeError::OutOfOrder("an exclusion")),
            Content::Grown => return Err(TreeError::OutOfOrder("a growth")),
            Content::Moved => {
                let moved: MovedNode = item(&parcel.body)?;
                let (node, parent) = (NodeId(moved.node), NodeId(moved.parent));
                if parent != parcel.from || !node.is_below(parent, self.config.radix) {
                    return Err(TreeError::OutOfRange("a node that has moved"));
                }
                self.add_route(moved);
            }
        }
        if parcel.to == Target::Parent {
            self.receive_of_child(class, source, parcel);
            return Ok(());
        }
        let Some(head) = &mut self.head else {
            let entry = self.entry(Rc::new(parcel), Some(source));
            self.uplink.lanes[class.index()].push(entry);
            return Ok(());
        };
        let last = &mut head.origins.entry(parcel.from).or_default()[class.index()];
        let is_repeated = parcel.number <= *last;
        if !is_repeated && parcel.number != *last + 1 {
            return Err(TreeError::Gap);
        }
        *last = parcel.number.max(*last);
        let len = parcel.body.len();
        // Repeated output waits as well: settled messages are counted in their order.
        if class == Class::Output && self.is_output_paused {
            let parcel = (!is_repeated).then_some(parcel);
            head.held.push_back(HeldOutput { source, parcel, len });
            return Ok(());
        }
        if !is_repeated {
            if is_of_tree {
                self.handle_report(&parcel)?
            } else {
                self.accept_at_head(class, parcel)
            }
        }
        self.settle_source(class, source, len);
        Ok(())
    }

    /// Hands a message of a child to the owner, who settles it; the head does so at once.
    fn receive_of_child(&mut self, class: Class, source: Source, parcel: Parcel) {
        let (len, child) = (parcel.body.len(), parcel.from);
        let message = ChildMessage { class, source, len };
        match &mut self.head {
            None => {
                let body = parcel.body;
                self.events.push_back(TreeEvent::FromChild { child, message, body });
            }
            Some(head) if class == Class::Output && self.is_output_paused => {
                head.held.push_back(HeldOutput { source, parcel: Some(parcel), len });
            }
            Some(_) => {
                self.accept_at_head(class, parcel);
                self.settle(message);
            }
        }
    }

    /// Settles a message of a child: its content will not be needed again. The child learns of it once all
    /// earlier messages of its class are settled, too.
    pub fn settle(&mut self, message: ChildMessage) {
        self.settle_source(message.class, message.source, message.len);
    }

    /// Number of messages of this node to its parent that are settled, of the class Output.
    pub const fn passed_on(&self) -> u64 {
        self.uplink.passed_on
    }

    fn accept_at_head(&mut self, class: Class, parcel: Parcel) {
        self.dispatch(class, parcel.from, parcel.to, (parcel.content, parcel.body));
    }

    fn handle_report(&mut self, parcel: &Parcel) -> Result<(), TreeError> {
        if parcel.content == Content::Moved {
            let moved: MovedNode = item(&parcel.body)?;
            self.locate(moved);
        } else {
            let gone: GoneNode = item(&parcel.body)?;
            self.suspect_child(NodeId(gone.node), parcel.from, gone.is_silent);
        }
        Ok(())
    }

    /// Sends a message down from the head, or delivers it there.
    pub(crate) fn dispatch(
        &mut self,
        class: Class,
        from: NodeId,
        to: Target,
        what: (Content, Vec<u8>),
    ) {
        let (content, body) = what;
        let Some(head) = &mut self.head else { return };
        let number = match to {
            Target::Head | Target::Parent | Target::Node(0) => {
                return self.events.push_back(TreeEvent::Message { from, class, body });
            }
            Target::Node(node) if self.banned.contains(&NodeId(node)) => return,
            Target::Node(node) => {
                let numbers = head.directed.entry(NodeId(node)).or_default();
                numbers[class.index()] += 1;
                numbers[class.index()]
            }
            Target::All => {
                if from != NodeId::HEAD {
                    let body = body.clone();
                    self.events.push_back(TreeEvent::Message { from, class, body });
                }
                self.downlink.all[class.index()] += 1;
                self.downlink.all[class.index()]
            }
        };
        let parcel = Rc::new(Parcel { from, to, number, content, body });
        if class == Class::Output {
            head.issued_bytes += parcel.body.len();
            head.issued.push_back(parcel.clone());
        }
        self.distribute(class, &parcel);
        self.advance_settlement();
    }

    fn distribute(&mut self, class: Class, parcel: &Rc<Parcel>) {
        let lane = class.index();
        let entry = self.entry(parcel.clone(), None);
        let route = match parcel.to {
            Target::Node(node) => self.route(NodeId(node)),
            Target::Head | Target::All | Target::Parent => None,
        };
        if let Some(edge) = route.and_then(|peer| self.edges.get_mut(&peer)) {
            return edge.lanes[lane].send.push(entry);
        }
        // Those that are between two parents get it when they attach themselves below this node.
        for absence in &mut self.absences {
            absence.lanes[lane].push_back(entry.clone());
        }
        if parcel.to == Target::All {
            for edge in self.edges.values_mut().filter(|edge| edge.is_open_child()) {
                edge.lanes[lane].send.push(entry.clone());
            }
        }
    }

    fn receive_down(
        &mut self,
        class: Class,
        peer: NodeId,
        parcel: Parcel,
    ) -> Result<(), TreeError> {
        let (lane, me) = (class.index(), self.config.node);
        let last = match parcel.to {
            Target::All => Some(&mut self.downlink.all[lane]),
            Target::Node(node) if NodeId(node) == me => Some(&mut self.downlink.own[lane]),
            Target::Node(node) if NodeId(node).is_below(me, self.config.radix) => None,
            Target::Node(_) | Target::Head | Target::Parent => {
                return Err(TreeError::OutOfRange("the receiver of a message"));
            }
        };
        let is_to_one = matches!(parcel.to, Target::Node(_));
        if parcel.content == Content::Gone || (parcel.content == Content::Moved && !is_to_one) {
            return Err(TreeError::OutOfOrder("a report"));
        }
        if parcel.content == Content::Grown && parcel.to != Target::All {
            return Err(TreeError::OutOfOrder("a growth for one node"));
        }
        let is_repeated = last.as_ref().is_some_and(|last| parcel.number <= **last);
        if let Some(last) = last.filter(|_| !is_repeated) {
            if parcel.number != *last + 1 {
                return Err(TreeError::Gap);
            }
            *last = parcel.number;
        }
        let len = parcel.body.len();
        let parcel = if is_repeated {
            self.take_former(lane, &parcel)
        } else {
            let parcel = Rc::new(parcel);
            self.pass_down(class, &parcel)?;
            Some(parcel)
        };
        if let Some(edge) = self.edges.get_mut(&peer) {
            edge.lanes[lane].inbound.push_back(Inbound { parcel, len });
        }
        self.advance_settlement();
        Ok(())
    }

    /// The same message of a former parent: it is settled when that one is.
    fn take_former(&mut self, lane: usize, parcel: &Parcel) -> Option<Rc<Parcel>> {
        let at = self.downlink.former.iter().position(|(of, former)| {
            *of == lane && (former.to, former.number) == (parcel.to, parcel.number)
        })?;
        Some(self.downlink.former.swap_remove(at).1)
    }

    fn pass_down(&mut self, class: Class, parcel: &Rc<Parcel>) -> Result<(), TreeError> {
        if parcel.to != Target::Node(self.config.node.0) {
            self.distribute(class, parcel);
        }
        match (parcel.to, parcel.content) {
            (_, Content::Excluded) => self.ban(NodeId(item(&parcel.body)?)),
            (_, Content::Grown) => {
                let grown: GrownTree = item(&parcel.body)?;
                if grown.nodes <= self.config.nodes {
                    return Err(TreeError::OutOfRange("the number of nodes"));
                }
                self.add_nodes(grown);
            }
            (Target::Node(node), _) if NodeId(node) != self.config.node => {}
            (_, Content::Moved) => {
                let moved: MovedNode = item(&parcel.body)?;
                let (child, parent) = (NodeId(moved.node), NodeId(moved.parent));
                let (me, radix) = (self.config.node, self.config.radix);
                if child.parent(radix) != Some(me) || !me.is_below(parent, radix) {
                    return Err(TreeError::OutOfRange("a node that has moved"));
                }
                self.forget_awaited(child);
            }
            _ if parcel.from == self.config.node => {}
            _ if class == Class::Output && self.is_output_paused => {
                self.downlink.held.push_back(parcel.clone());
            }
            _ => self.deliver(class, parcel),
        }
        Ok(())
    }

    fn deliver(&mut self, class: Class, parcel: &Parcel) {
        let (from, body) = (parcel.from, parcel.body.clone());
        self.events.push_back(TreeEvent::Message { from, class, body });
    }

    pub(crate) fn handle_settled(
        &mut self,
        peer: NodeId,
        counts: [u64; 2],
        ended: u64,
    ) -> Result<(), TreeError> {
        let edge = self.edges.get_mut(&peer).ok_or(TreeError::NoEdge(peer))?;
        if edge.is_parent {
            for class in Class::ALL {
                for entry in self.uplink.lanes[class.index()].settle(counts[class.index()])? {
                    let len = entry.parcel.body.len();
                    match entry.source {
                        Some(source) => self.settle_source(class, source, len),
                        None if class == Class::Output => {
                            self.uplink.output_bytes -= len;
                            self.uplink.passed_on += u64::from(entry.parcel.to == Target::Parent);
                        }
                        None => {}
                    }
                }
            }
        } else {
            for (lane, count) in edge.lanes.iter_mut().zip(counts) {
                lane.send.settle(count)?;
            }
            self.acknowledge(peer, ended)?;
        }
        self.advance_settlement();
        Ok(())
    }

    /// Settles a message that a child has sent, if it is still the same edge.
    fn settle_source(&mut self, class: Class, source: Source, len: usize) {
        let edge = self.edges.get_mut(&source.peer);
        if let Some(edge) = edge.filter(|edge| edge.session == source.session) {
            edge.lanes[class.index()].receive.settle_number(source.number, len);
        }
    }

    /// Settles messages of the parent that no queue below holds any more.
    pub(crate) fn advance_settlement(&mut self) {
        let is_held = |parcel: &Rc<Parcel>| Rc::strong_count(parcel) > 1;
        let parent = self.uplink.parent.and_then(|parent| self.edges.get_mut(&parent));
        for lane in parent.into_iter().flat_map(|edge| edge.lanes.iter_mut()) {
            while let Some(first) = lane.inbound.front() {
                if first.parcel.as_ref().is_some_and(is_held) {
                    break;
                }
                lane.receive.settle(first.len);
                lane.inbound.pop_front();
            }
        }
        self.downlink.former.retain(|(_, parcel)| is_held(parcel));
        if let Some(head) = &mut self.head {
            while let Some(first) = head.issued.front().filter(|first| !is_held(first)) {
                head.issued_bytes -= first.body.len();
                head.issued.pop_front();
            }
        }
        if self.is_output_blocked && self.can_send(Class::Output) {
            self.is_output_blocked = false;
            self.events.push_back(TreeEvent::Credit);
        }
    }

    /// The edge to a node below; none while it has no parent that this node knows of.
    ///
    /// It follows the parents up to this node, so that the move of one node takes those below it along.
    pub(crate) fn route(&self, target: NodeId) -> Option<NodeId> {
        let mut node = target;
        // Every parent has a lower number than its child.
        while node > self.config.node {
            let parent = match self.routes.get(&node) {
                Some(route) => route.parent,
                None => node.parent(self.config.radix)?,
            };
            if parent == self.config.node {
                let is_open = self.edges.get(&node).is_some_and(|edge| edge.is_open_child());
                return is_open.then_some(node);
            }
            node = parent;
        }
        None
    }

    /// Records the parent of a node that has moved, and sends it what waits on the former way.
    ///
    /// Reports take different ways, so an earlier one may arrive later.
    pub(crate) fn add_route(&mut self, moved: MovedNode) {
        if let Some(edge) = self.set_route(moved) {
            self.repeat_messages(edge, None);
        }
    }

    /// Records the parent of a node that has moved; returns the edge to it if that is another one now.
    pub(crate) fn set_route(&mut self, moved: MovedNode) -> Option<NodeId> {
        let node = NodeId(moved.node);
        if self.routes.get(&node).is_some_and(|route| route.epoch >= moved.epoch) {
            return None;
        }
        let former = self.route(node);
        self.routes.insert(node, Route { epoch: moved.epoch, parent: NodeId(moved.parent) });
        self.route(node).filter(|edge| former != Some(*edge))
    }

    /// Sends what waits on other edges on the one that leads to its receivers now: messages to single
    /// nodes, and those to all nodes that the peer has not `received`.
    pub(crate) fn repeat_messages(&mut self, edge: NodeId, received: Option<[u64; 2]>) {
        for lane in Class::ALL.map(Class::index) {
            let others =
                self.edges.iter().filter(|(peer, other)| **peer != edge && !other.is_parent);
            let queued = others.flat_map(|(_, other)| other.lanes[lane].send.entries());
            let absent = self.absences.iter().flat_map(|absence| absence.lanes[lane].iter());
            let is_wanted = |entry: &&LaneEntry| match entry.parcel.to {
                Target::Node(node) => self.route(NodeId(node)) == Some(edge),
                Target::All => received.is_some_and(|last| entry.parcel.number > last[lane]),
                Target::Head | Target::Parent => false,
            };
            let mut wanted: Vec<LaneEntry> =
                queued.chain(absent).filter(is_wanted).cloned().collect();
            wanted.sort_by_key(|entry| entry.order);
            wanted.dedup_by_key(|entry| entry.order);
            if let Some(edge) = self.edges.get_mut(&edge) {
                wanted.into_iter().for_each(|entry| edge.lanes[lane].send.push(entry));
            }
        }
    }
}

/// The body of a message of the tree.
fn item<'a, T: serde::Deserialize<'a>>(body: &'a [u8]) -> Result<T, TreeError> {
    let malformed = TreeError::OutOfRange("the body of a message of the tree");
    ListItems::new(body).next().and_then(Result::ok).ok_or(malformed)
}

const _: () = assert!(OUTPUT_BYTES == crate::lane::window(Class::Output));
