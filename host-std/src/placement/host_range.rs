//! Names in bracket expressions, as Slurm and Flux write them: `n[001-128,130]`, `rack[1-2]n[01-16]-ib`.
//!
//! Spec: Slurm, scontrol(1), *show hostnames*; RFC 29 (Flux), Hostlist Format.

use super::HOSTS_MAX;
use super::host::{NAME_LEN_MAX, too_long, too_many};

/// Part of a name.
enum NamePiece<'a> {
    /// Text that all names share.
    Literal(&'a str),
    /// Numbers in brackets.
    Numbers(Vec<NumberRange>),
}

/// Numbers of which each is part of one name.
#[derive(Clone, Copy)]
struct NumberRange {
    first: u64,
    last: u64,
    /// Number of digits at least; zeros in front fill up.
    width: usize,
}

/// Expands an expression without commas outside of brackets into names, in its order; the last bracket
/// counts fastest.
///
/// # Errors
///
/// A message about the wrong place, or about too many names; nothing is expanded then.
pub(super) fn expand(text: &str) -> Result<Vec<String>, String> {
    let pieces = pieces(text)?;
    let mut counts = pieces.iter().map(NamePiece::count);
    let count = counts.try_fold(1_u64, |all, count| all.checked_mul(count?));
    let count = count.and_then(|count| usize::try_from(count).ok());
    if count.is_none_or(|count| count > HOSTS_MAX) {
        return Err(too_many());
    }
    // Numbers may have more digits than the first one, which the builder of the list counts.
    if pieces.iter().map(NamePiece::len_min).sum::<usize>() > NAME_LEN_MAX {
        return Err(too_long());
    }
    let mut names = vec![String::new()];
    for piece in pieces {
        match piece {
            NamePiece::Literal(literal) => {
                names.iter_mut().for_each(|name| name.push_str(literal));
            }
            NamePiece::Numbers(ranges) => {
                let numbers = || {
                    let each = ranges.iter().map(|range| (range.first..=range.last, range.width));
                    each.flat_map(|(range, width)| range.map(move |number| (number, width)))
                };
                let with = |name: &String| {
                    let name = name.clone();
                    numbers().map(move |(number, width)| format!("{name}{number:0width$}"))
                };
                names = names.iter().flat_map(with).collect();
            }
        }
    }
    Ok(names)
}

impl NamePiece<'_> {
    /// Number of names that differ in this piece; `None` if it is beyond any bound.
    fn count(&self) -> Option<u64> {
        match self {
            Self::Literal(_) => Some(1),
            Self::Numbers(ranges) => ranges.iter().try_fold(0_u64, |all, range| {
                all.checked_add(range.last - range.first)?.checked_add(1)
            }),
        }
    }

    /// Number of bytes that this piece has at least in each name.
    fn len_min(&self) -> usize {
        match self {
            Self::Literal(literal) => literal.len(),
            Self::Numbers(ranges) => {
                ranges.iter().map(|range| range.width).min().unwrap_or_default()
            }
        }
    }
}

fn pieces(text: &str) -> Result<Vec<NamePiece<'_>>, String> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    loop {
        let open = rest.find(['[', ']']).unwrap_or(rest.len());
        pieces.push(NamePiece::Literal(&rest[..open]));
        let Some(behind) = rest[open..].strip_prefix('[') else {
            return if open == rest.len() { Ok(pieces) } else { Err(unbalanced(text)) };
        };
        let (list, behind) = behind.split_once(']').ok_or_else(|| unbalanced(text))?;
        let ranges = list.split(',').map(|range| number_range(range.trim()));
        pieces.push(NamePiece::Numbers(ranges.collect::<Result<_, _>>()?));
        rest = behind;
    }
}

/// Parses `17` or `001-128`.
fn number_range(text: &str) -> Result<NumberRange, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |digits: &str| {
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse().ok().filter(|_| is_number && digits.len() <= DIGITS_MAX)
    };
    match (number(first), number(last)) {
        (Some(low), Some(high)) if low <= high => {
            Ok(NumberRange { first: low, last: high, width: first.len() })
        }
        _ => Err(format!("'[{text}]' is not a range of numbers; try 'n[001-128,130]'")),
    }
}

/// Error for an expression in which a bracket has no counterpart.
pub(super) fn unbalanced(text: &str) -> String {
    format!(
        "a bracket in '{}' has no counterpart, or is inside of others; try 'n[001-128,130]'",
        text.escape_debug()
    )
}

/// Largest number of digits in a name.
const DIGITS_MAX: usize = 18;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_keep_the_width_of_their_first_number() {
        for (text, names) in [
            ("n1", "n1"),
            ("n[1-3]", "n1 n2 n3"),
            ("n[008-011,130]", "n008 n009 n010 n011 n130"),
            ("n[9-11]", "n9 n10 n11"),
            ("n[2,1-2]", "n2 n1 n2"),
            ("n[01,1]-ib", "n01-ib n1-ib"),
            ("r[1-2]n[08-09]s", "r1n08s r1n09s r2n08s r2n09s"),
            ("[1-2].example", "1.example 2.example"),
            ("n[00]", "n00"),
            ("", ""),
        ] {
            assert_eq!(expand(text).map(|names| names.join(" ")).as_deref(), Ok(names), "{text}");
        }
    }

    #[test]
    fn expressions_that_mean_nothing_are_refused() {
        for text in [
            "n[",
            "n]",
            "n[1",
            "n[[1]]",
            "n[1]]",
            "n[]",
            "n[,1]",
            "n[3-1]",
            "n[1-]",
            "n[-1]",
            "n[a-b]",
            "n[000x133]",
            "n[1-3-5]",
            "n[+1]",
            "n[1:3]",
            "n[12345678901234567890]",
        ] {
            assert!(expand(text).is_err(), "{text}");
        }
    }

    #[test]
    fn number_of_names_is_bounded_before_they_are_made() {
        for text in [
            "n[0-4000000000]",
            "n[0-999999999999999999]",
            "n[0-999999999999999999]m[0-999999999999999999]",
            "n[0-131072]",
            "a[0-1]b[0-1]c[0-1]d[0-99999]",
        ] {
            assert!(expand(text).unwrap_err().contains("131072 hosts"), "{text}");
        }
        assert_eq!(expand("n[0-131071]").map(|names| names.len()), Ok(131_072));
    }

    #[test]
    fn length_of_names_is_bounded_before_they_are_made() {
        let long = "n".repeat(NAME_LEN_MAX);
        assert_eq!(expand(&long).map(|names| names.len()), Ok(1));
        for text in [format!("{long}[0-99999]"), format!("n{}", "[1]".repeat(NAME_LEN_MAX))] {
            assert_eq!(expand(&text), Err(too_long()));
        }
    }
}
