//! Connections in the world: opened, closed, and bytes on their way.

use super::super::connection::{Arrival, Connection};
use super::super::mutant::TreeMutant;
use super::super::plan::{PICOS, START};
use super::super::record::{TreeEdgeWay, TreeRecord};
use super::{Action, SimNode, TreeWorld};
use pmi_tree::{NodeId, TreeError};
use std::mem;

impl TreeWorld {
    /// Sends what there is for a peer, and room for. True if it has only gone on with a frame, for which the
    /// node has nothing else to say.
    pub(super) fn pump(&mut self, me: NodeId, peer: NodeId) -> bool {
        let now = self.now(me);
        let Some(connection) = self.sim(me).peers.get(&peer).copied() else { return false };
        let mut out = mem::take(&mut self.buffer);
        let (mut has_begun, mut is_full) = (false, false);
        while let Some(state) = self.open_connection(connection) {
            let in_flight = state.directions[state.direction(me)].in_flight;
            let free = self.plan.room.saturating_sub(in_flight);
            if free == 0 {
                self.sim_mut(me).waiting.insert(peer);
                is_full = true;
                break;
            }
            let len = out.len().min(free);
            let Some(node) = &mut self.sim_mut(me).node else { break };
            let len = node.transmit(peer, &mut out[..len], now);
            if len == 0 {
                break;
            }
            has_begun |= self.send(connection, me, &mut out[..len]);
        }
        self.buffer = out;
        is_full && !has_begun
    }

    /// Sends a piece; true if a frame begins in it.
    fn send(&mut self, connection: usize, from: NodeId, bytes: &mut [u8]) -> bool {
        let latency = self.latency();
        let (mut copies, mut has_begin) = (1, false);
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
            let Some(state) = self.connections.get_mut(connection) else { break };
            let (to, direction, is_reset) =
                (state.other(from), state.direction(from), state.is_reset);
            let direction = &mut state.directions[direction];
            let frames = direction.counter.count(bytes);
            has_begin |= frames.has_begin;
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
            let due = self.queue.place(at);
            if !is_reset && direction.push(due, bytes, frames.has_end) {
                self.queue.push(due, Action::Deliver { connection, from });
            }
            for (node, sent, received) in [(from, len, 0), (to, 0, len)] {
                let traffic = &mut self.checks.traffic[node.0 as usize];
                traffic.frames += frames.collective;
                traffic.sent += sent;
                traffic.received += received;
            }
            let way = self.way(connection, from);
            self.note(|| TreeRecord::Sent { way, bytes: bytes.to_vec() });
        }
        has_begin
    }

    /// A connection whose end one of its nodes has not noticed.
    pub(super) fn open_connection(&self, connection: usize) -> Option<&Connection> {
        self.connections.get(connection).filter(|state| !state.is_over)
    }

    pub(super) fn open_connection_mut(&mut self, connection: usize) -> Option<&mut Connection> {
        self.connections.get_mut(connection).filter(|state| !state.is_over)
    }

    fn way(&self, connection: usize, from: NodeId) -> TreeEdgeWay {
        let ends = self.connections.get(connection).map(|state| (state.child, state.parent));
        let (child, parent) = ends.unwrap_or_default();
        TreeEdgeWay { child, parent, is_up: from == child }
    }

    pub(super) fn is_silent(&self, connection: &Connection) -> bool {
        let ends = [connection.child, connection.parent];
        connection.is_muted || ends.iter().any(|node| self.sim(*node).is_isolated)
    }

    pub(super) fn deliver(&mut self, connection: usize, from: NodeId) {
        let is_open = self.open_connection(connection).is_some_and(|state| !self.is_silent(state));
        let Some(to) = self.connections.get(connection).map(|state| state.other(from)) else {
            return;
        };
        let now = self.now(to);
        let Some(state) = self.connections.get_mut(connection) else { return };
        let direction = state.direction(from);
        let direction = &mut state.directions[direction];
        let Arrival { bytes, has_end, next } = direction.pop();
        let len = bytes.len();
        if let Some(due) = next {
            self.queue.push(due, Action::Deliver { connection, from });
        }
        if !is_open {
            return;
        }
        let sim = &mut self.nodes[to.0 as usize];
        let received = match &mut sim.node {
            Some(node) if sim.peers.get(&from) == Some(&connection) => {
                node.receive(from, bytes, now)
            }
            _ => Ok(()),
        };
        direction.in_flight -= len;
        let way = self.way(connection, from);
        self.note(|| TreeRecord::Received { way, len });
        // A node acts on whole frames.
        let has_acted = has_end || received.is_err();
        if let Err(error) = received {
            // A gap is healed by another ancestor.
            if error != TreeError::Gap {
                let what = format!("node {} refuses bytes of node {}: {error}", to.0, from.0);
                self.checks.found("frames", what);
            }
            self.close(to, from);
        }
        if has_acted {
            self.touch(to);
        }
        let is_frozen = self.is_frozen(from);
        if !is_frozen && self.sim_mut(from).waiting.remove(&to) && !self.pump(from, to) {
            self.touch(from);
        }
    }

    /// Closes the connection of a node to a peer, which notices it later.
    pub(super) fn close(&mut self, me: NodeId, peer: NodeId) {
        let Some(connection) = self.sim_mut(me).peers.remove(&peer) else { return };
        self.sim_mut(me).waiting.remove(&peer);
        let latency = self.latency();
        if let Some(state) = self.open_connection(connection) {
            let arrival = state.directions[state.direction(me)].last_arrival;
            let wait = (self.time + latency).max(arrival) - self.time;
            self.after(wait, Action::Closed { connection, at: peer });
        }
    }

    pub(super) fn closed(&mut self, connection: usize, at: NodeId) {
        let Some(state) = self.open_connection(connection) else { return };
        if self.is_silent(state) {
            return;
        }
        let peer = state.other(at);
        if self.sim(at).peers.get(&peer) == Some(&connection) {
            self.sim_mut(at).peers.remove(&peer);
            self.sim_mut(at).waiting.remove(&peer);
            let now = self.now(at);
            if let Some(node) = &mut self.sim_mut(at).node {
                node.disconnected(peer, now);
            }
            self.touch(at);
        }
        if self.sim(peer).peers.get(&at) != Some(&connection) {
            self.connections[connection].is_over = true;
        }
    }

    pub(super) fn dialed(&mut self, child: NodeId, parent: NodeId, is_open: bool) {
        let can_open = |sim: &SimNode| sim.node.is_some() && !sim.is_isolated;
        let is_open = is_open && !self.is_frozen(parent);
        if is_open && can_open(self.sim(child)) && can_open(self.sim(parent)) {
            let connection = self.connections.len();
            self.connections.push(Connection::new(child, parent));
            self.note(|| TreeRecord::Connected { child, parent });
            for (me, peer) in [(parent, child), (child, parent)] {
                self.close(me, peer);
                self.sim_mut(me).peers.insert(peer, connection);
                let now = self.now(me);
                if let Some(node) = &mut self.sim_mut(me).node {
                    node.connected(peer, now);
                }
            }
            self.touch(parent);
        } else {
            let now = self.now(child);
            if let Some(node) = &mut self.sim_mut(child).node {
                node.disconnected(parent, now);
            }
        }
        self.touch(child);
    }
}
