//! `pmi-host ps`: status of running launchers.

use super::query::{Answers, nothing};
use crate::cli::explain;
use crate::watch::table::Table;
use crate::watch::text::{self, Rows};
use clap::{Arg, ArgAction, Command};
use pmi_host_base::exit::{FAILED, complain, print, print_json};
use std::ffi::OsString;
use std::process::ExitCode;

/// Command line of `ps`.
pub(crate) fn define() -> Command {
    Command::new("ps")
        .about("Show the runs of this user, and which ranks wait for which")
        .arg(Arg::new(JOB).help("only this launcher (its process) or this job (its name)"))
        .arg(
            Arg::new(JSON)
                .long(JSON)
                .action(ArgAction::SetTrue)
                .help("print JSON: a list with one table for each launcher"),
        )
}

/// Queries all launchers of this user, prints their tables and returns the exit code: 1 if a query
/// failed or the named launcher or job was not found.
pub(crate) fn run(words: Vec<OsString>) -> ExitCode {
    let matches = match explain::parse(define(), words) {
        Ok(matches) => matches,
        Err(code) => return code,
    };
    let wanted = matches.get_one::<String>(JOB).map(String::as_str);
    let Answers { tables, failures } = Answers::request(wanted);
    let printed = match matches.get_flag(JSON) {
        true => print_json(&format!("{}\n", serde_json::to_string(&tables).unwrap_or_default())),
        false => print(&in_words(&tables)),
    };
    match failures.is_empty() {
        true if tables.is_empty() && !matches.get_flag(JSON) => complain(&nothing(), SUCCESS),
        true => printed,
        false => complain(&failures.join("; "), FAILED),
    }
}

fn in_words(tables: &[Table]) -> String {
    tables.iter().map(|table| text::table(table, Rows::All) + "\n").collect()
}

const JOB: &str = "JOB";
const JSON: &str = "json";

/// No failure, but nothing to show.
const SUCCESS: u8 = 0;
