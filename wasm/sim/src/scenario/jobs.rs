//! Jobs of the ranks.

use super::{Dialect, PMIX, Scenario, ScenarioError};
use pmi_core::ids::KvsName;

/// A job besides the first one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobPlan {
    /// The name of its key-value space, which a spawn requests.
    pub name: String,
    /// The first of its ranks, as they are numbered through all jobs.
    pub first: u32,
    /// Number of its ranks.
    pub size: u32,
    /// True if it starts only when a rank spawns it.
    pub is_spawned: bool,
}

/// A rank's place in its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Home {
    /// Its job, from 0.
    pub job: usize,
    /// The first rank of the job, as they are numbered through all jobs.
    pub first: u32,
    /// Number of ranks of the job.
    pub size: u32,
}

impl Scenario {
    /// All jobs in order.
    pub fn all_jobs(&self) -> impl Iterator<Item = JobPlan> {
        let size = self.jobs.first().map_or(self.ranks, |job| job.first);
        let first = JobPlan { name: FIRST_JOB.into(), first: 0, size, is_spawned: false };
        std::iter::once(first).chain(self.jobs.iter().cloned())
    }

    /// The place of `rank` in its job.
    pub fn home(&self, rank: u32) -> Home {
        let after = self.jobs.iter().take_while(|job| job.first <= rank).count();
        match after.checked_sub(1).and_then(|at| self.jobs.get(at)) {
            Some(job) => Home { job: after, first: job.first, size: job.size },
            None => {
                let size = self.jobs.first().map_or(self.ranks, |job| job.first);
                Home { job: 0, first: 0, size }
            }
        }
    }

    /// Checks that the jobs cover the ranks, and that all of them can be played.
    ///
    /// # Errors
    ///
    /// The invalid job, and the remedy.
    pub(crate) fn check_jobs(&self) -> Result<(), ScenarioError> {
        let error = |what| Err(ScenarioError { line: 0, what });
        let uses_pmix = |rank: u32| self.plan(rank).dialect == Dialect::Pmix;
        if !PMIX && (0..self.ranks).any(uses_pmix) {
            return error("this build has no PMIx".into());
        }
        let mut next = self.jobs.first().map_or(self.ranks, |job| job.first);
        if next == 0 {
            return error("the first job has no ranks; the others begin behind it".into());
        }
        for (at, job) in self.jobs.iter().enumerate() {
            let name = &job.name;
            let is_taken =
                name == FIRST_JOB || self.jobs.iter().take(at).any(|other| other.name == *name);
            if is_taken || KvsName::new(name.as_bytes()).is_err() {
                return error(format!("`{name}` cannot be the name of one more job"));
            }
            if job.first != next || job.size == 0 {
                return error(format!(
                    "job {name} begins with rank {}, since jobs stand in a row without a gap",
                    next
                ));
            }
            next = next.saturating_add(job.size);
        }
        match next == self.ranks {
            true => Ok(()),
            false => error(format!("the last job ends with rank {}", self.ranks.saturating_sub(1))),
        }
    }
}

impl Home {
    /// Its rank in its own job.
    pub const fn own(self, rank: u32) -> u32 {
        rank.saturating_sub(self.first)
    }

    /// The ranks of the job.
    pub const fn ranks(self) -> std::ops::Range<u32> {
        self.first..self.first + self.size
    }
}

/// The name of the first job.
pub const FIRST_JOB: &str = "kvs_sim";
