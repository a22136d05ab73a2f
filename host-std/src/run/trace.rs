//! The trace of a run on several nodes: nodes send the records of their ranks, and the head adds its own.

use super::Run;
use crate::launch::plan::job::Plan;
use crate::link::message::ToNode;
use crate::settings::Tracing;
use crate::trace::{TraceSource, Tracer, head};
use pmi_trace::file::{RecordReader, write_record};
use pmi_trace::record::PMIX_SESSION;
use pmi_trace::{Content, JobFacts, Record};
use pmi_tree::{Destination, NodeId};
use std::collections::BTreeMap;

/// Recorder of the head.
pub(super) struct HeadTrace {
    tracer: Tracer,
    connections: ConnectionNumbers,
    /// Node at which pages connect, if they may, and whether any of them observes the run.
    observers: Option<(NodeId, bool)>,
}

/// Numbers of connections in the trace of the run: each node counts its own from 0.
#[derive(Debug, Default)]
struct ConnectionNumbers {
    given: BTreeMap<(NodeId, u32), u32>,
    /// Those that are closed, of PMI and of PMIx.
    free: [Vec<u32>; 2],
    next: [u32; 2],
}

impl HeadTrace {
    /// Opens the trace that the settings request, or that pages may observe, which connect at the node
    /// `observers`; `None` without either.
    ///
    /// # Errors
    ///
    /// A message for the user, with the remedy.
    pub(super) fn open(
        settings: &Tracing,
        plan: &Plan,
        observers: Option<NodeId>,
    ) -> Result<Option<Self>, String> {
        if !settings.is_requested() && observers.is_none() {
            return Ok(None);
        }
        // Reports about single ranks are made by their nodes, which have the last messages.
        let mut tracer = Tracer::new(observers.map_or(0, |_| settings.ring));
        tracer.start(settings, head(plan, facts(plan, (0, None))))?;
        let observers = observers.map(|node| (node, false));
        Ok(Some(Self { tracer, connections: ConnectionNumbers::default(), observers }))
    }

    /// Adds a job that a rank of `spawner` has spawned, or a tool.
    pub(super) fn add_spawned(&mut self, plan: &Plan, job: u32, spawner: Option<u32>) {
        self.tracer.add_job(facts(plan, (job, spawner)), true);
    }

    /// Adds records of a node, whose times begin at `zero_ns` by the clock of the head. Returns false if they
    /// are malformed.
    pub(super) fn add_records(&mut self, from: NodeId, zero_ns: i64, records: &[u8]) -> bool {
        let offset_ns = zero_ns.saturating_sub_unsigned(self.tracer.zero_ns());
        let mut reader = RecordReader::of_records(records);
        for record in reader.by_ref() {
            let Record { time_ns, job, rank, session, what } = record;
            // Every node adds a spawned job, and the head has added it once.
            if matches!(what, Content::Spawned(_)) {
                continue;
            }
            let is_closed = what == Content::Closed;
            let session = session.map(|own| self.connections.number((from, own), is_closed));
            let time_ns = time_ns.saturating_add_signed(offset_ns);
            self.tracer.add_record(TraceSource { job, rank, session }, time_ns, what);
        }
        reader.damage().is_none()
    }

    fn has_pages(&self, node: NodeId) -> bool {
        self.observers.is_some_and(|(of, _)| of == node)
    }

    /// Records the end of the run with this exit code, and waits until the trace is written. Returns a
    /// failure for the user.
    pub(super) fn finish(&mut self, code: u8) -> Option<String> {
        self.tracer.finish(code)
    }
}

impl ConnectionNumbers {
    fn number(&mut self, own: (NodeId, u32), is_closed: bool) -> u32 {
        let mark = own.1 & PMIX_SESSION;
        let kind = usize::from(mark != 0);
        let (free, next) = (&mut self.free[kind], &mut self.next[kind]);
        let number = *self.given.entry(own).or_insert_with(|| {
            free.pop().unwrap_or_else(|| {
                *next += 1;
                *next - 1
            })
        });
        if is_closed {
            self.given.remove(&own);
            free.push(number);
        }
        number | mark
    }
}

/// Sends a page that begins to observe the run the trace so far. False if the node has no pages.
pub(super) fn observe(run: &mut Run, from: NodeId, page: u32) -> bool {
    send_records(run);
    let Some(trace) = run.reports.trace.as_mut().filter(|trace| trace.has_pages(from)) else {
        return false;
    };
    trace.tracer.keep_unsent(true);
    trace.observers = Some((from, true));
    let so_far = trace.tracer.recent();
    for piece in so_far.chunks(PIECE_BYTES) {
        let trace = piece.to_vec();
        run.send(Destination::Node(from), ToNode::RecentRecords { page, trace });
    }
    true
}

/// Sends no more records, since no page observes the run. False if the node has no pages.
pub(super) fn end_observation(run: &mut Run, from: NodeId) -> bool {
    let Some(trace) = run.reports.trace.as_mut().filter(|trace| trace.has_pages(from)) else {
        return false;
    };
    trace.tracer.keep_unsent(false);
    trace.observers = Some((from, false));
    true
}

/// Sends pages the records since the last call.
fn send_records(run: &mut Run) {
    while let Some(trace) = &mut run.reports.trace
        && let Some((node, true)) = trace.observers
        && let Some(records) = trace.tracer.take_unsent()
    {
        // A node that is lost has no pages any more.
        if run.nodes.get(node).is_some_and(|node| !node.is_lost) {
            run.send(Destination::Node(node), ToNode::Records(records));
        }
    }
}

/// Sends pages the last records, with the exit code of the run, before the nodes are dismissed.
pub(super) fn end_records(run: &mut Run) {
    send_records(run);
    let code = run.exit_code();
    if let Some(HeadTrace { tracer, observers: Some((node, true)), .. }) = &run.reports.trace {
        let (node, mut records) = (*node, Vec::new());
        let what: Content = Content::Ended { code };
        let (job, time_ns) = (0, tracer.now_ns());
        write_record(&Record { time_ns, job, rank: None, session: None, what }, &mut records);
        run.send(Destination::Node(node), ToNode::Records(records));
    }
}

/// Writes a report to the user, and records it.
pub(super) fn report(run: &mut Run, text: String) {
    if let Some(trace) = &mut run.reports.trace {
        let what = Content::Report { text: text.clone() };
        trace.tracer.event(TraceSource::job(0), what);
    }
    run.io.report(text);
}

/// Writes the trace, also to pages, and prints the messages it shows.
pub(super) fn flush(run: &mut Run) {
    send_records(run);
    let Some(trace) = &mut run.reports.trace else { return };
    for message in trace.tracer.take_shown(run.io.outputs.is_flushed()) {
        run.io.report(message);
    }
    if let Some(trouble) = trace.tracer.flush() {
        run.io.report(trouble);
    }
}

/// Size of a piece of the trace so far; `--trace-ring` may make it longer than a message.
const PIECE_BYTES: usize = 1 << 20;

fn facts(plan: &Plan, (job, spawner): (u32, Option<u32>)) -> JobFacts {
    JobFacts { job, name: plan.kvsname.clone(), ranks: plan.ranks, spawner }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_of_all_nodes_have_numbers_of_their_own() {
        let mut numbers = ConnectionNumbers::default();
        let (one, two) = (NodeId(1), NodeId(2));
        assert_eq!(numbers.number((one, 0), false), 0);
        assert_eq!(numbers.number((two, 0), false), 1);
        assert_eq!(numbers.number((two, PMIX_SESSION), false), PMIX_SESSION);
        assert_eq!(numbers.number((one, PMIX_SESSION | 3), false), PMIX_SESSION | 1);
        assert_eq!(numbers.number((one, 0), true), 0);
        // A number is used again after its connection has closed.
        assert_eq!(numbers.number((one, 5), false), 0);
        assert_eq!(numbers.number((one, 0), false), 2);
        assert_eq!(numbers.next, [3, 2]);
    }
}
