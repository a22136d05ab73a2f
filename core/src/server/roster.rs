//! Places of ranks: a table of one element per local rank, in the order of the ranks.
//!
//! On one node the ranks are the indexes. On one of several nodes each element carries its rank, mostly one
//! run of consecutive ranks; ranks on other nodes have no element at all.

use crate::ids::Rank;
use crate::parts;

/// An element of a table of local ranks.
pub(super) trait Ranked {
    /// The rank of the element; `None` if it is its index.
    fn rank(&self) -> Option<Rank>;
}

/// Place of a rank in a table; `None` for a rank of another node, and for one that does not exist.
pub(super) fn place_of<T: Ranked>(all: &[T], rank: Rank) -> Option<usize> {
    let first = if parts::NODES { all.first().and_then(Ranked::rank) } else { None };
    let Some(first) = first else {
        return (rank.index() < all.len()).then_some(rank.index());
    };
    // Ranks of one node are mostly consecutive.
    let in_run = rank.0.checked_sub(first.0)? as usize;
    if all.get(in_run).is_some_and(|found| found.rank() == Some(rank)) {
        return Some(in_run);
    }
    all.binary_search_by_key(&Some(rank), Ranked::rank).ok()
}

/// The elements of a table with their ranks.
pub(super) fn ranked<T: Ranked>(all: &[T]) -> impl Iterator<Item = (Rank, &T)> {
    (0..).zip(all).map(|(place, one)| (rank_of(place, one), one))
}

/// Rank of the element at this place.
pub(super) fn rank_at<T: Ranked>(all: &[T], place: usize) -> Option<Rank> {
    Some(rank_of(u32::try_from(place).ok()?, all.get(place)?))
}

fn rank_of<T: Ranked>(place: u32, one: &T) -> Rank {
    let own = if parts::NODES { one.rank() } else { None };
    own.unwrap_or(Rank(place))
}

/// True if the ranks ascend and are below `size`: each element has its own rank, or all have that of their
/// index.
pub(super) fn is_valid<T: Ranked>(all: &[T], size: u32) -> bool {
    let is_run = all.iter().all(|one| one.rank().is_none());
    let is_ascending = all.is_sorted_by(|one, other| one.rank() < other.rank());
    let last = ranked(all).last().map(|(rank, _)| rank.0);
    (is_run || is_ascending && all.first().is_some_and(|first| first.rank().is_some()))
        && last.is_none_or(|last| last < size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    struct Element(Option<u32>);

    impl Ranked for Element {
        fn rank(&self) -> Option<Rank> {
            self.0.map(Rank)
        }
    }

    fn of(ranks: &[u32]) -> Vec<Element> {
        ranks.iter().map(|rank| Element(Some(*rank))).collect()
    }

    #[test]
    fn ranks_of_one_node_are_indexes() {
        let all = [Element(None), Element(None)];
        assert_eq!([0, 1, 2].map(|rank| place_of(&all, Rank(rank))), [Some(0), Some(1), None]);
        assert!(ranked(&all).map(|(rank, _)| rank.0).eq([0, 1]));
        assert!(is_valid(&all, 2) && !is_valid(&all, 1));
    }

    #[test]
    fn ranks_of_runs_and_of_strides_are_found() {
        for ranks in [&[4, 5, 6][..], &[1, 4, 7], &[0, 1, 8, 9, 16], &[3]] {
            let all = of(ranks);
            for rank in 0..20 {
                let place = ranks.iter().position(|own| *own == rank);
                assert_eq!(place_of(&all, Rank(rank)), place, "{rank} of {ranks:?}");
            }
            assert!(ranked(&all).map(|(rank, _)| rank.0).eq(ranks.iter().copied()));
            assert!(is_valid(&all, 17));
            assert_eq!(rank_at(&all, ranks.len() - 1).map(|rank| rank.0), ranks.last().copied());
            assert_eq!(rank_at(&all, ranks.len()), None);
        }
    }

    #[test]
    fn tables_out_of_order_or_with_ranks_of_some_elements_are_invalid() {
        assert!(!is_valid(&of(&[2, 1]), 9));
        assert!(!is_valid(&of(&[1, 1]), 9));
        assert!(!is_valid(&[Element(None), Element(Some(1))], 9));
        assert!(!is_valid(&[Element(Some(0)), Element(None)], 9));
        assert!(!is_valid(&of(&[3, 4]), 4));
        assert!(is_valid(&of(&[]), 4));
    }
}
