//! The messages as text: one line for each record.
//!
//! ```text
//!   1.204 ms 0 → put key=card-0 value=tcp://10.0.0.7:4711
//!   1.219 ms 0 ← put                                                            15.1 µs
//! ```

use super::events::sentence;
use super::{Jobs, brief, has_times, who};
use crate::describe::shown;
use crate::exchange::exchanges;
use crate::record::{Content, Direction, Record, Trace};
use crate::view::shown_ns;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Extent of the output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextOptions {
    /// Only these ranks, if any are given.
    pub ranks: Vec<u32>,
    /// Messages as they were on the wire, and not in words.
    pub is_raw: bool,
    /// Values are never cut.
    pub is_long: bool,
}

/// Writes the records of a trace.
pub fn write(trace: &Trace, options: &TextOptions) -> String {
    let mut text = String::new();
    write_head(trace, &mut text);
    let (has_times, jobs) = (has_times(trace), Jobs::of(trace));
    let latencies: BTreeMap<usize, u64> = { exchanges(trace).into_iter() }
        .filter_map(|one| Some((one.answered?, one.latency_ns(trace)?)))
        .collect();
    let is_shown = |record: &Record| {
        options.ranks.is_empty() || record.rank.is_some_and(|rank| options.ranks.contains(&rank))
    };
    let width = trace.records.iter().map(|record| who(&jobs, record).len()).max().unwrap_or(0);
    for (at, record) in trace.records.iter().enumerate().filter(|(_, record)| is_shown(record)) {
        let time =
            if has_times { format!("{:>11} ", since(record.time_ns)) } else { String::new() };
        let (arrow, what) = said(&jobs, record, options);
        let line = format!("{time}{:>width$} {arrow} {what}", who(&jobs, record));
        // Writing to a string does not fail.
        let _ = match latencies.get(&at).filter(|_| has_times) {
            Some(latency) => writeln!(text, "{line:<LATENCY_COLUMN$} {:>9}", shown_ns(*latency)),
            None => writeln!(text, "{}", line.trim_end()),
        };
    }
    text
}

fn write_head(trace: &Trace, text: &mut String) {
    let head = &trace.head;
    let host = if head.host.is_empty() { String::new() } else { format!(" on {}", head.host) };
    let _ = writeln!(text, "# {}", shown(format!("{}{host}", head.recorder).as_bytes()));
    if !head.command.is_empty() {
        let _ = writeln!(text, "# {}", shown(head.command.join(" ").as_bytes()));
    }
    for facts in trace.jobs() {
        let spawner =
            facts.spawner.map(|job| format!(", spawned by job {job}")).unwrap_or_default();
        let (job, ranks, name) = (facts.job, facts.ranks, shown(facts.name.as_bytes()));
        let _ = writeln!(text, "# job {job}: {ranks} ranks, space {name}{spawner}");
    }
}

fn said(jobs: &Jobs<'_>, record: &Record, options: &TextOptions) -> (char, String) {
    match &record.what {
        Content::Message { direction, bytes } => {
            let arrow = if *direction == Direction::ToServer { '→' } else { '←' };
            let value_max = if options.is_long { usize::MAX } else { VALUE_MAX };
            let text = match brief(jobs, record).filter(|_| !options.is_raw) {
                Some(meaning) => meaning.line(value_max),
                None => bytes.escape_ascii().to_string(),
            };
            (arrow, text)
        }
        other => ('·', shown(sentence(other).unwrap_or_default().as_bytes())),
    }
}

/// A time in a fixed unit, so that a column of times can be compared.
fn since(time_ns: u64) -> String {
    format!("{}.{:03} ms", time_ns / 1_000_000, time_ns / 1_000 % 1_000)
}

/// Largest number of characters of a value in the output.
const VALUE_MAX: usize = 48;

/// Position of latencies, so that they can be read as a column.
const LATENCY_COLUMN: usize = 76;
