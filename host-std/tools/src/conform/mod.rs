//! Checks the conformance of any launcher or client to PMI-1 and PMI-2.
//!
//! ```text
//! args, error     the requested task, and errors that prevent it
//! case            a case, and the list of all: pmi1, pmi2, second_connection, singleton
//! raw_connection  bytes with a bound on every wait; rank_client: requests made of them
//! shared          exchanges that are alike in both protocols
//! player          one rank of one case, as a launcher starts it
//! launcher        one launch for each case, and its result
//! client          a program under a server that answers in unusual ways
//! verdict, matrix findings; written, read back, compared, joined
//! ```
//!
//! Nothing here uses the project's own client, so that an error of its codec cannot hide behind its mirror
//! image; the server that a client meets is the real one, and only its bytes are changed.

mod args;
mod case;
mod client;
mod codes;
mod error;
mod launcher;
mod mapping;
mod matrix;
mod player;
mod pmi1;
mod pmi2;
mod rank_client;
mod raw_connection;
mod second_connection;
mod shared;
mod singleton;
mod verdict;

pub(crate) use case::Case;
pub(crate) use error::ConformError;
pub use launcher::RANK;
pub(crate) use matrix::{Form, Matrix, Row};
pub(crate) use verdict::Verdict;

use args::{Args, Task};
use launcher::LauncherCommand;
use pmi_host_base::exit::{FAILED, USAGE, complain, print, print_json};
use std::ffi::OsString;
use std::process::ExitCode;

/// Runs `pmi-host conform WORDS`.
pub fn run(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words = words.into_iter().map(|word| word.to_string_lossy().into_owned());
    match args::parse(words).and_then(|args| check(&args)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            complain(&error, if matches!(error, ConformError::Usage(_)) { USAGE } else { FAILED })
        }
    }
}

/// Plays one rank of a case; only a launcher that is checked starts this.
pub fn run_rank(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words: Vec<String> =
        words.into_iter().map(|word| word.to_string_lossy().into_owned()).collect();
    player::run(&words)
}

/// Executes the task; true if all is as expected.
fn check(args: &Args) -> Result<bool, ConformError> {
    match &args.task {
        Task::Help => {
            print(args::HELP);
            Ok(true)
        }
        Task::List => {
            for Case { name, ranks, tries, .. } in Case::all() {
                print(&format!("{name:<25}  {ranks}  {tries}\n"));
            }
            // The number of ranks of a client is an argument.
            for client::Mutation { name, tries, .. } in client::Mutation::ALL {
                print(&format!("{name:<25}  -  {tries}\n"));
            }
            Ok(true)
        }
        Task::Join(files) => {
            let read = files.iter().map(|(title, file)| Ok((title.clone(), Matrix::read(file)?)));
            let columns = read.collect::<Result<Vec<_>, ConformError>>()?;
            print(&matrix::join(&columns, tried));
            Ok(true)
        }
        Task::Launcher(line) => {
            let line = LauncherCommand::new(line)?;
            let cases: Vec<_> =
                Case::all().filter(|case| is_wanted(case.name, &args.only)).collect();
            if cases.is_empty() {
                return Err(ConformError::NoCase(args.only.clone()));
            }
            let mut closed: Vec<Row> = Vec::new();
            let try_one = |case: &'static Case| {
                // Further cases show nothing new when the session cannot be opened.
                if let Some(opening) =
                    closed.iter().find(|opening| depends_on(case.name, &opening.case))
                {
                    return Ok(Row::not_tried(case, opening));
                }
                let row = line.check(case, args.limit)?;
                let is_closed = row.finding.verdict > Verdict::Tolerated;
                closed.extend(
                    Some(row.clone()).filter(|row| is_closed && is_opening_case(&row.case)),
                );
                Ok(row)
            };
            finish(args, cases.into_iter().map(try_one))
        }
        Task::Client(line, ranks) => {
            let words = args::split(line)?;
            let is_wanted = |mutation: &&client::Mutation| is_wanted(mutation.name, &args.only);
            let mutations: Vec<_> = client::Mutation::ALL.iter().filter(is_wanted).collect();
            if mutations.is_empty() {
                return Err(ConformError::NoCase(args.only.clone()));
            }
            let mut subject = client::Subject::new(words, *ranks, args.limit);
            finish(args, mutations.into_iter().map(|mutation| subject.check(mutation)))
        }
    }
}

/// Prints each row as it comes, if the form allows it, and judges the whole.
fn finish(
    args: &Args,
    rows: impl Iterator<Item = Result<Row, ConformError>>,
) -> Result<bool, ConformError> {
    let recorded = args.expect.as_deref().map(Matrix::read).transpose()?;
    let mut matrix = Matrix::default();
    for row in rows {
        let row = row?;
        if args.form == Form::Plain {
            print(&row.plain());
        }
        matrix.rows.push(row);
    }
    match args.form {
        Form::Plain => print(&format!("# {}\n", matrix.sum())),
        Form::Json => print_json(&matrix.render(Form::Json)),
        Form::Markdown => print(&matrix.render(Form::Markdown)),
    };
    let Some(recorded) = recorded else { return Ok(matrix.wrong_count() == 0) };
    let differences = matrix.differences(&recorded);
    for difference in &differences {
        complain(difference, FAILED);
    }
    Ok(differences.is_empty())
}

fn tried(case: &str) -> Option<&'static str> {
    let mutation = || client::Mutation::ALL.iter().find(|mutation| mutation.name == case);
    Case::named(case).map(|case| case.tries).or_else(|| mutation().map(|mutation| mutation.tries))
}

/// The first case of each protocol opens a session as every client does.
fn is_opening_case(name: &str) -> bool {
    OPENING_CASES.contains(&name)
}

fn depends_on(name: &str, opening: &str) -> bool {
    name.split('-').next() == opening.split('-').next()
}

fn is_wanted(name: &str, only: &[String]) -> bool {
    only.is_empty() || only.iter().any(|part| name.contains(part.as_str()))
}

const OPENING_CASES: [&str; 2] = ["pmi1-init-1.1", "pmi2-init"];
