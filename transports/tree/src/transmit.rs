//! Frames in and out: dispatch of those that arrive, and the order of those that are sent.

use crate::collectives::EndedPiece;
use crate::edge::{EdgeState, TreeEdge, encode_item};
use crate::event::{CloseReason, TreeEvent};
use crate::lane::Parcel;
use crate::node::TreeNode;
use crate::{Class, NodeId, TreeError};
use alloc::vec::Vec;
use pmi_core::time::Instant;
use pmi_core::wire::nodes::{MessageFrame, NodeBytes, NodeFrame, VERSION};

impl TreeNode {
    pub(crate) fn handle_frame(
        &mut self,
        peer: NodeId,
        frame: &NodeFrame<'_>,
    ) -> Result<(), TreeError> {
        let edge = self.edges.get(&peer).ok_or(TreeError::NoEdge(peer))?;
        if self.is_over || edge.state == EdgeState::Closing {
            return Ok(());
        }
        let is_open = edge.state == EdgeState::Open;
        match (edge.is_parent, is_open, frame) {
            (false, false, NodeFrame::Attach(attach)) => self.handle_attach(peer, attach),
            (true, false, NodeFrame::Welcome { version, .. }) if *version != VERSION => {
                Err(TreeError::Version { theirs: *version, ours: VERSION })
            }
            (true, false, NodeFrame::Welcome { chain, .. }) => {
                self.handle_chain(peer, chain.0, true)
            }
            (true, _, NodeFrame::Refuse(why)) => self.handle_refusal(peer, *why),
            (_, true, NodeFrame::Ping) => Ok(()),
            (true, true, NodeFrame::Chain { chain }) => self.handle_chain(peer, chain.0, false),
            (true, true, NodeFrame::Resend) => {
                self.resend_contributions();
                Ok(())
            }
            (false, true, NodeFrame::Contribution { id, ended, is_complete, parts, data }) => {
                self.acknowledge(peer, *ended)?;
                self.handle_contribution(peer, *id, *is_complete, (parts.0, data.0))
            }
            (true, true, NodeFrame::Ended { sequence, id, members, total, offset, data }) => {
                let (sequence, id, members) = (*sequence, *id, *members);
                let (total, offset) = (*total, *offset);
                let piece = EndedPiece { sequence, id, members, total, offset, data: data.0 };
                self.handle_ended(&piece)
            }
            (_, true, NodeFrame::Message(message)) => self.handle_message(peer, message),
            (_, true, NodeFrame::Settled { control, output, ended }) => {
                self.handle_settled(peer, [*control, *output], *ended)
            }
            (true, true, NodeFrame::HeadLost) => {
                self.lose_head();
                Ok(())
            }
            _ => Err(TreeError::OutOfOrder(name(frame))),
        }
    }

    /// Copies bytes for a peer to `out`; returns their number, 0 if there is nothing to send.
    pub fn transmit(&mut self, peer: NodeId, out: &mut [u8], now: Instant) -> usize {
        self.now = now;
        let mut len = 0;
        while len < out.len() {
            let Some(edge) = self.edges.get_mut(&peer) else { break };
            if !edge.has_output() {
                if self.write_next(peer) {
                    continue;
                }
                break;
            }
            let taken = edge.take_output(out.get_mut(len..).unwrap_or_default());
            len += taken;
            edge.last_sent = now;
        }
        if len == 0 && !out.is_empty() {
            self.finish_edge(peer);
        }
        len
    }

    /// A peer for which there is something to send.
    ///
    /// The owner calls [`transmit`](Self::transmit) for it until that returns 0; if its connection is full
    /// before, it continues as soon as there is room. Until then the peer is not returned again.
    ///
    /// Changes after every call that may change anything.
    pub fn next_ready(&mut self) -> Option<NodeId> {
        let mut waiting = self.edges.iter().filter(|(_, edge)| !edge.is_announced);
        let (&ready, _) = waiting.find(|(_, edge)| self.has_work(edge))?;
        if let Some(edge) = self.edges.get_mut(&ready) {
            edge.is_announced = true;
        }
        Some(ready)
    }

    fn has_work(&self, edge: &TreeEdge) -> bool {
        let due = &edge.due;
        if edge.has_output() || due.greeting || due.refusal.is_some() || due.head_lost {
            return true;
        }
        if edge.state == EdgeState::Closing {
            return true;
        }
        if edge.state != EdgeState::Open || self.is_over {
            return false;
        }
        if self.is_edge_silent(edge, self.now) {
            return due.life;
        }
        let is_urgent = edge.lanes.iter().any(|lane| lane.receive.is_urgent());
        let has_message = |class: Class| self.has_piece(edge, class);
        due.chain
            || due.resend
            || due.life
            || is_urgent
            || Class::ALL.into_iter().any(has_message)
            || (edge.is_parent && !self.collectives.chunks.is_empty())
            || self.collectives.result_piece(edge).is_some()
    }

    /// True if a piece of a message of a class may be sent.
    fn has_piece(&self, edge: &TreeEdge, class: Class) -> bool {
        let lane = match edge.is_parent {
            true => &self.uplink.lanes[class.index()],
            // As for results.
            false if class == Class::Output && edge.lanes[0].send.has_unsent() => return false,
            false => &edge.lanes[class.index()].send,
        };
        lane.piece(class).is_some()
    }

    /// Nothing is left to send: the peer may become ready again, or its edge has ended.
    fn finish_edge(&mut self, peer: NodeId) {
        let Some(edge) = self.edges.get_mut(&peer) else { return };
        edge.is_announced = false;
        if edge.state == EdgeState::Closing {
            self.edges.remove(&peer);
            self.events.push_back(TreeEvent::Close { peer, why: CloseReason::Refusing });
        }
    }

    /// Writes the most urgent frame; false if there is none.
    fn write_next(&mut self, peer: NodeId) -> bool {
        let Some(edge) = self.edges.get_mut(&peer) else { return false };
        let (is_parent, is_open) = (edge.is_parent, edge.state == EdgeState::Open);
        if core::mem::take(&mut edge.due.greeting) {
            if is_parent {
                self.write_attach(peer)
            } else {
                self.write_chain(peer, true)
            }
            return true;
        }
        if let Some(why) = edge.due.refusal.take() {
            edge.write(&NodeFrame::Refuse(why));
            return true;
        }
        if core::mem::take(&mut edge.due.head_lost) {
            edge.write(&NodeFrame::HeadLost);
            return true;
        }
        if !is_open || self.is_over {
            return false;
        }
        if self.is_silent(peer, self.now) {
            return self.write_ping(peer);
        }
        let Some(edge) = self.edges.get_mut(&peer) else { return false };
        if core::mem::take(&mut edge.due.chain) {
            self.write_chain(peer, false);
            return true;
        }
        if core::mem::take(&mut edge.due.resend) {
            edge.write(&NodeFrame::Resend);
            return true;
        }
        let is_urgent = edge.lanes.iter().any(|lane| lane.receive.is_urgent());
        if is_urgent || core::mem::take(&mut edge.due.life) {
            self.write_life(peer);
            return true;
        }
        self.write_message(peer, Class::Control)
            || self.write_contribution(peer)
            || self.write_result(peer)
            || self.write_message(peer, Class::Output)
    }

    /// Writes a sign of life for a silent peer, if one is due; true if it is written.
    fn write_ping(&mut self, peer: NodeId) -> bool {
        let Some(edge) = self.edges.get_mut(&peer) else { return false };
        let is_due = core::mem::take(&mut edge.due.life);
        if is_due {
            edge.write(&NodeFrame::Ping);
        }
        is_due
    }

    fn write_chain(&mut self, peer: NodeId, is_welcome: bool) {
        let chain: Vec<u8> =
            self.uplink.chain.iter().flat_map(|ancestor| encode_item(&ancestor.0)).collect();
        let chain = NodeBytes(&chain);
        let frame = match is_welcome {
            true => NodeFrame::Welcome { version: VERSION, chain },
            false => NodeFrame::Chain { chain },
        };
        if let Some(edge) = self.edges.get_mut(&peer) {
            edge.write(&frame);
        }
    }

    /// A sign of life: the news about settled messages and received results, if there are any.
    fn write_life(&mut self, peer: NodeId) {
        let acknowledged = self.acknowledged();
        let Some(edge) = self.edges.get_mut(&peer) else { return };
        let has_results = edge.is_parent && acknowledged > self.collectives.announced;
        if !has_results && !edge.lanes.iter().any(|lane| lane.receive.has_news()) {
            return edge.write(&NodeFrame::Ping);
        }
        let ended = if edge.is_parent { acknowledged } else { 0 };
        self.collectives.announced = self.collectives.announced.max(ended);
        let [control, output] = edge.lanes.each_mut().map(|lane| lane.receive.announce());
        edge.write(&NodeFrame::Settled { control, output, ended });
    }

    fn write_message(&mut self, peer: NodeId, class: Class) -> bool {
        if !self.edges.get(&peer).is_some_and(|edge| self.has_piece(edge, class)) {
            return false;
        }
        let Some(edge) = self.edges.get_mut(&peer) else { return false };
        let mut own = core::mem::take(&mut edge.lanes[class.index()].send);
        let lane = match edge.is_parent {
            true => &mut self.uplink.lanes[class.index()],
            false => &mut own,
        };
        let mut sent = None;
        if let Some((parcel, offset, len)) = lane.piece(class) {
            edge.write(&NodeFrame::Message(message(class, parcel, offset, len)));
            sent = Some(len);
        }
        if let Some(len) = sent {
            lane.advance(len);
        }
        edge.lanes[class.index()].send = own;
        sent.is_some()
    }

    fn write_contribution(&mut self, peer: NodeId) -> bool {
        let ended = self.acknowledged();
        let Some(edge) = self.edges.get_mut(&peer).filter(|edge| edge.is_parent) else {
            return false;
        };
        let Some(chunk) = self.collectives.chunks.pop_front() else { return false };
        self.collectives.announced = self.collectives.announced.max(ended);
        edge.write(&NodeFrame::Contribution {
            id: chunk.id,
            ended,
            is_complete: chunk.is_complete,
            parts: NodeBytes(&chunk.list),
            data: NodeBytes(&chunk.data),
        });
        true
    }

    fn write_result(&mut self, peer: NodeId) -> bool {
        let Some(edge) = self.edges.get_mut(&peer) else { return false };
        let Some(frame) = self.collectives.result_piece(edge) else { return false };
        edge.write(&frame);
        if let NodeFrame::Ended { total, offset, data, .. } = frame {
            edge.cursor.offset = offset + data.0.len() as u64;
            if edge.cursor.offset == total {
                edge.cursor.sequence += 1;
                edge.cursor.offset = 0;
            }
        }
        true
    }
}

fn message(class: Class, parcel: &Parcel, offset: usize, len: usize) -> MessageFrame<'_> {
    let number = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
    MessageFrame {
        class: if class == Class::Control { 0 } else { 1 },
        from: parcel.from.0,
        to: parcel.to,
        number: parcel.number,
        content: parcel.content,
        total: number(parcel.body.len()),
        offset: number(offset),
        data: NodeBytes(parcel.body.get(offset..offset + len).unwrap_or_default()),
    }
}

/// Name of a frame, for errors.
const fn name(frame: &NodeFrame<'_>) -> &'static str {
    match frame {
        NodeFrame::Attach(_) => "Attach",
        NodeFrame::Welcome { .. } => "Welcome",
        NodeFrame::Refuse(_) => "Refuse",
        NodeFrame::Ping => "Ping",
        NodeFrame::Chain { .. } => "Chain",
        NodeFrame::Resend => "Resend",
        NodeFrame::Contribution { .. } => "Contribution",
        NodeFrame::Ended { .. } => "Ended",
        NodeFrame::Message(_) => "Message",
        NodeFrame::Settled { .. } => "Settled",
        NodeFrame::HeadLost => "HeadLost",
    }
}
