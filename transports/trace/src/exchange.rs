//! Pairs of requests and replies, and their latency.

use crate::message::{self, Shape};
use crate::record::{Content, Direction, Record, Trace};
use pmi_core::command::Verb;
use std::collections::BTreeMap;

/// A request and, once received, its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The operation.
    pub verb: Verb,
    /// Common name of the operation.
    pub name: &'static str,
    /// Index of the request among the records.
    pub asked: usize,
    /// Index of the last part of the reply; `None` without one.
    pub answered: Option<usize>,
}

impl Exchange {
    /// Latency of the reply; `None` without one.
    ///
    /// Units: nanoseconds.
    pub fn latency_ns(&self, trace: &Trace) -> Option<u64> {
        let time = |at: usize| trace.records.get(at).map(|record| record.time_ns);
        Some(time(self.answered?)?.saturating_sub(time(self.asked)?))
    }
}

/// All exchanges, in the order of their requests.
///
/// In lines, the next reply of its kind completes a request; in frames the name from the client counts too,
/// and in PMIx that name alone. Requests that are open when a connection closes stay without a reply.
pub fn exchanges(trace: &Trace) -> Vec<Exchange> {
    let mut all: Vec<Exchange> = Vec::new();
    // By connection, the places of exchanges without a reply.
    let mut open: BTreeMap<ConnectionKey, Vec<usize>> = BTreeMap::new();
    for (at, record) in trace.records.iter().enumerate() {
        let line = ConnectionKey::of(record);
        match &record.what {
            Content::Message { direction, bytes } => match message::shape(*direction, bytes) {
                Shape::Question => {
                    let verb = message::verb(*direction, bytes);
                    open.entry(line).or_default().push(all.len());
                    let name = message::display_name(bytes);
                    all.push(Exchange { verb, name, asked: at, answered: None });
                }
                Shape::Answer => {
                    let verb = message::verb(*direction, bytes);
                    let is_pmix = message::is_pmix(*direction, bytes);
                    let waiting = open.entry(line).or_default();
                    let fits = |place: &usize| {
                        let exchange = &all[*place];
                        (exchange.verb == verb || is_pmix) && is_named(trace, exchange.asked, bytes)
                    };
                    if let Some(place) = waiting.iter().position(fits) {
                        all[waiting.remove(place)].answered = Some(at);
                    }
                }
                Shape::Remark => {}
            },
            Content::Closed => drop(open.remove(&line)),
            _ => {}
        }
    }
    all
}

/// Key of a connection: its number, or the rank if there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ConnectionKey(u32, Option<u32>);

impl ConnectionKey {
    fn of(record: &Record) -> Self {
        match record.session {
            // The rank of a new TCP connection is known only later.
            Some(session) => Self(u32::MAX, Some(session)),
            None => Self(record.job, record.rank),
        }
    }
}

/// True if a reply bears the name that the client gave its request.
fn is_named(trace: &Trace, asked: usize, answer: &[u8]) -> bool {
    match trace.records.get(asked).map(|record| &record.what) {
        Some(Content::Message { direction: Direction::ToServer, bytes }) => {
            message::tag(bytes) == message::tag(answer)
        }
        _ => false,
    }
}
