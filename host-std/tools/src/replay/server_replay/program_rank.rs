//! One rank of the program, and its position in the record.

use super::super::initial_state::{read_reply, request};
use super::super::record::{RecordedMessage, RecordedRank, VALUE_MAX};
use super::{is_collective, put_by};
use crate::child;
use pmi_core::command::{Answer, Reply, Request};
use pmi_core::limits::REPLY_BYTES;
use pmi_core::wire::Dialect;
use pmi_trace::describe::{Meaning, describe};
use pmi_trace::stream::Splitter;
use pmi_trace::{Direction, message};
use rustix::process::Signal;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Child;

/// Rank of the program.
pub(super) struct ProgramRank<'a> {
    pub(super) who: RecordedRank,
    lines: Vec<RecordedMessage<'a>>,
    /// Index of the next recorded message.
    next: usize,
    child: Child,
    pub(super) link: Option<UnixStream>,
    splitter: Splitter,
    /// Messages that arrived before their turn in the record.
    early: VecDeque<Vec<u8>>,
    /// Requests of this run without an answer.
    open: Vec<Vec<u8>>,
    unsent: Vec<u8>,
    pub(super) request_count: usize,
    /// Exit code, or 128 plus the signal.
    pub(super) ended: Option<i32>,
}

/// Deviation of a program from its record.
#[derive(Debug)]
pub(super) struct Deviation {
    /// Number of the deviating message of the rank, from 1.
    number: usize,
    recorded: Option<Meaning>,
    /// Message of the program; `None` if it has exited.
    now: Option<Meaning>,
}

impl<'a> ProgramRank<'a> {
    pub(super) fn new(
        who: RecordedRank,
        lines: Vec<RecordedMessage<'a>>,
        child: Child,
        link: UnixStream,
    ) -> Self {
        Self {
            who,
            lines,
            next: 0,
            child,
            link: Some(link),
            splitter: Splitter::default(),
            early: VecDeque::new(),
            open: Vec::new(),
            unsent: Vec::new(),
            request_count: 0,
            ended: None,
        }
    }

    /// Position of the next request of this rank among all records.
    pub(super) fn next_request(&self) -> usize {
        let rest = self.lines.get(self.next..).unwrap_or_default();
        let request_bytes = rest.iter().find(|line| line.direction == Direction::ToServer);
        request_bytes.map_or(usize::MAX, |line| line.at)
    }

    /// Reads messages of the rank; true if anything arrived.
    ///
    /// # Errors
    ///
    /// A message differs from the record.
    pub(super) fn recv(
        &mut self,
        puts: &mut BTreeMap<Vec<u8>, Vec<u8>>,
    ) -> Result<bool, Deviation> {
        let mut any = false;
        let mut piece = [0; 4096];
        while let Some(link) = &mut self.link {
            match link.read(&mut piece) {
                Ok(len) if len > 0 => {
                    any = true;
                    let early = &mut self.early;
                    self.splitter.push(Direction::ToServer, &piece[..len], |message| {
                        early.push_back(message.to_vec());
                    });
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // The end of the process carries more information.
                Ok(_) | Err(_) => self.link = None,
            }
        }
        self.check_requests(puts)?;
        Ok(any)
    }

    /// Matches received messages with the record, as far as it is their turn.
    ///
    /// # Errors
    ///
    /// A message differs from the record.
    pub(super) fn check_requests(
        &mut self,
        puts: &mut BTreeMap<Vec<u8>, Vec<u8>>,
    ) -> Result<(), Deviation> {
        while let Some(bytes) = self.early.front() {
            let line = self.lines.get(self.next);
            if line.is_some_and(|line| line.direction == Direction::ToClient) {
                return Ok(());
            }
            let now = describe(Direction::ToServer, bytes);
            let recorded = line.map(RecordedMessage::meaning);
            if recorded.as_ref().map(compared) != Some(compared(&now)) {
                return Err(Deviation { number: self.request_count + 1, recorded, now: Some(now) });
            }
            let bytes = self.early.pop_front().unwrap_or_default();
            let given = RecordedMessage { at: 0, direction: Direction::ToServer, bytes: &bytes };
            puts.extend(put_by(&given));
            self.open.push(bytes);
            self.request_count += 1;
            self.next += 1;
        }
        Ok(())
    }

    /// Sends the answers that the record has next for this rank; true if there were any. The answer to a
    /// collective waits until the record has passed it, when no rank has a request left before `horizon`.
    pub(super) fn send(&mut self, horizon: usize, puts: &BTreeMap<Vec<u8>, Vec<u8>>) -> bool {
        let mut any = false;
        while let Some(line) = self.lines.get(self.next).copied() {
            let waits = is_collective(&line) && horizon < line.at;
            if line.direction == Direction::ToServer || waits {
                break;
            }
            let bytes = self.reply(&line, puts);
            self.splitter.note_reply(&bytes);
            self.unsent.extend(bytes);
            self.next += 1;
            any = true;
        }
        if let (Some(link), false) = (&mut self.link, self.unsent.is_empty()) {
            // Bytes that are not accepted now are sent again later; a rank that does not read makes no
            // progress, which is reported.
            if let Ok(len) = link.write(&self.unsent) {
                self.unsent.drain(..len);
            }
        }
        any
    }

    /// A recorded reply, with the differences of this run: the tag of the exchange, and the value of a
    /// key.
    fn reply(&mut self, line: &RecordedMessage<'_>, puts: &BTreeMap<Vec<u8>, Vec<u8>>) -> Vec<u8> {
        let verb = message::verb(Direction::ToClient, line.bytes);
        let asks = |bytes: &Vec<u8>| message::verb(Direction::ToServer, bytes) == verb;
        let at = self.open.iter().position(asks);
        let Some(request_bytes) = at.map(|at| self.open.remove(at)) else {
            return line.bytes.to_vec();
        };
        let Some(read) = read_reply(line.bytes) else { return line.bytes.to_vec() };
        let asked =
            RecordedMessage { at: 0, direction: Direction::ToServer, bytes: &request_bytes };
        let put = match (request(&asked), read.answer) {
            (Some(Request::Get { key, .. }), Answer::Value(_)) => {
                puts.get(&key.bytes().collect::<Vec<u8>>())
            }
            _ => None,
        };
        let tag = message::tag(&request_bytes);
        if put.is_none() && tag == read.tag {
            return line.bytes.to_vec();
        }
        let answer = put.map_or(read.answer, |value| Answer::Value(value.as_slice().into()));
        let mut out = [0; 2 * REPLY_BYTES];
        let dialect = Dialect::detect(&request_bytes);
        match dialect.write_reply(
            &Reply { tag, answer, ..read },
            message::word(&request_bytes),
            &mut out,
        ) {
            Ok(len) => out[..len].to_vec(),
            Err(_) => line.bytes.to_vec(),
        }
    }

    /// Checks for the end of the process; true if it has exited and the record agrees.
    ///
    /// # Errors
    ///
    /// The record has further requests.
    pub(super) fn check_exit(&mut self) -> Result<bool, Deviation> {
        let Ok(Some(status)) = (match self.ended {
            None => self.child.try_wait(),
            Some(_) => Ok(None),
        }) else {
            return Ok(false);
        };
        self.ended = Some(child::exit_code(status));
        let rest = self.lines.get(self.next..).unwrap_or_default();
        match rest.iter().find(|line| line.direction == Direction::ToServer) {
            // Its last messages may still be in the socket.
            Some(_) if self.link.is_some() => {
                self.ended = None;
                Ok(false)
            }
            Some(line) => {
                let recorded = Some(line.meaning());
                Err(Deviation { number: self.request_count + 1, recorded, now: None })
            }
            None => Ok(true),
        }
    }

    /// Awaited action of the rank, as the rest of a sentence about it.
    pub(super) fn awaited(&self) -> String {
        match self.lines.get(self.next) {
            None => "has sent all recorded messages, and still runs".to_owned(),
            Some(line) if line.direction == Direction::ToServer => {
                format!(
                    "has not sent '{}', which is the next recorded request",
                    line.meaning().line(VALUE_MAX)
                )
            }
            Some(_) => "waits for a fence that others have not entered".to_owned(),
        }
    }

    pub(super) fn kill(&mut self) {
        if self.ended.is_none() {
            child::signal_group(&self.child, Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// Parts of a request that must be as recorded: everything but values.
fn compared(meaning: &Meaning) -> (&str, Vec<(&str, &str)>) {
    let fields = meaning.fields.iter().filter(|(name, _)| *name != "value" && *name != "port");
    (&meaning.name, fields.map(|(name, value)| (*name, value.as_str())).collect())
}

impl fmt::Display for Deviation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |side: &Option<Meaning>, nothing: &str| match side {
            Some(meaning) => format!("→ {}", meaning.line(VALUE_MAX)),
            None => nothing.to_owned(),
        };
        write!(
            f,
            "differs from the record at message {}\n  recorded: {}\n  now:      {}",
            self.number,
            line(&self.recorded, "nothing more"),
            line(&self.now, "it has ended")
        )
    }
}
