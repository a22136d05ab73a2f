//! Medians, and ratios of what was measured in the same turn.

/// The middle value; of an even number, the mean of the two in the middle. `None` of nothing.
pub(super) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let (low, high) =
        (values.get(values.len().checked_sub(1)? / 2)?, values.get(values.len() / 2)?);
    Some((low + high) / 2.0)
}

/// The median of the ratios of pairs. Both of a pair were measured side by side, so a slow moment of the
/// machine cancels out.
pub(super) fn ratio(of: &[f64], to: &[f64]) -> Option<f64> {
    median(of.iter().zip(to).map(|(of, to)| of / to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median([]), None);
        assert_eq!(median([3.0, 1.0, 9.0]), Some(3.0));
        assert_eq!(median([4.0, 1.0, 9.0, 2.0]), Some(3.0));
    }

    #[test]
    fn a_slow_moment_that_hits_both_leaves_the_ratio_alone() {
        assert_eq!(ratio(&[1.0, 100.0, 1.0], &[2.0, 200.0, 2.0]), Some(0.5));
        assert_eq!(ratio(&[], &[]), None);
    }
}
