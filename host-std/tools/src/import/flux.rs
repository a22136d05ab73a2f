//! Logs of Flux.
//!
//! The shell writes, with `-o verbose=2`, one line for each message, in which `C` is the client and `S` the
//! server. The text before the rank changed with the versions; the text after it did not:
//!
//! ```text
//! 0.290s: flux-shell[0]: TRACE: pmi-simple: 1: C: cmd=barrier_in
//! 1.054s: flux-shell[0]: TRACE: pmi: 0: S: cmd=maxes rc=0 kvsname_max=64 keylen_max=64 vallen_max=1024
//! ```
//!
//! A client with `FLUX_PMI_DEBUG` writes its calls and not its messages; its lines become sentences.

use super::log::Log;
use pmi_trace::stream::Splitter;
use pmi_trace::{Content, Direction, Head, JobFacts, Record, Trace};

/// A trace and notes, if there is PMI in the log.
pub(super) fn read(bytes: &[u8]) -> Option<(Trace, Vec<String>)> {
    let mut log = Log::new();
    let mut splitters: Vec<Splitter> = Vec::new();
    let mut others = Vec::new();
    let mut time_ns = 0;
    for line in bytes.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        time_ns = time_of(line).unwrap_or(time_ns).max(time_ns);
        if let Some((rank, direction, text)) = message(line) {
            let conn = log.conn(rank);
            splitters.resize_with(splitters.len().max(conn + 1), Splitter::default);
            match event(direction, text) {
                Some(what) => others.push((time_ns, rank, what)),
                // A spawn is a message of several lines.
                None => splitters[conn].push(direction, &[text, b"\n"].concat(), |message| {
                    match direction {
                        Direction::ToServer => log.ask(time_ns, conn, message.to_vec()),
                        Direction::ToClient => log.answer(time_ns, conn, message.to_vec()),
                    }
                }),
            }
        } else if let Some(text) = called(line) {
            others.push((time_ns, u32::MAX, Content::Report { text }));
        }
    }
    if log.is_empty() && others.is_empty() {
        return None;
    }
    let mut notes = Vec::new();
    if log.is_empty() {
        notes.push("FLUX_PMI_DEBUG records calls of clients, and no messages".into());
    }
    let ranks = log.keys().iter().map(|rank| rank + 1).max().unwrap_or(0);
    let name = kvsname(bytes).unwrap_or_default();
    let who: Vec<_> = log.keys().iter().map(|rank| (0, Some(*rank))).collect();
    let mut records = log.into_records(&who);
    records.extend(others.into_iter().map(|(time_ns, rank, what)| Record {
        time_ns,
        job: 0,
        rank: Some(rank).filter(|rank| *rank != u32::MAX),
        session: None,
        what,
    }));
    // Records of the same millisecond were written in this order.
    records.sort_by_key(|record| record.time_ns);
    let jobs = vec![JobFacts { job: 0, name, ranks, spawner: None }];
    let head = Head { recorder: "a log of Flux".into(), jobs, ..Head::default() };
    Some((Trace { head, records }, notes))
}

/// Rank, sender and text of a line about a message.
fn message(line: &[u8]) -> Option<(u32, Direction, &[u8])> {
    let at = [&b": C: "[..], b": S: "].iter().filter_map(|mark| find(line, mark)).min()?;
    let (front, rest) = line.split_at_checked(at)?;
    let start = front.iter().rposition(|byte| !byte.is_ascii_digit()).map_or(0, |at| at + 1);
    // A shell numbers its own lines too, in brackets; a rank follows a blank or begins the line.
    let is_rank = start == 0 || front.get(start - 1) == Some(&b' ');
    let rank = str::from_utf8(front.get(start..)?).ok().filter(|_| is_rank)?;
    let direction = match rest.get(2)? {
        b'C' => Direction::ToServer,
        _ => Direction::ToClient,
    };
    Some((rank.parse().ok().filter(|rank| *rank < RANKS_MAX)?, direction, rest.get(5..)?))
}

/// Other lines of the shell about a connection.
fn event(direction: Direction, text: &[u8]) -> Option<Content> {
    let text = text.strip_prefix(b"pmi ")?;
    Some(match (direction, text) {
        (Direction::ToServer, b"EOF") => Content::Closed,
        _ => Content::Report { text: format!("pmi {}", String::from_utf8_lossy(text)) },
    })
}

/// The name of the call in a line of a client.
fn called(line: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(line);
    let at = text.find("boot_pmi: ")?;
    text.get(at..).map(|text| text.trim_end().to_owned())
}

/// The time in front of a line: seconds with a fraction.
fn time_of(line: &[u8]) -> Option<u64> {
    let front = line.trim_ascii_start();
    let end = find(front, b"s: ")?;
    let (seconds, fraction) = str::from_utf8(front.get(..end)?).ok()?.split_once('.')?;
    let digits = fraction.len();
    let ns = format!("{fraction:0<9}").parse::<u64>().ok().filter(|_| digits <= 9)?;
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(ns)
}

/// The name of the key-value space, which the server sends to all ranks.
fn kvsname(bytes: &[u8]) -> Option<String> {
    let mark = b"my_kvsname rc=0 kvsname=";
    let rest = bytes.get(find(bytes, mark)? + mark.len()..)?;
    let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
    Some(String::from_utf8_lossy(rest.get(..end)?).into_owned())
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

/// Above any number of jobs; a larger number is none.
const RANKS_MAX: u32 = 1 << 24;
