//! The same as text: one JSON object per line, for programs that read only text.
//!
//! The first line holds `{"pmi_trace": 1}` and the fields of the [`Head`]. Each other one holds a
//! [`Record`]: `time_ns`, `job`, `rank` and `session` where they are known, and one more field
//! named after the kind of the record.

use crate::file::VERSION;
use crate::record::{Content, Direction, Head, Record, Trace};
use serde::{Deserialize, Serialize};

/// Writes a trace as JSON lines.
pub fn write(trace: &Trace) -> String {
    let mut out = String::new();
    line(&HeadLine { pmi_trace: VERSION, head: trace.head.clone() }, &mut out);
    for Record { time_ns, job, rank, session, what } in &trace.records {
        let (time_ns, job, rank, session) = (*time_ns, *job, *rank, *session);
        line(&RecordLine { time_ns, job, rank, session, what: what.clone() }, &mut out);
    }
    out
}

/// Reads JSON lines up to the first unreadable one, and returns its error. Empty lines are skipped.
///
/// # Errors
///
/// [`JsonError`] if not even the first line can be read.
pub fn read(text: &str) -> Result<(Trace, Option<JsonError>), JsonError> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let (at, first) = lines.next().unwrap_or_default();
    let HeadLine { pmi_trace, head } = parse(at, first)?;
    if pmi_trace == 0 || pmi_trace > VERSION {
        let why = format!("this is version {pmi_trace}, read are versions up to {VERSION}");
        return Err(JsonError { line: at + 1, why });
    }
    let mut trace = Trace { head, records: Vec::new() };
    for (at, line) in lines {
        match record(at, line) {
            Ok(record) => trace.records.push(record),
            Err(error) => return Ok((trace, Some(error))),
        }
    }
    Ok((trace, None))
}

/// Reason that JSON lines are no trace.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("line {line}: {why}")]
pub struct JsonError {
    /// The line, from 1.
    pub line: usize,
    /// The cause.
    pub why: String,
}

#[derive(Serialize, Deserialize)]
struct HeadLine {
    pmi_trace: u16,
    #[serde(flatten)]
    head: Head,
}

#[derive(Serialize, Deserialize)]
struct RecordLine {
    time_ns: u64,
    job: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rank: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session: Option<u32>,
    #[serde(flatten)]
    what: Content,
}

/// A line with a message whose bytes are text, as nearly all lines of a trace are. The fields of a
/// [`RecordLine`] are collected before they are read, since its kinds are among them; these are read at once.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MessageLine {
    time_ns: u64,
    job: u32,
    rank: Option<u32>,
    session: Option<u32>,
    message: MessageText,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MessageText {
    direction: Direction,
    bytes: String,
}

fn record(at: usize, line: &str) -> Result<Record, JsonError> {
    if let Ok(MessageLine { time_ns, job, rank, session, message }) = serde_json::from_str(line) {
        let MessageText { direction, bytes } = message;
        let what = Content::Message { direction, bytes: bytes.into_bytes() };
        return Ok(Record { time_ns, job, rank, session, what });
    }
    let RecordLine { time_ns, job, rank, session, what } = parse(at, line)?;
    Ok(Record { time_ns, job, rank, session, what })
}

fn parse<'a, T: Deserialize<'a>>(at: usize, line: &'a str) -> Result<T, JsonError> {
    serde_json::from_str(line).map_err(|error| JsonError { line: at + 1, why: error.to_string() })
}

fn line(content: &impl Serialize, out: &mut String) {
    // JSON refuses only keys that are not text, and no type of this crate has such keys.
    out.push_str(&serde_json::to_string(content).unwrap_or_default());
    out.push('\n');
}
