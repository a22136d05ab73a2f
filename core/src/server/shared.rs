//! State that the sessions of a server share.

use super::connected_jobs;
#[cfg(feature = "pmix")]
use super::pmix::tables::PmixShared;
use super::storage::{JobOf, JobsOf};
use super::{NO_JOB, Storage};
use crate::error::Misuse;
use crate::ids::JobId;
use crate::storage::Slots;
use crate::store::{Kvs, Visibility};
#[cfg(feature = "pmix")]
use crate::time::Instant;

/// State that requests of all clients share, whatever their protocol.
pub(super) struct Shared<S: Storage> {
    pub(super) jobs: JobsOf<S>,
    /// Published names.
    pub(super) names: S::Kvs,
    /// State of PMIx clients besides their sessions.
    #[cfg(feature = "pmix")]
    pub(super) pmix: PmixShared<S::Pmix>,
    /// Latest time that a call passed in, for fences that PMIx clients enter ahead.
    #[cfg(feature = "pmix")]
    pub(super) now: Instant,
}

impl<S: Storage> Shared<S> {
    pub(super) const fn new(
        jobs: JobsOf<S>,
        names: S::Kvs,
        #[cfg(feature = "pmix")] pmix: PmixShared<S::Pmix>,
    ) -> Self {
        Self {
            jobs,
            names,
            #[cfg(feature = "pmix")]
            pmix,
            #[cfg(feature = "pmix")]
            now: Instant::from_micros(0),
        }
    }

    #[cfg_attr(not(feature = "pmix"), inline(never))]
    pub(super) fn job(&self, id: JobId) -> Option<&JobOf<S>> {
        self.jobs.get(id.0 as usize)
    }

    #[cfg_attr(not(feature = "pmix"), inline(never))]
    pub(super) fn job_mut(&mut self, id: JobId) -> Option<&mut JobOf<S>> {
        self.jobs.get_mut(id.0 as usize)
    }

    /// Removes a job and the names it published; see [`Server::remove_job`](super::Server::remove_job).
    pub(super) fn remove_job(&mut self, job: JobId) -> Result<(), Misuse> {
        let members = self.job(job).ok_or(NO_JOB)?.members();
        if members.iter().any(|member| member.session().is_some()) {
            return Err(Misuse::WrongState { needed: "no session of the job is open" });
        }
        let Self { names, jobs, .. } = self;
        let mut next = names.next(None);
        while let Some(id) = next {
            next = names.next(Some(id));
            if let Some(Visibility::Published(owner)) =
                names.entry(id).map(|entry| entry.visibility)
                && owner.job == job
            {
                names.remove(id);
            }
        }
        connected_jobs::leave(jobs, job);
        jobs.remove(job.0 as usize);
        Ok(())
    }

    /// Numbers that jobs have or had.
    pub(super) fn ids(&self) -> impl Iterator<Item = JobId> + use<S> {
        (0..u32::try_from(self.jobs.end()).unwrap_or(u32::MAX)).map(JobId)
    }
}
