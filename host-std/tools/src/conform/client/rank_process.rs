//! One process of the program, and one connection to the server.

use super::super::error::ConformError;
use super::super::verdict::shown;
use super::answers::FOREIGN_VALUE;
use super::discovery::RankSetup;
use super::message::{doubles, pop_request};
use super::mutation::Mutation;
use crate::child;
use pmi_core::ids::SessionId;
use pmi_std::Stream;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::Signal;
use std::collections::VecDeque;
use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStderr, ChildStdout, Stdio};
use std::time::Instant;

/// One process of the program.
#[derive(Debug)]
pub(super) struct RankProcess {
    child: Child,
    out: OutputCapture<ChildStdout>,
    err: OutputCapture<ChildStderr>,
    pub(super) ended: Option<RankEnd>,
}

/// End of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RankEnd {
    /// Exited with this code.
    Code(i32),
    /// Terminated by a signal that the check did not send, or by the one that announces an abort.
    Signal(i32),
    /// Killed by the check, because this rank or another one aborted the job.
    Aborted,
    /// Killed by the check, because another rank had failed.
    WithJob,
    /// Killed by the check, because the time limit had passed.
    Late,
}

/// One connection to the server.
#[derive(Debug)]
pub(super) struct ClientConnection {
    pub(super) session: SessionId,
    /// Rank of the connection, as far as it is known.
    pub(super) rank: Option<usize>,
    pub(super) link: Option<Stream>,
    /// Bytes that the session has not taken.
    pub(super) unhandled: Vec<u8>,
    /// Requests of the rank, in their order.
    pub(super) requests: Vec<String>,
    /// True if the rank sent a value that no rank has put.
    pub(super) has_foreign_value: bool,
    /// True if nothing more is sent; the link is closed when the rest has been written.
    pub(super) is_done: bool,
    /// True if the client doubles a `;` in a value.
    pub(super) doubles: bool,
    /// Copy of the received bytes, to take requests from.
    received: Vec<u8>,
    /// Pieces of answers, each with the time from which it may be sent.
    pieces: VecDeque<(Instant, Vec<u8>)>,
}

/// Start of the output of a process on one of its streams.
#[derive(Debug)]
struct OutputCapture<R> {
    from: R,
    text: Vec<u8>,
}

impl RankProcess {
    /// Starts `words` with the socket and environment of `setup`.
    ///
    /// # Errors
    ///
    /// The program cannot be started.
    pub(super) fn start(words: &[String], setup: RankSetup) -> Result<Self, ConformError> {
        let (name, args) = words.split_first().ok_or(ConformError::NoPlace("program"))?;
        let mut child = child::command(name.as_ref())
            .args(args)
            .envs(setup.variables)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| ConformError::Start { name: name.clone(), error })?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let (Some(out), Some(err)) = (out, err) else {
            return Err(ConformError::System(ErrorKind::BrokenPipe.into()));
        };
        Ok(Self {
            child,
            out: OutputCapture::new(out)?,
            err: OutputCapture::new(err)?,
            ended: None,
        })
    }

    /// Reads the output of the process.
    pub(super) fn read_output(&mut self) {
        self.out.read();
        self.err.read();
    }

    /// Checks for the end of the process.
    ///
    /// # Errors
    ///
    /// Error of the system.
    pub(super) fn check_exit(&mut self) -> Result<(), ConformError> {
        if self.ended.is_none()
            && let Some(status) = self.child.try_wait()?
        {
            let signal = status.signal().map(RankEnd::Signal);
            self.ended = signal.or(Some(RankEnd::Code(status.code().unwrap_or(-1))));
        }
        Ok(())
    }

    /// Sends a signal to the process group, if the process runs.
    pub(super) fn signal(&self, signal: Signal) {
        if self.ended.is_none() {
            child::signal_group(&self.child, signal);
        }
    }

    /// Kills the process, if it runs, and records `how`.
    pub(super) fn kill(&mut self, how: RankEnd) {
        if self.ended.is_none() {
            self.signal(Signal::KILL);
            self.ended = Some(how);
            let _ = self.child.wait();
        }
    }

    /// Standard output of the process, as far as it is kept.
    pub(super) fn output(&self) -> String {
        String::from_utf8_lossy(&self.out.text).into_owned()
    }

    /// First line of standard error that is not blank: the reason of the failure.
    pub(super) fn complaint(&self) -> Option<String> {
        let mut lines = self.err.text.split(|byte| *byte == b'\n');
        lines.find(|line| !line.trim_ascii().is_empty()).map(|line| shown(line.trim_ascii()))
    }

    /// True if the process printed a value that no rank has put.
    pub(super) fn printed_foreign_value(&self) -> bool {
        [&self.out.text, &self.err.text].into_iter().any(|text| contains_foreign_value(text))
    }
}

impl ClientConnection {
    pub(super) fn new(session: SessionId, rank: Option<usize>, link: Stream) -> Self {
        Self {
            session,
            rank,
            link: Some(link),
            unhandled: Vec::new(),
            requests: Vec::new(),
            has_foreign_value: false,
            is_done: false,
            doubles: false,
            received: Vec::new(),
            pieces: VecDeque::new(),
        }
    }

    /// Reads from the link and applies `mutation` to the requests. Returns the number of changes; `None` if
    /// the link is closed.
    pub(super) fn read(&mut self, mutation: &Mutation) -> Option<usize> {
        let mut changed_count = 0;
        let mut piece = [0; 4096];
        while let Some(link) = &mut self.link {
            match link.read(&mut piece) {
                Ok(len) if len > 0 => {
                    let bytes = &mut piece[..len];
                    self.received.extend_from_slice(bytes);
                    self.has_foreign_value |= contains_foreign_value(&self.received);
                    changed_count += usize::from(mutation.request(bytes));
                    self.unhandled.extend_from_slice(bytes);
                    self.doubles |= doubles(&self.received);
                    while let Some(word) = pop_request(&mut self.received) {
                        self.requests.push(word);
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Ok(_) | Err(_) => {
                    self.link = None;
                    return None;
                }
            }
        }
        Some(changed_count)
    }

    /// Queues an answer; true if it overtakes another.
    pub(super) fn queue(&mut self, bytes: &[u8], mutation: &Mutation) -> bool {
        let now = Instant::now();
        let (size, pause) = mutation.pace(bytes);
        let waiting = self.pieces.front().map(|(when, _)| *when).filter(|when| *when > now);
        if let Some(when) = waiting.filter(|_| mutation.overtakes(bytes)) {
            self.pieces.push_front((when, bytes.to_vec()));
            return true;
        }
        let mut when = self.pieces.back().map_or(now, |(when, _)| (*when).max(now));
        for piece in bytes.chunks(size.min(bytes.len()).max(1)) {
            when += pause;
            self.pieces.push_back((when, piece.to_vec()));
        }
        false
    }

    /// Time from which the next piece may be sent.
    pub(super) fn due(&self) -> Option<Instant> {
        self.pieces.front().map(|(when, _)| *when).filter(|_| self.link.is_some())
    }

    /// Writes the pieces that are due, as far as the link accepts them.
    pub(super) fn send(&mut self, now: Instant) {
        let Some(link) = &mut self.link else { return };
        while let Some((when, piece)) = self.pieces.front_mut() {
            if *when > now {
                return;
            }
            match link.write(piece) {
                Ok(len) if len == piece.len() => drop(self.pieces.pop_front()),
                Ok(len) => drop(piece.drain(..len)),
                // The link is full or closed: the next read reports which.
                Err(_) => return,
            }
        }
        if self.is_done {
            self.link = None;
        }
    }
}

impl<R: Read + AsFd> OutputCapture<R> {
    fn new(from: R) -> Result<Self, ConformError> {
        fcntl_setfl(&from, OFlags::NONBLOCK).map_err(|error| ConformError::System(error.into()))?;
        Ok(Self { from, text: Vec::new() })
    }

    /// Reads all that is there, so that the process continues, and keeps the start. The number of reads is
    /// bounded, so that a process that writes without end does not block the others.
    fn read(&mut self) {
        let mut piece = [0; 4096];
        for _ in 0..READS {
            match self.from.read(&mut piece) {
                Ok(len) if len > 0 => {
                    let room = OUTPUT_MAX - self.text.len();
                    self.text.extend_from_slice(&piece[..len.min(room)]);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => return,
            }
        }
    }
}

fn contains_foreign_value(bytes: &[u8]) -> bool {
    bytes.windows(FOREIGN_VALUE.len()).any(|window| window == FOREIGN_VALUE.as_bytes())
}

impl fmt::Display for RankEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::Aborted => f.write_str("abort"),
            Self::WithJob => f.write_str("ended with the others"),
            Self::Late => f.write_str("no end"),
        }
    }
}

/// Number of bytes that are kept of a stream of a process: enough for a report and for a comparison.
const OUTPUT_MAX: usize = 64 * 1024;

/// Number of reads of a stream per turn.
const READS: usize = 64;
