//! Suggestions for names that do not exist.

/// Candidate with the fewest edits; among equals the one that is nearer in length, then the first.
pub(crate) fn nearest<S: AsRef<str>>(got: &str, candidates: impl Iterator<Item = S>) -> String {
    let distance = |name: &S| {
        let name = name.as_ref();
        (edits(got.as_bytes(), name.as_bytes()), name.len().abs_diff(got.len()))
    };
    { candidates }.min_by_key(distance).map_or_else(String::new, |name| name.as_ref().to_owned())
}

/// Candidate that `got` probably misspells: at most three letters differ, and fewer in a short word, which
/// is as near to many others.
pub(crate) fn near<S: AsRef<str>>(
    got: &str,
    candidates: impl Iterator<Item = S>,
) -> Option<String> {
    let found = nearest(got, candidates);
    let edits_max = match got.trim_start_matches('-').len() {
        0..=2 => 0,
        3..=5 => 1,
        6..=8 => 2,
        _ => 3,
    };
    Some(found).filter(|found| edits(got.as_bytes(), found.as_bytes()) <= edits_max)
}

/// Remedy for an unknown option: the one that was probably meant, else `list`, where all are listed.
pub(crate) fn remedy<S: AsRef<str>>(
    got: &str,
    candidates: impl Iterator<Item = S>,
    list: &str,
) -> String {
    match near(got, candidates) {
        Some(name) => {
            format!("the nearest is '{name}' (options of the program itself follow its name)")
        }
        None => format!("'{list}' lists all (options of the program itself follow its name)"),
    }
}

/// Edit distance: number of letters to add, drop or change, and of neighbours to exchange, to make `a` from
/// `b`.
fn edits(a: &[u8], b: &[u8]) -> usize {
    let first: Vec<usize> = (0..=b.len()).collect();
    let (mut before, mut row) = (first.clone(), first);
    for (i, left) in a.iter().enumerate() {
        let mut next = vec![i + 1; row.len()];
        for (j, right) in b.iter().enumerate() {
            let change = row[j] + usize::from(left != right);
            next[j + 1] = change.min(row[j + 1] + 1).min(next[j] + 1);
            if i > 0 && j > 0 && left == &b[j - 1] && right == &a[i - 1] {
                next[j + 1] = next[j + 1].min(before[j - 1] + 1);
            }
        }
        before = std::mem::replace(&mut row, next);
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted_one_letter_at_a_time() {
        assert_eq!(edits(b"", b"abc"), 3);
        assert_eq!(edits(b"abc", b"abc"), 0);
        assert_eq!(edits(b"kitten", b"sitting"), 3);
        assert_eq!(edits(b"urn", b"run"), 1);
        assert_eq!(edits(b"verison", b"version"), 1);
    }

    #[test]
    fn only_near_misses_are_suggested() {
        let near = |got| near(got, ["--ranks", "-verbose", "--secret-file", "-n"].iter());
        assert_eq!(near("--rnaks").as_deref(), Some("--ranks"));
        assert_eq!(near("-verbos").as_deref(), Some("-verbose"));
        for got in ["--oversubscribe", "--use-hwthread-cpus", "-m", "--tag", "-r", "-np", ""] {
            assert_eq!(near(got), None, "{got}");
        }
    }
}
