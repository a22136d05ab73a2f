//! The world: nodes, connections, faults, and a queue of due actions.

use super::check::{self, Fate, MEMBERS, TreeChecks};
use super::connection::Connection;
use super::mutant::TreeMutant;
use super::plan::{DIAL_LIMIT, PATIENCE, PICOS, START, START_REPORT, TreeFault, TreePlan};
use crate::rng::{Percent, Rng, Span};
use pmi_core::time::Instant;
use pmi_tree::{
    CollectiveId, Contribution, Destination, NodeId, TreeConfig, TreeError, TreeEvent, TreeNode,
};
use std::collections::{BTreeMap, BTreeSet};

/// A due action.
#[derive(Debug)]
enum Action {
    Deliver { connection: usize, from: NodeId, bytes: Vec<u8> },
    Closed { connection: usize, at: NodeId },
    Dialed { child: NodeId, parent: NodeId, is_open: bool },
    Timer(NodeId),
    Contribute(NodeId),
    Talk(usize),
    Fault(TreeFault),
    Exclude(NodeId),
}

/// A node and its surroundings.
#[derive(Debug)]
struct SimNode {
    /// None once it has ended.
    node: Option<TreeNode>,
    fate: Fate,
    is_isolated: bool,
    was_attached: bool,
    peers: BTreeMap<NodeId, usize>,
    /// Peers whose connections are full.
    waiting: BTreeSet<NodeId>,
    /// Time of the scheduled timer.
    timer: u64,
    /// Picoseconds until which its interface is busy: out, in.
    busy: [u64; 2],
    /// Operations it has contributed to.
    contributed: u32,
}

/// A run of a plan.
#[derive(Debug)]
pub struct TreeWorld {
    plan: TreePlan,
    rng: Rng,
    mutant: Option<TreeMutant>,
    has_acted: bool,
    time: u64,
    steps: u64,
    order: u64,
    queue: BTreeMap<(u64, u64), Action>,
    nodes: Vec<SimNode>,
    connections: BTreeMap<usize, Connection>,
    checks: TreeChecks,
    span: Option<(u64, u64)>,
}

impl TreeWorld {
    /// The world of a plan before its first step.
    pub fn new(plan: TreePlan, seed: u64, mutant: Option<TreeMutant>) -> Self {
        let ids = || (0..plan.nodes).map(NodeId);
        let node = |id| SimNode {
            node: Some(TreeNode::new(TreeConfig {
                radix: plan.radix,
                ..TreeConfig::new(id, plan.nodes)
            })),
            fate: Fate::Alive { is_attached: false },
            is_isolated: false,
            was_attached: id == NodeId::HEAD,
            peers: BTreeMap::new(),
            waiting: BTreeSet::new(),
            timer: u64::MAX,
            busy: [0; 2],
            contributed: 0,
        };
        let mut world = Self {
            rng: Rng::new(seed, 2),
            mutant,
            has_acted: false,
            time: 0,
            steps: 0,
            order: 0,
            queue: BTreeMap::new(),
            nodes: ids().map(node).collect(),
            connections: BTreeMap::new(),
            checks: TreeChecks::new(plan.nodes),
            span: None,
            plan,
        };
        for child in (1..world.plan.nodes).map(NodeId) {
            let parent = child.parent(world.plan.radix).unwrap_or(NodeId::HEAD);
            let at = world.rng.within(world.plan.pace);
            world.after(at, Action::Dialed { child, parent, is_open: true });
            let at = START + world.rng.within(world.plan.pace);
            world.after(at, Action::Contribute(child));
        }
        for talk in 0..world.plan.talks.len() {
            world.after(START + world.plan.talks[talk].at, Action::Talk(talk));
        }
        for (at, fault) in world.plan.faults.clone() {
            world.after(at, Action::Fault(fault));
        }
        world
    }

    /// Runs to the end: nothing is left to do, or to wait for.
    pub fn run(&mut self) {
        let faults = self.plan.faults.iter().map(|(at, fault)| match fault {
            TreeFault::Kill(_) | TreeFault::Cut(_) => at + 500_000,
            TreeFault::Isolate(_) | TreeFault::Mute(_) => at + 8_000_000,
        });
        let talks = self.plan.talks.iter().map(|talk| START + talk.at);
        let least = faults.chain(talks).max().unwrap_or(0) + 10_000;
        let mut look = least;
        while let Some(((time, _), action)) = self.queue.pop_first() {
            if time > look {
                if self.is_finished() || time > least + PATIENCE {
                    break;
                }
                look = time + 100_000;
            }
            self.time = time;
            self.steps += 1;
            self.checks.at(time, self.steps);
            self.act(action);
            if !self.checks.violations().is_empty() {
                return;
            }
        }
        let fates = self.fates();
        self.checks.finish(&fates, &self.plan);
    }

    /// The rules and their findings.
    pub fn checks(&self) -> &TreeChecks {
        &self.checks
    }

    /// Number of actions so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Time of the first contribution.
    pub fn first_contribution(&self) -> u64 {
        self.span.map_or(0, |span| span.0)
    }

    /// Time of the last result at a node.
    pub fn last_result(&self) -> u64 {
        self.span.map_or(0, |span| span.1)
    }

    fn is_finished(&self) -> bool {
        let has_all = (0..self.plan.nodes).map(NodeId).all(|node| {
            !matches!(self.sim(node).fate, Fate::Alive { .. })
                || self.checks.has_all(node, self.plan.operations)
        });
        let lives = |sim: &SimNode| matches!(sim.fate, Fate::Alive { .. });
        if !has_all && lives(self.sim(NodeId::HEAD)) && self.nodes.iter().skip(1).any(lives) {
            return false;
        }
        let mut trial = self.checks.clone();
        trial.finish(&self.fates(), &self.plan);
        trial.violations().is_empty()
    }

    fn fates(&self) -> Vec<Fate> {
        let fate = |sim: &SimNode| match (&sim.node, sim.fate) {
            (Some(node), Fate::Alive { .. }) => Fate::Alive { is_attached: node.is_attached() },
            (_, fate) => fate,
        };
        self.nodes.iter().map(fate).collect()
    }

    fn sim(&self, node: NodeId) -> &SimNode {
        &self.nodes[node.0 as usize]
    }

    fn sim_mut(&mut self, node: NodeId) -> &mut SimNode {
        &mut self.nodes[node.0 as usize]
    }

    fn now(&self) -> Instant {
        Instant::from_micros(self.time)
    }

    fn after(&mut self, micros: u64, action: Action) {
        self.order += 1;
        self.queue.insert((self.time + micros, self.order), action);
    }

    fn latency(&mut self) -> u64 {
        self.rng.within(self.plan.latency)
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Deliver { connection, from, bytes } => self.deliver(connection, from, &bytes),
            Action::Closed { connection, at } => self.closed(connection, at),
            Action::Dialed { child, parent, is_open } => self.dialed(child, parent, is_open),
            Action::Timer(node) => {
                let now = self.now();
                let sim = self.sim_mut(node);
                sim.timer = u64::MAX;
                if let Some(node) = &mut sim.node
                    && node.poll_timeout().is_some_and(|due| due <= now)
                {
                    node.handle_timeout(now);
                }
                self.touch(node);
            }
            Action::Contribute(node) => self.contribute(node),
            Action::Talk(talk) => self.talk(talk),
            Action::Fault(fault) => self.fault(fault),
            Action::Exclude(node) => {
                if let Some(head) = &mut self.sim_mut(NodeId::HEAD).node {
                    let is_done = head.exclude(node).is_ok();
                    debug_assert!(is_done, "the node exists");
                    self.checks.on_excluded(node);
                }
                self.touch(NodeId::HEAD);
            }
        }
    }

    /// Handles all that a node has to say: events, bytes, the next timer.
    fn touch(&mut self, me: NodeId) {
        loop {
            if let Some(event) = self.sim_mut(me).node.as_mut().and_then(TreeNode::poll_event) {
                self.handle_event(me, event);
            } else if let Some(peer) = self.sim_mut(me).node.as_mut().and_then(TreeNode::next_ready)
            {
                self.pump(me, peer);
            } else {
                break;
            }
        }
        let time = self.time;
        let sim = self.sim_mut(me);
        let Some(node) = &sim.node else { return };
        sim.was_attached |= node.is_attached();
        if node.is_over() {
            return self.leave(me);
        }
        let due = node.poll_timeout().map_or(u64::MAX, Instant::as_micros).max(time);
        if due < sim.timer {
            sim.timer = due;
            self.after(due - time, Action::Timer(me));
        }
    }

    fn pump(&mut self, me: NodeId, peer: NodeId) {
        let now = self.now();
        let mut out = vec![0; self.plan.piece.min(self.plan.room)];
        loop {
            let Some(connection) = self.sim(me).peers.get(&peer).copied() else { return };
            let Some(state) = self.connections.get(&connection) else { return };
            let free =
                self.plan.room.saturating_sub(state.directions[state.direction(me)].in_flight);
            if free == 0 {
                self.sim_mut(me).waiting.insert(peer);
                return;
            }
            let len = out.len().min(free);
            let Some(node) = &mut self.sim_mut(me).node else { return };
            let len = node.transmit(peer, &mut out[..len], now);
            if len == 0 {
                return;
            }
            self.send(connection, me, &out[..len]);
        }
    }

    fn send(&mut self, connection: usize, from: NodeId, bytes: &[u8]) {
        let latency = self.latency();
        let mut bytes = bytes.to_vec();
        let mut copies = 1;
        match self.mutant {
            Some(TreeMutant::Garbage)
                if from == NodeId(1) && !self.has_acted && self.time > START =>
            {
                self.has_acted = true;
                bytes.fill(0xff);
            }
            Some(TreeMutant::Babble) if bytes.get(2) == Some(&6) => copies = 4,
            _ => {}
        }
        for _ in 0..copies {
            let Some(state) = self.connections.get_mut(&connection) else { return };
            let (to, direction) = (state.other(from), state.direction(from));
            let direction = &mut state.directions[direction];
            let frames = direction.counter.count(&bytes);
            direction.in_flight += bytes.len();
            let len = bytes.len() as u64;
            let took = len * self.plan.byte_picos;
            let out = &mut self.nodes[from.0 as usize].busy[0];
            *out = (*out).max(self.time * PICOS) + took;
            let arrives = *out + latency * PICOS;
            let into = &mut self.nodes[to.0 as usize].busy[1];
            *into = (*into + took).max(arrives);
            let at = into.div_ceil(PICOS).max(direction.last_arrival);
            direction.last_arrival = at;
            for (node, sent, received) in [(from, len, 0), (to, 0, len)] {
                let traffic = &mut self.checks.traffic[node.0 as usize];
                traffic.frames += frames;
                traffic.sent += sent;
                traffic.received += received;
            }
            let bytes = bytes.clone();
            self.after(at - self.time, Action::Deliver { connection, from, bytes });
        }
    }

    fn is_silent(&self, connection: &Connection) -> bool {
        let ends = [connection.child, connection.parent];
        connection.is_muted || ends.iter().any(|node| self.sim(*node).is_isolated)
    }

    fn deliver(&mut self, connection: usize, from: NodeId, bytes: &[u8]) {
        let now = self.now();
        let Some(state) = self.connections.get(&connection) else { return };
        if self.is_silent(state) {
            return;
        }
        let (to, direction) = (state.other(from), state.direction(from));
        if let Some(state) = self.connections.get_mut(&connection) {
            state.directions[direction].in_flight -= bytes.len();
        }
        if self.sim(to).peers.get(&from) == Some(&connection)
            && let Some(node) = &mut self.sim_mut(to).node
            && let Err(error) = node.receive(from, bytes, now)
        {
            // A gap is healed by another ancestor.
            if error != TreeError::Gap {
                let what = format!("node {} refuses bytes of node {}: {error}", to.0, from.0);
                self.checks.found("frames", what);
            }
            self.close(to, from);
        }
        self.touch(to);
        if self.sim_mut(from).waiting.remove(&to) {
            self.pump(from, to);
            self.touch(from);
        }
    }

    /// Closes the connection of a node to a peer, which notices it later.
    fn close(&mut self, me: NodeId, peer: NodeId) {
        let Some(connection) = self.sim_mut(me).peers.remove(&peer) else { return };
        self.sim_mut(me).waiting.remove(&peer);
        let latency = self.latency();
        if let Some(state) = self.connections.get(&connection) {
            let arrival = state.directions[state.direction(me)].last_arrival;
            let wait = (self.time + latency).max(arrival) - self.time;
            self.after(wait, Action::Closed { connection, at: peer });
        }
    }

    fn closed(&mut self, connection: usize, at: NodeId) {
        let Some(state) = self.connections.get(&connection) else { return };
        if self.is_silent(state) {
            return;
        }
        let peer = state.other(at);
        if self.sim(at).peers.get(&peer) == Some(&connection) {
            self.sim_mut(at).peers.remove(&peer);
            self.sim_mut(at).waiting.remove(&peer);
            let now = self.now();
            if let Some(node) = &mut self.sim_mut(at).node {
                node.disconnected(peer, now);
            }
            self.touch(at);
        }
        if self.sim(peer).peers.get(&at) != Some(&connection) {
            self.connections.remove(&connection);
        }
    }

    fn dialed(&mut self, child: NodeId, parent: NodeId, is_open: bool) {
        let now = self.now();
        let can_open = |sim: &SimNode| sim.node.is_some() && !sim.is_isolated;
        if is_open && can_open(self.sim(child)) && can_open(self.sim(parent)) {
            let connection = usize::try_from(self.order).unwrap_or(usize::MAX);
            self.order += 1;
            self.connections.insert(connection, Connection::new(child, parent));
            for (me, peer) in [(parent, child), (child, parent)] {
                self.close(me, peer);
                self.sim_mut(me).peers.insert(peer, connection);
                if let Some(node) = &mut self.sim_mut(me).node {
                    node.connected(peer, now);
                }
            }
            self.touch(parent);
        } else if let Some(node) = &mut self.sim_mut(child).node {
            node.disconnected(parent, now);
        }
        self.touch(child);
    }

    fn handle_event(&mut self, me: NodeId, event: TreeEvent) {
        let Some(event) = self.mutate(me, event) else { return };
        match event {
            TreeEvent::Reconnect { to } => {
                let can_open = |sim: &SimNode| sim.node.is_some() && !sim.is_isolated;
                let is_open = can_open(self.sim(me)) && can_open(self.sim(to));
                let is_silent = self.sim(me).is_isolated || self.sim(to).is_isolated;
                let wait = if is_silent { DIAL_LIMIT } else { 2 * self.latency() };
                self.after(wait, Action::Dialed { child: me, parent: to, is_open });
            }
            TreeEvent::Close { peer, .. } => self.close(me, peer),
            TreeEvent::CollectiveEnded { id, data, members } => {
                self.checks.on_ended(me, id, (&data, members), &self.plan);
                self.span = self.span.map(|(first, _)| (first, self.time));
                if me != NodeId::HEAD && self.sim(me).contributed < self.plan.operations {
                    let wait = self.rng.within(self.plan.pace);
                    self.after(wait, Action::Contribute(me));
                }
            }
            TreeEvent::Message { from, class, body } => {
                self.checks.on_message(me, from, class, &body);
            }
            TreeEvent::NodeLost { node, .. } => {
                // Several faults may leave a node without a way; an isolated head sees none.
                let is_hit = |node| self.sim(node).fate == Fate::Hit;
                let is_expected =
                    is_hit(node) || is_hit(NodeId::HEAD) || self.plan.faults.len() > 1;
                self.checks.on_lost(node, is_expected);
                let wait = self.rng.below(2_000);
                self.after(wait, Action::Exclude(node));
            }
            TreeEvent::HeadLost => self.set_left(me, true),
            TreeEvent::Expelled => self.set_left(me, false),
            _ => {}
        }
    }

    fn set_left(&mut self, me: NodeId, has_lost_head: bool) {
        let sim = self.sim_mut(me);
        if sim.fate != Fate::Hit {
            sim.fate = Fate::Left { has_lost_head };
        }
    }

    /// The process of a node ends by itself.
    fn leave(&mut self, me: NodeId) {
        self.sim_mut(me).node = None;
        let peers: Vec<NodeId> = self.sim(me).peers.keys().copied().collect();
        peers.into_iter().for_each(|peer| self.close(me, peer));
    }

    fn contribute(&mut self, me: NodeId) {
        let number = self.sim(me).contributed + 1;
        let mut data = check::contribution(me, number, &self.plan);
        let id = CollectiveId { job: 1, kind: 0, number };
        let last = NodeId(self.plan.nodes - 1);
        if self.sim(me).node.is_none() {
            return;
        }
        self.sim_mut(me).contributed = number;
        self.checks.on_contribution(me, number, data.len());
        self.span = self.span.or(Some((self.time, self.time)));
        match self.mutant {
            Some(TreeMutant::ChangeData) if me == last => {
                data.iter_mut().for_each(|byte| *byte ^= 1)
            }
            Some(TreeMutant::EarlyEnd) if !self.has_acted && me != last => {
                self.has_acted = true;
                if let Some(head) = &mut self.sim_mut(NodeId::HEAD).node {
                    let _ = head.exclude(last);
                }
                self.touch(NodeId::HEAD);
            }
            _ => {}
        }
        if let Some(node) = &mut self.sim_mut(me).node
            && let Err(error) = node.contribute(id, Contribution { members: MEMBERS, data })
        {
            self.checks.found("frames", format!("node {} cannot contribute: {error}", me.0));
        }
        self.touch(me);
    }

    fn talk(&mut self, talk: usize) {
        let talk = self.plan.talks[talk];
        let is_known = match talk.to {
            // It may be lost already, and is not told apart from one that will be.
            Destination::Node(node) => self.sim(node).node.is_some(),
            Destination::Head | Destination::All => true,
        };
        if self.sim(talk.from).node.is_some() && is_known {
            let number = self.checks.on_sent(talk.from, talk.to, talk.class);
            let body = check::body(talk.to, number, talk.len);
            if let Some(node) = &mut self.sim_mut(talk.from).node
                && let Err(error) = node.send(talk.to, talk.class, body)
            {
                self.checks.found("once", format!("node {} cannot send: {error}", talk.from.0));
            }
        }
        self.touch(talk.from);
    }

    fn fault(&mut self, fault: TreeFault) {
        match fault {
            TreeFault::Kill(node) => {
                self.hit(node);
                self.sim_mut(node).node = None;
                let is_reset = self.rng.chance(Percent(50));
                let peers: Vec<(NodeId, usize)> =
                    self.sim(node).peers.iter().map(|(peer, at)| (*peer, *at)).collect();
                for (peer, connection) in peers {
                    if let Some(state) = self.connections.get_mut(&connection).filter(|_| is_reset)
                    {
                        // What is under way is lost.
                        state.directions.iter_mut().for_each(|one| one.last_arrival = 0);
                        self.queue.retain(|_, action| {
                            !matches!(action, Action::Deliver { connection: of, .. } if *of == connection)
                        });
                    }
                    self.close(node, peer);
                }
            }
            TreeFault::Isolate(node) => {
                self.hit(node);
                self.sim_mut(node).is_isolated = true;
            }
            TreeFault::Cut(node) | TreeFault::Mute(node) => {
                let parent = self.sim(node).node.as_ref().and_then(TreeNode::parent);
                let Some(parent) = parent else { return };
                let Some(connection) = self.sim(node).peers.get(&parent).copied() else { return };
                if fault == TreeFault::Mute(node) {
                    if let Some(state) = self.connections.get_mut(&connection) {
                        state.is_muted = true;
                    }
                    return;
                }
                self.queue.retain(|_, action| {
                    !matches!(action, Action::Deliver { connection: of, .. } if *of == connection)
                });
                for at in [node, parent] {
                    let wait = self.rng.within(Span::new(0, 300));
                    self.after(wait, Action::Closed { connection, at });
                }
            }
        }
    }

    /// Marks a node as lost. The starter reports those that were never attached.
    fn hit(&mut self, node: NodeId) {
        let sim = self.sim_mut(node);
        let is_new = matches!(sim.fate, Fate::Alive { .. });
        let was_attached = sim.was_attached;
        if is_new {
            sim.fate = Fate::Hit;
        }
        if is_new && !was_attached {
            self.after(START_REPORT, Action::Exclude(node));
        }
    }

    /// The event that the owner of a node receives.
    fn mutate(&mut self, me: NodeId, mut event: TreeEvent) -> Option<TreeEvent> {
        let last = NodeId(self.plan.nodes - 1);
        let Some(mutant) = self.mutant else { return Some(event) };
        match (mutant, &mut event) {
            (TreeMutant::OtherResult, TreeEvent::CollectiveEnded { data, .. }) if me == last => {
                *data = data.iter().copied().chain([7]).collect();
            }
            (TreeMutant::SwallowResult, TreeEvent::CollectiveEnded { .. }) if me == last => {
                return None;
            }
            (TreeMutant::ForgetLoss, TreeEvent::NodeLost { .. })
            | (TreeMutant::IgnoreHeadLoss, TreeEvent::HeadLost)
            | (TreeMutant::NoReturn, TreeEvent::Reconnect { .. }) => return None,
            (TreeMutant::BlameAnother, TreeEvent::NodeLost { node, .. }) => {
                *node = NodeId(1 + node.0 % last.0);
            }
            (TreeMutant::RepeatMessage, TreeEvent::Message { from, class, body }) => {
                self.checks.on_message(me, *from, *class, body);
            }
            (TreeMutant::SwallowMessage, TreeEvent::Message { .. }) if !self.has_acted => {
                self.has_acted = true;
                return None;
            }
            _ => {}
        }
        Some(event)
    }
}
