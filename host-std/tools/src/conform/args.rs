//! Arguments of `pmi-host conform`.

use super::error::ConformError;
use super::matrix::Form;
use pmi_host_base::words;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `pmi-host conform`: the task and the form of the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Args {
    /// Requested task.
    pub(crate) task: Task,
    /// Output form of the matrix.
    pub(crate) form: Form,
    /// Recorded matrix to compare with.
    pub(crate) expect: Option<PathBuf>,
    /// Time limit of one launch.
    pub(crate) limit: Duration,
    /// Parts of the names of selected cases; empty selects all.
    pub(crate) only: Vec<String>,
}

/// Requested task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// Check the launcher that this command line starts.
    Launcher(String),
    /// Check the client that this command line starts, with this number of ranks.
    Client(String, u32),
    /// Print recorded matrices as one table; each is a title and a file.
    Join(Vec<(String, PathBuf)>),
    /// Print the names of all cases.
    List,
    /// Print the help text.
    Help,
}

/// Parses the arguments.
///
/// # Errors
///
/// [`ConformError::Usage`].
pub(super) fn parse(words: impl IntoIterator<Item = String>) -> Result<Args, ConformError> {
    let mut words = words.into_iter();
    let (mut task, mut ranks, mut joined) = (None, RANKS, Vec::new());
    let mut args =
        Args { task: Task::Help, form: Form::Plain, expect: None, limit: LIMIT, only: Vec::new() };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| usage(format!("'{word}' needs a value")));
        match word.as_str() {
            "--launcher" => task = Some(Task::Launcher(value()?)),
            "--client" => task = Some(Task::Client(value()?, RANKS)),
            "--join" => joined.push(titled(&value()?)?),
            "--list" => task = Some(Task::List),
            "-n" | "--ranks" => ranks = number(&value()?, RANKS_MAX)?,
            "--timeout" => args.limit = Duration::from_secs(number(&value()?, LIMIT_MAX)?.into()),
            "--only" => args.only.push(value()?),
            "--expect" => args.expect = Some(value()?.into()),
            "--json" => args.form = Form::Json,
            "--markdown" => args.form = Form::Markdown,
            "-h" | "--help" => task = Some(Task::Help),
            _ => return Err(usage(format!("'conform' has no option '{word}'"))),
        }
    }
    args.task = match (task, joined.is_empty()) {
        (Some(Task::Client(line, _)), _) => Task::Client(line, ranks),
        (Some(task), _) => task,
        (None, false) => Task::Join(joined),
        (None, true) => {
            return Err(usage(
                "nothing to check is specified; specify --launcher or --client".to_owned(),
            ));
        }
    };
    Ok(args)
}

/// Splits a command line as a shell would, quotes and backslashes included, and nothing else.
///
/// # Errors
///
/// [`ConformError::Usage`] for a quote that is not closed, or no word at all.
pub(super) fn split(line: &str) -> Result<Vec<String>, ConformError> {
    match words::split(line) {
        Ok(words) if words.is_empty() => {
            Err(usage("the command line to check is empty".to_owned()))
        }
        split => split.map_err(usage),
    }
}

fn usage(what: String) -> ConformError {
    ConformError::Usage(what)
}

fn titled(text: &str) -> Result<(String, PathBuf), ConformError> {
    match text.split_once('=') {
        Some((title, file)) => Ok((title.to_owned(), file.into())),
        None => Err(usage(format!("'--join {text}': write it as --join TITLE=FILE"))),
    }
}

fn number(text: &str, max: u32) -> Result<u32, ConformError> {
    let number = text.parse().ok().filter(|number| (1..=max).contains(number));
    number.ok_or_else(|| usage(format!("'{text}' is not a number from 1 to {max}")))
}

/// Help text of `conform`.
pub(super) const HELP: &str =
    "Checks any launcher or client of PMI-1 and PMI-2 against the specification.

usage: pmi-host conform --launcher 'mpiexec.hydra -n {n} {prog}'   plays clients under a launcher
       pmi-host conform --client './a.out ARGS' [-n N]             plays servers to a program
       pmi-host conform --join TITLE=FILE ...                      one table of recorded matrices
       pmi-host conform --list                                     names all cases

options:
  -n, --ranks N     number of ranks of a client (default 2)
  --timeout SECONDS bound of one launch (default 10)
  --only PART       only cases with this in their name; may be repeated
  --expect FILE     compare with a matrix that was printed before
  --json            print JSON
  --markdown        print a Markdown table

exit code: 0 when nothing is wrong, or nothing differs from FILE; 1 otherwise; 2 wrong usage.
";

/// Two ranks are enough for an exchange; more only take longer.
const RANKS: u32 = 2;
const RANKS_MAX: u32 = 1024;
const LIMIT: Duration = Duration::from_secs(10);
const LIMIT_MAX: u32 = 3600;

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Args, ConformError> {
        parse(words.iter().map(|word| (*word).to_owned()))
    }

    #[test]
    fn options_are_read_in_any_order() {
        let args = parsed(&["-n", "3", "--json", "--client", "./a b", "--timeout", "5"]).unwrap();
        assert_eq!(args.task, Task::Client("./a b".to_owned(), 3));
        assert_eq!((args.form, args.limit), (Form::Json, Duration::from_secs(5)));
        let args = parsed(&["--join", "a=b=c", "--join", "d=e"]).unwrap();
        assert_eq!(
            args.task,
            Task::Join(vec![("a".into(), "b=c".into()), ("d".into(), "e".into())])
        );
        for words in [&["--launcher"][..], &["-n", "0"], &["--join", "x"], &["--what"], &[]] {
            assert!(parsed(words).is_err(), "{words:?}");
        }
    }
}
