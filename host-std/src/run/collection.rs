//! Requests of the head for the state of all ranks, and their answers. No system calls.

use crate::link::node_report::{NodeReport, ReportRequest, RowsWanted};
use crate::rank_sets;
use crate::watch::graph;
use crate::watch::stall::StallAction;
use crate::watch::table::Table;
use pmi_host_base::ranges::Ranks;
use pmi_tree::NodeId;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Purpose of a request.
#[derive(Debug)]
pub(super) enum Purpose {
    /// Decision whether the run makes progress.
    Progress,
    /// Report of a run without progress: ranks that others wait for are described one by one.
    Missing {
        /// The decision.
        action: StallAction,
        /// The run as of the decision.
        table: Box<Table>,
    },
    /// Table of all ranks for the user.
    All,
    /// Table of ranks that a failure terminates.
    Running {
        /// The ranks of each job that ran before that.
        running: Vec<Ranks>,
    },
    /// Ranks that run when a signal requests the end, for the report of that.
    Interrupt {
        /// The report so far.
        report: String,
    },
    /// Table of ranks that run although a signal was forwarded.
    Interrupted,
    /// Answer to status requests.
    Clients,
    /// Variables that nodes decide, for the user.
    Environment,
}

/// A request, with the answers so far.
#[derive(Debug)]
pub(super) struct Collection {
    number: u32,
    pub(super) purpose: Purpose,
    /// Nodes that have not answered.
    awaited: BTreeSet<NodeId>,
    /// Answers, in the order of the nodes.
    pub(super) reports: Vec<(NodeId, NodeReport)>,
    /// Time at which the answers so far are used.
    until: Instant,
}

/// Requests that are not complete: at most one for each purpose.
#[derive(Debug, Default)]
pub(super) struct Collections {
    open: Vec<Collection>,
    /// Number of the last request.
    number: u32,
}

impl Purpose {
    /// Ranks that are to be described one by one.
    fn rows(&self) -> RowsWanted {
        let most = crate::watch::text::ROWS_MAX.try_into().unwrap_or(u32::MAX);
        match self {
            Self::Progress | Self::Interrupt { .. } => RowsWanted::NoRank,
            Self::Missing { table, .. } => {
                let listed = table.jobs.iter().map(|job| {
                    (job.name.clone(), rank_sets::first(&graph::ends(&table.jobs, job), LISTED_MAX))
                });
                RowsWanted::Listed(listed.collect())
            }
            Self::All => RowsWanted::All { most },
            Self::Running { .. } | Self::Interrupted => RowsWanted::Running { most },
            Self::Clients => RowsWanted::All { most: u32::MAX },
            Self::Environment => RowsWanted::Variables,
        }
    }

    /// Longest wait for answers.
    const fn patience(&self) -> Duration {
        match self {
            // The user waits for the effect of a key.
            Self::Interrupt { .. } => AT_ONCE,
            _ => ANSWER_WITHIN,
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl Collections {
    /// Opens a request to these nodes; `None` if there is one with the same purpose.
    pub(super) fn open(
        &mut self,
        now: Instant,
        purpose: Purpose,
        nodes: impl Iterator<Item = NodeId>,
    ) -> Option<ReportRequest> {
        if self.open.iter().any(|other| other.purpose.is_same(&purpose)) {
            return None;
        }
        self.number = self.number.wrapping_add(1);
        let (number, rows) = (self.number, purpose.rows());
        let (awaited, until) = (nodes.collect(), now + purpose.patience());
        self.open.push(Collection { number, purpose, awaited, reports: Vec::new(), until });
        Some(ReportRequest { number, rows })
    }

    /// Adds the answer of a node; ignored unless it is awaited.
    pub(super) fn add(&mut self, node: NodeId, report: NodeReport) {
        let of_number = |one: &&mut Collection| one.number == report.number;
        if let Some(collection) = self.open.iter_mut().find(of_number)
            && collection.awaited.remove(&node)
        {
            collection.reports.push((node, report));
        }
    }

    /// Stops waiting for a node that is lost.
    pub(super) fn remove_node(&mut self, node: NodeId) {
        for collection in &mut self.open {
            collection.awaited.remove(&node);
        }
    }

    /// A request that is complete, or has waited long enough.
    pub(super) fn take_done(&mut self, now: Instant) -> Option<Collection> {
        let is_done = |one: &Collection| one.awaited.is_empty() || now >= one.until;
        let mut done = self.open.remove(self.open.iter().position(is_done)?);
        done.reports.sort_by_key(|(node, _)| *node);
        Some(done)
    }

    /// Time of the next [`take_done`](Self::take_done) without an answer.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.open.iter().map(|one| one.until).min()
    }
}

/// Longest delay of a report of a signal.
const AT_ONCE: Duration = Duration::from_millis(200);

/// Longest wait for an answer. A node answers between two turns of its event loop.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// Number of ranks of a job that a report of a run without progress describes, at most.
const LISTED_MAX: usize = crate::watch::text::ROWS_MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use pmi_host_os::clock;

    fn report(number: u32) -> NodeReport {
        NodeReport { number, jobs: Vec::new(), variables: Vec::new() }
    }

    #[test]
    fn request_is_complete_with_the_answers_of_all_nodes_that_are_left() {
        let (mut all, now) = (Collections::default(), clock::now());
        let nodes = || [NodeId(1), NodeId(2), NodeId(3)].into_iter();
        let first = all.open(now, Purpose::Progress, nodes()).unwrap();
        assert_eq!(all.open(now, Purpose::Progress, nodes()), None);
        let second = all.open(now, Purpose::All, nodes()).unwrap();
        assert_ne!(first.number, second.number);
        all.add(NodeId(3), report(first.number));
        all.add(NodeId(3), report(first.number));
        all.add(NodeId(1), report(first.number));
        all.add(NodeId(9), report(first.number));
        assert!(all.take_done(now).is_none());
        all.remove_node(NodeId(2));
        let done = all.take_done(now).unwrap();
        let nodes = Vec::from_iter(done.reports.iter().map(|(node, _)| *node));
        assert_eq!(nodes, [NodeId(1), NodeId(3)]);
        assert!(all.take_done(now).is_none());
        let late = all.take_done(all.deadline().unwrap()).unwrap();
        assert!(matches!(late.purpose, Purpose::All) && late.reports.is_empty());
        all.add(NodeId(1), report(second.number));
        assert_eq!(all.deadline(), None);
    }
}
