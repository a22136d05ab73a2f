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
    /// An error in what follows a colon, which may belong to the program before it.
    #[error("{error}; {}", behind_colon(.words))]
    BehindColon {
        /// The error.
        error: Box<UsageError>,
        /// Words of the program before the colon.
        words: String,
    },
    /// Another error of the parser.
    #[error("{what}")]
    Other {
        /// Message of the parser.
        what: String,
    },
}

/// Note on a colon that separates two programs, for an error in the second one. `words` are those of the
/// first.
pub fn behind_colon(words: &str) -> String {
    let last = words.rsplit(' ').next().unwrap_or_default();
    format!(
        "the ':' after '{last}' begins a second program; a program that needs this word: \
         pmi-host run -n 1 -- {words} : …"
    )
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
