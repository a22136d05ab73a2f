//! Entries of lists of processes that stand for several: all ranks of a job, or those of a node.
//!
//! | rank | processes |
//! |---|---|
//! | `WILDCARD` | those of the namespace |
//! | `LOCAL_PEERS` | those of the namespace on the node of the process that has written the list |
//! | `LOCAL_NODE` | those of every namespace there; tools are none of them |

use super::procs::ListedProc;
use crate::ids::{JobId, ProcId};
use crate::server::Storage;
use crate::server::shared::Shared;
use crate::wire::pmix::{Proc, WILDCARD, ranks};

/// True for a rank that stands for the processes of a node.
pub(super) const fn is_of_node(rank: u32) -> bool {
    matches!(rank, ranks::LOCAL_NODE | ranks::LOCAL_PEERS)
}

impl<S: Storage> Shared<S> {
    /// True if an entry of a list stands for `proc`. `writer` has written the list.
    pub(super) fn stands_for(&self, entry: Proc<'_>, writer: Option<ProcId>, proc: ProcId) -> bool {
        let is_named =
            self.job(proc.job).is_some_and(|job| *job.name().as_bytes() == *entry.nspace);
        match entry.rank {
            WILDCARD => is_named,
            ranks::LOCAL_PEERS => is_named && self.is_beside(writer, proc),
            ranks::LOCAL_NODE => self.is_beside(writer, proc) && !self.is_tool(proc.job),
            rank => is_named && rank == proc.rank.0,
        }
    }

    /// The processes that an entry of this job stands for, if its rank stands for those of a node.
    pub(super) fn of_node(
        &self,
        job: Option<JobId>,
        rank: u32,
        writer: ProcId,
    ) -> impl Iterator<Item = ListedProc> {
        let is_meant = move |proc: &ProcId| match rank {
            ranks::LOCAL_PEERS => job == Some(proc.job) && self.is_beside(Some(writer), *proc),
            ranks::LOCAL_NODE => self.is_beside(Some(writer), *proc) && !self.is_tool(proc.job),
            _ => false,
        };
        self.procs().filter(is_meant).map(ListedProc::from)
    }

    /// True if two entries, each with the process that has written it, stand for a common process.
    pub(super) fn have_common(&self, [one, other]: [(Proc<'_>, Option<ProcId>); 2]) -> bool {
        let ranks = [one.0.rank, other.0.rank];
        if ranks.into_iter().any(is_of_node) {
            let has = |(entry, writer), proc| self.stands_for(entry, writer, proc);
            return self.procs().any(|proc| has(one, proc) && has(other, proc));
        }
        one.0.nspace == other.0.nspace && (ranks.contains(&WILDCARD) || ranks[0] == ranks[1])
    }

    /// All processes of this node, and those that connect by themselves.
    fn procs(&self) -> impl Iterator<Item = ProcId> {
        let jobs = self
            .namespaces()
            .filter_map(move |namespace| self.job(namespace.job).zip(Some(namespace.job)));
        jobs.flat_map(|(of, job)| of.ranked().map(move |(rank, _)| ProcId { job, rank }))
    }

    fn is_beside(&self, writer: Option<ProcId>, proc: ProcId) -> bool {
        let node = writer.and_then(|writer| self.node(writer));
        node.is_some() && node == self.node(proc)
    }

    fn is_tool(&self, job: JobId) -> bool {
        self.pmix.namespace(job).is_some_and(|namespace| namespace.is_tool)
    }
}
