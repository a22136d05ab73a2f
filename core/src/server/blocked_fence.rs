//! Group fences that can never complete, because a member that they wait for is gone.
//!
//! A group is identified by a sum over its ranks, from which the ranks cannot be recovered. In a
//! job of up to 64 ranks one bit for each gives the members; in a larger job the list is kept with
//! the values of the job until the fence completes. Without room for it, a rank that is gone is
//! reported where it certainly participates: in the fence of all ranks or of a node, and as the
//! last missing member.

use super::job::Job;
use super::member::Member;
use super::response::{GroupFence, Response};
use super::{PmiPeerState, Server, Session, Storage};
use crate::command::Text;
use crate::ids::{JobId, Rank};
use crate::storage::Slots;
use crate::store::{Keyspace, Kvs, Visibility};

impl<S: Storage> Server<S> {
    /// A rank that blocks a group fence; computed only after a rank has gone or has entered one.
    pub(super) fn stuck_group(&mut self, id: JobId) -> Option<Rank> {
        let job = self.shared.job_mut(id)?;
        if !core::mem::take(&mut job.may_have_stuck_group) {
            return None;
        }
        let sessions = &self.sessions;
        let session = |member: &Member| sessions.get(member.session()?);
        let is_in = |member: &Member, group: &GroupFence| {
            session(member).is_some_and(|session| groups(session).any(|own| own == *group))
        };
        let mut seen = None;
        for group in job.members().iter().filter_map(session).flat_map(groups) {
            // The waiting members are mostly in the same fence.
            if seen.replace(group) == Some(group) {
                continue;
            }
            let gone = job.gone_from(group, |member| is_in(member, &group));
            if gone.is_some() {
                return gone;
            }
        }
        None
    }
}

/// The fences of groups that a session is in.
pub(super) fn groups<I, X>(
    session: &Session<I, X, PmiPeerState>,
) -> impl Iterator<Item = GroupFence>
where
    X: Slots<super::PendingReply>,
{
    session.state.pending_requests().filter_map(|(_, exchange)| match exchange.response {
        Response::Group(group) | Response::GroupHandedUp(group, _) => Some(group),
        _ => None,
    })
}

impl<K: Kvs, M: AsRef<[Member]>> Job<K, M> {
    /// Keeps the ranks of a group if its sum does not determine them; false without room for them. Within one
    /// node the list has no use but reports.
    pub(super) fn list_group(&mut self, group: &GroupFence, list: &[u8]) -> bool {
        let key = group.key();
        self.size() <= u64::BITS
            || self.kvs.find(Keyspace::Groups, &key).is_some()
            || self.kvs.put(Keyspace::Groups, &key, list, Visibility::Manager).is_ok()
    }

    /// The members of a group that other nodes have members of.
    pub(super) fn group_ranks(&self, group: GroupFence) -> impl Iterator<Item = u32> {
        let is_world = group.size == self.size();
        let is_small = !is_world && self.size() <= u64::BITS;
        let kept = || self.kvs.entry(self.kvs.find(Keyspace::Groups, &group.key())?);
        let list = if is_world || is_small { None } else { kept() };
        let list = list.map_or(&b""[..], |entry| entry.value);
        let listed = list.split(|b| *b == b',').filter_map(|named| Text::plain(named).number());
        let all = if is_world { 0..self.size() } else { 0..0 };
        all.chain(group.small_ranks().filter(move |_| is_small)).chain(listed)
    }

    /// Removes the list of a group whose fence has completed.
    pub(super) fn forget_group(&mut self, group: &GroupFence) {
        if self.size() > u64::BITS
            && let Some(id) = self.kvs.find(Keyspace::Groups, &group.key())
        {
            self.kvs.remove(id);
        }
    }

    /// True if the list of a group was kept and contains a rank.
    fn lists(&self, group: &GroupFence, rank: u32) -> bool {
        let kept = || self.kvs.entry(self.kvs.find(Keyspace::Groups, &group.key())?);
        let has = |list: &[u8]| {
            list.split(|b| *b == b',').any(|named| Text::plain(named).number() == Some(rank))
        };
        self.size() > u64::BITS && kept().is_some_and(|entry| has(entry.value))
    }

    /// A rank that is gone and certainly participates in a fence whose members inside satisfy
    /// `is_in`.
    pub(super) fn gone_from(
        &self,
        group: GroupFence,
        is_in: impl Fn(&Member) -> bool,
    ) -> Option<Rank> {
        self.outside(group, is_in).find(|rank| self.member(*rank).is_some_and(Member::is_gone))
    }

    /// The ranks that certainly participate in a fence and do not satisfy `is_in`.
    pub(super) fn outside(
        &self,
        group: GroupFence,
        is_in: impl Fn(&Member) -> bool,
    ) -> impl Iterator<Item = Rank> {
        let ranks = || self.ranked().map(|(rank, member)| (rank.0, member));
        let all_of = |node: Option<u32>| {
            let ranks = ranks().filter(|(_, member)| Some(member.node) == node);
            ranks.fold(GroupFence::empty(group.tag), |sum, (rank, _)| sum.with(rank))
        };
        let node = self.members().iter().find(|member| is_in(member)).map(|member| member.node);
        let is_world = group.size == self.size();
        let is_node = group.has_members_of(&all_of(node));
        let inside = ranks().filter(|(_, member)| is_in(member));
        let inside = inside.fold(GroupFence::empty(group.tag), |sum, (rank, _)| sum.with(rank));
        let takes_part = move |rank: u32, member: &Member| {
            (self.size() <= u64::BITS && group.may_have(rank))
                || is_world
                || (is_node && Some(member.node) == node)
                || self.lists(&group, rank)
                || group.lacks_only(&inside, rank)
        };
        let outside = self.ranked().filter(move |(_, member)| !is_in(member));
        outside.filter(move |(rank, member)| takes_part(rank.0, member)).map(|(rank, _)| rank)
    }
}
