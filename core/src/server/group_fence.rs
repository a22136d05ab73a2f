//! Fences of some ranks of a job.

use super::job::Job;
use super::member::Member;
use super::outcome::{Outcome, Wake};
use super::response::{GroupFence, Response};
use crate::command::{FenceGroup, Reason, Text};
use crate::ids::Rank;
use crate::store::Kvs;
use crate::wire::names_twice;

impl<K: Kvs, M: AsRef<[Member]> + AsMut<[Member]>> Job<K, M> {
    /// Lets a member into the fence of a group. All of its ranks are on this node.
    pub(super) fn enter_group(&mut self, rank: Rank, asked: FenceGroup<'_>, tag: u32) -> Outcome {
        let node = self.member(rank).map(|member| member.node);
        let ranks = || self.ranked().map(|(other, member)| (other.0, member));
        let (group, has_caller) = match asked {
            FenceGroup::World if self.has_remote() => return Outcome::refused(OVER_NODES_GROUP),
            FenceGroup::World => sum(ranks().map(|(other, _)| other), tag, rank),
            FenceGroup::Node => {
                sum(ranks().filter(|(_, other)| Some(other.node) == node).map(|r| r.0), tag, rank)
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
                if named.clone().any(|named| self.is_remote(Rank(named))) {
                    return Outcome::refused(OVER_NODES_GROUP);
                }
                sum(named, tag, rank)
            }
        };
        if !has_caller {
            return Outcome::refused(Reason::Lacking { field: "the caller's own rank in group" });
        }
        self.may_have_stuck_group |= self.gone > 0;
        if let FenceGroup::Ranks(list) = asked {
            self.list_group(&group, list);
        }
        Outcome::wake(Response::Group(group), Wake::GroupEntered)
    }
}

/// The fence of these ranks, and whether `own` is among them.
fn sum(ranks: impl Iterator<Item = u32>, tag: u32, own: Rank) -> (GroupFence, bool) {
    ranks.fold((GroupFence::empty(tag), false), |(group, has_own), rank| {
        (group.with(rank), has_own || rank == own.0)
    })
}

/// Refusal of a fence of some ranks that are not all on this node.
const OVER_NODES_GROUP: Reason<'static> =
    Reason::NotOffered { what: "a fence of some ranks over several nodes" };
