//! Start and end of every rank of a run, and the reports on them when the run is over: sentences for
//! users ([`text`]), a report for programs ([`json`]).

pub(crate) mod json;
pub(crate) mod text;

use crate::launch::plan::Plan;
use crate::launch::process::ProcessEnd;
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
