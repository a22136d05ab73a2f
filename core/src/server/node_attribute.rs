//! Waits for a node attribute that no rank is left to put.
//!
//! Only a rank of the same node can put it. If all of them are gone or wait for an attribute as
//! well, none of the waits would end, so each is answered as missing. A rank whose threads share a
//! session is exempt, since another thread may put the attribute.

use super::member::Member;
use super::pmi_session::PmiSessionState;
use super::response::{PendingReply, Response};
use super::roster::rank_at;
use super::session_table::READY;
use super::{Server, Session, Storage};
use crate::ids::{JobId, Rank};
use crate::storage::Slots;
use crate::store::{Keyspace, Kvs};

impl<S: Storage> Server<S> {
    /// Answers such waits; computed only after a rank has gone or has begun to wait.
    pub(super) fn fail_attributes(&mut self) {
        for id in self.shared.ids() {
            self.fail_attributes_of(id);
        }
    }

    fn fail_attributes_of(&mut self, id: JobId) {
        let Some(job) = self.shared.job_mut(id) else { return };
        if !core::mem::take(&mut job.may_have_stuck_attribute) {
            return;
        }
        // Neighbours mostly have neighbouring ranks, so most nodes are looked at once.
        let mut lively = None;
        for place in 0..job.members().len() {
            let Some(rank) = self.rank_at(id, place) else { return };
            let Some(node) = self.node_of_waiting(id, rank).filter(|node| lively != Some(*node))
            else {
                continue;
            };
            let Some(job) = self.shared.job(id) else { return };
            let neighbours = job.ranked().filter(|(_, member)| member.node == node);
            let is_silent = |(rank, member): (Rank, &Member)| {
                member.is_gone() || self.node_of_waiting(id, rank).is_some()
            };
            if { neighbours }.all(is_silent) {
                let mut next = 0;
                while let Some(rank) = self.rank_at(id, next) {
                    self.fail_attribute(id, rank, node);
                    next += 1;
                }
            } else {
                lively = Some(node);
            }
        }
    }

    fn fail_attribute(&mut self, id: JobId, rank: Rank, node: u32) {
        if self.node_of_waiting(id, rank) != Some(node) {
            return;
        }
        let session = self.job(id).and_then(|job| job.member(rank)?.session());
        let Some(id) = session else { return };
        let Some(Session { state, .. }) = self.sessions.get_mut(id) else { return };
        if let Some((place, _)) = state.awaited()
            && let Some(exchange) = state.pending.get_mut(place)
        {
            exchange.response = Response::Missing;
        }
        self.sessions.push(READY, id);
    }

    /// The rank of the member at this place.
    fn rank_at(&self, id: JobId, place: usize) -> Option<Rank> {
        rank_at(self.job(id)?.members(), place)
    }

    /// The node of a rank whose only pending request waits for a missing attribute.
    fn node_of_waiting(&self, id: JobId, rank: Rank) -> Option<u32> {
        let job = self.job(id)?;
        let session = self.sessions.get(job.member(rank)?.session()?)?;
        let (_, Response::Attribute(node, key)) = session.state.awaited()? else { return None };
        let is_there = job.kvs().find(Keyspace::Node(*node), key.as_bytes()).is_some();
        (!is_there).then_some(*node)
    }
}

impl<X: Slots<PendingReply>> PmiSessionState<X> {
    /// The only pending request of a peer with one request at a time.
    fn awaited(&self) -> Option<(usize, &Response)> {
        let mut all = self.pending_requests();
        let (at, exchange) = all.next()?;
        (!self.protocol.is_threaded && all.next().is_none()).then_some((at, &exchange.response))
    }
}
