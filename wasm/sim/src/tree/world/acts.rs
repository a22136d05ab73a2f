//! Acts of the owners of nodes, and faults of a plan and of mutants.

use super::super::check::{self, Fate};
use super::super::mutant::TreeMutant;
use super::super::plan::{FREEZE, JUMP, START_REPORT, STORM, TreeFault};
use super::super::record::TreeRecord;
use super::{Action, SimNode, TreeWorld};
use crate::rng::{Percent, Span};
use pmi_tree::{CollectiveId, Contribution, Destination, NodeId, TreeEvent, TreeNode};

impl TreeWorld {
    pub(super) fn set_left(&mut self, me: NodeId, has_lost_head: bool) {
        let sim = self.sim_mut(me);
        if sim.fate != Fate::Hit {
            sim.fate = Fate::Left { has_lost_head };
        }
    }

    /// The process of a node ends by itself.
    pub(super) fn leave(&mut self, me: NodeId) {
        self.sim_mut(me).node = None;
        self.note(|| TreeRecord::Left(me));
        let peers: Vec<NodeId> = self.sim(me).peers.keys().copied().collect();
        peers.into_iter().for_each(|peer| self.close(me, peer));
    }

    /// Nodes join, unless the head is lost, and all nodes begin another job.
    pub(super) fn grow(&mut self, count: u32) {
        let (first, job) = (u32::try_from(self.nodes.len()).unwrap_or(0), self.checks.grow(count));
        let nodes = first + count;
        let Some(Ok(mut start)) =
            self.sim_mut(NodeId::HEAD).node.as_mut().map(|head| head.grow(nodes, job))
        else {
            return self.checks.ungrow(count);
        };
        if self.mutant == Some(TreeMutant::LateStart) {
            start.received[0] += 1;
        }
        for node in (first..nodes).map(NodeId) {
            let config = self.plan.config(node, nodes);
            self.nodes.push(SimNode::new(TreeNode::joining(config, &start), job, self.time));
            self.checks.on_joined(node, start.ended);
            let parent = node.parent(self.plan.radix).unwrap_or(NodeId::HEAD);
            let at = self.rng.within(self.plan.pace);
            self.after(at, Action::Dialed { child: node, parent, is_open: true });
        }
        for node in (1..nodes).map(NodeId) {
            let at = self.rng.within(self.plan.pace);
            self.after(at, Action::Contribute(node, job));
        }
        self.touch(NodeId::HEAD);
    }

    pub(super) fn contribute(&mut self, me: NodeId, job: u32) {
        let of_job = self.sim(me).contributed.get(&job).copied().unwrap_or(0) + 1;
        let id = CollectiveId { job, kind: 0, number: of_job };
        let number = check::number(job, of_job, &self.plan);
        let mut data = check::contribution(me, number, &self.plan);
        let members = self.plan.members;
        let last = NodeId(self.plan.nodes - 1);
        if self.sim(me).node.is_none() {
            return;
        }
        self.sim_mut(me).contributed.insert(job, of_job);
        self.checks.on_contribution(me, number, data.len());
        self.note(|| TreeRecord::Contributed { node: me, number });
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
            && let Err(error) = node.contribute(id, Contribution { members, data })
        {
            self.checks.found("frames", format!("node {} cannot contribute: {error}", me.0));
        }
        self.touch(me);
    }

    pub(super) fn talk(&mut self, talk: usize) {
        let talk = self.plan.talks[talk];
        let is_known = match talk.to {
            // It may be lost already, and is not told apart from one that will be.
            Destination::Node(node) => {
                let sim = self.nodes.get(node.0 as usize);
                sim.is_some_and(|sim| sim.node.is_some())
            }
            Destination::Head | Destination::All | Destination::Parent => true,
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

    pub(super) fn fault(&mut self, fault: TreeFault) {
        if fault.node().0 as usize >= self.nodes.len() {
            return;
        }
        self.note(|| TreeRecord::Fault(fault));
        match fault {
            TreeFault::Kill(node) => {
                self.hit(node, false);
                self.sim_mut(node).node = None;
                let is_reset = self.rng.chance(Percent(50));
                let peers: Vec<(NodeId, usize)> =
                    self.sim(node).peers.iter().map(|(peer, at)| (*peer, *at)).collect();
                for (peer, connection) in peers {
                    if let Some(state) = self.open_connection_mut(connection).filter(|_| is_reset) {
                        state.directions.iter_mut().for_each(|one| one.last_arrival = 0);
                        self.reset(connection);
                    }
                    self.close(node, peer);
                }
            }
            TreeFault::Isolate(node) => {
                self.hit(node, true);
                self.sim_mut(node).is_isolated = true;
            }
            TreeFault::Freeze(node) => self.freeze(node, FREEZE),
            TreeFault::Storm(node) => self.stall(node, self.time + STORM),
            TreeFault::Jump(node) => self.sim_mut(node).jumped += JUMP,
            TreeFault::Cut(node) | TreeFault::Mute(node) => {
                let parent = self.sim(node).node.as_ref().and_then(TreeNode::parent);
                let Some(parent) = parent else { return };
                let Some(connection) = self.sim(node).peers.get(&parent).copied() else { return };
                if fault == TreeFault::Mute(node) {
                    if let Some(state) = self.open_connection_mut(connection) {
                        state.is_muted = true;
                    }
                    return;
                }
                self.reset(connection);
                for at in [node, parent] {
                    let wait = self.rng.within(Span::new(0, 300));
                    self.after(wait, Action::Closed { connection, at });
                }
            }
        }
    }

    /// Stops the process of a node for a while.
    fn freeze(&mut self, node: NodeId, micros: u64) {
        let until = self.time + micros;
        let sim = self.sim_mut(node);
        sim.frozen_until = sim.frozen_until.max(until);
        self.after(micros, Action::Thaw(node));
    }

    /// Stops a node that runs for moments only, until the end of the storm.
    pub(super) fn stall(&mut self, node: NodeId, until: u64) {
        if self.time >= until {
            return;
        }
        let stopped = self.rng.within(Span::new(200_000, 3_000_000));
        let moment = self.rng.within(Span::new(5_000, 200_000));
        self.freeze(node, stopped);
        self.after(stopped + moment, Action::Stall { node, until });
    }

    /// A node that is stopped acts later. Its timer begins anew.
    pub(super) fn put_off(&mut self, node: NodeId, action: Action) {
        let sim = self.sim_mut(node);
        if matches!(action, Action::Timer(_)) {
            sim.timer = u64::MAX;
            return;
        }
        let due = sim.frozen_until;
        let due = self.queue.place(due);
        self.queue.push(due, action);
    }

    /// A node that was stopped goes on, unless it was stopped again.
    pub(super) fn thaw(&mut self, node: NodeId) {
        if self.is_frozen(node) {
            return;
        }
        let waiting = std::mem::take(&mut self.sim_mut(node).waiting);
        for peer in waiting {
            self.pump(node, peer);
        }
        // What a node that trusts the gap in its time does first is to look at its timers.
        if self.mutant == Some(TreeMutant::TrustGap) {
            self.note_answers(node);
            let now = self.now(node);
            if let Some(node) = &mut self.sim_mut(node).node {
                node.handle_timeout(now);
            }
        }
        self.touch(node);
    }

    /// Tells a node which of its peers have hosts that answer, whether their processes run or are stopped.
    pub(super) fn note_answers(&mut self, me: NodeId) {
        if self.mutant == Some(TreeMutant::IgnoreAnswers) {
            return;
        }
        let now = self.now(me);
        let peers: Vec<NodeId> = self
            .sim(me)
            .peers
            .iter()
            .filter(|(_, connection)| {
                self.open_connection(**connection).is_some_and(|state| !self.is_silent(state))
            })
            .map(|(peer, _)| *peer)
            .collect();
        if let Some(node) = &mut self.sim_mut(me).node {
            peers.into_iter().for_each(|peer| node.host_answers(peer, now));
        }
    }

    /// Resets a connection.
    fn reset(&mut self, connection: usize) {
        self.connections[connection].reset();
        self.queue.retain(
            |action| !matches!(action, Action::Deliver { connection: of, .. } if *of == connection),
        );
    }

    /// Marks a node as lost. The starter reports those of which the head has no report of their own that they
    /// are attached.
    fn hit(&mut self, node: NodeId, is_isolated: bool) {
        let sim = self.sim_mut(node);
        let is_new = matches!(sim.fate, Fate::Alive { .. });
        let has_reported = if is_isolated { sim.is_noted } else { sim.was_attached };
        if is_new {
            sim.fate = Fate::Hit;
        }
        if is_new && !has_reported {
            self.after(START_REPORT, Action::Exclude(node));
        }
    }

    /// The report that a node has sent when it was attached arrives.
    pub(super) fn note_parent(&mut self, node: NodeId, parent: NodeId) {
        if self.sim(node).is_isolated || self.sim(NodeId::HEAD).is_isolated {
            return;
        }
        self.sim_mut(node).is_noted = true;
        if let Some(head) = &mut self.sim_mut(NodeId::HEAD).node {
            let is_done = head.note_parent(node, parent).is_ok();
            debug_assert!(is_done, "the parent is an ancestor");
        }
        self.touch(NodeId::HEAD);
    }

    /// The event that the owner of a node receives.
    pub(super) fn mutate(&mut self, me: NodeId, mut event: TreeEvent) -> Option<TreeEvent> {
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
