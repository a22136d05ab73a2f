//! Compact form of sets of ranks, or of other things that are numbered, such as processors.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Ranks in ascending order, as pairs of the first and the last of each run of neighbours. Printed as
/// `0-2,5`; in JSON `[[0,2],[5,5]]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<(u32, u32)>", into = "Vec<(u32, u32)>")]
pub struct Ranks(Vec<(u32, u32)>);

impl Ranks {
    /// Adds `rank`, which must be above all present ranks.
    pub fn push(&mut self, rank: u32) {
        match self.0.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(rank) => *last = rank,
            _ => self.0.push((rank, rank)),
        }
    }

    /// Number of ranks.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(first, last)| u64::from(last.saturating_sub(*first)) + 1).sum()
    }

    /// True if there is no rank.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The highest rank.
    pub fn last(&self) -> Option<u32> {
        self.0.last().map(|(_, last)| *last)
    }

    /// True if `rank` is in the set.
    pub fn contains(&self, rank: u32) -> bool {
        let at = self.0.partition_point(|(_, last)| *last < rank);
        self.0.get(at).is_some_and(|(first, _)| *first <= rank)
    }

    /// The ranks.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.iter().flat_map(|(first, last)| *first..=*last)
    }

    /// Text such as `rank 3` or `ranks 0-2`, for messages.
    pub fn named(&self) -> String {
        match self.count() {
            1 => format!("rank {self}"),
            _ => format!("ranks {self}"),
        }
    }
}

impl From<Ranks> for Vec<(u32, u32)> {
    fn from(ranks: Ranks) -> Self {
        ranks.0
    }
}

impl TryFrom<Vec<(u32, u32)>> for Ranks {
    type Error = &'static str;

    fn try_from(runs: Vec<(u32, u32)>) -> Result<Self, &'static str> {
        let is_run = runs.iter().all(|(first, last)| first <= last);
        let is_apart = |(_, last): &(u32, u32), (first, _): &(u32, u32)| {
            last.checked_add(1).is_some_and(|next| next < *first)
        };
        let ascend = runs.is_sorted_by(is_apart);
        match is_run && ascend {
            true => Ok(Self(runs)),
            false => Err("the pairs are no runs of ranks in ascending order"),
        }
    }
}

impl FromIterator<u32> for Ranks {
    /// Collects ranks in ascending order.
    fn from_iter<I: IntoIterator<Item = u32>>(ranks: I) -> Self {
        let mut all = Self::default();
        ranks.into_iter().for_each(|rank| all.push(rank));
        all
    }
}

impl fmt::Display for Ranks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0.iter().take(SHOWN_MAX);
        for (at, (first, last)) in shown.enumerate() {
            let comma = if at > 0 { "," } else { "" };
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                1 => write!(f, "{comma}{first},{last}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        let rest = Self(self.0.get(SHOWN_MAX..).unwrap_or_default().to_vec());
        match rest.count() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// Number of runs that are printed: every second rank of a large job would fill the screen.
const SHOWN_MAX: usize = 16;

/// Ascending numbers as ranges, such as `0-3,8` with a comma `between` them.
pub fn ranges(numbers: &[u32], between: &str) -> String {
    let runs = numbers.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [first, .., last] => format!("{first}-{last}"),
        one => one.iter().map(u32::to_string).collect(),
    });
    runs.collect::<Vec<_>>().join(between)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(ranks: impl IntoIterator<Item = u32>) -> String {
        Ranks::from_iter(ranks).to_string()
    }

    #[test]
    fn neighbours_are_put_together() {
        assert_eq!(shown([]), "");
        assert_eq!(shown([3]), "3");
        assert_eq!(shown([3, 4]), "3,4");
        assert_eq!(shown([0, 1, 2, 5, 7, 8, 9]), "0-2,5,7-9");
        assert_eq!(shown([u32::MAX - 1, u32::MAX]), "4294967294,4294967295");
    }

    #[test]
    fn omitted_ranges_are_counted() {
        assert_eq!(shown((0..20).map(|n| n * 2)).split(' ').nth(1), Some("and"));
        assert!(shown((0..20).map(|n| n * 2)).ends_with("30 and 4 more"));
    }

    #[test]
    fn rank_is_found_again() {
        let ranks = Ranks::from_iter([0, 1, 2, 5]);
        let found: Vec<u32> = (0..8).filter(|rank| ranks.contains(*rank)).collect();
        assert_eq!((found, ranks.count(), ranks.last()), (vec![0, 1, 2, 5], 4, Some(5)));
        assert_eq!(
            (ranks.named(), Ranks::from_iter([5]).named()),
            ("ranks 0-2,5".into(), "rank 5".into())
        );
    }

    #[test]
    fn programs_read_pairs() {
        let ranks = Ranks::from_iter([0, 1, 2, 5]);
        let json = serde_json::to_string(&ranks).unwrap();
        assert_eq!(json, "[[0,2],[5,5]]");
        assert_eq!(serde_json::from_str::<Ranks>(&json).unwrap(), ranks);
    }

    #[test]
    fn pairs_that_are_no_runs_are_rejected() {
        for json in ["[[2,1]]", "[[5,5],[0,2]]", "[[0,2],[2,3]]", "[[0,2],[3,3]]"] {
            assert!(serde_json::from_str::<Ranks>(json).is_err(), "{json}");
        }
    }

    #[test]
    fn ranges_join_neighbours() {
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8], ","), "0-2,5,7-8");
        assert_eq!((&*ranges(&[3], "+"), &*ranges(&[], "+")), ("3", ""));
    }
}
