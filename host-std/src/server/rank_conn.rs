//! Connections of ranks, and the clients behind them.

use super::changes::PutPairs;
use super::flush::Traffic;
use super::loaded::LoadedLibraries;
use crate::launch::plan::local_ranks::LocalRanks;
use crate::numbers::index;
use crate::verdict::PmiPhase;
use pmi_core::ids::{JobId, Rank, SessionId};
use std::net::SocketAddr;

/// Connections of the ranks of all jobs.
#[derive(Debug, Default)]
pub(super) struct RankConns {
    /// By job.
    by_job: Vec<JobConns>,
    /// MPI libraries that ranks have loaded.
    loaded: LoadedLibraries,
    /// Pairs that ranks put several at once, for all nodes.
    pub(super) pairs: PutPairs,
}

/// Connections of the ranks of one job that this launcher serves.
#[derive(Debug, Default)]
struct JobConns {
    ranks: LocalRanks,
    /// In the order of the ranks.
    conns: Vec<RankConn>,
}

/// Per-rank connection bookkeeping.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RankConn {
    pub(super) session: Option<SessionId>,
    /// Address from which the rank has connected.
    pub(super) from: Option<SocketAddr>,
    /// True if the launcher started the rank.
    pub(super) is_local: bool,
    /// Process of a rank that the launcher started and that connects to the port: it and its descendants may.
    pub(super) port_process: Option<i32>,
    /// Process of a rank with a client of PMI-1 that is unknown yet.
    pub(super) unknown_client: Option<i32>,
    /// Phase of the rank when it was given up.
    pub(super) last_phase: Option<PmiPhase>,
    /// Traffic of its closed connections: until it was given up those of PMIx, of which it may have
    /// several.
    pub(super) last_traffic: Traffic,
}

impl RankConns {
    /// Adds a job of these ranks without connections.
    pub(super) fn add_job(&mut self, job: JobId, ranks: LocalRanks) {
        let place = index(job.0);
        self.by_job.resize_with(self.by_job.len().max(place + 1), JobConns::default);
        let conns = vec![RankConn::default(); index(ranks.count())];
        self.by_job[place] = JobConns { ranks, conns };
    }

    /// Removes a job; false if it was never added.
    pub(super) fn remove_job(&mut self, job: JobId) -> bool {
        let Some(conns) = self.by_job.get_mut(index(job.0)) else { return false };
        *conns = JobConns::default();
        self.loaded.forget(job);
        true
    }

    /// Identifies the client of PMI-1 of a rank, once. Returns true if it takes a newer PMI-1.
    pub(super) fn identify_newer_client(&mut self, job: JobId, rank: Rank) -> bool {
        let unknown = self.get_mut(job, rank.0).and_then(|conn| conn.unknown_client.take());
        unknown.is_some_and(|pid| self.loaded.takes_newer_pmi1(job, pid))
    }

    /// Processes of all ranks that connect to the port.
    pub(super) fn port_processes(&self) -> impl Iterator<Item = i32> {
        self.by_job.iter().flat_map(|job| &job.conns).filter_map(|conn| conn.port_process)
    }

    pub(super) fn get(&self, job: JobId, rank: u32) -> Option<&RankConn> {
        let JobConns { ranks, conns } = self.by_job.get(index(job.0))?;
        conns.get(index(ranks.local_rank(rank)?))
    }

    pub(super) fn get_mut(&mut self, job: JobId, rank: u32) -> Option<&mut RankConn> {
        let JobConns { ranks, conns } = self.by_job.get_mut(index(job.0))?;
        conns.get_mut(index(ranks.local_rank(rank)?))
    }
}
