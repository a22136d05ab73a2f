//! The format of Chrome's trace viewer, which Perfetto reads too: jobs are processes, ranks are threads,
//! and an exchange is a slice from request to reply.

use super::events::sentence;
use super::shown_ns;
use crate::describe::describe;
use crate::exchange::exchanges;
use crate::record::{Content, Record, Trace};
use pmi_core::command::Verb;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Writes a trace as one JSON object.
pub fn write(trace: &Trace) -> String {
    let mut events = names_of(trace);
    for exchange in exchanges(trace) {
        let Some(asked) = trace.records.get(exchange.asked) else { continue };
        let mut arguments = json!({ "request": line(asked) });
        if let Some(answered) = exchange.answered.and_then(|at| trace.records.get(at)) {
            arguments["reply"] = line(answered).into();
            arguments["latency"] = shown_ns(answered.time_ns.saturating_sub(asked.time_ns)).into();
        }
        // A request without a reply extends to the end.
        let last = trace.records.last().map_or(0, |record| record.time_ns);
        let duration =
            exchange.latency_ns(trace).unwrap_or_else(|| last.saturating_sub(asked.time_ns));
        let category = if exchange.verb == Verb::Fence { "fence" } else { "exchange" };
        events.push(json!({
            "ph": "X", "name": exchange.name, "cat": category,
            "pid": asked.job, "tid": thread(asked), "ts": micros(asked.time_ns),
            "dur": micros(duration), "args": arguments,
        }));
    }
    for record in &trace.records {
        if let Some(what) = sentence(&record.what) {
            let scope = if record.rank.is_some() { "t" } else { "p" };
            events.push(json!({
                "ph": "i", "s": scope, "name": what, "cat": "event",
                "pid": record.job, "tid": thread(record), "ts": micros(record.time_ns),
            }));
        }
    }
    let head = &trace.head;
    let other = json!({
        "recorder": head.recorder, "host": head.host, "command": head.command.join(" "),
    });
    let mut text =
        json!({ "traceEvents": events, "displayTimeUnit": "ns", "otherData": other }).to_string();
    text.push('\n');
    text
}

/// Names and order of processes and threads.
fn names_of(trace: &Trace) -> Vec<Value> {
    let mut events = Vec::new();
    for facts in trace.jobs() {
        let name = format!("job {} ({})", facts.job, facts.name);
        let arguments = json!({ "name": name });
        events.push(
            json!({ "ph": "M", "name": "process_name", "pid": facts.job, "args": arguments }),
        );
    }
    let ranks: BTreeSet<_> =
        trace.records.iter().map(|one| (one.job, thread(one), one.rank)).collect();
    for (job, thread, rank) in ranks {
        let name = rank.map_or("job".into(), |rank| format!("rank {rank}"));
        for (key, arguments) in [
            ("thread_name", json!({ "name": name })),
            ("thread_sort_index", json!({ "sort_index": thread })),
        ] {
            events.push(
                json!({ "ph": "M", "name": key, "pid": job, "tid": thread, "args": arguments }),
            );
        }
    }
    events
}

/// Thread 0 holds records without a rank.
fn thread(record: &Record) -> u64 {
    record.rank.map_or(0, |rank| u64::from(rank) + 1)
}

fn line(record: &Record) -> String {
    match &record.what {
        Content::Message { direction, bytes } => describe(*direction, bytes).line(VALUE_MAX),
        _ => String::new(),
    }
}

/// Times are microseconds with a fraction there.
fn micros(ns: u64) -> Value {
    #[allow(clippy::cast_precision_loss, reason = "exact for a hundred days in nanoseconds")]
    let micros = ns as f64 / 1e3;
    micros.into()
}

/// Largest number of characters of a value in the output.
const VALUE_MAX: usize = 200;
