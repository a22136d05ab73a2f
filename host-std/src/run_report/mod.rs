//! Start and end of every rank of a run, and the reports on them when the run is over: sentences for
//! users ([`text`]), and a [`file`] for programs ([`json`]) or CI systems ([`junit`]).

pub(crate) mod file;
mod json;
mod junit;
pub(crate) mod text;

use crate::launch::plan::job::Plan;
use crate::launch::start::process::ProcessEnd;
use crate::server::flush::Traffic;
use crate::verdict::PmiPhase;
use std::rc::Rc;
use std::time::{Instant, SystemTime};

/// Moments of a run, as far as it has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunTimes {
    /// Start of the launcher, by the wall clock.
    pub(crate) began_at: SystemTime,
    /// The same, by the monotonic clock.
    pub(crate) began: Instant,
    /// Start of the last rank of the first job.
    pub(crate) all_started: Option<Instant>,
    /// End of the first rank.
    pub(crate) first_end: Option<Instant>,
    /// End of the last rank.
    pub(crate) last_end: Option<Instant>,
}

/// A run that is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunOutcome<'a> {
    /// Exit code of the launcher.
    pub(crate) exit_code: u8,
    /// Report of the first failure, if there was one.
    pub(crate) failure: Option<&'a str>,
    /// Moments of the run.
    pub(crate) times: &'a RunTimes,
    /// All ranks that were started, in ascending order within each job.
    pub(crate) rows: &'a [RankSummary],
}

impl<'a> RunOutcome<'a> {
    /// The ranks of each job, in the order in which the jobs began.
    fn jobs(&self) -> Vec<Vec<&'a RankSummary>> {
        let mut jobs: Vec<Vec<&RankSummary>> = Vec::new();
        for row in self.rows {
            let is_same = |job: &Vec<&RankSummary>| job[0].plan.kvsname == row.plan.kvsname;
            match jobs.iter_mut().find(|job| is_same(job)) {
                Some(job) => job.push(row),
                None => jobs.push(vec![row]),
            }
        }
        jobs
    }
}

/// A rank in the summary.
#[derive(Clone, Debug)]
pub(crate) struct RankSummary {
    /// Its job.
    pub(crate) plan: Rc<Plan>,
    /// Its rank in it.
    pub(crate) rank: u32,
    /// Its process.
    pub(crate) pid: i32,
    /// Start of the process.
    pub(crate) started: Instant,
    /// Its end; `None` if it was not observed.
    pub(crate) end: Option<RankEnd>,
}

/// The end of a rank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RankEnd {
    /// The moment.
    pub(crate) at: Instant,
    /// Exit code or signal.
    pub(crate) ending: ProcessEnd,
    /// Its PMI phase at that moment.
    pub(crate) phase: PmiPhase,
    /// True if the run was over by then, so that the rank had been asked to terminate, or was killed.
    pub(crate) was_over: bool,
    /// Its messages and bytes, both directions.
    pub(crate) traffic: Traffic,
    /// True if it has called `MPI_Init` without this launcher, which counts as a failure.
    pub(crate) is_singleton: bool,
}

impl RankEnd {
    /// True if the rank ended without an error.
    pub(crate) const fn is_good(&self) -> bool {
        matches!(
            (self.ending, self.phase),
            (ProcessEnd::Exited(0) | ProcessEnd::Unseen, PmiPhase::Silent | PmiPhase::Finalized)
        )
    }
}
