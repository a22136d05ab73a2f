//! A rank that failed is reported, by its name, and no other component is.

use super::{Census, Finding};
use crate::event::{ReportedFailure, SimEvent};

/// Failures that the server has reported to its owner.
#[derive(Clone, Debug, Default)]
pub(super) struct Reports {
    reports: Vec<(Option<u32>, ReportedFailure)>,
}

impl Reports {
    pub(super) fn observe(&mut self, event: &SimEvent, census: &Census, found: &mut Vec<Finding>) {
        match event {
            SimEvent::Reported { rank, failure } => {
                self.reports.push((*rank, failure.clone()));
                if let Some(rank) = rank
                    && !is_just(*rank, failure, census)
                {
                    let what =
                        format!("rank {rank} is reported ({failure}), and did not fail like that");
                    found.push(("blamed", what));
                }
            }
            SimEvent::PutTwice { first, second, .. } if first == second && !census.is_wild => {
                let what = format!("the report that two ranks put a key names rank {first} twice");
                found.push(("blamed", what));
            }
            _ => {}
        }
    }

    /// Checks in a quiet world that each failed rank has its report.
    pub(super) fn judge(&self, census: &Census, found: &mut Vec<Finding>) {
        for (rank, facts) in census.all() {
            let is_named = self.names(rank);
            if facts.has_failed() && !is_named {
                let what =
                    format!("rank {rank} has exited without finalize, and no report names it");
                found.push(("named", what));
            }
            // An abort on a link that works must arrive.
            let is_heard = facts.speaks_true() && !facts.is_reset && !facts.by_host;
            if facts.has_aborted && facts.is_open && is_heard && facts.has_ended && !is_named {
                found.push(("named", format!("rank {rank} has aborted, and no report names it")));
            }
        }
    }

    /// True if a report names `rank`.
    pub(super) fn names(&self, rank: u32) -> bool {
        self.named().any(|named| named == Some(rank))
    }

    pub(super) fn named(&self) -> impl Iterator<Item = Option<u32>> {
        self.reports.iter().map(|(rank, _)| *rank)
    }
}

fn is_just(rank: u32, failure: &ReportedFailure, census: &Census) -> bool {
    if census.all().any(|(_, facts)| facts.is_in_disguise()) {
        return true;
    }
    let facts = census.of(rank);
    match failure {
        ReportedFailure::Peer(_) | ReportedFailure::Link(_) => facts.is_blamable(),
        ReportedFailure::Aborted(_) => facts.has_aborted || facts.is_tainted(),
        ReportedFailure::Stuck => facts.may_be_gone() || facts.has_aborted || facts.is_tainted(),
    }
}
