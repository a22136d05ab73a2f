//! Medians, and ratios of what was measured in the same turn.

/// The middle value; of an even number, the mean of the two in the middle. `None` of nothing.
pub(super) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let (low, high) =
        (values.get(values.len().checked_sub(1)? / 2)?, values.get(values.len() / 2)?);
    Some((low + high) / 2.0)
}

/// The least value, of times to which other load only adds; infinity of nothing.
pub(super) fn least(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(f64::INFINITY, f64::min)
}

/// Results by contestant, and of each by turn.
pub(super) struct Turns<T>(pub(super) Vec<Vec<T>>);

impl<T> Turns<T> {
    /// Number of turns.
    pub(super) fn count(&self) -> usize {
        self.0.first().map_or(0, Vec::len)
    }

    /// The results of one contestant; none if it took no part.
    pub(super) fn of(&self, place: usize) -> &[T] {
        self.0.get(place).map_or(&[], Vec::as_slice)
    }

    /// The median of a figure of one contestant.
    pub(super) fn median(&self, place: usize, figure: impl Fn(&T) -> f64) -> Option<f64> {
        median(self.of(place).iter().map(figure))
    }

    /// The median of the ratios of a figure. Both were measured side by side, so a slow moment of the
    /// machine cancels out.
    pub(super) fn ratio(&self, of: usize, to: usize, figure: impl Fn(&T) -> f64) -> Option<f64> {
        let pairs = self.of(of).iter().zip(self.of(to));
        median(pairs.map(|(of, to)| figure(of) / figure(to)))
    }
}

/// Microseconds as they stand in a table.
pub(super) fn micros(micros: f64) -> String {
    if micros < 100.0 { format!("{micros:.1}") } else { format!("{micros:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_in_the_middle() {
        assert_eq!(median([]), None);
        assert_eq!(median([3.0, 1.0, 9.0]), Some(3.0));
        assert_eq!(median([4.0, 1.0, 9.0, 2.0]), Some(3.0));
    }

    #[test]
    fn least_of_all_counts() {
        assert_eq!((least([3.0, 1.0, 9.0]), least([])), (1.0, f64::INFINITY));
    }

    #[test]
    fn slow_moment_that_hits_both_leaves_the_ratio_alone() {
        let turns = Turns(vec![vec![1.0, 100.0, 1.0], vec![2.0, 200.0, 2.0]]);
        assert_eq!(turns.ratio(0, 1, |figure| *figure), Some(0.5));
        assert_eq!(turns.ratio(0, 2, |figure| *figure), None);
    }
}
