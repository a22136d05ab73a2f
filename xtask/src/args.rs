//! The words behind a command, as lexopt reads them; each error ends with the line of usage.

use lexopt::prelude::*;
use lexopt::{Error, Parser};

/// Reads the words behind a command by `parse`.
///
/// # Errors
///
/// What `parse` rejects, with the line of usage.
pub(crate) fn read<T>(
    words: &[String],
    usage: &str,
    parse: impl FnOnce(&mut Parser) -> Result<T, Error>,
) -> Result<T, String> {
    let parsed = parse(&mut Parser::from_args(words));
    parsed.map_err(|error| format!("{error}; usage: {usage}"))
}

/// Reads the words behind a command that takes only options without a value: whether each is given.
///
/// # Errors
///
/// Another word, with the line of usage.
pub(crate) fn flags<const N: usize>(
    words: &[String],
    usage: &str,
    names: [&str; N],
) -> Result<[bool; N], String> {
    read(words, usage, |parser| {
        let mut given = [false; N];
        while let Some(arg) = parser.next()? {
            match names.iter().position(|name| arg == Long(name)) {
                Some(at) => given[at] = true,
                None => return Err(arg.unexpected()),
            }
        }
        Ok(given)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    /// Numbers of `--n`, whether `--fast` is given, and names.
    fn numbers(line: &str) -> Result<(Vec<u8>, bool, Vec<String>), String> {
        read(&words(line), "use", |parser| {
            let (mut numbers, mut is_fast, mut names) = (Vec::new(), false, Vec::new());
            while let Some(arg) = parser.next()? {
                match arg {
                    Long("n") => numbers.push(parser.value()?.parse()?),
                    Long("fast") => is_fast = true,
                    Value(name) => names.push(name.string()?),
                    other => return Err(other.unexpected()),
                }
            }
            Ok((numbers, is_fast, names))
        })
    }

    #[test]
    fn options_and_names_are_read_in_any_order() {
        let names = ["a", "b"].map(str::to_owned).to_vec();
        assert_eq!(numbers("a --n 1 --fast b --n=2"), Ok((vec![1, 2], true, names)));
        let given = |line| flags(&words(line), "use", ["fast", "slow"]);
        assert_eq!(given("--slow"), Ok([false, true]));
        assert_eq!(given(""), Ok([false, false]));
    }

    #[test]
    fn words_without_a_meaning_are_named_with_the_usage() {
        for (line, word) in [("--n", "--n"), ("--n --m x", "--m"), ("--m", "--m"), ("-x", "-x")] {
            let why = numbers(line).unwrap_err();
            assert!(why.contains(word) && why.ends_with("; usage: use"), "{line}: {why}");
        }
        for (line, word) in [("--m", "--m"), ("x", "x"), ("--fast=x", "--fast")] {
            let why = flags(&words(line), "use", ["fast"]).unwrap_err();
            assert!(why.contains(word) && why.ends_with("; usage: use"), "{line}: {why}");
        }
    }
}
