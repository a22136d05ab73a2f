//! Lines of all jobs on their way to the launcher's own streams, when equal lines are written once.

use super::StreamOwner;
use super::collapse::{Collapse, Group};
use super::label::{Labels, RankNodes};
use super::outlet::{Outlet, Writer};
use super::pattern::PatternError;
use crate::settings::Output;
use crate::stream::Stream;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Lines that wait for equal ones, by stream and job.
#[derive(Debug)]
pub(crate) struct Gather {
    labels: Labels,
    wait: Option<Duration>,
    lines: BTreeMap<(Stream, u32), Collapse>,
}

impl Gather {
    /// Creates it without lines.
    ///
    /// # Errors
    ///
    /// [`PatternError`].
    pub(crate) fn new(settings: &Output, nodes: RankNodes) -> Result<Self, PatternError> {
        let label = settings.label.clone().unwrap_or_else(|| LABEL.to_owned());
        let settings = Output { label: Some(label), ..settings.clone() };
        let labels = Labels::new(&settings, nodes)?;
        Ok(Self { labels, wait: settings.collapse_wait, lines: BTreeMap::new() })
    }

    /// A job of `ranks` will write to `stream`.
    pub(crate) fn expect(&mut self, stream: Stream, group: u32, ranks: u32) {
        self.lines.insert((stream, group), Collapse::new(ranks, self.wait));
    }

    /// A rank was started.
    pub(crate) fn open(&mut self, stream: Stream, seat: StreamOwner) {
        self.lines.entry((stream, seat.group)).and_modify(|lines| lines.open(seat.rank));
    }

    /// A rank will write nothing here.
    pub(crate) fn skip(&mut self, stream: Stream, seat: StreamOwner) {
        if let Some(lines) = self.lines.get_mut(&(stream, seat.group)) {
            lines.open(seat.rank);
            lines.close(seat.rank);
        }
    }

    /// Takes lines of a rank; the last one may be unfinished if nothing follows.
    pub(crate) fn push(
        &mut self,
        stream: Stream,
        seat: StreamOwner,
        text: &[u8],
        outlet: &mut Outlet,
    ) {
        let (writer, now) = (Writer::Rank(seat, stream), Instant::now());
        let Some(lines) = self.lines.get_mut(&(stream, seat.group)) else { return };
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            match outlet.goes_on(writer) {
                true => outlet.put(writer, b"", line),
                false => lines.push(seat.rank, line, now),
            }
        }
        lines.release(now, |group| put(outlet, &self.labels, (stream, seat.group), group));
    }

    /// Shows the unfinished line of a rank, after all its earlier lines.
    pub(crate) fn show(
        &mut self,
        stream: Stream,
        seat: StreamOwner,
        text: &[u8],
        outlet: &mut Outlet,
    ) {
        let Some(lines) = self.lines.get_mut(&(stream, seat.group)) else { return };
        lines.release_rank(seat.rank, |group| {
            put(outlet, &self.labels, (stream, seat.group), group);
        });
        let label = self.labels.text(seat.group, &[seat.rank], Instant::now());
        outlet.put(Writer::Rank(seat, stream), label.as_bytes(), text);
    }

    /// The stream of a rank has ended.
    pub(crate) fn close(&mut self, stream: Stream, seat: StreamOwner, outlet: &mut Outlet) {
        let Some(lines) = self.lines.get_mut(&(stream, seat.group)) else { return };
        lines.close(seat.rank);
        lines.release(Instant::now(), |group| {
            put(outlet, &self.labels, (stream, seat.group), group);
        });
        if lines.is_over() {
            self.lines.remove(&(stream, seat.group));
        }
    }

    /// Further ranks of a job (of all, if `None`) will not be started.
    pub(crate) fn expect_no_more(&mut self, group: Option<u32>) {
        for (key, lines) in &mut self.lines {
            if group.is_none_or(|group| group == key.1) {
                lines.expect_no_more();
            }
        }
    }

    /// Hands out all waiting lines of a rank.
    pub(crate) fn hurry(&mut self, stream: Stream, seat: StreamOwner, outlet: &mut Outlet) {
        self.show(stream, seat, b"", outlet);
    }

    /// True if no line waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.values().all(Collapse::is_empty)
    }

    /// Time of the next [`tick`](Self::tick).
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.lines.values().filter_map(Collapse::deadline).min()
    }

    /// True if a line for `stream` has waited long enough.
    pub(crate) fn is_due(&self, stream: Stream, now: Instant) -> bool {
        let mut lines = self.lines.iter().filter(|((of, _), _)| *of == stream);
        lines.any(|(_, lines)| lines.deadline().is_some_and(|at| at <= now))
    }

    /// Hands out the lines of `stream` that have waited long enough.
    pub(crate) fn tick(&mut self, stream: Stream, now: Instant, outlet: &mut Outlet) {
        for (key, lines) in self.lines.iter_mut().filter(|((of, _), _)| *of == stream) {
            if lines.deadline().is_some_and(|at| at <= now) {
                lines.release(now, |group| put(outlet, &self.labels, *key, group));
            }
        }
    }
}

fn put(outlet: &mut Outlet, labels: &Labels, (stream, group): (Stream, u32), lines: &Group) {
    let Some(&rank) = lines.ranks.first() else { return };
    let label = labels.text(group, &lines.ranks, Instant::now());
    outlet.put(Writer::Rank(StreamOwner { group, rank }, stream), label.as_bytes(), &lines.line);
}

/// Without it the number of ranks behind a line would be unknown.
const LABEL: &str = "[%r] ";
