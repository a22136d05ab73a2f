//! `pmi-host ps`: status of running launchers.

use crate::runtime_dir;
use crate::watch::table::Table;
use crate::watch::text::{self, Rows};
use clap::{Arg, ArgAction, Command};
use pmi_host_base::exit::{FAILED, complain, print, refuse};
use pmi_host_base::usage::UsageError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

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
    let matches = match define().no_binary_name(true).try_get_matches_from(words) {
        Ok(matches) => matches,
        Err(error) if !error.use_stderr() => return print(&error.to_string()),
        Err(error) => {
            let why = error.kind().to_string();
            return refuse(&UsageError::Value { given: "ps".to_owned(), why });
        }
    };
    let (mut tables, mut trouble) = (Vec::new(), Vec::new());
    for socket in runtime_dir::candidates()
        .iter()
        .flat_map(|directory| runtime_dir::sockets(directory).unwrap_or_default())
    {
        match query(&socket) {
            Ok(table) => tables.extend(table),
            Err(why) => trouble.push(why),
        }
    }
    if let Some(wanted) = matches.get_one::<String>(JOB) {
        tables.retain_mut(|table| table.pid.to_string() == *wanted || table.keep(wanted).is_ok());
        if tables.is_empty() {
            trouble.push(format!(
                "no launcher and no job '{wanted}' of yours runs here; 'pmi-host ps' lists all"
            ));
        }
    }
    let printed = match matches.get_flag(JSON) {
        true => print(&format!("{}\n", serde_json::to_string(&tables).unwrap_or_default())),
        false => print(&in_words(&tables)),
    };
    match trouble.is_empty() {
        true if tables.is_empty() && !matches.get_flag(JSON) => complain(&nothing(), SUCCESS),
        true => printed,
        false => complain(&trouble.join("; "), FAILED),
    }
}

fn in_words(tables: &[Table]) -> String {
    tables.iter().map(|table| text::table(table, Rows::All) + "\n").collect()
}

fn nothing() -> String {
    let directories: Vec<String> =
        runtime_dir::candidates().iter().map(|directory| directory.display().to_string()).collect();
    format!("no launcher of yours runs here (looked in {})", directories.join(" and "))
}

/// Table of the launcher at `socket`; `None` if the launcher is gone.
///
/// # Errors
///
/// A message for the user.
fn query(socket: &Path) -> Result<Option<Table>, String> {
    let who = match runtime_dir::pid(socket) {
        Some(pid) => format!("the launcher with pid {pid}"),
        None => format!("the launcher at {}", socket.display()),
    };
    let answer = match runtime_dir::dial(socket).and_then(|stream| read(stream.into())) {
        Ok(answer) => answer,
        Err(error) if is_gone(&error) => return Ok(None),
        Err(error)
            if matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock) =>
        {
            return Err(format!(
                "{who} does not answer; it may be stopped ('kill -CONT' continues it)"
            ));
        }
        Err(error) => return Err(format!("{who} cannot be queried: {error}")),
    };
    // The launcher may have exited during the query.
    if answer.is_empty() {
        return Ok(None);
    }
    let table = serde_json::from_slice(&answer);
    table.map(Some).map_err(|error| {
        format!(
            "{who} answered in a form that this version of pmi-host does not understand \
                ({error})"
        )
    })
}

fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound | io::ErrorKind::ConnectionReset
    )
}

/// Reads to the end of the stream, with limits on time and length.
fn read(mut stream: File) -> io::Result<Vec<u8>> {
    let (mut answer, until) = (Vec::new(), Instant::now() + PATIENCE);
    let mut piece = vec![0; PIECE];
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return Ok(answer),
            Ok(len) if answer.len() + len > ANSWER_MAX => {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            Ok(len) => answer.extend_from_slice(&piece[..len]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait(&stream, until)?,
            Err(error) => return Err(error),
        }
    }
}

fn wait(stream: &File, until: Instant) -> io::Result<()> {
    let left = until.saturating_duration_since(Instant::now());
    let left = Timespec::try_from(left).map_err(io::Error::other)?;
    let ready = poll(&mut [PollFd::new(stream, PollFlags::IN)], Some(&left))?;
    if ready == 0 { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
}

const JOB: &str = "JOB";
const JSON: &str = "json";

/// No failure, but nothing to show.
const SUCCESS: u8 = 0;

/// A launcher answers between two turns of its event loop, so it needs no longer than this.
const PATIENCE: Duration = Duration::from_secs(5);

/// Capacity of a socket.
const PIECE: usize = 1 << 16;

/// Size of the table of a million ranks.
const ANSWER_MAX: usize = 1 << 30;
