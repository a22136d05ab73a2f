//! Places of nodes in the tree, which follow from their numbers.

use core::iter::successors;

/// A node of the tree: 0 is the head, the k-th host is node k.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The root of the tree.
    pub const HEAD: Self = Self(0);

    /// First parent of this node in a tree of that radix; none for the head.
    pub const fn parent(self, radix: u32) -> Option<Self> {
        let radix = if radix == 0 { 1 } else { radix };
        match self.0.checked_sub(1) {
            Some(before) => Some(Self(before / radix)),
            None => None,
        }
    }

    /// First parents up to the head, nearest first.
    pub fn ancestors(self, radix: u32) -> impl Iterator<Item = Self> {
        successors(self.parent(radix), move |node| node.parent(radix))
    }

    /// First children, among `nodes` nodes with the head.
    pub fn children(self, radix: u32, nodes: u32) -> impl Iterator<Item = Self> {
        let radix = u64::from(radix.max(1));
        let first = u64::from(self.0) * radix + 1;
        (first..first + radix)
            .filter_map(|child| u32::try_from(child).ok())
            .filter(move |child| *child < nodes)
            .map(Self)
    }

    /// True if `other` is an ancestor of this node.
    pub fn is_below(self, other: Self, radix: u32) -> bool {
        self.ancestors(radix).any(|ancestor| ancestor == other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn places_follow_from_numbers() {
        let ids = |ids: &mut dyn Iterator<Item = NodeId>| ids.map(|id| id.0).collect::<Vec<_>>();
        assert_eq!(NodeId(0).parent(4), None);
        assert_eq!(ids(&mut NodeId(0).children(4, 4)), [1, 2, 3]);
        assert_eq!(ids(&mut NodeId(1).children(4, 100)), [5, 6, 7, 8]);
        assert_eq!(ids(&mut NodeId(85).ancestors(4)), [21, 5, 1, 0]);
        assert!(NodeId(85).is_below(NodeId(5), 4) && !NodeId(85).is_below(NodeId(6), 4));
        assert!(!NodeId(5).is_below(NodeId(5), 4));
        assert_eq!(ids(&mut NodeId(u32::MAX).children(4, u32::MAX)), [0; 0]);
    }

    #[test]
    fn parents_and_children_agree_for_every_radix() {
        for radix in 1..9 {
            for node in (1..300).map(NodeId) {
                let parent = node.parent(radix).unwrap();
                assert!(parent.children(radix, 300).any(|child| child == node));
            }
        }
    }
}
