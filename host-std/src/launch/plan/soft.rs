//! Sets of numbers as MPI writes them for `soft`: `a`, `a:b` or `a:b:c`, with commas between.
//!
//! `a:b:c` means a, a+c, a+2c, … as far as b; c is 1 if it is left out, and may be negative.
//! Spec: MPI 4.1, section 11.8.4 (reserved keys).

/// Largest number of the set that is not above `most`; `None` if there is none, or the text is malformed.
pub(super) fn largest(set: &str, most: u32) -> Option<u32> {
    let mut best = None;
    for triple in set.split(',') {
        best = best.max(largest_of_triple(triple, i64::from(most))?);
    }
    best.and_then(|best| u32::try_from(best).ok())
}

/// Largest number of one triple; the outer `None` is for malformed text.
fn largest_of_triple(triple: &str, most: i64) -> Option<Option<i64>> {
    // Larger numbers make no sense, and sums of 32-bit numbers fit 64 bits.
    let numbers = triple.split(':').map(|number| number.trim().parse::<i32>().map(i64::from));
    let numbers: Vec<i64> = numbers.collect::<Result<_, _>>().ok()?;
    let (first, last, step) = match numbers[..] {
        [only] => (only, only, 1),
        [first, last] => (first, last, 1),
        [first, last, step] if step != 0 => (first, last, step),
        _ => return None,
    };
    let largest = if step > 0 {
        let end = last.min(most);
        (first <= end).then(|| first + (end - first) / step * step)
    } else {
        // Descending: the first one that is not above.
        let steps = (first - most).max(0).unsigned_abs().div_ceil(step.unsigned_abs());
        let found = first + i64::try_from(steps).ok()? * step;
        (found >= last).then_some(found)
    };
    Some(largest.filter(|number| *number >= 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn largest_number_of_a_set_is_found() {
        for (set, most, found) in [
            ("4", 4, Some(4)),
            ("4", 3, None),
            ("1,2,7", 5, Some(2)),
            ("2:10", 5, Some(5)),
            ("2:10:3", 9, Some(8)),
            ("2:10:3", 1, None),
            ("10:2:-3", 9, Some(7)),
            ("10:2:-3", 3, None),
            ("10:2:-3", 4, Some(4)),
            ("0", 4, Some(0)),
            ("-2:-1", 4, None),
            (" 1 , 3:5:2 ", 4, Some(3)),
            ("2147483647", 4, None),
        ] {
            assert_eq!(largest(set, most), found, "{set} up to {most}");
        }
    }

    #[test]
    fn malformed_sets_have_no_largest_number() {
        for set in ["", "x", "1,", "1:2:0", "1:2:3:4", "1..3", "99999999999"] {
            assert_eq!(largest(set, 4), None, "{set}");
        }
    }
}
