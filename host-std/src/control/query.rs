//! Tables of running launchers, requested from them.

use crate::watch::table::Table;
use pmi_host_os::clock;
use pmi_host_os::runtime_dir;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::{Duration, Instant};

/// Answers of the launchers of this user.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// A table for each launcher that has answered.
    pub(super) tables: Vec<Table>,
    /// Failed requests, each as a sentence for the user.
    pub(super) failures: Vec<String>,
}

impl Answers {
    /// Requests the tables of all launchers, or of the one with this process or the job of this name. A
    /// wanted one that does not exist is a failure.
    pub(super) fn request(wanted: Option<&str>) -> Self {
        let mut answers = Self::default();
        for socket in runtime_dir::candidates()
            .iter()
            .flat_map(|directory| runtime_dir::sockets(directory).unwrap_or_default())
        {
            match query(&socket) {
                Ok(table) => answers.tables.extend(table),
                Err(why) => answers.failures.push(why),
            }
        }
        if let Some(wanted) = wanted {
            answers
                .tables
                .retain_mut(|table| table.pid.to_string() == *wanted || table.keep(wanted).is_ok());
            if answers.tables.is_empty() {
                answers.failures.push(format!(
                    "no launcher and no job '{wanted}' of yours runs here; 'pmi-host ps' lists all"
                ));
            }
        }
        answers
    }
}

/// Sentence for the user if no launcher runs.
pub(super) fn nothing() -> String {
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
    let (mut answer, until) = (Vec::new(), clock::now() + PATIENCE);
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
    let left = until.saturating_duration_since(clock::now());
    let left = Timespec::try_from(left).map_err(io::Error::other)?;
    let ready = poll(&mut [PollFd::new(stream, PollFlags::IN)], Some(&left))?;
    if ready == 0 { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
}

/// A launcher answers between two turns of its event loop, so it needs no longer than this.
const PATIENCE: Duration = Duration::from_secs(5);

/// Capacity of a socket.
const PIECE: usize = 1 << 16;

/// Size of the table of a million ranks.
const ANSWER_MAX: usize = 1 << 30;
