//! Ranks in order, and as places of a table.

use litemap::LiteMap;

/// Each rank once, the lowest first. A map does it, because there is one in a page anyway; a sort would be
/// compiled for this alone.
pub(crate) fn in_order(ranks: impl IntoIterator<Item = u32>) -> Vec<u32> {
    let mut there = LiteMap::new_vec();
    for rank in ranks {
        there.insert(rank, ());
    }
    there.into_iter().map(|(rank, ())| rank).collect()
}

/// The place of a rank in a table of all ranks; none has more than memory can address.
pub(crate) fn index(rank: u32) -> usize {
    usize::try_from(rank).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_exist_once_and_in_their_places() {
        assert_eq!(in_order([3, 1, 2, 3, 0, 1]), [0, 1, 2, 3]);
        assert_eq!(in_order([]), [0; 0]);
    }
}
