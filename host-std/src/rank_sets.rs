//! Operations on sets of ranks, run by run: their cost does not depend on the number of ranks.

use pmi_host_base::ranges::Ranks;

/// The ranks of all these sets.
pub(crate) fn union<'a>(sets: impl IntoIterator<Item = &'a Ranks>) -> Ranks {
    let mut runs: Vec<(u32, u32)> = sets.into_iter().flat_map(runs).collect();
    runs.sort_unstable();
    let mut all: Vec<(u32, u32)> = Vec::new();
    for (first, last) in runs {
        match all.last_mut() {
            Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
            _ => all.push((first, last)),
        }
    }
    of(all)
}

/// The ranks of `one` that are not in `other`.
pub(crate) fn without(one: &Ranks, other: &Ranks) -> Ranks {
    let mut left = Vec::new();
    let mut others = runs(other).into_iter().peekable();
    for (mut first, last) in runs(one) {
        // Runs of both sets ascend, so those before this one are not needed again.
        while others.next_if(|(_, end)| *end < first).is_some() {}
        let mut is_covered = false;
        while let Some(&(start, end)) = others.peek().filter(|(start, _)| *start <= last) {
            if first < start {
                left.push((first, start - 1));
            }
            if end >= last {
                is_covered = true;
                break;
            }
            first = end + 1;
            others.next();
        }
        if !is_covered {
            left.push((first, last));
        }
    }
    of(left)
}

/// The ranks that are in both sets.
pub(crate) fn common(one: &Ranks, other: &Ranks) -> Ranks {
    without(one, &without(one, other))
}

/// The first `most` ranks of a set.
pub(crate) fn first(ranks: &Ranks, most: usize) -> Ranks {
    runs(ranks).into_iter().flat_map(|(first, last)| first..=last).take(most).collect()
}

/// All ranks below `size`.
pub(crate) fn below(size: u32) -> Ranks {
    of(size.checked_sub(1).map(|last| (0, last)).into_iter().collect())
}

fn runs(ranks: &Ranks) -> Vec<(u32, u32)> {
    ranks.clone().into()
}

fn of(runs: Vec<(u32, u32)>) -> Ranks {
    // The functions above make runs that ascend and do not touch each other.
    Ranks::try_from(runs).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_those_of_their_ranks() {
        // Every pair of subsets of six ranks.
        let of = |bits: u32| Ranks::from_iter((0..6).filter(|rank| bits >> rank & 1 == 1));
        for (one, other) in (0..64).flat_map(|one| (0..64).map(move |other| (one, other))) {
            assert_eq!(union([&of(one), &of(other)]), of(one | other));
            assert_eq!(without(&of(one), &of(other)), of(one & !other), "{one:b} {other:b}");
            assert_eq!(common(&of(one), &of(other)), of(one & other));
        }
        assert_eq!(first(&of(0b110_110), 3), of(0b10_110));
        let ends = Ranks::from_iter([0, u32::MAX]);
        assert_eq!(without(&ends, &Ranks::from_iter([u32::MAX])), Ranks::from_iter([0]));
        assert_eq!(union([&ends, &ends]), ends);
        assert!(below(0).is_empty() && below(3) == of(0b111));
    }
}
