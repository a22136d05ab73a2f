//! What is wrong with a command line, and the way out.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;

/// Why a command line makes no sense. The text ends with the way out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UsageError {
    /// The first word is no command of ours.
    UnknownCommand {
        /// That word.
        got: String,
        /// The command that looks most like it.
        nearest: &'static str,
    },
    /// There is no such option.
    UnknownOption {
        /// The option as typed, without its value.
        got: String,
        /// The option that looks most like it.
        nearest: &'static str,
    },
    /// Nothing follows an option that needs a value.
    MissingValue {
        /// The option.
        option: &'static str,
        /// What should have followed.
        value: &'static str,
    },
    /// A value was given to an option that takes none.
    NeedlessValue {
        /// The option.
        option: &'static str,
    },
    /// The number of ranks is not a number that a job can have.
    Ranks {
        /// The option.
        option: &'static str,
        /// What was given.
        got: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// `run` without `-n`, and nobody is to dial in either.
    NoRanks,
    /// An option that goes with another one, which is not there.
    Alone {
        /// The option.
        option: &'static str,
        /// The one it goes with.
        other: &'static str,
    },
    /// `pmiid` without a secret, or without a rank.
    Identity,
    /// The universe is smaller than the job.
    Universe {
        /// How many processes it would have.
        universe: u32,
        /// How many ranks were asked for.
        ranks: u32,
    },
    /// An attribute is not `KEY=VALUE` within the limits of the protocols.
    Attribute {
        /// What was given.
        got: String,
    },
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownCommand { got, nearest } => {
                write!(
                    f,
                    "there is no command '{got}'; the nearest is '{nearest}', \
                     as in 'pmi-host run -n 4 ./hello'"
                )
            }
            Self::UnknownOption { got, nearest } => write!(
                f,
                "there is no option '{got}'; the nearest is '{nearest}' \
                 (options of the program itself go behind its name)"
            ),
            Self::MissingValue { option, value } => {
                write!(f, "option '{option}' needs {value} behind it, as in '{option} 4'")
            }
            Self::NeedlessValue { option } => write!(f, "option '{option}' takes no value"),
            Self::Ranks { option, got, why } => {
                write!(f, "'{option} {got}': {why}; try '{option} 4'")
            }
            Self::Universe { universe, ranks } => write!(
                f,
                "'--universe {universe}' is smaller than the {ranks} ranks to start; \
                 it counts them and those that they may start"
            ),
            Self::Attribute { got } => write!(
                f,
                "'--attribute {got}' is not KEY=VALUE with a key of up to 63 and a value of up to \
                 1023 bytes, as in '--attribute cartDims=4,4'"
            ),
            Self::Alone { option, other } => {
                write!(f, "'{option}' goes with '{other}'; say both, or neither")
            }
            Self::Identity => f.write_str(
                "whose number, and with which secret? as in 'pmi-host pmiid --secret-file FILE 3'",
            ),
            Self::NoRanks => {
                f.write_str("how many ranks? say so with -n, as in 'pmi-host run -n 4 ./hello'")
            }
        }
    }
}

impl std::error::Error for UsageError {}

/// The candidate with the fewest edits; of equals the one that is nearer in length, then the first.
pub(super) fn nearest(got: &OsStr, candidates: impl Iterator<Item = &'static str>) -> &'static str {
    let got = got.as_bytes();
    candidates
        .min_by_key(|name| (edits(got, name.as_bytes()), name.len().abs_diff(got.len())))
        .unwrap_or_default()
}

/// How many letters must be added, dropped or changed to make `a` from `b`.
fn edits(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, right) in b.iter().enumerate() {
            let change = diagonal + usize::from(left != right);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
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
    }
}
