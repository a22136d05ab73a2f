//! Detection of ranks that ran as singletons: many copies of "rank 0 of 1" instead of one job.

use super::jobs::Jobs;
use crate::launch::plan::Plan;
use crate::report;
use crate::server::service::Service;
use crate::verdict::PmiPhase;
use pmi_core::ids::JobId;
use pmi_host_base::library::Libraries;
use pmi_host_base::program::Program;
use pmi_host_base::ranges::Ranks;

/// Reports of ranks that are linked with MPI, have exited well and never connected. Each was a job of its own
/// then, which is never intended.
pub(super) fn reports(jobs: &Jobs, service: &Service) -> Vec<String> {
    jobs.iter().flat_map(|(id, job)| of_job(id, &job.plan, service)).collect()
}

fn of_job(id: JobId, plan: &Plan, service: &Service) -> Vec<String> {
    // A singleton is correct for a job of one rank.
    if plan.ranks < 2 {
        return Vec::new();
    }
    let is_silent = |rank: &u32| {
        plan.local_rank(*rank).is_some() && service.phase(id, *rank) == PmiPhase::Silent
    };
    let mut first = 0;
    let parts = plan.parts.iter().enumerate().filter_map(|(number, part)| {
        let ranks = first..first + part.ranks;
        first = ranks.end;
        if !plan.offer(number).may_link_mpi {
            return None;
        }
        let silent: Ranks = ranks.filter(is_silent).collect();
        if silent.is_empty() {
            return None;
        }
        let Program { path, directory, .. } = &part.program;
        // A relative path is relative to the directory the program starts in.
        let path = directory.as_ref().map_or(path.clone(), |directory| directory.join(path));
        let libraries = Libraries::of(&path)?;
        let (mpi, family) = (libraries.mpi()?, libraries.family()?);
        Some(report::singletons(plan, &silent, part.program.name.display(), mpi, family))
    });
    parts.collect()
}
