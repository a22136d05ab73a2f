//! Connections of ranks, and the clients behind them.

use super::flush::Traffic;
use super::loaded::LoadedLibraries;
use crate::numbers::index;
use crate::verdict::PmiPhase;
use pmi_core::ids::{JobId, Rank, SessionId};
use std::net::SocketAddr;

/// Connections of the ranks of all jobs.
#[derive(Debug, Default)]
pub(super) struct RankConns {
    /// By job, then by rank.
    by_job: Vec<Vec<RankConn>>,
    /// MPI libraries that ranks have loaded.
    loaded: LoadedLibraries,
}

/// Per-rank connection bookkeeping.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RankConn {
    pub(super) session: Option<SessionId>,
    /// Address from which the rank has connected.
    pub(super) from: Option<SocketAddr>,
    /// True if the launcher started the rank.
    pub(super) is_local: bool,
    /// Process of a rank with a client of PMI-1 that is unknown yet.
    pub(super) unknown_client: Option<i32>,
    /// Phase of the rank when it was given up.
    pub(super) last_phase: Option<PmiPhase>,
    /// Traffic of its closed connections: until it was given up those of PMIx, of which it may have
    /// several.
    pub(super) last_traffic: Traffic,
}

impl RankConns {
    /// Adds a job of `ranks` ranks without connections.
    pub(super) fn add_job(&mut self, job: JobId, ranks: usize) {
        let place = index(job.0);
        self.by_job.resize_with(self.by_job.len().max(place + 1), Vec::new);
        self.by_job[place] = vec![RankConn::default(); ranks];
    }

    /// Removes a job; false if it was never added.
    pub(super) fn remove_job(&mut self, job: JobId) -> bool {
        let Some(ranks) = self.by_job.get_mut(index(job.0)) else { return false };
        *ranks = Vec::new();
        self.loaded.forget(job);
        true
    }

    /// Identifies the client of PMI-1 of a rank, once. Returns true if it takes a newer PMI-1.
    pub(super) fn identify_newer_client(&mut self, job: JobId, rank: Rank) -> bool {
        let unknown = self.get_mut(job, rank.0).and_then(|conn| conn.unknown_client.take());
        unknown.is_some_and(|pid| self.loaded.takes_newer_pmi1(job, pid))
    }

    pub(super) fn get(&self, job: JobId, rank: u32) -> Option<&RankConn> {
        self.by_job.get(index(job.0))?.get(index(rank))
    }

    pub(super) fn get_mut(&mut self, job: JobId, rank: u32) -> Option<&mut RankConn> {
        self.by_job.get_mut(index(job.0))?.get_mut(index(rank))
    }
}
