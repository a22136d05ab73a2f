//! Ranks of a job that run on one node.

use std::ops::Range;
use std::rc::Rc;

/// Ranks of a job on one node, in ascending order. Their place in this order is their local rank.
///
/// Shape: ranks in blocks and ranks dealt round-robin need no memory of their own; only irregular ones are
/// listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LocalRanks {
    /// `count` ranks from `first` on, each `step` after the one before.
    Stride {
        /// The lowest rank.
        first: u32,
        /// Distance of two neighbours; at least 1.
        step: u32,
        /// Number of ranks.
        count: u32,
    },
    /// All others.
    Listed(Rc<[u32]>),
}

impl LocalRanks {
    /// The first `count` ranks of a job.
    pub(crate) const fn first(count: u32) -> Self {
        Self::Stride { first: 0, step: 1, count }
    }

    /// These ranks, which must ascend.
    pub(crate) fn of(ranks: impl Iterator<Item = u32>) -> Self {
        let ranks: Vec<u32> = ranks.collect();
        debug_assert!(ranks.is_sorted_by(|a, b| a < b), "ranks of a node ascend");
        let first = ranks.first().copied().unwrap_or(0);
        let step = ranks.get(1).map_or(1, |second| second.saturating_sub(first).max(1));
        let count = u32::try_from(ranks.len()).unwrap_or(u32::MAX);
        let rule = Self::Stride { first, step, count };
        match rule.iter().eq(ranks.iter().copied()) {
            true => rule,
            false => Self::Listed(ranks.into()),
        }
    }

    /// Number of ranks.
    pub(crate) fn count(&self) -> u32 {
        match self {
            Self::Stride { count, .. } => *count,
            Self::Listed(ranks) => u32::try_from(ranks.len()).unwrap_or(u32::MAX),
        }
    }

    /// The rank with this local rank.
    pub(crate) fn at(&self, local_rank: u32) -> Option<u32> {
        match self {
            Self::Stride { first, step, count } => {
                let offset = step.checked_mul(local_rank).filter(|_| local_rank < *count)?;
                first.checked_add(offset)
            }
            Self::Listed(ranks) => ranks.get(usize::try_from(local_rank).ok()?).copied(),
        }
    }

    /// The local rank of `rank`; `None` if it runs elsewhere.
    pub(crate) fn local_rank(&self, rank: u32) -> Option<u32> {
        match self {
            Self::Stride { first, step, count } => {
                let offset = rank.checked_sub(*first).filter(|offset| offset % step == 0)?;
                Some(offset / step).filter(|local_rank| local_rank < count)
            }
            Self::Listed(ranks) => u32::try_from(ranks.binary_search(&rank).ok()?).ok(),
        }
    }

    /// All ranks, in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        (0..self.count()).filter_map(|local_rank| self.at(local_rank))
    }

    /// Number of ranks within a range.
    pub(crate) fn count_within(&self, range: Range<u32>) -> u32 {
        let below = |end: u32| match self {
            Self::Stride { first, step, count } => {
                end.saturating_sub(*first).div_ceil(*step).min(*count)
            }
            Self::Listed(ranks) => {
                u32::try_from(ranks.partition_point(|rank| *rank < end)).unwrap_or(u32::MAX)
            }
        };
        below(range.end).saturating_sub(below(range.start))
    }
}

impl Default for LocalRanks {
    fn default() -> Self {
        Self::first(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(ranks: &[u32], is_listed: bool) {
        let local = LocalRanks::of(ranks.iter().copied());
        assert_eq!(matches!(local, LocalRanks::Listed(_)), is_listed, "{ranks:?}");
        assert_eq!(local.count() as usize, ranks.len());
        assert_eq!(local.iter().collect::<Vec<_>>(), ranks);
        for rank in 0..20 {
            let place = ranks.iter().position(|one| *one == rank);
            assert_eq!(local.local_rank(rank).map(|at| at as usize), place, "{ranks:?} {rank}");
            for end in rank..20 {
                let within = ranks.iter().filter(|one| (rank..end).contains(one)).count();
                assert_eq!(local.count_within(rank..end) as usize, within, "{ranks:?}");
            }
        }
        assert_eq!(local.at(local.count()), None);
    }

    #[test]
    fn local_ranks_are_found_by_rank_and_by_place() {
        for regular in [&[][..], &[0, 1, 2], &[4, 5], &[7], &[1, 4, 7, 10]] {
            check(regular, false);
        }
        for irregular in [&[0, 1, 4, 5][..], &[2, 3, 9]] {
            check(irregular, true);
        }
        let last = LocalRanks::of([0, u32::MAX].into_iter());
        assert_eq!((last.at(1), last.local_rank(u32::MAX)), (Some(u32::MAX), Some(1)));
    }
}
