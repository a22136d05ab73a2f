//! Queries of PMIx clients and tools for processes: all nodes are asked for the state of theirs.

use super::{Run, tools};
use crate::link::message::ToNode;
use crate::operation::{Asker, ControlMessage, OperationReply, ProcessRow};
use pmi_core::ids::SessionId;
use pmi_core::wire::pmix::names::{Status, proc_state};
use pmi_host_os::clock;
use pmi_tree::{Destination, MESSAGE_BYTES_MAX, NodeId};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Queries that wait for the state of processes.
#[derive(Debug, Default)]
pub(super) struct Queries {
    /// Queries that have come since the nodes were asked.
    waiting: Vec<Query>,
    asked: Option<AskedQueries>,
    /// Number of the last request to the nodes.
    number: u32,
}

/// A query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) from: QueryOrigin,
    /// True if it is for the memory of processes.
    pub(super) wants_memory: bool,
}

/// Origin of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueryOrigin {
    /// A client of this node.
    Node(NodeId, Asker),
    /// A tool: its session, and the number of the request there.
    Tool(SessionId, usize),
    /// A client whose request for job control is answered when all nodes have executed it: messages to all
    /// nodes arrive in their order, so each has done that when it reports its processes.
    Control(NodeId, Asker),
    /// The same for a tool.
    ToolControl(SessionId, usize),
}

/// Queries that are answered when all nodes have reported.
#[derive(Debug)]
struct AskedQueries {
    queries: Vec<Query>,
    /// Nodes that have not answered.
    awaited: BTreeSet<NodeId>,
    rows: Vec<(NodeId, Vec<ProcessRow>)>,
    /// Time at which the answers so far are used.
    until: Instant,
}

impl Queries {
    /// Adds the state of the processes of a node; ignored unless it is awaited.
    fn add(&mut self, node: NodeId, number: u32, rows: Vec<ProcessRow>) {
        if let Some(asked) = self.asked.as_mut().filter(|_| number == self.number)
            && asked.awaited.remove(&node)
        {
            asked.rows.push((node, rows));
        }
    }

    /// Stops waiting for a node that is lost.
    pub(super) fn remove_node(&mut self, node: NodeId) {
        if let Some(asked) = &mut self.asked {
            asked.awaited.remove(&node);
        }
    }

    /// Asks these nodes if no other request is open and a query waits. Returns the message for them.
    fn ask(&mut self, now: Instant, nodes: impl Iterator<Item = NodeId>) -> Option<OperationReply> {
        if self.asked.is_some() || self.waiting.is_empty() {
            return None;
        }
        let queries = std::mem::take(&mut self.waiting);
        let wants_memory = queries.iter().any(|query| query.wants_memory);
        self.number = self.number.wrapping_add(1);
        let (awaited, until) = (nodes.collect(), now + ANSWER_WITHIN);
        self.asked = Some(AskedQueries { queries, awaited, rows: Vec::new(), until });
        Some(OperationReply::ListProcesses { number: self.number, wants_memory })
    }

    /// True if the answer of a node is awaited.
    fn awaits_nodes(&self) -> bool {
        self.asked.as_ref().is_some_and(|asked| !asked.awaited.is_empty())
    }

    /// Queries whose nodes have all reported, or have had enough time.
    fn take_done(&mut self, now: Instant) -> Option<AskedQueries> {
        self.asked.take_if(|asked| asked.awaited.is_empty() || now >= asked.until)
    }

    /// Time of the next [`check`] without an answer.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.asked.as_ref().map(|asked| asked.until)
    }
}

/// Accepts a query.
pub(super) fn open(run: &mut Run, query: Query) {
    run.clients.queries.waiting.push(query);
    check(run, clock::now());
}

/// Has the nodes execute job control, and answers its requester then.
pub(super) fn control(run: &mut Run, from: QueryOrigin, message: ControlMessage) {
    run.send_all(ToNode::Operation(OperationReply::Control(message)));
    open(run, Query { from, wants_memory: false });
}

/// Handles the state of the processes of a node.
pub(super) fn handle_rows(run: &mut Run, from: NodeId, number: u32, rows: Vec<ProcessRow>) {
    run.clients.queries.add(from, number, rows);
    check(run, clock::now());
}

/// Answers the queries that wait for no node any more, and asks for the next ones.
pub(super) fn check(run: &mut Run, now: Instant) {
    loop {
        if let Some(AskedQueries { queries, rows, .. }) = run.clients.queries.take_done(now) {
            let rows = merge(run, rows);
            queries.into_iter().for_each(|query| answer(run, query, rows.clone()));
        }
        let is_listening = !run.jobs.is_unsent() && !run.ending.is_leaving();
        let there = run.nodes.iter().filter(|(_, node)| is_listening && !node.is_lost);
        let there = there.map(|(node, _)| node);
        let Some(request) = run.clients.queries.ask(now, there) else { return };
        // Without a node that listens, the head knows as much as there is to know.
        if run.clients.queries.awaits_nodes() {
            return run.send_all(ToNode::Operation(request));
        }
    }
}

/// Rows of all processes that were started: those of nodes that have not reported are made from the knowledge
/// of the head.
fn merge(run: &Run, rows: Vec<(NodeId, Vec<ProcessRow>)>) -> Vec<ProcessRow> {
    let mut all = Vec::new();
    let mut reported = BTreeSet::new();
    for (node, rows) in rows {
        let is_its = |row: &ProcessRow| run.nodes.number_on(node, (row.job, row.rank)).is_some();
        for row in rows.into_iter().filter(is_its) {
            reported.insert((row.job, row.rank));
            all.push(row);
        }
    }
    let others = run.nodes.processes().filter(|(process, _)| !reported.contains(&process.owner));
    all.extend(others.map(|(process, is_running)| {
        let (job, rank) = process.owner;
        let state = if is_running { proc_state::UNDEF } else { proc_state::TERMINATED };
        ProcessRow { job, rank, pid: process.pid, state, exit_code: None, memory_bytes: None }
    }));
    all
}

fn answer(run: &mut Run, query: Query, rows: Vec<ProcessRow>) {
    match query.from {
        QueryOrigin::Node(node, asker) => {
            let rows = Some(rows).filter(|rows| rows.len() <= ROWS_MAX);
            let reply = OperationReply::Processes { asker, rows };
            run.send(Destination::Node(node), ToNode::Operation(reply));
        }
        QueryOrigin::Tool(session, exchange) => tools::answer_query(run, (session, exchange), rows),
        QueryOrigin::Control(node, asker) => {
            let reply = OperationReply::Controlled { asker };
            run.send(Destination::Node(node), ToNode::Operation(reply));
        }
        QueryOrigin::ToolControl(session, exchange) => {
            let mut calls = run.clients.server.service.pmix_calls();
            calls.answer((session, exchange), Status::SUCCESS);
        }
    }
}

/// Number of processes that a message describes, at most.
const ROWS_MAX: usize = MESSAGE_BYTES_MAX / ROW_BYTES_MAX - 1;

/// Largest size of a row: three numbers of 32 bits, one of 64 bits, and bytes.
const ROW_BYTES_MAX: usize = 3 * 5 + 1 + 10 + 3;

/// Longest wait for an answer. A node answers between two turns of its event loop.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_the_largest_size_fit_into_a_message() {
        let row = ProcessRow {
            job: u32::MAX,
            rank: u32::MAX,
            pid: i32::MIN,
            state: u8::MAX,
            exit_code: Some(u8::MAX),
            memory_bytes: Some(u64::MAX),
        };
        let len = |count| {
            let (asker, rows) = (Asker { session: 0, exchange: 0 }, Some(vec![row.clone(); count]));
            ToNode::Operation(OperationReply::Processes { asker, rows }).body().len()
        };
        assert!(len(2) - len(1) <= ROW_BYTES_MAX && len(1) < 2 * ROW_BYTES_MAX);
    }

    fn query(number: u32) -> Query {
        let asker = Asker { session: number, exchange: 0 };
        Query { from: QueryOrigin::Node(NodeId(1), asker), wants_memory: number == 2 }
    }

    #[test]
    fn later_queries_wait_for_a_later_state() {
        let (mut all, now) = (Queries::default(), clock::now());
        let nodes = || [NodeId(1), NodeId(2)].into_iter();
        assert_eq!(all.ask(now, nodes()), None);
        all.waiting.push(query(1));
        let request = OperationReply::ListProcesses { number: 1, wants_memory: false };
        assert_eq!(all.ask(now, nodes()), Some(request));
        all.waiting.push(query(2));
        assert_eq!(all.ask(now, nodes()), None);
        all.add(NodeId(1), 1, Vec::new());
        all.add(NodeId(1), 1, Vec::new());
        all.add(NodeId(2), 7, Vec::new());
        assert!(all.take_done(now).is_none());
        all.remove_node(NodeId(2));
        let done = all.take_done(now).unwrap();
        assert_eq!((done.queries, done.rows.len()), (vec![query(1)], 1));
        let request = OperationReply::ListProcesses { number: 2, wants_memory: true };
        assert_eq!(all.ask(now, nodes()), Some(request));
        let late = all.take_done(all.deadline().unwrap()).unwrap();
        assert_eq!((late.queries, late.rows.len()), (vec![query(2)], 0));
        assert_eq!(all.deadline(), None);
    }
}
