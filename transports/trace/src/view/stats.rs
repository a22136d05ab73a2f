//! Statistics of each operation and each rank: counts, sizes, times.

use super::{Jobs, has_times, shown_ns, who};
use crate::exchange::exchanges;
use crate::record::{Content, Direction, Trace};
use std::collections::BTreeMap;
use std::fmt::Write;

/// All figures of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Duration of the run, from the first record to the last.
    ///
    /// Units: nanoseconds.
    pub duration_ns: u64,
    /// By name of the operation.
    pub operations: BTreeMap<&'static str, Operation>,
    /// By job, then by rank. Traffic of unknown ranks counts for the job alone.
    pub ranks: BTreeMap<(u32, Option<u32>), Traffic>,
}

/// One operation, of all ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operation {
    /// Number of requests.
    pub asked_count: usize,
    /// Number of requests without a reply.
    pub unanswered_count: usize,
    /// Bytes of requests.
    pub asked_bytes: usize,
    /// Bytes of replies.
    pub answered_bytes: usize,
    /// Latency of each reply, the shortest first.
    ///
    /// Units: nanoseconds.
    pub latencies_ns: Vec<u64>,
}

/// One rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages it sent.
    pub sent_count: usize,
    /// Bytes of those.
    pub sent_bytes: usize,
    /// Messages it received.
    pub got_count: usize,
    /// Bytes of those.
    pub got_bytes: usize,
    /// Total time that it waited for replies.
    ///
    /// Units: nanoseconds.
    pub waited_ns: u64,
}

impl Operation {
    /// The latency that so many per cent of the replies did not exceed; `None` without replies.
    pub fn percentile_ns(&self, per_cent: usize) -> Option<u64> {
        let count = self.latencies_ns.len();
        let rank = (count * per_cent).div_ceil(100).max(1);
        self.latencies_ns.get(rank - 1).copied()
    }
}

/// Counts everything in a trace.
pub fn stats(trace: &Trace) -> Stats {
    let mut stats = Stats::default();
    let time = |record: Option<&crate::Record>| record.map_or(0, |record| record.time_ns);
    stats.duration_ns = time(trace.records.last()).saturating_sub(time(trace.records.first()));
    let len = |at: usize| match trace.records.get(at).map(|record| &record.what) {
        Some(Content::Message { bytes, .. }) => bytes.len(),
        _ => 0,
    };
    for exchange in exchanges(trace) {
        let operation = stats.operations.entry(exchange.name).or_default();
        operation.asked_count += 1;
        operation.asked_bytes += len(exchange.asked);
        operation.answered_bytes += exchange.answered.map_or(0, len);
        match exchange.latency_ns(trace) {
            Some(latency) => {
                operation.latencies_ns.push(latency);
                if let Some(asked) = trace.records.get(exchange.asked) {
                    let rank = stats.ranks.entry((asked.job, asked.rank)).or_default();
                    rank.waited_ns = rank.waited_ns.saturating_add(latency);
                }
            }
            None => operation.unanswered_count += 1,
        }
    }
    stats.operations.values_mut().for_each(|operation| operation.latencies_ns.sort_unstable());
    for (_, record, direction, bytes) in trace.messages() {
        let rank = stats.ranks.entry((record.job, record.rank)).or_default();
        match direction {
            Direction::ToServer => {
                rank.sent_count += 1;
                rank.sent_bytes += bytes.len();
            }
            Direction::ToClient => {
                rank.got_count += 1;
                rank.got_bytes += bytes.len();
            }
        }
    }
    stats
}

/// Writes the figures of a trace as two tables.
pub fn write(trace: &Trace) -> String {
    let Stats { duration_ns, operations, ranks } = stats(trace);
    let (has_times, jobs) = (has_times(trace), Jobs::of(trace));
    let mut text = String::new();
    let messages: usize = ranks.values().map(|rank| rank.sent_count + rank.got_count).sum();
    let bytes: usize = ranks.values().map(|rank| rank.sent_bytes + rank.got_bytes).sum();
    let during = if has_times { format!(" in {}", shown_ns(duration_ns)) } else { String::new() };
    // Writing to a string does not fail.
    let _ = writeln!(text, "{messages} messages, {bytes} bytes{during}\n");
    let dash = |ns: Option<u64>| ns.filter(|_| has_times).map_or("–".into(), shown_ns);
    let _ = writeln!(
        text,
        "{:<20} {:>7} {:>9} {:>9} {:>10} {:>10} {:>10} {:>10} {:>11}",
        "operation", "count", "asked B", "answer B", "min", "median", "p99", "max", "unanswered"
    );
    for (name, one) in &operations {
        let [min, median, p99, max] =
            [0, 50, 99, 100].map(|percent| dash(one.percentile_ns(percent)));
        let unanswered = match one.unanswered_count {
            0 => String::new(),
            count => count.to_string(),
        };
        let line = format!(
            "{name:<20} {:>7} {:>9} {:>9} {min:>10} {median:>10} {p99:>10} {max:>10} {unanswered:>11}",
            one.asked_count, one.asked_bytes, one.answered_bytes
        );
        let _ = writeln!(text, "{}", line.trim_end());
    }
    let _ = writeln!(
        text,
        "\n{:<8} {:>9} {:>10} {:>9} {:>10} {:>10}",
        "rank", "sent", "sent B", "got", "got B", "waited"
    );
    for ((job, rank), one) in &ranks {
        let record = crate::Record {
            time_ns: 0,
            job: *job,
            rank: *rank,
            session: None,
            what: Content::<Vec<u8>>::Closed,
        };
        let waited = dash(Some(one.waited_ns));
        let _ = writeln!(
            text,
            "{:<8} {:>9} {:>10} {:>9} {:>10} {waited:>10}",
            who(&jobs, &record),
            one.sent_count,
            one.sent_bytes,
            one.got_count,
            one.got_bytes
        );
    }
    text
}
