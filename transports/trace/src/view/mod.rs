//! Views of a trace.

pub mod chrome;
pub mod diff;
mod events;
pub mod stats;
pub mod svg;
pub mod text;

use crate::describe::{Meaning, describe};
use crate::record::{Content, JobFacts, PMIX_SESSION, Record, Trace};
use std::collections::BTreeMap;

/// A time or duration, in the unit that needs few digits.
pub(crate) fn shown_ns(ns: u64) -> String {
    // The output is rounded to about three digits; a float has enough of them.
    #[allow(clippy::cast_precision_loss, reason = "three digits of it are shown")]
    let ns_float = ns as f64;
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} µs", ns_float / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns_float / 1e6),
        _ => format!("{:.2} s", ns_float / 1e9),
    }
}

/// True if anything in the trace has a time.
pub(crate) fn has_times(trace: &Trace) -> bool {
    trace.records.iter().any(|record| record.time_ns > 0)
}

/// The jobs of a trace, looked up once, since that requires reading every record.
#[derive(Debug)]
pub(crate) struct Jobs<'a> {
    by_number: BTreeMap<u32, &'a JobFacts>,
    /// By name of the space: the place among all jobs.
    places: BTreeMap<&'a str, usize>,
}

impl<'a> Jobs<'a> {
    pub(crate) fn of(trace: &'a Trace) -> Self {
        let mut jobs = Self { by_number: BTreeMap::new(), places: BTreeMap::new() };
        for (place, facts) in trace.jobs().enumerate() {
            jobs.by_number.entry(facts.job).or_insert(facts);
            jobs.places.entry(&facts.name).or_insert(place);
        }
        jobs
    }

    /// The place of the job with this space among all jobs.
    pub(crate) fn place(&self, space: &str) -> Option<usize> {
        self.places.get(space).copied()
    }
}

/// Rank and, if there are several jobs, the job: `3`, or `1:3`.
pub(crate) fn who(jobs: &Jobs<'_>, record: &Record) -> String {
    let rank = record
        .rank
        .map_or_else(|| record.session.map_or("-".into(), caller), |rank| rank.to_string());
    if jobs.by_number.len() < 2 { rank } else { format!("{}:{rank}", record.job) }
}

/// Name of a connection with an unknown rank.
pub(crate) fn caller(session: u32) -> String {
    format!("c{}", session & !PMIX_SESSION)
}

/// A message in words, without the obvious for a reader of this trace.
pub(crate) fn brief(jobs: &Jobs<'_>, record: &Record) -> Option<Meaning> {
    let Content::Message { direction, bytes } = &record.what else { return None };
    let space = jobs.by_number.get(&record.job).map(|facts| facts.name.as_str());
    Some(describe(*direction, bytes).brief(space))
}

/// Ranks as a list with ranges: `0-3,7`.
pub(crate) fn ranges(ranks: impl IntoIterator<Item = u32>) -> String {
    let mut sorted: Vec<u32> = ranks.into_iter().collect();
    sorted.sort_unstable();
    sorted.dedup();
    let runs = sorted.chunk_by(|a, b| a.checked_add(1) == Some(*b)).map(|run| match run {
        [first, .., last] => format!("{first}-{last}"),
        [one] => one.to_string(),
        [] => String::new(),
    });
    runs.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_ranks_are_short() {
        let times = [0, 999, 1_500, 2_340_000, 61_200_000_000].map(shown_ns);
        assert_eq!(times, ["0 ns", "999 ns", "1.5 µs", "2.3 ms", "61.20 s"]);
        assert_eq!(ranges([3, 0, 1, 2, 7, 7, u32::MAX]), "0-3,7,4294967295");
        assert_eq!(ranges([]), "");
    }
}
