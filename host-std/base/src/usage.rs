//! Errors of command lines, each with its remedy, and the candidate that a mistyped word resembles.

use std::fmt;

/// Error of a command line. The message ends with the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UsageError {
    /// The first word is no command of this program.
    UnknownCommand {
        /// First word as typed.
        got: String,
        /// Most similar command.
        nearest: String,
    },
    /// There is no such option.
    UnknownOption {
        /// Option as typed, without its value.
        got: String,
        /// Most similar option.
        nearest: String,
    },
    /// An option of the whole run precedes one of several programs.
    NotOfPart {
        /// Option as typed.
        got: String,
    },
    /// An option lacks its value.
    MissingValue {
        /// Option that lacks it.
        option: String,
        /// Placeholder of the missing value.
        value: String,
    },
    /// A value was given to an option that takes none.
    NeedlessValue {
        /// Option without a value.
        option: String,
    },
    /// A value is invalid.
    Value {
        /// Option and value.
        given: String,
        /// Error in the value, and a valid example.
        why: String,
    },
    /// The number of ranks of a program is missing, and no ranks are expected to connect.
    NoRanks,
    /// A required program is missing.
    NoProgram {
        /// Place of the missing program, from 1.
        place: usize,
    },
    /// An option requires another one, which is missing.
    Alone {
        /// Option that was given.
        option: &'static str,
        /// Option that it requires.
        other: &'static str,
    },
    /// `pmiid` without a secret, or without a rank.
    Identity,
    /// The universe is smaller than the job.
    Universe {
        /// Number of processes of the universe.
        universe: u32,
        /// Number of requested ranks.
        ranks: u32,
    },
    /// Another error of the parser.
    Other {
        /// Message of the parser.
        what: String,
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
                "there is no option '{got}'; the nearest is '{nearest}' (options of the program \
                 itself follow its name)"
            ),
            Self::NotOfPart { got } => {
                write!(
                    f,
                    "option '{got}' applies to all programs; write it in front of the first \
                          one"
                )
            }
            Self::MissingValue { option, value } => {
                write!(f, "option '{option}' needs {value} after it")
            }
            Self::NeedlessValue { option } => write!(f, "option '{option}' takes no value"),
            Self::Value { given, why } => write!(f, "'{given}': {why}"),
            Self::Universe { universe, ranks } => write!(
                f,
                "'--universe {universe}' is smaller than the {ranks} ranks to start; \
                 it counts them and those that they may start"
            ),
            Self::Alone { option, other } => {
                write!(f, "'{option}' requires '{other}'; specify both, or neither")
            }
            Self::Identity => f.write_str(
                "the rank and its secret are missing; specify both, as in 'pmi-host pmiid \
                --secret-file FILE 3'",
            ),
            Self::NoRanks => f.write_str(
                "the number of ranks is missing; specify it with -n, as in 'pmi-host \
                            run -n 4 ./hello'",
            ),
            Self::NoProgram { place: 1 } => f.write_str(
                "there is no program to start; specify one, as in 'mpiexec -n 4 \
                            ./hello'",
            ),
            Self::NoProgram { place } => write!(
                f,
                "there is no program after colon {}; specify one, as in 'run -n 1 ./a : -n 3 ./b'",
                place - 1
            ),
            Self::Other { what } => f.write_str(what),
        }
    }
}

impl std::error::Error for UsageError {}

/// Candidate with the fewest edits; among equals the one that is nearer in length, then the first.
pub fn nearest<S: AsRef<str>>(got: &str, candidates: impl Iterator<Item = S>) -> String {
    let distance = |name: &S| {
        let name = name.as_ref();
        (edits(got.as_bytes(), name.as_bytes()), name.len().abs_diff(got.len()))
    };
    { candidates }.min_by_key(distance).map_or_else(String::new, |name| name.as_ref().to_owned())
}

/// Edit distance: number of letters to add, drop or change to make `a` from `b`.
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
