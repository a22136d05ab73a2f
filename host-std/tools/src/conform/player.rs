//! One rank of one case: the role of this program when a launcher starts it for a check.
//!
//! The rank reports its finding by one line on standard output. Launchers put names of ranks in front of
//! lines and mix the lines of ranks, so every report is written in one piece, has a mark at both ends, and
//! is searched for anywhere in the output.

use super::case::{Case, CaseBody, ExpectedExit, RankCase};
use super::rank_client::RankClient;
use super::raw_connection::RawConnection;
use super::verdict::{Finding, Verdict, shown};
use pmi_std::env::{Environment, Transport};
use rustix::process::{PidfdFlags, PidfdGetfdFlags};
use std::io::{self, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Report of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RankReport {
    /// Rank that reports.
    pub(crate) rank: u32,
    /// Finding of the rank.
    pub(crate) finding: Finding,
}

/// Plays a rank of the case that the words name: case, milliseconds, and perhaps [`ON_STDIN`], or the name
/// of the launcher that a singleton starts.
pub(super) fn run(words: &[String]) -> ExitCode {
    let Some((case, limit)) = words
        .first()
        .and_then(|name| Case::named(name))
        .zip(words.get(1).and_then(|limit| limit.parse().ok()))
    else {
        return ExitCode::FAILURE;
    };
    let limit = Duration::from_millis(limit);
    // This process does not outlive its case for long, regardless of the launcher.
    std::thread::spawn(move || {
        std::thread::sleep(limit);
        std::process::exit(1);
    });
    if let CaseBody::Singleton(play) = case.body {
        let launcher = words.get(2).map_or("", String::as_str);
        report(case, 0, play(launcher, limit * 2 / 5).unwrap_or_else(|finding| finding));
        return ExitCode::SUCCESS;
    }
    let is_on_stdin = words.get(2).is_some_and(|word| word == ON_STDIN);
    let reached = connect(is_on_stdin, limit * 2 / 5);
    let (rank, finding, after) = match reached {
        Ok((connection, rank, size)) => play(case, connection, rank, size),
        Err(finding) => (0, finding, None),
    };
    report(case, rank, finding);
    if let Some(mut client) = after.filter(|_| case.exit == ExpectedExit::Success) {
        let _ = client.finalize();
    }
    ExitCode::SUCCESS
}

/// Plays the case; returns the client if it may finalize.
fn play(
    case: &Case,
    connection: RawConnection,
    rank: u32,
    size: u32,
) -> (u32, Finding, Option<RankClient>) {
    if size != case.ranks {
        let seen = format!("rank {rank} of {size} where {} were asked for", case.ranks);
        return (rank, Verdict::Wrong.on(seen), None);
    }
    let CaseBody::Rank(RankCase { protocol, is_open, play }) = case.body else {
        // A singleton has no connection to a launcher yet.
        return (rank, Verdict::Wrong.on("a launcher has started it"), None);
    };
    let mut client = RankClient::new(protocol, connection, rank, size);
    let opened = if is_open { client.open() } else { Ok(()) };
    let finding = opened.and_then(|()| play(&mut client)).unwrap_or_else(|finding| finding);
    let may_finalize = finding.verdict <= Verdict::Refused && !client.has_finalized;
    (rank, finding, may_finalize.then_some(client))
}

/// Finds the server through the environment.
fn connect(is_on_stdin: bool, timeout: Duration) -> Result<(RawConnection, u32, u32), Finding> {
    let lost = |what: &dyn std::fmt::Display| Verdict::Wrong.on(shown(what.to_string().as_bytes()));
    let Environment { transport, rank, size, .. } =
        Environment::of_this_process().map_err(|error| lost(&error))?;
    match transport {
        Transport::Inherited { fd } => {
            let stream = if is_on_stdin {
                io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from)
            } else {
                inherited(fd)
            };
            let stream = stream.map_err(|error| lost(&format_args!("PMI_FD={fd}: {error}")))?;
            Ok((RawConnection::new(stream.into(), timeout), rank, size))
        }
        Transport::Tcp { host, port, id } => {
            let stream = TcpStream::connect((host.as_str(), port)).map_err(|error| lost(&error))?;
            identify(RawConnection::new(stream.into(), timeout), id)
        }
        Transport::Singleton => Err(lost(&"neither PMI_FD nor PMI_PORT is set")),
    }
}

/// Identifies this rank after a connect. Only PMI-1 specifies this exchange, but all servers accept it.
fn identify(mut connection: RawConnection, id: u64) -> Result<(RawConnection, u32, u32), Finding> {
    connection.send(format!("cmd=initack pmiid={id}\n").as_bytes())?;
    let first = connection.recv_line()?.expect("initack")?;
    let (mut rank, mut size) = (first.number("rank"), first.number("size"));
    for _ in 0..SET_LINES {
        let line = connection.recv_line()?.expect("set")?;
        rank = line.number("rank").or(rank);
        size = line.number("size").or(size);
    }
    let narrow = |number: Option<i64>| number.and_then(|number| u32::try_from(number).ok());
    match (narrow(rank), narrow(size)) {
        (Some(rank), Some(size)) => Ok((connection, rank, size)),
        _ => Err(first.judged(Verdict::Wrong)),
    }
}

/// Stream from a descriptor that is known by its number only.
///
/// The system duplicates it. If that call is forbidden, a shell makes it the standard input of this
/// program, started again.
fn inherited(fd: i32) -> io::Result<UnixStream> {
    let myself = rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty())?;
    match rustix::process::pidfd_getfd(myself, fd, PidfdGetfdFlags::empty()) {
        Ok(copy) => Ok(UnixStream::from(copy)),
        Err(_) => {
            let mut shell = Command::new("sh");
            shell.args(["-c", r#"exec "$0" "$@" <&"$PMI_FD""#]).arg(std::env::current_exe()?);
            Err(shell.args(std::env::args_os().skip(1)).arg(ON_STDIN).exec())
        }
    }
}

fn report(case: &Case, rank: u32, finding: Finding) {
    let Finding { verdict, seen } = finding;
    let line = format!("\n{BEGIN}{}|{rank}|{verdict}|{seen}{END}\n", case.name);
    // If the output cannot be written, the parent sees that the report is missing.
    let _ = io::stdout().write_all(line.as_bytes());
    let _ = io::stdout().flush();
}

/// Extracts the reports of a case from the output of a launcher, in any form that it gives them.
pub(super) fn reports(case: &Case, output: &str) -> Vec<RankReport> {
    let pieces = output.split(BEGIN).skip(1).filter_map(|piece| piece.split_once(END));
    let read = |(text, _): (&str, &str)| {
        let mut fields = text.splitn(4, '|');
        let (name, rank) = (fields.next()?, fields.next()?.parse().ok()?);
        let verdict = Verdict::from_text(fields.next()?)?;
        let finding = verdict.on(fields.next()?);
        (name == case.name).then_some(RankReport { rank, finding })
    };
    pieces.filter_map(read).collect()
}

/// Time of day, the same for all ranks of a node.
pub(super) fn micros() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros())
}

/// Delay of a late rank for which others must wait.
pub(super) const LATE: Duration = Duration::from_millis(700);

/// Command word: the socket is standard input.
const ON_STDIN: &str = "on-stdin";

const BEGIN: &str = "{pmi-conform|";
const END: &str = "|pmi-conform}";

/// Number of lines after the first in the answer to `initack`.
const SET_LINES: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_found_whatever_stands_around_them() {
        let case = Case::named("pmi1-maxes").unwrap();
        let output = "[0] hello {pmi-conform|pmi1-maxes|0|as specified|a b|pmi-conform}{pmi-conform|\
                      pmi1-maxes|1|no answer|to x|pmi-conform}\n{pmi-conform|other|1|wrong|\
                      x|pmi-conform}{pmi-conform|pmi1-maxes|2|as spe";
        let found = reports(case, output);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0], RankReport { rank: 0, finding: Verdict::AsSpecified.on("a b") });
        assert_eq!(found[1].finding, Verdict::NoAnswer.on("to x"));
    }
}
