//! Lines of all jobs on their way to the launcher's own streams, when equal lines are written once. On a node
//! whose output goes to the head they are lines of its ranks, and the head gathers those of all nodes.

use super::StreamOwner;
use super::collapse::{Collapse, Group};
use super::label::{Labels, RankNodes};
use super::outlet::{Outlet, Writer};
use super::pattern::PatternError;
use crate::numbers::number;
use crate::settings::Output;
use pmi_host_os::clock;
use pmi_host_os::stream::Stream;
use pmi_tree::{NodeId, TreeConfig};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Lines that wait for equal ones, by stream and job.
#[derive(Debug)]
pub(crate) struct Gather {
    labels: Labels,
    wait: Option<Duration>,
    /// By stream: true if its lines are gathered.
    streams: [bool; 2],
    lines: BTreeMap<(Stream, u32), RankLines>,
}

/// Lines of the ranks of a job, the last of which the end of its stream may follow.
type RankLines = Collapse<(), StreamEnd>;

/// The end of the stream of a rank.
#[derive(Debug)]
struct StreamEnd;

/// Lines that a node gathers before they go to the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeGather {
    /// By stream: true if its lines are gathered.
    pub(crate) streams: [bool; 2],
    /// Time for which a line waits for ranks that may write it too, until it is written; unlimited if `None`.
    pub(crate) wait: Option<Duration>,
}

impl NodeGather {
    /// The part of nodes in what the user wants; `None` if no line is gathered.
    pub(crate) fn of(settings: &Output) -> Option<Self> {
        let streams = settings.patterns().map(|pattern| pattern.is_none());
        let wait = settings.collapse_wait;
        (settings.collapse && streams != [false; 2]).then_some(Self { streams, wait })
    }

    /// What holds among the ranks of one node. Every level of the tree has its part of the time, so that
    /// lines of all nodes are at the head when the time of the first is over.
    pub(crate) fn at_rank(self, tree: &TreeConfig) -> Self {
        Self { wait: self.wait.map(|wait| wait / (levels(tree) + 1)), ..self }
    }

    /// Time after which lines of a node and those of the nodes below it wait no longer for each other.
    pub(crate) fn at_node(self, tree: &TreeConfig) -> Option<Duration> {
        let levels = levels(tree);
        let parts = levels.saturating_sub(level(tree.node, tree)) + 1;
        self.wait.map(|wait| wait * parts / (levels + 1))
    }
}

/// Number of levels below the head.
fn levels(tree: &TreeConfig) -> u32 {
    level(NodeId(tree.nodes.saturating_sub(1)), tree)
}

/// Number of nodes above a node.
fn level(node: NodeId, tree: &TreeConfig) -> u32 {
    number(node.ancestors(tree.radix).count())
}

impl Gather {
    /// Creates it without lines.
    pub(crate) fn new(settings: &Output, nodes: RankNodes) -> Result<Self, PatternError> {
        let label = settings.label.clone().unwrap_or_else(|| LABEL.to_owned());
        let settings = Output { label: Some(label), ..settings.clone() };
        let labels = Labels::new(&settings, nodes)?;
        Ok(Self::with(labels, settings.collapse_wait, [true; 2]))
    }

    /// Creates it for a node whose output goes to the head.
    pub(crate) fn of_node(NodeGather { streams, wait }: NodeGather) -> Self {
        Self::with(Labels::none(), wait, streams)
    }

    const fn with(labels: Labels, wait: Option<Duration>, streams: [bool; 2]) -> Self {
        Self { labels, wait, streams, lines: BTreeMap::new() }
    }

    /// True if lines of this stream are gathered.
    pub(crate) const fn takes(&self, stream: Stream) -> bool {
        self.streams[stream.index()]
    }

    /// Time for which a line waits for ranks that may write it too; unlimited if `None`.
    pub(crate) const fn wait(&self) -> Option<Duration> {
        self.wait
    }

    /// A job of `ranks` will write to `stream`.
    pub(crate) fn expect(&mut self, stream: Stream, group: u32, ranks: u32) {
        if self.takes(stream) {
            self.lines.insert((stream, group), Collapse::new(ranks, self.wait));
        }
    }

    /// A rank was started.
    pub(crate) fn open(&mut self, stream: Stream, seat: StreamOwner) {
        // Without an entry no more ranks were expected, and the others have ended.
        let lines = self.lines.entry((stream, seat.group));
        lines.or_insert_with(|| Collapse::new(0, self.wait)).open(seat.rank);
    }

    /// A rank will write nothing here.
    pub(crate) fn skip(&mut self, stream: Stream, seat: StreamOwner) {
        if let Some(lines) = self.lines.get_mut(&(stream, seat.group)) {
            lines.open(seat.rank);
            lines.close(seat.rank);
        }
    }

    /// Takes lines of a rank, which have waited elsewhere for this time, until [`release`](Self::release);
    /// the last one may be unfinished if nothing follows.
    pub(crate) fn push(
        &mut self,
        (stream, seat): (Stream, StreamOwner),
        (text, held): (&[u8], Duration),
        outlet: &mut Outlet,
    ) {
        let (writer, now) = (Writer::Rank(seat, stream), clock::now());
        let since = now.checked_sub(held).unwrap_or(now);
        let Some(lines) = self.lines.get_mut(&(stream, seat.group)) else { return };
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            match outlet.goes_on(writer) {
                true => outlet.put(writer, b"", line),
                false => lines.push(seat.rank, (line, ()), since),
            }
        }
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
        lines.release_source(seat.rank, |group| {
            put(outlet, &self.labels, (stream, seat.group), &group);
        });
        let label = self.labels.text(seat.group, &[seat.rank], clock::now());
        outlet.put(Writer::Rank(seat, stream), label.as_bytes(), text);
    }

    /// The stream of a rank has ended.
    pub(crate) fn close(&mut self, stream: Stream, seat: StreamOwner, outlet: &mut Outlet) {
        let key = (stream, seat.group);
        let Some(lines) = self.lines.get_mut(&key) else { return outlet.put_end(seat, stream) };
        let follows = lines.follow(seat.rank, || StreamEnd);
        lines.close(seat.rank);
        self.release(key, outlet);
        if !follows {
            outlet.put_end(seat, stream);
        }
        if self.lines.get(&key).is_some_and(Collapse::is_over) {
            self.lines.remove(&key);
        }
    }

    /// Hands out the lines of a job that need not wait any longer.
    pub(crate) fn release(&mut self, key: (Stream, u32), outlet: &mut Outlet) {
        if let Some(lines) = self.lines.get_mut(&key) {
            lines.release(clock::now(), |group| put(outlet, &self.labels, key, &group));
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
        let of_stream = self.lines.iter().filter(|((of, _), _)| *of == stream);
        let is_due = |lines: &RankLines| lines.deadline().is_some_and(|at| at <= now);
        let due = of_stream.filter(|(_, lines)| is_due(lines)).map(|(key, _)| *key);
        for key in Vec::from_iter(due) {
            self.release(key, outlet);
        }
    }
}

fn put(
    outlet: &mut Outlet,
    labels: &Labels,
    (stream, group): (Stream, u32),
    lines: &Group<(), StreamEnd>,
) {
    let Some(&rank) = lines.sources.first() else { return };
    if outlet.is_of_node() {
        outlet.put_shared((group, stream), &lines.sources, (&lines.line, lines.since));
    } else {
        let label = labels.text(group, &lines.sources, clock::now());
        let writer = Writer::Rank(StreamOwner { group, rank }, stream);
        outlet.put(writer, label.as_bytes(), &lines.line);
    }
    for (rank, StreamEnd) in &lines.followers {
        outlet.put_end(StreamOwner { group, rank: *rank }, stream);
    }
}

/// Without it the number of ranks behind a line would be unknown.
const LABEL: &str = "[%r] ";
