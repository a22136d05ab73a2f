//! Fences of some ranks of a job.

use super::job::Job;
use super::member::Member;
use super::outcome::{Outcome, Wake};
use super::response::{GroupFence, Response};
use crate::command::{FenceGroup, Reason, Text};
use crate::ids::Rank;
use crate::parts;
use crate::store::Kvs;
use crate::wire::names_twice;

impl<K: Kvs, M: AsRef<[Member]> + AsMut<[Member]>> Job<K, M> {
    /// Lets a member into the fence of a group.
    pub(super) fn enter_group(&mut self, rank: Rank, asked: FenceGroup<'_>, tag: u32) -> Outcome {
        let node = self.member(rank).map(|member| member.node);
        let is_local = |rank| self.member(Rank(rank)).is_some();
        let (group, has_caller) = match asked {
            FenceGroup::World => sum(0..self.size(), tag, rank, is_local),
            FenceGroup::Node => {
                let ranks = self.ranked().filter(|(_, other)| Some(other.node) == node);
                sum(ranks.map(|(rank, _)| rank.0), tag, rank, is_local)
            }
            // No member could stand in for the second place of a rank: the fence would never complete.
            FenceGroup::Ranks(list) if names_twice(list) => {
                return Outcome::refused(Reason::Lacking {
                    field: "a list that names each rank once",
                });
            }
            FenceGroup::Ranks(list) => {
                let named = list.split(|b| *b == b',').filter_map(|n| Text::plain(n).number());
                if named.clone().any(|named| named >= self.size()) {
                    return Outcome::refused(Reason::NoSuch { what: "rank" });
                }
                sum(named, tag, rank, is_local)
            }
        };
        if !has_caller {
            return Outcome::refused(Reason::Lacking { field: "the caller's own rank in group" });
        }
        self.may_have_stuck_group |= self.gone > 0;
        if let FenceGroup::Ranks(list) = asked {
            let is_listed = self.list_group(&group, list);
            // Other nodes have to know the members.
            if parts::NODES && group.is_over_nodes() && !is_listed {
                return Outcome::refused(Reason::NoRoom { what: "values" });
            }
        }
        Outcome::wake(Response::Group(group), Wake::GroupEntered)
    }
}

/// The fence of these ranks, and whether `own` is among them.
fn sum(
    ranks: impl Iterator<Item = u32>,
    tag: u32,
    own: Rank,
    is_local: impl Fn(u32) -> bool,
) -> (GroupFence, bool) {
    ranks.fold((GroupFence::empty(tag), false), |(group, has_own), rank| {
        let local = group.local + u32::from(is_local(rank));
        (GroupFence { local, ..group.with(rank) }, has_own || rank == own.0)
    })
}
