//! What was typed, and nothing about the system it was typed on.
//!
//! Everything after the first word that is no option belongs to the program, dashes and all; `--`
//! ends the options earlier. One table names the options; the help text and the suggestion for a
//! misspelt one are made from it.

use super::usage::{UsageError, nearest};
use crate::conform::RANK;
use pmi_core::ids::Key;
use pmi_core::limits::PMI2_MAX_ATTRVALUE;
use std::ffi::{OsStr, OsString};
use std::iter::Peekable;
use std::num::ParseIntError;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// What the user asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Start a job.
    Run(RunArgs),
    /// Be one rank of the built-in demo; only `run` without a program starts this.
    DemoRank,
    /// Check a launcher or a client; the words are read by [`conform`](crate::conform).
    Conform(Vec<OsString>),
    /// Be one rank of a case; only a launcher that is checked starts this.
    ConformRank(Vec<OsString>),
    /// Print the number by which a rank dials in.
    Identity {
        /// Where to find the secret.
        secret_file: OsString,
        /// The rank.
        rank: u32,
    },
    /// Print the help text.
    Help,
    /// Print the version.
    Version,
}

/// The words of `pmi-host run`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunArgs {
    /// How many ranks to start; with those that dial in, at least one.
    pub ranks: u32,
    /// The program and its arguments; empty means the built-in demo.
    pub words: Vec<OsString>,
    /// How many processes there may be in all jobs together, if that was said.
    pub universe: Option<u32>,
    /// Attributes of the job that it can ask for, as key and value.
    pub attributes: Vec<(String, String)>,
    /// Where further ranks dial in.
    pub listen: Option<Listen>,
}

/// What was said about ranks that dial in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Where.
    pub address: String,
    /// How many of them.
    pub expected: u32,
    /// Where to find what they must know.
    pub secret_file: Option<OsString>,
}

/// One option of `run`.
#[derive(Debug)]
pub struct Flag {
    /// All its names, dashes included; the first is the one messages use.
    pub names: &'static [&'static str],
    /// What its value stands for; `None` for a switch.
    pub value: Option<&'static str>,
    /// One line of help.
    pub help: &'static str,
    id: Id,
}

/// Reads the words behind the program's own name.
///
/// Errors: [`UsageError`], which is exit code 2.
pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Command, UsageError> {
    let mut words = words.into_iter();
    let Some(first) = words.next() else { return Ok(Command::Help) };
    match first.to_str() {
        Some("run") => parse_run(words),
        Some("pmiid") => parse_identity(words),
        Some(DEMO_RANK) => Ok(Command::DemoRank),
        Some("conform") => Ok(Command::Conform(words.collect())),
        Some(RANK) => Ok(Command::ConformRank(words.collect())),
        Some("help" | "--help" | "-h") => Ok(Command::Help),
        Some("version" | "--version" | "-V") => Ok(Command::Version),
        _ => Err(UsageError::UnknownCommand {
            got: first.to_string_lossy().into_owned(),
            nearest: nearest(&first, COMMANDS.iter().copied()),
        }),
    }
}

fn parse_run(words: impl Iterator<Item = OsString>) -> Result<Command, UsageError> {
    let mut words = words.peekable();
    let (mut ranks, mut universe, mut attributes) = (None, None, Vec::new());
    let (mut address, mut expected, mut secret_file) = (None, None, None);
    while let Some((flag, value)) = next_flag(&mut words)? {
        match flag.id {
            Id::Help => return Ok(Command::Help),
            Id::Ranks => ranks = Some(number_of_ranks("-n", &value)?),
            Id::Universe => universe = Some(number_of_ranks("--universe", &value)?),
            Id::Attribute => attributes.push(attribute(&value)?),
            Id::Listen => address = Some(value.to_string_lossy().into_owned()),
            Id::Expect => expected = Some(number_of_ranks("--expect", &value)?),
            Id::SecretFile => secret_file = Some(value),
        }
    }
    let alone = |option, other| Err(UsageError::Alone { option, other });
    let listen = match (address, expected) {
        (Some(address), Some(expected)) => Some(Listen { address, expected, secret_file }),
        (Some(_), None) => return alone("--listen", "--expect"),
        (None, Some(_)) => return alone("--expect", "--listen"),
        (None, None) if secret_file.is_some() => return alone("--secret-file", "--listen"),
        (None, None) => None,
    };
    let ranks = ranks.or(listen.as_ref().map(|_| 0)).ok_or(UsageError::NoRanks)?;
    let all = ranks + listen.as_ref().map_or(0, |listen| listen.expected);
    if let Some(universe) = universe.filter(|universe| *universe < all) {
        return Err(UsageError::Universe { universe, ranks: all });
    }
    let words = words.collect();
    Ok(Command::Run(RunArgs { ranks, words, universe, attributes, listen }))
}

/// `pmiid --secret-file FILE RANK`
fn parse_identity(words: impl Iterator<Item = OsString>) -> Result<Command, UsageError> {
    let mut words = words.peekable();
    let mut secret_file = None;
    while let Some((flag, value)) = next_flag(&mut words)? {
        match flag.id {
            Id::SecretFile => secret_file = Some(value),
            Id::Help => return Ok(Command::Help),
            _ => return Err(UsageError::Identity),
        }
    }
    let rank = words.next().and_then(|rank| rank.to_str()?.parse().ok());
    match (secret_file, rank, words.next()) {
        (Some(secret_file), Some(rank), None) => Ok(Command::Identity { secret_file, rank }),
        _ => Err(UsageError::Identity),
    }
}

/// The next option, with its value if it takes one; `None` in front of the first word that is no option.
fn next_flag(
    words: &mut Peekable<impl Iterator<Item = OsString>>,
) -> Result<Option<(&'static Flag, OsString)>, UsageError> {
    let is_option = |word: &OsString| word.len() > 1 && word.as_bytes()[0] == b'-';
    let Some(word) = words.next_if(is_option).filter(|word| word != "--") else { return Ok(None) };
    let (flag, attached) = find(&word)?;
    let value = match (flag.value, attached) {
        (None, Some(_)) => return Err(UsageError::NeedlessValue { option: flag.names[0] }),
        (None, None) => OsString::new(),
        (Some(_), Some(value)) => value,
        (Some(value), None) => {
            words.next().ok_or(UsageError::MissingValue { option: flag.names[0], value })?
        }
    };
    Ok(Some((flag, value)))
}

/// Finds the option and the value that may be glued to it: `--ranks=4`, `-n=4`, `-n4`.
fn find(word: &OsStr) -> Result<(&'static Flag, Option<OsString>), UsageError> {
    let bytes = word.as_bytes();
    let end = bytes.iter().position(|&byte| byte == b'=').unwrap_or(bytes.len());
    let (name, rest) = bytes.split_at(end);
    if let Some(flag) = named(name) {
        return Ok((flag, rest.get(1..).map(|value| OsString::from_vec(value.to_vec()))));
    }
    if let Some((short, digits)) = bytes.split_at_checked(2)
        && digits.first().is_some_and(u8::is_ascii_digit)
        && let Some(flag) = named(short)
    {
        return Ok((flag, Some(OsString::from_vec(digits.to_vec()))));
    }
    let got = OsStr::from_bytes(name);
    Err(UsageError::UnknownOption {
        got: got.to_string_lossy().into_owned(),
        nearest: nearest(got, FLAGS.iter().flat_map(|flag| flag.names).copied()),
    })
}

fn named(name: &[u8]) -> Option<&'static Flag> {
    FLAGS.iter().find(|flag| flag.names.iter().any(|known| known.as_bytes() == name))
}

/// Cuts `KEY=VALUE`; the first `=` counts.
fn attribute(value: &OsStr) -> Result<(String, String), UsageError> {
    let got = value.to_string_lossy().into_owned();
    let fits = |key: &str, value: &str| {
        Key::check(key.as_bytes()).is_ok() && (1..PMI2_MAX_ATTRVALUE).contains(&value.len())
    };
    match got.split_once('=') {
        Some((key, value)) if fits(key, value) => Ok((key.to_owned(), value.to_owned())),
        _ => Err(UsageError::Attribute { got }),
    }
}

fn number_of_ranks(option: &'static str, value: &OsStr) -> Result<u32, UsageError> {
    let got = value.to_string_lossy().into_owned();
    let parsed: Result<u32, ParseIntError> = got.parse();
    let why = match parsed {
        Ok(0) => "a job has at least one rank",
        Ok(ranks) if ranks > RANKS_MAX => {
            "that is more than the 1048576 ranks one launcher will try"
        }
        Ok(ranks) => return Ok(ranks),
        Err(_) => "that is not a number of ranks",
    };
    Err(UsageError::Ranks { option, got, why })
}

/// The command word that turns this program into a rank of the demo. It is not for typing, so it is
/// in no table.
pub const DEMO_RANK: &str = "demo-rank";

/// The options of `run`, in the order of the help text.
pub const FLAGS: &[Flag] = &[
    Flag {
        names: &["-n", "--ranks", "-np"],
        value: Some("N"),
        help: "how many ranks to start (required, unless ranks dial in)",
        id: Id::Ranks,
    },
    Flag {
        names: &["--universe"],
        value: Some("N"),
        help: "how many processes there may be with those that ranks start (default: as -n)",
        id: Id::Universe,
    },
    Flag {
        names: &["--attribute"],
        value: Some("KEY=VALUE"),
        help: "an attribute that ranks may ask for, as 'cartDims=4,4'; may be repeated",
        id: Id::Attribute,
    },
    Flag {
        names: &["--listen"],
        value: Some("ADDR:PORT"),
        help: "where further ranks dial in over TCP; port 0 means any",
        id: Id::Listen,
    },
    Flag {
        names: &["--expect"],
        value: Some("N"),
        help: "how many ranks dial in; they come behind those that are started",
        id: Id::Expect,
    },
    Flag {
        names: &["--secret-file"],
        value: Some("FILE"),
        help: "what they must know; needed unless they are on this machine",
        id: Id::SecretFile,
    },
    Flag { names: &["-h", "--help"], value: None, help: "print this text", id: Id::Help },
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Id {
    Ranks,
    Universe,
    Attribute,
    Listen,
    Expect,
    SecretFile,
    Help,
}

const COMMANDS: &[&str] = &["run", "conform", "pmiid", "help", "version"];

/// Far above what one kernel can hold (its process numbers end at 4 194 304), low enough that a slip
/// of the finger does not make a table of four thousand million ranks.
const RANKS_MAX: u32 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Command, UsageError> {
        parse(line.split_whitespace().map(OsString::from))
    }

    fn run(ranks: u32, words: &[&str]) -> Result<Command, UsageError> {
        let words = words.iter().map(OsString::from).collect();
        Ok(Command::Run(RunArgs { ranks, words, universe: None, attributes: vec![], listen: None }))
    }

    #[test]
    fn every_way_to_say_how_many_means_the_same() {
        for line in [
            "run -n 4 a",
            "run -n4 a",
            "run -n=4 a",
            "run --ranks 4 a",
            "run --ranks=4 a",
            "run -np 4 a",
        ] {
            assert_eq!(parsed(line), run(4, &["a"]), "{line}");
        }
    }

    #[test]
    fn what_follows_the_program_is_the_programs() {
        assert_eq!(
            parsed("run -n 2 ./a -n 3 --help -- x"),
            run(2, &["./a", "-n", "3", "--help", "--", "x"])
        );
        assert_eq!(parsed("run -n 2 -- -odd-name -n 3"), run(2, &["-odd-name", "-n", "3"]));
        assert_eq!(parsed("run -n 2"), run(2, &[]));
    }

    #[test]
    fn a_misspelt_option_suggests_the_nearest_one() {
        let nearest = |line| match parsed(line) {
            Err(
                UsageError::UnknownOption { nearest, .. }
                | UsageError::UnknownCommand { nearest, .. },
            ) => nearest,
            other => panic!("{line}: {other:?}"),
        };
        assert_eq!(nearest("run --rank=4 a"), "--ranks");
        assert_eq!(nearest("run -m 4 a"), "-n");
        assert_eq!(nearest("run --hlep"), "--help");
        assert_eq!(nearest("rum -n 4"), "run");
        assert_eq!(nearest("-n 4 ./a"), "run");
    }

    #[test]
    fn a_job_without_ranks_is_a_usage_error() {
        for line in [
            "run ./a",
            "run -n",
            "run -n 0 ./a",
            "run -n four ./a",
            "run -n -1 ./a",
            "run -n 4294967296 ./a",
        ] {
            assert!(parsed(line).is_err(), "{line}");
        }
        assert_eq!(
            parsed("run -n 0").unwrap_err().to_string(),
            "'-n 0': a job has at least one rank; try '-n 4'"
        );
    }

    #[test]
    fn a_universe_holds_its_job_and_an_attribute_has_a_value() {
        let Ok(Command::Run(args)) = parsed("run -n 2 --universe=4 --attribute a=b=c x") else {
            panic!("a line that makes sense");
        };
        assert_eq!(args.universe, Some(4));
        assert_eq!(args.attributes, [("a".to_owned(), "b=c".to_owned())]);
        for line in
            ["run -n 2 --universe 1 x", "run -n 2 --attribute a x", "run -n 2 --attribute =b x"]
        {
            assert!(parsed(line).is_err(), "{line}");
        }
    }

    #[test]
    fn ranks_that_dial_in_need_an_address_and_a_number() {
        let Ok(Command::Run(args)) = parsed("run --listen localhost:0 --expect 3") else {
            panic!("a line that makes sense");
        };
        let listen = Listen { address: "localhost:0".into(), expected: 3, secret_file: None };
        assert_eq!((args.ranks, args.listen), (0, Some(listen)));
        for line in [
            "run -n 1 --listen localhost:0 x",
            "run -n 1 --expect 2 x",
            "run -n 1 --secret-file f x",
            "run --listen localhost:0 --expect 0",
            "run -n 1 --listen localhost:0 --expect 2 --universe 2 x",
            "pmiid 3",
            "pmiid --secret-file f",
            "pmiid --secret-file f many",
        ] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
