//! An order that ranks make among themselves: what a rank did comes before what it does next, and what a
//! rank did before it entered a fence comes before what others do after they left it.

use super::fences::{FenceId, Passage};
use crate::ranks::index;
use litemap::LiteMap;

/// Number of actions of each rank that happened before.
pub(super) type Clock = Vec<u32>;

/// A clock of each rank.
#[derive(Clone, Debug)]
pub(super) struct Clocks {
    ranks: Vec<Clock>,
    /// Clock of the ranks that leave a fence.
    fences: LiteMap<FenceId, Clock>,
}

impl Clocks {
    pub(super) fn new(ranks: u32) -> Self {
        Self { ranks: vec![vec![0; index(ranks)]; index(ranks)], fences: LiteMap::new() }
    }

    /// The clock of a rank.
    pub(super) fn of(&self, rank: u32) -> &Clock {
        &self.ranks[index(rank)]
    }

    /// The actions of a rank that it knows of.
    pub(super) fn own(&mut self, rank: u32) -> &mut u32 {
        &mut self.ranks[index(rank)][index(rank)]
    }

    /// Lets a rank enter or leave a fence. Returns the clock of a fence that it has left.
    pub(super) fn pass(&mut self, rank: u32, passage: Option<Passage>) -> Option<&Clock> {
        let clock = &mut self.ranks[index(rank)];
        match passage? {
            Passage::Entered(id) => {
                join(self.fences.entry(id).or_insert_with(|| vec![0; clock.len()]), clock);
                None
            }
            Passage::Left(id) => {
                let fence = self.fences.get(&id)?;
                join(clock, fence);
                Some(fence)
            }
        }
    }
}

/// Adds to a clock all that another one contains.
pub(super) fn join(into: &mut Clock, other: &Clock) {
    into.iter_mut().zip(other).for_each(|(own, other)| *own = (*own).max(*other));
}
