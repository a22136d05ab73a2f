//! Errors of command lines, each with its remedy, and the candidate that a mistyped word resembles.

/// Error of a command line. The message ends with the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UsageError {
    /// The first word is no command of this program.
    #[error("there is no command '{got}'; {remedy}")]
    UnknownCommand {
        /// First word as typed.
        got: String,
        /// Most similar command, or the command that starts a program.
        remedy: String,
    },
    /// There is no such option.
    #[error("there is no option '{got}'; {remedy}")]
    UnknownOption {
        /// Option as typed, without its value.
        got: String,
        /// Most similar option, the equivalent of an option of another launcher, or where all are listed.
        remedy: String,
    },
    /// An option of the whole run precedes one of several programs.
    #[error("option '{got}' applies to all programs; write it in front of the first one")]
    NotOfPart {
        /// Option as typed.
        got: String,
    },
    /// An option lacks its value.
    #[error("option '{option}' needs {value} after it")]
    MissingValue {
        /// Option that lacks it.
        option: String,
        /// Placeholder of the missing value.
        value: String,
    },
    /// A value was given to an option that takes none.
    #[error("option '{option}' takes no value")]
    NeedlessValue {
        /// Option without a value.
        option: String,
    },
    /// A value is invalid.
    #[error("'{given}': {why}")]
    Value {
        /// Option and value.
        given: String,
        /// Error in the value, and a valid example.
        why: String,
    },
    /// The number of ranks of a program is missing, and no ranks are expected to connect.
    #[error(
        "the number of ranks is missing; specify it with -n, as in 'pmi-host run -n 4 ./hello'"
    )]
    NoRanks,
    /// A required program is missing.
    #[error("{}", no_program(.place))]
    NoProgram {
        /// Place of the missing program, from 1.
        place: usize,
    },
    /// An option requires another one, which is missing.
    #[error("'{option}' requires '{other}'; specify both, or neither")]
    Alone {
        /// Option that was given.
        option: &'static str,
        /// Option that it requires.
        other: &'static str,
    },
    /// `pmiid` without a secret, or without a rank.
    #[error(
        "the rank and its secret are missing; specify both, as in 'pmi-host pmiid --secret-file FILE 3'"
    )]
    Identity,
    /// The universe is smaller than the job.
    #[error(
        "'--universe {universe}' is smaller than the {ranks} ranks to start; it counts them and those that \
         they may start"
    )]
    Universe {
        /// Number of processes of the universe.
        universe: u32,
        /// Number of requested ranks.
        ranks: u32,
    },
    /// Another error of the parser.
    #[error("{what}")]
    Other {
        /// Message of the parser.
        what: String,
    },
}

fn no_program(place: &usize) -> String {
    match place {
        1 => "there is no program to start; specify one, as in 'mpiexec -n 4 ./hello'".to_owned(),
        _ => format!(
            "there is no program after colon {}; specify one, as in 'run -n 1 ./a : -n 3 ./b'",
            place - 1
        ),
    }
}

/// Candidate with the fewest edits; among equals the one that is nearer in length, then the first.
pub fn nearest<S: AsRef<str>>(got: &str, candidates: impl Iterator<Item = S>) -> String {
    let distance = |name: &S| {
        let name = name.as_ref();
        (edits(got.as_bytes(), name.as_bytes()), name.len().abs_diff(got.len()))
    };
    { candidates }.min_by_key(distance).map_or_else(String::new, |name| name.as_ref().to_owned())
}

/// Candidate that `got` probably misspells: at most three letters differ, and fewer in a short word.
pub fn near<S: AsRef<str>>(got: &str, candidates: impl Iterator<Item = S>) -> Option<String> {
    let found = nearest(got, candidates);
    let edits_max = match got.trim_start_matches('-').len() {
        0 | 1 => 0,
        2 | 3 => 1,
        4..=8 => 2,
        _ => 3,
    };
    Some(found).filter(|found| edits(got.as_bytes(), found.as_bytes()) <= edits_max)
}

/// Remedy for an unknown option: the one that was probably meant, else `list`, where all are listed.
pub fn remedy<S: AsRef<str>>(got: &str, candidates: impl Iterator<Item = S>, list: &str) -> String {
    match near(got, candidates) {
        Some(name) => {
            format!("the nearest is '{name}' (options of the program itself follow its name)")
        }
        None => format!("'{list}' lists all (options of the program itself follow its name)"),
    }
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

    #[test]
    fn only_near_misses_are_suggested() {
        let near = |got| near(got, ["--ranks", "-verbose", "--secret-file", "-n"].iter());
        assert_eq!(near("--rnaks").as_deref(), Some("--ranks"));
        assert_eq!(near("-verbos").as_deref(), Some("-verbose"));
        for got in ["--oversubscribe", "--use-hwthread-cpus", "-m", "--tag", ""] {
            assert_eq!(near(got), None, "{got}");
        }
    }
}
